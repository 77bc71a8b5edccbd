"""How many instances of how many threads, and on which cores."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..machine import Machine
from .placement import Placement


@dataclass(frozen=True)
class Split:
    """Instances of equal teams.

    Attributes
    ----------
    threads : int
        Size of each instance's team.
    placements : tuple of Placement
        One for each instance.
    """

    threads: int
    placements: tuple[Placement, ...]


def split(machine: Machine, instances: int | None, threads: int | None) -> Split:
    """Divide the cores that the process may use.

    Left to choose, it makes one instance of one thread for each physical core.  Requests are
    independent, so instances have nothing to wait for, while a team waits at the end of each
    layer for its slowest thread; and as instances of a node share their weights, more of them
    cost no more cache than a team does.  What a team is better at is the latency of a single
    request, which `threads` asks for.  The numbers of the environment are sizes of one team, and
    have no say.

    No instance spans two nodes.  A second hardware thread of a core is left alone, since one
    keeps the units busy that convolutions use.  Where the quota grants fewer CPUs than the
    affinity mask has cores, or there are more threads than cores, none of them are anyone's own:
    the placements then name no cores.

    Parameters
    ----------
    machine : Machine
        What there is.
    instances, threads : int or None
        What was asked for; None: what fills the machine.

    Returns
    -------
    Split
    """
    nodes = cores_by_node(machine)
    cores = sum(len(own) for _, own in nodes)
    if machine.quota is not None and math.ceil(machine.quota) < cores:
        paid = max(1, math.ceil(machine.quota))
        if instances is None:
            instances = max(1, paid // (threads or 1))
        return _unbound(instances, threads or max(1, paid // instances))
    if instances is None:
        threads = threads or 1
        shares = [len(own) // threads for _, own in nodes]
        if not any(shares):  # a team larger than any node
            return _unbound(max(1, cores // threads), threads)
    else:
        # Each node's in proportion to its cores, and equal teams, so that the smallest share rules.
        shares = _shares([len(own) for _, own in nodes], instances)
        room = [len(own) // share for (_, own), share in zip(nodes, shares, strict=True) if share]
        threads = threads or max(1, min(room))
        if threads > min(room):
            return _unbound(instances, threads)
    return Split(
        threads,
        tuple(
            Placement(node, tuple(own[at * threads : (at + 1) * threads]))
            for (node, own), share in zip(nodes, shares, strict=True)
            for at in range(share)
        ),
    )


def usable_cores(machine: Machine) -> float:
    """Physical cores that the process may use, no more than the quota pays for."""
    cores = sum(len(own) for _, own in cores_by_node(machine))
    return cores if machine.quota is None else min(cores, machine.quota)


def cores_by_node(machine: Machine) -> list[tuple[int, list[int]]]:
    """Usable cores of each node that has any: its number, and one logical CPU of each core."""
    usable = set(machine.affinity)
    second = {cpu for core in machine.cores for cpu in [c for c in core if c in usable][1:]}
    nodes = [
        (number, [cpu for cpu in cpus if cpu in usable and cpu not in second])
        for number, cpus in zip(machine.node_ids, machine.numa_nodes, strict=True)
    ]
    # A mask may name CPUs that no node does, where a container hides half of the system.
    return [node for node in nodes if node[1]] or [(0, sorted(usable - second))]


def _unbound(instances: int, threads: int) -> Split:
    return Split(threads, (Placement(None, ()),) * instances)


def _shares(cores: list[int], instances: int) -> list[int]:
    """Instances for each node: one after the other goes where most cores are left for each."""
    shares = [0] * len(cores)
    for _ in range(instances):
        at = max(range(len(cores)), key=lambda node: cores[node] / (shares[node] + 1))
        shares[at] += 1
    return shares
