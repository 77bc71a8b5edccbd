"""Operators of sequences and optionals: lists of arrays, and None for an optional without one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..storage import Array, Shape
from .types import Attributes, Operands

__all__ = [
    "TAKERS", "concat_from_sequence", "optional", "optional_get_element", "optional_has_element",
    "sequence_at", "sequence_construct", "sequence_empty", "sequence_erase", "sequence_insert",
    "sequence_length", "split_to_sequence",
]  # fmt: skip

TAKERS = frozenset((
    "ConcatFromSequence", "Identity", "Optional", "OptionalGetElement", "OptionalHasElement",
    "SequenceAt", "SequenceErase", "SequenceInsert", "SequenceLength",
))  # fmt: skip
"""Operators that take sequences or optionals; all others take arrays."""


def optional(attributes: Attributes, operands: Operands, shapes: Sequence[Shape]) -> list[Any]:
    """Optional: the operand, or an optional without an element."""
    return [operands[0] if operands else None]


def optional_has_element(
    attributes: Attributes, operands: Operands, shapes: Sequence[Shape]
) -> list[Array]:
    """OptionalHasElement: whether there is one; an array or a sequence is its own element."""
    return [np.array(bool(operands) and operands[0] is not None)]


def optional_get_element(
    attributes: Attributes, operands: Operands, shapes: Sequence[Shape]
) -> list[Any]:
    """OptionalGetElement: the element."""
    if operands[0] is None:
        raise ValueError("input is an optional without an element")
    return [operands[0]]


def sequence_construct(
    attributes: Attributes, operands: Operands, shapes: Sequence[Shape]
) -> list[Any]:
    """SequenceConstruct: the operands, which are of one type."""
    return [_of_one_type([x for x in operands if x is not None])]


def sequence_empty(
    attributes: Attributes, operands: Operands, shapes: Sequence[Shape]
) -> list[Any]:  # fmt: skip
    """SequenceEmpty: no element."""
    return [[]]


def sequence_length(
    attributes: Attributes, operands: Operands, shapes: Sequence[Shape]
) -> list[Array]:
    """SequenceLength: the number of elements."""
    return [np.array(len(_sequence(operands[0])), np.int64)]


def sequence_at(attributes: Attributes, operands: Operands, shapes: Sequence[Shape]) -> list[Array]:
    """SequenceAt: one element, counted from the end if its position is negative."""
    sequence = _sequence(operands[0])
    return [sequence[_position(operands[1], len(sequence), len(sequence))]]


def sequence_insert(
    attributes: Attributes, operands: Operands, shapes: Sequence[Shape]
) -> list[Any]:
    """SequenceInsert: with an element more, in front of a position or at the end."""
    sequence, x, position = [*operands, None][:3]
    elements = _sequence(sequence)
    assert x is not None
    count = len(elements)
    at = count if position is None else _position(position, count, count + 1)
    return [_of_one_type([*elements[:at], x, *elements[at:]])]


def sequence_erase(
    attributes: Attributes, operands: Operands, shapes: Sequence[Shape]
) -> list[Any]:  # fmt: skip
    """SequenceErase: without the element of a position, or without the last one."""
    sequence, position = [*operands, None][:2]
    elements = _sequence(sequence)
    count = len(elements)
    given = np.array(-1) if position is None else position
    at = _position(given, count, count)
    return [[*elements[:at], *elements[at + 1 :]]]


def concat_from_sequence(
    attributes: Attributes, operands: Operands, shapes: Sequence[Shape]
) -> list[Array]:
    """ConcatFromSequence: the elements one after the other, along an axis that may be new."""
    elements = _sequence(operands[0])
    if not elements:
        raise ValueError("input_sequence has no element")
    join = np.stack if attributes.get("new_axis", 0) else np.concatenate
    return [join(elements, axis=attributes["axis"])]


def split_to_sequence(
    attributes: Attributes, operands: Operands, shapes: Sequence[Shape]
) -> list[Any]:
    """SplitToSequence: parts along an axis, of given sizes, of one size, or without the axis."""
    x, split = [*operands, None][:2]
    assert x is not None
    axis = attributes.get("axis", 0)
    if not -x.ndim <= axis < x.ndim:
        raise ValueError(f"axis is {axis}, the input has the shape {x.shape}")
    size = x.shape[axis]
    if split is None:
        split = np.array(1)
    sizes = split.reshape(-1).tolist()
    if not split.ndim:
        if sizes[0] <= 0:
            raise ValueError(f"split is {sizes[0]}, expected a size above zero")
        sizes = [min(sizes[0], size - at) for at in range(0, size, sizes[0])]
    if sum(sizes) != size or min(sizes, default=0) < 0:
        raise ValueError(f"split has the sizes {sizes}, the axis {axis} has {size}")
    parts = np.split(x, np.cumsum(sizes[:-1], dtype=np.int64), axis) if sizes else []
    # As in onnxruntime: only one size for all parts may take the axis away.
    if not split.ndim and split == 1 and not attributes.get("keepdims", 1):
        parts = [np.squeeze(part, axis) for part in parts]
    return [parts]


def _sequence(operand: Any) -> list[Array]:
    if not isinstance(operand, list):
        raise ValueError("the operand is no sequence")
    return operand


def _of_one_type(elements: list[Array]) -> list[Array]:
    types = {str(x.dtype) for x in elements}
    if len(types) > 1:
        raise ValueError(f"elements of one sequence are of several types: {sorted(types)}")
    return elements


def _position(operand: Array | None, count: int, places: int) -> int:
    """Give a position from the front, where there are so many places for so many elements."""
    assert operand is not None
    if operand.size != 1:
        raise ValueError(f"position has the shape {operand.shape}, expected one number")
    position = int(operand.reshape(()))
    if not -count <= position < places:
        raise ValueError(f"position is {position}, the sequence has {count} elements")
    return position + count if position < 0 else position
