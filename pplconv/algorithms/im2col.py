"""Tiled im2col: one tile of pixels at a time is packed into scratch and multiplied.

The method of the OpenPPL Arm Server slides ("Tile Im2col"): scratch is proportional to a
tile and the team, never to the image. `planes` has the candidates that copy no row for each tap.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ..numerics import Numerics
from ..problem import ConvProblem
from . import planes
from .candidate import Candidate, wide_only
from .context import PlanContext
from .core_model import CoreModel, direct_sum_floor
from .nest_cost import least_packing
from .tiled import candidates as tiled_candidates

NAME = "im2col"
ROUNDED_DOWN = 1 - 1e-9  # of a bound: its terms are added in another order than those of a cost
floor = direct_sum_floor


def supports(problem: ConvProblem, numerics: Numerics) -> str | None:
    """Say why `problem` cannot be served; None if it can."""
    return wide_only(numerics) if problem.layout != "NHWC" else None


def floor_beside(
    problem: ConvProblem, around: PlanContext, core: CoreModel,
    in_place: Iterable[Mapping[str, float]],
) -> float:  # fmt: skip
    """Least cycles of any candidate for a 1x1 convolution on one thread: a bound above `floor`.

    Each candidate is one of ``"pointwise"`` whose pixels are packed besides, and whose operands
    arrive in another way.

    Parameters
    ----------
    problem : ConvProblem
        A problem that ``"pointwise"`` serves, too, in NCHW or NHWC.
    around : PlanContext
        Machine, kernels and types.
    core : CoreModel
        Of `around`.
    in_place : iterable of mapping of str to float
        The costs of all candidates of ``"pointwise"`` on one thread, term by term.
    """
    numerics = around.numerics
    least = floor(problem, around.lanes, core)
    if numerics.converts or numerics.kr > 1 or problem.block:
        return least
    apart = min((sum(cost.values()) - cost["stream"] for cost in in_place), default=0.0)
    return max(least, (apart + least_packing(problem, around.lanes)) * ROUNDED_DOWN)


def candidates(problem: ConvProblem, around: PlanContext) -> Iterator[Candidate]:
    """Yield the nests worth an estimate, and the loops that leave rows in place."""
    yield from planes.candidates(problem, around)
    yield from tiled_candidates(problem, around, NAME, packed=True)
