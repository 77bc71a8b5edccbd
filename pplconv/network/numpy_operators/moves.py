"""Operators that move elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..storage import Array, Shape
from .types import Attributes, Operands

__all__ = ["gather_elements", "one_hot", "pad", "slices"]


def gather_elements(
    attributes: Attributes, operands: Operands, shapes: Sequence[Shape]
) -> list[Array]:
    """GatherElements: an index for each element of the result, counted along one axis."""
    x, index = operands
    assert x is not None and index is not None
    axis = attributes.get("axis", 0) % x.ndim
    size = x.shape[axis]
    outside = (index < -size) | (index >= size)
    if outside.any():
        raise ValueError(
            f"the index {index[outside][0]} is outside of the axis {axis} of {x.shape}"
        )
    # Along the other axes, indices are those of the result's element.
    places: list[Any] = list(np.ogrid[tuple(map(slice, index.shape))])
    places[axis] = index
    return [x[tuple(places)]]


def one_hot(attributes: Attributes, operands: Operands, shapes: Sequence[Shape]) -> list[Array]:
    """OneHot: the depth may be a list of one; indices outside match nothing."""
    index, depth, values = operands
    assert index is not None and depth is not None and values is not None
    count, axis = int(depth.reshape(-1)[0]), attributes.get("axis", -1)
    # Floats are truncated, as in onnxruntime; integers that a double cannot hold are out of range.
    whole = np.trunc(index.astype(np.float64))
    index = np.expand_dims(np.where(whole < 0, whole + count, whole), axis)
    row = np.arange(count).reshape(-1, *(1,) * (index.ndim - 1 - axis % index.ndim))
    return [np.where(index == row, values[1], values[0])]


def slices(attributes: Attributes, operands: Operands, shapes: Sequence[Shape]) -> list[Array]:
    """Slice: a backward start before the first element means the first, unlike in NumPy."""
    x, starts, ends, axes, steps = [*operands, None, None][:5]
    assert x is not None and starts is not None and ends is not None
    count = starts.size
    taken = [slice(None)] * x.ndim
    for start, end, axis, step in zip(
        starts.reshape(-1).tolist(), ends.reshape(-1).tolist(),
        range(count) if axes is None else axes.reshape(-1).tolist(),
        [1] * count if steps is None else steps.reshape(-1).tolist(), strict=True,
    ):  # fmt: skip
        size = x.shape[axis]
        if step < 0:
            first = min(max(start + size if start < 0 else start, 0), size - 1)
            last = min(max(end + size if end < 0 else end, -1), size - 1)
            taken[axis] = slice(first, None if last < 0 else last, step)
        else:
            taken[axis] = slice(start, end, step)
    return [x[tuple(taken)]]


def pad(attributes: Attributes, operands: Operands, shapes: Sequence[Shape]) -> list[Array]:
    """Pad: negative amounts remove elements first, then the others add, as in onnxruntime."""
    x, amounts, fill, given = [*operands, None, None][:4]
    assert x is not None and amounts is not None
    both = _amounts(amounts, given, x.ndim)
    value = 0 if fill is None else fill.reshape(-1)[0]
    return [_padded(x, both, attributes.get("mode", "constant"), value)]


def _amounts(amounts: Array, axes: Array | None, rank: int) -> Array:
    """Give the amounts before and after each of all dimensions."""
    named = np.arange(rank) if axes is None else axes.reshape(-1) % rank
    both = np.zeros((rank, 2), np.int64)
    both[named] = amounts.reshape(2, -1).T
    return both


def _padded(x: Array, amounts: Array, mode: str, value: Any = 0) -> Array:
    """Pad an array by amounts before and after each dimension; it is not empty."""
    sizes = np.array(x.shape)
    if mode == "constant":
        y = np.full(sizes + amounts.sum(1), value, x.dtype)
        kept = [slice(max(0, -b), n - max(0, -a)) for (b, a), n in zip(amounts, sizes, strict=True)]
        place = [slice(max(0, b), max(0, b) + s.stop - s.start)
                 for (b, _), s in zip(amounts, kept, strict=True)]  # fmt: skip
        if all(s.stop > s.start for s in kept):
            y[tuple(place)] = x[tuple(kept)]
        return y
    cut = np.maximum(-amounts, 0)
    kept = [slice(b, max(b, n - a)) for (b, a), n in zip(cut, sizes, strict=True)]
    return np.pad(x[tuple(kept)], np.maximum(amounts, 0), mode=mode)  # type: ignore[call-overload,no-any-return]
