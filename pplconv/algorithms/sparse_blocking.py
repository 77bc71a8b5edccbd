"""Loops over sparse weights: panels, blocks, segments, and their memory.

A `SparseBlocking` is one candidate without its cost estimate: everything that the loops of
``schedules.sparse_loops`` need besides the problem.
"""

from __future__ import annotations

from typing import Any

from .._lazy import lazy
from .._records import NamedTuple, record
from ..numerics import Numerics
from ..problem import Problem
from ..sparsity import Sparsity
from .candidate import (
    LINE,
    KernelKey,
    ceil_div,
    odd_lines,
    round_up,
    thread_scratch,
)
from .matrix_blocking import RUN_BYTES, SLAB_BYTES, MatrixBlocking

PANEL_BYTES = 16  # of an entry of the table: where the terms and the values of a panel begin
STEP_BYTES = 4
CHUNK_BYTES = 24576  # sums on their way into rows of channels: they stay in L1
FETCHED_BYTES = 1 << 20  # of planes: larger ones are prefetched


class Places(NamedTuple):
    """Offsets in one thread's scratch, in bytes, and its size."""

    panel: int
    runs: int
    tile: int
    plane: int
    slab: int
    size: int


@record(frozen=True)
class SparseBlocking(MatrixBlocking):
    """One way to compute a problem with sparse weights, without its cost estimate.

    Parameters
    ----------
    problem : Problem
        The problem to compute.
    numerics : Numerics
        The types that it is computed with.
    orientation : str
        ``"pixels"`` or ``"channels"``: what the vectors run over.
    rows : str
        Treatment of pixels: ``"in place"``; ``"packed"``, a row for each k; ``"laid"``, copied as
        planes with zeros around them, which taps read.
    lanes, kr : int
        Sums of a vector; terms that are multiplied together.
    panel, width : int
        The tile: channels of a panel, and pixels.
    k_block, hw_segment : int
        Block of K, and pixels of a task.
    parts : int
        Tasks that share the output channels of a segment, divided by the number of stored weights.
    """

    problem: Problem
    numerics: Numerics
    orientation: str
    rows: str
    lanes: int
    kr: int
    panel: int
    width: int
    k_block: int
    hw_segment: int
    parts: int

    algorithm = "sparse"
    loops = "sparse"
    leaves_zeros_out = True
    takes_gaps = False

    @property
    def bits(self) -> str:
        """The order of the sum, which leaves out weights that are not stored."""
        return self.order("stored ")

    @property
    def blocks(self) -> dict[str, int | str]:
        """Orientation, tile, blocks and segments."""
        return dict(self.numerics.kind) | {
            "rows": self.rows,
            "orientation": self.orientation,
            "panel": self.panel,
            "width": self.width,
            "k_block": self.k_block,
            "hw_segment": self.hw_segment,
            "parts": self.parts,
        }

    @property
    def packed(self) -> bool:
        """Whether pixels go through the scratch."""
        return self.rows != "in place"

    @property
    def laid(self) -> bool:
        """Whether planes are laid there."""
        return self.rows == "laid"

    @lazy
    def images(self) -> int:
        """Images that the loops treat separately; rows are laid for each image."""
        return self.problem.batch if self.laid else self.matrix.images

    @lazy
    def pixels(self) -> int:
        """Output pixels of each of `images`."""
        return self.problem.output_pixels if self.laid else self.matrix.m

    @property
    def by_pixels(self) -> bool:
        """Whether vectors run over pixels."""
        return self.orientation == "pixels"

    @property
    def kernel(self) -> KernelKey:
        """The microkernel."""
        if self.by_pixels:
            return KernelKey("sparse_pixels", self.panel, self.width, self.kr)
        return KernelKey("sparse_channels", self.width, self.panel, self.kr)

    @lazy
    def sparsity(self) -> Sparsity:
        """How sparse the weights are."""
        assert self.problem.sparsity is not None
        return self.problem.sparsity

    @property
    def channels_run(self) -> bool:
        """Whether channels are neighbours in the order of K; planes are laid channel by channel."""
        return self.in_rows and not self.laid

    @property
    def taps(self) -> int:
        """Taps of the kernel."""
        return self.geometry.kh * self.geometry.kw

    @lazy
    def whole_panels(self) -> int:
        """Panels of a group that are made of whole blocks."""
        return self.matrix.n // self.sparsity.block * (self.sparsity.block // self.panel)

    @lazy
    def rest(self) -> int:
        """Output channels of a group beyond whole blocks."""
        return self.matrix.n % self.sparsity.block

    @lazy
    def last_panels(self) -> int:
        """Panels of the rest: of one channel each, or as wide as the others."""
        return self.rest if self.by_pixels else ceil_div(self.rest, self.panel)

    @lazy
    def panels(self) -> int:
        """Panels of a group."""
        return self.whole_panels + self.last_panels

    @lazy
    def k_blocks(self) -> int:
        """Blocks of K."""
        return max(ceil_div(self.matrix.k, self.k_block), 1)

    @lazy
    def room(self) -> tuple[int, int]:
        """Bounds of the terms, and of their values, of all groups.

        The number of stored weights is known, but not where they are.
        """
        k, groups = self.matrix.k, self.matrix.groups
        stored = self.sparsity.stored(groups * self.matrix.n * k)
        if self.by_pixels:
            single = min(groups * self.rest * k, stored)
            terms = (stored - single) // self.panel + single
            values = stored
        else:
            terms = stored // self.panel + groups * self.last_panels * k
            values = terms * self.panel
        # Terms come in groups of kr.
        lists = groups * self.panels * self.k_blocks * (self.kr - 1)
        return terms + lists, values + lists * self.panel

    @lazy
    def table_bytes(self) -> int:
        """Size of the table of panels, before the terms."""
        entries = self.matrix.groups * self.k_blocks * self.panels + 1
        return round_up(entries * PANEL_BYTES, LINE)

    @property
    def packing(self) -> str:
        """Format of the packed weights."""
        order = "hwc" if self.channels_run else "chw"
        kr = f", kr {self.kr}" if self.kr > 1 else ""
        block = f", k in blocks of {self.k_block}" if self.k_blocks > 1 else ""
        rest = "" if self.by_pixels else ", the last ones too"
        laid = f" on planes of {self.laid_plane}, {self.laid_text}" if self.laid else ""
        return f"terms of {self.panel}{kr}{rest}, k = {order}{laid}{block}, {self.sparsity.text}"

    @property
    def packed_weight_bytes(self) -> int:
        """Size of the packed weights: the table of panels, the steps of their terms, the values."""
        terms, values = self.room
        steps = round_up(terms * STEP_BYTES, LINE)
        return self.table_bytes + steps + values * self.numerics.weight_bytes

    @lazy
    def hw_segments(self) -> int:
        """Segments of the pixels."""
        return ceil_div(self.pixels, self.hw_segment)

    @property
    def tasks(self) -> int:
        """Iterations of the parallel loop."""
        return self.images * self.matrix.groups * self.hw_segments * self.parts

    @lazy
    def transposes(self) -> bool:
        """Whether pixels in rows are transposed into packed panels, and sums back into rows."""
        return self.by_pixels and self.in_rows

    @lazy
    def packed_row(self) -> int:
        """Bytes of a row of gathered pixels."""
        return round_up(self.matrix.k * self.numerics.operand_bytes, LINE)

    @lazy
    def fetches(self) -> bool:
        """Whether pixels are prefetched a tile ahead: if they are planes that may not be in L2."""
        size = self.matrix.k * self.matrix.m * self.numerics.operand_bytes
        return size > FETCHED_BYTES and not (self.packed or self.in_rows)

    @lazy
    def tiled(self) -> int:
        """Pixels of an image that tiles run over, with laid rows those between rows included."""
        g = self.geometry
        return max((g.oh - 1) * self.laid_row + g.ow, 0) if self.laid else self.matrix.m

    @lazy
    def seen(self) -> tuple[int, int]:
        """Rows and columns from the first tap to the last."""
        g = self.geometry
        return (g.kh - 1) * g.dilation_h, (g.kw - 1) * g.dilation_w

    @lazy
    def phases(self) -> tuple[int, int]:
        """Number of phases of rows and of columns; those of a phase are whole strides apart."""
        g = self.geometry
        return min(g.stride_h, self.seen[0] + 1), min(g.stride_w, self.seen[1] + 1)

    @lazy
    def laid_rows(self) -> int:
        """Rows of a part that the outputs of a task see."""
        g = self.geometry
        rows = max(min(self.hw_segment // max(g.ow, 1), g.oh), 1)
        return rows + self.seen[0] // g.stride_h

    @lazy
    def laid_row(self) -> int:
        """Elements of a laid row: all that outputs see of it."""
        return max(self.geometry.ow, 1) + self.seen[1] // self.geometry.stride_w if self.laid else 0

    @lazy
    def laid_plane(self) -> int:
        """Elements laid of a channel: an odd number of lines, so that channels share no set."""
        e = self.numerics.operand_bytes
        elements = self.phases[0] * self.phases[1] * self.laid_rows * self.laid_row
        return odd_lines(elements * e) // e if self.laid else 0

    @lazy
    def near(self) -> float:
        """Bytes of each k that panels read again and again for one tile of pixels."""
        e, g = self.numerics.operand_bytes, self.geometry
        if not self.laid:
            return float(self.width * e)
        h, w = self.phases
        rows = self.width / max(g.ow, 1) + 1 + self.seen[0] // g.stride_h
        return h * w * rows * self.laid_row * e / self.taps

    @property
    def laid_text(self) -> str:
        """How planes are laid, which decides the places of terms."""
        h, w = self.phases
        parts = f" of {h}x{w} phases of {self.laid_rows}" if h * w > 1 else ""
        return f"in rows of {self.laid_row}{parts}"

    @lazy
    def chunk(self) -> int:
        """Output channels that a call computes, whose sums are then finished together."""
        fit = CHUNK_BYTES // (self.width * self.numerics.sum_bytes)
        whole = round_up(16, self.panel)
        return max(fit // whole * whole, self.panel)

    @lazy
    def slab(self) -> tuple[int, int]:
        """Rows of the image, and channels, that are converted together before they are packed."""
        if self.laid:
            return self.laid_rows, 0
        if not (self.packed and self.numerics.converts_in):
            return 0, 0
        if self.numerics.exact and not self.in_rows:
            return 0, 0
        g = self.geometry
        span = min(ceil_div(self.width - 1, max(g.ow, 1)) + 1, g.oh)
        rows = min((span - 1) * g.stride_h + (g.kh - 1) * g.dilation_h + 1, g.ih)
        if self.in_rows:
            width = self.problem.block or self.ic
            return rows, max(min(self.ic, width), 1)
        plane = max(rows * g.iw * self.numerics.operand_bytes, 1)
        return rows, max(min(SLAB_BYTES // plane, self.ic), 1)

    @lazy
    def slab_bytes(self) -> int:
        """Size of the slab; for laid planes, it holds copied rows until their conversion."""
        rows, channels = self.slab
        if not self.laid:
            return rows * self.geometry.iw * channels * self.numerics.operand_bytes
        if not self.numerics.converts_in or not (self.in_rows or self.geometry.stride_w > 1):
            return 0
        return max(self.ic, rows) * self.laid_row * self.numerics.source_bytes

    @lazy
    def scratch(self) -> Places:
        """Offsets in one thread's scratch."""
        n, e, g = self.numerics, self.numerics.operand_bytes, self.geometry
        gathers = self.in_rows and self.packed and not self.laid
        panel = self.width * self.packed_row if gathers else 0
        runs = tile = round_up(panel, LINE)
        packs = self.transposes or (self.packed and not self.in_rows)
        if self.laid:
            runs = tile = round_up((self.ic * self.laid_plane + self.width) * e, LINE)
        elif packs:
            runs = tile = round_up(runs + self.k_block * self.width * e, LINE)
        if packs and not (self.in_rows or self.laid):
            # A run ends with a vector, a row, a panel or the segment.
            entries = ceil_div(self.width, self.lanes) + ceil_div(self.width, max(g.ow, 1)) + 3
            tile = round_up(runs + self.taps * entries * RUN_BYTES, LINE)
        plane = tile
        if self.waits:
            channels = self.chunk if self.k_blocks == 1 else self.matrix.n
            plane = round_up(tile + channels * self.width * n.sum_bytes, LINE)
        slab = plane
        if self.transposes and n.converts_out:
            slab = round_up(plane + self.chunk * self.width * n.sum_bytes, LINE)
        size = thread_scratch(slab + self.slab_bytes)
        return Places(round_up(panel, LINE), runs, tile, plane, slab, size)

    @property
    def waits(self) -> bool:
        """Whether sums go through the scratch."""
        return self.transposes or self.laid or self.numerics.converts_out

    @property
    def scratch_bytes(self) -> int:
        """Scratch of one thread."""
        return self.scratch.size

    def own_fields(self) -> dict[str, Any]:
        """Collect what ``schedules.sparse_loops.SparseSchedule`` takes."""
        m, places = self.matrix, self.scratch
        terms, values = self.room
        rows, channels = self.slab
        element = self.numerics.source_bytes, self.numerics.destination_bytes
        return super().own_fields() | {
            "by_pixels": self.by_pixels,
            "packed": self.packed,
            "laid": self.laid,
            "fetches": self.fetches,
            "laid_row": self.laid_row,
            "laid_plane": self.laid_plane,
            "row_phases": self.phases[0],
            "column_phases": self.phases[1],
            "sparse_block": self.sparsity.block,
            "sparse_panel": self.panel,
            "kr": self.kr,
            "width": self.width,
            "k_block": self.k_block,
            "hw_segment": self.hw_segment,
            "parts": self.parts,
            "chunk": self.chunk,
            "terms": terms,
            "values": values,
            "packed_row": self.packed_row,
            "slab_rows": rows,
            "slab_channels": channels,
            "panel_offset": places.panel,
            "runs_offset": places.runs,
            "tile_offset": places.tile,
            "plane_offset": places.plane,
            "slab_offset": places.slab,
            "matrices": (
                m.a.group * element[0],
                m.c.group * element[1],
                m.n,
            ),
        }
