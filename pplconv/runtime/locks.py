"""Locks that a forked child finds open."""

from __future__ import annotations

import os
import threading
from types import TracebackType

# How many forks lie behind this process, and the lock for giving another lock up as lost.
_generation = 0
_guard = threading.Lock()


class ForkableLock:
    """A reentrant lock that does not stay closed in a child forked while another thread had it.

    What it guards must be whole at every instant at which a fork can happen, as it is in a dict
    that gets an entry at the end.

    Reentrant, so that a signal handler that runs while its thread holds the lock can pass.
    """

    __slots__ = ("_born", "_lock")

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._born = _generation

    def __enter__(self) -> None:
        if self._born != _generation:
            self._open_if_lost()
        self._lock.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._lock.release()

    def _open_if_lost(self) -> None:
        with _guard:
            if self._born == _generation:
                return
            # Nobody takes it before this is done, so its holder is the thread that forked, which
            # may be this one, or another thread of the parent.
            if self._lock.acquire(blocking=False):
                self._lock.release()
            else:
                self._lock = threading.RLock()
            self._born = _generation


def _in_child() -> None:
    global _generation, _guard
    _generation += 1
    _guard = threading.Lock()


# Systems without fork have no such function, and no such problem.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
