"""Chains of layers that may run band by band, as parts of networks have them.

Images are NHWC in memory, as between the steps of a network; one pixel of the result is the output,
so that no copy of the result counts.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

__all__ = ["CHAINS", "INPUT", "model_of"]

INPUT = "x"
_OPSET = 17


class Writer:
    """Writes the nodes of a chain, one behind the other."""

    def __init__(self, channels: int) -> None:
        self.channels = channels
        self.name = "pixels"
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self._rng = np.random.default_rng(1)

    def node(self, op: str, *inputs: str, **attributes: object) -> str:
        """Add a node; its result is what the next one reads."""
        self.name = f"{op.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [self.name], **attributes))
        return self.name

    def constant(self, array: npt.NDArray[np.generic]) -> str:
        """Add a constant."""
        name = f"c{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def conv(self, oc: int, size: int = 1, *, stride: int = 1, relu: bool = True) -> str:
        """Add a convolution that keeps the size of an image, but for its stride."""
        return self._conv(oc, self.channels, size, stride, 1, relu)

    def depthwise(self, size: int = 3, *, stride: int = 1) -> str:
        """Add a depthwise convolution."""
        return self._conv(self.channels, 1, size, stride, self.channels, relu=True)

    def _conv(self, oc: int, ic: int, size: int, stride: int, groups: int, relu: bool) -> str:
        shape = oc, ic, size, size
        drawn = self._rng.standard_normal(shape, np.float32) / np.float32(size * ic**0.5)
        weight, bias = self.constant(drawn), self.constant(self._rng.random(oc, np.float32))
        self.node(
            "Conv", self.name, weight, bias, group=groups, strides=[stride] * 2,
            pads=[size // 2] * 4,
        )  # fmt: skip
        self.channels = oc
        return self.node("Relu", self.name) if relu else self.name

    def pool(self) -> str:
        """Add a MaxPool that halves an image."""
        return self.node("MaxPool", self.name, kernel_shape=[2, 2], strides=[2, 2])

    def add(self, other: str) -> str:
        """Add an earlier image."""
        return self.node("Add", self.name, other)


def separable(*widths: int) -> Callable[[Writer], None]:
    """Give depthwise 3x3 and 1x1 layers, one pair for each width."""

    def write(w: Writer) -> None:
        for width in widths:
            w.depthwise()
            w.conv(width)

    return write


def pointwise_first(width: int, oc: int, *, relu: bool) -> Callable[[Writer], None]:
    """Give 1x1, depthwise 3x3, 1x1: an inverted residual without its sum, if not `relu`."""

    def write(w: Writer) -> None:
        w.conv(width)
        w.depthwise()
        w.conv(oc, relu=relu)

    return write


def residual(width: int, size: int = 3) -> Callable[[Writer], None]:
    """Give a bottleneck with its sum."""

    def write(w: Writer) -> None:
        before, channels = w.name, w.channels
        w.conv(width)
        w.conv(width, size)
        w.conv(channels, relu=False)
        w.node("Relu", w.add(before))

    return write


def same(count: int, size: int = 3) -> Callable[[Writer], None]:
    """Give layers of as many channels."""

    def write(w: Writer) -> None:
        for _ in range(count):
            w.conv(w.channels, size)

    return write


def level(w: Writer) -> None:
    """Write the first level of a U-Net, and the pool behind it."""
    w.conv(64, 3)
    w.conv(64, 3)
    w.pool()


# By name: channels, height and width of the image that is read, and what writes the chain.
CHAINS: dict[str, tuple[int, int, int, Callable[[Writer], None]]] = {
    "dw 16, 1x1 32, 320x320": (16, 320, 320, separable(32)),
    "dw 16, 1x1 32, 720x1280": (16, 720, 1280, separable(32)),
    "dw 16, 1x1 32, 1080x1920": (16, 1080, 1920, separable(32)),
    "two separable layers 32, 64, 160x160": (16, 160, 160, separable(32, 64)),
    "1x1 48, dw, 1x1 48, 160x160": (32, 160, 160, pointwise_first(48, 48, relu=True)),
    "1x1 96, dw, 1x1 24, 112x112": (16, 112, 112, pointwise_first(96, 24, relu=False)),
    "1x1 96, dw, 1x1 24, 360x640": (16, 360, 640, pointwise_first(96, 24, relu=False)),
    "1x1 144, dw, 1x1 24, 56x56": (24, 56, 56, pointwise_first(144, 24, relu=False)),
    "bottleneck 256-64-64-256, 56x56": (256, 56, 56, residual(64)),
    "bottleneck 256-64-64-256, 180x320": (256, 180, 320, residual(64)),
    "three 3x3 of 32, 512x512": (32, 512, 512, same(3)),
    "three 3x3 of 32, 720x1280": (32, 720, 1280, same(3)),
    "two 3x3 of 16, 1080x1920": (16, 1080, 1920, same(2)),
    "U-Net's first level, 256x256": (3, 256, 256, level),
    "U-Net's first level, 720x1280": (3, 720, 1280, level),
}


def model_of(name: str) -> tuple[onnx.ModelProto, npt.NDArray[np.float32]]:
    """Give the model of a chain, and an image for it (NHWC)."""
    channels, height, width, write = CHAINS[name]
    w = Writer(channels)
    w.nodes.append(helper.make_node("Transpose", [INPUT], [w.name], perm=[0, 3, 1, 2]))
    write(w)
    ends = [w.constant(np.array(numbers, np.int64)) for numbers in ([0, 0], [1, 1], [2, 3])]
    w.node("Slice", w.name, *ends)
    shape = [1, height, width, channels]
    made = helper.make_tensor_value_info
    graph = helper.make_graph(
        w.nodes, name, [made(INPUT, onnx.TensorProto.FLOAT, shape)],
        [made(w.name, onnx.TensorProto.FLOAT, [1, w.channels, 1, 1])], w.weights,
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=8)
    return model, np.random.default_rng(2).standard_normal(shape, np.float32)
