"""How many times as fast sparse weights are, and from which density on they are faster."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from benchmarks.sparse.measured import Measured, Roles


def gain(one: Measured, block: int, roles: Roles, direct: bool = False) -> float | None:
    """How many times as fast as our own dense layer, or as its direct sum, sparse weights are.

    The best layout of either counts. Where no direct sum was timed, the dense layer is direct.
    """
    dense = (roles.direct if direct else ()) or roles.dense
    seconds = one.fastest(dense)[1]
    if seconds is None and direct:
        seconds = one.fastest(roles.dense)[1]
    ours = one.fastest(roles.sparse.get(block, ()))[1]
    return None if seconds is None or ours is None else seconds / ours


def lead(one: Measured, block: int, roles: Roles) -> tuple[str, float | None]:
    """Name the best peer on weights of such blocks, and give its time over ours."""
    peer, seconds = one.fastest(roles.peers_of(block))
    ours = one.fastest(roles.sparse.get(block, ()))[1]
    return peer, None if seconds is None or ours is None else seconds / ours


def mean(values: Iterable[float | None]) -> float | None:
    """Geometric mean of the values that are known."""
    known = [value for value in values if value is not None]
    return math.exp(sum(map(math.log, known)) / len(known)) if known else None


def break_even(gains: Mapping[float, float | None]) -> tuple[float, str]:
    """Find the density below which sparse weights are faster.

    The time of sparse weights is taken for a straight line between neighbouring densities. It
    nearly is one: time grows with the number of terms.

    Parameters
    ----------
    gains : mapping of float to float or None
        By density: how many times as fast they are.

    Returns
    -------
    density : float
        NaN where nothing was measured.
    side : str
        ``""``: between measured densities; ``">"``, ``"<"``: beyond the largest or smallest one.
    """
    points = sorted((density, 1.0 / one) for density, one in gains.items() if one)
    if not points:
        return math.nan, ""
    # From the sparse end: where there are two crossings, the cautious one counts.
    faster = 0
    while faster < len(points) and points[faster][1] < 1.0:
        faster += 1
    if faster == len(points):
        return points[-1][0], ">"
    if faster == 0:
        return points[0][0], "<"
    (low, below), (high, above) = points[faster - 1], points[faster]
    return low + (high - low) * (1.0 - below) / (above - below), ""


def break_evens(
    measured: Sequence[Measured], block: int, roles: Roles, direct: bool = False
) -> dict[str, tuple[float, str]]:
    """Find it for each layer, by name; all of one precision and size of team."""
    gains: dict[str, dict[float, float | None]] = {}
    for one in measured:
        gains.setdefault(one.problem.name, {})[one.density] = gain(one, block, roles, direct)
    return {name: break_even(found) for name, found in gains.items()}
