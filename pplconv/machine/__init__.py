"""The machine that this process runs on: read once, frozen, injectable.

===================  ===========================================================================
``machine.py``       `Machine`, the frozen description that everyone else is handed
``detection.py``     `detect` puts a `Machine` together; `current` is the cached one
``cpu.py``           CPUID: vendor, model, and which instruction sets CPU *and* system support
``throughput.py``    vector FMAs per cycle by CPU model, which no CPU reports
``caches.py``        cache sizes and who shares them: sysfs, else CPUID, else defaults
``topology.py``      CPUs: affinity mask, physical cores, NUMA nodes, memory
``quota.py``         CPU quota of the control groups (v1 and v2) around this process
``files.py``         reading small kernel files that may be missing or malformed
===================  ===========================================================================

A strange machine is no error: what cannot be read gets a default.  This room reads no
environment variable and knows nothing of plans and kernels; its one look downward is for the
CPUID instruction.
"""

from __future__ import annotations

from .detection import current, detect
from .machine import ISA_LADDER, CacheLevel, Machine

__all__ = ["ISA_LADDER", "CacheLevel", "Machine", "current", "detect"]
