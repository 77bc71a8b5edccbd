"""Networks that are built here, as their papers have them, with seeded random weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.networks.builder import CLASSES, Builder
from benchmarks.networks.weights import BRANCH

if TYPE_CHECKING:
    import onnx

# Simonyan and Zisserman, "Very Deep Convolutional Networks", table 1, configuration E: channels of
# the convolutions between the poolings.
_VGG_19 = ((64, 64), (128, 128), (256,) * 4, (512,) * 4, (512,) * 4)
_VGG_HIDDEN = 4096

# Sandler et al., "MobileNetV2", table 2: expansion, channels, repeats, stride of the first one.
_MOBILENET_V2 = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
_MOBILENET_STEM = 32
_MOBILENET_HEAD = 1280


def vgg_19() -> onnx.ModelProto:
    """Build VGG-19: 16 convolutions, three products, 144 million weights."""
    build = Builder("vgg_19")
    x, channels = "x", 3
    for widths in _VGG_19:
        for width in widths:
            x = build.conv(x, (width, channels, 3, 3), bias=True)
            x = build.node("Relu", [x])
            channels = width
        x = build.node("MaxPool", [x], kernel_shape=[2, 2], strides=[2, 2])
    x = build.node("Flatten", [x])
    features = channels * 7 * 7
    for _ in range(2):
        x = build.node("Relu", [build.linear(x, (_VGG_HIDDEN, features), 2.0)])
        features = _VGG_HIDDEN
    x = build.linear(x, (CLASSES, features), 1.0)
    build.node("Softmax", [x], axis=-1)
    return build.model()


def mobilenet_v2() -> onnx.ModelProto:
    """Build MobileNetV2 of width 1: 17 inverted residuals, BatchNorm not folded."""
    build = Builder("mobilenet_v2")
    limits = [
        build.constant(name, np.array(value, np.float32))
        for name, value in (("low", 0), ("high", 6))
    ]

    def block(
        x: str, shape: Sequence[int], stride: int = 1, group: int = 1, gain: float = 2.0
    ) -> str:
        x = build.conv(x, shape, stride, group, gain=gain)
        return build.relu6(build.batch_norm(x, shape[0]), limits)

    x = block("x", (_MOBILENET_STEM, 3, 3, 3), stride=2)
    channels = _MOBILENET_STEM
    for expansion, width, repeats, first in _MOBILENET_V2:
        for index in range(repeats):
            stride = first if index == 0 else 1
            inner = expansion * channels
            # The input has passed no activation, which would halve its variance: gain 1.
            y = block(x, (inner, channels, 1, 1), gain=1.0) if expansion > 1 else x
            y = block(y, (inner, 1, 3, 3), stride, inner)
            added = stride == 1 and width == channels
            y = build.conv(y, (width, inner, 1, 1))
            y = build.batch_norm(y, width, BRANCH if added else 1.0)
            x = build.node("Add", [x, y]) if added else y
            channels = width
    x = block(x, (_MOBILENET_HEAD, channels, 1, 1), gain=1.0)
    x = build.node("Flatten", [build.node("GlobalAveragePool", [x])])
    x = build.linear(x, (CLASSES, _MOBILENET_HEAD), 1.0)
    build.node("Softmax", [x], axis=-1)
    return build.model()
