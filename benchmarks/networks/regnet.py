"""RegNets (Radosavovic et al., "Designing Network Design Spaces"), with seeded random weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from benchmarks.networks.builder import CLASSES, Builder
from benchmarks.networks.weights import BRANCH

if TYPE_CHECKING:
    import onnx

_STEM = 32


def regnet(
    name: str, widths: Sequence[int], depths: Sequence[int], group: int, squeezed: bool
) -> onnx.ModelProto:
    """Build one of the family.

    Parameters
    ----------
    name : str
    widths, depths : sequence of int
        Channels and blocks of each stage.
    group : int
        Channels of a group of the 3x3 convolutions.
    squeezed : bool
        Whether blocks have a squeeze and excitation: RegNetY.
    """
    build = Builder(name)

    def block(x: str, shape: Sequence[int], stride: int = 1, groups: int = 1) -> str:
        x = build.batch_norm(build.conv(x, shape, stride, groups), shape[0])
        return build.node("Relu", [x])

    x, channels = block("x", (_STEM, 3, 3, 3), 2), _STEM
    for width, depth in zip(widths, depths, strict=True):
        for index in range(depth):
            stride = 2 if index == 0 else 1
            y = block(x, (width, channels, 1, 1))
            y = block(y, (width, group, 3, 3), stride, width // group)
            if squeezed:
                # A quarter of the channels that come into the block.
                inner = round(channels / 4)
                z = build.node("GlobalAveragePool", [y])
                z = build.node("Relu", [build.conv(z, (inner, width, 1, 1), bias=True)])
                z = build.node("Sigmoid", [build.conv(z, (width, inner, 1, 1), bias=True)])
                y = build.node("Mul", [z, y])
            y = build.batch_norm(build.conv(y, (width, width, 1, 1)), width, BRANCH)
            if index == 0:
                x = build.batch_norm(build.conv(x, (width, channels, 1, 1), stride), width)
            x = build.node("Relu", [build.node("Add", [x, y])])
            channels = width
    x = build.node("Flatten", [build.node("GlobalAveragePool", [x])])
    build.linear(x, (CLASSES, channels), 1.0)
    return build.model()


def x_3_2() -> onnx.ModelProto:
    """Build RegNetX of 3.2 GFMA: groups of 48 channels."""
    return regnet("regnet_x_3_2", (96, 192, 432, 1008), (2, 6, 15, 2), 48, False)


def y_1_6() -> onnx.ModelProto:
    """Build RegNetY of 1.6 GFMA: groups of 24 channels."""
    return regnet("regnet_y_1_6", (48, 120, 336, 888), (2, 6, 17, 2), 24, True)


def x_0_4() -> onnx.ModelProto:
    """Build RegNetX of 0.4 GFMA: groups of 16 channels."""
    return regnet("regnet_x_0_4", (32, 64, 160, 400), (1, 2, 7, 12), 16, False)
