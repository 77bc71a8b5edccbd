"""The team where a call names none."""

from __future__ import annotations

import pytest

from pplconv.config import Settings
from pplconv.machine import Machine
from pplconv.runtime import default_threads, explain_default_threads


def machine(cpus: int, quota: float | None = None) -> Machine:
    return Machine(affinity=tuple(range(cpus)), quota=quota)


@pytest.mark.parametrize(
    ("settings", "cpus", "quota", "team", "why"),
    [
        (Settings(None, 3, 5), 8, 2.0, 3, "PPLCONV_NUM_THREADS is 3"),
        (Settings(None, None, 5), 8, 2.0, 5, "OMP_NUM_THREADS is 5"),
        (Settings(None, 64, None), 2, None, 64, "PPLCONV_NUM_THREADS is 64"),
        (Settings(), 8, None, 8, "8 CPUs in the affinity mask"),
        (Settings(), 1, None, 1, "1 CPU in the affinity mask"),
        (Settings("portable"), 4, None, 4, "4 CPUs in the affinity mask"),
        (Settings(), 8, 1.5, 2, "CPU quota 1.5, below the 8 CPUs of the affinity mask"),
        (Settings(), 8, 2.0, 2, "CPU quota 2, below the 8 CPUs of the affinity mask"),
        (Settings(), 8, 0.25, 1, "CPU quota 0.25, below the 8 CPUs of the affinity mask"),
        (Settings(), 2, 1.5, 2, "2 CPUs in the affinity mask"),
        (Settings(), 2, 16.0, 2, "2 CPUs in the affinity mask"),
        (Settings(), 1, 0.5, 1, "1 CPU in the affinity mask"),
    ],
)
def test_rules(settings: Settings, cpus: int, quota: float | None, team: int, why: str) -> None:
    assert default_threads(settings, machine(cpus, quota)) == team
    assert explain_default_threads(settings, machine(cpus, quota)) == (team, why)
