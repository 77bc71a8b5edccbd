"""A loop of FMAs in registers: how steadily it runs, and what a team makes of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from ... import _kernels
from ...machine.ceilings import Peak, PeakUnavailable

__all__ = ["Loop", "run_loop"]

_BURSTS = 60
_TEAM_BURSTS = 5
_BURST_SECONDS = 0.002
# More threads give no further information, and take long to start.
_MOST_THREADS = 64


@dataclass(frozen=True)
class Loop:
    """Measurements of the loop.

    Parameters
    ----------
    flops : float
        Operations a second of the best burst, on one thread.
    steadiness : float
        Rate of the burst in the middle, as a share of the best one's.
    given : float
        Share of the time in which the thread had a CPU.
    threads : int
        Size of the team.
    scaling : float
        Rate of the team's best burst, as a share of `threads` times the rate of one thread.
    """

    flops: float
    steadiness: float
    given: float
    threads: int
    scaling: float


def run_loop(
    isa: str,
    threads: int,
    loop: Callable[[str, str, int], int] | None = None,
    now: Callable[[], float] = time.perf_counter,
    own: Callable[[], float] = time.thread_time,
) -> Loop:
    """Time bursts of the loop, for a third of a second.

    Parameters
    ----------
    isa : str
        Instruction set of the loop.
    threads : int
        Size of the team, at least 1.
    loop : callable, optional
        ``loop(isa, dtype, iterations)`` gives the operations done; that of the kernels by default.
    now, own : callable, optional
        Seconds by the clock, and seconds that this thread had a CPU.

    Raises
    ------
    LookupError
        If there is no such loop for `isa`.
    """
    loop = loop or _kernels.fma_peak
    iterations = 1000
    while True:
        begin = now()
        loop(isa, "f32", iterations)
        if now() - begin >= _BURST_SECONDS or iterations > 1 << 40:
            break
        iterations *= 2
    rates, wall, given = [], 0.0, 0.0
    for _ in range(_BURSTS):
        begin, begun = now(), own()
        flops = loop(isa, "f32", iterations)
        had, took = own() - begun, now() - begin
        wall, given = wall + took, given + had
        rates.append(flops / took)
    best, threads = max(rates), min(threads, _MOST_THREADS)
    scaling = 1.0
    if threads > 1:
        try:
            team = Peak(loop, isa, threads, now=now).read(bursts=_TEAM_BURSTS)
            scaling = min(team / (threads * best), 1.0)
        except (PeakUnavailable, RuntimeError):  # no thread could be started
            scaling = 1.0 / threads
    return Loop(best, median(rates) / best, min(given / wall, 1.0), threads, scaling)
