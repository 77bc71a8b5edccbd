"""Argument structs of packing: operands into the order that loops read, and results back."""

from __future__ import annotations

from asm.contract.fields import CONST_POINTER, INT, POINTER, Contract, Field

PACK_PIXELS = Contract(
    "pack_pixels",
    "im2col of a segment of output pixels from channel planes: the runs are copied once for "
    "each channel; lanes of a run that lie outside the image become zero",
    (
        Field("src", CONST_POINTER, "plane of the first channel"),
        Field("src_cs", INT, "from one channel plane to the next"),
        Field("dst", POINTER, "packed pixels of the first channel"),
        Field("dst_cs", INT, "from one channel's packed pixels to the next"),
        Field("channels", INT, "channels to pack"),
        Field("runs", CONST_POINTER, "struct pplconv_run [run_count]"),
        Field("run_count", INT, "runs of one channel"),
        Field("stride", INT, "input columns from one output pixel to the next"),
    ),
)

PACK_ROWS = Contract(
    "pack_rows",
    "im2col of a segment of output pixels from a channels-last image: dst[pixel][tap][channel], "
    "restricted to k_begin <= k < k_end where k = (kh, kw, channel); taps beside the image are "
    "`fill`, of floats 0",
    (
        Field("src", CONST_POINTER, "first image, first channel"),
        Field("src_ns", INT, "from one image to the next"),
        Field("src_ps", INT, "from one pixel to the next, past channels that are not packed"),
        Field("dst", POINTER, "packed rows, at the place of k_begin"),
        Field("dst_rs", INT, "from one packed row to the next"),
        Field("dst_ts", INT, "dst: from one tap to the next, >= the bytes of channels"),
        Field("first", INT, "index of the first output pixel, counted over all images"),
        Field("pixels", INT, "output pixels to pack"),
        Field("channels", INT, "neighbouring channels that are packed"),
        Field("k_begin", INT, "first k"),
        Field("k_end", INT, "one past the last k"),
        Field("geometry", CONST_POINTER, "struct pplconv_geometry"),
        Field(
            "fill",
            INT,
            "padding, as the bits of an element: a zero point. Only kernels of narrow types read "
            "it; kernels of floats write zeros",
        ),
    ),
)

PACK_CHANNELS = Contract(
    "pack_channels",
    "channel planes to pixels: dst[row, column, c] = src[c, row, column] for 0 <= c < channels, "
    "and zero for channels <= c < fill",
    (
        Field("src", CONST_POINTER, "plane of the first channel"),
        Field("src_cs", INT, "src: from one channel plane to the next"),
        Field("src_rs", INT, "src: from one image row to the next"),
        Field("dst", POINTER, "first pixel; the channels of a pixel lie side by side"),
        Field("dst_rs", INT, "dst: from one image row to the next"),
        Field("dst_ps", INT, "dst: from one pixel to the next"),
        Field("rows", INT, "image rows"),
        Field("columns", INT, "pixels in a row"),
        Field("channels", INT, "channels of src, >= 0"),
        Field("fill", INT, "elements written of each pixel, >= channels and >= 1"),
    ),
)

PAD_CHANNELS = Contract(
    "pad_channels",
    "pixels whose channels lie side by side to pixels with room for more: dst[row, column, c] = "
    "src[row, column, c] for 0 <= c < channels, and zero for channels <= c < fill",
    (
        Field("src", CONST_POINTER, "first pixel"),
        Field("src_rs", INT, "src: from one image row to the next"),
        Field("src_ps", INT, "src: from one pixel to the next"),
        Field("dst", POINTER, "first pixel; does not overlap src"),
        Field("dst_rs", INT, "dst: from one image row to the next"),
        Field("dst_ps", INT, "dst: from one pixel to the next"),
        Field("rows", INT, "image rows, >= 0"),
        Field("columns", INT, "pixels in a row, >= 0"),
        Field("channels", INT, "channels of src, >= 1"),
        Field("fill", INT, "elements written of each pixel, >= channels"),
    ),
)

PACK_WEIGHTS = Contract(
    "pack_weights",
    "one group's weights (oc, ic, taps) into dst[panel][k / kr][panel_width][kr], tails zero; "
    "k = (block of input channels, tap, channel within the block); the last block is filled up "
    "with zero channels, and k with zeros to a multiple of kr",
    (
        Field("src", CONST_POINTER, "weights of the group's first output channel"),
        Field("src_os", INT, "src: from one output channel to the next"),
        Field(
            "src_ks",
            INT,
            "src: from one (ic, tap) to the next; more than an element only if output channels are "
            "neighbours, taps is 1 and all channels are in one block",
        ),
        Field(
            "dst",
            POINTER,
            "panel 0; panels have ceil(ic / channel_block) * channel_block * taps rows, rounded "
            "up to a multiple of kr",
        ),
        Field("oc_begin", INT, "first output channel to pack, a multiple of panel_width"),
        Field("oc_end", INT, "one past the last output channel to pack"),
        Field("ic", INT, "input channels of the group"),
        Field("taps", INT, "kh * kw"),
        Field("panel_width", INT, "output channels in a panel"),
        Field("kr", INT, "neighbouring k of one channel that lie side by side, >= 1"),
        Field(
            "channel_block", INT, "input channels in a block, >= 1: 1 is (ic, tap), ic (tap, ic)"
        ),
    ),
)

STORE_TRANSPOSED = Contract(
    "store_transposed",
    "dst[j, i] = epilogue(src[i, j]) for 0 <= i < rows, 0 <= j < columns",
    (
        Field("src", CONST_POINTER, "row-major, a row per pixel"),
        Field("src_rs", INT, "from one row of src to the next"),
        Field("dst", POINTER, "row-major, a row per output channel"),
        Field("dst_rs", INT, "from one row of dst to the next"),
        Field("rows", INT, "pixels"),
        Field("columns", INT, "output channels"),
        Field("bias", CONST_POINTER, "one element per column of src, by flag"),
        Field("residual", CONST_POINTER, "like dst, by flag"),
        Field("residual_rs", INT, "residual: from one row to the next"),
        Field("clip", CONST_POINTER, "two elements, low and high, by flag"),
        Field("flags", INT, "PPLCONV_* bits"),
    ),
)

COPY_STRIDED = Contract(
    "copy_strided",
    "dst[i, j] = src[i, j] for 0 <= i < rows, 0 <= j < columns, bit by bit, so that a kernel "
    "serves all types of its size. Strides may be negative, and those of src zero",
    (
        Field("src", CONST_POINTER, "element (0, 0)"),
        Field("src_rs", INT, "src: from one row to the next"),
        Field("src_cs", INT, "src: from one element of a row to the next"),
        Field("dst", POINTER, "element (0, 0); does not overlap src"),
        Field("dst_rs", INT, "dst: from one row to the next"),
        Field("dst_cs", INT, "dst: from one element of a row to the next"),
        Field("rows", INT, "rows, >= 0"),
        Field("columns", INT, "elements in a row, >= 0"),
    ),
)
