"""What an instance has done."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

WINDOW = 1024
"""Latencies that are kept of each instance, the latest ones."""


@dataclass(frozen=True)
class InstanceStatistics:
    """What one instance has done since its pool began.

    Attributes
    ----------
    index : int
        Index of the instance, from 0.
    served, errors : int
        Requests that were answered with a result, and with an exception.
    replaced : int
        Workers that died and were replaced; 0 in thread mode.
    retried : int
        Number of times that a request was run again because its worker had died.
    p50, p95 : float or None
        Seconds from `submit` to the answer, waiting included, that 50 and 95 of 100 requests did
        not exceed, among the latest 1024 of this instance; None before the first.
    node : int or None
        NUMA node it runs on, None if that is not known.
    cores : tuple of int
        Logical CPUs it is bound to, empty if it is not bound.
    threads : int
        Size of its team.
    """

    index: int
    served: int
    errors: int
    replaced: int
    retried: int
    p50: float | None
    p95: float | None
    node: int | None
    cores: tuple[int, ...]
    threads: int


class Record:
    """Counts of one instance: its dispatcher writes, anybody reads."""

    def __init__(self) -> None:
        self.served = 0
        self.errors = 0
        self.replaced = 0
        self.retried = 0
        self._latencies: deque[float] = deque(maxlen=WINDOW)

    def add(self, seconds: float, *, failed: bool) -> None:
        """Count a request that took `seconds`."""
        if failed:
            self.errors += 1
        else:
            self.served += 1
        self._latencies.append(seconds)

    def percentiles(self) -> tuple[float | None, float | None]:
        """p50 and p95 of the window, in seconds."""
        window = sorted(self._latencies.copy())  # copied in one step, whoever writes
        return percentile(window, 50), percentile(window, 95)


def percentile(ascending: list[float], percent: int) -> float | None:
    """The nearest rank: the smallest value that `percent` of 100 do not exceed; None of none."""
    if not ascending:
        return None
    return ascending[max(0, -(-len(ascending) * percent // 100) - 1)]
