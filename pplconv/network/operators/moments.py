"""Normalizations that give the means and variances which they compute, as well."""

from __future__ import annotations

from typing import Any

from ..onnx_later import ir
from ..values import FLOATS, HALVES, attribute_int, rank
from . import decompositions
from .decompositions import Numbers

__all__ = ["batch_norm", "layer_norm"]


def _is_read(value: ir.Value) -> bool:
    return bool(value.uses()) or value.is_graph_output()


def _computed(x: ir.Value) -> ir.DataType | None:
    """Type of sums; None if there are no loops for it."""
    dtype = ir.DataType.FLOAT if x.dtype in HALVES else x.dtype
    return dtype if dtype in FLOATS else None


def layer_norm(op: Any, node: ir.Node) -> Any:
    """LayerNormalization whose means or inverse deviations are read, in pieces."""
    x, scale, offset = [*node.inputs, None][:3]
    assert x is not None
    axes, inner = rank(x), _computed(x)
    if axes is None or inner is None or not any(map(_is_read, node.outputs[1:])):
        return None
    numbers = Numbers(op, node, inner)
    last = numbers.integers(*range(attribute_int(node, "axis", -1) % axes, axes))
    apart, mean, variance = _moments(op, x, last, inner)
    epsilon = numbers.number(node.attributes.get_float("epsilon", 1e-5))
    inverse = op.Reciprocal(op.Sqrt(op.Add(variance, epsilon)))
    y = op.Mul(_of_type(op, op.Mul(apart, inverse), inner, x.dtype), scale)
    if offset is not None:
        y = op.Add(y, offset)
    return [y, *(_of_type(op, value, inner, ir.DataType.FLOAT) for value in (mean, inverse))]


def batch_norm(op: Any, node: ir.Node) -> Any:
    """BatchNormalization; in training by the moments of the batch, which it gives."""
    if not attribute_int(node, "training_mode", 0):
        return decompositions.batch_norm(op, node)
    x, scale, offset, *running = node.inputs
    assert x is not None
    axes, inner = rank(x), _computed(x)
    if axes is None or axes < 2 or inner is None or any(rank(v) != 1 for v in node.inputs[1:]):
        return None
    numbers = Numbers(op, node, inner)
    others = numbers.integers(0, *range(2, axes))
    apart, mean, variance = _moments(op, x, others, inner)
    epsilon = numbers.number(node.attributes.get_float("epsilon", 1e-5))
    normal = op.Div(apart, op.Sqrt(op.Add(variance, epsilon)))
    factors, terms = (
        numbers.of_channels(_of_type(op, v, v.dtype, inner), axes) for v in (scale, offset)
    )
    y = _of_type(op, op.Add(op.Mul(normal, factors), terms), inner, x.dtype)
    kept = node.attributes.get_float("momentum", 0.9)
    results = [y]
    for before, found in zip(running, (mean, variance), strict=True):
        new = op.Mul(op.Reshape(found, numbers.integers(-1)), numbers.number(1 - kept))
        old = op.Mul(_of_type(op, before, before.dtype, inner), numbers.number(kept))
        results.append(_of_type(op, op.Add(old, new), inner, before.dtype))
    return results


def _moments(op: Any, x: ir.Value, axes: Any, inner: ir.DataType) -> tuple[Any, Any, Any]:
    """Give the deviations from the mean, the mean and the variance, along some axes."""
    wide = _of_type(op, x, x.dtype, inner)
    mean = op.ReduceMean(wide, axes, keepdims=1)
    apart = op.Sub(wide, mean)
    return apart, mean, op.ReduceMean(op.Mul(apart, apart), axes, keepdims=1)


def _of_type(op: Any, value: Any, dtype: ir.DataType | None, wanted: ir.DataType | None) -> Any:
    if dtype == wanted or wanted is None:
        return value
    return op.Cast(value, to=int(wanted))
