"""The changing state of a machine, read from system files; any of them may be missing."""

from __future__ import annotations

import pytest

from pplconv.machine.condition import Condition, Times, condition, times
from tests.machine.conftest import Tree

STAT = "cpu  100 5 50 800 20 0 5 20 7 0\ncpu0 1 2 3 4 5 6 7 8 9 10"


def test_a_system_that_tells_nothing(tree: Tree) -> None:
    assert times(tree.root) == Times()
    assert condition([0, 1], tree.root) == Condition()


def test_times_of_all_cpus(tree: Tree) -> None:
    tree.file("/proc/stat", STAT)
    assert times(tree.root) == Times(total=1000, idle=820, stolen=20)


def test_differences() -> None:
    assert Times(5, 4, 3, 2, 1).since(Times(1, 1, 1, 1, 1)) == Times(4, 3, 2, 1, 0)


@pytest.mark.parametrize("text", ["cpu 1 2 3", "cpu a b c d e f g h", "", "intr 5", "\x00\xff"])
def test_strange_times_are_none(tree: Tree, text: str) -> None:
    tree.file("/proc/stat", text)
    assert times(tree.root).total == 0


V2 = ("/", "/sys/fs/cgroup", "cgroup2", "rw")
V1 = ("/", "/sys/fs/cgroup/cpu", "cgroup", "rw,cpu,cpuacct")
# Group of the process, mount, statistics by folder, and the periods and throttled periods.
THROTTLING = {
    "version 2": (
        "0::/job/step", V2,
        {
            "/job": "usage_usec 9\nnr_periods 50\nnr_throttled 40",
            "/job/step": "usage_usec 9\nnr_periods 0\nnr_throttled 0",
        },
        (50, 40),
    ),
    "version 1": (
        "4:cpu,cpuacct:/", V1, {"/cpu": "nr_periods 7\nnr_throttled 3\nthrottled_time 5"}, (7, 3),
    ),
    "strange": ("0::/", V2, {"": "nr_periods many\nnr_throttled -4\nnr_throttled"}, (0, 0)),
}  # fmt: skip


@pytest.mark.parametrize("case", THROTTLING)
def test_throttling(tree: Tree, case: str) -> None:
    group, mount, statistics, expected = THROTTLING[case]
    tree.cgroup(group)
    tree.mounts(mount)
    for folder, text in statistics.items():
        tree.file(f"/sys/fs/cgroup{folder}/cpu.stat", text)
    assert times(tree.root) == Times(periods=expected[0], throttled=expected[1])


def test_clocks_pages_load_and_nodes(tree: Tree) -> None:
    for cpu, (governor, allowed) in enumerate([("powersave", 3000), ("performance", 2000)]):
        base = f"/sys/devices/system/cpu/cpu{cpu}/cpufreq"
        tree.file(f"{base}/scaling_governor", governor)
        tree.file(f"{base}/scaling_max_freq", str(allowed))
        tree.file(f"{base}/cpuinfo_max_freq", "4000")
    tree.file("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never")
    tree.file("/proc/loadavg", "1.25 1.00 0.50 2/300 4000")
    tree.file("/proc/self/status", "Name:\tpython\nMems_allowed_list:\t0-1")
    assert condition([0, 1, 2], tree.root) == Condition(
        1.25, ("performance", "powersave"), 0.5, "madvise", (0, 1)
    )
    assert condition([0], tree.root).clock_limit == 0.75


def test_strange_files(tree: Tree) -> None:
    tree.file("/sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq", "0")
    tree.file("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "x")
    tree.file("/sys/kernel/mm/transparent_hugepage/enabled", "always")
    tree.file("/proc/loadavg", "full")
    tree.file("/proc/self/status", "Mems_allowed_list:\t0-")
    assert condition([0], tree.root) == Condition()
