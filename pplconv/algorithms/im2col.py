"""Tiled im2col: one tile of pixels at a time is packed into scratch and multiplied.

The method of the OpenPPL Arm Server slides ("Tile Im2col"): scratch is proportional to a
tile and the team, never to the image.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..numerics import Numerics
from ..problem import ConvProblem
from .context import PlanContext
from .core_model import direct_sum_floor
from .nest import Nest
from .tiled import candidates as tiled_candidates

NAME = "im2col"
floor = direct_sum_floor


def supports(problem: ConvProblem, numerics: Numerics) -> str | None:
    """Return None: every problem is served."""
    return None


def candidates(problem: ConvProblem, around: PlanContext) -> Iterator[Nest]:
    """Yield the nests worth an estimate."""
    return tiled_candidates(problem, around, NAME, packed=True)
