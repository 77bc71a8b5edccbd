"""Affinity, cores, NUMA nodes and memory."""

from __future__ import annotations

import os

import psutil
import pytest

from pplconv.machine import topology
from tests.machine.conftest import Tree


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
