"""The rows that each band of a group computes.

The first band computes `begin` rows of each value, each of `turns` bands after it `step` more rows,
and the last one the rest. A value that only the group reads lies in a window: rows that are read
again, and behind them the new ones. Its rows have the places that they have in the second band, and
at the end of each turn the rows that are read again move up.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from fractions import Fraction

from ..._records import record
from ..operators.row_reach import Reach

__all__ = ["Bands", "Part", "bands_of", "fewest", "rates_of"]


@record(frozen=True)
class Part:
    """A step of a group.

    Parameters
    ----------
    result : str
        Name of its result.
    reads : mapping of str to Reach
        Images that it reads by rows.
    align : int
        Bands begin at multiples of so many rows of its result.
    joins : tuple of str
        Images that its result consists of, if they lie in it.
    """

    result: str
    reads: Mapping[str, Reach]
    align: int = 1
    joins: tuple[str, ...] = ()


@record(frozen=True)
class Bands:
    """The rows of each value in the bands of a group.

    Parameters
    ----------
    turns : int
        Bands between the first and the last one.
    begin, step, rest : dict of str to int
        Rows of a value in the first band, in each of the next ones, and in the last.
    again : dict of str to int
        Rows of an inner value that the next band reads again.
    """

    turns: int
    begin: dict[str, int] = field(default_factory=dict)
    step: dict[str, int] = field(default_factory=dict)
    rest: dict[str, int] = field(default_factory=dict)
    again: dict[str, int] = field(default_factory=dict)

    def renamed(self, names: Mapping[str, str]) -> Bands:
        """Give the same bands of values with other names."""
        each = (self.begin, self.step, self.rest, self.again)
        return Bands(self.turns, *({names[name]: n for name, n in rows.items()} for rows in each))

    def room(self, name: str) -> int:
        """Rows of the window of an inner value."""
        return self.begin[name] + max(self.step[name], self.rest[name])


def rates_of(parts: Sequence[Part]) -> dict[str, int] | None:
    """Give the rows of each value for one unit of work, the fewest that are whole and aligned.

    None if two ways through the group disagree.
    """
    rates: dict[str, Fraction] = {}
    # Parts that no known one touches wait; a group is connected, so each pass finds some.
    waiting = list(parts)
    if waiting:
        rates[waiting[-1].result] = Fraction(1)
    while waiting:
        left = []
        for part in reversed(waiting):
            known = [rates[name] / reach.rate
                     for name, reach in part.reads.items() if name in rates]  # fmt: skip
            if part.result in rates:
                known.append(rates[part.result])
            if not known:
                left.append(part)
                continue
            if len(set(known)) > 1:
                return None
            rates[part.result] = known[0]
            for name, reach in part.reads.items():
                rates[name] = known[0] * reach.rate
        if len(left) == len(waiting):
            return None
        waiting = left[::-1]
    scale = math.lcm(*(rate.denominator for rate in rates.values()))
    found = {name: int(rate * scale) for name, rate in rates.items()}
    return fewest(found, parts)


def fewest(rates: Mapping[str, int], parts: Sequence[Part]) -> dict[str, int]:
    """Give the fewest rows that are whole and aligned, with the ratios of `rates`."""
    common = math.gcd(*rates.values())
    found = {name: rate // common for name, rate in rates.items()}
    times = math.lcm(*(part.align // math.gcd(part.align, found[part.result]) for part in parts))
    return {name: rate * times for name, rate in found.items()}


def bands_of(
    parts: Sequence[Part], heights: Mapping[str, int], inner: Collection[str], unit: int,
    rates: Mapping[str, int] | None = None,
) -> Bands | None:  # fmt: skip
    """Divide the rows of a group among its bands.

    Parameters
    ----------
    parts : sequence of Part
        In an order in which they can run.
    heights : mapping of str to int
        Rows of each image.
    inner : collection of str
        Values that the group alone reads.
    unit : int
        How often the fewest whole rows make a band.
    rates : mapping of str to int, optional
        As `rates_of` gives them, where they are known.

    Returns
    -------
    Bands or None
        None where the image is too low for a first, a middle and a last band.
    """
    rates = rates_of(parts) if rates is None else rates
    if rates is None:
        return None
    step = {name: rate * unit for name, rate in rates.items()}
    made = [part.result for part in parts]
    begin = dict.fromkeys(made, 0)
    joined = any(part.joins for part in parts)
    # Each pass propagates needs from readers to makers; joined images begin alike, and need more.
    while True:
        before = dict(begin) if joined else begin
        for part in reversed(parts):
            name = part.result
            need = max(begin[name], 0 if name in inner else step[name])
            for other in part.joins:
                need = max(need, begin[other])
            begin[name] = -(-need // part.align) * part.align
            for other, reach in part.reads.items():
                if other in begin:
                    begin[other] = max(begin[other], reach.end(begin[name]))
            for other in part.joins:
                begin[other] = max(begin[other], begin[name])
        if any(begin[name] >= heights[name] for name in made):
            return None
        if begin == before:
            break
    most = min((heights[name] - begin[name]) // step[name] for name in made)
    # Where many turns fit, fewer do.
    turns = bisect.bisect_left(
        range(1, most + 1), True, key=lambda n: not _fit(parts, heights, begin, step, n)
    )
    if not turns:
        return None
    rest = {name: heights[name] - begin[name] - turns * step[name] for name in made}
    firsts = {name: begin[name] for name in inner}
    for part in parts:
        for name, reach in part.reads.items():
            if name in firsts:
                firsts[name] = min(firsts[name], reach.first(begin[part.result]))
    again = {name: begin[name] - first for name, first in firsts.items()}
    for part in parts:
        for name in part.joins:
            if name in again:
                most = max(again[name], again.get(part.result, 0))
                again[name] = again[part.result] = most
    if any(rows > step[name] for name, rows in again.items()):
        return None
    return Bands(turns, begin, step, rest, again)


def _fit(
    parts: Sequence[Part], heights: Mapping[str, int], begin: Mapping[str, int],
    step: Mapping[str, int], turns: int,
) -> bool:  # fmt: skip
    """Whether bands behind the first one read no padding, and read alike."""
    return all(
        reach.first(begin[part.result]) >= 0
        and reach.end(begin[part.result] + turns * step[part.result]) <= heights[name]
        and reach.repeats(begin[part.result], step[part.result], turns)
        for part in parts
        for name, reach in part.reads.items()
    )
