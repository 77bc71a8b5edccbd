"""The cost model of the GEMM nest: cycles, term by term, for one thread of the team.

Terms (all in cycles of the busiest thread):

``fma``
    steps of the microkernel, each bound by FMAs, by loads, or by the FMA's latency;
``tile``
    overhead of calls of the microkernel: arguments, zeroing, loading and storing C;
``pack``
    im2col of the pixels, repeated for each segment of output channels; B that tasks pack;
``stream``
    operands that a tile reads again from L2 or beyond;
``store``
    the transposed store, if vectors run across the user's layout;
``convert``
    arrays of another type than the kernels read and write, to scratch and back;
``team``
    starting the team, and the lines of outputs that two of its threads store into.

The model only has to rank candidates; ``docs/architecture.md`` says how its constants were
found.
"""

from __future__ import annotations

import math
from functools import lru_cache

from ..matrix_problem import MatrixProblem
from ..problem import ConvProblem
from .candidate import LINE, ceil_div, round_up
from .core_model import (
    FEW_CHANNELS,
    MOST_STREAMS,
    STAYS,
    STORE_CYCLES,
    STORE_TRANSPOSED_CYCLES,
    TASK_CYCLES,
    CoreModel,
    busiest_share,
    conflict_cycles,
    conversion_cycles,
    parts,
    runs_cycles,
    segment_cycles,
    step_cycles,
    streams_cycles,
    taken_cycles,
)
from .nest_blocking import BY_TASK, IN_PLACE, NestBlocking

PASS_CYCLES = 2.5
# Sums that are loaded from beyond L2 and stored there again are short pieces of distant rows,
# slower than one stream: float32 squares of 4096 lose 4 % with blocks of 512 instead of 2048.
PASS_MISSES = 1.5
AVX2_BYTES = 32
SIEVE_CYCLES = 4.0, 6.5  # a vector of every second pixel: AVX2 has no shuffle of two vectors
# To pack B: a vector that is copied, and one that is transposed.
COPIED_CYCLES = 4.0
TRANSPOSED_CYCLES = 8.0
PACKED_BYTES = 5.0  # a cycle, of a B that comes from beyond L2
PLANE_CYCLES = 3.0  # a vector of a plane into packed pixels
WRITTEN_CYCLES = 2.0  # more for a vector of packed pixels that fill L2
BEGIN_CYCLES = 12.0  # to begin the pixels of a tap or, if it is pointwise, of a channel
COPY_CYCLES = 12.0  # the channels of one tap, gathered from a block
PAGE_BYTES = 4096
NEW_PAGE_CYCLES = 6.0  # a vector stored into another page than the vector before it
# A line of a plane that is read where it lies: cores that multiply a whole line twice a cycle have
# no time left that would hide its way from L2.
PLANE_LINE_CYCLES = 0.3
# A step of a tile whose pixels lie in two lines of some planes, if L1 cannot hold all planes: the
# mean of many widths. With 160 channels on a Zen 3, planes of 41, 46, 47, 49 and 57 pixels took one
# cycle more, those of 45 and of 53 to 55 none; on cores with a larger L1 it did not show.
STRADDLED_CYCLES = 0.35
SMALL_L1 = 32 << 10
SMALL_PLANE = 512  # bytes: tiles of larger planes find half of their neighbours' lines in L1
CALL_CYCLES = 48.0  # a microkernel with the loop around it
HIDDEN = 0.6  # of the FMAs' time, which hides the arrival of operands
FETCHED = 0.9  # of a step of a product of matrices: tiles fetch the next panel meanwhile
# A row of a matrix that is read across its rows, a few elements of each row for a tile: each row is
# in a page of its own, and no prefetcher follows. If rows share too few sets of L2, they come from
# beyond it.
ROW_CYCLES = 5.0
FAR_ROW_CYCLES = 24.0
L2_WAY_BYTES = 1 << 17
NEAR_BYTES = 1 << 18  # first row to last, if the first TLB has entries for all their pages


def moved_cycles(matrix: MatrixProblem, lanes: int) -> float:
    """Cycles to copy or transpose B of all groups into panels."""
    in_place = TRANSPOSED_CYCLES if matrix.b.row == 1 else COPIED_CYCLES
    return matrix.groups * matrix.n * matrix.k / lanes * in_place


def estimate(nest: NestBlocking, core: CoreModel, threads: int) -> dict[str, float]:
    """Cycles of `nest` on `threads` threads, by term."""
    # A nest's own names for sizes of its problem are slower: a plan costs hundreds of nests.
    problem, numerics = nest.problem, nest.numerics
    p = problem.matrix
    oc, pixels, images, in_rows = p.n, p.m, p.images, p.c_in_rows
    by_pixels = nest.orientation == "pixels"
    rows, columns = (oc, pixels) if by_pixels else (pixels, oc)
    row_segment = nest.oc_segment if by_pixels else nest.hw_segment
    column_segment = nest.hw_segment if by_pixels else nest.oc_segment
    panels = nest.panels
    fma, tile = _tiles(
        core, (rows, row_segment, nest.mr),
        (columns, column_segment, nest.nr if by_pixels else panels.width), nest.lanes,
        _cut_panels(nest), p.k, nest.k_block, panels.depth(1), numerics.kr,
    )  # fmt: skip
    repeat = p.groups * images
    if by_pixels or in_rows:
        narrow = ceil_div(columns, nest.nr if by_pixels else panels.width)
        runs = rows * narrow if narrow > 1 else ceil_div(rows, nest.mr)
        of_lines = nest.lanes * numerics.sum_bytes == LINE
        outputs = oc * pixels * numerics.destination_bytes * repeat
        tile += runs_cycles(core, outputs, runs, of_lines=of_lines)
    work = {
        "fma": fma * repeat,
        "tile": tile * repeat,
        "pack": _pack(nest, core) if nest.packed else 0.0,
        "stream": _stream(nest, core, fma, threads) * repeat,
        "store": 0.0,
    }
    if nest.columns == BY_TASK:
        work["pack"] += moved_cycles(p, nest.lanes) * images
    if not by_pixels and not in_rows:
        pages = min(problem.output_pixels * numerics.sum_bytes / PAGE_BYTES, 1.0)
        across = STORE_TRANSPOSED_CYCLES + NEW_PAGE_CYCLES * pages
        work["store"] = repeat * oc * pixels * across / nest.lanes
    if numerics.converts or nest.copied:
        # If segments share rows of the image, each segment converts them.
        reads = nest.oc_segments * 1.0
        if nest.packed:
            each = problem.batch // max(images, 1)
            reads *= nest.hw_segments * nest.slab[0] / max(nest.geometry.ih * each, 1)
        rounded = core.rounds and in_rows and nest.k_block >= p.k
        work["convert"] = conversion_cycles(problem, numerics, nest.lanes, reads, rounded=rounded)
    tasks = nest.tasks
    work["tile"] += tasks * TASK_CYCLES
    largest = (
        (1.0 if nest.columns == BY_TASK else min(1.0, nest.hw_segment / pixels))
        * min(1.0, nest.oc_segment / oc)
        * nest.group_segment
        / (p.groups * images)
        if tasks
        else 0.0
    )
    busiest = busiest_share(tasks, threads, largest)
    cost = {name: cycles * busiest for name, cycles in work.items()}
    cost["team"] = 0.0
    if threads > 1:
        cost["team"] = core.team_cycles + taken_cycles(core, threads, _border_lines(nest, threads))
    return cost


# Algorithms, layouts and blocks share tiles: more than half of all calls are repeated.
@lru_cache(maxsize=256)
def _tiles(
    core: CoreModel, rows: tuple[int, int, int], columns: tuple[int, int, int], lanes: int,
    cut: float, k: int, k_block: int, unit: int, kr: int,
) -> tuple[float, float]:  # fmt: skip
    """Cycles of the FMAs of one product, and of all else in its calls of the microkernel.

    Parameters
    ----------
    core : CoreModel
        The core.
    rows, columns : tuple of int
        Size of the product, of a segment, and of a tile.
    lanes : int
        Elements of a vector.
    cut : float
        See `_cut_panels`.
    k, k_block, unit, kr : int
        Length of the sums and of their blocks, which are filled up to multiples of `unit`; k that
        are multiplied together.
    """
    fma = tile = 0.0
    tile_rows: dict[int, int] = {}
    for segment, count in parts(*rows[:2]):
        for m, n in parts(segment, rows[2]):
            tile_rows[m] = tile_rows.get(m, 0) + n * count
    tile_columns: dict[int, float] = {}
    for segment, count in parts(*columns[:2]):
        for c, n in parts(segment, columns[2]):
            vectors = ceil_div(c, lanes)
            tile_columns[vectors] = tile_columns.get(vectors, 0.0) + n * count * cut
    blocks = [(round_up(block, unit) // kr, count) for block, count in parts(k, k_block)]
    k_blocks = ceil_div(k, k_block)
    for m, m_count in tile_rows.items():
        for v, v_count in tile_columns.items():
            calls = m_count * v_count
            step = step_cycles(core, m, v)
            for groups, count in blocks:
                fma += calls * count * segment_cycles(core, groups, step)
            passes = 2 * (k_blocks - 1)  # all but the last store C, the next load it
            moves = STORE_CYCLES + passes * PASS_CYCLES
            tile += calls * (k_blocks * CALL_CYCLES + m * v * moves)
    return fma, tile


def _border_lines(nest: NestBlocking, threads: int) -> int:
    """Cache lines of outputs that two threads store into, where their segments meet.

    There is one in each plane, unless both planes and segments are whole lines.
    """
    size, plane = nest.numerics.destination_bytes, nest.matrix.c.column
    apart = nest.y_in_rows or nest.problem.block or nest.hw_segments == 1
    whole = (plane * size) % LINE == (nest.hw_segment * size) % LINE == 0
    outer = ceil_div(nest.matrix.groups, nest.group_segment) * nest.images
    alone = outer % threads == 0
    return 0 if threads == 1 or apart or whole or alone else nest.oc


def _cut_panels(nest: NestBlocking) -> float:
    """Average calls for a panel of weights, as groups may begin within blocks of channels."""
    block = nest.problem.block
    if block == 0:
        return 1.0
    # Groups begin at all multiples of `apart`; a border inside the panel makes two of it.
    apart = math.gcd(nest.oc, block, nest.panels.width)
    return 1.0 + (nest.panels.width - apart) / block if nest.problem.groups > 1 else 1.0


def _vector_of_rows(together: int, lanes: int) -> float:
    """Cycles to pack a vector of pixels in rows, where `together` elements are neighbours."""
    return 1.5 + 4.0 * lanes / max(min(together, 4 * lanes), 1)


def least_packing(problem: ConvProblem, lanes: int) -> float:
    """Least cycles to pack the pixels of a 1x1 convolution, in NCHW or NHWC, as sums are typed."""
    p = problem.matrix
    vectors = p.groups * p.images * p.k * p.m / lanes
    return vectors * (_vector_of_rows(p.k, lanes) if p.a_in_rows else PLANE_CYCLES)


def _pack(nest: NestBlocking, core: CoreModel) -> float:
    """Cycles to pack the pixels, once for each segment of output channels."""
    p, g = nest.problem.matrix, nest.problem.geometry
    lanes = nest.lanes * nest.numerics.sum_bytes // nest.numerics.operand_bytes
    vectors = p.groups * p.images * p.k * p.m / lanes
    if block := nest.problem.block:
        per_vector = 1.5 + COPY_CYCLES * nest.lanes / max(min(nest.ic, block), 1)
    elif p.a_in_rows:
        per_vector = _vector_of_rows(nest.ic * g.kw, lanes)
    elif g.stride_w <= 2:
        # A run ends with its row or panel; strided rows also load the pixels that they skip.
        runs = 1.0 if nest.flat else 1.0 + nest.lanes / (2.0 * g.ow)
        segment = min(nest.hw_segment, p.m)
        # Packed pixels that fill L2 are written back line by line while they are packed.
        packed = nest.k_block * segment * nest.numerics.operand_bytes
        per_vector = (PLANE_CYCLES + WRITTEN_CYCLES * min(4.0 * packed / core.l2_bytes, 1.0)) * runs
        per_vector += BEGIN_CYCLES * lanes / segment
        if g.stride_w == 2:
            far = g.ih * g.iw * nest.ic * nest.numerics.operand_bytes > core.l2_bytes
            brought = 2 * nest.lanes * nest.numerics.operand_bytes / (g.kh * g.kw)
            sieve = SIEVE_CYCLES[nest.lanes * nest.numerics.operand_bytes == AVX2_BYTES]
            per_vector += sieve * runs + brought / (core.l3_rate if far else core.l2_rate)
    else:
        per_vector = 2.0 * nest.lanes
    return vectors * per_vector * nest.oc_segments


def _stream(nest: NestBlocking, core: CoreModel, fma: float, threads: int) -> float:
    """Cycles to load the tiles' operands from beyond L1, as far as `fma` does not hide them."""
    p, numerics = nest.problem.matrix, nest.numerics
    oc, count, in_rows, packed = p.n, p.m, p.a_in_rows, nest.packed
    by_pixels = nest.orientation == "pixels"
    weight_row = nest.k_block * numerics.weight_bytes
    pixel_row = nest.k_block * numerics.operand_bytes
    segment = min(nest.hw_segment, count)
    weights = (nest.mr if by_pixels else nest.nr) * weight_row
    wide = nest.nr if by_pixels else nest.mr
    pixels = float(wide * pixel_row)
    if not packed and not in_rows:
        # A tile has a piece of each plane, and partial cache lines are loaded whole.
        lines = nest.k_block * _lines(nest, wide) * LINE
        pixels += (lines - pixels) * (1.0 if by_pixels else _loaded_again(nest))
    hw_segments, width = nest.hw_segments, nest.panels.width
    # Quotients are rounded up here, as a plan costs hundreds of nests.
    across = -(-oc // width)
    calls = hw_segments * -(-p.k // nest.k_block) * across
    calls *= -(-segment // (nest.nr if by_pixels else nest.mr))
    # The inner operand changes with every tile; the outer one stays in L1 if it has room there.
    inner, outer = (pixels, weights) if nest.pixels_inner else (weights, pixels)
    whole_inner = segment * pixel_row if nest.pixels_inner else nest.oc_segment * weight_row
    inner_far = whole_inner + outer > core.l1_bytes
    near = calls * inner if inner_far else 0.0
    # An outer operand that only one tile reads comes from beyond L2, and is counted below.
    again = segment > nest.mr or not nest.pixels_inner or by_pixels
    stays = outer + inner <= core.l1_bytes
    if numerics.in_tiles:
        stays = outer <= STAYS * core.l1_bytes
    if again and not stays:
        near += calls * outer
    far = stalls = 0.0
    # If tasks differ only in their output channels, a thread reads only its share of the weights.
    # That was measured for narrow types (1.7 times as fast, for 7x7 images and 2.4 MB of weights).
    # For other types the estimate does not use it until a corpus of teams shows the same.
    shared = numerics.narrow and nest.tasks == nest.oc_segments
    own = oc / min(nest.oc_segments, threads) if shared else oc
    if nest.columns == BY_TASK:
        # Packed weights stay in L2. Rows of A are read once for each segment, maybe from beyond L2;
        # if they are packed, nothing hides that.
        a, b = count * p.k * numerics.operand_bytes, p.k * own * numerics.weight_bytes
        if a + b > core.l2_bytes and packed:
            stalls += a * nest.oc_segments / core.l3_rate
        elif a + b > core.l2_bytes:
            far = a * (nest.oc_segments - 1.0)
        if b > core.l2_bytes:
            stalls += b / PACKED_BYTES
    elif own * p.k * numerics.weight_bytes + segment * pixel_row > core.l2_bytes:
        # When a panel of weights is first touched, it comes from L3 or, of a large matrix, from
        # memory, a row for each step of k. Most of the step's time hides that.
        step = step_cycles(core, nest.mr, nest.nr // nest.lanes)
        is_matrix = nest.problem is p
        # All threads read the same weights, and each thread's share of L3 holds a part of them.
        each = int(own * p.k * numerics.weight_bytes) // threads
        rate = core.far_rate(each) if is_matrix else core.l3_rate
        row = width * numerics.weight_bytes / rate
        panels = hw_segments * across
        hidden = FETCHED if is_matrix else 0.7
        stalls = panels * p.k * max(0.0, row - hidden * step)
    if in_rows:
        # Each row of A is a stream, and too many streams are hard on L1; rows a multiple of 4 KiB
        # apart also fall into one set of it.
        groups = -(-p.k // numerics.kr)
        reads = hw_segments * groups * segment * -(-oc // nest.nr)
        stalls += reads / nest.mr * streams_cycles(core, nest.mr)
        if not packed:
            stalls += reads * conflict_cycles(core, nest.mr, p.a.row * numerics.operand_bytes)
    if not packed and not in_rows:
        if by_pixels and nest.lanes * numerics.operand_bytes == LINE and core.fma_per_cycle > 1:
            stalls += PLANE_LINE_CYCLES * calls * pixels / LINE
        # Rows of the user's planes lie pages apart: each is a stream of its own.
        far += 0.25 * nest.ic * count * numerics.operand_bytes
        if inner_far and not by_pixels and _straddles(nest, core):
            stalls += STRADDLED_CYCLES * calls * nest.k_block
    if nest.problem is p:
        stalls += _across(nest, core, calls) + _passes(nest, core)
    planes = nest.ic * count * numerics.operand_bytes
    if by_pixels and oc <= FEW_CHANNELS and planes > core.l2_bytes:
        # Planes are read once, with few FMAs to hide that: as a few long streams, or, cut by tiles,
        # at half the rate.
        streams = not packed and nest.k_block <= MOST_STREAMS
        far = 0.0
        stalls += planes / core.l3_rate * (0.5 if streams else 1.0)
    arrive = near / core.l2_rate + far / core.l3_rate
    return max(arrive - HIDDEN * fma, 0.0) + stalls


def _across(nest: NestBlocking, core: CoreModel, calls: int) -> float:
    """Cycles that `calls` of tiles wait for rows of a matrix that is read in place.

    Its rows lie across the tiles: each call reads a few elements of all rows of its block of K.
    """
    apart = 0
    if nest.columns == IN_PLACE:
        apart = nest.matrix.b.row * nest.numerics.weight_bytes
    cycles = _rows_cycles(nest, core, apart)
    if not (nest.packed or nest.copied or nest.in_rows):
        cycles += _rows_cycles(nest, core, nest.matrix.a.column * nest.numerics.operand_bytes)
    return calls * cycles


def _rows_cycles(nest: NestBlocking, core: CoreModel, apart: int) -> float:
    """Cycles for a tile's rows of a block of K that lie `apart` bytes apart."""
    rows = min(nest.k_block, nest.matrix.k)
    if rows * apart <= NEAR_BYTES:
        return 0.0
    full = 2 * rows * math.gcd(apart, L2_WAY_BYTES) > core.l2_bytes
    far = apart >= PAGE_BYTES and full
    return rows * (FAR_ROW_CYCLES if far else ROW_CYCLES * min(apart / PAGE_BYTES, 1.0))


def _passes(nest: NestBlocking, core: CoreModel) -> float:
    """Cycles to load and store sums that do not stay in L2 between blocks of K."""
    p, size = nest.matrix, nest.numerics.sum_bytes
    again = ceil_div(p.k, nest.k_block) - 1
    segment = min(nest.hw_segment, nest.pixels) * min(nest.oc_segment, nest.oc) * size
    if 4 * segment < core.l2_bytes:
        return 0.0
    return PASS_MISSES * 2 * again * nest.pixels * nest.oc * size / core.memory_rate


def _loaded_again(nest: NestBlocking) -> float:
    """Share of the lines of a few pixels that have left L1 when the next tile reads them."""
    plane = nest.geometry.ih * nest.geometry.iw * nest.numerics.operand_bytes
    return 1.0 if plane < SMALL_PLANE else 0.5


def _straddles(nest: NestBlocking, core: CoreModel) -> bool:
    """Whether neighbouring pixels of a tile lie in two lines of some planes, in a small L1."""
    size = nest.numerics.operand_bytes
    plane = nest.geometry.ih * nest.geometry.iw * size
    return core.l1_bytes <= SMALL_L1 and math.gcd(plane, LINE) < math.gcd(nest.mr * size, LINE)


def _lines(nest: NestBlocking, pixels: int) -> float:
    """Cache lines that neighbouring pixels of a plane lie in, on average over the planes."""
    plane = nest.geometry.ih * nest.geometry.iw * nest.numerics.operand_bytes
    size = pixels * nest.numerics.operand_bytes
    step = math.gcd(plane, LINE)  # distance between the offsets in a line at which planes begin
    return ceil_div(size, LINE) if step == LINE else 1.0 + (size - step) / LINE
