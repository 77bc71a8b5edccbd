"""Cache sizes: sysfs, else CPUID, else sysctl, else the table of Arm cores, else defaults.

Each level is looked up by itself, but if a system describes some caches and no L3, there is none.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from .._records import NamedTuple
from .cpu import Cpuid, leaf
from .kernel_files import read_int, read_list, read_text, to_int, under
from .machine import CacheLevel
from .sysctl import Sysctl, number, sysctl

if TYPE_CHECKING:
    from .arm_cores import ArmCore

_CPU_DIR = "/sys/devices/system/cpu"
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_MAX_INDEX = 16
_DEFAULT_LINE = 64
_DEFAULTS = {1: CacheLevel(32 << 10), 2: CacheLevel(512 << 10), 3: CacheLevel(0)}


class Caches(NamedTuple):
    """Data caches that one CPU sees, and the cache line in bytes."""

    l1d: CacheLevel
    l2: CacheLevel
    l3: CacheLevel
    line: int


def read(
    root: str,
    cpu: int,
    cpuid: Cpuid | None,
    online: int,
    ask: Sysctl = sysctl,
    known: ArmCore | None = None,
) -> Caches:
    """Read the caches of the logical CPU `cpu`.

    Parameters
    ----------
    root : str
        Directory that holds ``sys``.
    cpu : int
        Id of a CPU that the process may run on: on hybrid machines CPUs differ.
    cpuid : callable or None
        The CPUID instruction, None where there is none.
    online : int
        Logical CPUs online, the most that can share a cache.
    ask : callable, optional
        ``sysctl`` by name.
    known : ArmCore, optional
        The core, whose row has caches in case the system does not report them: many boards and
        virtual machines describe none.

    Returns
    -------
    Caches
    """
    levels, line = _from_sysfs(root, cpu)
    if cpu != 0 and not levels:
        levels, line = _from_sysfs(root, 0)
    if cpuid is not None and not {1, 2, 3} <= levels.keys():
        more, other_line = _from_cpuid(cpuid, online)
        levels = more | levels
        line = line or other_line
    if not {1, 2} <= levels.keys():
        more, other_line = _from_sysctl(ask)
        levels = more | levels
        line = line or other_line
    if known is not None:
        described = bool(levels)
        more = known.caches(online)
        levels = {at: c for at, c in more.items() if at < 3 or not described} | levels
        line = line or known.line
    levels = _DEFAULTS | levels
    return Caches(levels[1], levels[2], levels[3], line or _DEFAULT_LINE)


def _from_sysfs(root: str, cpu: int) -> tuple[dict[int, CacheLevel], int]:
    base = under(root, f"{_CPU_DIR}/cpu{cpu}/cache")
    levels: dict[int, CacheLevel] = {}
    line = 0
    for index in range(_MAX_INDEX):
        entry = os.path.join(base, f"index{index}")
        level = read_int(os.path.join(entry, "level"))
        if level is None:
            break
        if read_text(os.path.join(entry, "type")) not in ("Data", "Unified"):
            continue
        size = _size(read_text(os.path.join(entry, "size")))
        if size > 0:
            sharers = read_list(os.path.join(entry, "shared_cpu_list"))
            levels[level] = CacheLevel(size, max(1, len(sharers)))
            if level == 1 or not line:
                line = max(0, read_int(os.path.join(entry, "coherency_line_size")) or 0)
    return levels, line


def _from_cpuid(cpuid: Cpuid, online: int) -> tuple[dict[int, CacheLevel], int]:
    # Intel describes caches in leaf 4, AMD in 0x8000001D with the same bits; each leaves the
    # other's leaf empty.
    for which in (4, 0x8000001D):
        levels: dict[int, CacheLevel] = {}
        line = 0
        for sub in range(_MAX_INDEX):
            eax, ebx, ecx, _ = leaf(cpuid, which, sub)
            kind = eax & 0x1F
            if kind == 0:
                break
            if kind not in (1, 3):  # data, unified
                continue
            level = eax >> 5 & 0x7
            line_bytes = (ebx & 0xFFF) + 1
            partitions = (ebx >> 12 & 0x3FF) + 1
            ways = (ebx >> 22) + 1
            # The CPU reports reserved ids, a power of two, not the number of CPUs that exist.
            sharers = min((eax >> 14 & 0xFFF) + 1, max(1, online))
            levels[level] = CacheLevel(line_bytes * partitions * ways * (ecx + 1), sharers)
            if level == 1 or not line:
                line = line_bytes
        if levels:
            return levels, line
    return {}, 0


def _from_sysctl(ask: Sysctl) -> tuple[dict[int, CacheLevel], int]:
    # If there are several kinds of cores, the plain names describe the smallest one.
    prefix = "hw.perflevel0." if number(ask, "hw.nperflevels") else "hw."
    sizes = {
        1: (number(ask, f"{prefix}l1dcachesize"), 1),
        2: (number(ask, f"{prefix}l2cachesize"), number(ask, f"{prefix}cpusperl2")),
        3: (number(ask, f"{prefix}l3cachesize"), number(ask, f"{prefix}cpusperl3")),
    }
    levels = {level: CacheLevel(size, max(1, n)) for level, (size, n) in sizes.items() if size}
    return levels, number(ask, "hw.cachelinesize")


def _size(text: str) -> int:
    unit = _UNITS.get(text[-1:].upper(), 0)
    return (to_int(text[:-1]) or 0) * unit if unit else to_int(text) or 0
