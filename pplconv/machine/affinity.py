"""Which CPUs this process may run on: its affinity mask, and the cpuset around it.

The kernel keeps a mask inside the cpuset, so the mask alone is enough, unless OpenMP has bound the
calling thread. The cpuset is read if a sandbox forbids the call.

Source: Linux documentation, admin-guide/cgroup-v2 and admin-guide/cgroup-v1/cpusets;
sched_setaffinity(2); proc(5) for ``Cpus_allowed_list``.
"""

from __future__ import annotations

import os

from . import host
from .cgroups import chains
from .kernel_files import parse_list, read_list, read_text, under
from .openmp_places import widened

# Files with the CPUs that a group really has, then with the CPUs requested for it.
_CPUSET_FILES = {
    1: ("cpuset.effective_cpus", "cpuset.cpus"),
    2: ("cpuset.cpus.effective", "cpuset.cpus"),
}


def cpuset(root: str) -> tuple[int, ...]:
    """CPU ids that the control groups allow this process; () if unknown.

    Parameters
    ----------
    root : str
        Directory that holds ``proc`` and the control group file systems.

    Returns
    -------
    tuple of int
        Ascending.
    """
    for version, directories in chains(root, "cpuset"):
        # A group without a set of its own has the set of the group around it.
        for directory in directories:
            for name in _CPUSET_FILES[version]:
                cpus = read_list(os.path.join(directory, name))
                if cpus:
                    return cpus
    return ()


def mask(root: str) -> tuple[int, ...]:
    """CPU ids that this process may run on; () if unknown.

    Parameters
    ----------
    root : str
        Directory that holds ``proc`` and the control group file systems.

    Returns
    -------
    tuple of int
        Ascending.
    """
    ask = getattr(os, "sched_getaffinity", None)
    if ask is None:
        return tuple(sorted(set(host.affinity()))) or cpuset(root)
    try:
        return widened(ask(0), root)
    except OSError:  # sandboxes may forbid the call
        return _from_status(root) or cpuset(root)


def bound_by_openmp() -> tuple[int, ...]:
    """CPU ids to which OpenMP has bound the calling thread; () if it has all of the process's."""
    ask = getattr(os, "sched_getaffinity", None)
    try:
        own = tuple(sorted(ask(0))) if ask is not None else ()
    except OSError:
        return ()
    return own if len(own) < len(widened(own)) else ()


def _from_status(root: str) -> tuple[int, ...]:
    for line in read_text(under(root, "/proc/self/status")).splitlines():
        key, _, value = line.partition(":")
        if key == "Cpus_allowed_list":
            return parse_list(value)
    return ()
