"""Convolution and products with sparse weights: the candidates.

Weights of a panel of output channels are a list of terms; ``schedules/sparse_loops.pyx`` has the
loops, ``sparse_blocking.py`` one candidate. Blocks of 1xN along output channels are those
of MNN's document on sparse convolution.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..numerics import Numerics
from ..problem import ConvProblem, Problem
from ..sparsity import WITHOUT_ZEROS
from .candidate import balanced, ceil_div, narrow_blocks, ragged_groups, round_up, team_pieces
from .context import PlanContext
from .core_model import CoreModel, direct_sum_floor
from .sparse_blocking import SparseBlocking
from .sparse_cost import estimate

NAME = WITHOUT_ZEROS

# Kinds of product that have kernels for terms.
PRODUCTS = ("f16", "f32", "f64", "u8", "s8", "s16")
# Shares of L1 and of L2 for pixels that stay there while the terms of all panels are read.
NEAR = 0.75
LARGEST_PANEL = 0.6
LAID = 0.25


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
    reason = narrow_blocks(problem, numerics)
    if reason is not None:
        return reason
    return ragged_groups(problem) if isinstance(problem, ConvProblem) else None


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
                for rows in _ways(problem, around.numerics):
                    if rows == "laid" and orientation == "channels":
                        continue
                    yield from _blocked(
                        problem, around, orientation, panel, width, rows, tiles.lanes, tiles.kr
                    )


def _widths(pixels: int, widths: tuple[int, ...], orientation: str) -> set[int]:
    """Pixels of a tile worth trying: all vectors that images fill, or rows in equal parts."""
    if orientation == "pixels":
        enough = next((w for w in widths if w >= pixels), widths[-1])
        return {w for w in widths if w <= enough}
    largest, pixels = widths[-1], max(pixels, 1)
    return {min(pixels, largest), ceil_div(pixels, ceil_div(pixels, largest))}


def _ways(problem: Problem, numerics: Numerics) -> tuple[str, ...]:
    """Ways to treat pixels: "in place", "packed" or "laid" (see `SparseBlocking`)."""
    if problem.is_pointwise and not numerics.converts_in and not problem.block:
        as_they_lie = problem.matrix.a_in_rows or numerics.exact
        return ("in place",) if as_they_lie else ("in place", "packed")
    if numerics.exact and not problem.matrix.a_in_rows:
        # Planes of bytes are packed only for 1x1 kernels.
        return ("packed",) if problem.is_pointwise else ("laid",)
    return ("packed",) if problem.geometry.kh * problem.geometry.kw == 1 else ("packed", "laid")


def _blocked(
    problem: Problem, around: PlanContext, orientation: str, panel: int, width: int, rows: str,
    lanes: int, kr: int,
) -> Iterator[Sparse]:  # fmt: skip
    """Yield blocks of K, and segments for the team."""
    matrix, numerics = problem.matrix, around.numerics
    ow = max(problem.geometry.ow, 1)
    whole = Sparse(
        problem, numerics, orientation, rows, lanes, kr, panel, width, max(matrix.k, 1), ow, 1
    )
    pixels = max(whole.pixels, 1)
    repeat = max(1, whole.images * matrix.groups)
    cycles = floor(problem, lanes, CoreModel.of(around)) / repeat
    threads = around.threads
    unit, largest = width, pixels
    if rows == "laid":
        h, w = whole.phases
        row = h * w * whole.laid_row * max(whole.ic, 1) * numerics.operand_bytes
        unit, largest = ow, max(int(LAID * around.machine.l2_share) // row, 1) * ow
    panels = max(matrix.n // panel, 1)
    for k_block in _blocks_of_k(whole, around):
        pieces = 1 if repeat % threads == 0 else team_pieces(pixels, unit, threads, cycles)
        # A team shares the pixels or, if that would leave too few pixels, the output channels.
        ways = {}
        for count in {pieces, 1}:
            segment = balanced(pixels, min(largest, pixels), unit, count)
            segments = repeat * ceil_div(pixels, segment)
            ways[segment] = min(ceil_div(threads, segments), panels) if segments < threads else 1
        for segment, parts in ways.items():
            yield Sparse(
                problem, numerics, orientation, rows, lanes, kr, panel, width, k_block, segment,
                parts,
            )  # fmt: skip


def _blocks_of_k(whole: Sparse, around: PlanContext) -> list[int]:
    """All of K, and blocks whose pixels stay in L1 or L2 while all panels are read."""
    k = whole.k_block
    blocks = {k}
    if whole.channels_run or around.numerics.chain is not None:
        return list(blocks)
    for budget in (NEAR * around.machine.l1d_bytes, LARGEST_PANEL * around.machine.l2_share):
        longest = max(int(budget / whole.near), 1)
        if k > longest:
            blocks.add(round_up(balanced(k, longest, whole.taps), whole.taps))
    return sorted(blocks)
