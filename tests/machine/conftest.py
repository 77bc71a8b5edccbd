"""Builders of recorded machines: file trees below a temporary directory, CPUID registers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

_HERE = str(Path(__file__).resolve().parent)
if _HERE not in sys.path:
    sys.path.append(_HERE)

Registers = tuple[int, int, int, int]


def span(ids: Iterable[int]) -> str:
    """Ids as the kernel lists them, without ranges: 0,1,2."""
    return ",".join(str(number) for number in ids)


class Tree:
    """Files of a machine, written one part at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def root(self) -> str:
        return str(self.path)

    def file(self, name: str, text: str) -> None:
        target = self.path / name.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text + "\n")

    def cores(self, groups: Iterable[Iterable[int]]) -> None:
        """Online CPUs, one group of hardware threads for each core."""
        online: list[int] = []
        for group in groups:
            threads = list(group)
            online += threads
            for cpu in threads:
                base = f"/sys/devices/system/cpu/cpu{cpu}/topology"
                self.file(f"{base}/thread_siblings_list", span(threads))
        self.file("/sys/devices/system/cpu/online", span(sorted(online)))

    def cache(
        self, cpu: int, index: int, level: int, kind: str, size: str, shared: str, line: int = 64
    ) -> None:
        base = f"/sys/devices/system/cpu/cpu{cpu}/cache/index{index}"
        self.file(f"{base}/level", str(level))
        self.file(f"{base}/type", kind)
        self.file(f"{base}/size", size)
        self.file(f"{base}/shared_cpu_list", shared)
        self.file(f"{base}/coherency_line_size", str(line))

    def caches(
        self, cpu: int, l1: tuple[str, str], l2: tuple[str, str], l3: tuple[str, str] | None
    ) -> None:
        """(size, sharing CPUs) of each level, with the instruction cache between them."""
        self.cache(cpu, 0, 1, "Data", *l1)
        self.cache(cpu, 1, 1, "Instruction", "64K", l1[1])
        self.cache(cpu, 2, 2, "Unified", *l2)
        if l3 is not None:
            self.cache(cpu, 3, 3, "Unified", *l3)

    def nodes(self, *cpulists: str) -> None:
        self.file("/sys/devices/system/node/online", span(range(len(cpulists))))
        for number, cpulist in enumerate(cpulists):
            self.file(f"/sys/devices/system/node/node{number}/cpulist", cpulist)

    def memory(self, kib: int) -> None:
        self.file("/proc/meminfo", f"MemTotal:       {kib} kB\nMemFree:        1024 kB")

    def cgroup(self, *lines: str) -> None:
        self.file("/proc/self/cgroup", "\n".join(lines))

    def mounts(self, *entries: tuple[str, str, str, str]) -> None:
        """(group at the mount point, mount point, file system, its options)."""
        rows = ["22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/root rw"]
        rows += [
            f"{30 + i} 22 0:{30 + i} {group} {point} rw,nosuid shared:{i} - {kind} {kind} {options}"
            for i, (group, point, kind, options) in enumerate(entries)
        ]
        self.file("/proc/self/mountinfo", "\n".join(rows))


@dataclass
class FakeCpu:
    """A CPU as its CPUID instruction and XCR0 show it."""

    vendor: str
    signature: int  # leaf 1, EAX
    features1: int = 0  # leaf 1, ECX
    features7: int = 0  # leaf 7, EBX
    xcr0: int | None = None
    brand: str = ""
    last: int = 0x16
    last_extended: int = 0x80000008
    caches: dict[int, list[Registers]] = field(default_factory=dict)
    xgetbv_calls: int = 0

    def cpuid(self, leaf: int, subleaf: int) -> Registers:
        basic = leaf < 0x80000000
        if basic and leaf > self.last:
            return (0xDEADBEEF,) * 4  # as Intel does: something that belongs to another leaf
        if not basic and leaf > self.last_extended:
            return (0xDEADBEEF,) * 4
        if leaf == 0:
            b, d, c = _words(self.vendor, 12)
            return self.last, b, c, d
        if leaf == 0x80000000:
            return self.last_extended, 0, 0, 0
        if leaf == 1:
            return self.signature, 0, self.features1, 0
        if leaf == 7 and subleaf == 0:
            return 0, self.features7, 0, 0
        if 0x80000002 <= leaf <= 0x80000004:
            part = _words(self.brand, 48)[(leaf - 0x80000002) * 4 :][:4]
            return part[0], part[1], part[2], part[3]
        rows = self.caches.get(leaf, [])
        return rows[subleaf] if subleaf < len(rows) else (0, 0, 0, 0)

    def xgetbv(self, index: int) -> int | None:
        assert index == 0
        self.xgetbv_calls += 1
        return self.xcr0


def _words(text: str, length: int) -> list[int]:
    raw = text.encode().ljust(length, b"\0")
    return [int.from_bytes(raw[i : i + 4], "little") for i in range(0, length, 4)]


FMA, OSXSAVE, AVX, F16C = 1 << 12, 1 << 27, 1 << 28, 1 << 29
AVX2, BMI2 = 1 << 5, 1 << 8
AVX512F, AVX512DQ, AVX512BW, AVX512VL = 1 << 16, 1 << 17, 1 << 30, 1 << 31
AVX512 = AVX512F | AVX512DQ | AVX512BW | AVX512VL

CPUS: dict[str, dict[str, object]] = {
    "zen4": {
        "vendor": "AuthenticAMD",
        "signature": 0x00A10F11,
        "features1": FMA | OSXSAVE | AVX | F16C,
        "features7": AVX2 | BMI2 | AVX512,
        "xcr0": 0x2E7,
        "brand": "AMD EPYC 9654 96-Core Processor                ",
    },
    "skylake_x": {
        "vendor": "GenuineIntel",
        "signature": 0x00050654,
        "features1": FMA | OSXSAVE | AVX | F16C,
        "features7": AVX2 | BMI2 | AVX512,
        "xcr0": 0x2FF,
        "brand": "   Intel(R) Xeon(R) Platinum 8180 CPU @ 2.50GHz",
    },
    "haswell": {
        "vendor": "GenuineIntel",
        "signature": 0x000306C3,
        "features1": FMA | OSXSAVE | AVX | F16C,
        "features7": AVX2 | BMI2,
        "xcr0": 0x7,
        "brand": "Intel(R) Core(TM) i7-4770 CPU @ 3.40GHz",
        "last": 0xD,
    },
    "sandy_bridge": {
        "vendor": "GenuineIntel",
        "signature": 0x000206A7,
        "features1": OSXSAVE | AVX,
        "features7": 0,
        "xcr0": 0x7,
        "brand": "Intel(R) Core(TM) i7-2600 CPU @ 3.40GHz",
        "last": 0xD,
    },
    "core2": {  # no XSAVE, and its last leaf lies below 7
        "vendor": "GenuineIntel",
        "signature": 0x000006F6,
        "features1": 0,
        "xcr0": None,
        "brand": "Intel(R) Core(TM)2 CPU 6600 @ 2.40GHz",
        "last": 0x2,
    },
}


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """An empty machine."""
    return Tree(tmp_path)


@pytest.fixture
def fake_cpu() -> Callable[..., FakeCpu]:
    """Recorded CPU by name, some of its registers changed."""

    def build(name: str, **changes: object) -> FakeCpu:
        return FakeCpu(**{**CPUS[name], **changes})  # type: ignore[arg-type]

    return build
