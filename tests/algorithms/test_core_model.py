"""The model of a core that estimates use, and the cycles of a tile's step."""

from __future__ import annotations

import pytest

from pplconv.algorithms import CoreModel, PlanContext
from pplconv.algorithms.core_model import step_cycles, taken_cycles
from pplconv.algorithms.nest import Nest
from pplconv.machine import Machine
from pplconv.numerics import numerics_of
from pplconv.problem import ConvProblem

SINGLE = numerics_of("f32", "f32")

X86 = Machine(arch="x86_64", isas=("portable", "avx512"), fma_per_cycle={"avx512": 2})
N1 = Machine(
    arch="aarch64",
    isas=("portable", "neon"),
    fma_per_cycle={"portable": 1, "neon": 2},
    fma_latency=2,
)
IN_ORDER = Machine(
    arch="aarch64",
    isas=("portable", "neon"),
    fma_per_cycle={"portable": 1, "neon": 1},
    loads_per_cycle=0.5,
    in_order=True,
)


def rates(machine: Machine, isa: str, lanes: int) -> CoreModel:
    return CoreModel.of(PlanContext(machine, SINGLE, isa, {}, lanes, 1))


@pytest.mark.parametrize(
    ("machine", "isa", "lanes", "latency", "loads", "broadcasts", "l2_rate"),
    [
        (X86, "avx512", 16, 4, 2, 1, 48),
        (N1, "neon", 4, 2, 2, 4, 32),
        (N1, "neon", 2, 2, 2, 2, 32),
        (IN_ORDER, "neon", 4, 4, 0.5, 4, 8),
        (N1, "portable", 4, 2, 2, 1, 48),  # the compiler's code is not known
    ],
)
def test_of_machines(
    machine: Machine,
    isa: str,
    lanes: int,
    latency: float,
    loads: float,
    broadcasts: int,
    l2_rate: float,
) -> None:
    machine = Machine(**machine.as_dict() | {"fma_per_cycle": {isa: 2}})
    found = rates(machine, isa, lanes)
    assert (found.fma_latency, found.loads_per_cycle) == (latency, loads)
    assert (found.broadcasts, found.l2_rate) == (broadcasts, l2_rate)


@pytest.mark.parametrize(
    ("machine", "isa", "lanes", "tile", "cycles"),
    [
        (X86, "avx512", 16, (14, 2), 14),  # FMAs
        (X86, "avx512", 16, (1, 1), 4),  # latency
        (X86, "avx512", 16, (28, 1), 29 / 2 / 0.92),  # loads: each element of A is broadcast
        (N1, "neon", 4, (8, 3), 12),
        (N1, "neon", 4, (16, 1), 8),  # four loads bring all sixteen elements of A
        (N1, "neon", 4, (1, 1), 2),
        (IN_ORDER, "neon", 4, (8, 3), 24),
        (IN_ORDER, "neon", 4, (1, 4), 10),  # loads at one in two cycles
    ],
)
def test_step(machine: Machine, isa: str, lanes: int, tile: tuple[int, int], cycles: float) -> None:
    assert step_cycles(rates(machine, isa, lanes), *tile) == cycles


@pytest.mark.parametrize(
    ("l1_cpus", "l2_cpus", "share"),
    [
        (1, 1, 1 << 20),  # private to a core
        (2, 2, 1 << 20),  # shared by two hardware threads, which share L1, too
        (1, 4, 1 << 18),  # shared by four cores
        (2, 8, 1 << 18),  # shared by four cores of two threads
        (4, 2, 1 << 20),  # implausible
    ],
)
def test_share_of_l2(l1_cpus: int, l2_cpus: int, share: int) -> None:
    machine = Machine(l2_bytes=1 << 20, l1d_cpus=l1_cpus, l2_cpus=l2_cpus)
    assert machine.l2_share == share
    assert CoreModel.of(PlanContext(machine, SINGLE, "portable", {}, 4, 1)).l2_bytes == share


def test_a_type_may_have_a_rate_of_its_own() -> None:
    """Types without a rate of their own have that of the instruction set."""
    machine = Machine(isas=("portable",), fma_per_cycle={"portable": 1, "portable/f16": 2})
    of = [
        CoreModel.of(PlanContext(machine, numerics_of(kind, kind), "portable", {}, 4, 1))
        for kind in ("f16", "f32")
    ]
    assert [core.fma_per_cycle for core in of] == [2.0, 1.0]


def test_borders_inside_lines_cost_both_threads() -> None:
    core = rates(X86, "avx512", 16)
    assert core.taken == 100
    # Lines come in pairs.
    found = [taken_cycles(core, threads, 7) for threads in (1, 2, 3, 64)]
    assert found == [0, 1400, 2800, 2800]


@pytest.mark.parametrize(
    ("size", "layout", "segment", "cut"),
    [
        (14, "NCHW", 98, True),  # neither planes nor segments are whole lines
        (16, "NCHW", 128, False),
        (16, "NCHW", 120, True),
        (14, "NCHW", 196, False),  # nothing is divided
        (14, "NHWC", 98, False),  # pixels are whole lines
    ],
)
def test_teams_that_divide_planes_inside_a_line(
    size: int, layout: str, segment: int, cut: bool
) -> None:
    problem = ConvProblem.parse(f"mb1ic64ih{size}oc64kh1", layout=layout)
    nest = Nest(
        problem, SINGLE, "pointwise", False, "channels", 16, 14, 32, 64, 64, segment, 1, True
    )
    core = rates(X86, "avx512", 16)
    team = [nest.cost(core, threads)["team"] for threads in (1, 2)]
    assert team == [0, core.team_cycles + (2 * 64 * core.taken if cut else 0)]
