"""NUMA nodes, and how much memory there is."""

from __future__ import annotations

from .._records import NamedTuple
from . import host
from .kernel_files import read_list, read_text, to_int, under
from .sysctl import Sysctl, number

_NODE_DIR = "/sys/devices/system/node"


class Node(NamedTuple):
    """One NUMA node: its number, its online CPUs, its memory in bytes (0 if unknown)."""

    id: int
    cpus: tuple[int, ...]
    memory: int


def read(root: str, cpus: tuple[int, ...], memory_bytes: int) -> tuple[Node, ...]:
    """Nodes that have CPUs.

    Parameters
    ----------
    root : str
        Directory that holds ``sys``.
    cpus : tuple of int
        CPU ids that are online.
    memory_bytes : int
        Memory of the machine.

    Returns
    -------
    tuple of Node
        A single node of unknown memory has all memory; it has all `cpus` if the system describes no
        node.
    """
    left = set(cpus)
    nodes = []
    for at in read_list(under(root, f"{_NODE_DIR}/online")):
        base = under(root, f"{_NODE_DIR}/node{at}")
        own = left.intersection(read_list(f"{base}/cpulist"))
        if own:  # nodes of memory alone have none
            left -= own
            nodes.append(Node(at, tuple(sorted(own)), _total(f"{base}/meminfo")))
    if not nodes:
        nodes.append(Node(0, cpus, 0))
    if len(nodes) == 1 and not nodes[0].memory:
        nodes[0] = nodes[0]._replace(memory=memory_bytes)
    return tuple(nodes)


def memory(root: str, ask: Sysctl) -> int:
    """Memory of the machine in bytes; 0 if nothing tells."""
    return _total(under(root, "/proc/meminfo")) or number(ask, "hw.memsize") or host.memory()


def _total(path: str) -> int:
    """``MemTotal`` of such a file in bytes; a node's file has "Node 0" before each key."""
    for line in read_text(path).splitlines():
        key, _, value = line.partition(":")
        if key.split()[-1:] == ["MemTotal"]:
            words = value.split()
            kib = to_int(words[0]) if words else None
            return max(0, kib or 0) << 10
    return 0
