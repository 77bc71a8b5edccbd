"""``data[start:end] = v`` along one axis, where a bound is computed: a Where in place of a scatter.

Paddle's exporter spells it, for its ``set_value``, as ::

    indices = Range(start, end, 1), reshaped to one axis, and tiled to the shape of the slice
    updates = Expand(v, Shape(Slice(data, start, end, axis)))
    ScatterElements(data, indices, updates, axis)

and earlier versions of it by ScatterND, on the first axis. The slice, its indices and its updates
have as many elements as the bounds say, so that a network is cut there. The result has the shape of
`data` whatever the bounds are: it is ``Where(start <= index < end, v, data)``.

Operands for which the scatter is defined have 0 <= start <= end <= size, or start >= end, or both
bounds count from the end: for others, the indices are outside of `data`, or not as many as the
updates. No Where writes outside of `data`: it takes the indices between the bounds, as far as there
are any.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from ..values import attribute_int, broadcasts_to, constant, rank, static_shape
from .decomposing import Decompose
from .driver import Rule, made_by

__all__ = ["RULES"]

_SAME_NUMBER = ("Identity", "Reshape", "Squeeze", "Unsqueeze")
_RESHAPES = ("Reshape", "Unsqueeze")


def _input(node: ir.Node, place: int) -> ir.Value | None:
    return node.inputs[place] if place < len(node.inputs) else None


def _number(value: ir.Value | None) -> ir.Value | int | None:
    """Give the value that reshapes of one integer begin with, or that integer if it is known."""
    while (node := made_by(value, *_SAME_NUMBER)) is not None:
        value = node.inputs[0]
    known = constant(value)
    if known is None:
        return value
    return int(known.reshape(())) if known.size == 1 and known.dtype.kind == "i" else None


def _sliced(node: ir.Node, shape: tuple[int, ...]) -> tuple[ir.Node, int] | None:
    """Give the Slice whose shape the updates of a scatter have, and its axis."""
    expand = made_by(node.inputs[2], "Expand")
    target = made_by(expand.inputs[1], "Shape") if expand is not None else None
    piece = made_by(target.inputs[0], "Slice") if target is not None else None
    if target is None or piece is None or piece.inputs[0] is not node.inputs[0]:
        return None
    if attribute_int(target, "start", 0) or "end" in target.attributes:
        return None
    axes, steps = _input(piece, 3), _input(piece, 4)
    axis = 0 if axes is None else _number(axes)
    step = 1 if steps is None else _number(steps)
    one = static_shape(piece.inputs[1]) == (1,)
    if not one or step != 1 or not isinstance(axis, int) or not -len(shape) <= axis < len(shape):
        return None
    return piece, axis % len(shape)


def _untiled(indices: ir.Value | None, axis: int) -> ir.Value | None:
    """Give what a Tile repeats, which must not repeat along an axis; else the indices."""
    tile = made_by(indices, "Tile")
    if tile is None:
        return indices
    known = constant(tile.inputs[1])
    if known is not None:
        return tile.inputs[0] if axis < known.size and known[axis] == 1 else None
    joined = made_by(tile.inputs[1], "Concat")
    place = 0
    for part in joined.inputs if joined is not None else ():
        size = static_shape(part)
        if size is None or len(size) != 1:
            return None
        if place <= axis < place + size[0]:
            repeats = constant(part)
            single = repeats is not None and repeats[axis - place] == 1
            return tile.inputs[0] if single else None
        place += size[0]
    return None


def _is_range(indices: ir.Value | None, along: int, piece: ir.Node) -> bool:
    """Tell whether indices are a Range between the bounds of a Slice, along one axis."""
    shaped = made_by(indices, *_RESHAPES)
    numbers = shaped.inputs[0] if shaped is not None else indices
    wide = made_by(numbers, "Cast")
    if wide is not None and wide.outputs[0].dtype == ir.DataType.INT64:
        numbers = wide.inputs[0]
    counted = made_by(numbers, "Range")
    if counted is None or indices is None or indices.shape is None:
        return False
    others = [size for axis, size in enumerate(indices.shape) if axis != along]
    if along >= len(indices.shape) or any(size != 1 for size in others):
        return False
    bounds = [_number(value) for value in counted.inputs]
    if None in bounds or bounds[2] != 1:
        return False
    return all(
        bound is other or (isinstance(bound, int) and bound == other)
        for bound, other in zip(bounds, map(_number, piece.inputs[1:3]), strict=False)
    )


def _assign(op: Any, node: ir.Node) -> Any:
    """Write the scatter as a Where; see `Decompose`."""
    data, indices, updates = node.inputs[:3]
    shape = static_shape(data)
    if not shape or node.attributes.get_string("reduction", "none") != "none":
        return None
    found = _sliced(node, shape)
    if found is None or data is None or updates is None:
        return None
    piece, axis = found
    if node.op_type == "ScatterND":
        fits = axis == 0 and rank(indices) == 2
    else:
        indices, own = _untiled(indices, axis), attribute_int(node, "axis", 0)
        fits = own in (axis, axis - len(shape)) and rank(indices) == len(shape)
    if not fits or not _is_range(indices, axis, piece):
        return None
    v = updates.producer().inputs[0]
    one = (*shape[:axis], 1, *shape[axis + 1 :])
    of_v = static_shape(v)
    if of_v is None or not broadcasts_to(one, of_v) or v.dtype != data.dtype:
        return None
    return _where(op, data, v, piece, axis)


def _where(op: Any, data: ir.Value, v: ir.Value, piece: ir.Node, axis: int) -> Any:
    shape = static_shape(data) or ()
    size, kind = shape[axis], piece.inputs[1].dtype
    if kind not in (ir.DataType.INT32, ir.DataType.INT64):
        return None

    def numbers(array: Any, what: str) -> Any:
        return op.initializer(ir.tensor(array.astype(kind.numpy())), name=f"{name}_{what}")

    name = data.name
    index = numbers(np.arange(size).reshape(-1, *[1] * (len(shape) - axis - 1)), "indices")
    zero, length = numbers(np.array([0]), "zero"), numbers(np.array([size]), "length")

    def from_front(bound: Any) -> Any:
        known = _number(bound)
        if isinstance(known, int) and known >= 0:
            return bound
        return op.Where(op.Less(bound, zero), op.Add(bound, length), bound)

    start, end = map(from_front, piece.inputs[1:3])
    inside = op.And(op.GreaterOrEqual(index, start), op.Less(index, end))
    return op.Where(inside, v, data)


RULES: tuple[Rule, ...] = tuple(
    Decompose("slice assignment", operator, _assign)
    for operator in ("ScatterElements", "ScatterND")
)
"""Rules of this module, in the order in which they are tried."""
