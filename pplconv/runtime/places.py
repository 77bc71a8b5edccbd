"""Which cores a pin can have, and the memory of which node, from its arguments and the machine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pplconv._checks import integer

if TYPE_CHECKING:
    from pplconv.machine import Machine

Cores = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Places:
    """The part of a pin's request that the machine can fulfil.

    Parameters
    ----------
    cores : tuple of tuple of int
        Logical CPUs of each physical core, one thread each; () if no core is available.
    node : int or None
        NUMA node that all of them belong to; None if they belong to several.
    prefers_memory : bool
        Whether there is another node that memory could come from.
    complaint : str
        The part of the request that cannot be fulfilled, for people; "" if all can.
    """

    cores: Cores
    node: int | None
    prefers_memory: bool = False
    complaint: str = ""


def check_node(node: object) -> int | None:
    """`node` as an int, or None.

    Raises
    ------
    TypeError, ValueError
        If it is neither None nor an int of at least 0.
    """
    return None if node is None else _integer("node", node, 0, "an int or None")


def check_cores(cores: object) -> int | tuple[int, ...] | None:
    """`cores` as an int (how many), a tuple of CPU ids, or None.

    Raises
    ------
    TypeError, ValueError
        If it is none of these, or there are no ids, or ids are negative or repeated.
    """
    expected = "an int, a sequence of CPU ids, or None"
    if cores is None:
        return None
    if isinstance(cores, str | bytes) or not isinstance(cores, Iterable):
        return _integer("cores", cores, 1, expected)
    ids = tuple(_integer("cores", cpu, 0, expected) for cpu in cores)
    if not ids:
        raise ValueError("cores is empty: expected at least one CPU id")
    if len(set(ids)) < len(ids):
        raise ValueError(f"cores is {list(ids)}: expected each CPU id once")
    return ids


def choose_places(
    machine: Machine, node: int | None = None, cores: int | Sequence[int] | None = None
) -> Places:
    """Choose cores of one NUMA node for the threads of a team.

    Parameters
    ----------
    machine : Machine
        The machine.
    node : int, optional
        The system's number of the NUMA node.  None: the node with the most cores inside the
        affinity mask; of several, the lowest.
    cores : int or sequence of int, optional
        How many cores, or logical CPUs by their ids.  Ids of one physical core make one place, in
        the order in which cores are first named; they may belong to several nodes if `node` is
        None.  None: all cores of the node.

    Returns
    -------
    Places

    Raises
    ------
    TypeError
        If an argument is of another type.
    ValueError
        If a number is out of its range, an id is repeated, or an id is of another node than
        `node`.
    """
    node, wanted = check_node(node), check_cores(cores)
    if node is not None and node not in machine.node_ids:
        known = ", ".join(map(str, machine.node_ids))
        return Places((), node, complaint=f"no NUMA node {node} here, only {known}")
    if isinstance(wanted, tuple):
        places = _by_id(machine, node, wanted)
    else:
        places = _by_number(machine, node, wanted)
    several = len(machine.node_ids) > 1 and places.node is not None
    return Places(places.cores, places.node, several, places.complaint)


def _by_number(machine: Machine, node: int | None, wanted: int | None) -> Places:
    if node is None:
        node = max(machine.node_ids, key=lambda each: (len(machine.usable_cores(each)), -each))
    cores = machine.usable_cores(node)
    if not cores:
        return Places((), node, complaint=f"no core of NUMA node {node} in the affinity mask")
    if wanted is not None and wanted > len(cores):
        there = f"{len(cores)} core{'s' if len(cores) > 1 else ''}"
        return Places(
            cores, node, complaint=f"{wanted} cores asked for, but NUMA node {node} has {there}"
        )
    return Places(cores[:wanted], node)


def _by_id(machine: Machine, node: int | None, wanted: tuple[int, ...]) -> Places:
    foreign = [cpu for cpu in wanted if machine.node_of(cpu) not in (node, None)]
    if node is not None and foreign:
        raise ValueError(
            f"cores has CPU {foreign[0]} of NUMA node {machine.node_of(foreign[0])}: expected "
            f"CPUs of node {node}"
        )
    core_of = {cpu: core for core in machine.usable_cores() for cpu in core}
    chosen: dict[tuple[int, ...], list[int]] = {}
    for cpu in wanted:
        if cpu in core_of:
            chosen.setdefault(core_of[cpu], []).append(cpu)
    cores = tuple(tuple(sorted(cpus)) for cpus in chosen.values())
    outside = [cpu for cpu in wanted if cpu not in core_of]
    complaint = f"not in the affinity mask: CPU {', '.join(map(str, outside))}" if outside else ""
    nodes = {machine.node_of(core[0]) for core in cores}
    return Places(cores, nodes.pop() if len(nodes) == 1 else None, complaint=complaint)


def _integer(name: str, value: Any, least: int, expected: str) -> int:
    return integer(name, value, least, complaint=f"{name} is {value!r}: expected {expected}")
