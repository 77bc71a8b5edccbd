"""A ranked candidate as a `Plan`, for people, and as the fields that loops take."""

from __future__ import annotations

from typing import Any

from ..algorithms import Candidate
from .estimating import Ranked, Request
from .plan import Plan
from .target import here


def plan_of(
    request: Request,
    best: Ranked,
    search: str,
    runners_up: tuple[str, ...] = (),
    seconds: float | None = None,
    gains: tuple[float | None, float | None] = (None, None),
) -> tuple[Plan, dict[str, Any]]:
    """Turn a candidate into a plan, and into the fields that the loops take.

    `gains` are the predicted gain and the measured gain.
    """
    candidate, problem = best.candidate, request.problem
    # A list, as an unfinished generator would have to be closed later, which takes memory.
    around, *_ = [c for c in request.contexts() if c.numerics == candidate.numerics]
    threads, target = request.team_for(candidate, around.threads), request.target or here()
    plan = Plan(
        problem=str(problem),
        dtype=problem.dtype,
        compute=candidate.numerics.product,
        layout=problem.layout_text,
        algorithm=candidate.algorithm,
        bits=candidate.bits,
        isa=around.isa,
        kernel=target.symbol(candidate.kernel, candidate.numerics.product, around.isa),
        blocks=candidate.blocks,
        tasks=candidate.tasks,
        threads=threads,
        packing=candidate.packing,
        packed_weight_bytes=candidate.packed_weight_bytes,
        scratch_bytes=candidate.workspace(threads),
        error_bound=candidate.error_bound,
        search=search,
        cost=best.cost,
        runners_up=runners_up,
        seconds=seconds,
        destination=_other(candidate.numerics.destination, problem.dtype),
        predicted_gain=gains[0],
        measured_gain=gains[1],
    )
    converting = target.converting_isa(around.isa, request.settings.max_isa)
    return plan, {**candidate.fields(threads), "converts_on": converting}


def summary(candidate: Candidate) -> str:
    """Name a candidate in a few words."""
    return f"{candidate.algorithm} {candidate.kernel.tile}".rstrip() + f", {candidate.bits}"


def _other(name: str, usual: str) -> str:
    """`name`, or "" if it is the usual type."""
    return "" if name == usual else name
