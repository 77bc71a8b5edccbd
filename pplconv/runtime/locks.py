"""Locks that a forked child finds open."""

from __future__ import annotations

import os
import threading
from types import TracebackType

# Number of forks from the first process to this one; and a lock for replacing lost locks.
_generation = 0
_guard = threading.Lock()


class ForkableLock:
    """A reentrant lock that is open again in a child forked while another thread held it.

    The guarded data must be consistent at every instant at which a fork can happen; a dict to which
    entries are added is.

    Reentrant, so that a signal handler can take it while its thread holds it.
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
            # No thread of this process takes it before this is done. So its holder is the thread
            # that forked, which may be this one, or another thread of the parent, which does not
            # exist here.
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
