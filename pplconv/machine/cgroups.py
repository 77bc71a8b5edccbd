"""Directories of the control groups around this process, v1 and v2.

Source: Linux documentation, admin-guide/cgroup-v1/cgroups and admin-guide/cgroup-v2; proc(5) for
``mountinfo``.
"""

from __future__ import annotations

import os
import re

from .._records import NamedTuple
from .kernel_files import read_text, under


class Chain(NamedTuple):
    """The groups around this process in one hierarchy.

    Parameters
    ----------
    version : int
        1 or 2; it decides which files a group has.
    directories : tuple of str
        The process's own group first, the group at the mount point last.
    """

    version: int
    directories: tuple[str, ...]


class _Mount(NamedTuple):
    version: int
    group: str  # the group that is seen at the mount point
    point: str


# Customary places of the hierarchies, for systems whose mount table cannot be read.
_CUSTOMARY = {
    "cpu": (
        _Mount(2, "/", "/sys/fs/cgroup"),
        _Mount(1, "/", "/sys/fs/cgroup/cpu"),
        _Mount(1, "/", "/sys/fs/cgroup/cpu,cpuacct"),
    ),
    "cpuset": (
        _Mount(2, "/", "/sys/fs/cgroup"),
        _Mount(1, "/", "/sys/fs/cgroup/cpuset"),
    ),
}


def chains(root: str, controller: str) -> list[Chain]:
    """Groups that may set a limit of `controller` on this process.

    Parameters
    ----------
    root : str
        Directory that holds ``proc`` and the control group file systems.
    controller : {"cpu", "cpuset"}
        Whose files will be read.

    Returns
    -------
    list of Chain
    """
    groups = _groups(root, controller)
    return [
        Chain(mount.version, _upward(root, mount, groups.get(mount.version, "/")))
        for mount in _mounts(root, controller) or _CUSTOMARY[controller]
    ]


def _groups(root: str, controller: str) -> dict[int, str]:
    """Group of this process in the v2 hierarchy and in the v1 hierarchy of the controller."""
    groups: dict[int, str] = {}
    for line in read_text(under(root, "/proc/self/cgroup")).splitlines():
        hierarchy, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if hierarchy == "0" and not controllers:
            groups[2] = path
        elif controller in controllers.split(","):
            groups[1] = path
    return groups


def _mounts(root: str, controller: str) -> list[_Mount]:
    mounts = []
    for line in read_text(under(root, "/proc/self/mountinfo")).splitlines():
        left, _, right = line.partition(" - ")
        head, tail = left.split(), right.split()
        if len(head) < 5 or len(tail) < 3:
            continue
        group, point = _unescape(head[3]), _unescape(head[4])
        if tail[0] == "cgroup2":
            mounts.append(_Mount(2, group, point))
        elif tail[0] == "cgroup" and controller in tail[2].split(","):
            mounts.append(_Mount(1, group, point))
    return mounts


def _unescape(path: str) -> str:
    # The mount table writes blanks and backslashes in octal.
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), path)


def _upward(root: str, mount: _Mount, group: str) -> tuple[str, ...]:
    """Directories of `group` and of the groups around it, up to the mount point."""
    names = _below(mount.group, group)
    point = under(root, mount.point)
    return tuple(os.path.join(point, *names[:count]) for count in range(len(names), -1, -1))


def _below(top: str, group: str) -> list[str]:
    """Names that lead from the group `top` to `group`.

    Inside a container the process may be listed by a path that only the host can follow, or by a
    path that leaves the visible part ("/.."). Then the mount point itself is its group.
    """
    prefix = top.rstrip("/")
    if group != prefix and not group.startswith(prefix + "/"):
        return []
    names = [name for name in group[len(prefix) :].split("/") if name]
    return [] if ".." in names else names
