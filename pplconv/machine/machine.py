"""`Machine`: the frozen description of a machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields
from types import MappingProxyType
from typing import Any

from .._records import NamedTuple, record
from ..architecture import ladder


class CacheLevel(NamedTuple):
    """One cache as a core sees it.

    Parameters
    ----------
    bytes : int
        Size of the whole cache, including the part that other CPUs use; 0 where there is none.
    cpus : int
        Logical CPUs that share it, at least 1.
    """

    bytes: int
    cpus: int = 1


@record(frozen=True)
class Machine:
    """The properties of a machine that the planner and the teams need.

    Parameters
    ----------
    arch : str
        Architecture as the system names it, for example ``x86_64``.
    vendor : str
        CPUID vendor (``GenuineIntel``, ``AuthenticAMD``, ...), else the implementer.
    cpu_name : str
        Name for people; "" if the CPU has none.  Of AArch64 those of its kinds of cores.
    family, model : int
        CPUID family and model with their extensions added in; of AArch64 implementer and part
        number of MIDR, for the strongest usable core; 0 if unknown.
    isas : tuple of str
        Instruction sets of the architecture's ladder that CPU and system can execute, lowest first.
    features : tuple of str
        Vector features of an AArch64 machine that may be used, by the names of Linux's HWCAP, for
        example ``asimddp`` or ``sve``; () elsewhere.
    denied : tuple of str
        Features that the system announces although not every core has them.
    core_kinds : tuple of (int, tuple of int)
        MIDR and CPU ids of each kind of AArch64 core, the strongest first; () if unknown.
    fma_per_cycle : mapping of str to float
        Vector FMA instructions a core retires per cycle, by instruction set; and by set and type,
        ``"avx2/s16"``, where a type has another rate. See `fma_rate`.
    fma_latency : int
        Cycles from one FMA to the next into the same accumulator.
    loads_per_cycle : float
        Vector loads a core starts per cycle.
    in_order : bool
        Whether the core executes instructions in the order of the program.
    l1d_bytes, l2_bytes, l3_bytes : int
        Size of the level-1 data, level-2 and level-3 cache that one core sees, in bytes;
        0 where there is none.
    l1d_cpus, l2_cpus, l3_cpus : int
        Logical CPUs that share that cache.
    line_bytes : int
        Cache line in bytes.
    cores : tuple of tuple of int
        Ids of the logical CPUs (hardware threads) of each online core of the whole machine,
        ascending; each online CPU is in one.
    packages : tuple of tuple of int
        Online CPU ids of each package (socket) of the whole machine.
    efficiency_cores : tuple of int
        CPU ids of efficiency cores, ascending; () where all cores are of one kind.
    affinity : tuple of int
        Ids of the logical CPUs that this process may run on, ascending, at least one.
    quota : float or None
        CPUs' worth of time that the control groups grant; None if unlimited.
    numa_nodes : tuple of tuple of int
        CPU ids of each NUMA node of the whole machine; nodes without CPUs are left out.
    node_ids : tuple of int
        Number that the system gives each of `numa_nodes`; 0, 1, ... if left out.
    node_memory : tuple of int
        Memory of each of `numa_nodes` in bytes, 0 if unknown.
    memory_bytes : int
        Memory of the whole machine in bytes; 0 if unknown.

    Raises
    ------
    ValueError
        If `node_ids` or `node_memory` are not as many as `numa_nodes`.
    """

    arch: str = "unknown"
    vendor: str = "unknown"
    cpu_name: str = ""
    family: int = 0
    model: int = 0
    isas: tuple[str, ...] = ("portable",)
    features: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()
    core_kinds: tuple[tuple[int, tuple[int, ...]], ...] = ()
    # Left out of the hash only because mappings have none; equality compares it.
    fma_per_cycle: Mapping[str, float] = field(default_factory=lambda: {"portable": 1}, hash=False)
    fma_latency: int = 4
    loads_per_cycle: float = 2.0
    in_order: bool = False
    l1d_bytes: int = 32 << 10
    l1d_cpus: int = 1
    l2_bytes: int = 512 << 10
    l2_cpus: int = 1
    l3_bytes: int = 0
    l3_cpus: int = 1
    line_bytes: int = 64
    cores: tuple[tuple[int, ...], ...] = ((0,),)
    packages: tuple[tuple[int, ...], ...] = ((0,),)
    efficiency_cores: tuple[int, ...] = ()
    affinity: tuple[int, ...] = (0,)
    quota: float | None = None
    numa_nodes: tuple[tuple[int, ...], ...] = ((0,),)
    node_ids: tuple[int, ...] = ()
    node_memory: tuple[int, ...] = ()
    memory_bytes: int = 0

    def __post_init__(self) -> None:
        """Freeze the mapping, too, and number the nodes."""
        object.__setattr__(self, "fma_per_cycle", MappingProxyType(dict(self.fma_per_cycle)))
        count = len(self.numa_nodes)
        for name, default in (("node_ids", tuple(range(count))), ("node_memory", (0,) * count)):
            given = getattr(self, name) or default
            if len(given) != count:
                raise ValueError(f"{name} is {given}: expected one for each of {count} numa_nodes")
            object.__setattr__(self, name, given)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by fields: a mapping proxy does not pickle by itself."""
        return _rebuild, (self.as_dict(),)

    @property
    def tuning(self) -> str:
        """Kind of cores whose kernels suit this one best: ``"inorder"``, or empty for any.

        The variant is scheduled for the Cortex-A55 and its successors. On the older Cortex-A53,
        which loads half a vector at a time, a model says that it is slower than the general one.
        """
        return "inorder" if self.in_order and "asimdhp" in self.features else ""

    def fma_rate(self, isa: str, kind: str) -> float:
        """Vector FMAs a cycle of one instruction set on operands of type `kind`."""
        return self.fma_per_cycle.get(f"{isa}/{kind}", self.fma_per_cycle[isa])

    @property
    def l2_share(self) -> int:
        """Bytes of L2 for each core that shares it; hardware threads of a core share its L1, too.

        Groups of cores around one L2 (A64FX, Apple, many boards) compute side by side.
        """
        return self.l2_bytes // max(1, self.l2_cpus // self.l1d_cpus)

    @property
    def l3_share(self) -> int:
        """Bytes of L3 for each core that shares it; 0 where there is none."""
        return self.l3_bytes // max(1, self.l3_cpus // self.l1d_cpus)

    def node_of(self, cpu: int) -> int | None:
        """Number of the NUMA node of the logical CPU `cpu`; None if it is in none."""
        for number, cpus in zip(self.node_ids, self.numa_nodes, strict=True):
            if cpu in cpus:
                return number
        return None

    def usable_cores(self, node: int | None = None) -> tuple[tuple[int, ...], ...]:
        """Logical CPUs of each core inside the affinity mask, cores without any left out.

        Parameters
        ----------
        node : int, optional
            Only cores of the NUMA node that the system gives this number; of all nodes by
            default.

        Returns
        -------
        tuple of tuple of int
            Ascending.  A CPU of the mask that is in none of `cores` counts as a core.

        Raises
        ------
        ValueError
            If no NUMA node with CPUs has this number.
        """
        mask = set(self.affinity)
        if node is not None:
            if node not in self.node_ids:
                known = ", ".join(map(str, self.node_ids))
                raise ValueError(f"node is {node!r}: expected one of {known}")
            mask.intersection_update(self.numa_nodes[self.node_ids.index(node)])
        parts = [tuple(cpu for cpu in core if cpu in mask) for core in self.cores]
        alone = mask.difference(*parts)
        return tuple(sorted([part for part in parts if part] + [(cpu,) for cpu in alone]))

    def usable_isas(self, cap: str | None = None) -> tuple[str, ...]:
        """Instruction sets to choose from, lowest first, those above `cap` left out.

        Parameters
        ----------
        cap : str, optional
            ``Settings.max_isa``.  The machine need not have it: ``avx512`` on a machine that
            ends at ``avx2`` caps nothing, but it must be on its architecture's ladder.

        Returns
        -------
        tuple of str

        Raises
        ------
        ValueError
            If `cap` is no instruction set of the architecture's ladder.
        """
        if cap is None:
            return self.isas
        names = ladder(self.arch)
        if cap not in names:
            raise ValueError(f"cap is {cap!r}: expected one of {', '.join(names)} on {self.arch}")
        allowed = names[: names.index(cap) + 1]
        return tuple(isa for isa in self.isas if isa in allowed)

    def as_dict(self) -> dict[str, Any]:
        """Fields by name; ``Machine(**machine.as_dict())`` equals `machine`."""
        values = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        values["fma_per_cycle"] = dict(self.fma_per_cycle)
        return values


def _rebuild(values: dict[str, Any]) -> Machine:
    return Machine(**values)
