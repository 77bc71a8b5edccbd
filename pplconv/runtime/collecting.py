"""Pauses Python's garbage collector while many objects that stay are made."""

from __future__ import annotations

import gc
import os
import threading
from types import TracebackType

from .locks import ForkableLock

__all__ = ["paused_collector"]


class _Paused:
    """A context in which the collector does not run; threads may be inside it together.

    The collector visits all new objects again and again while a graph of thousands of nodes grows.
    The garbage of the block is collected soon after the last thread has left. A collector that was
    off stays off.
    """

    def __init__(self) -> None:
        self._lock = ForkableLock()
        # Blocks that each thread is inside.
        self._inside: dict[int, int] = {}
        self._was_on = False

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._was_on = gc.isenabled()
                gc.disable()
            me = threading.get_ident()
            self._inside[me] = self._inside.get(me, 0) + 1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._lock:
            me = threading.get_ident()
            self._inside[me] -= 1
            if not self._inside[me]:
                del self._inside[me]
                self._resume()

    def forget_others(self) -> None:
        """In a forked child: forget the threads that exist in the parent only."""
        me = threading.get_ident()
        if not self._inside:
            return
        self._inside = {thread: n for thread, n in self._inside.items() if thread == me}
        self._resume()

    def _resume(self) -> None:
        if not self._inside and self._was_on:
            gc.enable()


paused_collector = _Paused()
"""The pause; use it as a context, also inside itself and in several threads."""

# Systems without fork have no such function, and no such problem.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=paused_collector.forget_others)
