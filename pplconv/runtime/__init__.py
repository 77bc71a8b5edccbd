"""Teams: their sizes, the CPUs of their threads, and defaults for blocks of code.

===================  ===========================================================================
``threads.py``       `default_threads`: the team of a call that names none, and why
``scope.py``         `team`, `tolerance`: other defaults for a block of code
``locks.py``         `ForkableLock`: open in a child forked while another thread held it
``collecting.py``    `paused_collector`: no garbage collection while a network is made
``places.py``        `choose_places`: which cores and whose memory a pin can have
``pinning.py``       `pin`: threads bound to cores and put back, only on request
``leaders.py``       threads that start teams under pins
``spreading.py``     CPUs of started threads and processes, if OpenMP binds their starter
``openmp.py``        `openmp_runtimes`: which OpenMP libraries this process has loaded
===================  ===========================================================================

This package changes no setting of other libraries, and no thread's CPUs unless `pin` asks for it.
If OpenMP has bound a thread to a CPU, threads and processes that pplconv starts from it are not
bound to that CPU; the thread itself leaves it while it starts a process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import on_demand

if TYPE_CHECKING:
    from .collecting import paused_collector
    from .locks import ForkableLock
    from .openmp import openmp_runtimes
    from .pinning import BoundThread, Pin, pin, pinned_cores, pinned_team
    from .scope import (
        Block,
        default_tolerance,
        explain_default_tolerance,
        scoped_team,
        scoped_tolerance,
        team,
        tolerance,
    )
    from .spreading import spread, spread_children, team_cpus
    from .threads import default_threads, explain_default_threads, process_threads

__all__ = [
    "Block",
    "BoundThread",
    "ForkableLock",
    "Pin",
    "default_threads",
    "default_tolerance",
    "explain_default_threads",
    "explain_default_tolerance",
    "openmp_runtimes",
    "paused_collector",
    "pin",
    "pinned_cores",
    "pinned_team",
    "process_threads",
    "scoped_team",
    "scoped_tolerance",
    "spread",
    "spread_children",
    "team",
    "team_cpus",
    "tolerance",
]

_NAMES = {
    "collecting": "paused_collector",
    "locks": "ForkableLock",
    "openmp": "openmp_runtimes",
    "pinning": "BoundThread Pin pin pinned_cores pinned_team",
    "scope": (
        "Block default_tolerance explain_default_tolerance scoped_team scoped_tolerance team "
        "tolerance"
    ),
    "spreading": "spread spread_children team_cpus",
    "threads": "default_threads explain_default_threads process_threads",
}

if not TYPE_CHECKING:
    __getattr__ = on_demand(__name__, _NAMES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
