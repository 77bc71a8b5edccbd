"""Argument structs of depthwise convolution."""

from __future__ import annotations

from asm.contract.fields import CONST_POINTER, INT, POINTER, Contract, Field

DEPTHWISE_PIXELS = Contract(
    "depthwise_pixels",
    "depthwise convolution of channel planes, vectors along output columns: one chain of "
    "multiply-adds per output over (kh, kw) in ascending order, taps on padding left out",
    (
        Field("src", CONST_POINTER, "plane of the first input channel, rows of iw elements"),
        Field("src_cs", INT, "from one input plane to the next"),
        Field("dst", POINTER, "plane of the first output channel, rows of ow elements"),
        Field("dst_cs", INT, "from one output plane to the next"),
        Field("weights", CONST_POINTER, "kh * kw elements per output channel, contiguous"),
        Field("first_row", INT, "first output row to compute"),
        Field("rows", INT, "output rows to compute"),
        Field("channels", INT, "output channels"),
        Field("multiplier", INT, "output channel o reads input plane o / multiplier"),
        Field("bias", CONST_POINTER, "one element per output channel, by BIAS_ROW"),
        Field("residual", CONST_POINTER, "laid out as dst, by flag"),
        Field("residual_cs", INT, "residual: from one plane to the next"),
        Field("clip", CONST_POINTER, "two elements, low and high, by flag"),
        Field("flags", INT, "PPLCONV_* bits"),
        Field("geometry", CONST_POINTER, "struct pplconv_geometry"),
    ),
)

DEPTHWISE_CHANNELS = Contract(
    "depthwise_channels",
    "depthwise convolution of channels-last pixels, vectors along channels: one chain of "
    "multiply-adds per output over (kh, kw) in ascending order, taps on padding left out",
    (
        Field("src", CONST_POINTER, "pixel (0, 0) of the image, first input channel"),
        Field("src_rs", INT, "from one input row to the next"),
        Field("src_ps", INT, "from one input pixel to the next"),
        Field("dst", POINTER, "output pixel (0, 0), first output channel"),
        Field("dst_rs", INT, "from one output row to the next"),
        Field("dst_ps", INT, "from one output pixel to the next"),
        Field("weights", CONST_POINTER, "packed by pack_depthwise, at the first channel"),
        Field("weights_ts", INT, "weights: from one tap to the next"),
        Field("first_row", INT, "first output row to compute"),
        Field("rows", INT, "output rows to compute"),
        Field("channels", INT, "output channels, neighbours in memory"),
        Field("multiplier", INT, "output channel o reads input channel (phase + o) / multiplier"),
        Field("phase", INT, "0 <= phase < multiplier"),
        Field("bias", CONST_POINTER, "one element per output channel, by BIAS_COLUMN"),
        Field("residual", CONST_POINTER, "like dst, by flag"),
        Field("residual_rs", INT, "residual: from one row to the next"),
        Field("residual_ps", INT, "residual: from one pixel to the next"),
        Field("clip", CONST_POINTER, "two elements, low and high, by flag"),
        Field("flags", INT, "PPLCONV_* bits"),
        Field("geometry", CONST_POINTER, "struct pplconv_geometry"),
    ),
)

PACK_DEPTHWISE = Contract(
    "pack_depthwise",
    "weights (oc, taps) into rows of one tap each, channels across; "
    "lanes of the last row vector that are no channel become zero",
    (
        Field("src", CONST_POINTER, "contiguous weights of all channels"),
        Field("dst", POINTER, "taps rows of width elements"),
        Field("taps", INT, "kh * kw"),
        Field("oc_begin", INT, "first channel to pack"),
        Field("oc_end", INT, "one past the last to pack; a multiple of 16, or the end of all"),
        Field("width", INT, "elements from tap to tap: oc, or oc rounded up to at most 16"),
    ),
)
