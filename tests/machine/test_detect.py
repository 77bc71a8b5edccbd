"""Whole machines: recorded trees and CPUs put together, and what `Machine` derives or refuses."""

from __future__ import annotations

import dataclasses
import math
import os
import pickle
import time
from collections.abc import Callable
from typing import Any

import pytest

from pplconv.architecture import LADDERS, canonical, here
from pplconv.machine import Machine, current, detect
from tests import absent
from tests.machine.conftest import Tree
from tests.machine.recorded_arm import described, never
from tests.machine.recorded_x86 import Cpus, FakeCpu

KIB = 1 << 10
MIB = 1 << 20


def recorded(
    tree: Tree,
    fake: FakeCpu,
    affinity: range | list[int],
    permit: Callable[[], bool] | None = None,
) -> Machine:
    return detect(
        root=tree.root,
        cpuid=fake.cpuid,
        xgetbv=fake.xgetbv,
        affinity=affinity,
        arch="x86_64",
        permit=permit,
    )


def test_ordinary_virtual_machine(tree: Tree, fake_cpu: Cpus) -> None:
    tree.cores([[0], [1]])
    tree.caches(0, ("32K", "0"), ("1024K", "0"), ("32768K", "0-1"))
    tree.nodes("0-1")
    tree.memory(8 << 20)
    tree.cgroup("0::/init.scope")
    tree.mounts(("/", "/sys/fs/cgroup", "cgroup2", "rw"))
    assert recorded(tree, fake_cpu("zen4"), range(2)) == Machine(
        arch="x86_64",
        vendor="AuthenticAMD",
        cpu_name="AMD EPYC 9654 96-Core Processor",
        family=0x19,
        model=0x11,
        isas=("portable", "avx2", "avx512"),
        fma_per_cycle={
            "portable": 1,
            "avx2": 2,
            "avx2/s16": 2,
            "avx2/u8p": 1,
            "avx512": 1,
            "avx512/s16": 0.8,
            "avx512/u8p": 0.5,
        },
        l1d_bytes=32 * KIB,
        l1d_cpus=1,
        l2_bytes=MIB,
        l2_cpus=1,
        l3_bytes=32 * MIB,
        l3_cpus=2,
        line_bytes=64,
        cores=((0,), (1,)),
        packages=((0, 1),),
        affinity=(0, 1),
        quota=None,
        numa_nodes=((0, 1),),
        node_memory=(8 << 30,),
        memory_bytes=8 << 30,
    )


def test_two_socket_xeon(tree: Tree, fake_cpu: Cpus) -> None:
    """Two times 28 cores; the second hardware threads are numbered after all cores."""
    tree.cores([i, i + 56] for i in range(56))
    tree.caches(0, ("32K", "0,56"), ("1024K", "0,56"), ("39424K", "0-27,56-83"))
    tree.nodes("0-27,56-83", "28-55,84-111")
    machine = recorded(tree, fake_cpu("skylake_x"), range(112))
    assert (len(machine.cores), len(machine.affinity)) == (56, 112)
    assert (machine.l1d_cpus, machine.l2_cpus, machine.l3_cpus) == (2, 2, 56)
    assert machine.l3_bytes == 39424 * KIB
    assert [len(node) for node in machine.numa_nodes] == [56, 56]
    assert machine.numa_nodes[1][:2] == (28, 29)
    assert machine.fma_per_cycle["avx512"] == 2


@pytest.mark.parametrize("version", [1, 2])
def test_container_with_a_quota(tree: Tree, fake_cpu: Cpus, version: int) -> None:
    tree.cores([i] for i in range(16))
    if version == 2:
        tree.cgroup("0::/system.slice/box/inner")
        tree.mounts(("/", "/sys/fs/cgroup", "cgroup2", "rw"))
        tree.file("/sys/fs/cgroup/system.slice/box/cpu.max", "150000 100000")
        tree.file("/sys/fs/cgroup/system.slice/box/inner/cpu.max", "max 100000")
    else:
        tree.cgroup("4:cpu,cpuacct:/docker/box/inner")
        tree.mounts(("/docker/box", "/sys/fs/cgroup/cpu", "cgroup", "rw,cpu,cpuacct"))
        tree.file("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "150000")
        tree.file("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000")
        tree.file("/sys/fs/cgroup/cpu/inner/cpu.cfs_quota_us", "-1")
        tree.file("/sys/fs/cgroup/cpu/inner/cpu.cfs_period_us", "100000")
    machine = recorded(tree, fake_cpu("zen4"), range(16))
    assert (machine.quota, len(machine.affinity)) == (1.5, 16)


def test_offline_core(tree: Tree, fake_cpu: Cpus) -> None:
    tree.cores([[0, 4], [2, 6], [3, 7]])  # 1 and its sibling 5 are off
    tree.caches(0, ("32K", "0,4"), ("1024K", "0,4"), ("8M", "0,2-4,6-7"))
    tree.nodes("0,2-4,6-7")
    machine = recorded(tree, fake_cpu("haswell"), [0, 2, 3, 4, 6, 7])
    assert (machine.cores, machine.l3_cpus) == (((0, 4), (2, 6), (3, 7)), 6)


def test_no_sysfs_at_all(tree: Tree, fake_cpu: Cpus, monkeypatch: pytest.MonkeyPatch) -> None:
    import psutil

    monkeypatch.setattr(psutil, "cpu_count", lambda logical=True: 4)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    machine = recorded(tree, fake_cpu("haswell"), range(8))
    assert machine.cores == ((0, 1), (2, 3), (4, 5), (6, 7))
    assert machine.affinity == tuple(range(8))
    assert (machine.l1d_bytes, machine.l2_bytes, machine.l3_bytes) == (32 * KIB, 512 * KIB, 0)
    assert machine.numa_nodes == (tuple(range(8)),)
    assert machine.quota is None
    assert machine.memory_bytes == psutil.virtual_memory().total


def test_arm(tree: Tree) -> None:
    tree.cores([[0], [1], [2], [3]])
    tree.caches(0, ("64K", "0"), ("512K", "0"), ("32M", "0-3"))
    tree.file(
        "/proc/cpuinfo",
        "processor : 0\nCPU implementer : 0x48\nCPU architecture: 8\nCPU part : 0xd01",
    )
    auxval = {16: 0x3 | 1 << 9 | 1 << 10, 26: 0}.__getitem__
    facts = {"auxval": auxval, "affinity": [0, 1], "arch": "aarch64"}
    machine = described(tree.root, cpuid=never, xgetbv=never, **facts)
    assert (machine.vendor, machine.family, machine.model) == ("HiSilicon", 0x48, 0xD01)
    assert machine.isas == ("portable", "neon", "fp16")
    assert machine.l1d_bytes == 64 * KIB
    assert dict(machine.fma_per_cycle) == {"portable": 1, "neon": 2, "neon/s16": 0.5, "fp16": 2}


def test_every_file_malformed(tree: Tree, fake_cpu: Cpus) -> None:
    for name in (
        "/sys/devices/system/cpu/online",
        "/sys/devices/system/node/online",
        "/sys/devices/system/cpu/cpu0/cache/index0/level",
        "/sys/devices/system/cpu/cpu0/topology/thread_siblings_list",
        "/proc/meminfo",
        "/proc/self/cgroup",
        "/proc/self/mountinfo",
    ):
        tree.file(name, "\x00 ?? -1- / ::")
    machine = recorded(tree, fake_cpu("zen4"), [0])
    assert machine.l1d_bytes == 32 * KIB
    assert machine.quota is None
    assert len(machine.cores) >= 1


def test_quick(tree: Tree, fake_cpu: Cpus) -> None:
    tree.cores([i, i + 64] for i in range(64))
    tree.caches(0, ("32K", "0,64"), ("1024K", "0,64"), ("32768K", "0-7,64-71"))
    tree.nodes("0-63", "64-127")
    tree.memory(1 << 20)
    fake = fake_cpu("zen4")

    def best(work: Callable[[], object]) -> float:
        """Return the best of ten CPU times, because other tests run beside this one."""
        found = math.inf
        for _ in range(10):
            start = time.process_time()
            work()
            found = min(found, time.process_time() - start)
        return found

    # About 20 ms, expressed as work of the interpreter, because the CPU may be emulated.
    unit = best(lambda: sum(i * i for i in range(100_000)))
    assert best(lambda: recorded(tree, fake, range(128))) < 4 * unit


def test_frozen_hashable_picklable(tree: Tree, fake_cpu: Cpus) -> None:
    machine = recorded(tree, fake_cpu("zen4"), [0, 1])
    with pytest.raises(dataclasses.FrozenInstanceError):
        machine.quota = 1.0  # type: ignore[misc]
    with pytest.raises(TypeError):
        machine.fma_per_cycle["avx512"] = 2  # type: ignore[index]
    assert pickle.loads(pickle.dumps(machine)) == machine
    assert hash(dataclasses.replace(machine)) == hash(machine)
    other = dataclasses.replace(machine, fma_per_cycle={"portable": 1})
    assert other != machine
    assert Machine(**machine.as_dict()) == machine


@pytest.mark.parametrize(
    ("arch", "cap", "usable"),
    [
        ("AMD64", None, "portable avx2"),
        ("AMD64", "avx512", "portable avx2"),
        ("AMD64", "avx2", "portable avx2"),
        ("AMD64", "portable", "portable"),
        ("arm64", None, "portable neon fp16"),
        ("arm64", "fp16", "portable neon fp16"),
        ("arm64", "neon", "portable neon"),
        ("arm64", "portable", "portable"),
    ],
)
def test_usable_isas(arch: str, cap: str | None, usable: str) -> None:
    isas = ("portable", "avx2") if arch == "AMD64" else ("portable", "neon", "fp16")
    assert Machine(arch=arch, isas=isas).usable_isas(cap) == tuple(usable.split())


@pytest.mark.parametrize(
    ("arch", "cap", "names"),
    [
        ("x86_64", "sse", ", ".join(LADDERS["x86_64"])),
        ("x86_64", "neon", ", ".join(LADDERS["x86_64"])),
        ("aarch64", "avx2", ", ".join(LADDERS["aarch64"])),
        ("ppc64le", "avx2", "portable"),
    ],
)
def test_usable_isas_of_an_unknown_cap(arch: str, cap: str, names: str) -> None:
    with pytest.raises(ValueError) as caught:
        Machine(arch=arch).usable_isas(cap)
    assert str(caught.value) == f"cap is {cap!r}: expected one of {names} on {arch}"


@pytest.mark.parametrize("permitted", [True, False, None])
def test_tiles_are_the_process_s_to_ask_for(
    tree: Tree, fake_cpu: Cpus, permitted: bool | None
) -> None:
    """This process may be refused tiles that CPU and system have."""
    fake, asked = fake_cpu("granite_rapids"), []

    def permit() -> bool:
        asked.append(permitted)
        return bool(permitted)

    machine = recorded(tree, fake, [0], None if permitted is None else permit)
    assert ("amx" in machine.isas) == bool(permitted)
    assert machine.isas[-2 if permitted else -1] == "avx512bf16"
    assert asked == ([] if permitted is None else [permitted])


def test_tiles_that_are_not_there_are_not_asked_for(tree: Tree, fake_cpu: Cpus) -> None:
    machine = recorded(tree, fake_cpu("zen4"), [0], never)
    assert machine.isas[-1] == "avx512"


def test_this_machine() -> None:
    """Compared with the standard library's facts about this machine."""
    machine = current()
    assert machine is current()
    if hasattr(os, "sched_getaffinity"):
        assert machine.affinity == tuple(sorted(os.sched_getaffinity(0)))
    assert machine.isas[0] == "portable"
    assert {key.partition("/")[0] for key in machine.fma_per_cycle} == set(machine.isas)
    assert {*machine.affinity} <= {cpu for core in machine.cores for cpu in core}
    assert 8 * KIB <= machine.l1d_bytes <= machine.l2_bytes
    assert machine.line_bytes in (32, 64, 128, 256)
    assert machine.memory_bytes > 64 * MIB


def test_this_machine_agrees_with_the_kernel() -> None:
    """The kernel lists a CPU's features only where it saves their registers, as we do."""
    if canonical(here()) != "x86_64":
        pytest.skip("/proc/cpuinfo lists no x86 features, or those of an emulator's host")
    try:
        with open("/proc/cpuinfo") as file:
            flags = next((line.split() for line in file if line.startswith("flags")), None)
    except OSError:
        flags = None
    if flags is None:
        pytest.skip("this system lists no x86 features in /proc/cpuinfo")
    flags = set(flags) - absent.flags()  # features that this run does without
    isas = current().isas
    avx2 = {"avx", "avx2", "fma", "bmi2"} <= flags
    assert ("avx2" in isas) == avx2
    avx512 = {"avx512f", "avx512bw", "avx512vl", "avx512dq"} <= flags
    assert ("avx512" in isas) == (avx2 and avx512)
    vnni = avx2 and avx512 and "avx512_vnni" in flags
    assert ("avx512vnni" in isas) == vnni
    assert ("avx512bf16" in isas) == (vnni and "avx512_bf16" in flags)
    assert ("avxvnni" in isas) == (avx2 and "avx_vnni" in flags)


# Two nodes, which the system numbers 0 and 8, of two cores with two threads.
POWER = Machine(
    cores=((0, 1), (2, 3), (4, 5), (6, 7)),
    affinity=(1, 2, 3, 6),
    numa_nodes=((0, 1, 2, 3), (4, 5, 6, 7)),
    node_ids=(0, 8),
    node_memory=(1 << 30, 2 << 30),
)


def test_usable_cores() -> None:
    assert POWER.usable_cores() == ((1,), (2, 3), (6,))
    assert POWER.usable_cores(0) == ((1,), (2, 3))
    assert POWER.usable_cores(node=8) == ((6,),)


def test_a_cpu_that_no_core_lists_counts_as_one() -> None:
    found = Machine(cores=((0, 1),), affinity=(1, 5, 4), numa_nodes=((0, 1, 5),))
    assert found.usable_cores() == ((1,), (4,), (5,))
    assert found.usable_cores(0) == ((1,), (5,))


@pytest.mark.parametrize("node", [1, 2, -1])
def test_unknown_node(node: int) -> None:
    with pytest.raises(ValueError, match=f"node is {node}: expected one of 0, 8"):
        POWER.usable_cores(node)


def test_node_of() -> None:
    assert [POWER.node_of(cpu) for cpu in (0, 3, 4, 7, 8, -1)] == [0, 0, 8, 8, None, None]


def test_nodes_are_numbered_where_nothing_is_said() -> None:
    found = Machine(numa_nodes=((0,), (1,), (2,)))
    assert (found.node_ids, found.node_memory) == ((0, 1, 2), (0, 0, 0))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"node_ids": (0, 1, 2)}, r"node_ids is \(0, 1, 2\): expected one for each of 2"),
        ({"node_memory": (5,)}, r"node_memory is \(5,\): expected one for each of 2"),
    ],
)
def test_as_many_ids_as_nodes(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Machine(numa_nodes=((0,), (1,)), **wrong)
