"""ConvNeXt and networks of its kind with larger kernels, as exporters write them.

The weights are random. ConvNeXt: Liu et al., "A ConvNet for the 2020s". SLaK: Liu et al., "More
ConvNets in the 2020s: Scaling up Kernels Beyond 51x51 using Sparsity". RepLKNet: Ding et al.,
"Scaling Up Your Kernels to 31x31", with its parallel branches merged, as it is deployed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from benchmarks.networks.builder import CLASSES, Builder
from benchmarks.networks.weights import BRANCH

if TYPE_CHECKING:
    import onnx

_DEPTHS = (3, 3, 9, 3)
_NHWC = (0, 2, 3, 1)
_NCHW = (0, 3, 1, 2)

_Spatial = Callable[[Builder, str, int, int], str]
"""Convolves each channel by itself: of a builder, a tensor, its channels and the stage."""


def _small(build: Builder, x: str, width: int, stage: int) -> str:
    return build.conv(x, (width, 1, 7, 7), group=width, bias=True)


def _crossed(build: Builder, x: str, width: int, stage: int) -> str:
    """Add a tall, a wide and a small depthwise convolution."""
    long = (51, 49, 47, 13)[stage]
    tall, wide, small = (
        build.conv(x, (width, 1, *kernel), group=width, bias=True)
        for kernel in ((long, 5), (5, long), (5, 5))
    )
    return build.node("Add", [build.node("Add", [tall, wide]), small])


def _norm(build: Builder, x: str, channels: int) -> str:
    x = build.node("Transpose", [x], perm=_NHWC)
    return build.node("Transpose", [build.layer_norm(x, channels)], perm=_NCHW)


def _classify(build: Builder, x: str, channels: int) -> onnx.ModelProto:
    build.linear(build.node("Flatten", [x]), (CLASSES, channels), 1.0)
    return build.model()


def _network(name: str, widths: tuple[int, ...], spatial: _Spatial) -> onnx.ModelProto:
    build = Builder(name)
    x, channels = build.conv("x", (widths[0], 3, 4, 4), 4, bias=True, pad=0), widths[0]
    x = _norm(build, x, channels)
    for stage, (width, depth) in enumerate(zip(widths, _DEPTHS, strict=True)):
        if stage:
            x = _norm(build, x, channels)
            x = build.conv(x, (width, channels, 2, 2), 2, bias=True, pad=0)
            channels = width
        for _ in range(depth):
            y = spatial(build, x, width, stage)
            y = build.layer_norm(build.node("Transpose", [y], perm=_NHWC), width)
            y = build.gelu(build.dense(y, width, 4 * width))
            y = build.dense(y, 4 * width, width)
            y = build.node("Transpose", [y], perm=_NCHW)
            scale = build.drawn("scale", (width, 1, 1), "scale", BRANCH)
            x = build.node("Add", [x, build.node("Mul", [y, scale])])
    x = _norm(build, build.node("GlobalAveragePool", [x]), channels)
    return _classify(build, x, channels)


def tiny() -> onnx.ModelProto:
    """Build ConvNeXt-T: 7x7 depthwise convolutions, LayerNorm over channels, GELU."""
    return _network("convnext_t", (96, 192, 384, 768), _small)


def slak() -> onnx.ModelProto:
    """Build SLaK-T: ConvNeXt-T, 1.3 times as wide, with crossed kernels of up to 51x5 and 5x51."""
    return _network("slak_t", (124, 249, 499, 998), _crossed)


def replknet() -> onnx.ModelProto:
    """Build RepLKNet-31B: 31x31 to 13x13 depthwise convolutions between 1x1 ones."""
    build = Builder("replknet_31b")
    widths, depths, kernels = (128, 256, 512, 1024), (2, 2, 18, 2), (31, 29, 27, 13)

    def conv(x: str, outputs: int, inputs: int, *, gain: float = 2.0) -> str:
        return build.conv(x, (outputs, inputs, 1, 1), bias=True, gain=gain)

    def relu(x: str) -> str:
        return build.node("Relu", [x])

    def depthwise(x: str, channels: int, side: int, stride: int = 1) -> str:
        weight = (channels, 1, side, side)
        return relu(build.conv(x, weight, stride, group=channels, bias=True))

    channels = widths[0]
    x = relu(build.conv("x", (channels, 3, 3, 3), 2, bias=True))
    x = relu(conv(depthwise(x, channels, 3), channels, channels))
    x = depthwise(x, channels, 3, 2)
    for width, depth, kernel in zip(widths, depths, kernels, strict=True):
        if width != channels:
            x = depthwise(relu(conv(x, width, channels)), width, 3, 2)
            channels = width
        for _ in range(depth):
            y = depthwise(relu(conv(build.batch_norm(x, width), width, width)), width, kernel)
            x = build.node("Add", [x, conv(y, width, width, gain=BRANCH**2)])
            y = build.gelu(conv(build.batch_norm(x, width), 4 * width, width))
            x = build.node("Add", [x, conv(y, width, 4 * width, gain=2 * BRANCH**2)])
    x = build.node("GlobalAveragePool", [build.batch_norm(x, channels)])
    return _classify(build, x, channels)
