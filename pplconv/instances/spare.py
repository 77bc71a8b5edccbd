"""Cores that requests leave over, for those who wait for messages."""

from __future__ import annotations

import threading

__all__ = ["SpareCores"]


class SpareCores:
    """Counts running requests, of all workers that share it.

    Who watches for a message rather than sleep keeps a core busy. One that computes is slowed
    down by that, unless there is another.

    Parameters
    ----------
    cores : float
        That there are.
    threads : int
        That a request computes in.
    """

    def __init__(self, cores: float, threads: int) -> None:
        self._cores = cores
        self._threads = threads
        self._running = 0
        self._lock = threading.Lock()

    def begin(self) -> bool:
        """Count one request more; whether a core is left over beside those that run."""
        with self._lock:
            self._running += 1
            return self._running * self._threads + 1 <= self._cores

    def end(self) -> None:
        """Count one less."""
        with self._lock:
            self._running -= 1
