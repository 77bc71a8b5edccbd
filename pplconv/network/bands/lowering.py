"""Groups of steps as bands: the first one, a repeat of those between, and the last one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any

from ... import planner
from ..._records import record
from ...ops.prepared import Prepared
from ...planner import Plan
from ..builder import Builder, NoSuchPlan, Values
from ..fusion import Chain, inputs_of
from ..nodes import Graph, Node
from ..operators.convolution import lies_in_pixels
from ..operators.movement import parts
from ..operators.row_reach import Band
from ..storage import BANDS, Banded, Shape, Step, Value, channels_last
from .gains import COPIED
from .groups import Group
from .members import Member, graph_of

__all__ = ["Lower", "Lowering", "lower_group", "plans_of"]

Lower = Callable[[Node | Chain, Graph, Graph | None], None]


@record(frozen=True)
class Lowering:
    """A network that is being lowered.

    Parameters
    ----------
    builder : Builder
        Gets the steps.
    graph : Graph
        Of whole images.
    narrow : Graph or None
        The same of steps that compute in a narrow type.
    lower : callable
        Lowers an item of graphs like these two.
    """

    builder: Builder
    graph: Graph
    narrow: Graph | None
    lower: Lower


def plans_of(item: Node | Chain, network: Lowering) -> Mapping[Any, Plan]:
    """Give the plans of a convolution of whole images by parts of its weights.

    Empty if several convolutions have the same weights, as the parts of a dilated one may have.

    It is lowered among values that do not exist yet, and its steps are dropped.
    """
    builder, graph = network.builder, network.graph
    values = Values(builder.values)
    values.constants = graph.constants
    for name in inputs_of(item):
        if name not in values and name not in graph.constants:
            shape, dtype = graph.shapes[name], builder.stored(name, graph.dtypes[name])
            order = channels_last(4) if len(shape) == 4 else None
            values[name] = builder.new(shape, dtype, order)
    kept = builder.steps, builder.values, builder.relaid, builder.wanted
    builder.steps, builder.values, builder.relaid, builder.wanted = [], values, {}, {}
    try:
        with builder.noting() as noted:
            network.lower(item, graph, network.narrow)
    finally:
        builder.steps, builder.values, builder.relaid, builder.wanted = kept
    plans = {part: plan for part, (_, plan) in noted.items() if plan is not None}
    return plans if len(plans) == len(noted) else {}


class _Places:
    """Where the images of a group lie: whole ones, and windows of inner ones."""

    def __init__(self, group: Group, builder: Builder, graph: Graph) -> None:
        self.group, self.builder, self.graph = group, builder, graph
        self.axis = group.members[0].axis
        self.whole: dict[str, Value] = {}
        self.windows: dict[str, Value] = {}
        for member in reversed(group.members):
            name = member.result
            if name not in self.windows and name not in self.whole:
                self._make(name, builder, graph)
            if member.joins and isinstance(member.item, Node):
                self._join(member, member.item, builder, graph)

    def _make(self, name: str, builder: Builder, graph: Graph) -> None:
        n, c, h, w = graph.shapes[name]
        dtype, order = builder.stored(name, graph.dtypes[name]), channels_last(4)
        if name in self.group.inner:
            shape = self._cut((n, c, h, w), self.group.bands.room(name))
            self.windows[name] = builder.new(shape, dtype, order)
        else:
            self.whole[name] = builder.target(name, (n, c, h, w), dtype, order, lies_in_pixels)

    def _join(self, member: Member, node: Node, builder: Builder, graph: Graph) -> None:
        """Place the operands of a Concat in its result."""
        name = member.result
        places = self.windows if name in self.windows else self.whole
        images, rows = places[name].shape[0], places[name].shape[self.axis]
        inner = graph_of(node, graph, dict.fromkeys((*node.inputs, name), rows), self.axis)
        for part, place in parts(node, inner, places[name]):
            if part in member.joins and builder.stored(part, graph.dtypes[part]) == place.dtype:
                places[part] = place.viewed((images, *place.shape[1:]), place.strides)

    def _cut(self, shape: Shape, count: int) -> Shape:
        """Give the shape of so many rows of one image."""
        cut = [1, *shape[1:]]
        cut[self.axis] = count
        return tuple(cut)

    def described(self, begin: int, end: int, gain: float) -> Banded:
        """Describe the group for people; `begin` and `end` are its steps."""
        shapes = self.graph.shapes
        bands, last = self.group.bands, self.group.members[-1].result
        # Operands of a Concat lie in its window.
        windows = {id(value.buffer): (name, value) for name, value in self.windows.items()}
        whole = sum(
            value.buffer.size // value.shape[self.axis] * shapes[name][self.axis] * shapes[name][0]
            for name, value in windows.values()
        )  # fmt: skip
        return Banded(
            begin, end, tuple(shapes[member.result] for member in self.group.members),
            bands.turns + 1 + bool(bands.rest[last]), bands.step[last], self.axis, whole,
            sum(value.buffer.size for _, value in windows.values()), gain,
        )  # fmt: skip

    def rows(self, name: str, image: int, begin: int, count: int, turn: int) -> Value:
        """Give rows of an image in a band: `turn` is 0 in the first one, 1 in the repeat."""
        bands = self.group.bands
        window = self.windows.get(name)
        value = window or self.whole.get(name) or self.builder.values[name]
        advance = 0
        if window is not None:
            begin -= max(turn - 1, 0) * bands.step[name]
        elif turn == 1:
            advance = bands.step[name] * value.strides[self.axis]
        place = begin * value.strides[self.axis]
        if window is None:
            place += image * value.strides[0]
        found = value.viewed(self._cut(value.shape, count), value.strides, place)
        return replace(found, advance=advance)

    def whole_of(self, name: str, image: int) -> Value:
        """Give what an operand has for an image."""
        value = self.builder.values[name]
        return value.viewed((1, *value.shape[1:]), value.strides, image * value.strides[0])


def lower_group(group: Group, network: Lowering) -> bool:
    """Add the steps of a group, if that is estimated to pay; tell whether it is.

    Convolutions of few rows may take longer than their part of a whole one.
    """
    builder = network.builder
    places = _Places(group, builder, network.graph)
    steps, repeats = len(builder.steps), len(builder.repeats)
    try:
        _lower_bands(group, places, network)
        gain = group.gain - _longer(group, builder.steps[steps:])
        if places.axis == 3:
            team = planner.team_size(builder.settings.threads)
            gain -= _copied(builder.steps[steps:], places) / team
    except (NoSuchPlan, _InPython):
        gain = -math.inf
    if gain < 0:
        del builder.steps[steps:], builder.repeats[repeats:]
        builder.relaid.clear()
        return False
    for name, value in places.whole.items():
        if name not in group.inner:
            builder.deliver(name, value)
    builder.groups.append(places.described(steps, len(builder.steps), gain))
    return True


class _InPython(Exception):
    """A step of a band would run in Python, where a repeat cannot."""


def _lower_bands(group: Group, places: _Places, network: Lowering) -> None:
    """Lower the members for each kind of band of each image."""
    builder, bands = network.builder, group.bands
    turns = tuple(zip((0, 1, 1 + bands.turns), BANDS, strict=True))
    for image, (turn, named) in itertools.product(range(group.members[0].images), turns):
        begin = len(builder.steps)
        with builder.repeat(bands.turns) if turn == 1 else nullcontext():
            for number, member in enumerate(group.members):
                done = len(builder.steps)
                _lower_band(member, image, turn, places, network)
                for step in builder.steps[done:]:
                    step.member = number if step.member is None else step.member
            if turn == 1:
                _move_up(group, places, builder)
            if any(step.host for step in builder.steps[begin:]):
                raise _InPython
        for step in builder.steps[begin:]:
            step.detail += named


def _longer(group: Group, steps: list[Step]) -> float:
    """Cycles that convolutions of bands take more than whole ones.

    What they take less is operands that are near: the gain of the group has that already. Weights
    come from memory once in either case.
    """
    plans = [plan for member in group.members for plan in (member.plans or {}).values()]
    taken = sum(
        step.turns * _warm(step.work.plan) for step in steps if isinstance(step.work, Prepared)
    )
    return max(float(taken - sum(map(_warm, plans))), 0.0)


def _copied(steps: list[Step], places: _Places) -> float:
    """Cycles of copies where loops take no rows with gaps.

    Windows are copied in a cache. Results that steps outside of the group read go to memory.
    """
    whole = {id(value.buffer) for value in places.whole.values()}
    cycles, out = 0.0, 0
    for step in steps:
        if step.kind == "Copy" and step.member is not None:
            value = step.writes[0]
            size = step.turns * value.size * value.dtype.itemsize
            cycles += size / COPIED
            out += size if id(value.buffer) in whole else 0
    return cycles + planner.staying_cycles(out, 0) if out else cycles


def _warm(plan: Plan) -> float:
    """Cycles of a plan whose weights lie in a cache."""
    return sum(cycles for term, cycles in plan.cost.items() if term != "cold")


def _move_up(group: Group, places: _Places, builder: Builder) -> None:
    """Move the rows that the next band reads again."""
    joined = {name for member in group.members for name in member.joins}
    for name in places.windows:
        rows = group.bands.again[name]
        if rows and name not in joined:
            first = group.bands.begin[name] - rows
            kept = places.rows(name, 0, first, rows, 1)
            last = places.rows(name, 0, first + group.bands.step[name], rows, 1)
            builder.copy(last, kept, [name])


def _lower_band(member: Member, image: int, turn: int, places: _Places, network: Lowering) -> None:
    """Lower a member for a band of its result."""
    name, bands = member.result, places.group.bands
    begin, rows = 0, bands.begin[name]
    if turn:
        begin = bands.begin[name] + (turn - 1) * bands.step[name]
        rows = bands.step[name] if turn == 1 else bands.rest[name]
    if not rows:
        return
    heights, band = {name: rows}, None
    views = {part: places.whole_of(part, image) for part in member.each}
    for read, reach in member.reads.items():
        height = network.graph.shapes[read][places.axis]
        first, end = reach.first(begin), reach.end(begin + rows)
        before, after = max(-first, 0), max(end - height, 0)
        first, end = max(first, 0), min(end, height)
        heights[read] = end - first
        views[read] = places.rows(read, image, first, end - first, turn)
        band = band or Band(begin, begin + rows, first, before, after)
    assert band is not None, "a member reads an image"
    item = member.cut(band)
    graph, narrow = network.graph, network.narrow
    graph = graph_of(item, graph, heights, places.axis, member.each)
    if narrow is not None:
        narrow = graph_of(item, narrow, heights, places.axis, member.each)
    target = places.rows(name, image, begin, rows, turn)
    builder = network.builder
    with _bound(builder, views, name, target), builder.following(member.plans):
        network.lower(item, graph, narrow)


@contextmanager
def _bound(
    builder: Builder, views: Mapping[str, Value], result: str, target: Value
) -> Iterator[None]:
    """Give images other places meanwhile."""
    kept = {name: builder.values.get(name) for name in (*views, result)}
    wanted = builder.wanted.get(result)
    builder.values.update(views)
    builder.wanted[result] = target
    try:
        yield
    finally:
        for name, value in kept.items():
            if value is None:
                builder.values.pop(name, None)
            else:
                builder.values[name] = value
        if wanted is None:
            del builder.wanted[result]
        else:
            builder.wanted[result] = wanted
