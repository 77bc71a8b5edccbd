"""All that is looked at, read at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ... import _kernels, wisdom
from ...config import Settings
from ...config import current as current_settings
from ...machine import Machine, bound_by_openmp, bound_cpus
from ...machine import condition as conditions
from ...machine import current as current_machine
from ...machine.condition import Condition, Times
from ...machine.cpu import Cpuid, Xgetbv, is_x86
from ...machine.withheld import withheld
from ...runtime import explain_default_threads
from .loop import Loop, run_loop
from .narrow import estimate_gains

__all__ = ["Facts", "gather"]

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Facts:
    """Facts from which findings are made.

    Parameters
    ----------
    settings : Settings
        Settings from the environment.
    machine : Machine
        The machine it runs on.
    isas : tuple of str
        Instruction sets with kernels for float32 that may be used, lowest first.
    unbuilt : tuple of str
        Instruction sets of the machine for which this build has no kernels.
    withheld : tuple of (str, str)
        Instruction sets of the CPU that the system keeps back, and why.
    threads : int
        Team size of calls without ``threads=``.
    why : str
        Reason of that size.
    pools : tuple of mapping
        Libraries with threads of their own that are loaded, as `threadpoolctl` tells of them.
    condition : Condition
        Operating condition of the machine; its load is from before the loop.
    times : Times
        CPU times while the loop ran.
    neighbours : frozenset of int
        Usable CPUs that threads of other programs are bound to.
    loop : Loop or None
        Measurements of a loop of FMAs; None if it was not run.
    wisdom : mapping
        Result of `wisdom.describe`.
    known : int
        Entries of the wisdom for this CPU.
    bound : tuple of int
        CPUs to which OpenMP has bound the calling thread; () if it has all CPUs of the process.
    gains : mapping of str to float
        Of layers in bfloat16, as `estimate_gains` gives them; empty without such products.
    """

    settings: Settings = field(default_factory=Settings)
    machine: Machine = field(default_factory=Machine)
    isas: tuple[str, ...] = ("portable",)
    unbuilt: tuple[str, ...] = ()
    withheld: tuple[tuple[str, str], ...] = ()
    threads: int = 1
    why: str = ""
    pools: tuple[Row, ...] = ()
    condition: Condition = field(default_factory=Condition)
    times: Times = field(default_factory=Times)
    neighbours: frozenset[int] = frozenset()
    loop: Loop | None = None
    wisdom: Row = field(default_factory=dict)
    known: int = 0
    bound: tuple[int, ...] = ()
    gains: Mapping[str, float] = field(default_factory=dict)


def gather(
    *,
    root: str = "/",
    settings: Settings | None = None,
    machine: Machine | None = None,
    rows: Iterable[Row] | None = None,
    pools: Callable[[], Iterable[Row]] | None = None,
    cpuid: Cpuid = _kernels.cpuid,
    xgetbv: Xgetbv = _kernels.xgetbv,
    run: Callable[[str, int], Loop] | None = run_loop,
    gains: Callable[[], Mapping[str, float]] = estimate_gains,
) -> Facts:
    """Look at the machine; takes about half a second.

    Parameters
    ----------
    root : str, optional
        Directory that holds ``proc`` and ``sys``.
    settings, machine : optional
        Those of this process by default.
    rows : iterable of mapping, optional
        The kernels that are built.
    pools : callable, optional
        Gives the libraries that `threadpoolctl` lists.
    cpuid, xgetbv : callable, optional
        As for `machine.detect`.
    run : callable, optional
        ``run(isa, threads)`` times a loop of FMAs; None: nothing is timed.
    gains : callable, optional
        Gives the gains of layers in bfloat16.

    Raises
    ------
    ValueError
        If a ``PPLCONV_*`` environment variable is malformed.
    """
    settings = current_settings() if settings is None else settings
    machine = current_machine() if machine is None else machine
    rows = list(_kernels.rows() if rows is None else rows)
    threads, why = explain_default_threads(settings, machine)
    built = {row["isa"] for row in rows}
    f32 = {row["isa"] for row in rows if row["dtype"] == "f32"}
    isas = tuple(isa for isa in machine.usable_isas(settings.max_isa) if isa in f32)
    kept_back: tuple[tuple[str, str], ...] = ()
    if is_x86(machine.arch):
        kept_back = withheld(cpuid, xgetbv, machine.isas)
    condition = conditions.condition(machine.affinity, root)
    before, loop = conditions.times(root), None
    if run is not None and isas:
        loop = run(isas[-1], threads)
    cpu = wisdom.cpu_model(machine)
    entries = wisdom.export()["entries"]
    return Facts(
        settings, machine, isas, tuple(isa for isa in machine.isas if isa not in built), kept_back,
        threads, why, tuple((pools or _pools)()), condition, conditions.times(root).since(before),
        bound_cpus(machine.affinity, root), loop, wisdom.describe(),
        sum(entry["cpu"] == cpu for entry in entries), bound_by_openmp(),
        gains(),
    )  # fmt: skip


def _pools() -> Iterable[Row]:
    from threadpoolctl import threadpool_info

    found: list[Row] = threadpool_info()
    return found
