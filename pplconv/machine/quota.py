"""How much CPU time the control groups around this process grant.

A container with 64 CPUs in its affinity mask and a quota of 1.5 is stopped by the kernel for most
of each period if it starts 64 threads, so the quota bounds a team.  Limits nest: the tightest one
between the process's own group and the root holds.

Source: Linux documentation, admin-guide/cgroup-v2 (``cpu.max``) and scheduler/sched-bwc
(``cpu.cfs_quota_us``); proc(5) for ``mountinfo``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import NamedTuple

from .files import read_int, read_text, to_int, under


class _Mount(NamedTuple):
    version: int
    group: str  # the group that is seen at the mount point
    point: str


# Where the hierarchies are by custom, for systems whose mount table cannot be read.
_CUSTOMARY = (
    _Mount(2, "/", "/sys/fs/cgroup"),
    _Mount(1, "/", "/sys/fs/cgroup/cpu"),
    _Mount(1, "/", "/sys/fs/cgroup/cpu,cpuacct"),
)


def read(root: str) -> float | None:
    """Tightest CPU quota on this process.

    Parameters
    ----------
    root : str
        Directory that holds ``proc`` and the control group file systems.

    Returns
    -------
    float or None
        CPUs' worth of time, for example 1.5; None if nothing limits it.
    """
    groups = _groups(root)
    limits = [
        limit
        for mount in _mounts(root) or _CUSTOMARY
        for directory in _upward(root, mount, groups.get(mount.version, "/"))
        if (limit := _limit(directory, mount.version)) is not None
    ]
    return min(limits, default=None)


def _groups(root: str) -> dict[int, str]:
    """Group of this process in the v2 hierarchy and in the v1 hierarchy with the CPU controller."""
    groups: dict[int, str] = {}
    for line in read_text(under(root, "/proc/self/cgroup")).splitlines():
        hierarchy, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if hierarchy == "0" and not controllers:
            groups[2] = path
        elif "cpu" in controllers.split(","):
            groups[1] = path
    return groups


def _mounts(root: str) -> list[_Mount]:
    mounts = []
    for line in read_text(under(root, "/proc/self/mountinfo")).splitlines():
        left, _, right = line.partition(" - ")
        head, tail = left.split(), right.split()
        if len(head) < 5 or len(tail) < 3:
            continue
        group, point = _unescape(head[3]), _unescape(head[4])
        if tail[0] == "cgroup2":
            mounts.append(_Mount(2, group, point))
        elif tail[0] == "cgroup" and "cpu" in tail[2].split(","):
            mounts.append(_Mount(1, group, point))
    return mounts


def _unescape(path: str) -> str:
    # The mount table writes blanks and backslashes in octal.
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), path)


def _upward(root: str, mount: _Mount, group: str) -> Iterator[str]:
    """Directories of `group` and of the groups around it, up to the mount point."""
    names = _below(mount.group, group)
    for count in range(len(names), -1, -1):
        yield os.path.join(under(root, mount.point), *names[:count])


def _below(top: str, group: str) -> list[str]:
    """Names that lead from the group `top` to `group`.

    Inside a container the process may be listed by a path that only the host can follow, or by
    one that leaves the visible part ("/.."): then the mount point itself is its group.
    """
    prefix = top.rstrip("/")
    if group != prefix and not group.startswith(prefix + "/"):
        return []
    names = [name for name in group[len(prefix) :].split("/") if name]
    return [] if ".." in names else names


def _limit(directory: str, version: int) -> float | None:
    if version == 2:
        words = read_text(os.path.join(directory, "cpu.max")).split()
        quota, period = (to_int(words[0]), to_int(words[1])) if len(words) == 2 else (None, None)
    else:
        quota = read_int(os.path.join(directory, "cpu.cfs_quota_us"))
        period = read_int(os.path.join(directory, "cpu.cfs_period_us"))
    # "max" and -1 say that there is no limit.
    if quota is None or period is None or quota <= 0 or period <= 0:
        return None
    return quota / period
