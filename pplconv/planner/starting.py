"""What starting a team costs: measured in each process, and coarsely."""

from __future__ import annotations

import math
from collections.abc import Callable

from ..config import Settings
from ..runtime import ForkableLock
from ..schedules.team import largest_team, time_start

# Microseconds. In less than the least, a core computes less than the smallest task. Two threads of
# an idle machine need no more than the most; longer times were taken while other threads computed,
# such as workers of a BLAS that still spin after its last product.
LEAST = 1
MOST = 4

_lock = ForkableLock()
_measured: int | None = None


def team_start(settings: Settings, measure: Callable[[], int] = time_start) -> int:
    """Microseconds from the start of a team of two to its end, if it has nothing to do.

    Each additional thread of a team has to save this time. ``PPLCONV_TEAM_START_US`` says it;
    else it is measured when it is first asked for, as the best of a few dozen empty parallel
    regions, and kept. A team of two is timed whatever the team to be planned: that makes one
    thread and not one for each CPU.

    Plans are to be alike from one process to the next although no two measurements are. So the
    time is rounded to a power of two, which most processes of a machine have in common, and it
    decides only how many threads a problem of a few MFLOP gets: never the bits of a result,
    which are chosen as one thread would choose them. Set the variable to get the same team
    everywhere.

    Parameters
    ----------
    settings : Settings
        What the environment asks for.
    measure : callable
        Gives the time of a start in nanoseconds.

    Returns
    -------
    int
        A power of two from `LEAST` to `MOST`, or what the variable says.
    """
    global _measured
    if settings.team_start_us is not None:
        return settings.team_start_us
    if _measured is None:
        # Where no team may start, there is nothing to measure, but maybe later.
        if largest_team(2) < 2:
            return LEAST
        with _lock:
            if _measured is None:
                _measured = rounded(measure())
    return _measured


def rounded(nanoseconds: int) -> int:
    """The nearest power of two, in microseconds, from `LEAST` to `MOST`."""
    microseconds = min(max(nanoseconds / 1000, LEAST), MOST)
    return int(2 ** round(math.log2(microseconds)))
