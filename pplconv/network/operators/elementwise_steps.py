"""Element-wise operators: each chain is one program, run in one pass over memory.

``asm/templates/elementwise.c`` interprets programs; ``schedules.elementwise_loops`` walks the
arrays.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..._kernels import MOST_REGISTERS
from ..._records import NamedTuple
from ...memory.dtypes import DTYPES, NAMES, array_dtype
from ...ops.strided_copies import TASK_BYTES
from ...schedules.elementwise_loops import MOST_DIMS, TILE_ELEMENTS, Elementwise
from ..builder import Builder
from ..collapse import Collapsed, broadcast_strides, collapse
from ..nodes import as_type
from ..storage import Array, Shape, Step, Value, constant_value, strides_of
from .expressions import Code, assign

# Types that loops compute; float16 only where `formats` found kernels for it.
NATIVE = (np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64))
# Shorter rows are joined, and operands that repeat from row to row are written out.
SHORT_ROW = 256

Line = tuple[int, int, int, int, int]
SINGLE = np.dtype(np.float32)
# Computed in float32: loops convert it as they load and store.
BRAIN = array_dtype("bf16")
# Types of images and rows that loops load and store, with their names.
LOADED: dict[np.dtype[Any], str] = {**NAMES, BRAIN: "bf16"}
# Truths become 0 or 1 as loops read them, and bytes again as loops write them.
TRUTH = np.dtype(np.bool_)
# Types that element-wise programs compute in, with the names of their kernels.
COMPUTED: dict[np.dtype[Any], str] = {
    **{dtype: NAMES[dtype] for dtype in NATIVE},
    np.dtype(np.int64): "s64",
    np.dtype(np.int32): "s32",
}
# Types that programs read and write besides their own, with their names in `Elementwise`.
STORED: dict[np.dtype[Any], str] = {
    TRUTH: "truth",
    **{np.dtype(DTYPES[name]): name for name in ("u8", "s8", "s32", "s64", "f32", "f64")},
    BRAIN: "bf16",
}
# Quantized types that loops convert as they read; all but the last also as they write.
INTEGERS: dict[np.dtype[Any], str] = {
    np.dtype(np.uint8): "u8",
    np.dtype(np.int8): "s8",
    np.dtype(np.int32): "s32",
}


class Stream(NamedTuple):
    """An array that a program reads or writes.

    Parameters
    ----------
    value : Value
        The array.
    register : int
        Its register, or its number before registers are assigned.
    numbers : Value or None
        Of integers: scale and zero point from `numbers_of`.
    """

    value: Value
    register: int
    numbers: Value | None = None


def numbers_of(scale: float, zero: int) -> Value:
    """Scale and zero point of integers, in the form that loops read."""
    pair = np.array([(scale, zero)], [("scale", np.float32), ("zero", np.int32)])
    return constant_value(pair.view(np.uint8))


Streams = Iterable[tuple[Value, int] | Stream]


def computed(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Type that loops compute in for arrays of a type."""
    return SINGLE if dtype == BRAIN else dtype


def _computed(streams: Iterable[Stream]) -> np.dtype[Any]:
    """Type that a program computes in, if its arrays decide it."""
    found = [computed(s.value.dtype) if s.numbers is None else SINGLE for s in streams]
    return SINGLE if SINGLE in found else next((d for d in found if d != TRUTH), SINGLE)


def emit_program(
    builder: Builder,
    outputs: Streams,
    inputs: Streams,
    code: Sequence[Line],
    kind: str,
    nodes: list[str],
    table: Array | None = None,
    dtype: np.dtype[Any] | None = None,
) -> None:
    """Add a step that runs an element-wise program.

    Parameters
    ----------
    builder : Builder
        Gets the step.
    outputs, inputs : iterable of Stream, or of (Value, int)
        Each with its register. Inputs are broadcast to the shape of the outputs. Elements of other
        types than the program's are converted, quantized integers from and to float32.
    code : sequence of tuple of int
        Instructions: operation, result, three operands.
    kind : str
        Kind of step, for people.
    nodes : list of str
        Names of its nodes.
    table : ndarray of 256 bytes, optional
        Without a program: the result for each byte of the only input.
    dtype : dtype, optional
        Type that the program computes in, one of `COMPUTED`; by default, that of its floating-point
        arrays.
    """
    wanted, read = ([Stream(*stream) for stream in streams] for streams in (outputs, inputs))
    shape, count = wanted[0].value.shape, len(wanted)
    if math.prod(shape) == 0:
        return
    converts = any(stream.numbers for stream in (*wanted, *read))
    dtype = dtype or _computed((*wanted, *read))
    own = wanted

    def walked() -> tuple[Collapsed, list[Value]]:
        streams = [stream.value for stream in (*own, *read)]
        # In elements, because sizes of elements differ.
        strides = [
            tuple(s // value.dtype.itemsize for s in broadcast_strides(value, shape))
            for value in streams
        ]
        return collapse(shape, 1, strides), streams

    walk, streams = walked()
    if (walk.columns == 1 and math.prod(shape) > 1) or len(walk.dims) > MOST_DIMS:
        # Too many different strides: copies have equal strides.
        order = wanted[0].value.order
        own = [s._replace(value=_alike(builder, s.value, order, False)) for s in wanted]
        read = [s._replace(value=_as_computed(builder, s, order, dtype)) for s in read]
        read = [s._replace(value=_alike(builder, s.value, order, True)) for s in read]
        walk, streams = walked()
        if len(walk.dims) > MOST_DIMS:
            # Too many kinds of broadcast: written out, all have one shape.
            read = [s._replace(value=_repeated(builder, s.value, shape, order)) for s in read]
            walk, streams = walked()
    walk, streams = _lengthened(walk, streams)
    rows = math.prod(walk.dims)
    column_segment = min(walk.columns, TASK_BYTES // dtype.itemsize)
    if converts:
        column_segment = min(column_segment, TILE_ELEMENTS)
    row_segment = max(1, min(TASK_BYTES // (dtype.itemsize * walk.columns), rows))
    arrays = list(streams)
    entries: list[tuple[Any, ...]] = []
    for array, (value, stream) in enumerate(zip(streams, (*own, *read), strict=True)):
        strides = tuple(s * value.dtype.itemsize for s in walk.strides[array])
        entry: tuple[Any, ...] = (array, strides, walk.steps[array], stream.register)
        if stream.numbers is not None:
            entry += INTEGERS[value.dtype], len(arrays)
            arrays.append(stream.numbers)
        elif table is None:
            entry += stored_as(value.dtype, dtype)
        entries.append(entry)
    fields = {
        "dtype": "u8" if table is not None else COMPUTED[dtype],
        "dims": walk.dims,
        "columns": walk.columns,
        "outputs": entries[:count],
        "inputs": entries[count:],
        "code": list(code),
        "row_segment": row_segment,
        "column_segment": column_segment,
    }
    detail = f"{len(code)} instructions"
    if table is not None:
        fields["table"], detail = len(arrays), "a table"
        arrays.append(constant_value(table))
    builder.emit(Step(
        Elementwise(fields, builder.isa_of(*streams)), streams[count:], streams[:count],
        {"arrays": arrays}, kind, nodes,
        f"{'x'.join(map(str, (*walk.dims, walk.columns)))}, {detail}",
    ))  # fmt: skip
    for stream, place in zip(own, wanted, strict=True):
        if stream.value is not place.value:
            builder.copy(stream.value, place.value, nodes)


def emit_code(
    builder: Builder,
    y: Value,
    code: Code,
    inputs: Streams,
    result: int,
    kind: str,
    nodes: list[str],
) -> None:
    """Add the step of a program with one result, before registers are assigned."""
    emit_outputs(builder, [(y, result)], code, inputs, kind, nodes)


def emit_outputs(
    builder: Builder,
    outputs: Streams,
    code: Code,
    inputs: Streams,
    kind: str,
    nodes: list[str],
    dtype: np.dtype[Any] | None = None,
) -> None:
    """Assign registers to a program, and add its step; see `emit_program`."""
    written, read = ([Stream(*stream) for stream in streams] for streams in (outputs, inputs))
    dtype = dtype or _computed((*written, *read))
    read += [
        Stream(constant_value(as_type(np.array(number), dtype)), register)
        for (number, _), register in code.scalars.items()
    ]
    given = assign(
        code.lines, [stream.register for stream in read],
        [stream.register for stream in written], MOST_REGISTERS,
    )  # fmt: skip
    assert given is not None, "programs are kept small"
    lines, place = given

    def placed(streams: list[Stream]) -> list[Stream]:
        return [stream._replace(register=place[stream.register]) for stream in streams]

    emit_program(builder, placed(written), placed(read), lines, kind, nodes, dtype=dtype)


def _alike(builder: Builder, value: Value, order: tuple[int, ...], filled: bool) -> Value:
    """Give a value this shape; copy its elements if it has gaps."""
    if len(value.shape) != len(order) or value.size == 1:
        return value
    if value.constant is not None:
        # Constants are copied at compilation.
        return _constant_in(value, order)
    if filled:
        return builder.contiguous(value, order)
    if value.lies_as(strides_of(value.shape, value.dtype.itemsize, order)):
        return value
    return builder.new(value.shape, value.dtype, order)


def stored_as(stored: np.dtype[Any], computed: np.dtype[Any]) -> tuple[str, ...]:
    """Give what a stream says of its type, behind its register."""
    return () if stored == computed else (STORED[stored],)


def _as_computed(
    builder: Builder, stream: Stream, order: tuple[int, ...], dtype: np.dtype[Any]
) -> Value:
    """Write numbers of another type in another order out: copies of bytes would run in Python."""
    value = stream.value
    if (
        stream.numbers is not None
        or value.dtype == dtype
        or value.constant is not None
        or len(value.shape) != len(order)
    ):
        return value
    here, there = (strides_of(value.shape, 1, by) for by in (value.order, order))
    if value.lies_as(there) or not value.lies_as(here):
        return value
    wide = builder.new(value.shape, dtype, value.order)
    emit_program(builder, [(wide, 0)], [(value, 0)], [], "Cast", [], dtype=dtype)
    return wide


def _repeated(builder: Builder, value: Value, shape: Shape, order: tuple[int, ...]) -> Value:
    """Write a value out in a larger shape, its elements repeated."""
    if value.size == 1:
        return value
    whole = builder.new(shape, value.dtype, order)
    builder.copy(value, whole, [])
    return whole


def _constant_in(value: Value, order: tuple[int, ...]) -> Value:
    known = value.constant
    assert known is not None
    turned = constant_value(known.transpose(order))
    back = [order.index(d) for d in range(len(order))]
    return turned.viewed(value.shape, tuple(turned.strides[d] for d in back))


def _lengthened(walk: Collapsed, streams: list[Value]) -> tuple[Collapsed, list[Value]]:
    """Join short rows, if operands that differ between rows are contiguous from row to row.

    A constant that is the same for each row is repeated for each joined row. Strides are in
    elements.
    """
    if not walk.dims or not 1 < walk.columns < SHORT_ROW:
        return walk, streams
    times = next((t for t in range(SHORT_ROW // walk.columns, 1, -1) if walk.dims[-1] % t == 0), 1)
    if times == 1:
        return walk, streams
    row = walk.columns
    repeated = []
    for value, strides, step in zip(streams, walk.strides, walk.steps, strict=True):
        if (step and strides[-1] == row) or (not step and strides[-1] == 0):
            repeated.append(False)
        elif step and not any(strides) and value.constant is not None:
            repeated.append(True)
        else:
            return walk, streams
    new = [
        constant_value(np.tile(_row(value, walk.columns), times)) if again else value
        for value, again in zip(streams, repeated, strict=True)
    ]
    dims = (*walk.dims[:-1], walk.dims[-1] // times)
    joined = tuple(
        (*s[:-1], 0 if again else s[-1] * times)
        for s, again in zip(walk.strides, repeated, strict=True)
    )
    return Collapsed(dims, walk.columns * times, joined, walk.steps), new


def _row(value: Value, columns: int) -> Array:
    """Elements of a constant in memory order."""
    assert value.buffer.array is not None
    flat = value.buffer.array.reshape(-1).view(np.uint8)[value.offset :]
    return flat[: columns * value.dtype.itemsize].view(value.dtype)
