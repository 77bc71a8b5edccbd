"""Putting a `Machine` together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ..architecture import canonical, here
from . import amx, caches, cpu, quota, topology
from .machine import Machine
from .sysctl import Sysctl, sysctl
from .x86_identity import fma_per_cycle

if TYPE_CHECKING:
    from . import arm_cores, hwcap, midr


def detect(
    *,
    root: str = "/",
    cpuid: cpu.Cpuid | None = None,
    xgetbv: cpu.Xgetbv | None = None,
    permit: amx.Permit | None = None,
    auxval: hwcap.Auxval | None = None,
    register: midr.Midr | None = None,
    affinity: Iterable[int] | None = None,
    arch: str | None = None,
    ask: Sysctl = sysctl,
) -> Machine:
    """Describe the machine that this process runs on.

    Every source can be replaced, so that any machine can be described on any other.

    Parameters
    ----------
    root : str, optional
        Directory that holds ``sys`` and ``proc``.
    cpuid : callable, optional
        ``cpuid(leaf, subleaf)`` gives (eax, ebx, ecx, edx) or None.
    xgetbv : callable, optional
        ``xgetbv(index)`` gives an extended control register or None.
    permit : callable, optional
        ``permit()`` asks the system for tile registers (AMX), where the CPU has them. By default
        the system of this process is asked if `cpuid` is not given; else there are none.
    auxval : callable, optional
        ``auxval(type)`` gives a word of the auxiliary vector, 0 where there is none.
    register : callable, optional
        ``register()`` returns the MIDR of the calling AArch64 core, 0 if it cannot be read.
    affinity : iterable of int, optional
        CPU ids that the process may run on.
    arch : str, optional
        Architecture, for example ``x86_64`` or ``aarch64``.
    ask : callable, optional
        ``ask(name)`` gives the bytes of macOS's ``sysctl``, or None.

    Returns
    -------
    Machine
        Properties that cannot be read have defaults: portable kernels, 32 KiB of L1, 512 KiB of L2,
        no L3, no quota, one NUMA node.
    """
    arch = here() if arch is None else arch
    instruction: cpu.Cpuid | None = None
    if cpu.is_x86(arch):
        # The instruction is slow inside virtual machines, and its answers do not change.
        instruction = lru_cache(maxsize=None)(cpuid or _own("cpuid"))
    threads = cpu.threads_per_core(instruction) if instruction else 0
    layout = topology.read(root, affinity, ask=ask, threads_per_core=threads)
    online, at = layout.online, layout.affinity[0]
    known: arm_cores.ArmCore | None = None
    core: dict[str, Any] = {}
    if canonical(arch) in ("aarch64", "armv7l"):
        from . import arm

        found = arm.identify(
            root, online, layout.affinity, auxval or _own("auxval"), register or _own("midr"), ask,
            canonical(arch),
        )  # fmt: skip
        identity, core, known = found.identity, found.fields(), found.core
        at = at if found.cpu is None else found.cpu
    else:
        if instruction:
            if permit is None:
                permit = amx.never if cpuid else amx.permitted
            identity = cpu.identify(instruction, xgetbv or _own("xgetbv"), permit)
        else:
            identity = cpu.from_cpuinfo(root)
    cache = caches.read(root, at, instruction, len(online), ask, known)
    machine = Machine(
        arch=arch,
        vendor=identity.vendor,
        cpu_name=identity.name,
        family=identity.family,
        model=identity.model,
        isas=identity.isas,
        **core,
        l1d_bytes=cache.l1d.bytes,
        l1d_cpus=cache.l1d.cpus,
        l2_bytes=cache.l2.bytes,
        l2_cpus=cache.l2.cpus,
        l3_bytes=cache.l3.bytes,
        l3_cpus=cache.l3.cpus,
        line_bytes=cache.line,
        cores=layout.cores,
        packages=layout.packages,
        efficiency_cores=layout.efficiency_cores,
        affinity=layout.affinity,
        quota=quota.read(root),
        numa_nodes=layout.numa_nodes,
        node_ids=layout.node_ids,
        node_memory=layout.node_memory,
        memory_bytes=layout.memory_bytes,
    )
    return machine if core else replace(machine, fma_per_cycle=fma_per_cycle(machine))


@lru_cache(maxsize=1)
def current() -> Machine:
    """Describe the machine of this process, read at the first call.

    ``current.cache_clear()`` makes the next call read it again, for example after a change of
    the affinity mask.

    Returns
    -------
    Machine
    """
    return detect()


def _own(name: str) -> Any:
    """The function that asks the CPU or the system of this process."""
    from pplconv import _kernels

    return getattr(_kernels, name)
