"""Sums, products and means of integers, and logarithms of sums.

Integer results are exact, and saturate if they do not fit, as in onnxruntime; in ONNX's reference
they wrap around.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..storage import Array, Shape
from .types import Attributes, Compute, Operands

__all__ = [
    "absolute_sum", "cumulative_sum", "largest", "length", "log_sum", "log_sum_exp", "mean",
    "product", "smallest", "squares", "total",
]  # fmt: skip

# Limits of intermediate sums, squares and products: signed 64 bits, and double precision.
_BITS = 62


def log_sum(attributes: Attributes, operands: Operands, shapes: Sequence[Shape]) -> list[Array]:
    """ReduceLogSum."""
    x, axes, keep = _read(attributes, operands)
    if axes == ():
        return [np.log(x.astype(np.float64)).astype(x.dtype)]
    return [np.log(x.astype(np.float64).sum(axes, keepdims=keep)).astype(x.dtype)]


def log_sum_exp(attributes: Attributes, operands: Operands, shapes: Sequence[Shape]) -> list[Array]:
    """ReduceLogSumExp, shifted so that the largest power is one."""
    x, axes, keep = _read(attributes, operands)
    wide = x.astype(np.float64)
    largest = wide.max(axes, keepdims=True, initial=-np.inf)
    # Subtracting infinity would give NaN.
    base = np.where(np.isfinite(largest), largest, 0)
    total = np.log(np.exp(wide - base).sum(axes, keepdims=True)) + base
    return [(total if keep else total.squeeze(axes)).astype(x.dtype)]


def cumulative_sum(
    attributes: Attributes, operands: Operands, shapes: Sequence[Shape]
) -> list[Array]:
    """CumSum: the axis may be a list of one."""
    x, at = operands
    assert x is not None and at is not None
    if at.size != 1 or at.ndim > 1:
        raise ValueError(f"axis has the shape {at.shape}, expected one number")
    axis = int(at.reshape(()))
    if not -x.ndim <= axis < x.ndim:
        raise ValueError(f"axis is {axis}, the input has the shape {x.shape}")
    axis %= x.ndim
    backwards = bool(attributes.get("reverse", 0))
    x = np.flip(x, axis) if backwards else x
    y = np.cumsum(x, axis, x.dtype)
    if attributes.get("exclusive", 0):
        before: list[Any] = [slice(None)] * x.ndim
        before[axis] = slice(0, -1)
        amounts = [(int(d == axis), 0) for d in range(x.ndim)]
        y = np.pad(y[tuple(before)], amounts)
    return [np.flip(y, axis) if backwards else y]


def _bounds(dtype: np.dtype[Any]) -> tuple[Any, Any]:
    if dtype.kind == "f":
        return -np.inf, np.inf
    if dtype.kind == "b":
        return False, True
    return np.iinfo(dtype).min, np.iinfo(dtype).max


def _extreme(search: str) -> Compute:
    """Make a search for the largest or smallest elements; NaN wins, as in our loops."""

    def compute(attributes: Attributes, operands: Operands, shapes: Sequence[Shape]) -> list[Array]:
        x, axes, keep = _read(attributes, operands)
        if not x.size:
            # Of nothing, the least number of the type is the largest.
            bounds = _bounds(x.dtype)
            initial = bounds[0 if search == "max" else 1]
            return [np.asarray(getattr(x, search)(axes, keepdims=keep, initial=initial))]
        return [np.asarray(getattr(x, search)(axes, keepdims=keep))]

    return compute


largest, smallest = _extreme("max"), _extreme("min")


def _read(attributes: Attributes, operands: Operands) -> tuple[Array, tuple[int, ...], bool]:
    x, given = [*operands, None][:2]
    assert x is not None
    # Each axis once, as in onnxruntime.
    axes = () if given is None else tuple({int(axis) % x.ndim for axis in given.reshape(-1)})
    if not axes and not attributes.get("noop_with_empty_axes", 0):
        axes = tuple(range(x.ndim))
    return x, axes, bool(attributes.get("keepdims", 1))


def _exact(op: str, find: Callable[[Array, Any], Array]) -> Compute:
    """Make an operator from a function of numbers that cannot overflow, and their axes."""

    def compute(attributes: Attributes, operands: Operands, shapes: Sequence[Shape]) -> list[Array]:
        x, axes, keep = _read(attributes, operands)
        whole = x.dtype.kind in "iu"
        if whole:
            wide = x.astype(np.int64 if _bits(op, x, axes) < _BITS else object)
        else:
            wide = x.astype(np.float32) if x.dtype == np.float16 else x
        y = np.asarray(find(wide, axes), wide.dtype)
        if whole:
            bounds = np.iinfo(x.dtype)
            y = np.clip(y, bounds.min, bounds.max)
        return [(y if keep else y.squeeze(axes)).astype(x.dtype)]

    return compute


def _bits(op: str, x: Array, axes: tuple[int, ...]) -> float:
    """Bound the binary logarithm of intermediate numbers in an integer reduction."""
    largest = max(-int(x.min(initial=0)), int(x.max(initial=0)))
    count = math.prod(x.shape[axis] for axis in axes)
    if op != "ReduceProd":
        each = largest * largest if op in ("ReduceL2", "ReduceSumSquare") else largest
        return math.log2(max(each * count, 1))
    bits: float = count * math.log2(max(largest, 1))
    if bits < _BITS:
        return bits
    # Most may be smaller than the largest.
    sizes = np.maximum(np.abs(x.astype(np.float64)), 1)
    return float(np.log2(sizes).sum(axes).max(initial=0))


def _sum(x: Array, axes: Any) -> Array:
    return np.asarray(x.sum(axes, keepdims=True))


def _product(x: Array, axes: Any) -> Array:
    return np.asarray(x.prod(axes, keepdims=True))


def _mean(x: Array, axes: Any) -> Array:
    total, count = _sum(x, axes), math.prod(x.shape[axis] for axis in axes)
    if x.dtype.kind == "f":
        return np.asarray(total / count)
    # Toward zero.
    return np.asarray(np.where(total < 0, -(-total // max(count, 1)), total // max(count, 1)))


def _length(x: Array, axes: Any) -> Array:
    squares = _sum(x * x, axes)
    if x.dtype.kind == "f":
        return np.sqrt(squares)
    return np.asarray(np.frompyfunc(math.isqrt, 1, 1)(squares.astype(object)))


absolute_sum = _exact("ReduceL1", lambda x, axes: _sum(np.abs(x), axes))
length = _exact("ReduceL2", _length)
mean = _exact("ReduceMean", _mean)
product = _exact("ReduceProd", _product)
squares = _exact("ReduceSumSquare", lambda x, axes: _sum(x * x, axes))
total = _exact("ReduceSum", _sum)
