"""The turns of a Loop or a Scan as a repeat: all steps of its body, without Python between them.

The body is a program for one turn. Here its steps are bound again: operands that are read part by
part and results that are stacked move on, and a copy at the end of a turn makes each new state the
old one. A result that is a truth value may end the repeat.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import planner
from .._records import NamedTuple
from ..memory.arrays import empty_aligned
from ..ops.program import Program
from ..ops.refused import Refused
from .compiled import Compiled
from .formats import half_level
from .host_steps import refusal
from .storage import Array, Buffer, Shape, Value, as_bits, place_of, strides_of
from .value_copies import copy_step

__all__ = ["Result", "run_turns"]

_MOST_KEPT = 8
# Of stacked results of turns that a result may end: room for them is made before.
_MOST_BYTES = 16 << 20


class Result(NamedTuple):
    """Where an output of a body goes.

    Parameters
    ----------
    state : int or None
        Number of the input that has it in the next turn.
    stacked : int
        1 or -1 if all turns are wanted, from the first or from the last place on; else 0.
    """

    state: int | None = None
    stacked: int = 0


def run_turns(
    body: Compiled,
    arrays: Sequence[Array],
    reads: Sequence[int],
    results: Sequence[Result],
    turns: int,
    ends: int | None = None,
    most: int | None = None,
) -> tuple[list[Array], int] | None:
    """Run a body several times.

    Parameters
    ----------
    body : Compiled
        The program of one turn.
    arrays : sequence of ndarray
        Its inputs. One that is read part by part has a further dimension, the first.
    reads : sequence of int
        For each input: 1 or -1 if it is read part by part, from either end; else 0.
    results : sequence of Result
        For each output.
    turns : int
        At least one.
    ends : int, optional
        Number of the output that ends the turns when it is false.
    most : int, optional
        Most turns of this call, one at least.

    Returns
    -------
    list of ndarray
        The last states, and all turns of stacked results.
    int
        The turns that were taken. None instead of both if the turns are not a repeat, because steps
        run in Python, repeat themselves, or give states of other shapes or types.
    """
    moves = *reads, *(result.stacked for result in results)
    key = turns, moves, tuple(result.state for result in results), ends
    if key not in body.repeated:
        # Other threads may do the same at once; all programs are alike.
        for old in list(body.repeated)[: 1 - _MOST_KEPT]:
            body.repeated.pop(old, None)
        body.repeated[key] = _repeated(body, moves, results, turns, ends)
    program = body.repeated.get(key)
    if program is None:
        return None
    states = {result.state for result in results if result.state is not None}
    given = [
        np.array(array, copy=True, order="C") if number in states
        else np.require(array, requirements=("A", "C"))
        for number, array in enumerate(arrays)
    ]  # fmt: skip
    made = [
        empty_aligned((turns, *shape) if result.stacked else shape, dtype)
        for result, (_, shape, dtype) in zip(results, body.outputs, strict=True)
    ]
    frame = program.frame()
    try:
        bits: list[Array | None] = [as_bits(array) for array in (*given, *made)]
        taken = program.run(frame, bits, 0, len(program.steps), most=most or turns)
    except Refused as error:
        step = body.steps[error.step]
        raise refusal(step.kind, step.nodes, IndexError(str(error))) from error
    finally:
        program.give_back(frame)
    found = [
        array if result.state is None else given[result.state]
        for result, array in zip(results, made, strict=True)
    ]
    return found, taken


def _repeated(
    body: Compiled, moves: Sequence[int], results: Sequence[Result], turns: int, ends: int | None
) -> Program | None:
    """Bind the steps of a body as a repeat; None if they cannot be one."""
    if body.times > 1 or body.repeats or not body.steps:
        return None
    if any(step.host for step in body.steps):
        return None
    values = [
        _external(number, shape, dtype)
        for number, (_, shape, dtype) in enumerate((*body.inputs, *body.outputs))
    ]
    places = []
    if ends is not None:
        stop, stacked = values[len(body.inputs) + ends], zip(results, body.outputs, strict=True)
        room = sum(_bytes(shape, dtype) for result, (_, shape, dtype) in stacked if result.stacked)
        if stop.dtype != np.bool_ or stop.buffer.size != 1 or turns * room > _MOST_BYTES:
            return None
        places = [place_of(stop)]
    isa = half_level() or planner.default_context("f32").isa
    steps = list(body.steps)
    for number, result in enumerate(results):
        if result.state is None:
            continue
        old, new = values[result.state], values[len(body.inputs) + number]
        if (old.shape, old.dtype) != (new.shape, new.dtype):
            return None
        if old.size:
            steps.append(copy_step(new, old, isa, []))
            if steps[-1].host:
                return None
    bound = [
        (step.work, {name: _place(part, moves, turns) for name, part in step.places.items()})
        for step in steps
    ]
    sizes = [
        value.buffer.size * (turns if move else 1)
        for value, move in zip(values, moves, strict=True)
    ]
    native = body.program
    return Program(
        bound, native.arena_bytes, sizes, native.threads, native.most,
        repeats=[(0, len(bound), turns, *places)],
    )  # fmt: skip


def _external(number: int, shape: Shape, dtype: np.dtype[Any]) -> Value:
    buffer = Buffer(_bytes(shape, dtype), external=number)
    return Value(shape, dtype, strides_of(shape, dtype.itemsize), buffer)


def _bytes(shape: Shape, dtype: np.dtype[Any]) -> int:
    return dtype.itemsize * math.prod(shape)


def _place(part: Any, moves: Sequence[int], turns: int) -> Any:
    """Describe the place of a value in the first turn, and its stride if it moves."""
    if isinstance(part, list):
        return [_place(one, moves, turns) for one in part]
    if not isinstance(part, Value) or part.buffer.external is None:
        return place_of(part)
    move, size = moves[part.buffer.external], part.buffer.size
    if not move:
        return place_of(part)
    first = (turns - 1) * size if move < 0 else 0
    offset = first + part.offset
    place = ("external", part.buffer.external, offset, turns * size - offset)
    return ("each", place, move * size)
