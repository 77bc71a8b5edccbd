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

POOL_PLACES = Contract(
    "pool_places",
    "dst[p, c] = the largest of src[p, i, j, c] over the taps 0 <= i < rows, 0 <= j < columns, NaN "
    "before all others, and places[p, c] = place + p place_ps + i place_rs + j place_cs + c "
    "place_channel of the first such tap, for 0 <= p < pixels, 0 <= c < channels. With `more`, "
    "what both hold comes before the taps; else, without a tap, they become the lowest number "
    "and -1",
    (
        Field("src", CONST_POINTER, "tap (0, 0) of pixel 0, channels contiguous"),
        Field("src_ps", INT, "src: from the taps of one output pixel to those of the next"),
        Field("src_rs", INT, "src: from one row of taps to the next"),
        Field("src_cs", INT, "src: from one tap of a row to the next"),
        Field("dst", POINTER, "pixel 0, channels contiguous; does not overlap src"),
        Field("dst_ps", INT, "dst: from one pixel to the next"),
        Field("places", POINTER, "int64_t, pixel 0, channels contiguous; overlaps nothing"),
        Field("places_ps", INT, "places: from one pixel to the next"),
        Field("pixels", INT, "output pixels, >= 0"),
        Field("channels", INT, "channels, >= 0"),
        Field("rows", INT, "rows of taps, >= 0"),
        Field("columns", INT, "taps in a row, >= 0"),
        Field("place", INT, "place of tap (0, 0) of pixel 0, channel 0"),
        Field("place_ps", INT, "from the place of a tap to that of the next pixel's"),
        Field("place_rs", INT, "to that of the next row"),
        Field("place_cs", INT, "to that of the next tap of a row"),
        Field("place_channel", INT, "to that of the next channel"),
        Field("more", INT, "1: the taps are more of those that dst has seen, else 0"),
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
