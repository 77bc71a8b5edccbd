"""What loops over sparse weights cost: cycles, term by term, for one thread of the team.

``fma``
    terms of the microkernel, each bound by FMAs, by loads, by the FMA's latency, or by L2 where its
    pixels lie there;
``tile``
    what a call of the microkernel costs besides;
``pack``
    pixels packed, or turned from rows into panels;
``stream``
    planes that are read where they lie, and weights that L2 has no room for;
``store``
    sums turned into rows;
``convert``
    arrays of another type than the kernels read and write;
``team``
    starting the team, and lines of outputs that two of its threads store into.
"""

from __future__ import annotations

from .candidate import ceil_div
from .core_model import (
    STORE_CYCLES,
    STORE_TRANSPOSED_CYCLES,
    TASK_CYCLES,
    CoreModel,
    busiest_share,
    conversion_cycles,
    parts,
    step_cycles,
)
from .sparse_blocking import SparseBlocking

CALL_CYCLES = 60.0  # a microkernel with the loop around it, and the end of its loop foretold wrong
PASS_CYCLES = 2.5  # a vector of C, stored and loaded again
TURN_CYCLES = 1.2  # a vector of pixels from rows into a panel
GATHER_CYCLES = 1.5
PACK_CYCLES = 3.0
TERM_CYCLES = 1.0  # its step, which no FMA waits for
TIGHT = 0.9  # of the rate of FMAs that terms reach


def estimate(s: SparseBlocking, core: CoreModel, threads: int) -> dict[str, float]:
    """Cycles of `s` on `threads` threads, by term."""
    m, numerics = s.matrix, s.numerics
    repeat = m.images * m.groups
    terms = s.room[0] / max(m.groups, 1)
    single = min(s.rest * m.k, terms) if s.by_pixels else 0.0
    fma = tile = 0.0
    for pixels, count in parts(m.m, s.width):
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
    if s.transposes:
        work["store"] = repeat * m.n * m.m * STORE_TRANSPOSED_CYCLES / s.lanes
    if numerics.converts:
        work["convert"] = conversion_cycles(s.problem, numerics, s.lanes, float(s.parts))
    largest = min(1.0, s.hw_segment / max(m.m, 1)) / max(s.parts * repeat, 1)
    busiest = busiest_share(s.tasks, threads, largest)
    cost = {name: cycles * busiest for name, cycles in work.items()}
    cost["team"] = core.team_cycles if threads > 1 else 0.0
    return cost


def _term(s: SparseBlocking, core: CoreModel, channels: int, pixels: int) -> float:
    """Cycles of one term."""
    element = s.numerics.operand_bytes
    if not s.by_pixels:
        return max(step_cycles(core, pixels, s.panel // s.lanes), TERM_CYCLES)
    vectors = ceil_div(pixels, s.lanes)
    cycles = max(step_cycles(core, channels, vectors), TERM_CYCLES)
    if s.k_block * s.width * element > core.l1_bytes:
        lines = vectors * s.lanes * element / core.l2_rate
        cycles = max(cycles, lines + channels * vectors / core.fma_per_cycle * 0.25)
    return cycles


def _pack(s: SparseBlocking) -> float:
    """Cycles to bring the pixels of one image and group into place."""
    vectors = s.matrix.k * s.matrix.m / s.lanes
    if not s.in_rows:
        return vectors * PACK_CYCLES if s.packed else 0.0
    return vectors * (GATHER_CYCLES * s.packed + TURN_CYCLES * s.transposes)


def _stream(s: SparseBlocking, core: CoreModel, fma: float) -> float:
    """Cycles in which operands arrive from beyond L2, as far as FMAs do not hide them."""
    n, m = s.numerics, s.matrix
    tiles = ceil_div(m.m, s.width)
    weights = s.packed_weight_bytes / max(m.groups, 1)
    arrive = tiles * weights / core.far_rate(int(weights)) if weights > core.l2_bytes else 0.0
    planes = m.k * m.m * n.operand_bytes
    if not s.packed and planes > core.l2_bytes:
        arrive += planes / core.far_rate(planes)
    return max(arrive - 0.5 * fma, 0.0)
