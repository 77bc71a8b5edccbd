"""A plan found again among the candidates of this process, and timed."""

from __future__ import annotations

from dataclasses import replace

from ..algorithms import PlanContext
from ..matrix_problem import MatrixProblem
from ..problem import ConvProblem, Problem
from .defaults import team_size
from .estimating import Ranked, Request
from .plan_fields import PlanFields
from .searching import Bench
from .target import here

__all__ = ["context_of", "problem_of", "time_plan"]

_SECONDS = 0.2
_MOST_RUNS = 200


def problem_of(plan: PlanFields) -> Problem:
    """Rebuild the problem of a plan from its texts.

    Raises
    ------
    ValueError
        If its matrices have another layout than those of `Linear`, which the text does not
        describe.
    """
    found: Problem
    if plan.problem.startswith("mb") and "ic" in plan.problem:
        block = plan.layout.removeprefix("NCHW").removesuffix("c")
        blocked = block.isdecimal()
        found = ConvProblem.parse(
            plan.problem, plan.dtype, "NCHWc" if blocked else plan.layout,
            int(block) if blocked else 0,
        )  # fmt: skip
    else:
        found = MatrixProblem.parse(plan.problem, plan.dtype)
    found = replace(found, permitted=(plan.compute,), destination=plan.destination)
    if found.layout_text != plan.layout:
        raise ValueError(f"matrices that lie as {plan.layout} are not made again")
    return found


def context_of(plan: PlanFields) -> PlanContext | None:
    """The context in which this process plans such a problem; None if none fits the plan."""
    try:
        contexts = Request(problem_of(plan), threads=plan.threads).contexts()
    except ValueError:
        return None
    for around in contexts:
        if (around.numerics, around.isa) == (plan.numerics, plan.isa):
            return replace(around, threads=plan.threads)
    return None


def time_plan(plan: PlanFields) -> float:
    """Run a plan on random arrays that stay in the caches, and return its shortest time.

    Parameters
    ----------
    plan : Plan
        Made by this process, or by one whose kernels and settings are the same.

    Returns
    -------
    float
        Seconds.

    Raises
    ------
    ValueError
        If no candidate of this process is the plan.
    RuntimeError
        If no run had the plan's whole team.
    """
    problem = problem_of(plan)
    candidate = _found(plan, problem).candidate
    bench = Bench(problem, {candidate.numerics: plan.isa}, "none")
    runs = bench.prepare(candidate, plan.threads)
    first = runs(1)
    count = max(2, min(_MOST_RUNS, int(_SECONDS / max(first, 1e-7))))
    best = min(first, runs(count))
    if not bench.whole:
        raise RuntimeError(
            f"the plan has {plan.threads} threads, which this process does not have now"
        )
    return best


def _found(plan: PlanFields, problem: Problem) -> Ranked:
    """Find the candidate that a plan was made from.

    Segments depend on the requested team, which may have been larger than the plan's, so several
    team sizes are tried.
    """
    symbol, around = here().symbol, context_of(plan)
    wanted = () if around is None else (plan.threads, team_size(None), *range(1, team_size(None)))
    for threads in dict.fromkeys(wanted):
        try:
            ranked = Request(problem, plan.algorithm, float("inf"), threads).ranked(threads)
        except ValueError:
            continue
        for one in ranked:
            c = one.candidate
            alike = (c.bits, c.packing, c.tasks) == (plan.bits, plan.packing, plan.tasks)
            alike = alike and dict(c.blocks) == dict(plan.blocks)
            if alike and symbol(c.kernel, c.numerics.product, plan.isa) == plan.kernel:
                return one
    raise ValueError(f"no candidate of this process is the plan {plan.algorithm} {plan.kernel}")
