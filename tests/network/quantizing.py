"""Small quantized models, and what becomes of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import numpy_helper

from graphs import Graph
from pplconv.network.loading import load
from pplconv.network.preparing import Prepared, prepare, specialize
from pplconv.network.session import InferenceSession
from running import by_onnxruntime

U8, S8 = np.dtype(np.uint8), np.dtype(np.int8)


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
        (tensor,) = (tensor for tensor in self.weights if tensor.name == node.input[1])
        return numpy_helper.to_array(tensor)

    def qconv(self, x: str, channels: int, w: Sequence[int], bias: bool = True, **more: Any) -> str:
        """A Conv with quantized weights and a bias of float32."""
        operands = [x, self.kernel(channels, *w)]
        if bias:
            operands.append(self.random(channels))
        return str(self.Conv(*operands, **more))


def folded(g: Graph, *outputs: str) -> Prepared:
    """The specialised model, with the rules of both stages that fired."""
    prepared = prepare(load(g.model(*outputs)))
    special = specialize(prepared.model, {name: x.shape for name, x in g.feed.items()})
    fired = {name: list(found) for name, found in prepared.fired.items()}
    for rule, names in special.fired.items():
        fired.setdefault(rule, []).extend(names)
    return Prepared(special.model, fired)


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
