"""The matrix product: rows of A as they lie, or packed where they lie badly.

The blocks are those of the GEMM nest, which follow the register and cache formulas of MegEngine's
and OpenPPL's documents; pointwise convolution runs through the same candidates.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..numerics import Numerics
from ..problem import Problem
from .context import PlanContext
from .core_model import direct_sum_floor
from .nest import Nest
from .tiled import candidates as tiled_candidates

NAME = "gemm"
floor = direct_sum_floor


def supports(problem: Problem, numerics: Numerics) -> str | None:
    """Return None: every matrix problem is served."""
    return None


def candidates(problem: Problem, around: PlanContext) -> Iterator[Nest]:
    """Yield the nests worth an estimate."""
    yield from tiled_candidates(problem, around, NAME, packed=False)
    # Rows that are converted go through scratch anyway.
    if not around.numerics.converts:
        yield from tiled_candidates(problem, around, NAME, packed=True)
