"""How many instances of how many threads, and on which cores."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

from ..config import Settings
from ..machine import Machine
from ..runtime import process_threads
from .worker_placement import Placement

_Nodes = list[tuple[int, list[int]]]
"""Number of each NUMA node, and CPUs of it."""


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


def split(
    machine: Machine,
    instances: int | None,
    threads: int | None,
    share: int | None = None,
    taken: Collection[int] = (),
    busy: Collection[int] = (),
) -> Split:
    """Divide the cores that the process may use.

    Left to choose, it makes one instance of one thread for each core of the share.  Requests are
    independent, so instances have nothing to wait for, while a team waits at the end of each
    layer for its slowest thread. Instances of a node share their weights, so more of them cost no
    more cache than a team does. A team gives a lower latency of a single request, which `threads`
    asks for.

    No instance spans two nodes, unless a share beyond the cores asks for it.  A second hardware
    thread of a core is left alone, since one thread keeps the core's FMA units busy. If the quota
    grants fewer CPUs than the affinity mask has cores, or there are more threads than free cores,
    no instance has cores of its own: the placements then name no cores.

    Parameters
    ----------
    machine : Machine
        Description of the machine.
    instances, threads : int or None
        Requested numbers; None: as many as fill the share.
    share : int, optional
        Threads that the process may have, as `process_threads` says; by default as many as the
        machine grants.
    taken : collection of int, optional
        CPUs that other pools hold.
    busy : collection of int, optional
        CPUs that are used only if all others do not suffice.

    Returns
    -------
    Split
    """
    every = cores_by_node(machine)
    total = sum(len(own) for _, own in every)
    limited = machine.quota is not None and math.ceil(machine.quota) < total
    if share is None:
        share = process_threads(Settings(), machine)
    free = _without(taken, every)
    nodes = free or every
    if share <= total:
        share = min(share, sum(len(own) for _, own in nodes))
    instances, threads = _sizes([len(own) for _, own in nodes], instances, threads, share)
    if limited or not free:
        return unbound(instances, threads)
    busy_last = [(node, sorted(own, key=lambda cpu: cpu in busy)) for node, own in free]
    placements = _place(_without(busy, free), instances, threads) or _place(
        busy_last, instances, threads
    )
    return Split(threads, placements) if placements else unbound(instances, threads)


def unbound(instances: int, threads: int) -> Split:
    """Instances that the system may run on any core."""
    return Split(threads, (Placement(None, ()),) * instances)


def usable_cores(machine: Machine) -> float:
    """Physical cores that the process may use, at most the CPU quota."""
    cores = sum(len(own) for _, own in cores_by_node(machine))
    return cores if machine.quota is None else min(cores, machine.quota)


def cores_by_node(machine: Machine) -> _Nodes:
    """Usable cores of each node that has any: its number, and one logical CPU of each core."""
    usable = set(machine.affinity)
    second = {cpu for core in machine.cores for cpu in [c for c in core if c in usable][1:]}
    nodes = [
        (number, [cpu for cpu in cpus if cpu in usable and cpu not in second])
        for number, cpus in zip(machine.node_ids, machine.numa_nodes, strict=True)
    ]
    # A mask may name CPUs that no node does, where a container hides half of the system.
    return [node for node in nodes if node[1]] or [(0, sorted(usable - second))]


def _without(cpus: Collection[int], nodes: _Nodes) -> _Nodes:
    """The nodes without these CPUs; those that have no other are left out."""
    rest = [(node, [cpu for cpu in own if cpu not in cpus]) for node, own in nodes]
    return [node for node in rest if node[1]]


def _sizes(
    cores: list[int], instances: int | None, threads: int | None, share: int
) -> tuple[int, int]:
    """Numbers of instances and of threads of each, for the cores of each node.

    A share beyond the cores was asked for on purpose, and is taken as it is.
    """
    fits = share <= sum(cores)
    if instances is None:
        threads = threads or 1
        instances = max(1, share // threads)
        within_nodes = sum(own // threads for own in cores)
        if fits and within_nodes:
            instances = min(instances, within_nodes)
    elif threads is None:
        threads = max(1, share // instances)
        if fits:
            # Equal teams, so that the smallest share of a node rules.
            shares = _shares(cores, instances)
            room = min(own // many for own, many in zip(cores, shares, strict=True) if many)
            threads = max(1, min(threads, room))
    return instances, threads


def _place(nodes: _Nodes, instances: int, threads: int) -> tuple[Placement, ...]:
    """Cores for each instance; none at all where one of the nodes has too few."""
    if not nodes:
        return ()
    shares = _shares([len(own) for _, own in nodes], instances)
    if any(many * threads > len(own) for (_, own), many in zip(nodes, shares, strict=True)):
        return ()
    return tuple(
        Placement(node, tuple(own[at * threads : (at + 1) * threads]))
        for (node, own), many in zip(nodes, shares, strict=True)
        for at in range(many)
    )


def _shares(cores: list[int], instances: int) -> list[int]:
    """Instances of each node, in proportion to its cores: the next where most are left for each."""
    shares = [0] * len(cores)
    for _ in range(instances):
        at = max(range(len(cores)), key=lambda node: cores[node] / (shares[node] + 1))
        shares[at] += 1
    return shares
