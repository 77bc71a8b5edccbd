"""Products of two computed matrices in bfloat16: where this CPU has instructions for them."""

from __future__ import annotations

from ... import planner
from ..._records import NamedTuple
from ...matrix_problem import MatrixProblem
from ...numerics import BRAIN_KINDS, numerics_of

__all__ = ["ProductPrices", "brain_kinds", "fastest_kind", "prices_of_product"]


class ProductPrices(NamedTuple):
    """Cycles of products by the type of all their operands, on one thread.

    Parameters
    ----------
    single, narrow : float
        Operands are float32 or bfloat16; sums are float32 in both.
    """

    single: float
    narrow: float


def brain_kinds() -> tuple[str, ...]:
    """Kinds of products of bfloat16 that this CPU has instructions for, the fastest first."""
    levels = {kind: planner.best_isa(numerics_of("bf16", kind)) for kind in BRAIN_KINDS}
    return tuple(kind for kind, level in levels.items() if level not in (None, "portable"))


def fastest_kind(m: int, n: int, k: int) -> str:
    """Choose the kind by the sizes of a product: no team, and no tile, may change its bits.

    Raises
    ------
    ValueError
        If this CPU has none.
    """
    return min(brain_kinds(), key=lambda kind: _cycles(m, n, k, "bf16", kind))


def prices_of_product(m: int, n: int, k: int) -> ProductPrices | None:
    """Estimate the cycles of a product in both types; None if this CPU lacks one.

    Parameters
    ----------
    m, n, k : int
        The first matrix is (m, k), the second one (k, n).
    """
    if not brain_kinds():
        return None
    kind = fastest_kind(m, n, k)
    return ProductPrices(_cycles(m, n, k, "f32", "f32"), _cycles(m, n, k, "bf16", kind))


def _cycles(m: int, n: int, k: int, dtype: str, kind: str) -> float:
    problem = MatrixProblem(m, n, k, dtype=dtype, permitted=(kind,), destination="f32")
    return planner.least_cycles(problem, 0.0, None)
