"""The CPU quota that the control groups around this process set.

If a container with 64 CPUs in its affinity mask and a quota of 1.5 starts 64 threads, the kernel
stops it for most of each period; so the quota bounds a team. Limits nest: the tightest limit from
the process's own group up to the root applies.

Source: Linux documentation, admin-guide/cgroup-v2 (``cpu.max``) and scheduler/sched-bwc
(``cpu.cfs_quota_us``).
"""

from __future__ import annotations

import os

from .cgroups import chains
from .kernel_files import read_int, read_text, to_int


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
    limits = [
        limit
        for version, directories in chains(root, "cpu")
        for directory in directories
        if (limit := _limit(directory, version)) is not None
    ]
    return min(limits, default=None)


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
