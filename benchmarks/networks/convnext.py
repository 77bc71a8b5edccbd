"""ConvNeXt (Liu et al., "A ConvNet for the 2020s") as exporters write it, with random weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.networks.builder import CLASSES, Builder
from benchmarks.networks.weights import BRANCH

if TYPE_CHECKING:
    import onnx

_WIDTHS = (96, 192, 384, 768)
_DEPTHS = (3, 3, 9, 3)
_NHWC = (0, 2, 3, 1)
_NCHW = (0, 3, 1, 2)


def tiny() -> onnx.ModelProto:
    """Build ConvNeXt-T: 7x7 depthwise convolutions, LayerNorm over channels, GELU."""
    build = Builder("convnext_t")

    def norm(x: str, channels: int) -> str:
        x = build.node("Transpose", [x], perm=_NHWC)
        return build.node("Transpose", [build.layer_norm(x, channels)], perm=_NCHW)

    x, channels = build.conv("x", (_WIDTHS[0], 3, 4, 4), 4, bias=True, pad=0), _WIDTHS[0]
    x = norm(x, channels)
    for stage, (width, depth) in enumerate(zip(_WIDTHS, _DEPTHS, strict=True)):
        if stage:
            x = build.conv(norm(x, channels), (width, channels, 2, 2), 2, bias=True, pad=0)
            channels = width
        for _ in range(depth):
            y = build.conv(x, (width, 1, 7, 7), group=width, bias=True)
            y = build.layer_norm(build.node("Transpose", [y], perm=_NHWC), width)
            y = build.gelu(build.dense(y, width, 4 * width))
            y = build.dense(y, 4 * width, width)
            y = build.node("Transpose", [y], perm=_NCHW)
            scale = build.drawn("scale", (width, 1, 1), "scale", BRANCH)
            x = build.node("Add", [x, build.node("Mul", [y, scale])])
    x = norm(build.node("GlobalAveragePool", [x]), channels)
    build.linear(build.node("Flatten", [x]), (CLASSES, channels), 1.0)
    return build.model()
