"""Direct filters one after another as one program, in bands of rows that stay in a cache.

The first band computes some rows of the last filter, and what they see of the filters before; each
band after it computes as many rows more of every filter, and the last band the rest. Between two
filters lies a window: rows that the next band sees again, and behind them the new ones. At the end
of a band the rows that are seen again move up.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import planner
from .._records import NamedTuple
from ..ops.edges import Index, source_index
from ..ops.program import Program
from ..ops.strided_copies import copy_fields
from ..schedules.copy_loops import Copy
from .banded import Banded
from .bands import banded, is_read, is_stored
from .noted import Noted

__all__ = ["Bands", "FilterChain", "chained", "joins"]

Array = npt.NDArray[Any]
_Place = tuple[Any, ...]

_LINE = 64
_LEAST_BANDS = 3
# Rows of a band, at least: each filter reads its rows, and some more, anew.
_LEAST_ROWS = 16
# Cycles to start a filter again for another band, and to call a filter from Python (on a Zen 5).
_START_CYCLES = 1500.0
_CALL_CYCLES = 20000.0


class Bands(NamedTuple):
    """Rows of the bands of a chain.

    Parameters
    ----------
    rows : int
        Of the last filter, in each band but the last one.
    turns : int
        Bands between the first and the last one.
    gain : float
        Cycles that they are estimated to save.
    """

    rows: int
    turns: int
    gain: float


class FilterChain:
    """Filters that run as one.

    Parameters
    ----------
    filters : sequence of Noted
        Each filters the result of the one before.
    bands : Bands
        Of its rows.
    team : int
        Threads, at most.

    Attributes
    ----------
    shape : tuple of int
        Of the result.
    dtype : dtype
        Of the result.
    """

    def __init__(self, filters: Sequence[Noted], bands: Bands, team: int) -> None:
        self.bands, last = bands, filters[-1]
        self.shape, self.dtype = last.result.shape, last.result.dtype
        built = _Builder(filters, bands, team)
        self._kept = built.kept
        sizes = [filters[0].image.nbytes, last.planes.nbytes]
        self._steps = built.steps
        self._program = Program(
            built.steps, built.arena, sizes, team, planner.share(team), None, built.repeats
        )

    def __call__(self, image: Array, out: Array) -> None:
        """Filter an image of the form of the first filter's; both arrays are contiguous."""
        program = self._program
        frame = program.frame()
        try:
            program.run(frame, [image, out], 0, len(self._steps))
        finally:
            program.give_back(frame)


def chained(filters: Sequence[Noted], team: int) -> FilterChain | None:
    """Join filters, if bands are estimated to pay.

    Parameters
    ----------
    filters : sequence of Noted
        Each filters the result of the one before.
    team : int
        Threads, at most.
    """
    if len(filters) < 2 or not all(map(_is_banded, filters)):
        return None
    best: Bands | None = None
    between = [one.planes.nbytes for one in filters[:-1]]
    for level, room in enumerate(planner.band_bytes()):
        bands = _bands_in(filters, room)
        if bands is None:
            continue
        saved = sum(planner.staying_cycles(size, level) for size in between) / team
        gain = saved + _CALL_CYCLES * (len(filters) - 1)
        gain -= _START_CYCLES * len(filters) * (bands.turns + 1)
        if gain > 0 and (best is None or gain > best.gain):
            best = bands._replace(gain=gain)
    return None if best is None else FilterChain(filters, best, team)


def joins(first: Noted, second: Noted) -> bool:
    """Whether the second filter reads the result of the first."""
    return (
        len(first.planes) == 1
        and second.image.shape == first.planes.shape[1:]
        and second.image.dtype == first.planes.dtype
    )


def _is_banded(one: Noted) -> bool:
    """Whether loops filter an image from the caller's rows to the rows of the result."""
    images = one.image, one.planes
    return (
        one.region.border != "wrap"  # the first rows see the last ones
        # Bands would round some sums in another order than the whole image does.
        and not (one.rounding is None and getattr(one.operator, "shares_columns", False))
        and all(array.flags.c_contiguous and array.dtype.isnative for array in images)
        and is_read(one.image, one.operator.dtype)
        and is_stored(one.planes, one.operator, one.rounding)
    )


def _bands_in(filters: Sequence[Noted], room: int) -> Bands | None:
    """Give bands whose rows take no more than `room`; None if there are none."""
    rows = [one.planes.nbytes // one.planes.shape[1] for one in filters]
    rows.insert(0, filters[0].image.nbytes // len(filters[0].image))
    again = [one.operator.extent[0] - 1 for one in filters]
    fixed = sum(2 * count * size for count, size in zip(again, rows, strict=False))
    height = filters[-1].planes.shape[1]
    most = min(int((room - fixed) // sum(rows)), height // _LEAST_BANDS)
    if most < max(_LEAST_ROWS, 3 * max(again)):
        return None
    # Bands of nearly equal height.
    count = -(-height // most)
    return _divided(filters, -(-height // count))


def _divided(filters: Sequence[Noted], rows: int) -> Bands | None:
    """Give bands of so many rows; None if a band would see rows that are not in its window."""
    turns = (filters[-1].planes.shape[1] - rows) // rows
    while turns > 0 and not _see_their_windows(filters, Bands(rows, turns, 0.0)):
        turns -= 1
        if filters[-1].planes.shape[1] - rows * (1 + turns) > 3 * rows:
            return None
    return Bands(rows, turns, 0.0) if turns > 0 else None


def _see_their_windows(filters: Sequence[Noted], bands: Bands) -> bool:
    return all(
        part is not None for number in range(len(filters))
        for part in (_part(filters, number, bands, band) for band in range(3))
    )  # fmt: skip


def _below(one: Noted) -> int:
    """Rows that a result sees below its own one."""
    return one.operator.extent[0] - 1 + one.region.origin[0]


def _ends(filters: Sequence[Noted], number: int, bands: Bands) -> tuple[int, int, int]:
    """Rows of a filter that are known after the first, the last but one, and the last band."""
    ahead = sum(map(_below, filters[number + 1 :]))
    first = bands.rows + ahead
    return first, first + bands.turns * bands.rows, filters[number].planes.shape[1]


class _Part(NamedTuple):
    """A filter's part of a band.

    Parameters
    ----------
    begin, end : int
        Rows of the result that are made.
    low, high : int
        Rows of its image that they see.
    rows : ndarray of int64
        Row of the image, from `low` on, for each row that is seen; -1 outside of the image.
    """

    begin: int
    end: int
    low: int
    high: int
    rows: Index


def _part(filters: Sequence[Noted], number: int, bands: Bands, band: int) -> _Part | None:
    """Describe a part of the first (0), the second (1) or the last band (2).

    None if it is empty, or if it sees rows that the window before it does not have.
    """
    one = filters[number]
    first, last, height = _ends(filters, number, bands)
    begin, end = ((0, first), (first, first + bands.rows), (last, height))[band]
    if not begin < end <= height:
        return None
    taken = end - begin + one.operator.extent[0] - 1
    seen = len(one.image)
    rows = source_index(one.region.border, one.region.origin[0] + begin, taken, seen)
    inside = rows[rows >= 0]
    if not inside.size or (band == 1 and not np.array_equal(rows, rows[0] + np.arange(taken))):
        return None
    low, high = int(inside.min()), int(inside.max()) + 1
    if band == 1 and high + (bands.turns - 1) * bands.rows > seen:
        return None
    if number:
        first, last, height = _ends(filters, number - 1, bands)
        again = one.operator.extent[0] - 1
        lowest = (0, first - again, last - again)[band]
        highest = (first, first + bands.rows, height)[band]
        if low < lowest or high > highest:
            return None
    return _Part(begin, end, low, high, np.where(rows < 0, -1, rows - low))


class _Builder:
    """Lays out the windows, and makes the steps of all bands."""

    def __init__(self, filters: Sequence[Noted], bands: Bands, team: int) -> None:
        self._filters, self._bands, self._team = filters, bands, team
        self.kept: list[Banded] = []
        self.steps: list[tuple[Any, dict[str, Any]]] = []
        self.arena = 0
        # Of each window: its place, its bytes, and the row at which new rows begin.
        self._windows: list[tuple[int, int, int]] = []
        for number, (one, reader) in enumerate(itertools.pairwise(filters)):
            first, last, height = _ends(filters, number, bands)
            again = reader.operator.extent[0] - 1
            fresh = max(first - bands.rows, again)
            count = fresh + max(bands.rows, height - last)
            size = count * _row_bytes(one.planes)
            self._windows.append((self.arena, size, fresh))
            self.arena += -(-size // _LINE) * _LINE
        self._band(0)
        begin = len(self.steps)
        self._band(1)
        self.repeats = [(begin, len(self.steps), bands.turns)]
        self._band(2)

    def _band(self, band: int) -> None:
        for number, one in enumerate(self._filters):
            part = _part(self._filters, number, self._bands, band)
            assert part is not None, "bands see their windows"
            count, _, width, channels = one.planes.shape
            image = np.empty((part.high - part.low, *one.image.shape[1:]), one.image.dtype)
            # As results lie: in planes of the whole image, or in a window.
            planes = one.planes[:, part.begin : part.end]
            if number < len(self._filters) - 1:
                planes = np.empty((count, part.end - part.begin, width, channels), planes.dtype)
            planes.flags.writeable = True
            made = banded(
                image, one.operator, one.region, part.rows, planes, one.rounding, self._team,
                planner.share(self._team),
            )  # fmt: skip
            self.kept.append(made)
            work, constants = made.step()
            source = self._place(number - 1, part.low, band)
            result = self._place(number, part.begin, band)
            self.steps.append((work, {"arrays": [result, source, *constants]}))
        if band < 2:
            for number in range(len(self._windows)):
                self._move_up(number)

    def _place(self, number: int, row: int, band: int) -> _Place:
        """Give the place of a row: of the image (-1), of a window, or of the results."""
        last = len(self._filters) - 1
        if 0 <= number < last:
            offset, size, fresh = self._windows[number]
            first, before, _ = _ends(self._filters, number, self._bands)
            # The first new row of the band, and the end of the first band, have known places.
            begin = (first - self._bands.rows, first, before)[band]
            at = (fresh + row - begin) * _row_bytes(self._filters[number].planes)
            return "arena", offset + at, size - at
        array = self._filters[0].image[None] if number < 0 else self._filters[last].planes
        step = _row_bytes(array)
        place = "external", int(number >= 0), row * step, array.nbytes - row * step
        return ("each", place, self._bands.rows * step) if band == 1 else place

    def _move_up(self, number: int) -> None:
        """Copy the rows of a window that the next band sees again."""
        again = self._filters[number + 1].operator.extent[0] - 1
        if not again:
            return
        offset, _, fresh = self._windows[number]
        row = _row_bytes(self._filters[number].planes)
        fields = copy_fields((again * row,), 1, (1,), (1,))
        assert fields is not None, "bytes can be copied"
        work = Copy(fields, planner.default_context("f32").isa)
        size = again * row
        to = "arena", offset + (fresh - again) * row, size
        source = "arena", offset + (fresh + self._bands.rows - again) * row, size
        self.steps.append((work, {"arrays": [to, source]}))


def _row_bytes(planes: Array) -> int:
    return int(planes[0, 0].nbytes)
