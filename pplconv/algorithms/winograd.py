"""Winograd's minimal filtering: fewer products, at the price of transforms and of accuracy.

F(n x n, r x r) computes n x n outputs from t x t inputs (t = n + r - 1) with t * t products a
channel pair instead of n * n * r * r (Lavin and Gray, "Fast Algorithms for Convolutional Neural
Networks", 2016). Kernels of other sizes are cut into subkernels of r x r; see `winograd_blocking`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from .._lazy import functions_later
from .._records import record
from ..machine.x86_identity import l3_share
from ..numerics import PRODUCTS, TYPES, Numerics
from ..problem import ConvProblem
from .candidate import (
    Candidate,
    KernelKey,
    balanced,
    ceil_div,
    narrow_blocks,
    ragged_groups,
    round_up,
)
from .context import PlanContext
from .core_model import CoreModel
from .error_bounds import winograd_error
from .panels import Panels
from .tiled import row_tiles, widths
from .winograd_blocking import WinogradBlocking, filled_by, subkernels_of, tiles_of

if TYPE_CHECKING:
    from . import winograd_cost
else:
    winograd_cost = functions_later(__package__, "winograd_cost")

NAME = "winograd"

# (n, r) of the kernels that exist; and of the integer kernels, whose transforms have no fractions.
VARIANTS = ((2, 3), (4, 3), (6, 3), (3, 4), (2, 5), (4, 5))
INTEGER_VARIANTS = ((2, 3),)
SMALLEST = 3  # r of a kernel that is filled up with zeros
INTEGER_PRODUCT = "s16"
# Largest integer sum: M is four times as large, as G of F(2, 3) is doubled on both sides.
LARGEST_SUM = 2**29 - 1

ENOUGH_FEWER = 1.3  # times the fewest products of a variant: others are not worth an estimate
ENOUGH_TILES = 28  # in a block: fewer make poor use of register tiles and weights
# Parts of a transform for each thread of a team in a staged plan; others wait for its last one.
PARTS_EACH = 4


@record(frozen=True)
class Winograd(WinogradBlocking):
    """One way to run a problem through Winograd's loops."""

    algorithm = NAME

    def cost(self, core: CoreModel, threads: int) -> dict[str, float]:
        """Estimate the cycles of the busiest thread; see `winograd_cost`."""
        price = winograd_cost.staged if self.staged else winograd_cost.estimate
        return price(self, core, threads)


def floor(problem: ConvProblem, lanes: int, core: CoreModel) -> float:
    """Least cycles of any candidate on one thread: its products at the peak rate of FMAs."""
    ic, oc = problem.ic // problem.groups, problem.oc // problem.groups
    exact = TYPES[problem.dtype].roundoff == 0.0
    tile = min(_products(problem, n, r) for n, r in (INTEGER_VARIANTS if exact else VARIANTS))
    steps = ceil_div(ic, core.together) * ceil_div(oc, lanes)
    return tile * problem.groups * steps / core.fma_per_cycle


def _products(problem: ConvProblem, n: int, r: int) -> int:
    """Products of all tiles for a pair of channels."""
    return tiles_of(problem, n) * subkernels_of(problem, r) * (n + r - 1) ** 2


def supports(problem: ConvProblem, numerics: Numerics) -> str | None:
    """Say why `problem` cannot be served; None if it can."""
    if numerics.exact and numerics.product != INTEGER_PRODUCT:
        return (
            f"its transforms make words of bytes, which products of {numerics.product} do not take"
        )
    if numerics.narrow and not numerics.exact:
        return "its transforms of floats have sums of the type of their operands"
    if problem.stride != (1, 1) or problem.dilation != (1, 1):
        return "it needs stride 1 and no dilation"
    if numerics.exact and (problem.kh, problem.kw) != (3, 3):
        return "it needs a 3x3 kernel"
    if min(problem.kh, problem.kw) < 2:
        return "it needs a kernel of two rows and two columns or more"
    if numerics.chain is not None:
        return "it has no kernels in half precision"
    if numerics.kr > 1 and not numerics.exact:
        return "its transforms of floats do not pack groups of neighbouring k"
    if numerics.exact and (most := largest_sum(problem)) > LARGEST_SUM:
        return f"sums of words may reach {most}, but its products have room for {LARGEST_SUM}"
    return narrow_blocks(problem, numerics) or ragged_groups(problem)


def largest_sum(problem: ConvProblem) -> int:
    """Bound the sums of raw bytes, without zero points, for any weights."""
    # If no products of eight bits are permitted, zero points have made the weights wider.
    narrow = any(PRODUCTS[kind].weights == "s8" for kind in problem.permitted)
    pixel, weight = 255 if problem.dtype == "u8" else 128, 128 if narrow else 255
    return problem.k * pixel * weight


def volunteers(problem: ConvProblem) -> bool:
    """Whether it may be chosen without being named: not for arrays of float16 and bfloat16.

    There, a user of ``tolerance`` expects no error but the rounding of the arrays.
    """
    return problem.dtype not in ("f16", "bf16")


def candidates(problem: ConvProblem, around: PlanContext) -> Iterator[Candidate]:
    """Yield the blockings worth an estimate."""
    for n, r in _variants(problem, around):
        for nr, largest in widths(problem.oc // problem.groups, around):
            yield from _blockings(problem, around, n, r, nr, largest)
            yield from _stages(problem, around, n, r, nr, largest)


def _variants(problem: ConvProblem, around: PlanContext) -> list[tuple[int, int]]:
    """Name the variants within the tolerance: all that take the kernel whole, and the best to cut.

    The best have the fewest products.
    """
    ic, whole, cut = problem.ic // problem.groups, [], {}
    for n, r in INTEGER_VARIANTS if around.numerics.exact else VARIANTS:
        # Only error that buys speed counts here; the rounding of the arrays does not.
        channels = ic * subkernels_of(problem, r)
        bound = winograd_error(n, r, channels, around.numerics, filled_by(problem, r))
        if bound > around.tolerance or r > max(problem.kh, problem.kw, SMALLEST):
            continue
        if (problem.kh, problem.kw) == (r, r):
            whole.append((n, r))
        else:
            cut[n, r] = _products(problem, n, r)
    most = ENOUGH_FEWER * min(cut.values(), default=0)
    return whole + [variant for variant, products in cut.items() if products <= most]


def _blockings(
    problem: ConvProblem, around: PlanContext, n: int, r: int, nr: int, largest: int
) -> Iterator[Candidate]:
    e, positions = around.numerics.operand_bytes, (n + r - 1) ** 2
    wide = around.numerics.sum_bytes // e  # how much wider sums are
    oc, subkernels = problem.oc // problem.groups, subkernels_of(problem, r)
    depth = problem.ic // problem.groups * subkernels
    tiles = max(tiles_of(problem, n), 1)
    budget = around.machine.l2_share * 5 // 8 // (positions * e)  # channels of V and M
    panels = Panels.of_columns(KernelKey("gemm", largest, nr, around.numerics.kr))
    whole = panels.width if oc <= nr else panels.padded(min(oc, max(64, nr)))
    multiple = problem.block if problem.layout == "NCHWc" else around.lanes
    seen = set()
    enough = False
    for segments in (1, 2, 4, 8, *((subkernels, 2 * subkernels) if subkernels > 8 else ())):
        ic_segment = balanced(depth, ceil_div(depth, segments), multiple)
        ic_segment = min(ic_segment, depth) if segments == 1 else ic_segment
        if segments > 1 and (ic_segment >= depth or enough):
            continue
        oc_block = whole if segments == 1 else panels.padded(oc)
        most = max(budget // (ic_segment + wide * oc_block), 1)
        # Sums are cut only if V of all input channels leaves room for too few tiles.
        enough = most >= min(tiles, ENOUGH_TILES)
        for cap in {most, min(most, 2 * ENOUGH_TILES)}:
            pieces = ceil_div(around.threads, problem.groups)
            tile_block = balanced(tiles, min(cap, most), 1, pieces)
            for mr in row_tiles(tile_block, largest):
                block = tile_block
                if tile_block > mr and tile_block % mr:
                    # Round up to whole register tiles, if there are as many blocks as before or
                    # `most` permits it.
                    rounded = round_up(tile_block, mr)
                    if ceil_div(tiles, rounded) == ceil_div(tiles, tile_block) or rounded <= most:
                        block = rounded
                shares = ceil_div(tiles, block) * problem.groups
                oc_segment = panels.padded(oc)
                if shares < around.threads:
                    cuts = ceil_div(around.threads, shares)
                    oc_segment = balanced(oc, oc_segment, panels.width, cuts)
                key = (mr, block, ic_segment, oc_segment)
                if key in seen:
                    continue
                seen.add(key)
                yield Winograd(
                    problem, around.numerics, n, r, around.lanes, mr, nr, block, ic_segment,
                    min(oc_block, oc_segment), oc_segment, around.machine.l1d_bytes,
                )  # fmt: skip


def _stages(
    problem: ConvProblem, around: PlanContext, n: int, r: int, nr: int, largest: int
) -> Iterator[Candidate]:
    """Yield blockings with V and M in L3 or memory, so that weights are read once or twice.

    They are for weights that L2 does not hold. V of a position takes half of L2, where it stays
    while every panel of weights is multiplied by it.
    """
    e, positions, threads = around.numerics.operand_bytes, (n + r - 1) ** 2, around.threads
    oc, depth = problem.oc // problem.groups, problem.ic // problem.groups
    depth *= subkernels_of(problem, r)
    l2, tiles = around.machine.l2_share, max(tiles_of(problem, n), 1)
    if positions * depth * oc * around.numerics.weight_bytes <= l2:
        return
    panels = Panels.of_columns(KernelKey("gemm", largest, nr, around.numerics.kr))
    multiple = problem.block if problem.layout == "NCHWc" else around.lanes
    whole = math.lcm(multiple, around.lanes)
    near = max(l2 // 2 // (depth * e), 1)
    room = threads * l3_share(around.machine)
    room //= positions * (depth * e + oc * around.numerics.sum_bytes)
    seen = set()
    for most in {near, min(near, max(room, 1))}:
        tile_block = balanced(tiles, most, 1)
        for mr in row_tiles(tile_block, largest):
            block = tile_block
            if tile_block > mr and ceil_div(tiles, round_up(block, mr)) == ceil_div(tiles, block):
                block = round_up(block, mr)
            for segments in (1, 2):
                ic_segment = depth
                if segments > 1:
                    ic_segment = balanced(depth, ceil_div(depth, segments), multiple)
                if (mr, block, ic_segment) in seen:
                    continue
                seen.add((mr, block, ic_segment))
                pieces = ceil_div(PARTS_EACH * threads, positions) if threads > 1 else 1
                oc_segment = balanced(oc, panels.padded(oc), panels.width, pieces)
                parts = min(PARTS_EACH * threads, block) if threads > 1 else 1
                across = ceil_div(2 * threads, parts) if threads > 1 else 1
                yield Winograd(
                    problem, around.numerics, n, r, around.lanes, mr, nr, block, ic_segment,
                    panels.padded(oc), oc_segment, around.machine.l1d_bytes,
                    tile_part=ceil_div(block, parts),
                    ic_part=balanced(depth, depth, whole, across),
                    oc_part=balanced(oc, oc, whole, across),
                )  # fmt: skip
