"""How many threads a team has if a call names none.

One for each physical core that the process may use, within the CPU quota:

- *Not one for each hardware thread.*  The kernels keep a core's FMA units busy from one thread.  A
  sibling adds no unit; it takes its half of the L1 and L2 that blocks are sized for, and a team
  of twice as many threads waits at twice as many ends.
- *Efficiency cores included.*  A team's threads fetch pieces of work one by one, so that a slow
  core takes fewer of them instead of holding up the others; its work is a gain.
- *All NUMA nodes.*  To use one node, pin, or set the affinity mask.
- *The quota rounded up.*  With 1.5 CPUs, one thread would leave a third of them unused.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .scope import scoped_team

if TYPE_CHECKING:
    from pplconv.config import Settings
    from pplconv.machine import Machine


def default_threads(settings: Settings, machine: Machine) -> int:
    """Team size of a call that names none.

    That of a block of `team`, else ``PPLCONV_NUM_THREADS``, else ``OMP_NUM_THREADS``, else one
    thread for each physical core with a CPU in the affinity mask, efficiency cores included, but no
    more than the control groups' quota pays for, rounded up.  A number that the user gave is taken
    as it is, even above the CPUs that there are.

    Parameters
    ----------
    settings : Settings
        Settings of the environment.
    machine : Machine
        Where the team would run.

    Returns
    -------
    int
        At least 1.
    """
    return explain_default_threads(settings, machine)[0]


def explain_default_threads(settings: Settings, machine: Machine) -> tuple[int, str]:
    """Return `default_threads` and the reason for it, in words.

    Parameters
    ----------
    settings : Settings
        Settings of the environment.
    machine : Machine
        Where the team would run.

    Returns
    -------
    threads : int
        At least 1.
    reason : str
        For people to read.
    """
    named = scoped_team()
    if named is not None:
        return named, f"pplconv.runtime.team({named})"
    return _of_process(settings, machine)


def process_threads(settings: Settings, machine: Machine) -> int:
    """`default_threads` without blocks of `team`: the number that all calls of the process share.

    Parameters
    ----------
    settings : Settings
        Settings of the environment.
    machine : Machine
        Where the threads would run.

    Returns
    -------
    int
        At least 1.
    """
    return _of_process(settings, machine)[0]


def _of_process(settings: Settings, machine: Machine) -> tuple[int, str]:
    if settings.num_threads is not None:
        return settings.num_threads, f"PPLCONV_NUM_THREADS is {settings.num_threads}"
    if settings.omp_num_threads is not None:
        return settings.omp_num_threads, f"OMP_NUM_THREADS is {settings.omp_num_threads}"
    return _of_machine(machine)


# Its machine stays the same for nearly all of a process's life, and each call asks for its team.
_last: tuple[Machine, tuple[int, str]] | None = None


def _of_machine(machine: Machine) -> tuple[int, str]:
    """Give the team of a machine, that of the last one without counting again."""
    global _last
    last = _last
    if last is None or last[0] is not machine:
        last = _last = machine, _counted(machine)
    return last[1]


def _counted(machine: Machine) -> tuple[int, str]:
    cores = machine.usable_cores()
    count = max(1, len(cores))
    if machine.quota is not None:
        paid = max(1, math.ceil(machine.quota))
        if paid < count:
            return paid, f"CPU quota {machine.quota:g}, below {_in_mask(count)}"
    return count, _in_mask(count) + _kinds(cores, machine.efficiency_cores)


def _in_mask(count: int) -> str:
    return f"{count} physical core{'s' if count > 1 else ''} in the affinity mask"


def _kinds(cores: Sequence[Sequence[int]], efficiency_cores: Sequence[int]) -> str:
    """Notes on the cores: how many are efficiency cores, and that siblings get no thread."""
    small = sum(core[0] in efficiency_cores for core in cores)
    cpus = sum(len(core) for core in cores)
    notes = [f"{small} of them efficiency cores"] if small else []
    if cpus > len(cores):
        notes.append(f"one thread for each core rather than for each of {cpus} CPUs")
    return "".join(f", {note}" for note in notes)
