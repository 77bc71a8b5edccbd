"""Arrays of a network before it runs: shapes, strides and memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np

from .._records import NamedTuple, record
from ..memory.mapping import plain

Shape = tuple[int, ...]
Array = np.ndarray[tuple[Any, ...], np.dtype[Any]]
Item = Array | list[Array] | None
"""An array, a sequence, or an optional without an element."""


def as_bits(array: Array) -> Array:
    """Give an array that exports its buffer: of types that NumPy has not, a view of their bits."""
    return array if array.dtype.isbuiltin == 1 else array.view(f"u{array.dtype.itemsize}")


@record(eq=False)
class Buffer:
    """A block of memory that holds values.

    Parameters
    ----------
    size : int
        Bytes.
    array : ndarray, optional
        Of a constant: its elements.
    external : int, optional
        Number of the caller's array; None if it is the program's own.

    Attributes
    ----------
    first, last : int
        Steps that write it first and read it last; -1 where there is none yet.
    offset : int
        Offset in the arena, once it is chosen.
    successors : list of Buffer
        Buffers that take its place in turn; each is written while its predecessor is read.
    """

    size: int
    array: Array | None = None
    external: int | None = None
    first: int = -1
    last: int = -1
    offset: int = 0
    successors: list[Buffer] = field(default_factory=list)

    @property
    def end(self) -> int:
        """The last step that reads it or a successor."""
        return self.successors[-1].last if self.successors else self.last

    @property
    def in_arena(self) -> bool:
        """Whether it gets memory from the arena."""
        return self.array is None and self.external is None


@record(eq=False)
class Value:
    """An array: a view of a buffer, as NumPy's arrays are.

    Parameters
    ----------
    shape : tuple of int
        Its dimensions, in ONNX's order.
    dtype : numpy.dtype
        Type of the elements.
    strides : tuple of int
        Bytes from one index of each dimension to the next.
    buffer : Buffer
        Its memory.
    offset : int
        Bytes from the beginning of the buffer.
    advance : int
        In a repeat: bytes from its place in one turn to its place in the next.
    """

    shape: Shape
    dtype: np.dtype[Any]
    strides: Shape
    buffer: Buffer
    offset: int = 0
    advance: int = 0

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def constant(self) -> Array | None:
        """Its elements, if it is a constant that stays in place."""
        if self.buffer.array is None or self.advance:
            return None
        if not self.size:
            return np.empty(self.shape, self.dtype)
        flat: Any = self.buffer.array.reshape(-1).view(np.uint8)
        array: Array = np.ndarray(self.shape, self.dtype, flat, self.offset, self.strides)
        array.flags.writeable = False
        return array

    def lies_as(self, strides: Shape) -> bool:
        """Whether it has these strides; strides of dimensions of size 1 do not count."""
        return all(
            a == b for n, a, b in zip(self.shape, self.strides, strides, strict=True) if n > 1
        )

    def is_same(self, other: Value) -> bool:
        """Whether another value has the same elements in the same places."""
        return (
            self.buffer is other.buffer
            and (self.offset, self.advance) == (other.offset, other.advance)
            and self.shape == other.shape
            and self.lies_as(other.strides)
        )

    @property
    def is_plain(self) -> bool:
        """Whether it is C-contiguous."""
        return self.lies_as(strides_of(self.shape, self.dtype.itemsize))

    @property
    def order(self) -> Shape:
        """Its dimensions in memory order, from the outermost to the innermost."""
        return tuple(sorted(range(len(self.shape)), key=lambda d: (-self.strides[d], d)))

    def viewed(self, shape: Shape, strides: Shape, offset: int = 0) -> Value:
        """Another view of the same memory."""
        offset += self.offset
        return Value(shape, self.dtype, strides, self.buffer, offset, self.advance)


def strides_of(shape: Sequence[int], element: int, order: Sequence[int] | None = None) -> Shape:
    """Strides of an array without gaps.

    Parameters
    ----------
    shape : sequence of int
        Its dimensions.
    element : int
        Bytes of an element.
    order : sequence of int, optional
        Dimensions from the outermost to the innermost; in their own order by default.
    """
    strides, step = [0] * len(shape), element
    for d in reversed(order if order is not None else range(len(shape))):
        strides[d] = step
        step *= max(shape[d], 1)
    return tuple(strides)


def channels_last(rank: int) -> Shape:
    """Order of the dimensions in NHWC: N, spatial ones, C."""
    return (0, *range(2, rank), 1) if rank > 2 else tuple(range(rank))


def lie_alike(a: Value, b: Value) -> bool:
    """Whether the dimensions of two values of one shape follow one another in the same order."""
    return [d for d in a.order if a.shape[d] > 1] == [d for d in b.order if b.shape[d] > 1]


def constant_value(array: Array) -> Value:
    """Make the value of a constant."""
    array = plain(array)
    strides = strides_of(array.shape, array.itemsize)
    stored = as_bits(array) if array.dtype.name == "bfloat16" else array
    return Value(array.shape, array.dtype, strides, Buffer(array.nbytes, array=stored))


@record(eq=False)
class Step:
    """One step of a program.

    Parameters
    ----------
    work : object
        A compiled work, or a Python function of arrays for steps on the host.
    reads, writes : list of Value
        Values that it reads and writes.
    places : dict
        Values, constants and objects by the names that ``program.Program`` takes.
    kind : str
        Kind of step, for people.
    nodes : list of str
        Names of the outputs of its nodes.
    detail : str
        Details, for people.
    host : bool
        Whether it runs in Python.
    flops : int
        Floating-point operations of a turn, counted for people.
    turns : int
        How often a run takes the step.
    member : int or None
        Number of the member of a group of bands that it computes; None of all other steps.
    """

    work: Any
    reads: list[Value]
    writes: list[Value]
    places: dict[str, Any]
    kind: str
    nodes: list[str] = field(default_factory=list)
    detail: str = ""
    host: bool = False
    flops: int = 0
    turns: int = 1
    member: int | None = None


class Repeat(NamedTuple):
    """Steps that a run takes several times, all of them in each turn.

    Parameters
    ----------
    begin, end : int
        The first step, and the one behind the last.
    turns : int
        How often they run.
    """

    begin: int
    end: int
    turns: int


# What the details of steps of bands end with, by the place of their band.
BANDS = ", first band", "", ", last band"


class Banded(NamedTuple):
    """Steps that run band by band, described for people.

    Parameters
    ----------
    begin, end : int
        The first step, and the one behind the last.
    shapes : tuple of tuple of int
        Of the whole result of each member.
    bands : int
        Number of bands.
    rows : int
        Rows of the last member's result in a band, apart from the first and the last band.
    axis : int
        The axis that is cut: 3 if columns count as rows.
    inner_bytes, window_bytes : int
        Bytes of the images that the group alone reads, if they were whole, and of the windows that
        take their place.
    gain : float
        Cycles that it is estimated to save.
    """

    begin: int
    end: int
    shapes: tuple[Shape, ...]
    bands: int
    rows: int
    axis: int
    inner_bytes: int
    window_bytes: int
    gain: float


def place_of(value: Any) -> Any:
    """Describe a value's place for a program."""
    if isinstance(value, list):
        return [place_of(item) for item in value]
    if not isinstance(value, Value):
        return value
    if value.advance:
        array = value.buffer.array
        first = place_of(replace(value, advance=0))
        if array is not None:
            first = ("constant", array.reshape(-1).view(np.uint8), value.offset)
        return ("each", first, value.advance)
    buffer = value.buffer
    if buffer.array is not None:
        flat = buffer.array.reshape(-1).view(np.uint8)
        return flat[value.offset :]
    if buffer.external is not None:
        return ("external", buffer.external, value.offset, buffer.size - value.offset)
    return ("arena", buffer.offset + value.offset, buffer.size - value.offset)
