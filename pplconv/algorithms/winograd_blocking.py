"""One candidate of Winograd's algorithm: its tile and segments, and the memory that they need.

F(n x n, r x r) computes n x n outputs from t x t inputs (t = n + r - 1). The loops, with blocks
of tiles and segments of input and output channels, are those of the OpenPPL Arm Server slides.

A kernel of another size is cut into subkernels of r x r taps. V then has the input's channels once
for each subkernel, and sums run over all of them (Huang et al., "DWM: A Decomposable Winograd
Method for Convolution Acceleration", 2020).
"""

from __future__ import annotations

import math
from typing import Any

from .._lazy import lazy
from .._records import record
from ..numerics import Numerics
from ..problem import ConvProblem
from .candidate import (
    EXACT,
    LINE,
    Candidate,
    KernelKey,
    ceil_div,
    odd_lines,
    round_up,
    thread_scratch,
)
from .core_model import L1_WAY_BYTES
from .error_bounds import winograd_error_bound
from .panels import Panels

SLAB_VECTORS = 4  # of sums in a pixel of the slab: as many as a vector of bytes has elements
LARGE_ROW = 1024  # bytes from which rows are padded to share no cache set
SLAB_SHARE, MOST_SHARE = 8, 9  # sixteenths of L1 for a slab; the most, for tiles of whole lines
NEAR_BYTES = 1 << 22  # of outputs, for which slabs end with whole lines
UNBOUNDED = (1 << 31) - 1  # tiles: the largest count that loops take


def subkernels_of(problem: ConvProblem, r: int) -> int:
    """Count the subkernels of r x r taps of a kernel; zeros fill up the last ones."""
    return ceil_div(problem.kh, r) * ceil_div(problem.kw, r)


def filled_by(problem: ConvProblem, r: int) -> float:
    """Give the share of the subkernels' taps that are the kernel's."""
    return problem.kh * problem.kw / (subkernels_of(problem, r) * r * r)


def tiles_of(problem: ConvProblem, n: int) -> int:
    """Tiles of n x n outputs in all images."""
    return problem.batch * ceil_div(problem.oh, n) * ceil_div(problem.ow, n)


@record(frozen=True)
class WinogradBlocking(Candidate):
    """One way to run a problem through Winograd's loops, without its cost estimate.

    Parameters
    ----------
    problem : ConvProblem
        The problem to compute.
    numerics : Numerics
        The types that it is computed with.
    n, r : int
        F(n x n, r x r).
    lanes, mr, nr : int
        Elements of a vector; the tile of the products.
    tile_block : int
        Tiles that are transformed, multiplied and transformed back together.
    ic_segment, oc_block, oc_segment : int
        Input channels of V, output channels of M, output channels of a task. In stages, V and M
        have all of them, and a product takes `ic_segment` at a time.
    l1_bytes : int
        Size that a slab of pixels should fit.
    tile_part, ic_part, oc_part : int
        In stages: tiles and channels of a task of the transforms; 0 if each task goes from start to
        finish.
    """

    problem: ConvProblem
    numerics: Numerics
    n: int
    r: int
    lanes: int
    mr: int
    nr: int
    tile_block: int
    ic_segment: int
    oc_block: int
    oc_segment: int
    l1_bytes: int
    tile_part: int = 0
    ic_part: int = 0
    oc_part: int = 0

    loops = "winograd"
    transforms = True
    multiplies_padding = False  # outputs that are not finite are computed again

    @property
    def takes_gaps(self) -> bool:
        """Whether patches are read, and outputs stored, pixel by pixel and not as planes."""
        p = self.problem
        return p.layout == "NHWC" and 1 not in (p.ic, p.oc) and not self.numerics.exact

    @property
    def staged(self) -> bool:
        """Whether the team shares V and M, and each step is a phase."""
        return self.tile_part > 0

    @property
    def variant(self) -> str:
        """The variant's name in plans."""
        name = f"F({self.n}x{self.n},{self.r}x{self.r})"
        return f"{self.subkernels} {name}" if self.subkernels > 1 else name

    @property
    def bits(self) -> str:
        """Variant; sums run over subkernels and their input channels in ascending order."""
        return EXACT if self.numerics.exact else self.variant

    @property
    def error_bound(self) -> float:
        """The measured error with a margin; see `error_bounds`."""
        filled = filled_by(self.problem, self.r)
        return winograd_error_bound(self.n, self.r, self.depth, self.numerics, filled)

    @property
    def blocks(self) -> dict[str, int | str]:
        """Variant, tile, blocks and segments."""
        parts = {"tile_part": self.tile_part, "ic_part": self.ic_part, "oc_part": self.oc_part}
        whole = (self.problem.kh, self.problem.kw) == (self.r, self.r)
        return {
            "n": self.n,
            **({} if whole else {"r": self.r}),
            "mr": self.mr,
            "nr": self.nr,
            "tile_block": self.tile_block,
            "ic_segment": self.ic_segment,
            "oc_block": self.oc_block,
            "oc_segment": self.oc_segment,
            **(parts if self.staged else {}),
            **self.numerics.kind,
        }

    @property
    def kernel(self) -> KernelKey:
        """The GEMM microkernel."""
        return KernelKey("gemm", self.mr, self.nr, self.numerics.kr)

    @property
    def t(self) -> int:
        """Side of a patch."""
        return self.n + self.r - 1

    @property
    def positions(self) -> int:
        """Products for each tile and pair of channels."""
        return self.t**2

    @property
    def ic(self) -> int:
        """Input channels of a group."""
        return self.problem.ic // self.problem.groups

    @lazy
    def subkernels(self) -> int:
        """Subkernels that the kernel is cut into."""
        return subkernels_of(self.problem, self.r)

    @property
    def depth(self) -> int:
        """Channels of V: the input's, once for each subkernel."""
        return self.ic * self.subkernels

    @property
    def oc(self) -> int:
        """Output channels of a group."""
        return self.problem.oc // self.problem.groups

    @lazy
    def tiles(self) -> int:
        """Tiles of all images."""
        return tiles_of(self.problem, self.n)

    @lazy
    def panels(self) -> Panels:
        """The panels of packed weights of one position."""
        return Panels.of_columns(self.kernel)

    @property
    def packing(self) -> str:
        """Transformed weights, position by position, in panels."""
        return f"{self.variant} {self.panels.name}, k = {'sc' if self.subkernels > 1 else 'c'}"

    @property
    def packed_weight_bytes(self) -> int:
        """Size of the packed weights: larger than the weights by positions / r^2."""
        position = self.panels.bytes(self.oc, self.depth, self.numerics.weight_bytes)
        return self.problem.groups * self.positions * position

    @property
    def tasks(self) -> int:
        """Iterations of the parallel loop; of the longest stage if staged."""
        oc_segments = ceil_div(self.oc, self.oc_segment)
        if self.staged:
            return max(*self.part_tasks, self.positions * oc_segments) if self.rounds else 0
        return self.rounds * oc_segments

    @property
    def rounds(self) -> int:
        """Blocks of tiles of all groups."""
        return ceil_div(self.tiles, self.tile_block) * self.problem.groups

    @property
    def part_tasks(self) -> tuple[int, int]:
        """Tasks of the first and of the last stage, in each round."""
        tile_parts = ceil_div(min(self.tile_block, self.tiles), max(self.tile_part, 1))
        return (
            tile_parts * ceil_div(self.depth, max(self.ic_part, 1)),
            tile_parts * ceil_div(self.oc, max(self.oc_part, 1)),
        )

    @property
    def by_planes(self) -> bool:
        """Whether pixels pass through slabs before the transforms, as channels are not neighbours.

        A single channel, or blocks of one, are planes in every layout. Converted arrays pass
        through slabs too, except bytes of the input whose channels are neighbours.
        """
        p = self.problem
        return (
            self.numerics.converts
            or p.layout == "NCHW"
            or p.block == 1
            or (p.layout == "NHWC" and 1 in (p.ic, p.oc))
        )

    @property
    def slab_tiles(self) -> int:
        """Neighbouring tiles that share a slab: it takes half of L1."""
        if not self.by_planes:
            return UNBOUNDED
        tiles = self._tiles_in(SLAB_SHARE)
        whole = self._tiles_in(MOST_SHARE) // self.whole_tiles * self.whole_tiles
        return min(round_up(tiles, self.whole_tiles), whole) or tiles

    def _tiles_in(self, share: int) -> int:
        """Tiles in a slab of so many sixteenths of L1."""
        pixel = self.t * self.slab_channels * self.numerics.sum_bytes
        columns = self.l1_bytes * share // 16 // pixel
        return max((columns - self.slab_overlap) // self.n, 1)

    @property
    def slab_overlap(self) -> int:
        """Columns of a slab beyond n for each tile; subkernels side by side share the slab."""
        return ceil_div(self.problem.kw, self.r) * self.r - 1

    @lazy
    def whole_tiles(self) -> int:
        """Tiles whose outputs are whole cache lines, if output planes share sets of L1; else 1.

        A line that two slabs store into would leave L1 in between. Large outputs are bound by
        memory anyway.
        """
        p, e = self.problem, self.numerics.destination_bytes
        plane = p.output_pixels * e
        if p.layout != "NCHW" or self.numerics.converts or self.numerics.exact:
            return 1
        if plane % L1_WAY_BYTES or p.ow * e % LINE or not 0 < p.batch * p.oc * plane <= NEAR_BYTES:
            return 1
        return LINE // math.gcd(self.n * e, LINE)

    @property
    def line_tiles(self) -> int:
        """Slabs begin at multiples of so many tiles: `whole_tiles`, if a slab has room for them."""
        return self.whole_tiles if self.slab_tiles % self.whole_tiles == 0 else 1

    @property
    def slab_channels(self) -> int:
        """Channels of a pixel in a slab."""
        return self.lanes * (SLAB_VECTORS if self.numerics.exact else 1)

    @lazy
    def memory(self) -> dict[str, int]:
        """Layout of the scratch, in bytes; if staged, V and M are in the shared scratch."""

        def row(channels: int, element: int) -> int:
            size = round_up(channels * element, LINE)
            return odd_lines(size) if size >= LARGE_ROW else size

        e = self.numerics.sum_bytes
        v_row = row(self.depth if self.staged else self.ic_segment, self.numerics.operand_bytes)
        m_row = row(self.panels.padded(self.oc) if self.staged else self.oc_block, e)
        v_position = odd_lines(self.tile_block * v_row)
        m_position = odd_lines(self.tile_block * m_row)
        m_offset = round_up(self.positions * v_position, 4096)
        end = m_offset + self.positions * m_position
        slab_offset = 0 if self.staged else round_up(end, LINE)
        slab_row = slab = stage = 0
        if self.by_planes:
            slab_row = (self.slab_tiles * self.n + self.slab_overlap) * self.slab_channels * e
            slab = self.t * slab_row
            # Planes are converted in a stage as large as the slab.
            stage = slab if self.numerics.converts else 0
        return {
            "v_row": v_row,
            "v_position": v_position,
            "m_row": m_row,
            "m_position": m_position,
            "m_offset": m_offset,
            "slab_offset": slab_offset,
            "slab_row": slab_row,
            "stage_offset": slab_offset + slab,
            "size": thread_scratch(slab_offset + slab + stage),
            "shared": thread_scratch(end) if self.staged else 0,
        }

    @property
    def scratch_bytes(self) -> int:
        """Scratch of one thread."""
        return self.memory["size"]

    @property
    def shared_bytes(self) -> int:
        """V and M, in stages."""
        return self.memory["shared"]

    def own_fields(self) -> dict[str, Any]:
        """Collect what ``schedules.winograd_loops.WinogradSchedule`` takes."""
        sizes = ("size", "shared")
        memory = {name: at for name, at in self.memory.items() if name not in sizes}
        return memory | {
            "staged": int(self.staged),
            "tile_part": self.tile_part,
            "ic_part": self.ic_part,
            "oc_part": self.oc_part,
            "n": self.n,
            "r": self.r,
            "tile_block": self.tile_block,
            "ic_segment": self.ic_segment,
            "oc_block": self.oc_block,
            "oc_segment": self.oc_segment,
            "mr": self.mr,
            "nr": self.nr,
            **self.panels.fields,
            "b_ahead": self.panels.ahead(self.numerics.weight_bytes),
            "slab_tiles": self.slab_tiles,
            "line_tiles": self.line_tiles,
            "slab_channels": self.slab_channels,
        }
