"""Pools at the end of the interpreter, and in forked children."""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from typing import Protocol


class _Pool(Protocol):
    def _at_exit(self) -> None: ...

    def _in_child(self) -> None: ...


_lock = threading.Lock()
_pools: weakref.WeakSet[_Pool] = weakref.WeakSet()


def watch(pool: _Pool) -> None:
    """Tell `pool` when the interpreter ends, and in forked children."""
    with _lock:
        _pools.add(pool)


def _at_exit() -> None:
    with _lock:
        pools = list(_pools)
    for pool in pools:
        pool._at_exit()


def _in_child() -> None:
    # No other thread exists here, and so none that held the lock.
    global _lock
    _lock = threading.Lock()
    for pool in list(_pools):
        pool._in_child()


atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):  # systems without fork have no such function
    os.register_at_fork(after_in_child=_in_child)
