"""CPUs of the machine and of this process: affinity, cores, NUMA nodes, memory.

sysfs and /proc come first, since reading them is faster than importing psutil; sysctl and psutil
are for systems with neither.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from .._records import NamedTuple
from . import affinity as affinities
from . import cores as core_lists
from . import hybrid, numa_nodes
from .sysctl import Sysctl, sysctl


class Topology(NamedTuple):
    """CPUs and memory; fields as in `Machine`, and the ids of the CPUs that are online."""

    affinity: tuple[int, ...]
    online: tuple[int, ...]
    cores: tuple[tuple[int, ...], ...]
    packages: tuple[tuple[int, ...], ...]
    efficiency_cores: tuple[int, ...]
    numa_nodes: tuple[tuple[int, ...], ...]
    node_ids: tuple[int, ...]
    node_memory: tuple[int, ...]
    memory_bytes: int


def read(
    root: str,
    affinity: Iterable[int] | None = None,
    *,
    ask: Sysctl = sysctl,
    threads_per_core: int = 0,
) -> Topology:
    """Read the topology below `root`.

    Parameters
    ----------
    root : str
        Directory that holds ``sys`` and ``proc``.
    affinity : iterable of int, optional
        CPU ids that the process may run on; asked of the system by default.
    ask : callable, optional
        ``sysctl`` by name.
    threads_per_core : int, optional
        Hardware threads of a core by CPUID, for systems that list no cores; 0 if unknown.

    Returns
    -------
    Topology
    """
    listed = core_lists.online(root)
    mask = affinities.mask(root) if affinity is None else tuple(sorted(set(affinity)))
    if affinity is None and not mask:
        mask = listed or tuple(range(os.cpu_count() or 1))
    # /proc and a cpuset also name CPUs that are off.
    mask = _within(mask, listed) or (0,)
    online = listed or _numbered(mask)
    groups = core_lists.read(root, online, ask, threads_per_core)
    memory = numa_nodes.memory(root, ask)
    found = numa_nodes.read(root, online, memory)
    return Topology(
        affinity=mask,
        online=online,
        cores=groups.cores,
        packages=groups.packages,
        efficiency_cores=hybrid.efficiency_cores(root, groups.cores, groups.packages, ask),
        numa_nodes=tuple(node.cpus for node in found),
        node_ids=tuple(node.id for node in found),
        node_memory=tuple(node.memory for node in found),
        memory_bytes=memory,
    )


def _within(cpus: tuple[int, ...], online: tuple[int, ...]) -> tuple[int, ...]:
    """`cpus` that are online; all of them if none is, as the lists then contradict each other."""
    present = set(online)
    return tuple(cpu for cpu in cpus if cpu in present) or cpus


def _numbered(mask: tuple[int, ...]) -> tuple[int, ...]:
    """Ids of all CPUs of a system that lists none: 0 to its count, and those of the mask."""
    return tuple(sorted({*mask, *range(os.cpu_count() or 1)}))
