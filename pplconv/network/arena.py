"""Where values lie in the arena: those that do not live at the same time share memory."""

from __future__ import annotations

from collections.abc import Sequence

from .storage import Buffer, Step

LINE = 64
# Buffers that follow one another at a power of two would compete for the same sets of a cache.
GAP = 64


def lives(steps: Sequence[Step]) -> list[Buffer]:
    """Find the buffers of the arena, and the steps that they live from and to.

    Parameters
    ----------
    steps : sequence of Step
        In the order that they run.

    Returns
    -------
    list of Buffer
        Each once, by their first step.
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
    return list(found.values())


def arrange(buffers: Sequence[Buffer]) -> int:
    """Choose the offset of every buffer.

    The largest goes first, each to the lowest gap that is free for as long as it lives (greedy by
    size: Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020).

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
            (b for b in placed if b.first <= buffer.last and buffer.first <= b.last),
            key=lambda b: b.offset,
        )
        at = 0
        for other in beside:
            if at + _room(buffer) <= other.offset:
                break
            at = max(at, other.offset + _room(other))
        buffer.offset = at
        placed.append(buffer)
        total = max(total, at + _room(buffer))
    return -(-total // LINE) * LINE


def _room(buffer: Buffer) -> int:
    return -(-buffer.size // LINE) * LINE + GAP
