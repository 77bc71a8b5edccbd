"""Argument structs of Winograd's transforms, and of direct sums where they overflow."""

from __future__ import annotations

from asm.contract.fields import CONST_POINTER, INT, POINTER, Contract, Field

WINOGRAD_INPUT = Contract(
    "winograd_input",
    "V = B^T d B of neighbouring tiles of F(MR x MR, NR x NR): dst[position][tile][channel], "
    "position = row * t + column of the t x t patch, t = MR + NR - 1; and of other variants with "
    "patches of this size, which have the same points. V of u8 and s8 is int16",
    (
        Field("src", CONST_POINTER, "pixel (0, 0) of the first patch, channels contiguous"),
        Field("src_rs", INT, "src: from one row of the image to the next"),
        Field("src_ps", INT, "src: from one pixel to the next"),
        Field("row_begin", INT, "first row of the patches that is inside the image"),
        Field("row_end", INT, "one past the last; rows outside are not read"),
        Field("column_begin", INT, "first column inside the image, counted from the first patch's"),
        Field("column_end", INT, "one past the last"),
        Field("tiles", INT, "tiles in the row"),
        Field("step", INT, "pixels from one patch to the next: the side of an output tile"),
        Field("channels", INT, "channels, >= 1"),
        Field("dst", POINTER, "position 0 of the first tile, channels contiguous"),
        Field("dst_ts", INT, "dst: from one tile to the next"),
        Field("dst_ps", INT, "dst: from one position to the next"),
        Field(
            "outside",
            INT,
            "value of pixels outside the image, for bytes: a zero point. Kernels of floats use 0",
        ),
    ),
)

WINOGRAD_OUTPUT = Contract(
    "winograd_output",
    "epilogue(A^T M A) of neighbouring tiles of F(MR x MR, NR x NR) into a channels-last image; "
    "M = src[position][tile][channel] as winograd_input orders it. In s32 kernels the transform is "
    "modulo 2^32, each result is divided by the square of the factor in winograd_weights of s16, "
    "and there is no epilogue",
    (
        Field("src", CONST_POINTER, "position 0 of the first tile, channels contiguous"),
        Field("src_ts", INT, "src: from one tile to the next"),
        Field("src_ps", INT, "src: from one position to the next"),
        Field("dst", POINTER, "pixel (0, 0) of the first tile, channels contiguous"),
        Field("dst_rs", INT, "dst: from one row of the image to the next"),
        Field("dst_ps", INT, "dst: from one pixel to the next"),
        Field("rows", INT, "rows of the tiles that are stored, 1 <= rows <= MR"),
        Field("columns", INT, "columns stored over all tiles, at least one of the last tile"),
        Field("tiles", INT, "tiles in the row"),
        Field("channels", INT, "channels, >= 1"),
        Field("bias", CONST_POINTER, "one element per channel, by flag BIAS_COLUMN"),
        Field("residual", CONST_POINTER, "like dst, by flag"),
        Field("residual_rs", INT, "residual: from one row to the next"),
        Field("residual_ps", INT, "residual: from one pixel to the next"),
        Field("clip", CONST_POINTER, "two elements, low and high, by flag"),
        Field("flags", INT, "PPLCONV_* bits"),
        Field(
            "spoiled",
            POINTER,
            "int64_t: set to 1 if a stored output is infinite or NaN before the epilogue, and "
            "perhaps if squares of outputs would overflow; else untouched, and by s32 kernels",
        ),
    ),
)

DIRECT_SUMS = Contract(
    "direct_sums",
    "the outputs of one tile whose `sums` are infinite or NaN, and no others, as direct sums with "
    "stride 1: one chain of multiply-adds over (input channel, kh, kw) in ascending order, taps on "
    "padding left out, and the epilogue",
    (
        Field("sums", CONST_POINTER, "of pixel (0, 0) before the epilogue, channels contiguous"),
        Field("sums_rs", INT, "sums: from one row of pixels to the next"),
        Field("sums_ps", INT, "sums: from one pixel to the next"),
        Field("src", CONST_POINTER, "pixel that tap (0, 0) of output (0, 0) reads, first channel"),
        Field("src_bs", INT, "src: from one block of input channels to the next"),
        Field("src_rs", INT, "src: from one row of the image to the next"),
        Field("src_ps", INT, "src: from one pixel to the next"),
        Field("block", INT, "input channels in a block, neighbours in memory, >= 1"),
        Field("row_begin", INT, "first row inside the image, counted from src's"),
        Field("row_end", INT, "one past the last"),
        Field("column_begin", INT, "first column inside the image, counted from src's"),
        Field("column_end", INT, "one past the last"),
        Field("weights", CONST_POINTER, "contiguous (channels, ic, kh, kw), at any address"),
        Field("ic", INT, "input channels of the group"),
        Field("kh", INT, "taps down, >= 1"),
        Field("kw", INT, "taps across, >= 1"),
        Field("halves", INT, "1: src and weights are float16, 2: bfloat16, 0: elements"),
        Field("dst", POINTER, "pixel (0, 0), channels contiguous"),
        Field("dst_rs", INT, "dst: from one row of the image to the next"),
        Field("dst_ps", INT, "dst: from one pixel to the next"),
        Field("rows", INT, "rows of pixels, 1 <= rows <= 6"),
        Field("columns", INT, "pixels of a row, 1 <= columns <= 6"),
        Field("channels", INT, "output channels, >= 1"),
        Field("bias", CONST_POINTER, "one element per channel, by flag BIAS_COLUMN"),
        Field("residual", CONST_POINTER, "like dst, by flag"),
        Field("residual_rs", INT, "residual: from one row to the next"),
        Field("residual_ps", INT, "residual: from one pixel to the next"),
        Field("clip", CONST_POINTER, "two elements, low and high, by flag"),
        Field("flags", INT, "PPLCONV_* bits"),
    ),
)

WINOGRAD_WEIGHTS = Contract(
    "winograd_weights",
    "U = G g G^T of weights (oc, ic, NR, NR) for F(MR x MR, NR x NR), in double precision and "
    "rounded once: dst[position][panel][channel][panel_width], zero beyond oc_end and ic. Kernels "
    "of s16 use the smallest multiple of G without fractions, and "
    "dst[position][panel][channel / 2][panel_width][2]",
    (
        Field("src", CONST_POINTER, "contiguous weights of the group"),
        Field("dst", POINTER, "position 0 of panel 0"),
        Field("dst_ps", INT, "dst: from one position to the next"),
        Field("oc_begin", INT, "first output channel, a multiple of panel_width"),
        Field("oc_end", INT, "one past the last output channel"),
        Field("ic", INT, "input channels of the group"),
        Field("ic_padded", INT, "input channels in dst, >= ic; even for s16"),
        Field("panel_width", INT, "output channels in a panel"),
    ),
)
