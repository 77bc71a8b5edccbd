"""Chooses the groups of steps that run band by band.

Runs of neighbouring steps that can be cut into bands are divided into groups and single steps, for
the largest estimated gain: `gains` prices each group. `lowering` compares that gain with what
convolutions of bands take longer, when their plans are known.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..._records import record
from ...planner import Plan
from ..attention import Item
from ..fusion import Chain, inputs_of
from ..nodes import Graph, Node
from .gains import Images, Run, costs_here
from .members import Member, member_of
from .rows import Bands

__all__ = ["Group", "groups_of"]

# Rows, and columns where rows are too long.
AXES = 2, 3


@record(frozen=True)
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
    last: dict[str, int] = {}
    for at, item in enumerate(items):
        for one in [item] if isinstance(item, (Node, Chain)) else item.items:
            last.update(dict.fromkeys(inputs_of(one), at))
    last.update(dict.fromkeys(graph.outputs, len(items)))
    # Each is asked for again in every run of the same steps.
    images = Images(graph, functools.cache(size), last, placed, team, costs_here())
    chosen: dict[int, Group] = {}
    for axis in AXES:
        found: dict[int, Group] = {}
        for begin, run in _runs(items, images, apart, axis):
            found.update(_divided_as_planned(run, begin, images, plans_of))
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


def _divided_as_planned(
    run: Sequence[Member], begin: int, images: Images,
    plans_of: Callable[[Node | Chain], Mapping[Any, Plan]],
) -> dict[int, Group]:  # fmt: skip
    """Divide a run, and learn the plans of convolutions.

    Plans take time: only those of groups that promise a gain are learned. Tiles, which they may
    have, and parts without plans only lessen gains, so groups of known plans that are the best
    beside unknown ones stay the best.
    """
    groups = _divided(Run(run, begin, images))
    members = list(run)
    learned = False
    for first, group in groups.items():
        for at, member in enumerate(group.members, first - begin):
            if member.planned and member.plans is None:
                members[at] = replace(members[at], plans=plans_of(member.item))
                learned = True
    if not learned:
        return groups
    found = {}
    for first, part in _with_plans(members):
        found.update(_divided_as_planned(part, begin + first, images, plans_of))
    return found


def _with_plans(run: Sequence[Member]) -> Iterator[tuple[int, list[Member]]]:
    """Give the parts of a run between convolutions that turned out to have no plans."""
    part: list[Member] = []
    for at, member in enumerate(run):
        if member.planned and member.plans is not None and not member.plans:
            yield at - len(part), part
            part = []
        else:
            part.append(member)
    yield len(run) - len(part), part


def _runs(
    items: Sequence[Item], images: Images, apart: frozenset[str], axis: int
) -> Iterator[tuple[int, list[Member]]]:
    """Give runs of neighbouring items that can be cut."""
    run: list[Member] = []
    for at, item in enumerate([*items, None]):
        member = None
        if isinstance(item, (Node, Chain)):
            member = member_of(item, images.graph, axis)
        if member is not None and not apart.isdisjoint((*member.reads, member.result)):
            member = None
        if run and member is None:
            if len(run) > 1:
                yield at - len(run), run
            run = []
        if member is not None:
            run.append(member)


def _divided(run: Run) -> dict[int, Group]:
    """Divide a run into groups and single steps, for the largest gain."""
    # By the first member, from the end of the run on: gain, and length of the first part.
    best = [(0.0, 0)]
    for at in reversed(range(len(run.members))):
        gain, length = best[0][0], 1
        hopes = ((bound + best[count - 1][0], count) for count, bound in run.bounds(at))
        for hope, count in sorted(hopes, reverse=True):
            if hope <= gain:
                break
            priced = run.price(at, count)
            if priced is not None and priced.gain + best[count - 1][0] > gain:
                gain, length = priced.gain + best[count - 1][0], count
        best.insert(0, (gain, length))
    found, at = {}, 0
    while at < len(run.members):
        _, length = best[at]
        priced = run.price(at, length) if length > 1 else None
        if priced is not None:
            members = [
                replace(one, joins=tuple(name for name in one.joins if name in priced.joined))
                for one in run.members[at : at + length]
            ]
            found[run.begin + at] = Group(members, priced.inner, priced.bands, priced.gain)
        at += length
    return found
