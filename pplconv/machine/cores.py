"""Which logical CPUs belong to one core, and to one package.

On Linux, sysfs lists them; without sysfs, /proc/cpuinfo does on x86. Other systems (Windows, macOS)
report only counts; they give the hardware threads of a core adjacent numbers, and number the cores
with two threads first.

Source: Linux documentation, admin-guide/cputopology.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from .._records import NamedTuple
from . import host
from .kernel_files import read_list, read_text, to_int, under
from .sysctl import Sysctl, number

_CPU_DIR = "/sys/devices/system/cpu"

Groups = tuple[tuple[int, ...], ...]


class Cores(NamedTuple):
    """Online CPUs by what they share; fields as in `Machine`."""

    cores: Groups
    packages: Groups


def online(root: str) -> tuple[int, ...]:
    """CPU ids that are online, ascending; () if neither sysfs nor /proc lists them."""
    return read_list(under(root, f"{_CPU_DIR}/online")) or tuple(sorted(_cpuinfo(root)))


def read(root: str, cpus: tuple[int, ...], ask: Sysctl, threads_per_core: int) -> Cores:
    """Group `cpus`.

    Parameters
    ----------
    root : str
        Directory that holds ``sys`` and ``proc``.
    cpus : tuple of int
        CPU ids that are online, ascending.
    ask : callable
        ``sysctl`` by name.
    threads_per_core : int
        Hardware threads of a core by CPUID, 0 if unknown; used as the last resort.

    Returns
    -------
    Cores
        Cores and packages hold each of `cpus` once.
    """
    # The kernel renamed the first file of each pair to the second; the first still exists.
    cores, alone = _grouped(root, cpus, "thread_siblings_list", "core_cpus_list")
    packages, others = _grouped(root, cpus, "core_siblings_list", "package_cpus_list")
    if cores:
        cores = _ordered([*cores, *((cpu,) for cpu in alone)])
    else:
        cores = _cores_elsewhere(root, cpus, ask, threads_per_core)
    if packages:
        # A list names all CPUs of a package, so CPUs that no list names are a package of their own.
        packages = _ordered([*packages, others] if others else packages)
    else:
        packages = _by_id(_cpuinfo(root), cpus, "physical id") or (cpus,)
    return Cores(cores, packages)


def _grouped(root: str, cpus: tuple[int, ...], *names: str) -> tuple[Groups, tuple[int, ...]]:
    """Groups that files of these names list, and the CPUs that are in none."""
    left = set(cpus)
    groups: list[tuple[int, ...]] = []
    for cpu in cpus:
        if cpu not in left:
            continue
        base = _topology(root, cpu)
        listed = next((ids for name in names if (ids := read_list(os.path.join(base, name)))), ())
        if listed:
            group = left & {cpu, *listed}
            left -= group
            groups.append(tuple(sorted(group)))
    return _ordered(groups), tuple(sorted(left))


def _topology(root: str, cpu: int) -> str:
    return under(root, f"{_CPU_DIR}/cpu{cpu}/topology")


def _cores_elsewhere(
    root: str, cpus: tuple[int, ...], ask: Sysctl, threads_per_core: int
) -> Groups:
    listed = _by_id(_cpuinfo(root), cpus, "physical id", "core id")
    if listed:
        return listed
    count = number(ask, "hw.physicalcpu") or host.physical_cores()
    if not count and threads_per_core > 1:
        count = -(-len(cpus) // threads_per_core)
    return _dealt(cpus, count)


def _dealt(cpus: tuple[int, ...], count: int) -> Groups:
    """`cpus` divided among `count` cores; a core for each CPU if `count` is not plausible."""
    if not 0 < count < len(cpus):
        return tuple((cpu,) for cpu in cpus)
    each, more = divmod(len(cpus), count)
    groups = []
    at = 0
    for core in range(count):
        size = each + (core < more)
        groups.append(cpus[at : at + size])
        at += size
    return tuple(groups)


def _cpuinfo(root: str) -> dict[int, dict[str, int]]:
    """Numbers in /proc/cpuinfo by CPU."""
    found: dict[int, dict[str, int]] = {}
    entry: dict[str, int] = {}
    for line in read_text(under(root, "/proc/cpuinfo")).splitlines():
        key, _, value = (part.strip() for part in line.partition(":"))
        at = to_int(value)
        if at is None or at < 0:
            continue
        if key == "processor":
            entry = found.setdefault(at, {})
        elif key in ("physical id", "core id"):
            entry[key] = at
    return found


def _by_id(entries: dict[int, dict[str, int]], cpus: tuple[int, ...], *keys: str) -> Groups:
    """`cpus` with equal numbers together; () unless each CPU has all the numbers."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for cpu in cpus:
        entry = entries.get(cpu, {})
        if not entry.keys() >= set(keys):
            return ()
        groups.setdefault(tuple(entry[key] for key in keys), []).append(cpu)
    return _ordered(groups.values())


def _ordered(groups: Iterable[Iterable[int]]) -> Groups:
    return tuple(sorted(tuple(group) for group in groups))
