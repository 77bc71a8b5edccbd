"""Networks of videos and of volumes, with seeded random weights: three spatial axes."""

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
# Çiçek et al., "3D U-Net: Learning Dense Volumetric Segmentation from Sparse Annotation", figure 2:
# channels of the two convolutions of each level; sides of a volume, its channels, and labels.
_LEVELS = ((32, 64), (64, 128), (128, 256), (256, 512))
VOLUME, _LABELS = (3, 16, 48, 48), 3


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


def unet_3d() -> onnx.ModelProto:
    """Build 3D U-Net: 3x3x3 convolutions with padding, BatchNorm folded into them."""
    build = Builder("unet_3d")

    def convolved(x: str, inputs: int, outputs: int) -> str:
        return build.node("Relu", [build.conv_3d(x, (outputs, inputs, 3, 3, 3), (1,) * 3, True)])

    x, channels = "x", VOLUME[0]
    whole: list[tuple[str, int]] = []
    for first, second in _LEVELS:
        if whole:
            x = build.node("MaxPool", [x], kernel_shape=[2] * 3, strides=[2] * 3)
        x, channels = convolved(convolved(x, channels, first), first, second), second
        whole.append((x, channels))
    for kept, width in reversed(whole[:-1]):
        weight = build.drawn("weight", (channels, channels, 2, 2, 2), "weight", 8.0)
        x = build.node("ConvTranspose", [x, weight], strides=[2] * 3)
        x = build.node("Concat", [x, kept], axis=1)
        x, channels = convolved(convolved(x, channels + width, width), width, width), width
    build.conv_3d(x, (_LABELS, channels, 1, 1, 1), (1,) * 3, True)
    return build.model((1, *VOLUME), (1, _LABELS, *VOLUME[1:]))
