"""CPUs of the machine and of this process: affinity mask, cores, NUMA nodes, memory.

sysfs and /proc come first, since reading them is quicker than importing psutil; psutil answers
where a system has neither.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from .files import read_list, read_text, to_int, under

_CPU_DIR = "/sys/devices/system/cpu"
_NODE_DIR = "/sys/devices/system/node"
_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class Topology:
    """CPUs and memory; fields as in `Machine`."""

    affinity: tuple[int, ...]
    online_cpus: int
    physical_cores: int
    numa_nodes: tuple[tuple[int, ...], ...]
    node_ids: tuple[int, ...]
    cores: tuple[tuple[int, ...], ...]
    memory_bytes: int


def read(root: str, affinity: Iterable[int] | None = None) -> Topology:
    """Read the topology below `root`.

    Parameters
    ----------
    root : str
        Directory that holds ``sys`` and ``proc``.
    affinity : iterable of int, optional
        CPU ids that the process may run on; asked of the system by default.

    Returns
    -------
    Topology
    """
    mask = tuple(sorted(set(_affinity() if affinity is None else affinity))) or (0,)
    online = read_list(under(root, f"{_CPU_DIR}/online"))
    nodes = _nodes(root, online)
    everyone = online or mask
    cores = _cores(root, online) or tuple((cpu,) for cpu in everyone)
    return Topology(
        affinity=mask,
        online_cpus=len(online) or max(len(mask), os.cpu_count() or 1),
        physical_cores=len(_cores(root, online)) or _host_cores() or len(online) or len(mask),
        numa_nodes=tuple(cpus for _, cpus in nodes) or (everyone,),
        node_ids=tuple(number for number, _ in nodes) or (0,),
        cores=cores,
        memory_bytes=_memory(root) or _host_memory(),
    )


def _affinity() -> Iterable[int]:
    everyone = range(os.cpu_count() or 1)
    ask = getattr(os, "sched_getaffinity", None)
    if ask is not None:
        try:
            return set(ask(0))
        except OSError:  # sandboxes may forbid the call
            return everyone
    # Where a system has no affinity masks (macOS), psutil has no such method.
    return _ask_psutil(lambda psutil: list(psutil.Process().cpu_affinity()), list(everyone))


def _cores(root: str, online: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """CPUs of each physical core among `online`; () if sysfs does not tell."""
    seen: set[int] = set()
    cores = []
    for cpu in online:
        if cpu in seen:
            continue
        base = under(root, f"{_CPU_DIR}/cpu{cpu}/topology")
        # The kernel renamed the first to the second; the first is still there.
        siblings = read_list(os.path.join(base, "thread_siblings_list")) or read_list(
            os.path.join(base, "core_cpus_list")
        )
        if not siblings:
            return ()
        seen.update(siblings)
        cores.append(tuple(sibling for sibling in siblings if sibling in online))
    return tuple(cores)


def _nodes(root: str, online: tuple[int, ...]) -> tuple[tuple[int, tuple[int, ...]], ...]:
    present = set(online)
    nodes = []
    for number in read_list(under(root, f"{_NODE_DIR}/online")):
        cpus = read_list(under(root, f"{_NODE_DIR}/node{number}/cpulist"))
        if present:
            cpus = tuple(cpu for cpu in cpus if cpu in present)
        if cpus:  # nodes of memory alone have none
            nodes.append((number, cpus))
    return tuple(nodes)


def _memory(root: str) -> int:
    for line in read_text(under(root, "/proc/meminfo")).splitlines():
        key, _, value = line.partition(":")
        if key == "MemTotal":
            words = value.split()
            kib = to_int(words[0]) if words else None
            return max(0, kib or 0) << 10
    return 0


def _host_cores() -> int:
    return _ask_psutil(lambda psutil: int(psutil.cpu_count(logical=False) or 0), 0)


def _host_memory() -> int:
    return _ask_psutil(lambda psutil: int(psutil.virtual_memory().total), 0)


def _ask_psutil(question: Callable[[Any], _Answer], default: _Answer) -> _Answer:
    """Answer of `question(psutil)`; `default` where psutil cannot tell."""
    try:
        import psutil
    except (ImportError, NotImplementedError):  # the latter on systems that it does not know
        return default
    try:
        return question(psutil)
    except (psutil.Error, OSError, AttributeError, NotImplementedError, RuntimeError, ValueError):
        return default
