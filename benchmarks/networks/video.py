"""A network of videos, with seeded random weights: three spatial axes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.networks.builder import Builder
from benchmarks.networks.weights import BRANCH

if TYPE_CHECKING:
    import onnx

# Tran et al., "A Closer Look at Spatiotemporal Convolutions for Action Recognition", table 1, R3D
# of 18 layers: channels of the stages, two blocks each; frames and sides of a clip, and classes.
_STAGES, _BLOCKS = (64, 128, 256, 512), 2
FRAMES, SIDE, _CLASSES = 16, 112, 400


def r3d_18() -> onnx.ModelProto:
    """Build R3D-18: residual blocks of 3x3x3 convolutions, BatchNorm not folded."""
    build = Builder("r3d_18")

    def block(x: str, shape: tuple[int, ...], stride: int = 1, scale: float = 1.0) -> str:
        return build.batch_norm(build.conv_3d(x, shape, (stride,) * 3), shape[0], scale)

    x = build.conv_3d("x", (_STAGES[0], 3, 3, 7, 7), (1, 2, 2))
    x, channels = build.node("Relu", [build.batch_norm(x, _STAGES[0])]), _STAGES[0]
    for width in _STAGES:
        for index in range(_BLOCKS):
            stride = 2 if width > channels and index == 0 else 1
            y = build.node("Relu", [block(x, (width, channels, 3, 3, 3), stride)])
            y = block(y, (width, width, 3, 3, 3), scale=BRANCH)
            if width != channels:
                x = block(x, (width, channels, 1, 1, 1), stride)
            x, channels = build.node("Relu", [build.node("Add", [y, x])]), width
    x = build.node("Flatten", [build.node("GlobalAveragePool", [x])])
    build.linear(x, (_CLASSES, channels), 1.0)
    return build.model((1, 3, FRAMES, SIDE, SIDE), (1, _CLASSES))
