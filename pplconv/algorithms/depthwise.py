"""Depthwise convolution: groups of one input channel with any channel multiplier, or of few.

Groups of several input channels have as many outputs: a vector holds the channels of one group or
of several, and its kernel adds up depthwise convolutions, one for each input channel of a group.

Loads, stores and memory bound it rather than FMAs, so nothing is blocked: rows and channels are cut
for the team, and the kernels load each input once for the outputs that it reaches.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .._lazy import functions_later, lazy
from .._records import record
from ..numerics import Numerics
from ..problem import ConvProblem
from . import depthwise_large
from .candidate import (
    LINE,
    Candidate,
    KernelKey,
    balanced,
    ceil_div,
    round_up,
    thread_scratch,
    wide_only,
)
from .context import PlanContext
from .core_model import (
    TASK_CYCLES,
    CoreModel,
    conversion_cycles,
    direct_sum_floor,
    parts,
)
from .depthwise_candidate import BYTE_PRODUCTS, DepthwiseCandidate
from .direct_blocking import inside_axis, ranges
from .error_bounds import direct_error_bound

if TYPE_CHECKING:
    from . import depthwise_bytes
else:
    depthwise_bytes = functions_later(__package__, "depthwise_bytes")

NAME = DepthwiseCandidate.algorithm
floor = direct_sum_floor

SQUARE_CYCLES = 1.5  # a tap of 3x3 or 5x5; with vectors of channels also of 7x7 at stride 1
EVERY_SECOND_CYCLES = 2.5  # the same at stride 2, where vectors of pixels need shuffles
GENERIC_CYCLES = 4.0  # a tap of any other kernel
# Vectors of pixels at strides, where masks cost something: blocks, rows by vectors; the cycles of
# an image line in a block besides its products, and of each of its elements, if they are sorted one
# by one.
STRIDED_BLOCK = (4, 2)
STRIDED_LINE_CYCLES = 64.0
SORTED_CYCLES = 1.0
# The same where masks cost nothing, and a band of lines is sorted once: bytes of a band, and taps
# of a line that are not too many; a product in cycles of its FMA, an image line in a block besides,
# a vector that is sorted at stride 2, and an element that is sorted at any other.
BAND_BYTES = 32768
MOST_TAPS = 256
BAND_PRODUCT_CYCLES = 1.06
BAND_LINE_CYCLES = 1.8
BAND_VECTOR_CYCLES = 8.4
BAND_ELEMENT_CYCLES = 2.0
# Register blocks, rows by vectors, for vectors of 64 bytes and for others; the cycles of an image
# line in a block besides its products; and bytes of a row from which on blocks compute 3x3 and 5x5
# too.
BLOCKS = {64: (6, 4)}
OTHER_BLOCK = (4, 3)
MASKS_BYTES = 64  # vectors of so many bytes have masks that cost nothing
LINE_CYCLES = 22.0
WIDE_BYTES = 3584
CUT_PIXELS = 1.2  # times the FMAs' time, if a pixel's channels are cut for the team
# In groups of several channels, by stride of a 3x3 kernel: a tap, whose inputs are shuffled or
# broadcast, in cycles of its FMA, and cycles of a vector of outputs besides: its inputs are copied.
GROUP_CYCLES = {1: (1.1, 16.0), 2: (1.5, 48.0)}
GROUP_GENERIC_CYCLES = 4.0, 16.0
MOST_DEPTH = 64  # channels of a group, beyond which a group fills the tiles of products
SPREAD_CYCLES = 6.0  # if each input channel has several output channels, in the lanes of a vector
# A channel plane: its weights, its rows' ends; the same with such masks, and then a tap of 3x3 or
# 5x5 in rows that are one vector.
PLANE_CYCLES = 60.0
MASKED_PLANE_CYCLES = 10.0
NARROW_SQUARE_CYCLES = 1.2
# A tap of 5x5 with AVX2's vectors, whose 16 registers do not hold the weights.
LOADED_SQUARE_CYCLES = 2.1
AVX2_BYTES = 32
REGISTERS = 16
# Planes that are turned into pixels, and their sums back: a vector, the part of a vector that a
# plane of outputs ends with, and the calls of a piece.
TURN_VECTOR_CYCLES = 2.5
TURN_PART_CYCLES = 20.0
TURN_CYCLES = 150.0
# Sizes of a chunk that is converted or gathered at a time: vectors of channels, and the share of L2
# that their pixels take, since rows between two chunks are converted twice; or planes.
CHUNK_VECTORS = 4
CHUNK_L2 = 2
CHUNK_PLANES = 16
NEAR_PART = 16  # of such a share of L2: about L1
LONGEST_VECTOR = 16  # elements


@record(frozen=True)
class Depthwise(DepthwiseCandidate):
    """One way to run a problem through depthwise convolution's loops.

    Parameters
    ----------
    gathered : bool
        Whether a few channels at a time are gathered in the scratch. Planes are turned into pixels,
        and their sums back, so that vectors run over channels: small planes fill no vectors. Pixels
        are copied: caches hold few of them if their distance is a large power of two.
    """

    gathered: bool = False

    loops = "depthwise"

    @property
    def bits(self) -> str:
        """The order of the one sum; kernels differ in the zeros that they add beside images."""
        turned = ", by channels" if self.turned else ""
        return f"sum over {'c, ' if self.depth > 1 else ''}kh, kw{turned}{self.numerics.order}"

    @property
    def turned(self) -> bool:
        """Whether planes are turned into pixels."""
        return self.gathered and is_planes(self.problem)

    @property
    def takes_gaps(self) -> bool:
        """Whether the arrays are pixels, and not planes."""
        return not is_planes(self.problem)

    @property
    def depth(self) -> int:
        """Input channels of a group."""
        return self.problem.ic // self.problem.groups

    @property
    def error_bound(self) -> float:
        """Bound of one chain of FMAs."""
        return direct_error_bound(self.problem.k, self.numerics)

    @property
    def by_pixels(self) -> bool:
        """Whether vectors run over pixels."""
        return is_planes(self.problem) and not self.turned

    @property
    def orientation(self) -> str:
        """Direction of vectors, and whether the channels of pixels are copied."""
        copied = self.gathered and not self.turned
        return "gathered channels" if copied else super().orientation

    @property
    def kernel(self) -> KernelKey:
        """The kernel of its orientation."""
        return KernelKey("depthwise_pixels" if self.by_pixels else "depthwise_channels")

    @property
    def packing(self) -> str:
        """Format of the packed weights."""
        if self.by_pixels:
            return "as they are"
        return f"taps of {self.isa_lanes} channels" + _in_blocks(self.problem, self.isa_lanes)

    @property
    def packed_weight_bytes(self) -> int:
        """Size of the packed weights: vectors of neighbouring channels, the last ones filled up."""
        p, lanes = self.problem, self.isa_lanes
        if self.by_pixels:
            return p.k * p.oc * self.numerics.weight_bytes
        neighbours = p.block if p.layout == "NCHWc" else max(p.oc, 1)
        vectors = p.oc // neighbours * ceil_div(neighbours, lanes)
        vectors += ceil_div(p.oc % neighbours, lanes)
        return p.k * vectors * lanes * self.numerics.weight_bytes

    @lazy
    def chunk(self) -> tuple[int, int]:
        """Channels and rows of outputs that are converted, or gathered, together.

        Rows that two chunks see are converted twice, so a few channels of many rows are better than
        many channels of a few rows.
        """
        p, element = self.problem, self.numerics.operand_bytes
        planes = self.by_pixels
        channels = (
            p.oc // p.groups if planes else round_up(CHUNK_VECTORS * self.isa_lanes, self.depth)
        )
        if self.gathered:
            # One vector, or as many as leave whole planes in about L1.
            plane = (p.ih * p.iw + p.oh * p.ow) * element * self.isa_lanes
            vectors = max(min(self.chunk_bytes // NEAR_PART // max(plane, 1), CHUNK_VECTORS), 1)
            if not self.turned:
                # A cache line's, or one whose inputs of a block of outputs are about L1.
                near = math.prod(depthwise_large.seen(p)) * LINE <= self.chunk_bytes // NEAR_PART
                vectors = max(LINE // (self.isa_lanes * element), 1) if near else 1
            channels = vectors * self.isa_lanes
        channels = min(channels, max(self.channel_segment, 1))
        room = self.chunk_bytes
        row = (p.iw * p.stride[0] + p.ow) * channels * element
        reach = (p.kh - 1) * p.dilation[0] * p.iw * channels * element
        rows = min(max((room - reach) // row, 1), self.row_segment)
        if planes and rows == self.row_segment:
            channels *= min(max(room // max(rows * row + reach, 1), 1), CHUNK_PLANES)
        return channels, rows

    @lazy
    def scratch(self) -> tuple[int, int, int, int]:
        """Rows of the slab, its offset and that of the outputs, bytes of one thread."""
        p, element = self.problem, self.numerics.operand_bytes
        if not (self.numerics.converts or self.gathered):
            return 0, 0, 0, 0
        channels, rows = self.chunk
        slab_rows = 0
        if self.numerics.converts_in or self.gathered:
            slab_rows = min((rows - 1) * p.stride[0] + (p.kh - 1) * p.dilation[0] + 1, p.ih)
        out = LINE + round_up(channels * slab_rows * p.iw * element, LINE) + LINE
        size = out
        if self.numerics.converts_out or self.turned:
            size += channels * rows * p.ow * self.numerics.sum_bytes
        return slab_rows, LINE, out, thread_scratch(size)

    @property
    def scratch_bytes(self) -> int:
        """Scratch of one thread; 0 unless arrays are converted or gathered."""
        return self.scratch[3]

    def own_fields(self) -> dict[str, Any]:
        """Collect what ``schedules.depthwise_loops.DepthwiseSchedule`` takes."""
        slab_rows, slab, out, _ = self.scratch
        return self.cut_fields(self.chunk) | {
            "slab_rows": slab_rows,
            "slab_offset": slab,
            "out_offset": out,
            "gathered": int(self.gathered),
        }

    def taps_cycles(self) -> float:
        """Cycles of the taps of a vector of outputs, in those of an FMA."""
        p, own = self.problem, self.has_own_loop
        if self.by_pixels:
            narrow = self.has_masks and p.ow <= self.isa_lanes
            square = NARROW_SQUARE_CYCLES if narrow else SQUARE_CYCLES
            if p.k > REGISTERS and self.isa_lanes * self.numerics.operand_bytes == AVX2_BYTES:
                square = LOADED_SQUARE_CYCLES
            tap = EVERY_SECOND_CYCLES if p.stride[1] == 2 else square
            return p.k * (tap if own else GENERIC_CYCLES)
        taps = p.k * inside_share(p)
        if p.oc > p.groups:
            return taps * SPREAD_CYCLES
        if own:
            return taps * SQUARE_CYCLES
        if p.k >= depthwise_large.MANY_TAPS:
            return depthwise_large.taps_cycles(taps)
        return taps * GENERIC_CYCLES

    @property
    def has_own_loop(self) -> bool:
        """Whether kernels have a loop of their own for this size, stride and dilation."""
        return has_own_loop(self.problem, self.numerics.operand_bytes, self.by_pixels)

    @property
    def group_cycles(self) -> float:
        """Cycles of an image in groups of several channels, one FMA a cycle."""
        p = self.problem
        usual = p.kh == p.kw == 3 and p.dilation == (1, 1) and p.stride in ((1, 1), (2, 2))
        tap, vector = GROUP_CYCLES[p.stride[0]] if usual else GROUP_GENERIC_CYCLES
        return self.vectors * (p.k * tap + vector)

    @property
    def has_masks(self) -> bool:
        """Whether masks of vectors cost nothing."""
        return self.isa_lanes * self.numerics.operand_bytes == MASKS_BYTES

    @property
    def in_blocks(self) -> bool:
        """Whether register blocks compute it: planes at stride 1, except narrow 3x3 and 5x5."""
        p = self.problem
        if not self.by_pixels or p.stride != (1, 1):
            return False
        return (
            not (p.kh == p.kw and p.kh in (3, 5) and p.dilation == (1, 1))
            or p.ow * self.numerics.operand_bytes >= WIDE_BYTES
        )

    def block_cycles(self, core: CoreModel) -> float:
        """Cycles of the register blocks of an image.

        A block of R rows takes kh + R - 1 lines, each for as many of its rows as see it. Vectors
        beside whole blocks, and at the ends of rows, go one by one: then a line has too few sums to
        keep the FMA units busy, and latency counts. Where masks are free, narrow rows are a block.
        """
        p = self.problem
        size = self.isa_lanes * self.numerics.operand_bytes
        rows, vectors = BLOCKS.get(size, OTHER_BLOCK)
        lines, seen = lines_of(p, rows)
        reach = (p.kw - 1) * p.dilation[1]
        whole = max(p.iw - reach, 0) // self.isa_lanes // vectors
        if size == MASKS_BYTES and 1 < ceil_div(p.ow, self.isa_lanes) <= vectors:
            vectors = 2 if p.ow <= 2 * self.isa_lanes else vectors
            whole = 1
        singles = max(ceil_div(p.ow, self.isa_lanes) - whole * vectors, 0)
        one, several = (
            LINE_CYCLES + p.kw * max(seen * n / core.fma_per_cycle, core.fma_latency)
            for n in (1, vectors)
        )
        return p.oc * lines * (whole * several + singles * one)

    def strided_cycles(self, core: CoreModel) -> float:
        """Cycles of the blocks of planes at strides, of an image.

        A block of R rows takes (R - 1) * stride + kh lines. The columns of each are sorted first,
        and then added to as many of its rows as see it.
        """
        p, lanes = self.problem, self.isa_lanes
        rows, vectors = STRIDED_BLOCK
        lines = p.kh + (rows - 1) * p.stride[0]
        seen = rows * p.kh / lines
        reach = (p.kw - 1) * p.dilation[1]
        phases = min(p.stride[1], reach + 1)
        line = 0.0
        for columns, count in parts(p.ow, lanes * vectors):
            products = p.kw * seen * ceil_div(columns, lanes) / core.fma_per_cycle
            line += count * (STRIDED_LINE_CYCLES + products)
            if p.stride[1] != 2:
                line += count * SORTED_CYCLES * phases * (columns + reach // p.stride[1])
        return p.oc * ceil_div(p.oh, rows) * lines * line

    def sorted_line(self, columns: int) -> int:
        """Elements of a line that is sorted for some columns: whole vectors for each phase."""
        p = self.problem
        reach = (p.kw - 1) * p.dilation[1]
        vectors = ceil_div(columns + reach // p.stride[1], self.isa_lanes)
        return min(p.stride[1], reach + 1) * vectors * self.isa_lanes

    @property
    def in_bands(self) -> bool:
        """Whether a band of sorted lines has room for the lines of a block of one vector."""
        p, element = self.problem, self.numerics.operand_bytes
        rows, _ = BLOCKS[MASKS_BYTES]
        if self.isa_lanes * element != MASKS_BYTES or p.kw > MOST_TAPS:
            return False
        rows = min(rows * p.dilation[0], p.oh)
        lines = (rows - 1) * p.stride[0] + (p.kh - 1) * p.dilation[0] + 1
        line = self.sorted_line(min(p.ow, self.isa_lanes))
        return p.stride[1] == 1 or lines * line * element <= BAND_BYTES

    def band_cycles(self, core: CoreModel) -> float:
        """Cycles of planes at strides whose lines are sorted in bands, of an image.

        All output channels of an input channel share its sorted lines. The blocks are those of
        stride 1: what they see lies in order.
        """
        p, lanes = self.problem, self.isa_lanes
        rows, vectors = BLOCKS[MASKS_BYTES]
        blocks = p.dilation[0] * ceil_div(ceil_div(p.oh, p.dilation[0]), rows)
        lines = p.kh + (rows - 1) * p.stride[0]
        sums = sorting = 0.0
        for columns, count in parts(p.ow, lanes * vectors):
            products = rows * p.k * ceil_div(columns, lanes) / core.fma_per_cycle
            sums += count * (lines * BAND_LINE_CYCLES + products * BAND_PRODUCT_CYCLES)
            line = self.sorted_line(columns)
            if p.stride[1] == 2:
                sorting += count * line / lanes * BAND_VECTOR_CYCLES
            elif p.stride[1] > 2:
                sorting += count * line * BAND_ELEMENT_CYCLES
        return p.oc * blocks * sums + p.ic * p.ih * sorting

    @property
    def vectors(self) -> int:
        """Vectors of outputs of an image."""
        p, lanes = self.problem, self.isa_lanes
        if not self.by_pixels:
            return ceil_div(p.oc, lanes) * p.oh * p.ow
        # A vector of 64 bytes holds narrow rows of two planes.
        pairs = lanes * self.numerics.operand_bytes == 64 and 2 * p.ow <= lanes and p.ic == p.oc
        return (ceil_div(p.oc, 2) if pairs else p.oc) * p.oh * ceil_div(p.ow, lanes)

    def turn_cycles(self) -> float:
        """Cycles to turn the planes of all images into pixels, and their sums back."""
        p, lanes = self.problem, self.isa_lanes
        channels, rows = self.chunk
        pieces = ceil_div(p.oh, rows)
        across = ceil_div(channels, lanes) * lanes / channels
        slab = pieces * ceil_div(self.scratch[0] * p.iw, lanes)
        sums = pieces * ceil_div(rows * p.ow, lanes)
        part = TURN_PART_CYCLES if rows * p.ow % lanes else 0.0
        moved = (slab + sums) * across * TURN_VECTOR_CYCLES + pieces * part
        return p.batch * p.oc * (moved + pieces * TURN_CYCLES / channels)

    def cost(self, core: CoreModel, threads: int) -> dict[str, float]:
        """Estimate the cycles of the busiest thread.

        Terms: ``fma``, ``convert``, ``pack`` (what is gathered), ``tile``, ``stream``, ``team``.
        """
        p = self.problem
        fma = p.batch * self.vectors * self.taps_cycles() / core.fma_per_cycle
        if self.depth > 1:
            fma = p.batch * self.group_cycles / core.fma_per_cycle
        if self.in_blocks:
            fma = p.batch * self.block_cycles(core)
        elif self.by_pixels and not self.has_own_loop:
            cycles = self.band_cycles if self.in_bands else self.strided_cycles
            fma = p.batch * cycles(core)
        element = self.numerics.operand_bytes
        share = near_share(p, element)
        if share < 1.0 and not self.gathered:
            fma += p.batch * depthwise_large.crowded_cycles(p, share, self.isa_lanes, core)
        pack = 0.0
        if self.turned:
            pack = self.turn_cycles()
        elif self.gathered:
            slab_rows = self.scratch[0]
            pack = depthwise_large.copy_cycles(p, self.chunk, slab_rows, self.isa_lanes, element)
        if self.takes_gaps and self.channel_segment < p.oc:
            fma *= CUT_PIXELS
        planes = p.batch * p.oc * ceil_div(p.oh, self.row_segment) if self.by_pixels else 0
        read = p.ic * p.ih * p.iw * self.numerics.source_bytes
        moved = p.batch * (read + p.oc * p.oh * p.ow * self.numerics.destination_bytes)
        busiest = self.busiest(threads)
        plane = MASKED_PLANE_CYCLES if self.has_masks else PLANE_CYCLES
        convert = 0.0
        if self.numerics.converts:
            overlap = self.scratch[0] / (self.chunk[1] * p.stride[0])
            convert = conversion_cycles(p, self.numerics, self.isa_lanes, max(overlap, 1.0))
        return {
            "fma": fma * busiest,
            "convert": convert * busiest,
            "pack": pack * busiest,
            "tile": (planes * plane + self.tasks * TASK_CYCLES) * busiest,
            "stream": moved / (4 * core.l3_rate) * busiest,
            "team": core.team_cycles if threads > 1 else 0.0,
        }


def has_own_loop(p: ConvProblem, element: int, by_pixels: bool) -> bool:
    """Tell whether kernels of `element` bytes have a loop of their own for a size and its steps."""
    if p.kh != p.kw or p.dilation != (1, 1):
        return False
    # Double precision has no loops for squares that are seldom met.
    if p.kh == 7:
        return element < 8 and not by_pixels and p.stride == (1, 1)
    if p.stride[0] != p.stride[1]:
        three, down = p.kh == 3, p.stride == (2, 1)
        kept = three and down if by_pixels else three or down
        return p.kh in (3, 5) and kept and element == 4
    return p.kh in (3, 5) and max(p.stride) <= 2


def near_share(p: ConvProblem, element: int) -> float:
    """Share of a cache that pixels of large kernels get; 1 if nothing is gathered for it."""
    if p.layout != "NHWC" or not p.ic == p.oc == p.groups or has_own_loop(p, element, False):
        return 1.0
    return depthwise_large.near_share(p, element)


def _in_blocks(p: ConvProblem, lanes: int) -> str:
    """Describe blocks of neighbouring channels whose last vector of packed weights is a part."""
    return f", blocks of {p.block}" if p.layout == "NCHWc" and p.block % lanes else ""


def inside_share(p: ConvProblem) -> float:
    """Share of the products whose taps lie inside images: vectors of channels compute no others."""
    return inside_axis(p, 0) * inside_axis(p, 1)


def lines_of(p: ConvProblem, rows: int) -> tuple[int, float]:
    """Lines of an image that blocks of `rows` rows at stride 1 take, and rows that see a line."""
    pieces = [(at, min(rows, p.oh - at)) for at in range(0, p.oh, rows)]
    if p.dilation[0] > 1:
        lines = len(pieces) * (p.kh + rows - 1)
        return lines, rows * p.kh / (p.kh + rows - 1)
    top = p.padding[0][0]
    lines = taps = 0
    for at, count in pieces:
        lines += max(min(at + count - 1 - top + p.kh, p.ih) - max(at - top, 0), 0)
    for begin, end, low, high in ranges(p.oh, p.ih, p.kh, 1, 1, top):
        taps += (end - begin) * (high - low)
    return lines, taps / max(lines, 1)


def is_planes(problem: ConvProblem) -> bool:
    """Tell whether each channel is a contiguous plane, under any layout name."""
    p = problem
    return p.layout == "NCHW" or p.block == 1 or (p.layout == "NHWC" and p.ic == p.oc == 1)


def supports(problem: ConvProblem, numerics: Numerics) -> str | None:
    """Say why `problem` cannot be served; None if it can."""
    if problem.ic != problem.groups:
        return _groups_refused(problem, numerics)
    if numerics.product in BYTE_PRODUCTS:
        if problem.layout == "NCHWc":
            return "bytes lie in NCHW or NHWC"
        return None
    if numerics.exact and problem.groups == 1:
        # One channel is no depthwise convolution to what says how bytes may be multiplied.
        return "with bytes it needs two groups or more"
    if numerics.narrow:
        return wide_only(numerics)
    if numerics.chain is not None and problem.k > numerics.chain:
        return f"in half precision it adds up at most {numerics.chain} products"
    return None


def _groups_refused(problem: ConvProblem, numerics: Numerics) -> str | None:
    """Say why groups of several input channels cannot be served; None if they can."""
    if numerics.exact:
        return "it needs groups that see one channel each"
    depth, rest = divmod(problem.ic, problem.groups)
    fits = depth & (depth - 1) == 0 or depth % LONGEST_VECTOR == 0
    if rest or problem.ic != problem.oc or not fits or not 1 < depth <= MOST_DEPTH:
        return (
            "it needs groups that see one channel each, or as many as they compute, a power of "
            f"two or a multiple of {LONGEST_VECTOR} up to {MOST_DEPTH}"
        )
    if problem.layout != "NHWC":
        return "groups of several channels lie in NHWC"
    if numerics.narrow:
        return wide_only(numerics)
    if numerics.chain is not None and problem.k > numerics.chain:
        return f"in half precision it adds up at most {numerics.chain} products"
    return None


def candidates(problem: ConvProblem, around: PlanContext) -> Iterator[Candidate]:
    """Yield the segments worth an estimate."""
    if around.numerics.product in BYTE_PRODUCTS:
        yield from depthwise_bytes.candidates(problem, around)
        return
    p, threads = problem, around.threads
    together, planes = p.oc // p.groups, is_planes(p)
    l2 = around.machine.l2_share // CHUNK_L2
    room = around.machine.l1d_bytes if planes else l2
    pieces = 1 if p.batch and p.batch % threads == 0 else threads
    if planes:
        # Planes are cut by channel first: a plane's rows share their input.
        channels = balanced(p.oc, p.oc, together, pieces)
        tasks = max(p.batch, 1) * ceil_div(p.oc, channels)
        rows = balanced(p.oh, p.oh, 1, ceil_div(threads, tasks)) if p.oh else 1
        yield Depthwise(p, around.numerics, around.lanes, channels, max(rows, 1), room)
        if p.ic == p.oc >= around.lanes and not around.numerics.converts:
            channels, room = balanced(p.oc, p.oc, around.lanes, pieces), l2
            yield Depthwise(p, around.numerics, around.lanes, channels, max(rows, 1), room, True)
        return
    # Rows of all channels stream; short images are cut by channel.
    whole = max(round_up(p.oc, together), 1)
    rows = max(balanced(p.oh, p.oh, 1, pieces), 1)
    yield Depthwise(p, around.numerics, around.lanes, whole, rows, room)
    if near_share(p, around.numerics.operand_bytes) < 1.0 and not around.numerics.converts:
        lines = max(LINE // around.numerics.operand_bytes, around.lanes)
        channels = balanced(p.oc, p.oc, lines, pieces)
        yield Depthwise(p, around.numerics, around.lanes, channels, max(p.oh, 1), room, True)
    if pieces > 1:
        lines = around.lanes * together if p.ic == p.groups else max(around.lanes, together)
        if p.layout == "NCHWc":
            lines = math.lcm(lines, p.block)
        channels = balanced(p.oc, p.oc, lines, pieces)
        yield Depthwise(p, around.numerics, around.lanes, channels, max(p.oh, 1), room)
