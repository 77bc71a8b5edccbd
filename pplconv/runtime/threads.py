"""How many threads a team has where a call names none."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from .scope import scoped_team

if TYPE_CHECKING:
    from pplconv.config import Settings
    from pplconv.machine import Machine


def default_threads(settings: Settings, machine: Machine) -> int:
    """Team size where a call names none.

    What `team` has named, else ``PPLCONV_NUM_THREADS``, else ``OMP_NUM_THREADS``, else the CPUs
    of the affinity mask, but no more than the control groups' quota pays for, rounded up.  A
    number that the user gave is taken as it is, even above the CPUs that there are.

    Parameters
    ----------
    settings : Settings
        What the environment asks for.
    machine : Machine
        Where the team would run.

    Returns
    -------
    int
        At least 1.
    """
    return explain_default_threads(settings, machine)[0]


def explain_default_threads(settings: Settings, machine: Machine) -> tuple[int, str]:
    """`default_threads` and what decided it, in words.

    Parameters
    ----------
    settings : Settings
        What the environment asks for.
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
    if settings.num_threads is not None:
        return settings.num_threads, f"PPLCONV_NUM_THREADS is {settings.num_threads}"
    if settings.omp_num_threads is not None:
        return settings.omp_num_threads, f"OMP_NUM_THREADS is {settings.omp_num_threads}"
    cpus = max(1, machine.logical_cpus)
    if machine.quota is not None:
        paid = max(1, math.ceil(machine.quota))
        if paid < cpus:
            return paid, f"CPU quota {machine.quota:g}, below the {cpus} CPUs of the affinity mask"
    return cpus, f"{cpus} CPU{'s' if cpus > 1 else ''} in the affinity mask"
