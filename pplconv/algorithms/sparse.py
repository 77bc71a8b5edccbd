"""Convolution and products with sparse weights: the candidates.

Weights of a panel of output channels are a list of terms; see ``schedules/sparse.pyx`` for the
loops, and ``sparse_blocking.py`` for one candidate. Blocks of 1xN along output channels are those
of MNN's document on sparse convolution.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..numerics import Numerics
from ..problem import Problem
from .candidate import balanced, ceil_div, ragged_groups, round_up, team_pieces
from .context import PlanContext
from .core_model import CoreModel, direct_sum_floor
from .sparse_blocking import SparseBlocking
from .sparse_cost import estimate

NAME = "sparse"

# Kinds of product that have kernels for terms.
PRODUCTS = ("f16", "f32", "f64")
# Of L1 and of L2: pixels that stay there while the terms of all panels pass by.
NEAR = 0.75
LARGEST_PANEL = 0.6


class Sparse(SparseBlocking):
    """A candidate with its cost."""

    def cost(self, core: CoreModel, threads: int) -> dict[str, float]:
        """Estimate the cycles of the busiest thread: see `sparse_cost`."""
        return estimate(self, core, threads)


def floor(problem: Problem, lanes: int, core: CoreModel) -> float:
    """Least cycles on one thread: FMAs of the weights that are stored, at the peak rate."""
    share = problem.sparsity.share if problem.sparsity is not None else 1.0
    return share * direct_sum_floor(problem, lanes, core)


def supports(problem: Problem, numerics: Numerics) -> str | None:
    """Say why `problem` cannot be served; None if it can."""
    if problem.sparsity is None:
        return "it needs weights that are known to be sparse"
    if numerics.product not in PRODUCTS:
        return f"no sparse weights are multiplied as {numerics.product}"
    return None if problem.matrix is problem else ragged_groups(problem)


def candidates(problem: Problem, around: PlanContext) -> Iterator[Sparse]:
    """Yield the tiles, blocks and segments worth an estimate."""
    matrix = problem.matrix
    in_rows = matrix.a_in_rows
    assert problem.sparsity is not None
    for orientation in ("pixels", "channels") if in_rows else ("pixels",):
        tiles = around.by_pixels if orientation == "pixels" else around.by_channels
        for panel, widths in tiles.widths.items():
            if problem.sparsity.block % panel or panel == 1 < problem.sparsity.block:
                continue
            if orientation == "channels" and problem.block % panel:
                continue
            for width in _widths(matrix.m, widths, orientation):
                for packed in _ways(problem, around.numerics):
                    yield from _blocked(
                        problem, around, orientation, panel, width, packed, tiles.lanes, tiles.kr
                    )


def _widths(pixels: int, widths: tuple[int, ...], orientation: str) -> set[int]:
    """Pixels of a tile worth trying: all vectors that images fill, or rows in equal parts."""
    if orientation == "pixels":
        enough = next((w for w in widths if w >= pixels), widths[-1])
        return {w for w in widths if w <= enough}
    largest = widths[-1]
    return {max(min(pixels, largest), 1), max(ceil_div(pixels, ceil_div(pixels, largest)), 1)}


def _ways(problem: Problem, numerics: Numerics) -> tuple[bool, ...]:
    """Whether pixels are packed: they need not be where they can be read as they lie."""
    if not problem.is_pointwise or numerics.converts_in or problem.block:
        return (True,)
    return (False,) if problem.matrix.a_in_rows else (False, True)


def _blocked(
    problem: Problem, around: PlanContext, orientation: str, panel: int, width: int, packed: bool,
    lanes: int, kr: int,
) -> Iterator[Sparse]:  # fmt: skip
    """Yield blocks of K, and segments for the team."""
    matrix, numerics = problem.matrix, around.numerics
    geometry = problem.geometry
    taps = geometry.kh * geometry.kw
    blocks = {matrix.k}
    if not (matrix.a_in_rows or numerics.converts_out) and numerics.chain is None:
        row = width * numerics.operand_bytes
        for budget in (NEAR * around.machine.l1d_bytes, LARGEST_PANEL * around.machine.l2_share):
            longest = max(int(budget) // row, 1)
            if matrix.k > longest:
                blocks.add(round_up(balanced(matrix.k, longest, taps), taps))
    repeat = max(1, matrix.images * matrix.groups)
    cycles = floor(problem, lanes, CoreModel.of(around)) / repeat
    threads = around.threads
    for k_block in sorted(blocks):
        pieces = 1 if repeat % threads == 0 else team_pieces(matrix.m, width, threads, cycles)
        segment = balanced(max(matrix.m, 1), max(matrix.m, 1), width, pieces)
        parts = 1
        if threads > 1 and repeat * ceil_div(max(matrix.m, 1), segment) < threads:
            panels = max(matrix.n // panel, 1)
            parts = min(ceil_div(threads, repeat * ceil_div(max(matrix.m, 1), segment)), panels)
        yield Sparse(
            problem, numerics, orientation, packed, lanes, kr, panel, width, max(k_block, 1),
            segment, parts,
        )  # fmt: skip
