"""CPUs of threads and processes that pplconv starts from a thread that OpenMP has bound."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from ..machine import bound_by_openmp, openmp_binds
from ..machine import current as current_machine

__all__ = ["spread", "spread_children", "team_cpus"]


def team_cpus() -> tuple[int, ...]:
    """CPUs for threads of teams; () if they inherit the right ones.

    A thread inherits the CPUs of the thread that starts it; a leader that OpenMP has bound would
    have its whole team on its own CPU. The first leader asks on behalf of all, so the CPUs do not
    depend on the caller's own.
    """
    return current_machine().affinity if openmp_binds() else ()


def spread() -> None:
    """Let the calling thread, which pplconv has started, run on all CPUs of the process."""
    cpus = team_cpus()
    if cpus and bound_by_openmp():
        _move(cpus)


@contextmanager
def spread_children() -> Iterator[None]:
    """Let processes started in a ``with`` block by this thread run on all CPUs of the process.

    They inherit the thread's CPUs, and their own OpenMP knows of no others.

    Yields
    ------
    None
    """
    bound = bound_by_openmp()
    moved = bool(bound) and _move(team_cpus())
    try:
        yield
    finally:
        if moved:
            _move(bound)


def _move(cpus: tuple[int, ...]) -> bool:
    try:
        os.sched_setaffinity(0, cpus)
    except OSError:  # a sandbox, or no CPUs: the thread stays where it is
        return False
    return True
