"""Recorded machines as targets of plans, each with the kernels that are built for it."""

from __future__ import annotations

from functools import cache
from unittest.mock import patch

from benchmarks.corpus import kernel_rows as table
from pplconv.machine import Machine, detect, kernel_files
from pplconv.planner import Target
from tests.machine.recorded import MACHINES
from tests.machine.recorded_arm import M1_SYSCTL, sysctl_of
from tests.machine.recorded_x86 import CPUS, FakeCpu

APPLE_M1 = M1_SYSCTL | {
    "hw.ncpu": 8,
    "hw.physicalcpu": 8,
    "hw.memsize": 17179869184,
    "hw.cachelinesize": 128,
    "hw.nperflevels": 2,
    "hw.perflevel0.logicalcpu": 4,
    "hw.perflevel0.l1dcachesize": 131072,
    "hw.perflevel0.l2cachesize": 12582912,
    "hw.perflevel0.cpusperl2": 4,
    "hw.perflevel1.logicalcpu": 4,
}
TARGETS = (*MACHINES, "apple_m1")


@cache
def recorded(name: str) -> Machine:
    """Describe a machine from its recorded files, held in memory."""
    if name == "apple_m1":  # macOS has none
        with patch.object(kernel_files, "read_bytes", lambda path: b""):
            return detect(
                auxval=lambda kind: 0, register=lambda: 0, affinity=range(8), arch="arm64",
                ask=sysctl_of(APPLE_M1, "Apple M1"),
            )  # fmt: skip
    facts = MACHINES[name]()
    tree = dict(facts.every_file())
    cpu = FakeCpu(**{**CPUS[facts.cpu], **facts.cpu_changes})  # type: ignore[arg-type]
    with patch.object(kernel_files, "read_bytes", lambda path: tree.get(path, "").encode()):
        return detect(
            cpuid=cpu.cpuid, xgetbv=cpu.xgetbv, auxval=facts.auxval, register=lambda: 0,
            affinity=facts.online, arch=facts.arch, ask=dict[str, bytes]().get,
        )  # fmt: skip


@cache
def target_of(name: str) -> Target:
    """Machine and kernels; the start of a team costs the default of unknown machines."""
    machine = recorded(name)
    return Target.of(machine, list(table(machine.arch)))
