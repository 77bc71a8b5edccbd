"""Small quantized models, and what becomes of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
from onnx.reference import ReferenceEvaluator

from pplconv.network import integers
from pplconv.network.opsets import OPSET
from pplconv.network.preparing import Prepared
from pplconv.network.session import InferenceSession
from tests.network.graphs import Graph, stages
from tests.network.models import model_of
from tests.network.running import by_onnxruntime

U8, S8 = np.dtype(np.uint8), np.dtype(np.int8)
FEW = 0.02  # of the elements may be rounded otherwise
# Nodes of a convolution, or a product, of an input that is quantized.
CONV = {"QuantizeLinear": 1, "QuantizedConv": 1, "DequantizeLinear": 1}
LINEAR = {"QuantizeLinear": 1, "QuantizedLinear": 1, "DequantizeLinear": 1}


def drawn_integers(rng: np.random.Generator, dtype: Any, shape: Sequence[int] = ()) -> np.ndarray:
    """Draw any integers of a type."""
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max + 1, shape).astype(dtype)


def drawn_weights(rng: np.random.Generator, dtype: Any, shape: Sequence[int]) -> np.ndarray:
    """Draw weights with which onnxruntime does not saturate on CPUs without VNNI (ORT#14642)."""
    if np.dtype(dtype) != S8:
        return drawn_integers(rng, dtype, shape)
    return rng.integers(-64, 65, shape).astype(dtype)


class Quantized(Graph):
    """A graph of values that are quantized by scale, zero point and type."""

    def parameters(self, scale: Any, zero: Any, dtype: Any) -> tuple[str, str]:
        return self.constant(scale, np.float32), self.constant(zero, dtype)

    def q(self, x: str, scale: Any = 0.05, zero: Any = 128, dtype: Any = U8, **more: Any) -> str:
        return str(self.QuantizeLinear(x, *self.parameters(scale, zero, dtype), **more))

    def dq(self, x: str, scale: Any = 0.05, zero: Any = 128, dtype: Any = U8, **more: Any) -> str:
        return str(self.DequantizeLinear(x, *self.parameters(scale, zero, dtype), **more))

    def pair(self, x: str, *how: Any) -> str:
        return self.dq(self.q(x, *how), *how)

    def image(self, *shape: int, how: Sequence[Any] = ()) -> str:
        """An input that is quantized and dequantized."""
        return self.pair(self.input(*(shape or (1, 8, 9, 7))), *how)

    def kernel(
        self, *shape: int, axis: int | None = 0, zero: Any = 0, dtype: Any = S8, least: int = 0
    ) -> str:
        """Random weights, dequantized, with a scale for each index of an axis."""
        limits = np.iinfo(dtype)
        integers = self.rng.integers(limits.min + least, limits.max + 1, shape)
        depth = np.prod(shape) / (shape[axis] if axis is not None else 1)
        scale = self.rng.uniform(0.5, 1.0, () if axis is None else shape[axis]) / 128
        scale = (scale * max(depth, 1) ** -0.5).astype(np.float32)
        zeros = np.broadcast_to(np.asarray(zero), scale.shape)
        more = {} if axis is None else {"axis": axis}
        return self.dq(self.constant(integers, dtype), scale, zeros, dtype, **more)

    def scale_of(self, weights: str) -> np.ndarray:
        """The scale of dequantized weights."""
        (node,) = (node for node in self.nodes if node.output[0] == weights)
        return self.array(node.input[1])

    def integers(self, *shape: int, dtype: Any = U8, known: bool = False) -> str:
        """An input of any integers of a type, or constant weights, see `drawn_weights`."""
        draw = drawn_weights if known else drawn_integers
        array = draw(self.rng, dtype, shape)
        if known:
            return self.constant(array, dtype)
        name = self.input(*shape, dtype=dtype)
        self.feed[name] = array
        return name

    def qconv(self, x: str, channels: int, w: Sequence[int], bias: bool = True, **more: Any) -> str:
        """A Conv with quantized weights and a bias of float32."""
        operands = [x, self.kernel(channels, *w)]
        if bias:
            operands.append(self.random(channels))
        return str(self.Conv(*operands, **more))


def folded(g: Graph, *outputs: str) -> Prepared:
    """The specialised model."""
    return stages(g, *outputs)[1]


def kinds(prepared: Prepared) -> Counter[str]:
    """How many nodes of each operator there are, those of ours without a domain."""
    return Counter(node.op_type for node in prepared.model.graph)


def compared(
    g: Graph, *outputs: str, unit: float, allowed: float = 0.0, units: float = 1.0
) -> list[np.ndarray]:
    """Run a model by a session and by onnxruntime, which computes the numbers between.

    Parameters
    ----------
    unit : float
        Scale of the outputs, 1 of integers; results differ by `units` of it at most, and
    allowed : float
        in this share of the elements at most.
    """
    model = g.model(*outputs)
    got = InferenceSession(model, threads=1).run(None, g.feed)
    for x, y in zip(got, by_onnxruntime(model, g.feed), strict=True):
        assert x.shape == y.shape and x.dtype == y.dtype
        assert len(np.unique(y)) > min(y.size - 1, 4), "a test of one number says nothing"
        difference = np.abs(x.astype(np.float64) - y.astype(np.float64)) / unit
        assert difference.max(initial=0) <= units * 1.001, difference.max()
        assert (difference > 0.001).mean() <= allowed, (difference > 0.001).mean()
    return got


def becomes(
    g: Graph, *outputs: str, nodes: Mapping[str, int], unit: float = 0.05, allowed: float = FEW
) -> Prepared:
    """Give the specialised model, which has these nodes, and `compared` outputs."""
    result = folded(g, *outputs)
    assert kinds(result) == nodes
    compared(g, *outputs, unit=unit, allowed=allowed)
    return result


def only(prepared: Prepared, name: str = "QuantizedConv") -> ir.Node:
    """The only node of an operator."""
    (node,) = (node for node in prepared.model.graph if node.op_type == name)
    return node


def exact(prepared: Prepared, feed: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """Outputs of a specialised model by the contract of rounding, one node after the other."""
    graph = prepared.model.graph
    values: dict[str, np.ndarray] = dict(feed)
    values |= {name: value.const_value.numpy() for name, value in graph.initializers.items()}
    for node in graph:
        inputs = [None if value is None else values[value.name] for value in node.inputs]
        own = {name: attribute.value for name, attribute in node.attributes.items()}
        compute = NODES.get(node.op_type)
        if compute is None:
            results = _referred(node, inputs)
        else:
            results = [compute(inputs, own, node.outputs[0])]
        for value, array in zip(node.outputs, results, strict=False):
            values[value.name] = array
    return [values[value.name] for value in graph.outputs]


# Sums are computed in float64, which is exact below 2**53.


def _multiplied(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Multiply matrices of integers exactly."""
    return np.asarray(np.matmul(a.astype(np.float64), b.astype(np.float64)))


def _convolved(taps: Sequence[np.ndarray], weight: np.ndarray, groups: int) -> np.ndarray:
    """Sum products of windows, (n, oh, ow, c) for each tap, and weights exactly."""
    oc, depth = weight.shape[:2]
    n, oh, ow, _ = taps[0].shape
    # (kh * kw, groups, c / groups, oc / groups)
    matrices = weight.reshape(groups, oc // groups, depth, -1).transpose(3, 0, 2, 1)
    sums = np.zeros((groups, n * oh * ow, oc // groups))
    for tap, matrix in zip(taps, matrices.astype(np.float64), strict=True):
        x = tap.reshape(-1, groups, depth).transpose(1, 0, 2).astype(np.float64)
        sums += x * matrix if depth == 1 else np.matmul(x, matrix)
    return sums.transpose(1, 0, 2).reshape(n, oh, ow, oc)


def _referred(node: Any, inputs: Sequence[np.ndarray | None]) -> list[Any]:
    names = [value.name for value in node.inputs if value is not None]
    results = dict.fromkeys(value.name for value in node.outputs if value.name)
    model = model_of([ir.to_proto(node)], dict.fromkeys(names), (), results, opset=OPSET)
    arrays = (x for x in inputs if x is not None)
    return list(ReferenceEvaluator(model).run(None, dict(zip(names, arrays, strict=True))))


def _scales(inputs: Any, own: Any) -> tuple[Any, Any]:
    scale, zero = inputs[1], inputs[2] if len(inputs) > 2 else np.zeros((), np.int64)
    if scale.size > 1:
        axis = own.get("axis", 1) % inputs[0].ndim
        shape = [-1 if d == axis else 1 for d in range(inputs[0].ndim)]
        scale, zero = scale.reshape(shape), zero.reshape(shape)
    return scale, zero.astype(np.int64)


def _store(inputs: Any, own: Any, y: Any) -> integers.Store:
    multiplier = inputs[3].astype(np.float32) if len(inputs) > 3 and inputs[3] is not None else None
    gate = (own["slope"], own["middle"], own["shift"]) if own["gate"] else None
    return integers.Store(
        y.dtype.numpy(), inputs[2], multiplier, own["y_zero"], own["low"], own["high"],
        own["residual_scale"], own["residual_zero"], gate,
    )  # fmt: skip


def _conv(inputs: Any, own: Any, y: Any) -> np.ndarray:
    x = inputs[0].transpose(0, 2, 3, 1)
    taps = integers.windows(
        x, inputs[1].shape[2:], own["strides"], own["dilations"], own["pads"], own["x_zero"],
        y.shape.numpy()[2:],
    )  # fmt: skip
    sums = _convolved(taps, inputs[1], own["group"])
    residual = inputs[4].transpose(0, 2, 3, 1) if len(inputs) > 4 else None
    return _store(inputs, own, y)(sums, residual).transpose(0, 3, 1, 2)


def _transposed(inputs: Any, own: Any, y: Any) -> np.ndarray:
    """One product for each tap, added to its outputs."""
    x, w, zero, groups = inputs[0], inputs[1].astype(np.float64), own["x_zero"], own["group"]
    (n, ic, *size), (_, channels, *kernel) = x.shape, w.shape
    stride, dilation, pads = own["strides"], own["dilations"], own["pads"]
    outputs = y.shape.numpy()[2:]
    full = [max((size[d] - 1) * stride[d] + (kernel[d] - 1) * dilation[d] + 1, outputs[d] + pads[d])
            for d in range(2)]  # fmt: skip
    sums = np.zeros((n, groups, channels, *full))
    images = (x.astype(np.float64) - zero).reshape(n, groups, ic // groups, *size)
    w = w.reshape(groups, ic // groups, channels, *kernel)
    for i, j in np.ndindex(*kernel):
        rows, columns = (
            slice(tap * dilation[d], tap * dilation[d] + (size[d] - 1) * stride[d] + 1, stride[d])
            for d, tap in enumerate((i, j))
        )
        sums[..., rows, columns] += np.einsum("ngchw,gco->ngohw", images, w[..., i, j])
    rows, columns = (slice(pads[d], pads[d] + outputs[d]) for d in range(2))
    found = sums[..., rows, columns].reshape(n, groups * channels, *outputs).transpose(0, 2, 3, 1)
    # The offset has what the zero point takes from a sum over all taps.
    taken = (zero * w.sum((1, 3, 4))).reshape(-1)
    return _store(inputs, own, y)(found + taken).transpose(0, 3, 1, 2)


def _linear(inputs: Any, own: Any, y: Any) -> np.ndarray:
    matrix = inputs[1].T if own["transB"] else inputs[1]
    residual = inputs[4] if len(inputs) > 4 else None
    return _store(inputs, own, y)(_multiplied(inputs[0], matrix), residual)


def _add(inputs: Any, own: Any, y: Any) -> np.ndarray:
    store = integers.Store(
        y.dtype.numpy(), -own["a_zero"], np.float32(own["a_scale"]), own["y_zero"], own["low"],
        own["high"], own["b_scale"], own["b_zero"],
    )  # fmt: skip
    return store(inputs[0].astype(np.int64), inputs[1])


def _average(inputs: Any, own: Any, y: Any) -> np.ndarray:
    kernel = own["kernel_shape"]
    taps = integers.windows(
        inputs[0].transpose(0, 2, 3, 1), kernel, own["strides"], own["dilations"], own["pads"],
        own["x_zero"], y.shape.numpy()[2:],
    )  # fmt: skip
    offset = -own["x_zero"] * int(np.prod(kernel))
    store = integers.Store(y.dtype.numpy(), offset, np.float32(own["multiplier"]), own["y_zero"])
    return store(integers.average(taps)).transpose(0, 3, 1, 2)


NODES: dict[str, Any] = {
    "QuantizeLinear": lambda inputs, own, y: integers.quantize(
        inputs[0], *_scales(inputs, own), y.dtype.numpy()
    ),
    "DequantizeLinear": lambda inputs, own, y: integers.dequantize(
        inputs[0], *_scales(inputs, own)
    ),
    "QuantizedConv": _conv,
    "QuantizedConvTranspose": _transposed,
    "QuantizedLinear": _linear,
    "QuantizedAdd": _add,
    "QuantizedAverage": _average,
}
