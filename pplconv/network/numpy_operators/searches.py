"""Operators that find elements: places of the largest ones, of those that are not zero, and so on.

NaN is larger than all other numbers, as in NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ... import planner
from ..._kernels import REDUCTIONS
from ...schedules.box_loops import top
from ..storage import Array, Shape
from .types import Attributes, Compute, Operands

__all__ = ["arg_max", "arg_min", "non_zero", "top_k", "unique"]

# Types whose best elements a kernel finds.
_SEARCHED = {
    np.dtype(np.float32): "f32",
    np.dtype(np.float64): "f64",
    np.dtype(np.int32): "s32",
    np.dtype(np.int64): "s64",
}


def _arg(search: str) -> Compute:
    def compute(attributes: Attributes, operands: Operands, shapes: Sequence[Shape]) -> list[Array]:
        (x,) = operands
        assert x is not None
        axis = attributes.get("axis", 0)
        last = bool(attributes.get("select_last_index", 0))
        found = getattr(np.flip(x, axis) if last else x, search)(axis)
        if last:
            found = x.shape[axis] - 1 - found
        if attributes.get("keepdims", 1):
            found = np.expand_dims(found, axis)
        return [np.asarray(found, np.int64)]

    compute.__doc__ = f"{search.capitalize()}: the first place of several, or the last one."
    return compute


arg_max, arg_min = _arg("argmax"), _arg("argmin")


def top_k(attributes: Attributes, operands: Operands, shapes: Sequence[Shape]) -> list[Array]:
    """TopK: the largest or smallest elements in order; of equal ones the first comes first."""
    x, count = operands
    assert x is not None and count is not None
    axis, k = attributes.get("axis", -1), int(count.reshape(-1)[0])
    size = x.shape[axis]
    if not 0 <= k <= size:
        raise ValueError(f"K is {k}, the axis has {size} elements")
    largest = bool(attributes.get("largest", 1))
    if x.dtype in _SEARCHED:
        rows = np.ascontiguousarray(np.moveaxis(x, axis, -1))
        kind = REDUCTIONS["MAX" if largest else "MIN"]
        isa = planner.default_context("f32").isa
        matrix = rows.reshape(math.prod(rows.shape[:-1]), size)
        found = top(matrix, k, kind, _SEARCHED[x.dtype], isa)
        whole = (*rows.shape[:-1], k)
        return [np.moveaxis(each.reshape(whole), -1, axis) for each in found]
    if largest:
        # Both turns keep equal elements in their order.
        order = size - 1 - np.flip(np.argsort(np.flip(x, axis), axis, kind="stable"), axis)
    else:
        order = np.argsort(x, axis, kind="stable")
    places = np.take(order, range(k), axis)
    return [np.take_along_axis(x, places, axis), places.astype(np.int64, copy=False)]


def non_zero(attributes: Attributes, operands: Operands, shapes: Sequence[Shape]) -> list[Array]:
    """NonZero: a row of places for each axis; one number has one axis, as in onnxruntime."""
    (x,) = operands
    assert x is not None
    return [np.array(np.nonzero(np.atleast_1d(x)), np.int64)]


def unique(attributes: Attributes, operands: Operands, shapes: Sequence[Shape]) -> list[Array]:
    """Unique: elements, or parts along an axis, once; their places and counts."""
    (x,) = operands
    assert x is not None
    axis = attributes.get("axis")
    found, first, inverse, counts = np.unique(
        x, return_index=True, return_inverse=True, return_counts=True, axis=axis
    )
    inverse = inverse.reshape(-1)
    if not attributes.get("sorted", 1):
        order = np.argsort(first)
        found = np.take(found, order, 0 if axis is None else axis)
        first, counts = first[order], counts[order]
        inverse = np.argsort(order)[inverse]
    return [found, *(part.astype(np.int64, copy=False) for part in (first, inverse, counts))]
