"""The matrix product: rows of A in place, or packed.

The blocks are those of the GEMM nest, which follow the register and cache formulas of MegEngine's
and OpenPPL's documents; pointwise convolution runs through the same candidates.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..matrix_problem import MatrixProblem
from ..numerics import Numerics
from ..problem import Problem
from .candidate import wide_only
from .context import PlanContext
from .core_model import direct_sum_floor
from .nest import Nest
from .nest_cost import PACKED_BYTES, moved_cycles
from .tiled import candidates as tiled_candidates

NAME = "gemm"
PACKING_CYCLES = 200.0  # overhead of packing B: borrow memory, count a team in
# Bytes a cycle from the core that has just written them to another core.
CORE_TO_CORE_BYTES = 1.5
floor = direct_sum_floor


def supports(problem: Problem, numerics: Numerics) -> str | None:
    """Say why `problem` cannot be served; None if it can."""
    matrix = problem.matrix
    if not matrix.prepacked and (numerics.converts or numerics.narrow):
        return f"products of {numerics.operand} take a matrix that is packed before"
    return None if matrix.a_in_rows and matrix.c_in_rows else wide_only(numerics)


def candidates(problem: Problem, around: PlanContext) -> Iterator[Nest]:
    """Yield the nests worth an estimate."""
    yield from tiled_candidates(problem, around, NAME, packed=False)
    # Rows that are converted or narrow go through scratch anyway.
    if not (around.numerics.converts or around.numerics.narrow):
        yield from tiled_candidates(problem, around, NAME, packed=True)


def packing_cycles(problem: MatrixProblem, around: PlanContext, threads: int) -> float:
    """Cycles to pack B on one thread, and to bring it to the other `threads` that read it."""
    if not problem.prepacked:
        return 0.0
    elements = problem.groups * problem.n * problem.k
    cycles = PACKING_CYCLES + moved_cycles(problem, around.lanes)
    size = elements * around.numerics.weight_bytes
    if size > around.machine.l2_share:
        cycles += size / PACKED_BYTES
    if threads > 1:
        cycles += size / CORE_TO_CORE_BYTES
    return cycles
