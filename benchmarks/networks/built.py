"""Networks that are built here, as their papers have them, with seeded random weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.networks.weights import BRANCH, IR_VERSION, Array32, values

if TYPE_CHECKING:
    import onnx

OPSET = 17
CLASSES = 1000

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


class _Builder:
    """Adds nodes one after another; each method takes and gives the name of a tensor."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def node(self, kind: str, inputs: Sequence[str], **attributes: Any) -> str:
        from onnx import helper

        output = f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [output], output, **attributes))
        return output

    def constant(self, name: str, array: Array32) -> str:
        from onnx import numpy_helper

        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def drawn(self, role: str, shape: Sequence[int], kind: str, gain: float = 1.0) -> str:
        name = f"{role}_{len(self.weights)}"
        return self.constant(name, values(f"{self.name}/{name}", shape, kind, gain))

    def conv(
        self,
        x: str,
        shape: Sequence[int],
        stride: int = 1,
        group: int = 1,
        bias: bool = False,
        gain: float = 2.0,
    ) -> str:
        inputs = [x, self.drawn("weight", shape, "weight", gain)]
        if bias:
            inputs.append(self.drawn("bias", shape[:1], "shift"))
        side = shape[-1]
        return self.node(
            "Conv",
            inputs,
            kernel_shape=[side, side],
            strides=[stride, stride],
            pads=[side // 2] * 4,
            group=group,
        )

    def batch_norm(self, x: str, channels: int, scale: float = 1.0) -> str:
        kinds = (("scale", scale), ("shift", 1.0), ("mean", 1.0), ("variance", 1.0))
        made = [self.drawn(kind, [channels], kind, gain) for kind, gain in kinds]
        return self.node("BatchNormalization", [x, *made], epsilon=1e-5)

    def relu6(self, x: str, limits: Sequence[str]) -> str:
        return self.node("Clip", [x, *limits])

    def linear(self, x: str, shape: Sequence[int], gain: float) -> str:
        weight = self.drawn("weight", shape, "weight", gain)
        return self.node("Gemm", [x, weight, self.drawn("bias", shape[:1], "shift")], transB=1)

    def model(self) -> onnx.ModelProto:
        from onnx import TensorProto, helper

        self.nodes[-1].output[0] = "y"
        graph = helper.make_graph(
            self.nodes,
            self.name,
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 224, 224])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, CLASSES])],
            self.weights,
        )
        opset = [helper.make_opsetid("", OPSET)]
        return helper.make_model(graph, opset_imports=opset, ir_version=IR_VERSION)


def vgg_19() -> onnx.ModelProto:
    """Build VGG-19: 16 convolutions, three products, 144 million weights."""
    build = _Builder("vgg_19")
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
    build = _Builder("mobilenet_v2")
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
            # What comes in has passed no activation, so none of it has been lost.
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
