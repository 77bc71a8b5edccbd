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
        (Settings(), 8, None, 8, "8 physical cores in the affinity mask"),
        (Settings(), 1, None, 1, "1 physical core in the affinity mask"),
        (Settings("portable"), 4, None, 4, "4 physical cores in the affinity mask"),
        (Settings(), 8, 1.5, 2, "CPU quota 1.5, below 8 physical cores in the affinity mask"),
        (Settings(), 8, 2.0, 2, "CPU quota 2, below 8 physical cores in the affinity mask"),
        (Settings(), 8, 0.25, 1, "CPU quota 0.25, below 8 physical cores in the affinity mask"),
        (Settings(), 2, 1.5, 2, "2 physical cores in the affinity mask"),
        (Settings(), 2, 16.0, 2, "2 physical cores in the affinity mask"),
        (Settings(), 1, 0.5, 1, "1 physical core in the affinity mask"),
    ],
)
def test_rules(settings: Settings, cpus: int, quota: float | None, team: int, why: str) -> None:
    assert default_threads(settings, machine(cpus, quota)) == team
    assert explain_default_threads(settings, machine(cpus, quota)) == (team, why)


def pairs(cores: int) -> tuple[tuple[int, ...], ...]:
    """Cores of two hardware threads, the second ones numbered after all first ones."""
    return tuple((at, at + cores) for at in range(cores))


def test_one_thread_for_each_core() -> None:
    found = Machine(cores=pairs(8), affinity=tuple(range(16)))
    assert explain_default_threads(Settings(), found) == (
        8,
        "8 physical cores in the affinity mask, one thread for each core rather than for each of "
        "16 CPUs",
    )


def test_a_core_counts_by_one_usable_sibling() -> None:
    found = Machine(cores=pairs(8), affinity=(0, 8, 9))
    assert explain_default_threads(Settings(), found) == (
        2,
        "2 physical cores in the affinity mask, one thread for each core rather than for each of "
        "3 CPUs",
    )
    found = Machine(cores=pairs(8), affinity=(1, 9))
    assert default_threads(Settings(), found) == 1


def test_a_quota_counts_against_cores() -> None:
    found = Machine(cores=pairs(8), affinity=tuple(range(16)), quota=8.0)
    assert default_threads(Settings(), found) == 8
    found = Machine(cores=pairs(8), affinity=tuple(range(16)), quota=6.5)
    assert explain_default_threads(Settings(), found) == (
        7,
        "CPU quota 6.5, below 8 physical cores in the affinity mask",
    )


def test_efficiency_cores_work_too() -> None:
    found = Machine(
        cores=((0, 1), (2, 3), (4,), (5,), (6,), (7,)),
        efficiency_cores=(4, 5, 6, 7),
        affinity=tuple(range(8)),
    )
    assert explain_default_threads(Settings(), found) == (
        6,
        "6 physical cores in the affinity mask, 4 of them efficiency cores, one thread for each "
        "core rather than for each of 8 CPUs",
    )
