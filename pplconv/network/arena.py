"""Offsets of values in the arena: values with disjoint lifetimes share memory.

The result of an element-wise step may also take the place of an operand that no later step reads:
each element is read before its place is written. So may the result of element-wise steps of all
bands of a group, as each band reads the rows that it writes.
"""

from __future__ import annotations

import itertools
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
    uses = _uses(steps, kept)
    for index, step in enumerate(steps):
        if not isinstance(step.work, Elementwise):
            continue
        taken: set[Buffer] = set()
        for result in step.writes:
            if result.buffer in kept:
                operand = _replaced_in_bands(step, result.buffer, index, uses, repeats)
            else:
                operand = _replaced(step, result, index)
                operand = None if operand in kept else operand
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


def _uses(steps: Sequence[Step], kept: set[Buffer]) -> dict[Buffer, list[tuple[int, Step]]]:
    """List the steps that use each of some buffers."""
    found: dict[Buffer, list[tuple[int, Step]]] = {buffer: [] for buffer in kept}
    for index, step in enumerate(steps):
        for buffer in dict.fromkeys(value.buffer for value in (*step.writes, *step.reads)):
            if buffer in found:
                found[buffer].append((index, step))
    return found


def _replaced(step: Step, result: Value, index: int) -> Buffer | None:
    """Find a buffer that a step reads last and its result can overwrite."""
    buffer = result.buffer
    if not buffer.in_arena or buffer.first != index:
        return None
    for operand in step.reads:
        other = operand.buffer
        if not other.in_arena or other.last != index or other.first == index:
            continue
        if other.size == buffer.size and _place(step, buffer, other) is not None:
            return other
    return None


def _replaced_in_bands(
    step: Step, buffer: Buffer, index: int, uses: dict[Buffer, list[tuple[int, Step]]],
    repeats: Sequence[Repeat],
) -> Buffer | None:  # fmt: skip
    """Find a buffer whose last reads are all bands of a result, in the places that these write."""
    if uses[buffer][0][0] != index:
        return None
    written = [one for one in uses[buffer] if any(v.buffer is buffer for v in one[1].writes)]
    for other in dict.fromkeys(value.buffer for value in step.reads):
        if other not in uses or other.size != buffer.size or other is buffer:
            continue
        if [one for one in uses[other] if one[0] >= index] != written:
            continue
        # A turn must not write again what an earlier one has replaced.
        if uses[other][0][0] >= index or any(
            begin <= at < end and any(begin <= band < end for band, _ in written)
            for begin, end, _ in repeats
            for at, _ in uses[other] if at < index
        ):  # fmt: skip
            continue
        places = [_place(band, buffer, other) for _, band in written]
        if _are_apart(
            [(place, band.turns) for place, (_, band) in zip(places, written, strict=True)]
        ):
            return other
    return None


def _place(step: Step, result: Buffer, operand: Buffer) -> Value | None:
    """Give the place that an element-wise step reads and writes in both buffers, if it is one."""
    if not isinstance(step.work, Elementwise):
        return None
    views = [v for v in (*step.reads, *step.writes) if v.buffer in (result, operand)]
    first, *others = views
    alike = all(
        (value.shape, value.strides, value.offset, value.dtype, value.advance)
        == (first.shape, first.strides, first.offset, first.dtype, first.advance)
        for value in others
    )
    return first if alike else None


def _are_apart(places: Sequence[tuple[Value | None, int]]) -> bool:
    """Whether the places of steps and of their turns follow one another in memory."""
    done = 0
    for place, turns in places:
        if place is None or place.offset < done:
            return False
        span = place.dtype.itemsize + sum(
            (count - 1) * stride for count, stride in zip(place.shape, place.strides, strict=True)
        )
        if min(place.strides) < 0 or (turns > 1 and place.advance < span):
            return False
        done = place.offset + (turns - 1) * place.advance + span
    return True


def arrange(buffers: Sequence[Buffer]) -> int:
    """Choose the offset of every buffer.

    Each goes to the lowest gap that is free for as long as it lives: the largest first, or the
    buffers of the steps with the most bytes first, whichever takes less (greedy by size and by
    breadth; Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020).

    Parameters
    ----------
    buffers : sequence of Buffer
        With their first and last steps.

    Returns
    -------
    int
        Size of the arena, whole lines of cache.
    """
    by_size = sorted(buffers, key=lambda b: (-b.size, b.first))
    found = [_offsets(order) for order in (by_size, _by_breadth(by_size))]
    total, offsets = min(found, key=lambda one: one[0])
    for buffer, at in offsets.items():
        for one in (buffer, *buffer.successors):
            one.offset = at
    return -(-total // LINE) * LINE


def _by_breadth(buffers: Sequence[Buffer]) -> list[Buffer]:
    """Order buffers by the most bytes that are there while one lives; equal ones stay in order."""
    added = [0] * (2 + max((buffer.end for buffer in buffers), default=-1))
    for buffer in buffers:
        added[buffer.first] += _room(buffer)
        added[buffer.end + 1] -= _room(buffer)
    alive = list(itertools.accumulate(added))
    return sorted(buffers, key=lambda b: -max(alive[b.first : b.end + 1]))


def _offsets(order: Sequence[Buffer]) -> tuple[int, dict[Buffer, int]]:
    """Place buffers in an order; give the size of all, and the offset of each."""
    offsets: dict[Buffer, int] = {}
    total = 0
    for buffer in order:
        beside = sorted(
            (at, at + _room(other))
            for other, at in offsets.items()
            if other.first <= buffer.end and buffer.first <= other.end
        )
        at, room = 0, _room(buffer)
        for begin, end in beside:
            if at + room <= begin:
                break
            at = max(at, end)
        offsets[buffer] = at
        total = max(total, at + room)
    return total, offsets


def _room(buffer: Buffer) -> int:
    return -(-buffer.size // LINE) * LINE + GAP
