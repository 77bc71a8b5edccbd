"""A graph of ONNX, node by node, with seeded random weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.networks.weights import IR_VERSION, values

if TYPE_CHECKING:
    import onnx

OPSET = 17
CLASSES = 1000


class Builder:
    """Adds nodes one after another; each method takes and gives the name of a tensor."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def node(self, kind: str, inputs: Sequence[str], **attributes: Any) -> str:
        """Add a node of one output."""
        from onnx import helper

        output = f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [output], output, **attributes))
        return output

    def constant(self, name: str, array: NDArray[Any]) -> str:
        """Add a constant."""
        from onnx import numpy_helper

        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def drawn(self, role: str, shape: Sequence[int], kind: str, gain: float = 1.0) -> str:
        """Add random weights; see `weights.values`."""
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
        pad: int | None = None,
    ) -> str:
        """Convolve by random weights; padding keeps the size if it is not given."""
        inputs = [x, self.drawn("weight", shape, "weight", gain)]
        if bias:
            inputs.append(self.drawn("bias", shape[:1], "shift"))
        kernel = list(shape[2:])
        return self.node(
            "Conv",
            inputs,
            kernel_shape=kernel,
            strides=[stride, stride],
            pads=[side // 2 if pad is None else pad for side in kernel * 2],
            group=group,
        )

    def conv_1d(
        self, x: str, shape: Sequence[int], *, stride: int = 1, dilation: int = 1, group: int = 1,
        bias: bool = True, gain: float = 2.0, pad: int | None = None,
    ) -> str:  # fmt: skip
        """Convolve a sequence by random weights; padding keeps the length if it is not given."""
        inputs = [x, self.drawn("weight", shape, "weight", gain)]
        if bias:
            inputs.append(self.drawn("bias", shape[:1], "shift"))
        return self.node(
            "Conv",
            inputs,
            strides=[stride],
            dilations=[dilation],
            pads=[dilation * (shape[-1] // 2) if pad is None else pad] * 2,
            group=group,
        )

    def conv_3d(
        self, x: str, shape: Sequence[int], strides: Sequence[int], bias: bool = False
    ) -> str:
        """Convolve a volume by random weights; padding keeps the size but for the strides."""
        pads = [size // 2 for size in shape[2:]] * 2
        inputs = [x, self.drawn("weight", shape, "weight", 2.0)]
        if bias:
            inputs.append(self.drawn("bias", shape[:1], "shift"))
        return self.node("Conv", inputs, strides=list(strides), pads=pads)

    def upsample(self, x: str, inner: int, outer: int, kernel: int, rate: int) -> str:
        """Transpose a convolution of a sequence, which becomes `rate` times as long."""
        # Each output is a sum over kernel / rate places.
        gain = 2.0 * outer * rate / inner
        weight = self.drawn("weight", (inner, outer, kernel), "weight", gain)
        inputs = [x, weight, self.drawn("bias", [outer], "shift")]
        return self.node("ConvTranspose", inputs, strides=[rate], pads=[(kernel - rate) // 2] * 2)

    def normalised(self, x: str, channels: int) -> str:
        """Normalise a whole sequence (global layer normalization), as exporters write it."""
        mean = self.node("ReduceMean", [x], axes=[1, 2], keepdims=1)
        centred = self.node("Sub", [x, mean])
        squares = self.node("Mul", [centred, centred])
        variance = self.node("ReduceMean", [squares], axes=[1, 2], keepdims=1)
        root = self.node("Sqrt", [self.node("Add", [variance, self.number(1e-8)])])
        scaled = self.node("Div", [centred, root])
        for kind, operator in (("scale", "Mul"), ("shift", "Add")):
            scaled = self.node(operator, [scaled, self.drawn(kind, (channels, 1), kind)])
        return scaled

    def batch_norm(self, x: str, channels: int, scale: float = 1.0) -> str:
        """Normalise channels by random statistics."""
        kinds = (("scale", scale), ("shift", 1.0), ("mean", 1.0), ("variance", 1.0))
        made = [self.drawn(kind, [channels], kind, gain) for kind, gain in kinds]
        return self.node("BatchNormalization", [x, *made], epsilon=1e-5)

    def relu6(self, x: str, limits: Sequence[str]) -> str:
        """Clip to `limits`."""
        return self.node("Clip", [x, *limits])

    def linear(self, x: str, shape: Sequence[int], gain: float) -> str:
        """Multiply rows by a random matrix (outputs, inputs), and add a bias."""
        weight = self.drawn("weight", shape, "weight", gain)
        return self.node("Gemm", [x, weight, self.drawn("bias", shape[:1], "shift")], transB=1)

    def number(self, value: float) -> str:
        """Add a float."""
        return self.constant(f"number_{len(self.weights)}", np.array(value, np.float32))

    def integer(self, value: int) -> str:
        """Add an integer."""
        return self.constant(f"integer_{len(self.weights)}", np.array(value, np.int64))

    def ints(self, values: Sequence[int]) -> str:
        """Add a list of integers."""
        return self.constant(f"ints_{len(self.weights)}", np.array(values, np.int64))

    def reshape(self, x: str, shape: Sequence[int]) -> str:
        """Give a tensor another shape."""
        return self.node("Reshape", [x, self.ints(shape)])

    def dense(self, x: str, inputs: int, outputs: int, gain: float = 2.0, bias: bool = True) -> str:
        """Multiply the last axis, as exporters write a layer behind other axes."""
        weight = self.drawn("weight", (outputs, inputs), "weight", gain)
        self.weights[-1] = self._transposed(weight)
        x = self.node("MatMul", [x, weight])
        return self.node("Add", [self.drawn("bias", (outputs,), "shift"), x]) if bias else x

    def _transposed(self, name: str) -> onnx.TensorProto:
        from onnx import numpy_helper

        array = numpy_helper.to_array(self.weights[-1])
        return numpy_helper.from_array(np.ascontiguousarray(array.T), name)

    def layer_norm(self, x: str, channels: int) -> str:
        """Normalise the last axis."""
        scales = [
            self.drawn("scale", [channels], "scale"),
            self.drawn("shift", [channels], "shift"),
        ]
        return self.node("LayerNormalization", [x, *scales], axis=-1, epsilon=1e-6)

    def gelu(self, x: str) -> str:
        """Compute GELU by Erf, as exporters do before opset 20."""
        error = self.node("Erf", [self.node("Div", [x, self.number(2**0.5)])])
        error = self.node("Add", [error, self.number(1.0)])
        return self.node("Mul", [self.node("Mul", [x, error]), self.number(0.5)])

    def model(
        self, x: Sequence[int] = (1, 3, 224, 224), y: Sequence[int] = (1, CLASSES)
    ) -> onnx.ModelProto:
        """Make the model of the nodes so far; the last one gives its output, of shape `y`."""
        from onnx import TensorProto, helper

        self.nodes[-1].output[0] = "y"
        graph = helper.make_graph(
            self.nodes,
            self.name,
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, x)],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, y)],
            self.weights,
        )
        opset = [helper.make_opsetid("", OPSET)]
        return helper.make_model(graph, opset_imports=opset, ir_version=IR_VERSION)
