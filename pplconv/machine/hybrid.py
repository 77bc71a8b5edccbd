"""Which cores are efficiency cores, on machines that mix two kinds.

Source: Linux kernel, arch/x86/events/intel (the names of the counters' devices) and
Documentation/ABI/testing/sysfs-devices-system-cpu (``cpu_capacity``, ``cpuinfo_max_freq``).
"""

from __future__ import annotations

from collections.abc import Sequence

from .kernel_files import read_int, read_list, under
from .sysctl import Sysctl, number

_CPU_DIR = "/sys/devices/system/cpu"

# Limits for efficiency cores, as a share of the largest value. Capacity is work per time, so less
# than half means another kind of core. Clocks differ among equal cores too, as the best ones turbo
# higher, so only a fifth less means another kind.
_SMALL_CAPACITY = 0.5
_SMALL_CLOCK = 0.8


def efficiency_cores(
    root: str, cores: Sequence[Sequence[int]], packages: Sequence[Sequence[int]], ask: Sysctl
) -> tuple[int, ...]:
    """Logical CPUs of efficiency cores; () where all cores are of one kind.

    Parameters
    ----------
    root : str
        Directory that holds ``sys``.
    cores, packages : sequence of sequence of int
        Online CPUs as `Machine` lists them.
    ask : callable
        ``sysctl`` by name.

    Returns
    -------
    tuple of int
        Ascending.
    """
    # No machine of several sockets mixes kinds, and large ones have many files to read.
    if len(packages) > 1:
        return ()
    cpus = [cpu for core in cores for cpu in core]
    for small in (
        _by_counters(root),
        _by_value(root, cores, "cpu_capacity", _SMALL_CAPACITY),
        _by_value(root, cores, "cpufreq/cpuinfo_max_freq", _SMALL_CLOCK),
        _by_level(cpus, ask),
    ):
        found = tuple(sorted(small & set(cpus)))
        if 0 < len(found) < len(cpus):
            return found
    return ()


def _by_counters(root: str) -> set[int]:
    """Intel: each kind of core has its own performance counters."""
    return {
        cpu
        for name in ("cpu_atom", "cpu_lowpower")
        for cpu in read_list(under(root, f"/sys/devices/{name}/cpus"))
    }


def _by_value(root: str, cores: Sequence[Sequence[int]], name: str, share: float) -> set[int]:
    """CPUs of cores whose value is below `share` of the largest; a core's threads have the same."""
    values: dict[int, int] = {}
    for at, core in enumerate(cores):
        value = read_int(under(root, f"{_CPU_DIR}/cpu{core[0]}/{name}"))
        if value is None or value <= 0:
            return set()
        values[at] = value
    limit = share * max(values.values(), default=0)
    return {cpu for at, core in enumerate(cores) if values[at] < limit for cpu in core}


def _by_level(cpus: list[int], ask: Sysctl) -> set[int]:
    """By the levels of macOS, which numbers the CPUs of the lowest level first."""
    levels = number(ask, "hw.nperflevels")
    small = sum(number(ask, f"hw.perflevel{at}.logicalcpu") for at in range(1, min(levels, 8)))
    return set(cpus[:small])
