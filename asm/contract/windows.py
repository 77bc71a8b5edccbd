"""Argument structs of pooling and resampling, which make each pixel from several."""

from __future__ import annotations

from asm.contract.fields import CONST_POINTER, INT, POINTER, Contract, Field

POOL = Contract(
    "pool",
    "dst[p, c] = the largest, or the scaled sum, of src[p, i, j, c] over the taps 0 <= i < rows, "
    "0 <= j < columns, for 0 <= p < pixels, 0 <= c < channels; sums go along the taps of a row, "
    "then over rows, in float for half precision",
    (
        Field("src", CONST_POINTER, "tap (0, 0) of pixel 0, channels contiguous"),
        Field("src_ps", INT, "src: from the taps of one output pixel to those of the next"),
        Field("src_rs", INT, "src: from one row of taps to the next"),
        Field("src_cs", INT, "src: from one tap of a row to the next"),
        Field("dst", POINTER, "pixel 0, channels contiguous; does not overlap src"),
        Field("dst_ps", INT, "dst: from one pixel to the next"),
        Field("pixels", INT, "output pixels, >= 0"),
        Field("channels", INT, "channels, >= 0"),
        Field("rows", INT, "rows of taps, >= 1"),
        Field("columns", INT, "taps in a row, >= 1"),
        Field("kind", INT, "PPLCONV_POOL_*"),
        Field("scale", CONST_POINTER, "one double, read for sums only"),
    ),
)

RESAMPLE = Contract(
    "resample",
    "dst[p, c] = sum over ty of weight_y[ty] * sum over tx of weight_x[p, tx] * "
    "src[rows[ty] + offset_x[p, tx] bytes, c] for 0 <= p < pixels, 0 <= c < channels, "
    "multiply-adds in this order; of the kind PPLCONV_POOL_MAX the largest of (weight_y[ty] * "
    "weight_x[p, tx]) * src, NaN if one is NaN. With taps_y = taps_x = 1 the bits are copied and "
    "weights are not read. Kernels of u8, which serve all bytes, only copy. Weights have the type "
    "of the sums: float for half precision",
    (
        Field("dst", POINTER, "pixel 0, channels contiguous; does not overlap src"),
        Field("dst_ps", INT, "dst: from one pixel to the next"),
        Field("pixels", INT, "output pixels, >= 0"),
        Field("channels", INT, "channels, >= 0"),
        Field("rows", CONST_POINTER, "const char * [taps_y], the rows of src"),
        Field("weight_y", CONST_POINTER, "taps_y weights"),
        Field("taps_y", INT, "rows of src that an output pixel is computed from, >= 1"),
        Field("offset_x", CONST_POINTER, "int64_t [pixels][taps_x], bytes from a row's start"),
        Field("weight_x", CONST_POINTER, "pixels * taps_x weights"),
        Field("taps_x", INT, "pixels of each row that an output pixel is computed from, >= 1"),
        Field("kind", INT, "PPLCONV_POOL_*"),
    ),
)
