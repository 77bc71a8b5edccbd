"""CPU quotas and cpusets of control groups, v1 and v2, nested, inside and outside containers."""

from __future__ import annotations

import pytest

from pplconv.machine import affinity, quota
from tests.machine.conftest import Tree

V2 = ("/", "/sys/fs/cgroup", "cgroup2", "rw")
UNIFIED = ("/", "/sys/fs/cgroup/unified", "cgroup2", "rw")
CPU = ("/", "/sys/fs/cgroup/cpu,cpuacct", "cgroup", "rw,cpu,cpuacct")
CPUSET = ("/", "/sys/fs/cgroup/cpuset", "cgroup", "rw,cpuset")
AT = "/sys/fs/cgroup/cpu,cpuacct"


def v1(directory: str, quota_us: int, period_us: int = 100000) -> dict[str, str]:
    """Files of a limit."""
    return {
        f"{directory}/cpu.cfs_quota_us": str(quota_us),
        f"{directory}/cpu.cfs_period_us": str(period_us),
    }


# Groups of the process, mounts, files with their text, and the CPUs' worth of time.
QUOTAS = {
    "v2, container": (["0::/"], [V2], {"/sys/fs/cgroup/cpu.max": "150000 100000"}, 1.5),
    "v2, nested: the tightest holds": (
        ["0::/user.slice/job.scope/step"], [V2],
        {
            "/sys/fs/cgroup/user.slice/cpu.max": "400000 100000",
            "/sys/fs/cgroup/user.slice/job.scope/cpu.max": "125000 50000",
            "/sys/fs/cgroup/user.slice/job.scope/step/cpu.max": "max 100000",
        },
        2.5,
    ),
    "v2, siblings do not count": (
        ["0::/a"], [V2],
        {"/sys/fs/cgroup/a/cpu.max": "300000 100000", "/sys/fs/cgroup/b/cpu.max": "50000 100000"},
        3.0,
    ),
    # The host's path in /proc, the container's own group at the mount point.
    "v1, container": (
        ["5:cpuset:/docker/abc", "4:cpu,cpuacct:/docker/abc", "1:name=systemd:/docker/abc"],
        [("/docker/abc", AT, "cgroup", "ro,cpu,cpuacct")], v1(AT, 150000), 1.5,
    ),
    "v1, nested": (
        ["4:cpu,cpuacct:/kubepods/pod1/container"], [CPU],
        v1(AT, -1) | v1(f"{AT}/kubepods", -1) | v1(f"{AT}/kubepods/pod1", 75000, 50000)
        | v1(f"{AT}/kubepods/pod1/container", 400000),
        1.5,
    ),
    # cpuset and cpuacct have hierarchies of their own, whose paths say nothing of quotas.
    "v1, group of the cpu controller": (
        ["3:cpuacct:/other", "2:cpu:/mine", "1:cpuset:/other"],
        [
            ("/", "/sys/fs/cgroup/cpuacct", "cgroup", "rw,cpuacct"),
            ("/", "/sys/fs/cgroup/cpu", "cgroup", "rw,cpu"),
        ],
        v1("/sys/fs/cgroup/cpu/mine", 200000) | v1("/sys/fs/cgroup/cpu/other", 100000)
        | v1("/sys/fs/cgroup/cpuacct/other", 100000),
        2.0,
    ),
    "both hierarchies": (
        ["4:cpu,cpuacct:/job", "0::/unit"], [CPU, UNIFIED],
        v1(f"{AT}/job", 300000) | {"/sys/fs/cgroup/unified/unit/cpu.max": "400000 100000"}, 3.0,
    ),
    "path that leaves the namespace": (
        ["0::/../../elsewhere"], [V2],
        {"/sys/fs/cgroup/cpu.max": "250000 100000", "/sys/elsewhere/cpu.max": "50000 100000"}, 2.5,
    ),
    "similar prefix is another group": (
        ["0::/docker/abcdef"], [("/docker/abc", "/sys/fs/cgroup", "cgroup2", "rw")],
        {"/sys/fs/cgroup/cpu.max": "200000 100000", "/sys/fs/cgroup/def/cpu.max": "100000 100000"},
        2.0,
    ),
    "mount point with a blank": (
        ["0::/"], [("/", r"/mnt/c\040groups", "cgroup2", "rw")],
        {"/mnt/c groups/cpu.max": "50000 100000"}, 0.5,
    ),
    "v1 without a mount table": (["4:cpu,cpuacct:/job"], [], v1(f"{AT}/job", 150000), 1.5),
    "v1 without a mount table, cpu alone": (
        ["4:cpu,cpuacct:/job"], [], v1("/sys/fs/cgroup/cpu/job", 150000), 1.5,
    ),
    "v2 without /proc": ([], [], {"/sys/fs/cgroup/cpu.max": "150000 100000"}, 1.5),
    "nothing to read": ([], [], {}, None),
    **{
        f"no limit or no sense: {text}": (["0::/"], [V2], {"/sys/fs/cgroup/cpu.max": text}, None)
        for text in (
            "max 100000", "", "max", "150000", "a b", "100000 0", "0 100000", "-1 100000", "1 2 3",
        )
    },
}  # fmt: skip

# Likewise, with the CPUs of the set.
SETS = {
    "v2": (
        ["0::/pod/box"], [V2],
        {
            "/sys/fs/cgroup/cpuset.cpus.effective": "0-63",
            "/sys/fs/cgroup/pod/box/cpuset.cpus": "0-99",
            "/sys/fs/cgroup/pod/box/cpuset.cpus.effective": "4-5,9",
        },
        (4, 5, 9),
    ),
    "v2, group without the controller": (
        ["0::/pod/box"], [V2],
        {
            "/sys/fs/cgroup/pod/cpuset.cpus.effective": "2-3",
            "/sys/fs/cgroup/cpuset.cpus.effective": "0-63",
        },
        (2, 3),
    ),
    "v1 beside an empty v2": (
        ["5:cpuset:/", "0::/"], [UNIFIED, CPUSET], {"/sys/fs/cgroup/cpuset/cpuset.cpus": "0-1"},
        (0, 1),
    ),
    "v2 without /proc": ([], [], {"/sys/fs/cgroup/cpuset.cpus.effective": "0-2"}, (0, 1, 2)),
    "v1 without /proc": ([], [], {"/sys/fs/cgroup/cpuset/cpuset.effective_cpus": "0-2"}, (0, 1, 2)),
    "nothing to read": ([], [], {}, ()),
}  # fmt: skip


def lay(tree: Tree, groups: list[str], mounts: list[tuple[str, ...]], files: dict[str, str]) -> str:
    """Write the files of groups; give the root."""
    if groups:
        tree.cgroup(*groups)
    if mounts:
        tree.mounts(*mounts)
    for name, text in files.items():
        tree.file(name, text)
    return tree.root


@pytest.mark.parametrize("case", QUOTAS)
def test_quotas(tree: Tree, case: str) -> None:
    *laid, expected = QUOTAS[case]
    assert quota.read(lay(tree, *laid)) == expected


def test_malformed_proc_files(tree: Tree) -> None:
    tree.file("/proc/self/cgroup", "nonsense\n::\n4:cpu\n")
    tree.file("/proc/self/mountinfo", "short\n1 2 3 - cgroup2\n1 2 3 / /x - cgroup2 none rw")
    tree.file("/x/cpu.max", "150000 100000")
    assert quota.read(tree.root) == 1.5


@pytest.mark.parametrize("case", SETS)
def test_cpusets(tree: Tree, case: str) -> None:
    *laid, expected = SETS[case]
    assert affinity.cpuset(lay(tree, *laid)) == expected


def test_the_cpuset_of_v1(tree: Tree) -> None:
    """The hierarchy of the CPU quota has other paths, which say nothing of cpusets."""
    mounts = [CPUSET, ("/", "/sys/fs/cgroup/cpu", "cgroup", "rw,cpu")]
    lay(tree, ["5:cpuset:/box", "4:cpu,cpuacct:/other", "0::/"], mounts, {
        "/sys/fs/cgroup/cpuset/cpuset.cpus": "0-7",
        "/sys/fs/cgroup/cpuset/box/cpuset.cpus": "1,3",
        "/sys/fs/cgroup/cpuset/other/cpuset.cpus": "5",
    })  # fmt: skip
    assert affinity.cpuset(tree.root) == (1, 3)
    tree.file("/sys/fs/cgroup/cpuset/box/cpuset.effective_cpus", "3")
    assert affinity.cpuset(tree.root) == (3,)
