"""Pools at the end of the interpreter, and in forked children."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import weakref
from typing import Any, Protocol


class _Pool(Protocol):
    def _at_exit(self) -> None: ...

    def _in_child(self) -> None: ...


_lock = threading.Lock()
_pools: weakref.WeakSet[_Pool] = weakref.WeakSet()
_processes: weakref.WeakSet[Any] = weakref.WeakSet()


def watch(pool: _Pool) -> None:
    """Tell `pool` when the interpreter ends, and in forked children."""
    with _lock:
        _pools.add(pool)


def own(process: Any) -> None:
    """Note a process that `multiprocessing` started, which forked children must not end.

    A child made by `os.fork` that ends by `sys.exit` would terminate all processes that
    `multiprocessing` has started, since it takes its parent's processes for its own.
    """
    with _lock:
        _processes.add(process)


def _at_exit() -> None:
    with _lock:
        pools = list(_pools)
    for pool in pools:
        pool._at_exit()


def _in_child() -> None:
    # No other thread exists in the child, so a lock held by one would never be released.
    global _lock
    _lock = threading.Lock()
    for pool in list(_pools):
        pool._in_child()
    # `multiprocessing` has no public way to forget processes.
    children: set[Any] = getattr(sys.modules.get("multiprocessing.process"), "_children", set())
    children.difference_update(list(_processes))


atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):  # systems without fork have no such function
    os.register_at_fork(after_in_child=_in_child)
