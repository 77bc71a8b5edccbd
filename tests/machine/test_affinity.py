"""The cpuset that the control groups set, v1 and v2."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pplconv.machine import affinity

if TYPE_CHECKING:
    from tests.machine.conftest import Tree

V2 = ("/", "/sys/fs/cgroup", "cgroup2", "rw")
V1 = ("/", "/sys/fs/cgroup/cpuset", "cgroup", "rw,cpuset")


def test_v2(tree: Tree) -> None:
    tree.cgroup("0::/pod/box")
    tree.mounts(V2)
    tree.file("/sys/fs/cgroup/cpuset.cpus.effective", "0-63")
    tree.file("/sys/fs/cgroup/pod/box/cpuset.cpus", "0-99")
    tree.file("/sys/fs/cgroup/pod/box/cpuset.cpus.effective", "4-5,9")
    assert affinity.cpuset(tree.root) == (4, 5, 9)


def test_v2_group_without_the_controller(tree: Tree) -> None:
    tree.cgroup("0::/pod/box")
    tree.mounts(V2)
    tree.file("/sys/fs/cgroup/pod/cpuset.cpus.effective", "2-3")
    tree.file("/sys/fs/cgroup/cpuset.cpus.effective", "0-63")
    assert affinity.cpuset(tree.root) == (2, 3)


def test_v1(tree: Tree) -> None:
    """The hierarchy of the CPU quota has other paths, which say nothing of cpusets."""
    tree.cgroup("5:cpuset:/box", "4:cpu,cpuacct:/other", "0::/")
    tree.mounts(V1, ("/", "/sys/fs/cgroup/cpu", "cgroup", "rw,cpu"))
    tree.file("/sys/fs/cgroup/cpuset/cpuset.cpus", "0-7")
    tree.file("/sys/fs/cgroup/cpuset/box/cpuset.cpus", "1,3")
    tree.file("/sys/fs/cgroup/cpuset/other/cpuset.cpus", "5")
    assert affinity.cpuset(tree.root) == (1, 3)
    tree.file("/sys/fs/cgroup/cpuset/box/cpuset.effective_cpus", "3")
    assert affinity.cpuset(tree.root) == (3,)


def test_v1_beside_an_empty_v2(tree: Tree) -> None:
    tree.cgroup("5:cpuset:/", "0::/")
    tree.mounts(("/", "/sys/fs/cgroup/unified", "cgroup2", "rw"), V1)
    tree.file("/sys/fs/cgroup/cpuset/cpuset.cpus", "0-1")
    assert affinity.cpuset(tree.root) == (0, 1)


@pytest.mark.parametrize(
    "name", ["/sys/fs/cgroup/cpuset.cpus.effective", "/sys/fs/cgroup/cpuset/cpuset.effective_cpus"]
)
def test_without_proc(tree: Tree, name: str) -> None:
    tree.file(name, "0-2")
    assert affinity.cpuset(tree.root) == (0, 1, 2)


def test_nothing_to_read(tree: Tree) -> None:
    assert affinity.cpuset(tree.root) == ()
