"""Where an instance runs: a NUMA node, and cores of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Placement:
    """One instance's share of the machine.

    Attributes
    ----------
    node : int or None
        The NUMA node of its cores, None where it has none.
    cores : tuple of int
        Logical CPUs to bind it to, one for each thread of its team. Empty if it has no cores of its
        own: it then runs wherever the system puts it.
    """

    node: int | None
    cores: tuple[int, ...]
