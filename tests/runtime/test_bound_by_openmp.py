"""If its environment says so, OpenMP binds the thread that loads it; teams still use all CPUs."""

from __future__ import annotations

import json
import os
import sys

import pytest

from tests.runtime.processes import run

CPUS = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="libgomp binds on Linux"),
    pytest.mark.skipif(len(CPUS) < 2, reason="needs two CPUs"),
]

# Prints the CPUs found, and the CPUs of the calling thread and of a team's worker. A worker moves
# by itself once it runs.
LOOK = """
import json
from pplconv.machine import bound_by_openmp, current
before = set(os.listdir("/proc/self/task"))
conv = pplconv.Conv2d(w, threads=2)
alone = pplconv.Conv2d(w, threads=1)(x)
same = np.array_equal(conv(x), alone)
found = current().affinity
def bound():
    conv(x)
    workers = set(os.listdir("/proc/self/task")) - before
    masks[:] = [sorted(os.sched_getaffinity(int(tid))) for tid in workers]
    return masks == [list(found)]
masks = []
eventually(bound)
with pplconv.InstancePool(lambda: lambda: os.sched_getaffinity(0), instances=1, threads=1) as pool:
    instance = sorted(pool.submit().result())
from pplconv.commands.doctoring.facts import gather
from pplconv.commands.doctoring.findings import examine
cores = next(f for f in examine(gather(run=None)) if f.what == "cores")
print(json.dumps([found, sorted(os.sched_getaffinity(0)), masks, instance, bound_by_openmp(), same,
                  cores.advice, cores.text]))
"""
BINDING = [
    {"OMP_PROC_BIND": "true"},
    {"OMP_PLACES": "threads"},
]


def look(**environment: str) -> list[object]:
    (line,) = run(LOOK, PPLCONV_TEAM_START_US="1", **environment)
    found: list[object] = json.loads(line)
    return found


@pytest.mark.parametrize("environment", BINDING, ids=str)
def test_teams_use_the_cpus_that_the_process_has(environment: dict[str, str]) -> None:
    found, own, masks, instance, bound, same, advice, text = look(**environment)
    assert (found, masks, instance, same) == (CPUS, [CPUS], CPUS, True)
    # The binding of the caller stays as its user asked for.
    assert bound == own
    assert set(own) < set(CPUS)
    assert f"OpenMP has bound the calling thread to {', '.join(map(str, own))}" in text
    assert advice.startswith("unset OMP_PROC_BIND")


@pytest.mark.parametrize("environment", BINDING, ids=str)
def test_processes_of_a_pool_have_them_too(environment: dict[str, str]) -> None:
    """Workers start on their parent's one CPU, and must not take it for the machine."""
    assert run(
        "from pplconv.machine import bound_by_openmp\n"
        "own = bound_by_openmp()\n"
        "make = lambda: os.sched_getaffinity\n"
        "with pplconv.InstancePool(make, instances=2, threads=1, mode='process') as pool:\n"
        "  print([sorted(cpus) for cpus in pool.map([0, 0])])\n"
        "print(len(own), bound_by_openmp() == own)",
        **environment,
    ) == [str([CPUS, CPUS]), "1 True"]


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"GOMP_CPU_AFFINITY": " ".join(map(str, CPUS[:2]))}, CPUS[:2]),
        ({"GOMP_CPU_AFFINITY": str(CPUS[-1])}, CPUS[-1:]),
        ({"OMP_PROC_BIND": "false", "OMP_PLACES": "threads"}, CPUS),
    ],
    ids=str,
)
def test_places_that_somebody_has_named_are_the_cpus(
    environment: dict[str, str], expected: list[int]
) -> None:
    found, _, masks, instance, *_ = look(**environment)
    assert (found, masks, instance) == (expected, [expected], expected)
