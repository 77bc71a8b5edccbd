"""Tiled im2col: one tile of pixels at a time is packed into scratch and multiplied.

The method of the OpenPPL Arm Server slides ("Tile Im2col"): scratch is proportional to a
tile and the team, never to the image. `planes` has the candidates that copy no row for each tap.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..numerics import Numerics
from ..problem import ConvProblem
from . import planes
from .candidate import Candidate, wide_only
from .context import PlanContext
from .core_model import direct_sum_floor
from .tiled import candidates as tiled_candidates

NAME = "im2col"
floor = direct_sum_floor


def supports(problem: ConvProblem, numerics: Numerics) -> str | None:
    """Say why `problem` cannot be served; None if it can."""
    return wide_only(numerics) if problem.layout != "NHWC" else None


def candidates(problem: ConvProblem, around: PlanContext) -> Iterator[Candidate]:
    """Yield the nests worth an estimate, and the loops that leave rows in place."""
    yield from planes.candidates(problem, around)
    yield from tiled_candidates(problem, around, NAME, packed=True)
