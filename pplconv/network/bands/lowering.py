"""Groups of steps as bands: the first one, a repeat of those between, and the last one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import contextmanager, nullcontext
from collections.abc import Iterator
from dataclasses import dataclass, replace

from ..builder import Builder
from ..fusion import Chain
from ..nodes import Graph, Node
from ..operators.convolution import lies_in_pixels
from ..operators.movement import parts
from ..storage import Value, channels_last
from .members import Member, in_band
from .rows import Bands

__all__ = ["Group", "lower_group"]

Lower = Callable[[Node | Chain, Graph, Graph | None], None]


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
    """

    members: Sequence[Member]
    inner: frozenset[str]
    bands: Bands


class _Places:
    """Where the images of a group lie: whole ones, and windows of inner ones."""

    def __init__(self, group: Group, builder: Builder, graph: Graph) -> None:
        self.group, self.builder = group, builder
        self.whole: dict[str, Value] = {}
        self.windows: dict[str, Value] = {}
        for member in reversed(group.members):
            name = member.result
            n, c, h, w = graph.shapes[name]
            if name in self.windows or name in self.whole:
                continue
            dtype = builder.stored(name, graph.dtypes[name])
            if name in group.inner:
                shape = n, c, group.bands.room(name), w
                self.windows[name] = builder.new(shape, dtype, channels_last(4))
            else:
                self.whole[name] = builder.target(
                    name, (n, c, h, w), dtype, channels_last(4), lies_in_pixels
                )
            self._join(member, builder, graph)

    def _join(self, member: Member, builder: Builder, graph: Graph) -> None:
        """Place the operands of a Concat in its result."""
        name, node = member.result, member.item
        if not member.joins or not isinstance(node, Node):
            return
        places = self.windows if name in self.windows else self.whole
        rows = places[name].shape[2]
        _, inner = in_band(node, graph, dict.fromkeys((*node.inputs, name), rows), 0, 0)
        for part, place in parts(node, inner, places[name]):
            if part in member.joins and builder.stored(part, graph.dtypes[part]) == place.dtype:
                places[part] = place

    def rows(self, name: str, begin: int, count: int, turn: int) -> Value:
        """Give rows of an image: in the repeat if `turn` is 1, behind it if it is more."""
        bands = self.group.bands
        window = self.windows.get(name)
        value = window or self.whole.get(name) or self.builder.values[name]
        advance = 0
        if window is not None:
            begin -= max(turn - 1, 0) * bands.step[name]
        elif turn == 1:
            advance = bands.step[name] * value.strides[2]
        n, c, _, w = value.shape
        found = value.viewed((n, c, count, w), value.strides, begin * value.strides[2])
        return replace(found, advance=advance)


def lower_group(
    group: Group, builder: Builder, graph: Graph, narrow: Graph | None, lower: Lower
) -> None:
    """Add the steps of a group."""
    bands, places = group.bands, _Places(group, builder, graph)
    for turn in (0, 1, 1 + bands.turns):
        with builder.repeat(bands.turns) if turn == 1 else nullcontext():
            for member in group.members:
                name = member.result
                begin, rows = 0, bands.begin[name]
                if turn:
                    begin = bands.begin[name] + (turn - 1) * bands.step[name]
                    rows = bands.step[name] if turn == 1 else bands.rest[name]
                if rows:
                    _lower_rows(member, begin, rows, turn, places, builder, graph, narrow, lower)
            if turn == 1:
                joined = {part for member in group.members for part in member.joins}
                for name, window in places.windows.items():
                    again = bands.again[name]
                    if again and name not in joined:
                        first = bands.begin[name] - again
                        n, c, _, w = window.shape
                        kept = places.rows(name, first, again, 1)
                        moved = places.rows(name, first + bands.step[name], again, 1)
                        builder.copy(moved, kept, [name])
    for name, value in places.whole.items():
        if name not in group.inner:
            builder.deliver(name, value)


def _lower_rows(
    member: Member, begin: int, rows: int, turn: int, places: _Places, builder: Builder,
    graph: Graph, narrow: Graph | None, lower: Lower,
) -> None:  # fmt: skip
    """Lower a member for some rows of its result."""
    heights = {member.result: rows}
    views: dict[str, Value] = {}
    top = bottom = 0
    for name, reach in member.reads.items():
        first, end = reach.first(begin), reach.end(begin + rows)
        height = graph.shapes[name][2]
        if reach.extent > 1 or reach.stride > 1 or reach.before:
            top, bottom = max(-first, 0), max(end - height, 0)
        first, end = max(first, 0), min(end, height)
        heights[name] = end - first
        views[name] = places.rows(name, first, end - first, turn)
    item, inner = in_band(member.item, graph, heights, top, bottom)
    within = None
    if narrow is not None:
        _, within = in_band(member.item, narrow, heights, top, bottom)
    target = places.rows(member.result, begin, rows, turn)
    with _bound(builder, views, member.result, target), builder.following(member.plan):
        lower(item, inner, within)


@contextmanager
def _bound(
    builder: Builder, views: dict[str, Value], result: str, target: Value
) -> Iterator[None]:
    """Give images other places meanwhile."""
    kept = {name: builder.values.get(name) for name in (*views, result)}
    wanted = builder.wanted.get(result)
    builder.values.update(views)
    builder.wanted[result] = target
    yield
    for name, value in kept.items():
        builder.values.pop(name, None)
        if value is not None:
            builder.values[name] = value
    builder.wanted.pop(result)
    if wanted is not None:
        builder.wanted[result] = wanted
