"""Affinity, cores, NUMA nodes, memory, and caches from sysfs, from CPUID and by default."""

from __future__ import annotations

import os

import psutil
import pytest

from pplconv.machine import CacheLevel, caches, topology
from tests.machine.conftest import Tree
from tests.machine.recorded_x86 import Cpus, Registers


def test_hardware_threads_are_not_cores(tree: Tree) -> None:
    tree.cores([i, i + 4] for i in range(4))
    found = topology.read(tree.root, range(8))
    assert (len(found.cores), len(found.online)) == (4, 8)


def test_hybrid_counts_both_kinds(tree: Tree) -> None:
    tree.cores([[0, 1], [2, 3], [4], [5], [6], [7]])
    assert len(topology.read(tree.root, range(8)).cores) == 6


def test_offline_cpu(tree: Tree) -> None:
    tree.cores([[0], [2], [3]])  # 1 is off: neither in the list nor in a topology directory
    tree.nodes("0-3")
    found = topology.read(tree.root, [0, 2, 3])
    assert (len(found.cores), len(found.online)) == (3, 3)
    assert found.numa_nodes == ((0, 2, 3),)


def test_newer_name_of_the_siblings_file(tree: Tree) -> None:
    tree.file("/sys/devices/system/cpu/online", "0-1")
    for cpu in (0, 1):
        tree.file(f"/sys/devices/system/cpu/cpu{cpu}/topology/core_cpus_list", "0-1")
    assert len(topology.read(tree.root, [0, 1]).cores) == 1


def test_nodes_without_cpus_are_left_out(tree: Tree) -> None:
    tree.cores([[0], [1]])
    tree.nodes("0-1", "")  # memory on an expansion card
    assert topology.read(tree.root, [0, 1]).numa_nodes == ((0, 1),)


def test_one_node_where_none_is_described(tree: Tree) -> None:
    tree.cores([[0], [1], [2]])
    assert topology.read(tree.root, [1]).numa_nodes == ((0, 1, 2),)


def test_affinity_is_sorted_and_never_empty(tree: Tree) -> None:
    assert topology.read(tree.root, [5, 1, 5]).affinity == (1, 5)
    assert topology.read(tree.root, []).affinity == (0,)


def test_memory(tree: Tree) -> None:
    tree.memory(16384000)
    assert topology.read(tree.root, [0]).memory_bytes == 16384000 * 1024


@pytest.mark.parametrize("text", ["MemTotal:", "MemTotal: many kB", "nothing"])
def test_memory_falls_back_to_psutil(
    tree: Tree, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    class Memory:
        total = 12345678

    monkeypatch.setattr(psutil, "virtual_memory", Memory)
    tree.file("/proc/meminfo", text)
    assert topology.read(tree.root, [0]).memory_bytes == 12345678


def test_cores_fall_back_to_psutil(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "cpu_count", lambda logical=True: 14 if not logical else 20)
    assert len(topology.read(tree.root, range(20)).cores) == 14
    monkeypatch.setattr(psutil, "cpu_count", lambda logical=True: None)
    assert len(topology.read(tree.root, range(20)).cores) == 20


def test_psutil_that_fails(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object, **kwargs: object) -> int:
        raise psutil.AccessDenied(1)

    monkeypatch.setattr(psutil, "cpu_count", fail)
    monkeypatch.setattr(psutil, "virtual_memory", fail)
    found = topology.read(tree.root, range(3))
    assert (len(found.cores), found.memory_bytes) == (3, 0)


def test_affinity_of_this_process(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {7, 3}, raising=False)
    assert topology.read(tree.root).affinity == (3, 7)


def test_affinity_call_denied(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    def deny(pid: int) -> set[int]:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "sched_getaffinity", deny, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    assert topology.read(tree.root).affinity == (0, 1, 2)


def test_affinity_through_psutil(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(psutil.Process, "cpu_affinity", lambda self: [4, 2], raising=False)
    assert topology.read(tree.root).affinity == (2, 4)


def test_no_affinity_masks_at_all(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.delattr(psutil.Process, "cpu_affinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    assert topology.read(tree.root).affinity == tuple(range(8))


KIB = 1 << 10
MIB = 1 << 20
DEFAULT = caches.Caches(CacheLevel(32 * KIB), CacheLevel(512 * KIB), CacheLevel(0), 64)


def leaf_row(level: int, kind: int, ways: int, sets: int, ids: int, line: int = 64) -> Registers:
    """One subleaf of leaf 4 or 0x8000001D."""
    return (ids - 1) << 14 | level << 5 | kind, (ways - 1) << 22 | (line - 1), sets - 1, 0


SERVER = [
    leaf_row(1, 1, 12, 64, 2),  # 48 KiB
    leaf_row(1, 2, 8, 64, 2),
    leaf_row(2, 3, 16, 2048, 2),  # 2 MiB
    leaf_row(3, 3, 15, 65536, 64),  # 60 MiB
]


def test_sysfs(tree: Tree) -> None:
    tree.caches(0, ("32K", "0,64"), ("1024K", "0,64"), ("33M", "0-15,64-79"))
    assert caches.read(tree.root, 0, None, 128) == caches.Caches(
        CacheLevel(32 * KIB, 2), CacheLevel(MIB, 2), CacheLevel(33 * MIB, 32), 64
    )


def test_sysfs_without_l3(tree: Tree) -> None:
    tree.caches(0, ("64K", "0"), ("1M", "0-3"), None)
    found = caches.read(tree.root, 0, None, 4)
    assert (found.l2, found.l3) == (CacheLevel(MIB, 4), CacheLevel(0, 1))


def test_other_line_size(tree: Tree) -> None:
    tree.cache(0, 0, 1, "Data", "128K", "0", line=128)
    assert caches.read(tree.root, 0, None, 1).line == 128


def test_the_cpu_asked_for(tree: Tree) -> None:
    """A hybrid laptop: a thread kept to the small cores sees their caches."""
    tree.caches(0, ("48K", "0-1"), ("1280K", "0-1"), ("24M", "0-19"))
    tree.caches(12, ("32K", "12"), ("2048K", "12-15"), ("24M", "0-19"))
    assert caches.read(tree.root, 0, None, 20).l1d == CacheLevel(48 * KIB, 2)
    assert caches.read(tree.root, 12, None, 20).l1d == CacheLevel(32 * KIB, 1)
    assert caches.read(tree.root, 12, None, 20).l2 == CacheLevel(2 * MIB, 4)


def test_cpu_without_entry_is_taken_for_the_first(tree: Tree) -> None:
    tree.caches(0, ("48K", "0"), ("1280K", "0"), ("24M", "0-1"))
    assert caches.read(tree.root, 1, None, 2) == caches.read(tree.root, 0, None, 2)


@pytest.mark.parametrize("number", [4, 0x8000001D])
def test_cpuid(tree: Tree, fake_cpu: Cpus, number: int) -> None:
    fake = fake_cpu("zen4", caches={number: SERVER}, last_extended=0x80000028)
    assert caches.read(tree.root, 0, fake.cpuid, 48) == caches.Caches(
        CacheLevel(48 * KIB, 2), CacheLevel(2 * MIB, 2), CacheLevel(60 * MIB, 48), 64
    )


def test_cpuid_fills_only_what_sysfs_leaves_open(tree: Tree, fake_cpu: Cpus) -> None:
    tree.cache(0, 0, 1, "Data", "32K", "0")
    found = caches.read(tree.root, 0, fake_cpu("skylake_x", caches={4: SERVER}).cpuid, 4)
    assert found.l1d == CacheLevel(32 * KIB, 1)
    assert found.l2 == CacheLevel(2 * MIB, 2)
    assert found.l3 == CacheLevel(60 * MIB, 4)


def test_cpuid_leaf_out_of_range(tree: Tree, fake_cpu: Cpus) -> None:
    fake = fake_cpu("core2", caches={4: SERVER})
    assert caches.read(tree.root, 0, fake.cpuid, 2) == DEFAULT


def test_endless_cpuid_leaf_ends(tree: Tree) -> None:
    row = leaf_row(1, 1, 8, 64, 1)
    found = caches.read(tree.root, 0, lambda leaf, sub: (0x20, *row[1:]) if not leaf else row, 1)
    assert found.l1d == CacheLevel(32 * KIB, 1)


def test_defaults(tree: Tree) -> None:
    assert caches.read(tree.root, 0, None, 1) == DEFAULT


@pytest.mark.parametrize("size", ["", "K", "big", "-32K", "0K", "32Q"])
def test_malformed_size_is_a_default(tree: Tree, size: str) -> None:
    tree.cache(0, 0, 1, "Data", size, "0")
    assert caches.read(tree.root, 0, None, 1) == DEFAULT


def test_malformed_sharing_and_line(tree: Tree) -> None:
    tree.cache(0, 0, 1, "Data", "48K", "0-", line=-1)
    found = caches.read(tree.root, 0, None, 1)
    assert (found.l1d, found.line) == (CacheLevel(48 * KIB, 1), 64)
