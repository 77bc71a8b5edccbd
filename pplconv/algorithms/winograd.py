"""Winograd's minimal filtering: fewer products, at the price of transforms and of accuracy.

F(n x n, r x r) computes n x n outputs from t x t inputs (t = n + r - 1) with t * t products a
channel pair instead of n * n * r * r (Lavin and Gray, "Fast Algorithms for Convolutional Neural
Networks", 2016). The loops, with blocks of tiles and segments of input and output channels,
are those of the OpenPPL Arm Server slides.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..numerics import Numerics
from ..problem import ConvProblem
from .candidate import (
    LINE,
    Candidate,
    balanced,
    ceil_div,
    odd_lines,
    ragged_groups,
    round_up,
    thread_scratch,
)
from .context import PlanContext
from .core_model import (
    HIDDEN,
    L2_WRITE_BYTES,
    L3_BYTES,
    STORE_TRANSPOSED_CYCLES,
    TASK_CYCLES,
    CoreModel,
    busiest_share,
    conversion_cycles,
    matrix_cycles,
    step_cycles,
)
from .error_bounds import winograd_error, winograd_error_bound
from .lazy import lazy
from .tiled import row_tiles, widths

NAME = "winograd"

# (n, r) of the kernels that exist.
VARIANTS = ((2, 3), (4, 3), (6, 3), (2, 5), (4, 5))

PREFETCH_STEPS = 24
LARGE_ROW = 1024  # bytes from which rows are padded to share no cache set
UNBOUNDED = 1 << 40
ENOUGH_TILES = 28  # of a block: below, register tiles and weights are poorly used
# Arithmetic of a transform, in cycles a position and vector of channels, beside its stores.
TRANSFORM_CYCLES = 2.5
U_BYTES = 12.0  # transformed weights: bytes a cycle from L3, where they are read ahead
HIDDEN_STEP = 0.6  # of a step of the microkernel's time
PIECE_CYCLES = 60.0


@dataclass(frozen=True)
class Winograd(Candidate):
    """One way to run a problem through Winograd's loops.

    Parameters
    ----------
    problem : ConvProblem
        What is computed.
    numerics : Numerics
        The types that it is computed with.
    n, r : int
        F(n x n, r x r).
    lanes, mr, nr : int
        Elements of a vector; the tile of the products.
    tile_block : int
        Tiles that are transformed, multiplied and transformed back at a time.
    ic_segment, oc_block, oc_segment : int
        Input channels of V, output channels of M, output channels of a task.
    l1_bytes : int
        Cache that a slab of pixels should fit.
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

    algorithm = NAME
    loops = "winograd"

    @property
    def bits(self) -> str:
        """Variant; the products' sums run over input channels in ascending order."""
        return f"F({self.n}x{self.n},{self.r}x{self.r})"

    @property
    def is_direct_sum(self) -> bool:
        """No: tolerance has to allow it."""
        return False

    @property
    def error_bound(self) -> float:
        """Measured, with a margin; see `error_bounds`."""
        p = self.problem
        return winograd_error_bound(self.n, self.r, p.ic // p.groups, self.numerics)

    @property
    def blocks(self) -> dict[str, int | str]:
        """Variant, tile, blocks and segments."""
        return {
            "n": self.n,
            "mr": self.mr,
            "nr": self.nr,
            "tile_block": self.tile_block,
            "ic_segment": self.ic_segment,
            "oc_block": self.oc_block,
            "oc_segment": self.oc_segment,
        }

    def kernel(self, isa: str) -> str:
        """Symbol of the GEMM microkernel."""
        return f"pplconv_gemm_{self.numerics.operand}_{self.mr}x{self.nr}_{isa}"

    @property
    def t(self) -> int:
        """Side of a patch."""
        return self.n + self.r - 1

    @property
    def positions(self) -> int:
        """Products a tile and channel pair."""
        return self.t**2

    @property
    def ic(self) -> int:
        """Input channels of a group."""
        return self.problem.ic // self.problem.groups

    @property
    def oc(self) -> int:
        """Output channels of a group."""
        return self.problem.oc // self.problem.groups

    @lazy
    def tiles(self) -> int:
        """Tiles of all images."""
        return tiles_of(self.problem, self.n)

    @property
    def packing(self) -> str:
        """Transformed weights, position by position, in panels."""
        return f"{self.bits} panels of {self.nr}, k = c"

    @property
    def packed_weight_bytes(self) -> int:
        """Size of the packed weights: larger than the weights by positions / r^2."""
        p = self.problem
        size = self.positions * round_up(self.oc, self.nr) * self.ic
        return p.groups * size * self.numerics.weight_bytes

    @property
    def tasks(self) -> int:
        """Iterations of the parallel loop."""
        oc_segments = ceil_div(self.oc, self.oc_segment)
        return ceil_div(self.tiles, self.tile_block) * self.problem.groups * oc_segments

    @property
    def by_planes(self) -> bool:
        """Whether channels are apart, so that slabs lie between user and transforms.

        A single channel, or blocks of one, are planes in every layout. Arrays that are converted
        pass through slabs too.
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
        columns = self.l1_bytes // 2 // (self.t * self.lanes * self.numerics.operand_bytes)
        return max((columns - self.r + 1) // self.n, 1)

    @lazy
    def memory(self) -> dict[str, int]:
        """Layout of one thread's scratch, in bytes."""
        e = self.numerics.operand_bytes

        def row(channels: int) -> int:
            size = round_up(channels * e, LINE)
            return odd_lines(size) if size >= LARGE_ROW else size

        v_row, m_row = row(self.ic_segment), row(self.oc_block)
        v_position = odd_lines(self.tile_block * v_row)
        m_position = odd_lines(self.tile_block * m_row)
        m_offset = round_up(self.positions * v_position, 4096)
        slab_offset = round_up(m_offset + self.positions * m_position, LINE)
        slab_row = slab = stage = 0
        if self.by_planes:
            slab_row = (self.slab_tiles * self.n + self.r - 1) * self.lanes * e
            slab = self.t * slab_row
            # Halves are converted beside the slab, as many as it holds.
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
        }

    @property
    def scratch_bytes(self) -> int:
        """Scratch of one thread."""
        return self.memory["size"]

    def own_fields(self) -> dict[str, Any]:
        """Collect what ``schedules.winograd.WinogradSchedule`` takes."""
        memory = {name: size for name, size in self.memory.items() if name != "size"}
        return memory | {
            "n": self.n,
            "r": self.r,
            "tile_block": self.tile_block,
            "ic_segment": self.ic_segment,
            "oc_block": self.oc_block,
            "oc_segment": self.oc_segment,
            "mr": self.mr,
            "nr": self.nr,
            "b_ahead": PREFETCH_STEPS * self.nr * self.numerics.weight_bytes,
            "slab_tiles": self.slab_tiles,
        }

    def cost(self, core: CoreModel, threads: int) -> dict[str, float]:
        """Estimate the cycles of the busiest thread.

        Terms: ``fma`` products with their calls, ``pre`` and ``post`` transforms with their
        traffic, ``stream`` weights and V that come from further than L1, ``store`` the slabs
        of NCHW, ``tasks``, ``team``.
        """
        p, e = self.problem, self.numerics.operand_bytes
        ic_segments = ceil_div(self.ic, self.ic_segment)
        oc_segments = ceil_div(self.oc, self.oc_segment)
        blocks = ceil_div(self.tiles, self.tile_block)
        products = 0.0
        whole, rest = divmod(self.tiles, self.tile_block)
        for size, count in ((self.tile_block, whole), (rest, 1)):
            if size:
                products += count * matrix_cycles(
                    core, size, round_up(self.oc, self.nr), self.mr, self.nr, self.lanes,
                    self.ic, ic_segments,
                )  # fmt: skip
        fma = products * self.positions
        v_vectors = self.tiles * ceil_div(self.ic, self.lanes) * self.positions * oc_segments
        m_vectors = self.tiles * ceil_div(self.oc, self.lanes) * self.positions
        write = self.lanes * e / L2_WRITE_BYTES
        read = self.lanes * e / core.l2_rate
        # Images beyond L2 come from L3, once for V and, as outputs, there and back.
        shares = self.n**2 / self.t**2
        image = p.batch * p.ih * p.iw * p.ic * e
        arrive = shares * self.lanes * e / L3_BYTES if image > core.l2_bytes // 2 else 0.0
        pre = v_vectors * (TRANSFORM_CYCLES + write + arrive)
        # M is written by the products, which hide half of it, and read by the transform. Each
        # further segment of input channels loads and stores it once more.
        m_moves = 0.5 * write + (ic_segments - 1) * (write + read)
        post = m_vectors * (m_moves + read + TRANSFORM_CYCLES + 2.0 * arrive)
        u_bytes = self.positions * self.ic * round_up(self.oc, self.nr) * e
        scratch = self.positions * self.tile_block * (self.ic_segment + self.oc_block) * e
        stream = 0.0
        panels = ceil_div(self.oc, self.nr)
        if u_bytes + scratch > core.l2_bytes:
            # The weights pass by once for each block of tiles, a row of a panel for each step of
            # the first register tile, which hides what it has time for.
            step = step_cycles(core, min(self.mr, self.tile_block), self.nr // self.lanes)
            row = self.nr * e / U_BYTES
            stream += blocks * self.positions * panels * self.ic * max(row - HIDDEN_STEP * step, 0)
        else:
            stream += blocks * u_bytes / core.l2_rate * (1.0 - HIDDEN)
        if scratch > core.l2_bytes:
            stream += (v_vectors + m_vectors) * self.lanes * e / L3_BYTES
        stream += v_vectors * self.lanes * e * panels / oc_segments / core.l2_rate * (1.0 - HIDDEN)
        store = 0.0
        if self.by_planes:
            overlap = (self.t / self.n) * (1.0 + (self.r - 1) / (self.slab_tiles * self.n))
            pixels = p.batch * p.oh * p.ow / self.lanes
            slabs = overlap * self.ic * oc_segments + self.oc
            store = slabs * pixels * STORE_TRANSPOSED_CYCLES
        work = {
            "fma": fma * p.groups,
            "pre": pre * p.groups,
            "post": post * p.groups,
            "stream": stream * p.groups,
            "store": store * p.groups,
            "tasks": self.tasks * (TASK_CYCLES + self.positions * PIECE_CYCLES),
        }
        if self.numerics.converts:
            work["convert"] = conversion_cycles(p, self.lanes, oc_segments / shares)
        largest = self.tile_block / max(self.tiles, 1)
        largest *= min(1.0, self.oc_segment / self.oc) / p.groups
        busiest = busiest_share(self.tasks, threads, min(largest, 1.0))
        cost = {name: cycles * busiest for name, cycles in work.items()}
        cost["team"] = core.team_cycles if threads > 1 else 0.0
        return cost


def tiles_of(problem: ConvProblem, n: int) -> int:
    """Tiles of n x n outputs in all images."""
    return problem.batch * ceil_div(problem.oh, n) * ceil_div(problem.ow, n)


def floor(problem: ConvProblem, lanes: int, core: CoreModel) -> float:
    """Cycles on one thread that no candidate stays below: its products at the peak of FMAs."""
    ic, oc = problem.ic // problem.groups, problem.oc // problem.groups
    r = problem.kh
    tile = min(tiles_of(problem, n) * (n + r - 1) ** 2 for n, size in VARIANTS if size == r)
    return tile * problem.groups * ic * ceil_div(oc, lanes) / core.fma_per_cycle


def supports(problem: ConvProblem, numerics: Numerics) -> str | None:
    """Say why `problem` cannot be served; None if it can."""
    if problem.stride != (1, 1) or problem.dilation != (1, 1):
        return "it needs stride 1 and no dilation"
    if problem.kh != problem.kw or problem.kh not in {r for _, r in VARIANTS}:
        return "it needs a 3x3 or 5x5 kernel"
    if numerics.chain is not None:
        return "it has no kernels in half precision"
    return ragged_groups(problem)


def volunteers(problem: ConvProblem) -> bool:
    """Whether it may be chosen without being named: not where arrays are of half precision.

    Their own rounding is all that a user of ``tolerance`` expects there.
    """
    return problem.dtype != "f16"


def candidates(problem: ConvProblem, around: PlanContext) -> Iterator[Candidate]:
    """Yield the blockings worth an estimate."""
    for n, r in VARIANTS:
        # What is spent on speed; the rounding of the arrays is not.
        bound = winograd_error(n, r, problem.ic // problem.groups, around.numerics)
        if r == problem.kh and bound <= around.tolerance:
            for nr, largest in widths(problem.oc // problem.groups, around):
                yield from _blockings(problem, around, n, r, nr, largest)


def _blockings(
    problem: ConvProblem, around: PlanContext, n: int, r: int, nr: int, largest: int
) -> Iterator[Candidate]:
    e, positions = around.numerics.operand_bytes, (n + r - 1) ** 2
    ic, oc = problem.ic // problem.groups, problem.oc // problem.groups
    tiles = max(tiles_of(problem, n), 1)
    budget = around.machine.l2_share * 5 // 8 // (positions * e)  # channels of V and M
    whole = nr if oc <= nr else round_up(min(oc, max(64, nr)), nr)
    multiple = problem.block if problem.layout == "NCHWc" else around.lanes
    seen = set()
    enough = False
    for segments in (1, 2, 4, 8):
        ic_segment = balanced(ic, ceil_div(ic, segments), multiple)
        ic_segment = min(ic_segment, ic) if segments == 1 else ic_segment
        if segments > 1 and (ic_segment >= ic or enough):
            continue
        oc_block = whole if segments == 1 else round_up(oc, nr)
        most = max(budget // (ic_segment + oc_block), 1)
        # Sums are cut where V of all input channels leaves room for too few tiles only.
        enough = most >= min(tiles, ENOUGH_TILES)
        for cap in {most, min(most, 2 * ENOUGH_TILES)}:
            pieces = ceil_div(around.threads, problem.groups)
            tile_block = balanced(tiles, min(cap, most), 1, pieces)
            for mr in row_tiles(tile_block, largest):
                block = tile_block
                if tile_block > mr and tile_block % mr:
                    # Whole register tiles, where that makes no further block.
                    rounded = round_up(tile_block, mr)
                    if ceil_div(tiles, rounded) == ceil_div(tiles, tile_block) or rounded <= most:
                        block = rounded
                shares = ceil_div(tiles, block) * problem.groups
                oc_segment = round_up(oc, nr)
                if shares < around.threads:
                    oc_segment = balanced(oc, oc_segment, nr, ceil_div(around.threads, shares))
                key = (mr, block, ic_segment, oc_segment)
                if key in seen:
                    continue
                seen.add(key)
                yield Winograd(
                    problem, around.numerics, n, r, around.lanes, mr, nr, block, ic_segment,
                    min(oc_block, oc_segment), oc_segment, around.machine.l1d_bytes,
                )  # fmt: skip
