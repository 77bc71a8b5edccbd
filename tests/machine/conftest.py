"""Builders of recorded machines: file trees below a temporary directory."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.machine.recorded_x86 import CPUS, Cpus, FakeCpu


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
        """Write caches of these (size, sharing CPUs); an instruction cache comes second."""
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
        """Write mounts, each (group at the mount point, mount point, file system, its options)."""
        rows = ["22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/root rw"]
        rows += [
            f"{30 + i} 22 0:{30 + i} {group} {point} rw,nosuid shared:{i} - {kind} {kind} {options}"
            for i, (group, point, kind, options) in enumerate(entries)
        ]
        self.file("/proc/self/mountinfo", "\n".join(rows))


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """An empty machine."""
    return Tree(tmp_path)


@pytest.fixture
def fake_cpu() -> Cpus:
    """Return a function that builds a recorded CPU by name, some of its registers changed."""

    def build(name: str, **changes: object) -> FakeCpu:
        return FakeCpu(**{**CPUS[name], **changes})  # type: ignore[arg-type]

    return build
