"""The cost model of sparse weights: cycles, term by term, for one thread of the team.

``fma``
    terms of the microkernel, each bound by FMAs, by loads, by the FMA's latency, or by L2 if its
    pixels are there;
``tile``
    overhead of calls of the microkernel;
``pack``
    pixels packed, or turned from rows into panels;
``stream``
    planes that are read in place, and weights for which L2 has no room;
``store``
    sums turned into rows;
``convert``
    arrays of another type than the kernels read and write;
``team``
    starting the team, and lines of outputs that two of its threads store into.
"""

from __future__ import annotations

from .candidate import LINE, ceil_div
from .core_model import (
    BROADCASTS_REACHED,
    STORE_CYCLES,
    TASK_CYCLES,
    CoreModel,
    busiest_share,
    conflict_cycles,
    conversion_cycles,
    parts,
    step_cycles,
    streams_cycles,
)
from .sparse_blocking import SparseBlocking

CALL_CYCLES = 50.0  # a microkernel with the loop around it, and a mispredicted branch at its end
PASS_CYCLES = 0.8  # a vector of C, stored and loaded again
TURN_CYCLES = 2.5  # a vector of pixels from rows into a panel
# The same from gathered rows, which outgrow L1; and to gather them.
GATHERED_CYCLES, GATHER_CYCLES = 4.5, 5.0
PACK_CYCLES = 3.0
STORE_ROWS_CYCLES = 8.0  # a vector of sums into rows of channels
ROWS_CYCLES = 3.0  # a vector of sums into its row
LAY_CYCLES, LAY_ROW_CYCLES = 3.0, 10.0  # a vector of a laid row, and the row besides
# To lay images with strides: a vector from rows, and an element of planes.
TURN_APART_CYCLES, ELEMENT_CYCLES = 18.0, 1.3
ACROSS = 0.8  # of a load: the extra time of a vector across two lines
SINGLES_REACHED = 0.88  # of the peak load rate, if each FMA has a load
FROM_L2 = 0.5  # of a term's own time, which hides lines from L2
MIXES = {2: 1.0, 4: 2.0}  # shuffles for each vector of sums of a group of terms
TERM_CYCLES = 1.0  # its step, which no FMA waits for
HIDDEN = 0.7  # of the FMAs' time, which hides the arrival of operands
TIGHT = 0.9  # of the rate of FMAs that terms reach


def estimate(s: SparseBlocking, core: CoreModel, threads: int) -> dict[str, float]:
    """Cycles of `s` on `threads` threads, by term."""
    m, numerics = s.matrix, s.numerics
    repeat = s.images * m.groups
    terms = s.room[0] / max(m.groups, 1)
    single = min(s.rest * m.k, terms) if s.by_pixels else 0.0
    fma = tile = 0.0
    for pixels, count in parts(s.tiled, s.width):
        whole = (terms - single) * _term(s, core, s.panel, pixels)
        fma += count * (whole + single * _term(s, core, 1, pixels))
        vectors = ceil_div(pixels, s.lanes) if s.by_pixels else pixels * s.panel / s.lanes
        rows = m.n if s.by_pixels else s.panels
        moves = STORE_CYCLES + 2 * (s.k_blocks - 1) * PASS_CYCLES
        tile += count * (s.panels * s.k_blocks * CALL_CYCLES + rows * vectors * moves)
    work = {
        "fma": fma / TIGHT * repeat,
        "tile": tile * repeat + s.tasks * TASK_CYCLES,
        "pack": _pack(s) * repeat * s.parts,
        "stream": _stream(s, core, fma) * repeat,
        "store": 0.0,
    }
    if s.laid:
        work["store"] = repeat * m.n * s.pixels * ROWS_CYCLES / s.lanes
    if s.transposes:
        work["store"] = repeat * m.n * s.pixels * STORE_ROWS_CYCLES / s.lanes
    if numerics.converts:
        work["convert"] = conversion_cycles(s.problem, numerics, s.lanes, float(s.parts))
    largest = min(1.0, s.hw_segment / max(s.pixels, 1)) / max(s.parts * repeat, 1)
    busiest = busiest_share(s.tasks, threads, largest)
    cost = {name: cycles * busiest for name, cycles in work.items()}
    cost["team"] = core.team_cycles if threads > 1 else 0.0
    return cost


def _term(s: SparseBlocking, core: CoreModel, channels: int, pixels: int) -> float:
    """Cycles of one term."""
    if not s.by_pixels:
        apart = s.packed_row if s.packed else s.matrix.a.row * s.numerics.operand_bytes
        cycles = step_cycles(core, pixels, s.panel // s.lanes) + streams_cycles(core, pixels)
        return max(cycles + pixels * conflict_cycles(core, pixels, apart), TERM_CYCLES)
    vectors = ceil_div(pixels, s.lanes)
    if s.kr > 1:
        # A group of terms: its rows are interleaved by shuffles, then multiplied at once.
        mixes = MIXES[s.kr] * vectors
        group = max((channels * vectors + mixes) / core.fma_per_cycle, core.fma_latency, mixes)
        return group / s.kr
    reached = BROADCASTS_REACHED
    loads = channels / core.broadcasts + vectors * (1.0 + ACROSS * _crosses(s))
    if channels == 1:
        # Every FMA has a load, and so has every step; the chains of two channels overlap.
        reached, loads = SINGLES_REACHED, loads + 0.5
    latency = core.fma_latency / (2.0 if channels == 1 else 1.0)
    cycles = max(
        channels * vectors / core.fma_per_cycle,
        loads / core.loads_per_cycle / reached,
        latency,
        TERM_CYCLES,
    )
    if s.k_block * s.near > core.l1_bytes:
        lines = (vectors * s.lanes * s.numerics.operand_bytes + LINE * _crosses(s)) / core.l2_rate
        cycles = max(cycles, lines + (1.0 - FROM_L2) * cycles)
    elif not s.packed:
        cycles += vectors * conflict_cycles(core, s.k_block, _plane(s))
    return cycles


def _crosses(s: SparseBlocking) -> float:
    """Share of the vectors of pixels that lie across lines."""
    if s.laid:
        return 1.0
    return 0.0 if s.packed or _plane(s) % LINE == 0 else 1.0


def _plane(s: SparseBlocking) -> int:
    """Bytes from a plane of the image to the next."""
    return s.geometry.ih * s.geometry.iw * s.numerics.operand_bytes


def _pack(s: SparseBlocking) -> float:
    """Cycles to bring the pixels of one image and group into place."""
    if s.laid:
        rows = s.hw_segments * s.laid_rows * s.phases[0] * s.phases[1]
        if s.in_rows:
            blocks = ceil_div(s.ic, s.lanes) * ceil_div(s.laid_row, s.lanes)
            turn = TURN_CYCLES if s.geometry.stride_w == 1 else TURN_APART_CYCLES
            if s.numerics.source_bytes < 4:
                turn = s.lanes * ELEMENT_CYCLES
            return rows * blocks * s.lanes * turn
        row = s.laid_row / s.lanes * LAY_CYCLES + LAY_ROW_CYCLES
        if s.geometry.stride_w > 1:
            row += s.laid_row * ELEMENT_CYCLES
        return s.ic * rows * row
    vectors = s.matrix.k * s.matrix.m / s.lanes
    if not s.in_rows:
        return vectors * PACK_CYCLES if s.packed else 0.0
    turn = GATHERED_CYCLES if s.packed else TURN_CYCLES
    # Few channels are gathered in short runs.
    runs = 4.0 * s.lanes / max(min(s.ic * s.geometry.kw, 4 * s.lanes), 1)
    return vectors * (GATHER_CYCLES * runs * s.packed + turn * s.transposes)


def _stream(s: SparseBlocking, core: CoreModel, fma: float) -> float:
    """Cycles in which operands arrive from beyond L2, as far as FMAs do not hide them."""
    n, m = s.numerics, s.matrix
    tiles = ceil_div(m.m, s.width)
    weights = s.packed_weight_bytes / max(m.groups, 1)
    arrive = tiles * weights / core.far_rate(int(weights)) if weights > core.l2_bytes else 0.0
    planes = s.ic * s.geometry.ih * s.geometry.iw * n.operand_bytes
    if s.problem is m or s.in_rows:
        planes = s.ic * m.m * n.operand_bytes
    stalls = 0.0
    if planes > core.l2_bytes:
        # If tiles read planes in place, terms prefetch the next tile; otherwise loads stall.
        if s.packed or s.in_rows:
            stalls = planes / core.far_rate(planes)
        else:
            arrive += planes / core.far_rate(planes)
    outputs = m.n * m.m * n.destination_bytes
    if outputs > core.l2_bytes:
        # Lines are loaded before they are stored into; some are still in L2.
        arrive += 2.0 * (outputs - 0.5 * core.l2_bytes) / core.far_rate(outputs)
    if s.parts > 1:  # each part reads all pixels
        stalls += (s.parts - 1) * planes / core.l2_rate
    return max(arrive - HIDDEN * fma, 0.0) + stalls
