"""CPU quotas of control groups, v1 and v2, nested, inside and outside containers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pplconv.machine import quota

if TYPE_CHECKING:
    from tests.machine.conftest import Tree

V2 = ("/", "/sys/fs/cgroup", "cgroup2", "rw")
V1 = ("/", "/sys/fs/cgroup/cpu,cpuacct", "cgroup", "rw,cpu,cpuacct")


def v1_limit(tree: Tree, directory: str, quota_us: int, period_us: int = 100000) -> None:
    tree.file(f"{directory}/cpu.cfs_quota_us", str(quota_us))
    tree.file(f"{directory}/cpu.cfs_period_us", str(period_us))


def test_v2_container(tree: Tree) -> None:
    tree.cgroup("0::/")
    tree.mounts(V2)
    tree.file("/sys/fs/cgroup/cpu.max", "150000 100000")
    assert quota.read(tree.root) == 1.5


def test_v2_nested_the_tightest_holds(tree: Tree) -> None:
    tree.cgroup("0::/user.slice/job.scope/step")
    tree.mounts(V2)
    tree.file("/sys/fs/cgroup/user.slice/cpu.max", "400000 100000")
    tree.file("/sys/fs/cgroup/user.slice/job.scope/cpu.max", "125000 50000")
    tree.file("/sys/fs/cgroup/user.slice/job.scope/step/cpu.max", "max 100000")
    assert quota.read(tree.root) == 2.5


def test_v2_sibling_groups_do_not_count(tree: Tree) -> None:
    tree.cgroup("0::/a")
    tree.mounts(V2)
    tree.file("/sys/fs/cgroup/a/cpu.max", "300000 100000")
    tree.file("/sys/fs/cgroup/b/cpu.max", "50000 100000")
    assert quota.read(tree.root) == 3.0


def test_v1_container(tree: Tree) -> None:
    """The host's path in /proc, the container's own group at the mount point."""
    tree.cgroup("5:cpuset:/docker/abc", "4:cpu,cpuacct:/docker/abc", "1:name=systemd:/docker/abc")
    tree.mounts(("/docker/abc", "/sys/fs/cgroup/cpu,cpuacct", "cgroup", "ro,cpu,cpuacct"))
    v1_limit(tree, "/sys/fs/cgroup/cpu,cpuacct", 150000)
    assert quota.read(tree.root) == 1.5


def test_v1_nested(tree: Tree) -> None:
    tree.cgroup("4:cpu,cpuacct:/kubepods/pod1/container")
    tree.mounts(V1)
    base = "/sys/fs/cgroup/cpu,cpuacct"
    v1_limit(tree, base, -1)
    v1_limit(tree, f"{base}/kubepods", -1)
    v1_limit(tree, f"{base}/kubepods/pod1", 75000, 50000)
    v1_limit(tree, f"{base}/kubepods/pod1/container", 400000)
    assert quota.read(tree.root) == 1.5


def test_v1_group_of_the_cpu_controller(tree: Tree) -> None:
    """cpuset and cpuacct have hierarchies of their own, whose paths say nothing of quotas."""
    tree.cgroup("3:cpuacct:/other", "2:cpu:/mine", "1:cpuset:/other")
    tree.mounts(
        ("/", "/sys/fs/cgroup/cpuacct", "cgroup", "rw,cpuacct"),
        ("/", "/sys/fs/cgroup/cpu", "cgroup", "rw,cpu"),
    )
    v1_limit(tree, "/sys/fs/cgroup/cpu/mine", 200000)
    v1_limit(tree, "/sys/fs/cgroup/cpu/other", 100000)
    v1_limit(tree, "/sys/fs/cgroup/cpuacct/other", 100000)
    assert quota.read(tree.root) == 2.0


def test_both_hierarchies(tree: Tree) -> None:
    tree.cgroup("4:cpu,cpuacct:/job", "0::/unit")
    tree.mounts(V1, ("/", "/sys/fs/cgroup/unified", "cgroup2", "rw"))
    v1_limit(tree, "/sys/fs/cgroup/cpu,cpuacct/job", 300000)
    tree.file("/sys/fs/cgroup/unified/unit/cpu.max", "400000 100000")
    assert quota.read(tree.root) == 3.0


def test_path_that_leaves_the_namespace(tree: Tree) -> None:
    tree.cgroup("0::/../../elsewhere")
    tree.mounts(V2)
    tree.file("/sys/fs/cgroup/cpu.max", "250000 100000")
    tree.file("/sys/elsewhere/cpu.max", "50000 100000")
    assert quota.read(tree.root) == 2.5


def test_similar_prefix_is_another_group(tree: Tree) -> None:
    tree.cgroup("0::/docker/abcdef")
    tree.mounts(("/docker/abc", "/sys/fs/cgroup", "cgroup2", "rw"))
    tree.file("/sys/fs/cgroup/cpu.max", "200000 100000")
    tree.file("/sys/fs/cgroup/def/cpu.max", "100000 100000")
    assert quota.read(tree.root) == 2.0


def test_mount_point_with_a_blank(tree: Tree) -> None:
    tree.cgroup("0::/")
    tree.mounts(("/", r"/mnt/c\040groups", "cgroup2", "rw"))
    tree.file("/mnt/c groups/cpu.max", "50000 100000")
    assert quota.read(tree.root) == 0.5


@pytest.mark.parametrize("mounted", ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"])
def test_v1_without_a_mount_table(tree: Tree, mounted: str) -> None:
    tree.cgroup("4:cpu,cpuacct:/job")
    v1_limit(tree, f"{mounted}/job", 150000)
    assert quota.read(tree.root) == 1.5


def test_v2_without_proc(tree: Tree) -> None:
    tree.file("/sys/fs/cgroup/cpu.max", "150000 100000")
    assert quota.read(tree.root) == 1.5


@pytest.mark.parametrize(
    "text", ["max 100000", "", "max", "150000", "a b", "100000 0", "0 100000", "-1 100000", "1 2 3"]
)
def test_no_limit_or_no_sense(tree: Tree, text: str) -> None:
    tree.cgroup("0::/")
    tree.mounts(V2)
    tree.file("/sys/fs/cgroup/cpu.max", text)
    assert quota.read(tree.root) is None


def test_nothing_to_read(tree: Tree) -> None:
    assert quota.read(tree.root) is None


def test_malformed_proc_files(tree: Tree) -> None:
    tree.file("/proc/self/cgroup", "nonsense\n::\n4:cpu\n")
    tree.file("/proc/self/mountinfo", "short\n1 2 3 - cgroup2\n1 2 3 / /x - cgroup2 none rw")
    tree.file("/x/cpu.max", "150000 100000")
    assert quota.read(tree.root) == 1.5
