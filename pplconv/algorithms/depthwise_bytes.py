"""Depthwise convolution of bytes, exact: groups of one input channel, with any channel multiplier.

Users know it as ``"depthwise"``. Sums of a few rows of some channels stay in L1 until they are
stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .._lazy import lazy
from .._records import record
from ..problem import ConvProblem
from .candidate import (
    EXACT,
    LINE,
    Candidate,
    KernelKey,
    balanced,
    ceil_div,
    round_up,
    thread_scratch,
)
from .context import PlanContext
from .core_model import TASK_CYCLES, CoreModel, conversion_cycles
from .depthwise_candidate import DepthwiseCandidate

SQUARE_CYCLES = 0.3  # a tap of 3x3 or 5x5, for a vector of sums
GENERIC_CYCLES = 6.0  # a tap of another kernel
PLANE_CYCLES = 60.0  # a plane: its weights, the ends of its rows
LINE_CYCLES = 12.0  # to copy a line of a plane
SLAB_ROOM = 64
UNIT_HEADER = 64
CHUNK_VECTORS = 4  # vectors of channels whose sums are finished together


@record(frozen=True)
class DepthwiseBytes(DepthwiseCandidate):
    """One way to run a problem through the loops of depthwise convolution of bytes."""

    loops = "depthwise_bytes"
    takes_gaps = False
    bits = EXACT
    error_bound = 0.0

    @property
    def by_pixels(self) -> bool:
        """Whether vectors run over pixels."""
        return self.problem.layout == "NCHW" or self.problem.oc == 1

    @property
    def unit(self) -> int:
        """Channels in a unit of packed weights."""
        return 1 if self.by_pixels else 4 * self.isa_lanes

    @property
    def kernel(self) -> KernelKey:
        """The kernel of its orientation."""
        along = "pixels" if self.by_pixels else "channels"
        return KernelKey(f"depthwise_bytes_{along}")

    @property
    def square(self) -> bool:
        """Whether kernels have special loops for this size."""
        return self.problem.kh == self.problem.kw and self.problem.kh in (3, 5)

    @property
    def unit_bytes(self) -> int:
        """Bytes of a unit of packed weights, enough for any format of the kernel."""
        p = self.problem
        if self.by_pixels:
            return 8 + 8 * p.kh * ceil_div(p.kw, 4)
        size = UNIT_HEADER + self.unit * 2 * p.kh * p.kw
        if self.square:
            quads = ceil_div(p.kh + 2, 4)
            size = max(size, UNIT_HEADER + self.unit * 4 * (1 + 4 * p.kw * quads))
        return round_up(size, LINE)

    @property
    def packing(self) -> str:
        """Format of the packed weights, which depends on the kernel's vectors."""
        p, vector = self.problem, f"{self.isa_lanes} sums"
        geometry = f"{p.stride} {p.dilation}, {self.unit} of {p.oc // p.groups}"
        return f"bytes by {self.kernel.op} for {vector}, {self.numerics.product} {geometry}"

    @property
    def packed_weight_bytes(self) -> int:
        """Size of the packed weights."""
        return ceil_div(self.problem.oc, self.unit) * self.unit_bytes

    @property
    def slab_line(self) -> int:
        """Bytes of a padded line of a plane."""
        p = self.problem
        seen = (p.ow - 1) * p.stride[1] + (p.kw - 1) * p.dilation[1] + 1
        return round_up(max(seen, 0) + SLAB_ROOM, LINE) if self.by_pixels else 0

    @lazy
    def chunk(self) -> tuple[int, int]:
        """Channels and rows of outputs whose sums are finished together."""
        p = self.problem
        if self.by_pixels:
            channels = p.oc // p.groups
        else:
            channels = min(round_up(self.channel_segment, self.unit), CHUNK_VECTORS * LINE // 4)
            channels = max(channels // self.unit, 1) * self.unit
        row = channels * max(p.ow, 1) * 4
        room = self.chunk_bytes * 3 // 4
        # Two rows of outputs share most of their lines, so a single row costs more.
        rows = min(max(room // row // 2 * 2, 2), max(self.row_segment, 1))
        if self.by_pixels and rows == self.row_segment:
            # At least the planes that share an input.
            channels *= min(max(room // (rows * row), 1), ceil_div(self.channel_segment, channels))
        return channels, rows

    @lazy
    def scratch(self) -> tuple[int, int, int]:
        """Offsets of the slab and of the sums, and bytes of one thread."""
        p = self.problem
        channels, rows = self.chunk
        lines = (rows - 1) * p.stride[0] + (p.kh - 1) * p.dilation[0] + 1
        out = LINE + round_up(lines * self.slab_line, LINE)
        room = channels if self.by_pixels else round_up(channels, self.isa_lanes)
        size = out + room * rows * p.ow * 4 + LINE
        return LINE, out, thread_scratch(size)

    @property
    def scratch_bytes(self) -> int:
        """Sums of a chunk, and padded lines of a plane."""
        return self.scratch[2]

    def own_fields(self) -> dict[str, Any]:
        """Collect what ``schedules.depthwise_loops.DepthwiseBytesSchedule`` takes."""
        slab, out, _ = self.scratch
        return self.cut_fields(self.chunk) | {
            "pixels": int(self.by_pixels),
            "unit": self.unit,
            "unit_bytes": self.unit_bytes,
            "slab_offset": slab,
            "slab_line": self.slab_line,
            "out_offset": out,
        }

    def cost(self, core: CoreModel, threads: int) -> dict[str, float]:
        """Estimate the cycles of the busiest thread.

        Terms: ``fma``, ``convert``, ``tile``, ``stream``, ``team``.
        """
        p, lanes = self.problem, self.isa_lanes
        fast = self.square and p.dilation == (1, 1) and p.stride[1] in (1, 2)
        fast = fast and (self.by_pixels or p.oc == p.groups)
        # A row alone costs as much as the two that kernels of equal strides compute.
        tap = SQUARE_CYCLES * (1 if p.stride[0] == p.stride[1] else 2) if fast else GENERIC_CYCLES
        if self.by_pixels:
            vectors = p.oc * p.oh * ceil_div(p.ow, lanes)
        else:
            vectors = ceil_div(p.oc, lanes) * p.oh * p.ow
        fma = p.batch * vectors * p.k * tap
        planes = lines = 0.0
        if self.by_pixels:
            planes = p.batch * p.oc * ceil_div(p.oh, self.chunk[1])
            lines = p.batch * p.ic * p.ih
        moved = p.batch * (p.ic * p.ih * p.iw + p.oc * p.oh * p.ow)
        busiest = self.busiest(threads)
        tile = planes * PLANE_CYCLES + lines * LINE_CYCLES + self.tasks * TASK_CYCLES
        return {
            "fma": fma * busiest,
            "convert": conversion_cycles(p, self.numerics, lanes, 0.0) * busiest,
            "tile": tile * busiest,
            "stream": moved / (4 * core.l3_rate) * busiest,
            "team": core.team_cycles if threads > 1 else 0.0,
        }


def candidates(problem: ConvProblem, around: PlanContext) -> Iterator[Candidate]:
    """Yield the segments worth an estimate."""
    p, threads, l1 = problem, around.threads, around.machine.l1d_bytes
    whole = DepthwiseBytes(p, around.numerics, around.lanes, max(p.oc, 1), max(p.oh, 1), l1)
    together = p.oc // p.groups if whole.by_pixels else whole.unit
    pieces = 1 if p.batch and p.batch % threads == 0 else threads
    channels, rows = balanced(p.oc, p.oc, together, pieces), max(p.oh, 1)
    if whole.by_pixels:
        tasks = max(p.batch, 1) * ceil_div(p.oc, channels)
        if p.oh:
            rows = balanced(p.oh, p.oh, 1, ceil_div(threads, tasks))
        yield DepthwiseBytes(p, around.numerics, around.lanes, channels, max(rows, 1), l1)
        return
    # Even rows, as kernels take two at a time.
    if p.oh:
        rows = balanced(p.oh, p.oh, 2, pieces)
    everything = round_up(p.oc, whole.unit)
    yield DepthwiseBytes(p, around.numerics, around.lanes, everything, rows, l1)
    if pieces > 1 and channels < p.oc:
        yield DepthwiseBytes(p, around.numerics, around.lanes, channels, max(p.oh, 1), l1)
