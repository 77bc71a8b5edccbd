"""The machine that this process runs on: read once, frozen, injectable.

===================  ===========================================================================
``machine.py``       `Machine`, the frozen description that other packages use
``detection.py``     `detect` puts a `Machine` together; `current` is the cached one
``cpu.py``           CPUID: vendor, model, and which instruction sets CPU *and* system support
``amx.py``           tile registers: CPU, system, and the permission to use them
``x86_cores.py``     the table of x86 cores: names, rates, which no CPU reports
``x86_identity.py``  the row of a machine, and rates derived from it
``arm.py``           AArch64: kinds of cores, instruction sets that all of them have
``arm_cores.py``     the table of Arm cores: names, core, caches
``midr.py``          which core each CPU of an Arm machine is
``hwcap.py``         vector features that an AArch64 system announces
``caches.py``        cache sizes and who shares them: sysfs, else CPUID, sysctl, defaults
``topology.py``      CPUs and memory, put together from the modules below
``affinity.py``      CPUs that this process may run on: affinity mask and cpuset
``openmp_places.py`` CPUs that OpenMP keeps from a thread that it has bound
``cores.py``         which CPUs are one core, one package
``hybrid.py``        which cores are efficiency cores
``numa_nodes.py``    NUMA nodes and their memory
``neighbours.py``    CPUs that threads of any process are bound to
``host.py``          psutil's answers, on systems without such files
``cgroups.py``       where the control groups (v1 and v2) around this process are
``quota.py``         the CPU quota that control groups set
``condition.py``     load, stolen time, throttling, clocks: read anew each time
``withheld.py``      instructions that the CPU has and the system does not permit
``ceilings.py``      FMA peak and speed of memory, measured on request
``kernel_files.py``  reading small kernel files that may be missing or malformed
``sysctl.py``        macOS's values instead of such files
===================  ===========================================================================

A strange machine is no error: properties that cannot be read get defaults. This package reads no
environment variable and knows nothing of plans and kernels. From lower packages it uses only CPUID,
the auxiliary vector, MIDR and the names of architectures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import on_demand

if TYPE_CHECKING:
    from .affinity import bound_by_openmp
    from .arm_cores import core_name
    from .detection import current, detect
    from .machine import CacheLevel, Machine
    from .neighbours import bound_cpus
    from .openmp_places import openmp_binds
    from .x86_identity import moves_beside_fmas, x86_core

__all__ = [
    "CacheLevel",
    "Machine",
    "bound_by_openmp",
    "bound_cpus",
    "core_name",
    "current",
    "detect",
    "moves_beside_fmas",
    "openmp_binds",
    "x86_core",
]

_NAMES = {
    "affinity": "bound_by_openmp",
    "arm_cores": "core_name",
    "detection": "current detect",
    "machine": "CacheLevel Machine",
    "neighbours": "bound_cpus",
    "openmp_places": "openmp_binds",
    "x86_identity": "moves_beside_fmas x86_core",
}

if not TYPE_CHECKING:
    __getattr__ = on_demand(__name__, _NAMES)
