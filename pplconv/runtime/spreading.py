"""CPUs of threads that pplconv starts where OpenMP has bound the one that starts them."""

from __future__ import annotations

import os

from ..machine import bound_by_openmp, openmp_binds
from ..machine import current as current_machine

__all__ = ["spread", "team_cpus"]


def team_cpus() -> tuple[int, ...]:
    """CPUs for threads of teams; () where they inherit the right ones.

    A thread inherits the CPUs of the one that starts it.  One that OpenMP has bound would have all
    its team on its own CPU.  The first leader asks for all of them, so its own CPUs do not count.
    """
    return current_machine().affinity if openmp_binds() else ()


def spread() -> None:
    """Let the calling thread, which pplconv has started, run where the process may."""
    cpus = team_cpus()
    if cpus and bound_by_openmp():
        try:
            os.sched_setaffinity(0, cpus)
        except OSError:  # a sandbox: it stays where it is
            return
