"""Chooses the groups of steps that run band by band.

Runs of neighbouring steps that can be cut into bands are divided into groups and single steps, for
the largest estimated gain: the time in which arrays would leave L2 and come back, less the time of
starting steps again for each band, and of moving rows that the next band reads again. `lowering`
compares that gain with what convolutions of bands take longer, when their plans are known.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ... import planner
from ...planner import Plan
from ..attention import Item
from ..fusion import Chain, inputs_of
from ..nodes import Graph, Node
from .members import Member, member_of
from .rows import Bands, Part, bands_of, rates_of

__all__ = ["Group", "groups_of"]

# Longer groups gain little, and each of their sub-groups is considered.
MOST_MEMBERS = 12
LEAST_BANDS = 3
# Rows, and columns where rows are too long.
AXES = 2, 3
# To start a step again for another band (800 to 2000 on a Zen 5).
STEP_CYCLES = 2500.0
# Bytes a cycle at which a step reads rows that it has read for the band before: it begins to
# stream anew (5 to 27 on a Zen 5, the less the wider the image).
BEGUN = 9.0
# Bytes a cycle at which rows are moved in L2.
COPIED = 16.0


@dataclass(frozen=True)
class Group:
    """Steps that run band by band.

    Parameters
    ----------
    members : sequence of Member
        In the order that they run in.
    inner : frozenset of str
        Values that they alone read.
    bands : Bands
        Rows of each band.
    gain : float
        Cycles that it is estimated to save, if convolutions of bands are as fast as whole ones.
    """

    members: Sequence[Member]
    inner: frozenset[str]
    bands: Bands
    gain: float


@dataclass(frozen=True)
class _Images:
    """Rows and bytes of images, and the steps that read them.

    Parameters
    ----------
    graph : Graph
        Of whole images.
    size : callable
        Bytes of a whole image, as it is stored.
    staying : callable
        Cycles that are saved where an image stays in L2 (level 0) or in L3 (level 1).
    readers : mapping of str to list of int
        Numbers of the items that read a value.
    placed : set of str
        Values with a place of their own in a joined array.
    team : int
        Threads. Each thread moves its part of the bytes, and starts each step.
    known : dict
        Bands of groups, whatever the names of their values.
    """

    graph: Graph
    size: Callable[[str], int]
    staying: Callable[[str, int], float]
    readers: Mapping[str, Sequence[int]]
    placed: frozenset[str]
    team: int
    known: dict[Any, Bands | None] = field(default_factory=dict)

    def height(self, name: str, axis: int) -> int:
        return self.graph.shapes[name][axis]

    def row(self, name: str, axis: int) -> float:
        """Bytes of a row of one image."""
        return self.size(name) / (self.graph.shapes[name][0] * self.height(name, axis))

    def inside(self, members: Sequence[Member], begin: int) -> frozenset[str]:
        """Name the results that these members alone read; `begin` is the number of the first."""
        end = begin + len(members)
        return frozenset(
            member.result
            for member in members
            if member.result not in self.graph.outputs
            and all(begin <= at < end for at in self.readers.get(member.result, ()))
        )


def groups_of(
    items: Sequence[Item],
    graph: Graph,
    apart: frozenset[str],
    placed: frozenset[str],
    size: Callable[[str], int],
    plans_of: Callable[[Node | Chain], Mapping[Any, Plan]],
    team: int,
) -> dict[int, Group]:
    """Choose groups of neighbouring items.

    Parameters
    ----------
    items : sequence of Node, Chain or Attention
        Of a network, in the order that they run in.
    graph : Graph
        The network.
    apart : frozenset of str
        Images whose rows do not lie together.
    placed : frozenset of str
        Images that are written straight into a joined array.
    size : callable
        Bytes of an image, as it is stored.
    plans_of : callable
        Gives the plans of a convolution of whole images.
    team : int
        Threads that run the network.

    Returns
    -------
    dict of int to Group
        Groups by the number of their first item.
    """
    readers: dict[str, list[int]] = {}
    for at, item in enumerate(items):
        for one in [item] if isinstance(item, (Node, Chain)) else item.items:
            for name in inputs_of(one):
                readers.setdefault(name, []).append(at)
    # Each is asked for again in every group that it might belong to.
    kept = functools.cache(size)
    staying = functools.cache(lambda name, level: planner.staying_cycles(kept(name), level) / team)
    images = _Images(graph, kept, staying, readers, placed, team)
    chosen: dict[int, Group] = {}
    for axis in AXES:
        found: dict[int, Group] = {}
        for begin, run in _runs(items, images, apart, axis):
            # Plans take time, and most runs promise no gain.
            if _divided(run, begin, images):
                for first, part in _planned(run, plans_of):
                    found.update(_divided(part, begin + first, images))
        # Bands of rows have no gaps, and are faster where both pay.
        chosen = _without_shared(chosen, found)
    return chosen


def _without_shared(first: dict[int, Group], others: dict[int, Group]) -> dict[int, Group]:
    """Add groups that share no step with the first ones."""
    taken = {at + i for at, group in first.items() for i in range(len(group.members))}
    apart = {
        at: group
        for at, group in others.items()
        if taken.isdisjoint(range(at, at + len(group.members)))
    }
    return {**first, **apart}


def _planned(
    run: Sequence[Member], plans_of: Callable[[Node | Chain], Mapping[Any, Plan]]
) -> Iterator[tuple[int, list[Member]]]:
    """Learn plans, and give the parts of a run between convolutions that have none."""
    part: list[Member] = []
    for at, member in enumerate(run):
        plans = plans_of(member.item) if member.planned else None
        if member.planned and not plans:
            yield at - len(part), part
            part = []
        else:
            part.append(replace(member, plans=plans))
    yield len(run) - len(part), part


def _runs(
    items: Sequence[Item], images: _Images, apart: frozenset[str], axis: int
) -> Iterator[tuple[int, list[Member]]]:
    """Give runs of neighbouring items that can be cut, where a gain is possible."""
    run: list[Member] = []
    for at, item in enumerate([*items, None]):
        member = None
        if isinstance(item, (Node, Chain)):
            member = member_of(item, images.graph, axis)
        if member is not None and not apart.isdisjoint((*member.reads, member.result)):
            member = None
        if run and member is None:
            inside = images.inside(run, at - len(run))
            if inside and _saved(inside, images) > _spent(LEAST_BANDS, run[:2]):
                yield at - len(run), run
            run = []
        if member is not None:
            run.append(member)


def _divided(members: Sequence[Member], begin: int, images: _Images) -> dict[int, Group]:
    """Divide a run into groups and single steps, for the largest gain."""
    best: list[tuple[float, int, Group | None]] = [(0.0, 0, None)]
    for at in reversed(range(len(members))):
        choice: tuple[float, int, Group | None] = best[0][0], 1, None
        saved = images.staying(members[at].result, 0)
        for count in range(2, min(MOST_MEMBERS, len(members) - at) + 1):
            # No more than if the group alone read all of its results.
            saved += images.staying(members[at + count - 1].result, 0)
            least = choice[0] - best[count - 1][0]
            if saved - _spent(LEAST_BANDS, members[:count]) <= least:
                continue
            group = _group(members[at : at + count], begin + at, images, least)
            if group is not None:
                choice = group.gain + best[count - 1][0], count, group
        best.insert(0, choice)
    found, at = {}, 0
    while at < len(members):
        _, count, group = best[at]
        if group is not None:
            found[begin + at] = group
        at += count
    return found


def _group(
    members: Sequence[Member], begin: int, images: _Images, least: float
) -> Group | None:  # fmt: skip
    """Make a group, if it promises a gain above the least one."""
    inner = images.inside(members, begin)
    # A first look, without the rows of bands.
    if _saved(inner, images) - _spent(LEAST_BANDS, members) <= least:
        return None
    placed = inner & images.placed
    kept = [
        replace(m, joins=tuple(name for name in m.joins if name in placed)) if m.joins else m
        for m in members
    ]  # fmt: skip
    # Parts of a joined array are moved with it, or not at all.
    joined = {name for m in kept for name in m.joins}
    # These lie in a joined array without bands; with bands, they are copied to a window.
    apart = [
        name
        for m in members
        if m.result in inner
        for name in m.joins
        if name in images.placed - inner
    ]
    parts = [Part(m.result, m.reads, _align(m), m.joins if m.result in inner else ()) for m in kept]
    axis, count = members[0].axis, members[0].images
    best: Group | None = None
    for level, room in enumerate(planner.band_bytes()):
        saved = _saved(inner - joined, images, level)
        if saved - _spent(LEAST_BANDS, members) <= least:
            continue
        bands = _largest(parts, inner, images, axis, room)
        if bands is None:
            continue
        moved = sum(bands.again[name] * images.row(name, axis) for name in inner)
        moved = count * bands.turns * moved + 2 * sum(images.size(name) for name in apart)
        spent = _spent(bands.turns + 2, members) + moved / COPIED / images.team
        spent += count * bands.turns * _begun(parts, bands, images, axis) / images.team
        spent += sum(images.staying(name, level) for name in apart)
        gain = saved - spent
        if gain > (least if best is None else best.gain):
            best = Group(kept, inner, bands, gain)
    return best


def _saved(names: frozenset[str], images: _Images, level: int = 0) -> float:
    """Cycles that are saved where images stay in L2, or in L3."""
    return sum(images.staying(name, level) for name in names)


def _begun(parts: Sequence[Part], bands: Bands, images: _Images, axis: int) -> float:
    """Cycles in which the steps of a band read rows that the band before has read."""
    read = 0.0
    for part in parts:
        begin, rows = bands.begin[part.result], bands.step[part.result]
        for name, reach in part.reads.items():
            count = reach.end(begin + rows) - reach.first(begin) - int(rows * reach.rate)
            read += max(count, 0) * images.row(name, axis)
    return read / BEGUN


def _spent(bands: int, members: Sequence[Member]) -> float:
    """Cycles in which steps start again for each band of each image."""
    return (members[0].images * bands - 1) * STEP_CYCLES * len(members)


def _align(member: Member) -> int:
    """Rows of a tile: bands of Winograd's convolutions begin where tiles do."""
    variants = [plan.bits for plan in (member.plans or {}).values()]
    tiles = [
        int(bits[2 : bits.index(",")].split("x")[member.axis - 2])
        for bits in variants if bits.startswith("F(")
    ]  # fmt: skip
    return member.apart * math.lcm(*tiles)


def _largest(
    parts: Sequence[Part], inner: frozenset[str], images: _Images, axis: int, room: int
) -> Bands | None:
    """Give the highest bands whose rows take no more than `room`.

    Those of equal groups are computed once.
    """
    names = list(dict.fromkeys(name for part in parts for name in (*part.reads, part.result)))
    number = {name: str(at) for at, name in enumerate(names)}
    alike = [part.renamed(number) for part in parts]
    sizes = [(images.height(name, axis), images.row(name, axis)) for name in names]
    inside = [number[name] for name in names if name in inner]
    key = (
        tuple((part.result, *part.reads.items(), part.align, part.joins) for part in alike),
        tuple(sizes), tuple(inside), room,
    )  # fmt: skip
    if key not in images.known:
        images.known[key] = _highest(alike, inside, sizes, room)
    found = images.known[key]
    return found.renamed(names) if found is not None else None


def _highest(
    parts: Sequence[Part], inner: Sequence[str], sizes: Sequence[tuple[int, float]], room: int
) -> Bands | None:
    """Give the highest bands of parts whose values are numbered: `sizes` are rows and bytes."""
    rates = rates_of(parts)
    if rates is None:
        return None
    heights, row = (
        {name: sizes[int(name)][0] for name in rates},
        {name: sizes[int(name)][1] for name in rates},
    )
    # A first and a middle band have so many rows at least.
    most = min(heights[part.result] // (2 * rates[part.result]) for part in parts)
    fitting = int(room / sum(rate * row[name] for name, rate in rates.items()))
    for unit in _units(min(most, fitting)):
        bands = bands_of(parts, heights, inner, unit, rates)
        if bands is None:
            continue
        rows = {name: step + bands.again.get(name, 0) for name, step in bands.step.items()}
        if sum(count * row[name] for name, count in rows.items()) <= room:
            return bands
    return None


def _units(most: int) -> Sequence[int]:
    """Heights of bands to try, in units."""
    return range(most, 0, -1)
