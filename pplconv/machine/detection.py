"""Putting a `Machine` together."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import lru_cache

from . import caches, cpu, quota, topology
from .machine import Machine
from .throughput import fma_per_cycle


def detect(
    *,
    root: str = "/",
    cpuid: cpu.Cpuid | None = None,
    xgetbv: cpu.Xgetbv | None = None,
    affinity: Iterable[int] | None = None,
    arch: str | None = None,
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
    affinity : iterable of int, optional
        CPU ids that the process may run on.
    arch : str, optional
        Architecture, for example ``x86_64`` or ``aarch64``.

    Returns
    -------
    Machine
        What cannot be read has a default: portable kernels, 32 KiB of L1, 512 KiB of L2, no L3,
        no quota, one NUMA node.
    """
    arch = _arch() if arch is None else arch
    instruction: cpu.Cpuid | None = None
    if cpu.is_x86(arch):
        if cpuid is None or xgetbv is None:
            from pplconv import _kernels

            cpuid = _kernels.cpuid if cpuid is None else cpuid
            xgetbv = _kernels.xgetbv if xgetbv is None else xgetbv
        # The instruction is slow inside virtual machines, and its answers do not change.
        instruction = lru_cache(maxsize=None)(cpuid)
        identity = cpu.identify(instruction, xgetbv)
    else:
        identity = cpu.from_cpuinfo(root)
    layout = topology.read(root, affinity)
    cache = caches.read(root, layout.affinity[0], instruction, layout.online_cpus)
    return Machine(
        arch=arch,
        vendor=identity.vendor,
        cpu_name=identity.name,
        family=identity.family,
        model=identity.model,
        isas=identity.isas,
        fma_per_cycle=fma_per_cycle(
            identity.vendor, identity.family, identity.model, identity.isas
        ),
        l1d_bytes=cache.l1d.bytes,
        l1d_cpus=cache.l1d.cpus,
        l2_bytes=cache.l2.bytes,
        l2_cpus=cache.l2.cpus,
        l3_bytes=cache.l3.bytes,
        l3_cpus=cache.l3.cpus,
        line_bytes=cache.line,
        physical_cores=layout.physical_cores,
        online_cpus=layout.online_cpus,
        affinity=layout.affinity,
        quota=quota.read(root),
        numa_nodes=layout.numa_nodes,
        node_ids=layout.node_ids,
        cores=layout.cores,
        memory_bytes=layout.memory_bytes,
    )


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


def _arch() -> str:
    uname = getattr(os, "uname", None)
    if uname is not None:  # ten milliseconds less than importing platform
        return str(uname().machine)
    import platform

    return platform.machine() or "unknown"
