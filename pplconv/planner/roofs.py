"""Lower bounds of a plan's time: the FMA units, and the bytes that must be loaded and stored."""

from __future__ import annotations

import math

from .._records import record
from ..algorithms import PlanContext
from ..algorithms.core_model import CYCLES_PER_MICROSECOND, CoreModel, direct_sum_floor
from ..machine.ceilings import Ceilings
from ..problem import Problem
from .estimating import default_context
from .measuring import context_of, problem_of
from .plan_fields import PlanFields

__all__ = ["NOMINAL_HERTZ", "Roof", "clock", "roofs_of"]

NOMINAL_HERTZ = CYCLES_PER_MICROSECOND * 1e6
# Clocks that a core may have; a result outside means that the core's FMA rate is unknown.
_SLOWEST, _FASTEST = 2e8, 8e9


@record(frozen=True)
class Roof:
    """A lower bound of a plan's time.

    Parameters
    ----------
    name : str
        The limiting resource.
    seconds : float
        The time.
    text : str
        The amount of work, and its highest rate.
    """

    name: str
    seconds: float
    text: str


def clock(ceilings: Ceilings | None) -> float:
    """Clock of a core, derived from its FMA peak; the nominal clock if no peak was measured."""
    if ceilings is None:
        return NOMINAL_HERTZ
    around = default_context("f32")
    per_cycle = 2 * around.lanes * around.machine.fma_rate(ceilings.isa, "f32")
    # Use the peak of one thread alone: threads of a team may have to share cores with other
    # processes.
    alone = ceilings.core_flops or ceilings.flops / ceilings.threads
    found = alone / max(per_cycle, 1)
    return found if _SLOWEST < found < _FASTEST else NOMINAL_HERTZ


def roofs_of(plan: PlanFields, ceilings: Ceilings | None = None) -> list[Roof]:
    """Return the roofs of a plan, the time of its FMAs first.

    Parameters
    ----------
    plan : Plan
        A plan of this process.
    ceilings : Ceilings, optional
        Measured by a team of the plan's size; by default the roofs are those of the cost model.

    Returns
    -------
    list of Roof
        Empty for a plan that was made for other kernels.
    """
    around = context_of(plan)
    if around is None:
        return []
    problem, hertz, core = problem_of(plan), clock(ceilings), CoreModel.of(around)
    cycles = direct_sum_floor(problem, max(around.lanes, 1), core) / plan.threads
    flops = problem.flops
    if plan.leaves_zeros_out and plan.sparsity is not None:
        cycles, flops = cycles * plan.sparsity.share, int(flops * plan.sparsity.share)
    rate = flops * hertz / cycles if cycles else 0.0
    # A transform needs fewer products, so it may be faster than the direct sum's roof.
    name = "direct sum" if plan.transforms else "FMA units"
    words = f"{flops / 1e6:.3g} MFLOP at {rate / 1e9:.3g} GFLOP/s"
    found = [Roof(name, cycles / hertz, words)]
    moved = bytes_of(plan, problem)
    level, speed = _memory(around, core, moved, plan.threads)
    if ceilings is not None:
        rates = ceilings.bandwidths
        # A level that was not measured is no faster than the one outside it.
        speed = rates.get(level) or rates.get("memory") or speed * hertz
    else:
        speed *= hertz
    words = f"{moved / 1e6:.3g} MB at {speed / 1e9:.3g} GB/s"
    return [*found, Roof(level, moved / speed, words)]


def bytes_of(plan: PlanFields, problem: Problem) -> int:
    """Bytes of input, output and packed weights, each once."""
    numerics = plan.numerics
    return (
        math.prod(problem.input_shape) * numerics.source_bytes
        + math.prod(problem.output_shape) * numerics.destination_bytes
        + plan.packed_weight_bytes
    )


def _memory(around: PlanContext, core: CoreModel, moved: int, threads: int) -> tuple[str, float]:
    """The nearest level that holds so many bytes, and its rate for a team in bytes a cycle."""
    if moved <= core.l2_bytes * threads:
        return "L2", core.l2_rate * threads
    if moved <= max(around.machine.l3_bytes, core.l3_bytes * threads):
        return "L3", core.l3_rate * threads
    return "memory", core.memory_rate * threads
