"""im2col of few channels in NCHW without its copies: the candidates and their cost.

Vectors run along rows of outputs; the rows of the image are in a slab with zeros around them, which
each tap reads a pixel further on; see ``schedules/plane_loops.pyx``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from .._lazy import lazy
from .._records import record
from ..numerics import Numerics
from ..problem import ConvProblem
from .candidate import (
    LINE,
    Candidate,
    KernelKey,
    ceil_div,
    is_padded,
    odd_lines,
    round_up,
    team_pieces,
    thread_scratch,
)
from .context import PlanContext
from .core_model import (
    CALL_CYCLES,
    L1_WAY_BYTES,
    STORE_CYCLES,
    TASK_CYCLES,
    CoreModel,
    busiest_share,
    direct_sum_floor,
    parts,
    runs_cycles,
    step_cycles,
    taken_cycles,
)
from .error_bounds import direct_error_bound
from .panels import Panels
from .tiled import row_tiles

NAME = "im2col"
RUN_BYTES = SEGMENT_BYTES = 16  # struct pplconv_run, struct pplconv_segment
MOST_CHANNELS = 8  # of a group: with more, im2col is cheap compared to the products
NARROWEST = 2  # vectors in a row of outputs
SEGMENT_CYCLES = 8.0
# Loads that a load of pixels takes besides itself, as it may cross cache lines: vectors of a line
# do so nearly always (7.1 cycles a tap for four of them on a Zen 5), shorter ones now and then.
ACROSS_LINE = 2.25
ACROSS = 0.7
LAY_CYCLES = 4.0  # a vector into the slab
# A row of a tile that ends within a cache line, if L1 evicts the line before the next tile ends it.
# With 16 planes a multiple of 4 KiB apart, a tile of four rows took 40 cycles more on a Zen 3, with
# sets of 8 lines, and none more with sets of 12.
AGAIN_CYCLES = 10.0
CROWDED = 1.5  # of L1's size: planes that share sets


@record(frozen=True)
class Planes(Candidate):
    """One way to run a problem through the loops on few channel planes.

    Parameters
    ----------
    problem : ConvProblem
        The problem to compute.
    numerics : Numerics
        The types that it is computed with.
    lanes, mr, nr : int
        Elements of a vector; the tile: output channels down, pixels across.
    row_segment : int
        Output rows of a task.
    """

    problem: ConvProblem
    numerics: Numerics
    lanes: int
    mr: int
    nr: int
    row_segment: int

    algorithm = NAME
    loops = "planes"
    takes_gaps = False

    @property
    def multiplies_padding(self) -> bool:
        """True if there is padding: rows have zeros around them in the scratch."""
        return is_padded(self.problem)

    @property
    def bits(self) -> str:
        """The order of the sum, the same as with packed rows; taps on padding are multiplied."""
        return f"sum over c, kh, kw{self.numerics.order}"

    @property
    def error_bound(self) -> float:
        """Bound of one chain of FMAs."""
        return direct_error_bound(self.problem.k, self.numerics)

    @property
    def blocks(self) -> dict[str, int | str]:
        """Treatment of the rows; orientation, tile, segment."""
        return {
            "rows": "in place", "orientation": "pixels", "mr": self.mr, "nr": self.nr,
            "row_segment": self.row_segment,
        }  # fmt: skip

    @property
    def kernel(self) -> KernelKey:
        """The GEMM microkernel."""
        return KernelKey("gemm", self.mr, self.nr, self.numerics.kr)

    @property
    def ic(self) -> int:
        """Input channels of a group."""
        return self.problem.ic // self.problem.groups

    @property
    def oc(self) -> int:
        """Output channels of a group."""
        return self.problem.oc // self.problem.groups

    @lazy
    def panels(self) -> Panels:
        """The panels of packed weights."""
        return Panels.of_rows(self.kernel)

    @property
    def packing(self) -> str:
        """Format of the packed weights, the same as with packed rows."""
        return f"{self.panels.name}, k = ckhkw"

    @property
    def packed_weight_bytes(self) -> int:
        """Size of the packed weights."""
        size = self.panels.bytes(self.oc, self.problem.k, self.numerics.weight_bytes)
        return self.problem.groups * size

    @property
    def tasks(self) -> int:
        """Iterations of the parallel loop."""
        p = self.problem
        return p.batch * p.groups * ceil_div(p.oh, self.row_segment)

    @property
    def slab_rows(self) -> int:
        """Rows that a task's outputs see, those of the padding included."""
        p = self.problem
        rows = max(min(self.row_segment, p.oh), 1)
        return (rows - 1) * p.stride[0] + (p.kh - 1) * p.dilation[0] + 1

    @lazy
    def slab_width(self) -> int:
        """Elements of a row of the slab: an odd number of lines."""
        p, e = self.problem, self.numerics.operand_bytes
        return odd_lines((p.ow + (p.kw - 1) * p.dilation[1]) * e) // e

    @lazy
    def scratch(self) -> tuple[int, int, int]:
        """Offsets of the table of runs and of the slab, and bytes of one thread."""
        p, e = self.problem, self.numerics.operand_bytes
        runs = round_up(self.ic * p.kh * SEGMENT_BYTES, LINE)
        count = self.slab_rows * (ceil_div(self.slab_width, self.lanes) + 3) + 1
        slab = round_up(runs + count * RUN_BYTES, LINE)
        plane = round_up(self.slab_rows * self.slab_width, self.lanes) * e
        return runs, slab, thread_scratch(slab + self.ic * plane)

    @property
    def scratch_bytes(self) -> int:
        """Scratch of one thread."""
        return self.scratch[-1]

    def own_fields(self) -> dict[str, Any]:
        """Collect what ``schedules.plane_loops.PlanesSchedule`` takes."""
        runs, slab, _ = self.scratch
        return {
            "mr": self.mr,
            "nr": self.nr,
            **self.panels.fields,
            "row_segment": self.row_segment,
            "slab_rows": self.slab_rows,
            "slab_width": self.slab_width,
            "runs_offset": runs,
            "slab_offset": slab,
        }

    def cost(self, core: CoreModel, threads: int) -> dict[str, float]:
        """Estimate the cycles of the busiest thread.

        Terms: ``fma`` steps of the microkernel, ``tile`` calls, segments and stores, ``pack`` the
        slab, ``team`` with the lines of outputs that two of its threads store into.
        """
        p, segments = self.problem, self.ic * self.problem.kh
        whole = self.lanes * self.numerics.operand_bytes >= LINE
        across = ACROSS_LINE if whole else ACROSS
        again = AGAIN_CYCLES if self._evicts(core) else 0.0
        fma = tile = 0.0
        for m, m_count in parts(self.oc, self.mr):
            for n, n_count in parts(p.ow, self.nr):
                vectors, calls = ceil_div(n, self.lanes), m_count * n_count
                loads = (m + vectors * (1.0 + across)) / core.loads_per_cycle
                fma += calls * p.k * max(step_cycles(core, m, vectors), loads)
                tile += calls * (CALL_CYCLES + segments * SEGMENT_CYCLES)
                tile += calls * m * (vectors * STORE_CYCLES + again)
        rows = ceil_div(p.oh, self.row_segment) * self.slab_rows
        pack = rows * self.ic * ceil_div(self.slab_width, self.lanes) * LAY_CYCLES
        repeat = p.batch * p.groups
        outputs = p.output_pixels * p.oc * self.numerics.destination_bytes
        runs = self.oc * ceil_div(p.ow, self.nr)
        tile += runs_cycles(core, outputs, runs, of_lines=whole)
        largest = min(1.0, self.row_segment / max(p.oh, 1)) / max(repeat, 1)
        busiest = busiest_share(self.tasks, threads, largest)
        work = {
            "fma": fma * p.oh * repeat,
            "tile": tile * p.oh * repeat + self.tasks * TASK_CYCLES,
            "pack": pack * repeat,
        }
        cost = {name: cycles * busiest for name, cycles in work.items()}
        cost["team"] = core.team_cycles if threads > 1 else 0.0
        plane = p.output_pixels * self.numerics.destination_bytes
        row = self.row_segment * p.ow * self.numerics.destination_bytes
        if repeat % threads and (plane % LINE or row % LINE):
            cost["team"] += taken_cycles(core, threads, self.oc)
        return cost

    def _evicts(self, core: CoreModel) -> bool:
        """Whether lines of outputs leave L1 before the tiles that share them have stored."""
        p, size = self.problem, self.numerics.destination_bytes
        plane = p.oh * p.ow * size
        far = p.batch * p.oc * plane > core.l2_bytes and self.nr * size % LINE
        return bool(far) and self.oc * math.gcd(plane, L1_WAY_BYTES) > CROWDED * core.l1_bytes


def serves(problem: ConvProblem, numerics: Numerics) -> bool:
    """Whether these loops can compute `problem`, and may be worth it."""
    return (
        problem.layout == "NCHW" and problem.stride[1] == 1 and problem.kw > 1
        and 0 < problem.ic // problem.groups <= MOST_CHANNELS
        and not numerics.converts and numerics.chain is None and numerics.kr == 1
    )  # fmt: skip


def candidates(problem: ConvProblem, around: PlanContext) -> Iterator[Planes]:
    """Yield the tiles and segments worth an estimate."""
    p, numerics = problem, around.numerics
    if not serves(p, numerics) or p.ow < NARROWEST * around.lanes or p.oh == 0:
        return
    oc, share = p.oc // p.groups, p.batch * p.groups
    cycles = direct_sum_floor(p, around.lanes, CoreModel.of(around)) / max(share, 1)
    for nr, largest in sorted(around.tiles.items()):
        if nr > round_up(p.ow, around.lanes):
            continue
        for mr in row_tiles(oc, largest):
            whole = Planes(p, numerics, around.lanes, mr, nr, p.oh)
            row = max(whole.slab_width * whole.ic * numerics.operand_bytes * p.stride[0], 1)
            most = max(around.machine.l2_share // 8 // row, 1)
            threads = around.threads
            pieces = 1 if share % threads == 0 else team_pieces(p.oh, 1, threads, cycles)
            count = max(pieces, ceil_div(p.oh, most))
            if share % threads:
                count = round_up(count, threads)  # no thread has a task more than the others
            segment = ceil_div(p.oh, min(count, p.oh))
            yield Planes(p, numerics, around.lanes, mr, nr, segment)
