"""1x1 convolution as a matrix product on the user's array in place: no pixels are packed."""

from __future__ import annotations

from collections.abc import Iterator

from ..numerics import Numerics
from ..problem import ConvProblem
from . import direct
from .candidate import Candidate, wide_only
from .context import PlanContext
from .core_model import direct_sum_floor
from .tiled import candidates as tiled_candidates

NAME = "pointwise"
floor = direct_sum_floor


def supports(problem: ConvProblem, numerics: Numerics) -> str | None:
    """Say why `problem` cannot be served; None if it can."""
    if not problem.is_pointwise:
        return "it needs a 1x1 kernel, stride 1 and no padding"
    if numerics.narrow and problem.layout == "NCHW":
        return wide_only(numerics)
    return direct.supports(problem, numerics)


def candidates(problem: ConvProblem, around: PlanContext) -> Iterator[Candidate]:
    """Yield the nests worth an estimate; on blocked arrays those of direct convolution."""
    if problem.layout == "NCHWc":
        return direct.candidates(problem, around, NAME)
    return tiled_candidates(problem, around, NAME, packed=False)
