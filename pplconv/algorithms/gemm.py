"""The matrix product: rows of A as they lie, or packed where they lie badly.

The blocks are those of the GEMM nest, which follow the register and cache formulas of MegEngine's
and OpenPPL's documents; pointwise convolution runs through the same candidates.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..matrix_problem import MatrixProblem
from ..numerics import Numerics
from ..problem import Problem
from .context import PlanContext
from .core_model import L3_BYTES, direct_sum_floor
from .nest import Nest
from .tiled import candidates as tiled_candidates

NAME = "gemm"
# To pack B: a vector that is copied, one that is transposed.
COPIED_CYCLES = 1.5
TRANSPOSED_CYCLES = 2.5
PACKING_CYCLES = 200.0  # beside: memory borrowed, a team counted in
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


def packing_cycles(problem: MatrixProblem, around: PlanContext) -> float:
    """Cycles to pack B before the product, on one thread."""
    elements = problem.groups * problem.n * problem.k
    in_place = TRANSPOSED_CYCLES if problem.b.row == 1 else COPIED_CYCLES
    cycles = PACKING_CYCLES + elements / around.lanes * in_place
    size = elements * around.numerics.weight_bytes
    if size > around.machine.l2_share:
        # It is read, and written to lines that are read before.
        cycles += 3 * size / L3_BYTES
    return cycles
