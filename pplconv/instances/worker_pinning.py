"""A thread bound to its cores, where that can be had."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from .. import runtime
from .worker_placement import Placement


def bound(placement: Placement) -> AbstractContextManager[Any]:
    """Bind the calling thread, and the teams it leads, to the placement's cores if it names any.

    The thread belongs to the instance. If the placement names no cores, it gets the process's CPUs.
    """
    if not placement.cores:
        runtime.spread()
        return nullcontext()
    return runtime.pin(node=placement.node, cores=placement.cores, everyone=False)


def bound_cores(placement: Placement) -> tuple[int, ...]:
    """The placement's cores if the calling thread is bound to them, read back; else none."""
    ask = getattr(os, "sched_getaffinity", None)
    try:
        mask = set(ask(0)) if ask is not None else set()
    except OSError:
        mask = set()
    return placement.cores if mask and mask <= set(placement.cores) else ()
