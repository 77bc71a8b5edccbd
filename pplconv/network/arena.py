"""Offsets of values in the arena: values with disjoint lifetimes share memory.

The result of an element-wise step may also take the place of an operand that no later step reads:
each element is read before its place is written.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..schedules.elementwise_loops import Elementwise
from .storage import Buffer, Repeat, Step, Value

LINE = 64
# Buffers at distances of a power of two would compete for the same cache sets.
GAP = 64


def lives(steps: Sequence[Step], repeats: Sequence[Repeat] = ()) -> list[Buffer]:
    """Find the buffers of the arena, with the first and the last step of each.

    Parameters
    ----------
    steps : sequence of Step
        In the order that they run.
    repeats : sequence of Repeat
        Steps that take several turns. Only what each turn writes anew lives shorter than these.

    Returns
    -------
    list of Buffer
        Each once, ordered by first step, without buffers that take the place of another.
    """
    found: dict[int, Buffer] = {}
    for index, step in enumerate(steps):
        for value in (*step.writes, *step.reads):
            buffer = value.buffer
            if not buffer.in_arena:
                continue
            if id(buffer) not in found:
                found[id(buffer)] = buffer
                buffer.first = index
            buffer.last = index
    kept = _kept(steps, repeats)
    places = {buffer: buffer for buffer in found.values()}
    for index, step in enumerate(steps):
        if not isinstance(step.work, Elementwise):
            continue
        taken: set[Buffer] = set()
        for result in step.writes:
            operand = None if result.buffer in kept else _replaced(step, result, index)
            if operand in kept:
                continue
            if operand is not None and operand not in taken:
                taken.add(operand)
                place = places[operand]
                place.successors.append(result.buffer)
                places[result.buffer] = place
    return [buffer for buffer, place in places.items() if buffer is place]


def _kept(steps: Sequence[Step], repeats: Sequence[Repeat]) -> set[Buffer]:
    """Lengthen the lives of buffers that are used outside of a repeat or move in it; list them."""
    kept: set[Buffer] = set()
    for begin, end, _ in repeats:
        for step in steps[begin:end]:
            for value in (*step.writes, *step.reads):
                buffer = value.buffer
                if buffer.in_arena and (
                    buffer.first < begin or buffer.last >= end or value.advance
                ):
                    buffer.first = min(buffer.first, begin)
                    buffer.last = max(buffer.last, end - 1)
                    kept.add(buffer)
    return kept


def _replaced(step: Step, result: Value, index: int) -> Buffer | None:
    """Find a buffer that a step reads last and its result can overwrite."""
    buffer = result.buffer
    if not buffer.in_arena or buffer.first != index:
        return None
    for operand in step.reads:
        other = operand.buffer
        if not other.in_arena or other.last != index or other.first == index:
            continue
        views = [value for value in (*step.reads, result) if value.buffer in (other, buffer)]
        alike = all(
            (value.shape, value.strides, value.offset, value.dtype)
            == (result.shape, result.strides, result.offset, result.dtype)
            for value in views
        )
        if alike and other.size == buffer.size:
            return other
    return None


def arrange(buffers: Sequence[Buffer]) -> int:
    """Choose the offset of every buffer.

    The largest goes first, each to the lowest gap that is free for as long as it lives (greedy by
    size; Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020).

    Parameters
    ----------
    buffers : sequence of Buffer
        With their first and last steps.

    Returns
    -------
    int
        Size of the arena, whole lines of cache.
    """
    placed: list[Buffer] = []
    total = 0
    for buffer in sorted(buffers, key=lambda b: (-b.size, b.first)):
        beside = sorted(
            (b for b in placed if b.first <= buffer.end and buffer.first <= b.end),
            key=lambda b: b.offset,
        )
        at = 0
        for other in beside:
            if at + _room(buffer) <= other.offset:
                break
            at = max(at, other.offset + _room(other))
        for one in (buffer, *buffer.successors):
            one.offset = at
        placed.append(buffer)
        total = max(total, at + _room(buffer))
    return -(-total // LINE) * LINE


def _room(buffer: Buffer) -> int:
    return -(-buffer.size // LINE) * LINE + GAP
