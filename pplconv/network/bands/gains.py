"""What a group of steps saves if it runs band by band.

That is the time in which arrays would leave L2 and come back, less the time of starting steps again
for each band, and of moving rows that the next band reads again.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

from ... import planner
from ..._records import NamedTuple, record
from ..nodes import Graph
from ..operators.row_reach import Windows
from .members import Member
from .rows import Bands, Part, bands_of, fewest, rates_of

__all__ = ["Costs", "Images", "Priced", "Run", "costs_here"]

# Longer groups gain little, and each of their sub-groups is considered.
MOST_MEMBERS = 12
LEAST_BANDS = 3
# To start a step again for another band (800 to 2000 on a Zen 5).
STEP_CYCLES = 2500.0
# Bytes a cycle at which a step reads rows that it has read for the band before: it begins to
# stream anew (5 to 27 on a Zen 5, the less the wider the image).
BEGUN = 9.0
# Estimates are not so exact that less would be a gain; each group takes time to plan.
LEAST_GAIN = 2 * STEP_CYCLES
# Bytes a cycle at which rows are moved in L2.
COPIED = 16.0
# Bands that the last one may be as high as.
UNEVEN_BANDS = 2


@record(frozen=True)
class Costs:
    """What the choice of groups goes by.

    Parameters
    ----------
    rooms : sequence of int
        Bytes of the rows of a band, for each level of caches; without any there are no groups.
    staying : callable
        Cycles that are saved where an array of some bytes stays in a level's cache.
    units : callable
        Heights of bands to try, in order, if a band has room for so many units.
    """

    rooms: Sequence[int]
    staying: Callable[[int, int], float]
    units: Callable[[int], Sequence[int]]


def costs_here() -> Costs:
    """Give the costs of the machine that plans are made for."""
    # Many arrays of a network have the same size.
    staying = functools.cache(planner.staying_cycles)
    return Costs(planner.band_bytes(), staying, lambda most: range(most, 0, -1))


@record(frozen=True)
class Images:
    """Rows and bytes of images, and the steps that read them.

    Parameters
    ----------
    graph : Graph
        Of whole images.
    size : callable
        Bytes of a whole image, as it is stored.
    last : mapping of str to int
        Number of the last item that reads a value; the number of all items for outputs.
    placed : set of str
        Values with a place of their own in a joined array.
    team : int
        Threads. Each thread moves its part of the bytes, and starts each step.
    costs : Costs
        Of memory and caches.
    known : dict
        Bands of groups, and their values' names, whatever these are.
    priced : dict
        Groups that were priced before, by axis, first member, length and tiles.
    bounded : dict
        Lengths of groups and bounds of their gains, by axis, first member and tiles.
    """

    graph: Graph
    size: Callable[[str], int]
    last: Mapping[str, int]
    placed: frozenset[str]
    team: int
    costs: Costs
    known: dict[Any, tuple[Bands | None, list[str]]] = field(default_factory=dict)
    priced: dict[Any, Priced | None] = field(default_factory=dict)
    bounded: dict[Any, Sequence[tuple[int, float]]] = field(default_factory=dict)

    def staying(self, name: str, level: int) -> float:
        """Cycles that each thread saves where an image stays in L2 (level 0) or in L3 (level 1)."""
        return self.costs.staying(self.size(name), level) / self.team


class Priced(NamedTuple):
    """What is known of a group that promises a gain.

    Parameters
    ----------
    gain : float
        Cycles that it is estimated to save.
    bands : Bands
        Rows of each band.
    inner : frozenset of str
        Values that the group alone reads.
    joined : frozenset of str
        Inner values that are written straight into a joined array.
    """

    gain: float
    bands: Bands
    inner: frozenset[str]
    joined: frozenset[str]


@record
class _Size:
    """Bytes of the values of a group, at least.

    Parameters
    ----------
    whole, made : float
        Bytes of all images, and of the results.
    unit : float
        Bytes of the rows for `common` units of work.
    common : int
        Greatest common divisor of all values' rows.
    again : float
        Bytes of the rows that a band reads again.
    least : float
        Units of work, as a part of `common`, in which a band makes as many rows of each value as
        it reads again.
    """

    whole: float = 0.0
    made: float = 0.0
    unit: float = 0.0
    common: int = 0
    again: float = 0.0
    least: float = 0.0

    def add(self, row: float, height: int, rate: int, *, made: bool) -> None:
        """Add a value: bytes of a row, rows, and rows for `common` units of work."""
        self.whole += row * height
        self.made += row * height if made else 0.0
        self.unit += row * rate
        self.common = math.gcd(self.common, rate)

    def read_again(self, row: float, rows: int, rate: int) -> None:
        """Let bands read so many rows of an inner value again."""
        self.again += row * rows
        self.least = max(self.least, rows / rate)

    def fewest_bands(self, room: int, even: float, *, whole_units: bool) -> int | None:
        """Give the fewest bands that take no more than `room`; None if not even one row does.

        Parameters
        ----------
        room : int
            Bytes.
        even : float
            Part of the image that bands of equal height make.
        whole_units : bool
            Whether rows of all values have known ratios, and bands whole units.
        """
        units = int((room - self.again) * self.common / self.unit)
        least = self.least * self.common if whole_units else 0.0
        if units < max(least, 1):
            return None
        band = units * self.unit / self.common if whole_units else room
        # The last band may be higher.
        last = UNEVEN_BANDS * room * self.whole / self.made
        return max(LEAST_BANDS, int((even * self.whole - last) / band) + 1)


class Run:
    """Neighbouring steps that can be cut into bands.

    Parameters
    ----------
    members : sequence of Member
        The steps.
    begin : int
        Number of the first one among all items.
    images : Images
        Of the network.
    """

    def __init__(self, members: Sequence[Member], begin: int, images: Images) -> None:
        self.members, self.begin, self.images = members, begin, images
        shapes = images.graph.shapes
        self._axis = members[0].axis if members else 2
        self._height: dict[str, int] = {}
        self._row: dict[str, float] = {}
        # By member: its values, and the member before that has the value too.
        self._met: list[list[tuple[int, str]]] = []
        met: dict[str, int] = {}
        # Rows of each value, and bytes of all that a member reads, that bands read again at least.
        self._again: dict[str, int] = {}
        self._anew: list[float] = []
        for at, member in enumerate(members):
            here = []
            for name in dict.fromkeys((*member.reads, member.result)):
                if name not in met:
                    height = self._height[name] = shapes[name][self._axis]
                    self._row[name] = images.size(name) / (shapes[name][0] * height)
                here.append((met.get(name, -1), name))
                met[name] = at
            self._met.append(here)
            anew = 0.0
            for name, reach in member.reads.items():
                if isinstance(reach, Windows):
                    again = max(reach.extent - reach.stride, 0)
                    self._again[name] = max(self._again.get(name, 0), again)
                    anew += again * self._row[name]
            self._anew.append(anew)
        self._align = [_align(member) for member in members]
        # The part of the image by which each step makes the first band higher.
        self._halo = [
            align / self._height[member.result]
            + max((reach.end(1) - reach.first(0)) / self._height[name]
                  for name, reach in member.reads.items())
            for member, align in zip(members, self._align, strict=True)
        ]  # fmt: skip
        # Where groups must end that have a result for themselves.
        self._ends = [
            max(images.last.get(member.result, 0) - begin, at) + 1
            for at, member in enumerate(members)
        ]  # fmt: skip
        joined = images.placed.intersection(name for one in members for name in one.joins)
        # Parts of a joined array are moved with it, or not at all.
        self._saved = [
            [0.0 if one.result in joined else images.staying(one.result, level) for one in members]
            for level in range(len(images.costs.rooms))
        ]
        self._joined = joined

    @functools.cached_property
    def _closed(self) -> list[list[int]]:
        """By the end of a group: results that it has for itself if it begins early enough."""
        found: list[list[int]] = [[] for _ in range(len(self.members) + 1)]
        for at, end in enumerate(self._ends):
            if end < len(found):
                found[end].append(at)
        return found

    def bounds(self, at: int) -> Sequence[tuple[int, float]]:
        """Give lengths of the groups that begin at a member, and bounds of their gains."""
        end = min(at + MOST_MEMBERS, len(self.members))
        key = self._axis, self.begin + at, tuple(self._align[at:end])
        if key not in self.images.bounded:
            self.images.bounded[key] = list(self._bounds(at, end))
        return self.images.bounded[key]

    def _bounds(self, at: int, most: int) -> Iterator[tuple[int, float]]:
        rooms = self.images.costs.rooms
        saved = [0.0] * len(rooms)
        size = _Size()
        even, anew = 1.0, 0.0
        for end in range(at + 1, most + 1):
            made = self.members[end - 1].result
            for before, name in self._met[end - 1]:
                if before < at:
                    # Each band has one row of each value at least.
                    rate = 1 if self._ratios is None else self._ratios[name]
                    size.add(self._row[name], self._height[name], rate, made=name == made)
            even = max(even - self._halo[end - 1], 0.0)
            anew += self._anew[end - 1]
            for inner in self._closed[end]:
                if inner >= at:
                    name = self.members[inner].result
                    rate = 1 if self._ratios is None else self._ratios[name]
                    size.read_again(self._row[name], self._again.get(name, 0), rate)
                    saved = [sum_ + of[inner] for sum_, of in zip(saved, self._saved, strict=True)]
            fits, best = False, 0.0
            for gain, room in zip(saved, rooms, strict=True):
                bands = size.fewest_bands(room, even, whole_units=self._ratios is not None)
                if bands is not None:
                    spent = self._spent(end - at, bands, size.again, anew)
                    fits, best = True, max(best, gain - spent)
            if not fits:
                return
            if best > LEAST_GAIN and end - at > 1:
                yield end - at, best

    def price(self, at: int, count: int) -> Priced | None:
        """Price a group of so many members; None if it promises no gain."""
        tiles = tuple(self._align[at : at + count])
        key = self._axis, self.begin + at, count, tiles
        if key not in self.images.priced:
            self.images.priced[key] = self._price(at, at + count)
        return self.images.priced[key]

    def _price(self, at: int, end: int) -> Priced | None:
        members, images = self.members[at:end], self.images
        own = [n for n in range(at, end) if self._ends[n] <= end]
        inner = frozenset(self.members[n].result for n in own)
        placed = inner & images.placed
        parts = [
            Part(m.result, m.reads, align, _among(m.joins, placed) if m.result in inner else ())
            for m, align in zip(members, self._align[at:end], strict=True)
        ]
        # These lie in a joined array without bands; with bands, they are copied to a window.
        apart = [
            name
            for m in members
            if m.joins and m.result in inner
            for name in _among(m.joins, images.placed - inner)
        ]
        best: Priced | None = None
        copied = 2 * sum(images.size(name) for name in apart) / COPIED / images.team
        for level, room in enumerate(images.costs.rooms):
            saved = sum(self._saved[level][n] for n in own) - copied
            saved -= sum(images.staying(name, level) for name in apart)
            least = LEAST_GAIN if best is None else best.gain
            if saved - self._started(len(members), LEAST_BANDS) <= least:
                continue
            bands = self._highest(parts, at, inner, room)
            if bands is None:
                continue
            moved = sum(bands.again[name] * self._row[name] for name in inner)
            spent = self._spent(len(members), bands.turns + 2, moved, self._anew_in(parts, bands))
            if saved - spent > least:
                best = Priced(saved - spent, bands, inner, self._joined & inner)
        return best

    def _started(self, count: int, bands: int) -> float:
        """Cycles in which so many steps start again for each band of each image."""
        return (self.members[0].images * bands - 1) * STEP_CYCLES * count

    def _spent(self, count: int, bands: int, moved: float, anew: float) -> float:
        """Cycles that so many steps in so many bands take longer than whole images.

        For each band, `moved` bytes go to their place in the next one, and steps read `anew` bytes
        that they have read for the band before.
        """
        each = (moved / COPIED + anew / BEGUN) / self.images.team
        turns = self.members[0].images * (bands - 2)
        return self._started(count, bands) + turns * each

    def _anew_in(self, parts: Sequence[Part], bands: Bands) -> float:
        """Bytes that the steps of a band read and the band before has read."""
        read = 0.0
        for part in parts:
            begin, rows = bands.begin[part.result], bands.step[part.result]
            for name, reach in part.reads.items():
                count = reach.end(begin + rows) - reach.first(begin) - bands.step[name]
                read += max(count, 0) * self._row[name]
        return read

    def _highest(
        self, parts: Sequence[Part], at: int, inner: frozenset[str], room: int
    ) -> Bands | None:
        """Give the highest bands whose rows take no more than `room`.

        Those of equal groups are computed once.
        """
        number: dict[str, int] = {}
        for part in parts:
            for name in (*part.reads, part.result):
                number.setdefault(name, len(number))
        key = (
            room,
            tuple((self._height[name], self._row[name], name in inner) for name in number),
            tuple(
                (
                    part.align, number[part.result], tuple(number[name] for name in part.joins),
                    *((number[name], reach) for name, reach in part.reads.items()),
                )
                for part in parts
            ),
        )  # fmt: skip
        known = self.images.known
        if key not in known:
            known[key] = self._highest_of(parts, at, inner, room), list(number)
        found, names = known[key]
        return None if found is None else found.renamed(dict(zip(names, number, strict=True)))

    @functools.cached_property
    def _ratios(self) -> dict[str, int] | None:
        """Rows of all values for one unit of work; None if parts of the run have units apart."""
        return rates_of([Part(one.result, one.reads) for one in self.members])

    def _rates(self, parts: Sequence[Part], at: int) -> dict[str, int] | None:
        """Give what `rates_of` gives for the steps from `at` on: from the run's, where it can."""
        # Each step shares a value with one before it.
        near = self._met[at + 1 : at + len(parts)]
        if self._ratios is None or not all(any(one[0] >= at for one in met) for met in near):
            return rates_of(parts)
        names = {name for part in parts for name in (*part.reads, part.result)}
        return fewest({name: self._ratios[name] for name in names}, parts)

    def _highest_of(
        self, parts: Sequence[Part], at: int, inner: frozenset[str], room: int
    ) -> Bands | None:  # fmt: skip
        rates = self._rates(parts, at)
        if rates is None:
            return None
        # A first and a middle band have so many rows at least.
        most = min(self._height[part.result] // (2 * rates[part.result]) for part in parts)
        fitting = int(room / sum(rate * self._row[name] for name, rate in rates.items()))
        for unit in self.images.costs.units(min(most, fitting)):
            bands = bands_of(parts, self._height, inner, unit, rates)
            if bands is None:
                continue
            size = sum(
                (step + bands.again.get(name, 0)) * self._row[name]
                for name, step in bands.step.items()
            )
            # Where bands cease to repeat, the last one has all other rows.
            last = sum(rows * self._row[name] for name, rows in bands.rest.items())
            if size <= room and last <= UNEVEN_BANDS * room:
                return bands
        return None


def _among(names: Sequence[str], chosen: frozenset[str]) -> tuple[str, ...]:
    return tuple(name for name in names if name in chosen)


def _align(member: Member) -> int:
    """Rows of a tile: bands of Winograd's convolutions begin where tiles do."""
    variants = [plan.bits for plan in (member.plans or {}).values()]
    tiles = [
        int(bits[2 : bits.index(",")].split("x")[member.axis - 2])
        for bits in variants if bits.startswith("F(")
    ]  # fmt: skip
    return member.apart * math.lcm(*tiles)
