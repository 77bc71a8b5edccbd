"""Operators that move elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..storage import Array, Shape
from .types import Attributes, Operands

__all__ = [
    "backward_start", "compress", "gather_elements", "gather_nd", "one_hot", "pad",
    "scatter_elements", "scatter_nd", "slices", "tile", "trilu",
]  # fmt: skip


def _checked(index: Array, axis: int, shape: Shape) -> Array:
    """Refuse indices outside of an axis."""
    size = shape[axis]
    outside = (index < -size) | (index >= size)
    if outside.any():
        raise ValueError(
            f"indices has {index[outside][0]}, outside of the axis {axis} of {tuple(shape)}"
        )
    return index


def _along(index: Array, axis: int, shape: Shape) -> tuple[Any, ...]:
    """Give the place of each element of an index along one axis: of the others it has its own."""
    places: list[Any] = list(np.ogrid[tuple(map(slice, index.shape))])
    places[axis] = _checked(index, axis, shape)
    return tuple(places)


def _shared_places(index: Array, axis: int, shape: Shape) -> tuple[Any, ...] | None:
    """Give the places of whole slices of an axis; None if indices vary along other axes.

    Exporters expand a row of indices for one of each slice; NumPy keeps it as it is.
    """
    others = [d for d in range(index.ndim) if d != axis]
    if not others or any(index.shape[d] != shape[d] or index.strides[d] for d in others):
        return None
    row = index[tuple(slice(None) if d == axis else 0 for d in range(index.ndim))]
    return (*[slice(None)] * axis, _checked(row, axis, shape))


def _of_tuples(index: Array, shape: Shape, batch: int = 0) -> tuple[Any, ...]:
    """Give the places that the last axis of an index has, behind the axes of a batch."""
    outer = index.shape[:-1]
    grids = np.ogrid[tuple(map(slice, outer[:batch]))] if batch else ()
    places = [grid.reshape(*grid.shape, *[1] * (len(outer) - batch)) for grid in grids]
    places += [_checked(index[..., d], batch + d, shape) for d in range(index.shape[-1])]
    return tuple(places)


def gather_elements(
    attributes: Attributes, operands: Operands, shapes: Sequence[Shape]
) -> list[Array]:
    """GatherElements: an index for each element of the result, counted along one axis."""
    x, index = operands
    assert x is not None and index is not None
    axis = attributes.get("axis", 0) % x.ndim
    places = _shared_places(index, axis, x.shape) if index.size else None
    return [x[places if places is not None else _along(index, axis, x.shape)]]


def gather_nd(attributes: Attributes, operands: Operands, shapes: Sequence[Shape]) -> list[Array]:
    """GatherND: an index of several axes for each element, or each part, of the result."""
    x, index = operands
    assert x is not None and index is not None
    return [x[_of_tuples(index, x.shape, attributes.get("batch_dims", 0))]]


_SCATTERED: dict[str, Any] = {
    "add": np.add, "max": np.maximum, "min": np.minimum, "mul": np.multiply,
}  # fmt: skip


def _scattered(x: Array, places: tuple[Any, ...], updates: Array, reduction: str) -> Array:
    """Write updates, or reduce them with what is there, in their order."""
    y = np.array(x, order="C")
    if reduction == "none":
        y[places] = updates
    elif reduction in _SCATTERED:
        _SCATTERED[reduction].at(y, places, updates)
    else:
        raise ValueError(f"reduction is {reduction!r}, expected none, add, mul, max or min")
    return y


def _check_updates(updates: Array, shape: Shape) -> None:
    if updates.shape != shape:
        raise ValueError(f"updates has the shape {updates.shape}, expected {shape}")


def scatter_elements(
    attributes: Attributes, operands: Operands, shapes: Sequence[Shape]
) -> list[Array]:
    """ScatterElements: an index for each update, counted along one axis; the last one stays."""
    x, index, updates = operands
    assert x is not None and index is not None and updates is not None
    _check_updates(updates, index.shape)
    axis, places = attributes.get("axis", 0) % x.ndim, None
    if index.size and attributes.get("reduction", "none") == "none":
        places = _shared_places(index, axis, x.shape)
    if places is None:
        places = _along(index, axis, x.shape)
    return [_scattered(x, places, updates, attributes.get("reduction", "none"))]


def scatter_nd(attributes: Attributes, operands: Operands, shapes: Sequence[Shape]) -> list[Array]:
    """ScatterND: an index of several axes for each update; the last one stays."""
    x, index, updates = operands
    assert x is not None and index is not None and updates is not None
    _check_updates(updates, index.shape[:-1] + x.shape[index.shape[-1] :])
    places = _of_tuples(index, x.shape)
    return [_scattered(x, places, updates, attributes.get("reduction", "none"))]


def tile(attributes: Attributes, operands: Operands, shapes: Sequence[Shape]) -> list[Array]:
    """Tile: repeats the whole array along each axis."""
    x, repeats = operands
    assert x is not None and repeats is not None
    if repeats.size != x.ndim or (repeats < 0).any():
        raise ValueError(f"repeats is {repeats.tolist()}, the input has the shape {x.shape}")
    return [np.tile(x, repeats.tolist())]


def trilu(attributes: Attributes, operands: Operands, shapes: Sequence[Shape]) -> list[Array]:
    """Trilu: zeros below, or above, a diagonal of each matrix."""
    x, diagonal = [*operands, None][:2]
    assert x is not None
    # Farther diagonals are outside of the matrix, too, and fit any integer.
    most = max(x.shape[-2:]) + 1
    k = 0 if diagonal is None else min(max(int(diagonal.reshape(-1)[0]), -most), most)
    return [np.triu(x, k) if attributes.get("upper", 1) else np.tril(x, k)]


def compress(attributes: Attributes, operands: Operands, shapes: Sequence[Shape]) -> list[Array]:
    """Compress: what a condition chooses along an axis, or of all elements.

    The condition may be shorter than the axis; what it has beyond the axis is ignored.
    """
    x, condition = operands
    assert x is not None and condition is not None
    axis = attributes.get("axis")
    size = x.size if axis is None else x.shape[axis]
    return [np.compress(condition[:size], x, axis)]


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
            last = min(max(end + size if end < 0 else end, -1), size - 1)
            taken[axis] = slice(backward_start(start, size), None if last < 0 else last, step)
        else:
            taken[axis] = slice(start, end, step)
    return [x[tuple(taken)]]


def backward_start(start: int, size: int) -> int:
    """Give the first index of a backward Slice along an axis; -1 if the axis is empty."""
    return min(max(start + size if start < 0 else start, 0), size - 1)


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
