"""Operators that give the elements of an array another shape, or join arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..storage import Array, Shape
from .types import Attributes, Operands

__all__ = [
    "concat", "dropout", "expand", "flatten", "gather", "identity", "reshape", "shape", "size",
    "split", "squeeze", "transpose", "unsqueeze",
]  # fmt: skip


def identity(attributes: Attributes, operands: Operands, shapes: Sequence[Shape]) -> list[Any]:
    """Identity: the operand itself, be it an array, a sequence or an optional."""
    return [operands[0]]


def dropout(attributes: Attributes, operands: Operands, shapes: Sequence[Shape]) -> list[Array]:
    """Dropout in inference: the operand itself, and a mask that is true everywhere."""
    x, ratio, training = [*operands, None, None][:3]
    assert x is not None
    if training is not None and training.all() and (ratio is None or ratio.any()):
        raise ValueError("Dropout in training mode is not supported")
    return [x, np.ones(x.shape, np.bool_)]


def shape(attributes: Attributes, operands: Operands, shapes: Sequence[Shape]) -> list[Array]:
    """Shape: all sizes, or those from one axis to another."""
    (x,) = operands
    assert x is not None
    # Axes out of range are the first or the last, as in a slice.
    start, end = attributes.get("start", 0), attributes.get("end", x.ndim)
    return [np.array(x.shape[slice(start, end)], np.int64)]


def size(attributes: Attributes, operands: Operands, shapes: Sequence[Shape]) -> list[Array]:
    """Size: the number of elements."""
    (x,) = operands
    assert x is not None
    return [np.array(x.size, np.int64)]


def reshape(attributes: Attributes, operands: Operands, shapes: Sequence[Shape]) -> list[Array]:
    """Reshape: a size of 0 is that of the operand, and -1 whatever is left."""
    x, sizes = operands
    assert x is not None and sizes is not None
    wanted = sizes.tolist()
    if not attributes.get("allowzero", 0):
        wanted = [x.shape[axis] if size == 0 else size for axis, size in enumerate(wanted)]
    return [x.reshape(wanted)]


def squeeze(attributes: Attributes, operands: Operands, shapes: Sequence[Shape]) -> list[Array]:
    """Squeeze: without the named dimensions, or without all of size 1 if none is named."""
    x, axes = [*operands, None][:2]
    assert x is not None
    return [
        np.squeeze(x, tuple(axes.reshape(-1).tolist()) if axes is not None and axes.size else None)
    ]


def unsqueeze(attributes: Attributes, operands: Operands, shapes: Sequence[Shape]) -> list[Array]:
    """Unsqueeze: with dimensions of size 1 more."""
    x, axes = operands
    assert x is not None and axes is not None
    return [np.expand_dims(x, tuple(axes.reshape(-1).tolist()))]


def transpose(attributes: Attributes, operands: Operands, shapes: Sequence[Shape]) -> list[Array]:
    """Transpose: by default the dimensions backwards."""
    (x,) = operands
    assert x is not None
    return [x.transpose(attributes.get("perm"))]


def expand(attributes: Attributes, operands: Operands, shapes: Sequence[Shape]) -> list[Array]:
    """Expand: broadcast in both directions."""
    x, sizes = operands
    assert x is not None and sizes is not None
    return [np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(sizes.tolist())))]


def concat(attributes: Attributes, operands: Operands, shapes: Sequence[Shape]) -> list[Array]:
    """Concat: arrays one after the other along an axis."""
    return [np.concatenate([x for x in operands if x is not None], attributes["axis"])]


def gather(attributes: Attributes, operands: Operands, shapes: Sequence[Shape]) -> list[Array]:
    """Gather: slices of an axis by their indices, negative ones from its end."""
    x, index = operands
    assert x is not None and index is not None
    return [np.take(x, index, attributes.get("axis", 0))]


def flatten(attributes: Attributes, operands: Operands, shapes: Sequence[Shape]) -> list[Array]:
    """Flatten: a matrix; the dimensions before the axis become its rows."""
    (x,) = operands
    assert x is not None
    axis = attributes.get("axis", 1)
    axis += x.ndim if axis < 0 else 0
    return [x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))]


def split(attributes: Attributes, operands: Operands, shapes: Sequence[Shape]) -> list[Array]:
    """Split: parts of given sizes, or equal parts, the last one smaller if need be."""
    x, sizes = [*operands, None][:2]
    assert x is not None
    axis = attributes.get("axis", 0)
    total, parts = x.shape[axis], attributes.get("num_outputs", len(shapes))
    if sizes is not None:
        counts = sizes.reshape(-1).tolist()
        if sum(counts) != total or min(counts, default=0) < 0:
            raise ValueError(f"the parts are {counts}, the axis has {total} elements")
        ends = np.cumsum(counts)[:-1]
    else:
        if parts < 1:
            raise ValueError("neither sizes nor num_outputs say how many parts there are")
        ends = np.minimum(np.arange(1, parts) * -(-total // parts), total)
    return np.split(x, ends, axis)
