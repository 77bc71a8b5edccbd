"""Cores that requests leave idle, for threads that wait for messages."""

from __future__ import annotations

import threading

__all__ = ["SpareCores"]


class SpareCores:
    """Counts the running requests of all workers that share it.

    A reader that watches for a message instead of sleeping keeps a core busy. That slows down a
    thread that computes, unless another core is idle.

    Parameters
    ----------
    cores : float
        Number of cores.
    threads : int
        Threads that one request computes with.
    """

    def __init__(self, cores: float, threads: int) -> None:
        self._cores = cores
        self._threads = threads
        self._running = 0
        self._lock = threading.Lock()

    def begin(self) -> bool:
        """Count one request more; return whether a core is idle beside the running ones."""
        with self._lock:
            self._running += 1
            return self._running * self._threads + 1 <= self._cores

    def end(self) -> None:
        """Count one less."""
        with self._lock:
            self._running -= 1
