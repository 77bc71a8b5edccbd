"""Chooses the steps that run band by band together."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from ... import planner
from ...ops.prepared import Prepared
from ..builder import Builder, Values
from ..fusion import Chain, inputs_of
from ..nodes import Graph, Node
from ..storage import channels_last
from .lowering import Group, Lower
from .members import Member, member_of, result_of
from .rows import Bands, Part, bands_of, rates_of

__all__ = ["groups_of"]

Item = Node | Chain
MOST_MEMBERS = 12


def groups_of(
    items: Sequence[Item], builder: Builder, graph: Graph, narrow: Graph | None, lower: Lower
) -> dict[int, Group]:
    """Choose groups: by the number of their first item."""
    found: dict[int, Group] = {}
    readers: dict[str, list[int]] = {}
    for at, item in enumerate(items):
        for name in inputs_of(item):
            readers.setdefault(name, []).append(at)
    for begin, members in _runs(items, builder, graph):
        members = [planned(member, builder, graph, narrow, lower) for member in members]
        # The least that members from each one on take: alone, or as groups.
        best: list[tuple[float, int, Group | None]] = [(0.0, 0, None)]
        for at in reversed(range(len(members))):
            choice = best[0][0], 1, None
            for end in range(at + 2, min(at + MOST_MEMBERS, len(members)) + 1):
                group, gain = _grouped(members[at:end], begin + at, readers, builder, graph)
                if group is not None and gain + best[end - at - 1][0] > choice[0]:
                    choice = gain + best[end - at - 1][0], end - at, group
            best.insert(0, choice)
        at = 0
        while at < len(members):
            _, count, group = best[at]
            if group is not None:
                found[begin + at] = group
            at += count
    return found


def _runs(
    items: Sequence[Item], builder: Builder, graph: Graph
) -> Iterator[tuple[int, list[Member]]]:
    """Give runs of neighbouring items that can run band by band."""
    run: list[Member] = []
    for at, item in enumerate([*items, None]):
        member = None if item is None else member_of(item, graph)
        if member is not None and builder.planes.isdisjoint((*member.reads, member.result)):
            run.append(member)
            continue
        if len(run) > 1:
            yield at - len(run), run
        run = []


def planned(
    member: Member, builder: Builder, graph: Graph, narrow: Graph | None, lower: Lower
) -> Member:
    """Learn a convolution's plan, by lowering it for nothing."""
    if isinstance(member.item, Chain) or "Conv" not in member.item.op:
        return member
    values = Values(builder.values)
    values.constants = graph.constants
    for name in (*member.reads, *inputs_of(member.item)):
        if name not in values and name not in graph.constants:
            shape, dtype = graph.shapes[name], builder.stored(name, graph.dtypes[name])
            order = channels_last(4) if len(shape) == 4 else None
            values[name] = builder.new(shape, dtype, order)
    kept = builder.steps, builder.values, builder.relaid, builder.wanted
    builder.steps, builder.values, builder.relaid, builder.wanted = [], values, {}, {}
    lower(member.item, graph, narrow)
    works = [step.work for step in builder.steps if isinstance(step.work, Prepared)]
    builder.steps, builder.values, builder.relaid, builder.wanted = kept
    return replace(member, plan=works[0].plan if len(works) == 1 else None)


def _grouped(
    members: Sequence[Member], first: int, readers: dict[str, list[int]], builder: Builder,
    graph: Graph,
) -> tuple[Group | None, float]:  # fmt: skip
    made = {member.result for member in members}
    if any(
        not isinstance(m.item, Chain) and "Conv" in m.item.op and m.plan is None for m in members
    ):
        return None, 0.0
    end = first + len(members)
    inner = frozenset(
        name for name in made
        if name not in graph.outputs and all(first <= at < end for at in readers.get(name, ()))
    )
    if not inner:
        return None, 0.0
    joined = []
    for member in members:
        joins = ()
        if not isinstance(member.item, Chain) and member.item.op == "Concat":
            joins = tuple(n for n in member.item.inputs if n in inner and n in builder.wanted)
        joined.append(replace(member, joins=joins))
    parts = [Part(m.result, m.reads, _align(m), m.joins if m.result in inner else ())
             for m in joined]
    heights = {name: graph.shapes[name][2] for m in members for name in (*m.reads, m.result)}
    found = _units(parts, heights, inner, builder, graph)
    if found is None:
        return None, 0.0
    gain = 0.0
    from ...machine import current
    l2 = current().l2_share
    saved = sum(max(_bytes(name, graph, builder) - l2 / 4, 0) for name in inner)
    gain = 2 * saved / 16
    gain -= (found.turns + 1) * len(members) * 3000
    for name in inner:
        gain -= found.turns * found.again[name] * _bytes(name, graph, builder) / heights[name] / 16
    return (Group(joined, inner, found), gain) if gain > 0 else (None, 0.0)


def _bytes(name: str, graph: Graph, builder: Builder) -> int:
    return math.prod(graph.shapes[name]) * builder.stored(name, graph.dtypes[name]).itemsize


def _align(member: Member) -> int:
    plan = member.plan
    if plan is None or not plan.bits.startswith("F("):
        return 1
    return int(plan.bits[2:].split("x")[0])


BUDGET = 0.6


def _units(
    parts: list[Part], heights: dict[str, int], inner: frozenset[str], builder: Builder,
    graph: Graph,
) -> Bands | None:  # fmt: skip
    rates = rates_of(parts)
    if rates is None:
        return None
    from ...machine import current
    room = BUDGET * current().l2_share
    row = {name: _bytes(name, graph, builder) / heights[name] for name in heights}
    unit = sum(rates[name] * row[name] for name in rates)
    most = int(room / unit)
    best = None
    align = math.lcm(*(part.align for part in parts))
    for units in range(most, 0, -1):
        if any(rates[p.result] * units % p.align for p in parts):
            continue
        bands = bands_of(parts, heights, sorted(inner), units)
        if bands is None:
            continue
        size = sum(row[n] * (bands.step[n] + bands.again.get(n, 0)) for n in rates)
        if size <= room:
            return bands
    return None
