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
    "convolution of channels-last pixels in groups of one channel (depthwise) or of few, vectors "
    "along channels: one chain of multiply-adds per output over (c, kh, kw) in ascending order, "
    "taps on padding left out",
    (
        Field("src", CONST_POINTER, "pixel (0, 0) of the image, first input channel"),
        Field("src_rs", INT, "from one input row to the next"),
        Field("src_ps", INT, "from one input pixel to the next"),
        Field("dst", POINTER, "output pixel (0, 0), first output channel"),
        Field("dst_rs", INT, "from one output row to the next"),
        Field("dst_ps", INT, "from one output pixel to the next"),
        Field(
            "weights",
            CONST_POINTER,
            "packed by pack_depthwise, at the first channel: for each vector of channels tap t of "
            "input channel c of a group is vector c * kh * kw + t",
        ),
        Field("first_row", INT, "first output row to compute"),
        Field("rows", INT, "output rows to compute"),
        Field("channels", INT, "output channels, neighbours in memory"),
        Field("multiplier", INT, "output channel o reads input channel (phase + o) / multiplier"),
        Field("phase", INT, "0 <= phase < multiplier"),
        Field(
            "depth",
            INT,
            "channels of a group. 1, or with multiplier 1 a power of two or a multiple of 16: "
            "output channel o reads the input channels of its group, from o - o % depth on, and "
            "channels are whole groups",
        ),
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
    "weights (channels, taps) into vectors of channels, one after the other: of each the taps, a "
    "vector a tap; lanes beyond the last channel become zero",
    (
        Field("src", CONST_POINTER, "contiguous weights"),
        Field("dst", POINTER, "taps vectors for each vector of channels"),
        Field("taps", INT, "weights of a channel: kh * kw for each input channel of its group"),
        Field("channels", INT, "channels to pack, at least 1"),
    ),
)

DEPTHWISE_BYTES_CHANNELS = Contract(
    "depthwise_bytes_channels",
    "depthwise convolution of channels-last bytes into int32, exact, vectors along channels: sums "
    "of x * w over all taps, where x is x_zero on padding",
    (
        Field("src", CONST_POINTER, "pixel (0, 0) of the image, first input channel"),
        Field("src_rs", INT, "from one input row to the next"),
        Field("src_ps", INT, "from one input pixel to the next"),
        Field(
            "dst",
            POINTER,
            "output pixel (0, 0), first output channel; each pixel has room for the channels "
            "rounded up to whole vectors of sums",
        ),
        Field("dst_rs", INT, "from one output row to the next"),
        Field("dst_ps", INT, "from one output pixel to the next"),
        Field("weights", CONST_POINTER, "packed by pack_depthwise_bytes, at the first channel"),
        Field("weights_us", INT, "weights: from one unit to the next, as they were packed"),
        Field("first_row", INT, "first output row to compute"),
        Field("rows", INT, "output rows to compute"),
        Field("first_column", INT, "first output column to compute"),
        Field("columns", INT, "output columns to compute"),
        Field("channels", INT, "output channels, neighbours in memory; the first begins a unit"),
        Field("multiplier", INT, "output channel o reads input channel (phase + o) / multiplier"),
        Field("phase", INT, "0 <= phase < multiplier"),
        Field("x_zero", INT, "value of inputs beside the image"),
        Field("geometry", CONST_POINTER, "struct pplconv_geometry"),
    ),
)

DEPTHWISE_BYTES_PIXELS = Contract(
    "depthwise_bytes_pixels",
    "depthwise convolution of channel planes of bytes into int32, exact, vectors along output "
    "columns: sums of x * w over all taps, where x is x_zero on padding",
    (
        Field("src", CONST_POINTER, "plane of the first input channel, rows of iw elements"),
        Field("src_cs", INT, "from one input plane to the next"),
        Field(
            "dst",
            POINTER,
            "first computed row of the first output channel; rows of ow sums; after the last "
            "channel's there is room for a vector of sums",
        ),
        Field("dst_cs", INT, "from one output channel to the next, >= rows * ow sums"),
        Field("weights", CONST_POINTER, "packed by pack_depthwise_bytes, at the first channel"),
        Field("weights_us", INT, "weights: from one channel to the next, as they were packed"),
        Field(
            "slab",
            POINTER,
            "scratch of ((rows - 1) * stride_h + reach) * slab_rs bytes, where "
            "reach is (kh - 1) * dilation_h + 1: padded lines of one plane",
        ),
        Field("slab_rs", INT, ">= (ow - 1) * stride_w + (kw - 1) * dilation_w + 65"),
        Field("first_row", INT, "first output row to compute"),
        Field("rows", INT, "output rows to compute"),
        Field("channels", INT, "output channels"),
        Field("multiplier", INT, "output channel o reads input plane o / multiplier"),
        Field("x_zero", INT, "value of inputs beside the image"),
        Field("geometry", CONST_POINTER, "struct pplconv_geometry"),
    ),
)

PACK_DEPTHWISE_BYTES = Contract(
    "pack_depthwise_bytes",
    "weights (oc, taps) of s16 into units, each in the fastest format that holds its weights: a "
    "unit is a channel for depthwise_bytes_pixels, and for depthwise_bytes_channels as many "
    "channels as a vector has bytes. Weights have at most nine bits",
    (
        Field("src", CONST_POINTER, "contiguous weights of all channels, s16"),
        Field("dst", POINTER, "first unit"),
        Field(
            "dst_us",
            INT,
            "from one unit to the next, a multiple of 8. For depthwise_bytes_pixels at least 8 + 8 "
            "* kh * ceil(kw / 4); for units of c channels at least 64 + c * 2 * kh * kw, and with "
            "3x3 and 5x5 taps at least 64 + c * 4 * (1 + 4 * kw * ceil((kh + 2) / 4))",
        ),
        Field("begin", INT, "first channel to pack, a multiple of the channels in a unit"),
        Field("end", INT, "one past the last; the first of another unit, or the end of all"),
        Field("pixels", INT, "1: for depthwise_bytes_pixels, else for depthwise_bytes_channels"),
        Field("multiplier", INT, "output channels of each input channel"),
        Field("geometry", CONST_POINTER, "struct pplconv_geometry"),
    ),
)
