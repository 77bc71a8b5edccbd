"""The changing state of a machine: load, stolen time, throttling, clocks.

Unlike a `Machine` it is read anew each time, and plans do not depend on it.

Source: Linux manual, proc(5) for ``stat``, ``loadavg`` and ``status``; Linux documentation,
admin-guide/cgroup-v2 and scheduler/sched-bwc (``cpu.stat``), admin-guide/pm/cpufreq,
admin-guide/mm/transhuge.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from .._records import record
from .cgroups import chains
from .kernel_files import parse_list, read_int, read_text, to_int, under

# Fields of the line "cpu" in /proc/stat, after its name. "user" includes the time of guests.
_IDLE, _IOWAIT, _STEAL, _COUNTED = 3, 4, 7, 8


@record(frozen=True)
class Times:
    """Time of all CPUs since the system started, and how often a quota stopped the process.

    Parameters
    ----------
    total, idle, stolen : int
        Ticks. In stolen ticks this virtual machine was ready to run while another one ran.
    periods, throttled : int
        Periods of the control groups' quotas, and periods at whose end threads were stopped.
    """

    total: int = 0
    idle: int = 0
    stolen: int = 0
    periods: int = 0
    throttled: int = 0

    def since(self, before: Times) -> Times:
        """The difference from `before`."""
        return Times(
            self.total - before.total, self.idle - before.idle, self.stolen - before.stolen,
            self.periods - before.periods, self.throttled - before.throttled,
        )  # fmt: skip


@record(frozen=True)
class Condition:
    """Load and settings of a machine.

    Parameters
    ----------
    load : float or None
        Threads that run or wait, averaged over a minute; None if the system does not tell.
    governors : tuple of str
        Policies by which the CPUs choose their clocks; () if the system does not tell.
    clock_limit : float or None
        The lowest of the CPUs' maximum clocks by policy, as a share of the CPU's own maximum.
    huge_pages : str
        ``"always"``, ``"madvise"`` or ``"never"``; "" if the system does not tell.
    memory_nodes : tuple of int
        NUMA nodes that this process may take memory from; () if the system does not tell.
    """

    load: float | None = None
    governors: tuple[str, ...] = ()
    clock_limit: float | None = None
    huge_pages: str = ""
    memory_nodes: tuple[int, ...] = ()


def times(root: str = "/") -> Times:
    """Read `Times`; numbers that the system does not report are 0.

    Parameters
    ----------
    root : str, optional
        Directory that holds ``proc`` and the control group file systems.
    """
    total = idle = stolen = 0
    for line in read_text(under(root, "/proc/stat")).splitlines():
        name, *words = line.split()
        ticks = [to_int(word) or 0 for word in words]
        if name == "cpu" and len(ticks) > _STEAL:
            total, idle = sum(ticks[:_COUNTED]), ticks[_IDLE] + ticks[_IOWAIT]
            stolen = ticks[_STEAL]
            break
    periods = throttled = 0
    for _, directories in chains(root, "cpu"):
        for directory in directories:
            found = _statistics(os.path.join(directory, "cpu.stat"))
            # Of nested groups, use the group that was throttled most often.
            if found.get("nr_throttled", 0) >= throttled:
                throttled = found.get("nr_throttled", 0)
                periods = found.get("nr_periods", periods)
    return Times(total, idle, stolen, periods, throttled)


def condition(cpus: Iterable[int], root: str = "/") -> Condition:
    """Read a `Condition`.

    Parameters
    ----------
    cpus : iterable of int
        CPUs whose clocks matter.
    root : str, optional
        Directory that holds ``proc`` and ``sys``.
    """
    governors: set[str] = set()
    limits = []
    for cpu in cpus:
        folder = under(root, f"/sys/devices/system/cpu/cpu{cpu}/cpufreq")
        if governor := read_text(f"{folder}/scaling_governor"):
            governors.add(governor)
        allowed, most = (
            read_int(f"{folder}/{name}") for name in ("scaling_max_freq", "cpuinfo_max_freq")
        )
        if allowed and most and 0 < allowed <= most:
            limits.append(allowed / most)
    pages = read_text(under(root, "/sys/kernel/mm/transparent_hugepage/enabled"))
    chosen = re.search(r"\[(\w+)\]", pages)
    return Condition(
        _load(root), tuple(sorted(governors)), min(limits, default=None),
        chosen[1] if chosen else "", _memory_nodes(root),
    )  # fmt: skip


def _load(root: str) -> float | None:
    words = read_text(under(root, "/proc/loadavg")).split()
    try:
        return float(words[0])
    except (IndexError, ValueError):
        return None


def _memory_nodes(root: str) -> tuple[int, ...]:
    for line in read_text(under(root, "/proc/self/status")).splitlines():
        key, _, value = line.partition(":")
        if key == "Mems_allowed_list":
            return parse_list(value)
    return ()


def _statistics(path: str) -> dict[str, int]:
    found = {}
    for line in read_text(path).splitlines():
        name, _, value = line.partition(" ")
        number = to_int(value)
        if number is not None and number >= 0:
            found[name] = number
    return found
