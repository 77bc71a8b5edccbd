"""Element-wise operators: chains of them are one program, which one pass over memory runs.

The interpreter of programs is ``asm/templates/elementwise.c``; ``schedules.elementwise`` walks
arrays for it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..._kernels import MOST_REGISTERS
from ...api.copying import TASK_BYTES
from ...memory.dtypes import NAMES
from ...schedules.elementwise import MOST_DIMS, Elementwise
from ..builder import Builder
from ..collapse import Collapsed, broadcast_strides, collapse
from ..nodes import as_type
from ..storage import Array, Shape, Step, Value, constant_value, strides_of
from .expressions import Code, assign

# Types that loops compute; float16 only where `formats` has found the kernels for it.
NATIVE = (np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64))
# Rows of fewer elements than these are joined, and what repeats in them is written out.
SHORT_ROW = 256

Line = tuple[int, int, int, int, int]


def emit_program(
    builder: Builder,
    outputs: Sequence[tuple[Value, int]],
    inputs: Sequence[tuple[Value, int]],
    code: Sequence[Line],
    kind: str,
    nodes: list[str],
) -> None:
    """Add a step that runs an element-wise program.

    Parameters
    ----------
    builder : Builder
        Gets the step.
    outputs, inputs : sequence of (Value, int)
        Each with its register. Inputs are broadcast to the shape of the outputs.
    code : sequence of tuple of int
        Instructions: operation, result, three operands.
    kind : str
        What it is, for people.
    nodes : list of str
        What it stands for.
    """
    shape, dtype = outputs[0][0].shape, outputs[0][0].dtype
    if math.prod(shape) == 0:
        return
    own = list(outputs)

    def walked() -> tuple[Collapsed, list[Value]]:
        streams = [value for value, _ in (*own, *inputs)]
        strides = [broadcast_strides(value, shape) for value in streams]
        return collapse(shape, dtype.itemsize, strides), streams

    walk, streams = walked()
    if (walk.columns == 1 and math.prod(shape) > 1) or len(walk.dims) > MOST_DIMS:
        # They lie in too many ways: copies lie alike.
        order = outputs[0][0].order
        own = [(_alike(builder, value, order, False), r) for value, r in outputs]
        inputs = [(_alike(builder, value, order, True), r) for value, r in inputs]
        walk, streams = walked()
        if len(walk.dims) > MOST_DIMS:
            # They are repeated in too many ways: written out, they are all of one shape.
            inputs = [(_repeated(builder, value, shape, order), r) for value, r in inputs]
            walk, streams = walked()
    walk, streams = _lengthened(walk, streams, dtype.itemsize)
    registers = [register for _, register in (*outputs, *inputs)]
    rows = math.prod(walk.dims)
    column_segment = min(walk.columns, TASK_BYTES // dtype.itemsize)
    row_segment = max(1, min(TASK_BYTES // (dtype.itemsize * walk.columns), rows))
    entries = [
        (array, walk.strides[array], walk.steps[array], registers[array])
        for array in range(len(streams))
    ]
    fields = {
        "dtype": NAMES[dtype],
        "dims": walk.dims,
        "columns": walk.columns,
        "outputs": entries[: len(outputs)],
        "inputs": entries[len(outputs) :],
        "code": list(code),
        "row_segment": row_segment,
        "column_segment": column_segment,
    }
    builder.emit(Step(
        Elementwise(fields, builder.isa), streams[len(outputs) :], streams[: len(outputs)],
        {"arrays": streams}, kind, nodes,
        f"{'x'.join(map(str, (*walk.dims, walk.columns)))}, {len(code)} instructions",
    ))  # fmt: skip
    for (value, _), (wanted, _) in zip(own, outputs, strict=True):
        if value is not wanted:
            builder.copy(value, wanted, nodes)


def emit_code(
    builder: Builder,
    y: Value,
    code: Code,
    inputs: list[tuple[Value, int]],
    result: int,
    kind: str,
    nodes: list[str],
) -> None:
    """Add the step of a program of one result, whose results have numbers of their own."""
    emit_outputs(builder, [(y, result)], code, inputs, kind, nodes)


def emit_outputs(
    builder: Builder,
    outputs: list[tuple[Value, int]],
    code: Code,
    inputs: list[tuple[Value, int]],
    kind: str,
    nodes: list[str],
) -> None:
    """Add the step of a program whose results have numbers of their own."""
    dtype = outputs[0][0].dtype
    inputs = inputs + [
        (constant_value(as_type(np.array(number), dtype)), register)
        for (number, _), register in code.scalars.items()
    ]
    given = assign(
        code.lines, [number for _, number in inputs], [number for _, number in outputs],
        MOST_REGISTERS,
    )  # fmt: skip
    assert given is not None, "programs are kept small"
    lines, place = given
    emit_program(
        builder, [(value, place[number]) for value, number in outputs],
        [(value, place[number]) for value, number in inputs], lines, kind, nodes,
    )  # fmt: skip


def _alike(builder: Builder, value: Value, order: tuple[int, ...], filled: bool) -> Value:
    """Give a value of this shape, or another one with its elements, without gaps."""
    if len(value.shape) != len(order) or value.size == 1:
        return value
    if value.constant is not None:
        # Constants are laid out here and now.
        return _constant_in(value, order)
    if filled:
        return builder.contiguous(value, order)
    if value.lies_as(strides_of(value.shape, value.dtype.itemsize, order)):
        return value
    return builder.new(value.shape, value.dtype, order)


def _repeated(builder: Builder, value: Value, shape: Shape, order: tuple[int, ...]) -> Value:
    """Give a value in a larger shape, its elements as often as they are wanted there."""
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


def _lengthened(
    walk: Collapsed, streams: list[Value], element: int
) -> tuple[Collapsed, list[Value]]:
    """Join short rows, where all that differs from row to row goes on behind the row's end.

    A constant that is the same for each row is written out as often as rows are joined.
    """
    if not walk.dims or not 1 < walk.columns < SHORT_ROW:
        return walk, streams
    times = next((t for t in range(SHORT_ROW // walk.columns, 1, -1) if walk.dims[-1] % t == 0), 1)
    if times == 1:
        return walk, streams
    row = walk.columns * element
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
    """Elements of a constant as they lie in memory."""
    assert value.buffer.array is not None
    flat = value.buffer.array.reshape(-1).view(np.uint8)[value.offset :]
    return flat[: columns * value.dtype.itemsize].view(value.dtype)
