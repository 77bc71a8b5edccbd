"""The GEMM nest of ``pointwise``, ``im2col`` and ``gemm``: blocks, segments, their memory.

A `NestBlocking` is one candidate: everything that the loops of ``schedules.gemm_loops`` need
besides the problem. It works on a `MatrixProblem`. For a convolution, output pixels are the rows,
output channels the columns, and A has windows of the image. Block sizes follow the register and
cache formulas in MegEngine's and OpenPPL's documents: the number of registers gives the tile, L1
the block of K and one operand's panel, L2 the packed pixels of a task.
"""

from __future__ import annotations

import math
from typing import Any

from .._lazy import lazy
from .._records import record
from ..geometry import Geometry
from ..numerics import Numerics
from ..problem import Problem
from .candidate import (
    LINE,
    KernelKey,
    ceil_div,
    finish_panels,
    odd_lines,
    round_up,
    thread_scratch,
)
from .matrix_blocking import RUN_BYTES, SLAB_BYTES, MatrixBlocking
from .panels import PREFETCH_STEPS, Panels

FEW_ROWS = 2
# Where B is when tiles read it: packed before, packed by each task, or in the user's array.
BEFORE, BY_TASK, IN_PLACE = "before", "by task", "in place"


def weight_panels(
    problem: Problem, numerics: Numerics, kernel: KernelKey, orientation: str
) -> Panels:
    """Panels of weights: output channels are the rows of a tile, or its columns.

    In NCHWc a tile stores into one block, and a few channels need no wider panels.

    For integer sums, panels have zeros up to a whole step, so that no step needs a copy of A. For
    floats, the zeros times values past a row of A might give NaN. Sums shorter than a step need
    neither zeros nor copies.
    """
    if problem.block:
        panels = Panels.of_columns(kernel).inside(problem.block)
        panels = panels._replace(width=max(min(panels.width, problem.matrix.n), 1))
    else:
        by_columns = orientation == "channels"
        panels = Panels.of_columns(kernel) if by_columns else Panels.of_rows(kernel)
    k, step = problem.matrix.k, numerics.step
    return panels._replace(step=step) if numerics.exact and k % step and k > step else panels


@record(frozen=True)
class NestBlocking(MatrixBlocking):
    """One way to run a problem through the GEMM nest, without its cost estimate.

    Parameters
    ----------
    problem : Problem
        The problem to compute.
    numerics : Numerics
        The types that it is computed with.
    algorithm : str
        ``"pointwise"``, ``"im2col"`` or ``"gemm"``.
    packed : bool
        Whether pixels are packed into scratch before the product.
    orientation : str
        ``"pixels"`` or ``"channels"``: what the vectors run over.
    lanes, mr, nr : int
        Elements of a vector; the tile.
    k_block, oc_segment, hw_segment, group_segment : int
        Blocks and segments, in elements.
    pixels_inner : bool
        Whether the loop over the task's pixels is the inner one.
    columns : str
        Where B is: `BEFORE`, `BY_TASK` or `IN_PLACE`.
    """

    problem: Problem
    numerics: Numerics
    algorithm: str
    packed: bool
    orientation: str
    lanes: int
    mr: int
    nr: int
    k_block: int
    oc_segment: int
    hw_segment: int
    group_segment: int
    pixels_inner: bool
    columns: str = BEFORE

    loops = "gemm"
    takes_gaps = True

    @property
    def bits(self) -> str:
        """The order of the sum."""
        return self.order("")

    @property
    def blocks(self) -> dict[str, int | str]:
        """Orientation, tile, blocks and segments."""
        own: dict[str, int | str] = dict(self.numerics.kind)
        if self.problem is self.matrix:  # for convolutions, the algorithm's name tells
            own["rows"] = "packed" if self.packed else "in place"
            if self.columns != BEFORE:
                own["columns"] = self.columns
        return own | {
            "orientation": self.orientation,
            "mr": self.mr,
            "nr": self.nr,
            "k_block": self.k_block,
            "oc_segment": self.oc_segment,
            "hw_segment": self.hw_segment,
            "group_segment": self.group_segment,
            "innermost": "pixels" if self.pixels_inner else "channels",
        }

    @property
    def kernel(self) -> KernelKey:
        """The GEMM microkernel."""
        return KernelKey("gemm", self.mr, self.nr, self.numerics.kr)

    @lazy
    def y_in_rows(self) -> bool:
        """`in_rows` of the outputs; if not, tiles of channels are stored transposed."""
        return self.matrix.c_in_rows

    @lazy
    def oc(self) -> int:
        """Output channels of one group."""
        return self.matrix.n

    @lazy
    def panels(self) -> Panels:
        """The panels of packed weights."""
        return weight_panels(self.problem, self.numerics, self.kernel, self.orientation)

    @property
    def packing(self) -> str:
        """Format of the packed weights; weights of one format serve every plan that has it."""
        if self.problem is self.matrix:
            return self.panels.name if self.columns == BEFORE else self.columns
        order = "khkwc" if self.in_rows else "ckhkw"
        return f"{self.panels.name}, k = {order}"

    @lazy
    def oc_segments(self) -> int:
        """Segments of a group's output channels."""
        return ceil_div(self.oc, self.oc_segment)

    @lazy
    def hw_segments(self) -> int:
        """Segments of the output pixels."""
        return ceil_div(self.pixels, self.hw_segment)

    @lazy
    def tasks(self) -> int:
        """Iterations of the parallel loop."""
        groups = ceil_div(self.matrix.groups, self.group_segment)
        pixels = min(self.pixels, 1) if self.columns == BY_TASK else self.hw_segments
        return groups * self.images * pixels * self.oc_segments

    @property
    def packed_weight_bytes(self) -> int:
        """Size of the packed weights."""
        p = self.matrix
        if self.columns != BEFORE:
            return 0
        return p.groups * self.panels.bytes(self.oc, p.k, self.numerics.weight_bytes)

    @lazy
    def pixel_panels(self) -> Panels:
        """The panels of packed NCHW pixels; if pixels are rows of tiles, a segment is one panel."""
        if self.orientation == "pixels":
            return Panels.of_columns(self.kernel)
        return Panels(round_up(self.hw_segment, self.lanes), self.kernel.kr)

    @lazy
    def copied(self) -> bool:
        """Whether unpacked pixels are copied, for conversion or for whole groups of k."""
        whole = self.matrix.k % self.numerics.kr == 0
        return not self.packed and (self.numerics.converts_in or not whole)

    @property
    def flat(self) -> bool:
        """Whether an image's output pixels are its input pixels, row upon row."""
        return self.problem.is_pointwise and not self.in_rows and not self.numerics.converts_in

    @property
    def most_runs(self) -> int:
        """Most runs of the table: one ends with a vector, a row, a panel, or the segment."""
        g = self.geometry
        pixels = min(self.hw_segment, self.pixels)
        row = g.oh * g.ow if self.flat else g.ow
        rows, panels = ceil_div(pixels, row) + 1, ceil_div(pixels, self.pixel_panels.width)
        return g.kh * g.kw * (ceil_div(pixels, self.lanes) + rows + 2 * panels)

    @property
    def b_ahead(self) -> int:
        """How far ahead a tile prefetches its vector operand, in bytes."""
        if self.orientation == "channels":
            if self.pixels <= FEW_ROWS:
                return 0  # the loads alone keep the line buffers busy; a prefetch takes their slots
            if self.columns == IN_PLACE:
                return PREFETCH_STEPS * self.matrix.b.row * self.numerics.weight_bytes
            return self.panels.ahead(self.numerics.weight_bytes)
        if self.packed:
            return self.pixel_panels.ahead(self.numerics.operand_bytes)
        return self.nr * self.numerics.operand_bytes

    @property
    def packed_row(self) -> int:
        """Bytes from one packed pixel to the next, if its channels are neighbours.

        For planes that are converted into scratch: from one channel to the next.
        """
        if not self.packed and not self.in_rows:
            return odd_lines(self.hw_segment * self.numerics.operand_bytes)
        return odd_lines(self.panels.depth(self.k_block) * self.numerics.operand_bytes)

    @property
    def moved_row(self) -> int:
        """Bytes of a scratch row for copies of misaligned rows of A; 0: rows stay in place.

        Tile registers load whole cache lines of each row, and arrays of NumPy may begin anywhere in
        a line. In place, each load would touch two lines instead of one, for every panel.
        """
        if not self.numerics.in_tiles or self.packed or self.copied or self.pixels_inner:
            return 0
        return odd_lines(round_up(min(self.k_block, self.matrix.k), self.numerics.step))

    @property
    def finish_panels(self) -> int:
        """Panels of output channels whose tiles are finished together.

        One call for many columns of integer sums stores whole lines, and does not have to wait for
        a tile that has just been stored.
        """
        if not self.numerics.exact or self.pixels_inner or not self.y_in_rows:
            return 1
        return finish_panels(self.oc_segment, self.nr)

    @property
    def tile_row(self) -> int:
        """Bytes from one pixel to the next, in the tile that is stored transposed.

        With one block of K a panel is stored as soon as it is done, so the tile is one panel
        wide and stays in L1; with several it must hold all panels between blocks.
        """
        columns = self.oc_segment if self.orientation == "channels" else self.hw_segment
        width = round_up(columns, self.nr)
        if self.k_block >= self.matrix.k:
            width = self.nr * self.finish_panels
        return odd_lines(width * self.numerics.sum_bytes)

    @lazy
    def slab(self) -> tuple[int, int]:
        """Rows and channels of the input that are converted together before packing."""
        g = self.geometry
        if not (self.numerics.converts_in and self.packed):
            return 0, 0
        spanned = min(ceil_div(max(self.hw_segment - 1, 0), max(g.ow, 1)) + 1, g.oh)
        rows = min((spanned - 1) * g.stride_h + (g.kh - 1) * g.dilation_h + 1, g.ih)
        ic = self.ic
        if self.in_rows:
            return rows, min(ic, self.problem.block or ic)
        return rows, min(max(SLAB_BYTES // (rows * g.iw * self.numerics.operand_bytes), 1), ic)

    @property
    def plane_row(self) -> int:
        """Bytes of one channel of a panel that is converted after it was transposed."""
        return odd_lines(self.hw_segment * self.numerics.sum_bytes)

    @lazy
    def memory(self) -> tuple[int, int, int, int, int, int, int]:
        """Offsets of runs, tile, planes, slab, moved rows and weights; bytes of one thread."""
        element = self.numerics.operand_bytes
        transposed = self.orientation == "channels" and not self.y_in_rows
        size = 0
        if self.packed and self.in_rows:
            size = self.hw_segment * self.packed_row
        elif self.packed:
            size = self.pixel_panels.bytes(self.hw_segment, self.k_block, element)
        elif self.copied:
            size = (self.hw_segment if self.in_rows else self.k_block) * self.packed_row
        runs = round_up(size, LINE)
        size = runs
        if self.packed and not self.in_rows:
            size += self.most_runs * RUN_BYTES
        tile = round_up(size, LINE)
        size = tile
        if transposed:
            size += self.hw_segment * self.tile_row
        planes = slab = size
        if self.numerics.converts_out:
            if not transposed:
                size += self._tile_rows * self.tile_row
            planes = size
            if transposed:
                size += self.nr * self.plane_row
            slab = size
        if self.numerics.converts_in:
            slab = round_up(size, LINE)
            size = slab + math.prod(self.slab) * self.geometry.iw * element
        moved = round_up(size, LINE)
        if self.moved_row:
            size = moved + self.mr * self.moved_row
        weights = round_up(size, LINE)
        if self.columns == BY_TASK:
            weights = round_up(size, 4096)
            size = weights + self.panels.bytes(
                min(self.oc_segment, self.oc), min(self.k_block, self.matrix.k),
                self.numerics.weight_bytes,
            )  # fmt: skip
        return runs, tile, planes, slab, moved, weights, thread_scratch(size)

    @property
    def _tile_rows(self) -> int:
        """Rows of sums in scratch: of one tile, or of all tiles between blocks of K."""
        if self.k_block >= self.matrix.k:
            return self.mr
        return self.hw_segment if self.orientation == "channels" else self.oc_segment

    @property
    def scratch_bytes(self) -> int:
        """Scratch of one thread."""
        return self.memory[-1]

    def own_fields(self) -> dict[str, Any]:
        """Collect what ``schedules.gemm_loops.GemmSchedule`` takes."""
        g, p = self.geometry, self.matrix
        runs, tile, planes, slab, moved, weights, _ = self.memory
        slab_rows, slab_channels = self.slab
        fields = super().own_fields() | {
            "y_in_rows": self.y_in_rows,
            # Bytes of input and output from one group to the next; bytes of the weights before
            # packing from one group, output channel and k to the next; biases of a group.
            "matrices": (
                p.a.group * self.numerics.source_bytes,
                p.c.group * self.numerics.destination_bytes,
                *(b * self.numerics.filter_bytes for b in (p.b.group, p.b.column, p.b.row)),
                0 if self.problem is p else self.oc,
            ),
            "channels_in_vectors": self.orientation == "channels",
            "packed": self.packed,
            "copied": self.copied,
            "pixels_inner": self.pixels_inner,
            "mr": self.mr,
            "nr": self.nr,
            **self.panels.fields,
            "k_block": self.k_block,
            "k_step": max(self.panels.kr, self.panels.step),
            "oc_segment": self.oc_segment,
            "hw_segment": self.hw_segment,
            "group_segment": self.group_segment,
            "b_ahead": self.b_ahead,
            "pixel_panel": self.pixel_panels.width,
            "packed_row": self.packed_row,
            "tile_row": self.tile_row,
            "slab_rows": slab_rows,
            "slab_channels": slab_channels,
            "finish_panels": self.finish_panels,
            "moved_row": self.moved_row,
            "weights_in_place": self.columns == IN_PLACE,
            "weights_by_task": self.columns == BY_TASK,
            "moved_offset": moved,
            "weights_offset": weights,
            "slab_offset": slab,
            "plane_offset": planes,
            "plane_row": self.plane_row,
            "runs_offset": runs,
            "tile_offset": tile,
        }
        if self.flat:
            fields["geometry"] = Geometry(1, g.ih * g.iw, 1, g.oh * g.ow)
        return fields
