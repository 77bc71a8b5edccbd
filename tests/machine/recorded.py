"""Machines as their kernels describe them: facts as data, laid out as files below a directory.

Ids, sibling numbering, cache sizes and sharing are those of the real machines; memory is rounded
as kernels do, a little below what the slots hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pplconv.machine import Machine, detect
from tests.machine.recorded_arm import N1, V1, V2, V8_2, no_sysctl, words
from tests.machine.recorded_x86 import CPUS, FakeCpu

Groups = list[list[int]]


def ranges(ids: Iterable[int]) -> str:
    """Ids as the kernel lists them: 0-3,8."""
    spans: list[list[int]] = []
    for at in sorted(ids):
        if spans and at == spans[-1][1] + 1:
            spans[-1][1] = at
        else:
            spans.append([at, at])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)


def blocks(count: int, size: int) -> Groups:
    """`count` runs of `size` ids."""
    return [list(range(at * size, at * size + size)) for at in range(count)]


@dataclass
class Kind:
    """Caches and clock of one kind of core: KiB and kHz."""

    l1d: int
    l1i: int
    l2: int
    khz: int = 0
    capacity: int = 0


@dataclass
class Recording:
    """One machine."""

    cores: Groups
    packages: Groups
    nodes: dict[int, tuple[list[int], int]]  # number: CPUs, KiB of memory
    kinds: list[tuple[list[int], Kind]]  # CPUs of each kind
    l2_groups: Groups  # CPUs that share an L2
    l3: tuple[Groups, int]  # CPUs that share an L3, and its KiB
    lines: tuple[int, int] = (64, 64)  # bytes: L1 and L2, L3
    package_ids: list[int] = field(default_factory=lambda: [0, 1])
    total_kib: int = 0
    arch: str = "x86_64"
    cpu: str = "haswell"  # of `conftest.CPUS`
    cpu_changes: dict[str, object] = field(default_factory=dict)
    cpuinfo: str = ""
    features: str = ""  # of AArch64, as /proc/cpuinfo lists them
    midrs: list[tuple[list[int], int]] = field(default_factory=list)  # CPUs of each kind
    files: dict[str, str] = field(default_factory=dict)  # anything else
    offline: list[int] = field(default_factory=list)

    @property
    def present(self) -> list[int]:
        return sorted(cpu for core in self.cores for cpu in core)

    @property
    def online(self) -> list[int]:
        return [cpu for cpu in self.present if cpu not in self.offline]

    def lay(self, root: Path) -> None:
        """Write the files."""
        for name, text in self.every_file():
            target = root / name.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text + "\n")

    def auxval(self, kind: int) -> int:
        """Word of the auxiliary vector."""
        return words(self.features).get(kind, 0)

    def described(self, root: Path | str, affinity: Iterable[int] | None) -> Machine:
        """Describe the machine by the files below `root`, its CPU and this affinity mask."""
        cpu = FakeCpu(**{**CPUS[self.cpu], **self.cpu_changes})  # type: ignore[arg-type]
        return detect(
            root=str(root),
            cpuid=cpu.cpuid,
            xgetbv=cpu.xgetbv,
            auxval=self.auxval,
            register=lambda: 0,
            affinity=affinity,
            arch=self.arch,
            ask=no_sysctl,
        )

    def every_file(self) -> Iterator[tuple[str, str]]:
        """Path and text of each file."""
        base = "/sys/devices/system/cpu"
        for name in ("possible", "present"):
            yield f"{base}/{name}", ranges(self.present)
        yield f"{base}/online", ranges(self.online)
        yield f"{base}/offline", ranges(self.offline)
        for cpu in self.present:
            if cpu:
                yield f"{base}/cpu{cpu}/online", str(int(cpu in self.online))
        for kind_cpus, kind in self.kinds:
            for cpu in set(kind_cpus) & set(self.online):
                yield from self._cpu(f"{base}/cpu{cpu}", cpu, kind)
        for cpus, midr in self.midrs:
            for cpu in set(cpus) & set(self.online):
                yield f"{base}/cpu{cpu}/regs/identification/midr_el1", f"{midr:#018x}"
        yield "/sys/devices/system/node/online", ranges(self.nodes)
        for number, (cpus, kib) in self.nodes.items():
            node = f"/sys/devices/system/node/node{number}"
            yield f"{node}/cpulist", self._list(cpus)
            yield (
                f"{node}/meminfo",
                f"Node {number} MemTotal:       {kib} kB\nNode {number} MemFree:        4096 kB",
            )
        total = self.total_kib or sum(kib for _, kib in self.nodes.values())
        yield "/proc/meminfo", f"MemTotal:       {total} kB\nMemFree:         8192 kB"
        if self.cpuinfo:
            blocks = (f"processor\t: {cpu}\n{self.cpuinfo}" for cpu in self.online)
            yield "/proc/cpuinfo", "\n\n".join(blocks)
        yield from self.files.items()

    def _cpu(self, at: str, cpu: int, kind: Kind) -> Iterator[tuple[str, str]]:
        package = next(i for i, cpus in enumerate(self.packages) if cpu in cpus)
        siblings = self._around(self.cores, cpu)
        yield f"{at}/topology/thread_siblings_list", siblings
        yield f"{at}/topology/core_cpus_list", siblings
        yield f"{at}/topology/core_siblings_list", self._list(self.packages[package])
        yield f"{at}/topology/package_cpus_list", self._list(self.packages[package])
        yield f"{at}/topology/physical_package_id", str(self.package_ids[package])
        if kind.khz:
            yield f"{at}/cpufreq/cpuinfo_max_freq", str(kind.khz)
        if kind.capacity:
            yield f"{at}/cpu_capacity", str(kind.capacity)
        caches = [
            (1, "Data", kind.l1d, siblings, self.lines[0]),
            (1, "Instruction", kind.l1i, siblings, self.lines[0]),
            (2, "Unified", kind.l2, self._around(self.l2_groups, cpu), self.lines[0]),
        ]
        if self.l3[1]:
            caches.append((3, "Unified", self.l3[1], self._around(self.l3[0], cpu), self.lines[1]))
        for index, (level, name, kib, shared, line) in enumerate(caches):
            entry = f"{at}/cache/index{index}"
            yield f"{entry}/level", str(level)
            yield f"{entry}/type", name
            yield f"{entry}/size", f"{kib}K"
            yield f"{entry}/shared_cpu_list", shared
            yield f"{entry}/coherency_line_size", str(line)

    def _list(self, cpus: Iterable[int]) -> str:
        return ranges(cpu for cpu in cpus if cpu not in self.offline)

    def _around(self, groups: Groups, cpu: int) -> str:
        return self._list(next(group for group in groups if cpu in group))


MOUNTS_V1 = """\
24 1 259:1 / / rw,relatime shared:1 - ext4 /dev/root rw
31 24 0:27 / /sys/fs/cgroup/unified rw,nosuid shared:9 - cgroup2 cgroup2 rw
33 24 0:30 {cpu} /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:15 - cgroup cgroup rw,cpu,cpuacct
36 24 0:33 {cpuset} /sys/fs/cgroup/cpuset rw,nosuid shared:18 - cgroup cgroup rw,cpuset"""
MOUNTS_V2 = """\
24 1 259:1 / / rw,relatime shared:1 - ext4 /dev/root rw
29 24 0:26 / /sys/fs/cgroup rw,nosuid,nodev shared:9 - cgroup2 cgroup2 rw,nsdelegate"""


def virtual_machine() -> Recording:
    """The machine on which this was first written: two cores of a server under KVM."""
    each = [[0], [1]]
    return Recording(
        cores=each,
        packages=[[0, 1]],
        # No node counts the memory that the hypervisor added later.
        nodes={0: ([0, 1], 8480980)},
        total_kib=24684092,
        kinds=[([0, 1], Kind(48, 32, 2048, capacity=1024))],
        l2_groups=each,
        l3=([[0, 1]], 266240),
        cpu="skylake_x",
        cpu_changes={"signature": 0x000C06F2, "brand": "Intel(R) Xeon(R) Processor"},
        files={
            "/proc/self/cgroup": "4:memory:/\n3:cpuset:/\n2:cpuacct:/\n1:cpu:/\n0::/",
            "/proc/self/mountinfo": (
                "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n"
                "34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset\n"
                "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw"
            ),
            "/sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1",
            "/sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
            "/sys/fs/cgroup/cpuset/cpuset.cpus": "0-1",
            "/sys/fs/cgroup/cpuset/cpuset.effective_cpus": "0-1",
        },
    )


def kunpeng() -> Recording:
    """2 x Kunpeng 920-6426: a node is a die of 32 cores; four cores share the tags of their L3."""
    return Recording(
        cores=blocks(128, 1),
        packages=blocks(2, 64),
        package_ids=[36, 3180],  # offsets in a firmware table
        nodes={at: (cpus, 66318284 - 4096 * at) for at, cpus in enumerate(blocks(4, 32))},
        kinds=[(list(range(128)), Kind(64, 64, 512, khz=2600000))],
        l2_groups=blocks(128, 1),
        l3=(blocks(4, 32), 32768),
        lines=(64, 128),
        arch="aarch64",
        cpuinfo=(
            "BogoMIPS\t: 200.00\n"
            "Features\t: fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid "
            "asimdrdm jscvt fcma dcpop asimddp asimdfhm\n"
            "CPU implementer\t: 0x48\nCPU architecture: 8\nCPU variant\t: 0x1\n"
            "CPU part\t: 0xd01\nCPU revision\t: 0"
        ),
        features=f"{V8_2} jscvt fcma dcpop asimddp asimdfhm",
    )


def epyc() -> Recording:
    """2 x EPYC 7763 with four nodes a socket; a core complex of eight cores has its own L3."""

    def both(groups: Groups) -> Groups:
        return [group + [cpu + 128 for cpu in group] for group in groups]

    return Recording(
        cores=both(blocks(128, 1)),
        packages=both(blocks(2, 64)),
        nodes={at: (cpus, 65811712) for at, cpus in enumerate(both(blocks(8, 16)))},
        kinds=[(list(range(256)), Kind(32, 32, 512, khz=3529052))],
        l2_groups=both(blocks(128, 1)),
        l3=(both(blocks(16, 8)), 32768),
        cpu="zen4",
        cpu_changes={
            "signature": 0x00A00F11,
            "brand": "AMD EPYC 7763 64-Core Processor",
            "features7": 1 << 5 | 1 << 8,
            "xcr0": 0x207,
        },
    )


def xeon() -> Recording:
    """2 x Xeon Gold 6148, in a server whose firmware numbers CPUs of both sockets in turn."""
    pairs = [[at, at + 40] for at in range(40)]
    sockets = [list(range(side, 80, 2)) for side in range(2)]
    return Recording(
        cores=pairs,
        packages=sockets,
        nodes={0: (sockets[0], 97487348), 1: (sockets[1], 99060400)},
        kinds=[(list(range(80)), Kind(32, 32, 1024, khz=3700000))],
        l2_groups=pairs,
        l3=(sockets, 28160),
        cpu="skylake_x",
        cpu_changes={"brand": "Intel(R) Xeon(R) Gold 6148 CPU @ 2.40GHz"},
    )


def laptop() -> Recording:
    """Core i7-12700H: six large cores with two threads, two modules of four small cores."""
    large, small = list(range(12)), list(range(12, 20))
    modules = [*([at, at + 1] for at in range(0, 12, 2)), [12, 13, 14, 15], [16, 17, 18, 19]]
    return Recording(
        cores=[*([at, at + 1] for at in range(0, 12, 2)), *([at] for at in small)],
        packages=[large + small],
        nodes={0: (large + small, 32563228)},
        # The two best large cores turbo a little higher than the others.
        kinds=[
            (large[:4], Kind(48, 32, 1280, khz=4700000)),
            (large[4:], Kind(48, 32, 1280, khz=4600000)),
            (small, Kind(32, 64, 2048, khz=3500000)),
        ],
        l2_groups=modules,
        l3=([large + small], 24576),
        cpu="haswell",
        cpu_changes={
            "signature": 0x000906A3,
            "brand": "12th Gen Intel(R) Core(TM) i7-12700H",
            "last": 0x20,
        },
        files={
            "/sys/devices/cpu_core/cpus": "0-11",
            "/sys/devices/cpu_atom/cpus": "12-19",
            "/proc/self/cgroup": "0::/user.slice/user-1000.slice/session-2.scope",
            "/proc/self/mountinfo": MOUNTS_V2,
            "/sys/fs/cgroup/user.slice/user-1000.slice/cpu.max": "max 100000",
            "/sys/fs/cgroup/cpuset.cpus.effective": "0-19",
        },
    )


def board() -> Recording:
    """RK3588, a board with four small and four large ARM cores and an L3 around both."""
    return Recording(
        cores=blocks(8, 1),
        packages=[list(range(8))],
        nodes={0: (list(range(8)), 7927340)},
        kinds=[
            ([0, 1, 2, 3], Kind(32, 32, 128, khz=1800000, capacity=414)),
            ([4, 5, 6, 7], Kind(64, 64, 512, khz=2304000, capacity=1024)),
        ],
        l2_groups=blocks(8, 1),
        l3=([list(range(8))], 3072),
        arch="aarch64",
        features=f"{V8_2} lrcpc dcpop asimddp",
        midrs=[([0, 1, 2, 3], 0x412FD050), ([4, 5, 6, 7], 0x414FD0B0)],
    )


def _graviton(count: int, midr: int, features: str, l2: int, l3: int) -> Recording:
    """One socket, one node."""
    cpus = list(range(count))
    return Recording(
        cores=blocks(count, 1),
        packages=[cpus],
        nodes={0: (cpus, count << 21)},
        kinds=[(cpus, Kind(64, 64, l2))],
        l2_groups=blocks(count, 1),
        l3=([cpus], l3),
        arch="aarch64",
        features=features,
        midrs=[(cpus, midr)],
    )


def graviton_2() -> Recording:
    """64 Neoverse-N1."""
    return _graviton(64, 0x413FD0C1, N1, 1024, 32768)


def graviton_3() -> Recording:
    """64 Neoverse-V1."""
    return _graviton(64, 0x411FD401, V1, 1024, 32768)


def graviton_4() -> Recording:
    """96 Neoverse-V2, with the larger L2 that the core may have."""
    return _graviton(96, 0x410FD4F1, V2, 2048, 36864)


def a64fx() -> Recording:
    """A64FX: four groups of twelve cores, each a node, around an L2 each; no L3."""
    groups = blocks(4, 12)
    return Recording(
        cores=blocks(48, 1),
        packages=[list(range(48))],
        nodes={at: (cpus, 8126464) for at, cpus in enumerate(groups)},
        kinds=[(list(range(48)), Kind(64, 64, 8192, khz=2200000))],
        l2_groups=groups,
        l3=([], 0),
        lines=(256, 256),
        arch="aarch64",
        features="fp asimd evtstrm sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm fcma dcpop "
        "sve",
        midrs=[(list(range(48)), 0x460F0010)],
    )


MACHINES: dict[str, Callable[[], Recording]] = {
    build.__name__: build
    for build in (
        *(virtual_machine, kunpeng, epyc, xeon, laptop, board),
        *(graviton_2, graviton_3, graviton_4, a64fx),
    )
}
