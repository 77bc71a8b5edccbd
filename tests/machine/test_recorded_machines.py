"""Whole recorded machines: facts found in their files, and default teams."""

from __future__ import annotations

import io
import os
import pickle
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from pplconv.commands import info
from pplconv.config import Settings
from pplconv.machine import Machine, detect
from pplconv.runtime import explain_default_threads
from tests.machine.recorded import MACHINES, MOUNTS_V1, MOUNTS_V2, Recording, blocks, ranges, xeon
from tests.machine.recorded_arm import M1_MACHINE, described, no_sysctl, sysctl_of
from tests.machine.recorded_x86 import Cpus

Laid = Callable[[str], tuple[Path, Recording]]
KIB = 1 << 10


def look(root: Path, machine: Recording, affinity: Iterable[int] | None = None) -> Machine:
    """Describe a recorded machine whose files lie at `root`."""
    return machine.described(root, machine.online if affinity is None else affinity)


@pytest.fixture(scope="module")
def laid(tmp_path_factory: pytest.TempPathFactory) -> Laid:
    """Files of a recorded machine by name, written once and only read."""
    done: dict[str, tuple[Path, Recording]] = {}

    def lay(name: str) -> tuple[Path, Recording]:
        if name not in done:
            machine = MACHINES[name]()
            done[name] = (tmp_path_factory.mktemp(name), machine)
            machine.lay(done[name][0])
        return done[name]

    return lay


def look_at(root: Path, machine: Recording, affinity: Iterable[int] | None = None) -> Machine:
    """Write the files of a recorded machine, and describe it."""
    machine.lay(root)
    return look(root, machine, affinity)


def team(machine: Machine) -> tuple[int, str]:
    return explain_default_threads(Settings(), machine)


def tuples(groups: Iterable[Iterable[int]]) -> tuple[tuple[int, ...], ...]:
    return tuple(sorted(tuple(sorted(group)) for group in groups))


@pytest.mark.parametrize("name", MACHINES)
def test_what_the_files_say(laid: Laid, name: str) -> None:
    root, facts = laid(name)
    machine = look(root, facts)
    assert machine.cores == machine.usable_cores() == tuples(facts.cores)
    assert machine.packages == tuples(facts.packages)
    assert machine.node_ids == tuple(facts.nodes)
    assert machine.numa_nodes == tuple(tuple(sorted(cpus)) for cpus, _ in facts.nodes.values())
    assert machine.node_memory == tuple(kib * KIB for _, kib in facts.nodes.values())
    total = facts.total_kib or sum(kib for _, kib in facts.nodes.values())
    assert machine.memory_bytes == total * KIB
    assert machine.quota is None
    assert Machine(**machine.as_dict()) == machine
    assert pickle.loads(pickle.dumps(machine)) == machine


@pytest.mark.parametrize(
    ("name", "threads", "why"),
    [
        ("virtual_machine", 2, "2 physical cores in the affinity mask"),
        ("kunpeng", 128, "128 physical cores in the affinity mask"),
        (
            "epyc",
            128,
            "128 physical cores in the affinity mask, one thread for each core rather than for "
            "each of 256 CPUs",
        ),
        (
            "xeon",
            40,
            "40 physical cores in the affinity mask, one thread for each core rather than for "
            "each of 80 CPUs",
        ),
        (
            "laptop",
            14,
            "14 physical cores in the affinity mask, 8 of them efficiency cores, one thread for "
            "each core rather than for each of 20 CPUs",
        ),
        ("board", 8, "8 physical cores in the affinity mask, 4 of them efficiency cores"),
        ("graviton_2", 64, "64 physical cores in the affinity mask"),
        ("graviton_3", 64, "64 physical cores in the affinity mask"),
        ("graviton_4", 96, "96 physical cores in the affinity mask"),
        ("a64fx", 48, "48 physical cores in the affinity mask"),
    ],
)
def test_default_team(laid: Laid, name: str, threads: int, why: str) -> None:
    assert team(look(*laid(name))) == (threads, why)


def test_virtual_machine(laid: Laid) -> None:
    machine = look(*laid("virtual_machine"))
    assert (machine.family, machine.model, machine.isas[-1]) == (6, 207, "avx512")
    assert (machine.l1d_bytes, machine.l2_bytes, machine.l3_bytes) == (
        48 * KIB,
        2048 * KIB,
        266240 * KIB,
    )
    assert machine.affinity == (0, 1)
    assert machine.efficiency_cores == ()


def test_kunpeng(laid: Laid) -> None:
    machine = look(*laid("kunpeng"))
    assert (machine.vendor, machine.family, machine.model) == ("HiSilicon", 0x48, 0xD01)
    assert machine.isas == ("portable", "neon", "fp16", "dotprod")
    assert machine.features == ("asimd", "fphp", "asimdhp", "asimddp", "asimdfhm")
    assert machine.core_kinds == ((0x481FD010, tuple(range(128))),)
    assert len(machine.packages) == 2
    assert [len(machine.usable_cores(node)) for node in machine.node_ids] == [32] * 4
    assert (machine.l3_bytes, machine.l3_cpus) == (32768 * KIB, 32)
    assert (machine.l1d_bytes, machine.line_bytes) == (64 * KIB, 64)
    assert [machine.node_of(cpu) for cpu in (0, 31, 32, 127, 128)] == [0, 0, 1, 3, None]


def test_epyc(laid: Laid) -> None:
    machine = look(*laid("epyc"))
    assert machine.isas[-1] == "avx2"
    assert (len(machine.packages), len(machine.numa_nodes)) == (2, 8)
    assert machine.usable_cores(7) == tuple((at, at + 128) for at in range(112, 128))
    # One complex of eight cores, less than a node.
    assert (machine.l3_cpus, machine.l2_cpus) == (16, 2)
    assert machine.node_of(128 + 17) == 1


def test_xeon(laid: Laid) -> None:
    """Even CPUs on one socket, odd ones on the other."""
    machine = look(*laid("xeon"))
    assert machine.packages == (tuple(range(0, 80, 2)), tuple(range(1, 80, 2)))
    assert machine.usable_cores(1) == tuple((at, at + 40) for at in range(1, 40, 2))
    assert (machine.l3_bytes, machine.l3_cpus) == (28160 * KIB, 40)


def test_laptop(laid: Laid) -> None:
    root, facts = laid("laptop")
    machine = look(root, facts)
    assert (machine.model, machine.isas) == (0x9A, ("portable", "avx2")), "AVX-512 is fused off"
    assert (len(machine.cores), len(machine.affinity)) == (14, 20)
    assert machine.efficiency_cores == tuple(range(12, 20))
    assert (machine.l1d_bytes, machine.l2_bytes, machine.l2_cpus) == (48 * KIB, 1280 * KIB, 2)
    small = look(root, facts, range(12, 20))
    assert (small.l1d_bytes, small.l2_bytes, small.l2_cpus) == (32 * KIB, 2048 * KIB, 4)
    assert team(small) == (
        8,
        "8 physical cores in the affinity mask, 8 of them efficiency cores",
    )


def test_laptop_by_clock(tmp_path: Path) -> None:
    """Without two kinds of counters the clock decides; cores that turbo higher change nothing."""
    facts = MACHINES["laptop"]()
    del facts.files["/sys/devices/cpu_atom/cpus"]
    machine = look_at(tmp_path, facts)
    assert machine.efficiency_cores == tuple(range(12, 20))


def test_low_power_island(tmp_path: Path) -> None:
    """A third kind of core, counted by a third device."""
    facts = MACHINES["laptop"]()
    facts.files["/sys/devices/cpu_atom/cpus"] = "12-17"
    facts.files["/sys/devices/cpu_lowpower/cpus"] = "18-19"
    machine = look_at(tmp_path, facts)
    assert machine.efficiency_cores == tuple(range(12, 20))


def test_board(laid: Laid) -> None:
    machine = look(*laid("board"))
    assert machine.efficiency_cores == (0, 1, 2, 3)
    assert machine.features == ("asimd", "fphp", "asimdhp", "asimddp")
    assert machine.cpu_name == "Cortex-A76 + Cortex-A55"
    # The large cores', although CPU 0 is a small one.
    assert (machine.l1d_bytes, machine.l2_bytes) == (64 * KIB, 512 * KIB)


def containers() -> list[tuple[str, dict[str, str]]]:
    """1.5 CPUs, as v1 and v2 show it inside a container and on the host."""
    path = "/docker/4bf1"
    return [
        (
            "v1",
            {
                "/proc/self/cgroup": f"11:cpuset:{path}\n4:cpu,cpuacct:{path}\n0::/system.slice",
                "/proc/self/mountinfo": MOUNTS_V1.format(cpu=path, cpuset=path),
                "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "150000",
                "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000",
                "/sys/fs/cgroup/cpuset/cpuset.cpus": "0-79",
                "/sys/fs/cgroup/cpuset/cpuset.effective_cpus": "0-79",
            },
        ),
        (
            "v2",
            {
                "/proc/self/cgroup": "0::/",
                "/proc/self/mountinfo": MOUNTS_V2,
                "/sys/fs/cgroup/cpu.max": "150000 100000",
                "/sys/fs/cgroup/cpuset.cpus": "",
                "/sys/fs/cgroup/cpuset.cpus.effective": "0-79",
            },
        ),
        (
            "v2, seen from the host",
            {
                "/proc/self/cgroup": "0::/system.slice/docker-4bf1.scope",
                "/proc/self/mountinfo": MOUNTS_V2,
                "/sys/fs/cgroup/cpuset.cpus.effective": "0-79",
                "/sys/fs/cgroup/system.slice/cpu.max": "max 100000",
                "/sys/fs/cgroup/system.slice/docker-4bf1.scope/cpu.max": "150000 100000",
            },
        ),
    ]


@pytest.mark.parametrize("files", [pytest.param(files, id=name) for name, files in containers()])
def test_container_with_one_and_a_half_cpus(tmp_path: Path, files: dict[str, str]) -> None:
    facts = replace(xeon(), files=files)
    machine = look_at(tmp_path, facts)
    assert machine.quota == 1.5
    assert team(machine) == (2, "CPU quota 1.5, below 40 physical cores in the affinity mask")


def cpusets(cpus: str) -> dict[str, dict[str, str]]:
    return {
        "v1": {
            "/proc/self/cgroup": "11:cpuset:/job/step\n4:cpu,cpuacct:/\n0::/",
            "/proc/self/mountinfo": MOUNTS_V1.format(cpu="/", cpuset="/"),
            "/sys/fs/cgroup/cpuset/cpuset.cpus": "0-255",
            "/sys/fs/cgroup/cpuset/job/step/cpuset.cpus": cpus,
        },
        # The step has no set of its own, so that of the job around it holds.
        "v2": {
            "/proc/self/cgroup": "0::/job/step",
            "/proc/self/mountinfo": MOUNTS_V2,
            "/sys/fs/cgroup/cpuset.cpus.effective": "0-255",
            "/sys/fs/cgroup/job/cpuset.cpus.effective": cpus,
            "/sys/fs/cgroup/job/step/cpu.max": "max 100000",
        },
    }


@pytest.mark.parametrize("version", ["v1", "v2"])
@pytest.mark.parametrize("call", ["answers", "is denied", "is denied, /proc tells"])
def test_cpuset_that_spans_two_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, call: str
) -> None:
    """Cores 28 to 35 of a Kunpeng, half of them on either node."""
    facts = MACHINES["kunpeng"]()
    facts.files |= cpusets("28-35")[version]
    if call == "is denied, /proc tells":
        facts.files["/proc/self/status"] = "Name:\tserver\nCpus_allowed_list:\t28-35"

    def asked(pid: int) -> set[int]:
        if call != "answers":
            raise PermissionError(1, "Operation not permitted")
        return set(range(28, 36))

    monkeypatch.setattr(os, "sched_getaffinity", asked, raising=False)
    facts.lay(tmp_path)
    machine = facts.described(tmp_path, None)
    assert machine.affinity == tuple(range(28, 36))
    assert machine.usable_cores(0) == ((28,), (29,), (30,), (31,))
    assert machine.usable_cores(1) == ((32,), (33,), (34,), (35,))
    assert machine.usable_cores(2) == ()
    assert (len(machine.cores), len(machine.numa_nodes)) == (128, 4)
    assert team(machine) == (8, "8 physical cores in the affinity mask")


def test_mask_with_siblings(tmp_path: Path) -> None:
    """On an EPYC with both threads of four cores, and one thread of two more."""
    facts = MACHINES["epyc"]()
    cpus = [*range(12, 18), *range(142, 146)]
    machine = look_at(tmp_path, facts, cpus)
    assert machine.affinity == tuple(cpus)
    assert machine.usable_cores(0) == ((12,), (13,), (14, 142), (15, 143))
    assert machine.usable_cores(1) == ((16, 144), (17, 145))
    assert machine.node_memory[:2] == (65811712 * KIB,) * 2
    assert team(machine)[0] == 6


def test_offline_core(tmp_path: Path) -> None:
    """One core is off, and of another its second thread."""
    facts = xeon()
    facts.offline = [3, 43, 45]
    machine = look_at(tmp_path, facts)
    assert (len(machine.cores), sum(map(len, machine.cores))) == (39, 77)
    assert (5,) in machine.cores
    assert machine.node_of(3) is None
    assert machine.packages[1] == machine.numa_nodes[1]
    assert len(machine.packages[1]) == 37
    assert team(machine)[0] == 39


def test_mask_that_names_cpus_that_are_off(tmp_path: Path) -> None:
    """/proc lists all CPUs that could ever be present."""
    facts = xeon()
    facts.offline = [3, 43, 45]
    machine = look_at(tmp_path, facts, range(80))
    assert machine.affinity == tuple(facts.online)
    assert team(machine)[0] == 39


# Systems without such files.


@pytest.fixture
def without_files(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A system of eight CPUs without affinity masks; psutil knows nothing of it."""

    def unknown(*args: object, **kwargs: object) -> int:
        raise NotImplementedError

    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.delattr(psutil.Process, "cpu_affinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.setattr(psutil, "cpu_count", unknown)
    monkeypatch.setattr(psutil, "virtual_memory", unknown)
    return monkeypatch


def test_apple_silicon(tmp_path: Path, without_files: pytest.MonkeyPatch) -> None:
    machine = described(tmp_path, affinity=None, ask=sysctl_of(M1_MACHINE, "Apple M1"))
    assert (machine.vendor, machine.cpu_name) == ("Apple", "Apple M1")
    assert machine.isas == ("portable", "neon", "fp16", "dotprod")
    assert (machine.fma_per_cycle["neon"], machine.loads_per_cycle) == (4, 3.0)
    assert (machine.l1d_bytes, machine.line_bytes) == (128 * KIB, 128)
    assert (machine.l2_bytes, machine.l2_cpus, machine.l3_bytes) == (12288 * KIB, 4, 0)
    assert machine.cores == tuple((cpu,) for cpu in range(8))
    assert machine.efficiency_cores == (0, 1, 2, 3)
    assert machine.packages == machine.numa_nodes == (tuple(range(8)),)
    assert machine.memory_bytes == machine.node_memory[0] == 16 << 30
    assert machine.quota is None
    assert team(machine) == (
        8,
        "8 physical cores in the affinity mask, 4 of them efficiency cores",
    )


def test_intel_mac(tmp_path: Path, without_files: pytest.MonkeyPatch, fake_cpu: Cpus) -> None:
    fake = fake_cpu("haswell")
    values = {
        "hw.physicalcpu": 4,
        "hw.memsize": 16 << 30,
        "hw.cachelinesize": 64,
        "hw.l1dcachesize": 32768,
        "hw.l2cachesize": 262144,
        "hw.l3cachesize": 6291456,
    }
    machine = detect(
        root=str(tmp_path),
        arch="x86_64",
        cpuid=fake.cpuid,
        xgetbv=fake.xgetbv,
        ask=sysctl_of(values, fake.brand),
    )
    assert machine.cores == ((0, 1), (2, 3), (4, 5), (6, 7))
    assert (machine.l2_bytes, machine.l3_bytes) == (256 * KIB, 6144 * KIB)
    assert machine.efficiency_cores == ()
    assert team(machine)[0] == 4


@pytest.mark.parametrize(
    ("leaves", "extended", "cores"),
    [
        ({0xB: [(1, 2, 1 << 8, 0), (4, 8, 2 << 8 | 1, 0)]}, 0x80000008, 4),
        ({0xB: [(0, 1, 1 << 8, 0), (4, 8, 2 << 8 | 1, 0)]}, 0x80000008, 8),
        ({0x80000001: [(0, 0, 1 << 22, 0)], 0x8000001E: [(0, 1 << 8, 0, 0)]}, 0x8000001E, 4),
        # Without that bit the second leaf means nothing.
        ({0x80000001: [(0, 0, 0, 0)], 0x8000001E: [(0, 1 << 8, 0, 0)]}, 0x8000001E, 8),
        ({}, 0x80000008, 8),
    ],
)
def test_only_cpuid(
    tmp_path: Path,
    without_files: pytest.MonkeyPatch,
    fake_cpu: Cpus,
    leaves: dict[int, list[tuple[int, int, int, int]]],
    extended: int,
    cores: int,
) -> None:
    fake = fake_cpu("skylake_x", caches=leaves, last_extended=extended)
    machine = detect(
        root=str(tmp_path), arch="AMD64", cpuid=fake.cpuid, xgetbv=fake.xgetbv, ask=no_sysctl
    )
    assert (len(machine.cores), len(machine.affinity)) == (cores, 8)
    assert machine.memory_bytes == 0
    assert team(machine)[0] == cores


def test_psutil_counts_hybrid_cores(tmp_path: Path, without_files: pytest.MonkeyPatch) -> None:
    without_files.setattr(os, "cpu_count", lambda: 20)
    without_files.setattr(psutil, "cpu_count", lambda logical=True: 20 if logical else 14)
    machine = described(tmp_path, affinity=None)
    assert machine.cores == (
        *((at, at + 1) for at in range(0, 12, 2)),
        *((at,) for at in range(12, 20)),
    )
    assert team(machine)[0] == 14


def test_cpuinfo_without_sysfs(tmp_path: Path, without_files: pytest.MonkeyPatch) -> None:
    """Two sockets of two cores with two threads, in a root without /sys."""
    text = "\n\n".join(
        f"processor\t: {cpu}\nphysical id\t: {cpu % 2}\ncore id\t\t: {cpu // 2 % 2 * 4}"
        for cpu in range(8)
    )
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cpuinfo").write_text(text)
    machine = detect(root=str(tmp_path), arch="ppc64le", ask=no_sysctl)
    assert machine.cores == ((0, 4), (1, 5), (2, 6), (3, 7))
    assert machine.packages == ((0, 2, 4, 6), (1, 3, 5, 7))
    assert team(machine)[0] == 4


def test_blocks_and_ranges() -> None:
    """The builder of these machines itself."""
    assert blocks(2, 3) == [[0, 1, 2], [3, 4, 5]]
    assert ranges([8, 0, 1, 2, 5]) == "0-2,5,8"
    assert ranges([]) == ""


@pytest.mark.parametrize(
    ("name", "cores", "affinity", "nodes"),
    [
        (
            "virtual_machine",
            "1 socket, 2 physical, 2 logical",
            "2 CPUs: 0-1 (2 cores)",
            ["0: CPUs 0-1, 2 cores, 8.088 GiB"],
        ),
        (
            "kunpeng",
            "2 sockets, 128 physical, 128 logical",
            "128 CPUs: 0-127 (128 cores)",
            [
                "0: CPUs 0-31, 32 cores, 63.25 GiB",
                "1: CPUs 32-63, 32 cores, 63.24 GiB",
                "2: CPUs 64-95, 32 cores, 63.24 GiB",
                "3: CPUs 96-127, 32 cores, 63.23 GiB",
            ],
        ),
        (
            "laptop",
            "1 socket, 14 physical (8 efficiency cores), 20 logical",
            "20 CPUs: 0-19 (14 cores)",
            ["0: CPUs 0-19, 14 cores, 31.05 GiB"],
        ),
    ],
)
def test_shown(
    laid: Laid,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    cores: str,
    affinity: str,
    nodes: list[str],
) -> None:
    # A cap on this machine need not be on the ladder of the recorded one.
    monkeypatch.delenv("PPLCONV_MAX_ISA", raising=False)
    machine = look(*laid(name))
    monkeypatch.setattr(info, "current_machine", lambda: machine)
    monkeypatch.setattr(info, "openmp_runtimes", list)
    text = io.StringIO()
    info.show_config(text)
    lines = text.getvalue().splitlines()
    for label, texts in (("cores", [cores]), ("affinity", [affinity]), ("NUMA nodes", nodes)):
        first = next(at for at, line in enumerate(lines) if line.startswith(f"{label:<14}"))
        assert [line[14:] for line in lines[first : first + len(texts)]] == texts
        assert lines[first + len(texts)][:14].strip(), "the next line has a label of its own"
