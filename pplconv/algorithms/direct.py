"""Direct convolution without im2col and without taps on padding: its candidates."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from .._records import record
from ..numerics import Numerics
from ..problem import ConvProblem
from .candidate import (
    Candidate,
    KernelKey,
    balanced,
    ceil_div,
    narrow_blocks,
    ragged_groups,
    team_pieces,
)
from .context import PlanContext
from .core_model import CoreModel, direct_sum_floor
from .direct_blocking import OF_PROBLEM, DirectBlocking, ranges, weight_panels
from .direct_cost import estimate
from .tiled import row_tiles, widths

NAME = "direct"


@record(frozen=True)
class Direct(DirectBlocking):
    """One way to run a problem through direct convolution's loops."""

    def cost(self, core: CoreModel, threads: int) -> dict[str, float]:
        """Estimate the cycles of the busiest thread; see `direct_cost`."""
        return estimate(self, core, threads)


def floor(problem: ConvProblem, lanes: int, core: CoreModel) -> float:
    """Least cycles of any candidate on one thread; taps on padding are not computed.

    Infinite for blocked 1x1, which runs through the same loops as ``"pointwise"``.
    """
    if problem.is_pointwise and problem.layout == "NCHWc":
        return math.inf
    (top, _), (left, _) = problem.padding
    share = 1.0
    for outputs, *sizes in (
        (problem.oh, problem.ih, problem.kh, problem.stride[0], problem.dilation[0], top),
        (problem.ow, problem.iw, problem.kw, problem.stride[1], problem.dilation[1], left),
    ):
        seen = sum((end - at) * (high - low) for at, end, low, high in ranges(outputs, *sizes))
        share *= seen / max(outputs * sizes[1], 1)
    return share * direct_sum_floor(problem, lanes, core)


def supports(problem: ConvProblem, numerics: Numerics) -> str | None:
    """Say why `problem` cannot be served; None if it can."""
    return narrow_blocks(problem, numerics) or ragged_groups(problem)


def candidates(problem: ConvProblem, around: PlanContext, name: str = NAME) -> Iterator[Candidate]:
    """Yield the segments and tiles worth an estimate."""
    oc = problem.oc // problem.groups
    known: dict[str, Any] = {}
    for nr, largest in widths(oc, around):
        # Skip tiles with idle vectors, but keep the narrowest so that there is at least one.
        panels = weight_panels(
            problem, KernelKey("gemm", largest, nr, around.numerics.kr), around.lanes
        )
        if nr == min(around.tiles) or panels.width > nr - around.lanes:
            yield from _with_tile(problem, around, name, nr, largest, known)


def _with_tile(
    problem: ConvProblem, around: PlanContext, name: str, nr: int, largest: int,
    known: dict[str, Any],
) -> Iterator[Candidate]:  # fmt: skip
    numerics, l2 = around.numerics, around.machine.l2_share
    oc = problem.oc // problem.groups
    threads = around.threads
    frame = Direct(problem, numerics, name, around.lanes, 1, nr, 1, oc, True).knowing(known)
    known.update((own, getattr(frame, own)) for own in OF_PROBLEM)
    rows, width = max(frame.geometry[2], 1), max(frame.geometry[3], 1)
    weights = frame.panels.bytes(oc, frame.k_packed, numerics.weight_bytes)
    share = frame.images * problem.groups
    row_bytes = frame.geometry[1] * frame.ic * numerics.operand_bytes * frame.geometry[6]
    row_bytes = max(row_bytes + frame.geometry[3] * frame.turned_pixel, 1)
    reach = problem.kh * problem.dilation[0]
    pieces = 1 if share and share % threads == 0 else threads
    options = set()
    for budget in (l2 // 4, l2 // 2):
        most = max(budget // row_bytes - reach // frame.geometry[6], 1)
        options.add(balanced(rows, most, 1, pieces))
    if not frame.gathered:
        if pieces > 1 and weights <= l2 // 4:
            core = CoreModel.of(around)
            cycles = direct_sum_floor(problem, around.lanes, core) / max(share, 1)
            pieces = team_pieces(rows, 1, pieces, cycles)
        options.add(balanced(rows, rows, 1, pieces))
    inside = max((end - begin for begin, end, _, _ in frame.columns), default=width)
    of_width = {"panels": frame.panels, "k_packed": frame.k_packed}
    for row_segment in options:
        tasks = max(share, 1) * ceil_div(rows, row_segment)
        oc_segment = frame.panels.padded(oc)
        if tasks < threads:
            oc_segment = balanced(oc, oc_segment, frame.panels.width, ceil_div(threads, tasks))
        orders = {True, weights > l2} if frame.turned or not frame.slab else {True}
        for pixels_inner in orders:
            for mr in row_tiles(inside, largest):
                made = Direct(
                    problem, numerics, name, around.lanes, mr, nr, row_segment, oc_segment,
                    pixels_inner,
                )  # fmt: skip
                yield made.knowing(known).knowing(of_width)
