"""Recorded machines as targets of plans, each with the kernels that are built for it."""

from __future__ import annotations

from functools import cache
from unittest.mock import patch

from benchmarks.corpus import kernel_rows as table
from pplconv.machine import Machine, kernel_files
from pplconv.planner import Target
from tests.machine.recorded import MACHINES
from tests.machine.recorded_arm import M1_MACHINE, described, sysctl_of

TARGETS = (*MACHINES, "apple_m1")


@cache
def recorded(name: str) -> Machine:
    """Describe a machine from its recorded files, held in memory."""
    if name == "apple_m1":  # macOS has none
        with patch.object(kernel_files, "read_bytes", lambda path: b""):
            return described("/", affinity=range(8), ask=sysctl_of(M1_MACHINE, "Apple M1"))
    facts = MACHINES[name]()
    tree = dict(facts.every_file())
    with patch.object(kernel_files, "read_bytes", lambda path: tree.get(path, "").encode()):
        return facts.described("/", facts.online)


@cache
def target_of(name: str) -> Target:
    """Machine and kernels; the start of a team costs the default of unknown machines."""
    machine = recorded(name)
    return Target.of(machine, list(table(machine.arch)))
