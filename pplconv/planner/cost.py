"""The cost model: a candidate's cycles, term by term, for one thread of the team.

Terms (all in cycles of the busiest thread):

``fma``
    steps of the microkernel, each bound by FMAs, by loads, or by the FMA's latency;
``tile``
    what a call of the microkernel costs besides: arguments, zeroing, loading and storing C;
``pack``
    im2col of the pixels, repeated for each segment of output channels;
``stream``
    operands that a tile reads again from L2 or beyond;
``store``
    the transposed store, where vectors ran across the user's layout;
``team``
    starting the team.

The model only has to rank candidates; ``docs/architecture.md`` says how its constants were
found.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..algorithms import Nest
from ..algorithms.nest import ceil_div
from ..machine import Machine

FMA_LATENCY = 4.0
LOADS_PER_CYCLE = 2.0
CALL_CYCLES = 40.0
STORE_CYCLES = 1.0
# Bytes a cycle that a streamed operand comes at, and how much of it hides behind FMAs.
L2_BYTES = 48.0
L3_BYTES = 10.0
HIDDEN = 0.8
TEAM_CYCLES = 3000.0


@dataclass(frozen=True)
class Rates:
    """What the model knows of the core: vector FMAs a cycle and cache sizes."""

    fma_per_cycle: float
    l1_bytes: int
    l2_bytes: int

    @classmethod
    def of(cls, machine: Machine, isa: str) -> Rates:
        """Take the rates of `machine` for one instruction set."""
        return cls(float(machine.fma_per_cycle[isa]), machine.l1d_bytes, machine.l2_bytes)


def step_cycles(rates: Rates, mr: int, vectors: int) -> float:
    """Cycles of one step of k of the microkernel: mr x vectors FMAs."""
    return max(
        mr * vectors / rates.fma_per_cycle, (mr + vectors) / LOADS_PER_CYCLE, FMA_LATENCY
    )


def parts(total: int, size: int) -> list[tuple[int, int]]:
    """Cut `total` into pieces of `size`: [(piece, how many)], the last one shorter."""
    whole, rest = divmod(total, size)
    return [(p, n) for p, n in ((size, whole), (rest, 1 if rest else 0)) if n]


def estimate(nest: Nest, rates: Rates, threads: int) -> dict[str, float]:
    """Cycles of `nest` on `threads` threads, by term."""
    p = nest.problem
    by_pixels = nest.orientation == "pixels"
    rows, columns = (nest.oc, nest.pixels) if by_pixels else (nest.pixels, nest.oc)
    row_segment = nest.oc_segment if by_pixels else nest.hw_segment
    column_segment = nest.hw_segment if by_pixels else nest.oc_segment
    k_blocks = ceil_div(p.k, nest.k_block)

    fma = tile = 0.0
    calls = 0
    tile_rows: dict[int, int] = {}
    for segment, count in parts(rows, row_segment):
        for m, n in parts(segment, nest.mr):
            tile_rows[m] = tile_rows.get(m, 0) + n * count
    tile_columns: dict[int, int] = {}
    for segment, count in parts(columns, column_segment):
        for c, n in parts(segment, nest.nr):
            vectors = ceil_div(c, nest.lanes)
            tile_columns[vectors] = tile_columns.get(vectors, 0) + n * count
    for m, m_count in tile_rows.items():
        for v, v_count in tile_columns.items():
            n = m_count * v_count
            calls += n
            fma += n * p.k * step_cycles(rates, m, v)
            moves = 2 * k_blocks - 1  # every pass but the first loads C, every one stores it
            tile += n * (k_blocks * CALL_CYCLES + moves * m * v * STORE_CYCLES)

    repeat = p.groups * nest.images
    work = {
        "fma": fma * repeat,
        "tile": tile * repeat,
        "pack": _pack(nest) if nest.packed else 0.0,
        "stream": _stream(nest, rates) * repeat,
        "store": 0.0,
    }
    if not by_pixels and not nest.channels_last:
        work["store"] = repeat * nest.oc * nest.pixels * 4.0 / nest.lanes
    rounds = ceil_div(nest.tasks, threads)
    busiest = rounds / max(nest.tasks, 1)
    cost = {name: cycles * busiest for name, cycles in work.items()}
    cost["team"] = TEAM_CYCLES if threads > 1 else 0.0
    return cost


def _pack(nest: Nest) -> float:
    p = nest.problem
    vectors = p.groups * nest.images * p.k * ceil_div(nest.pixels, nest.lanes)
    if nest.channels_last:
        per_vector = 1.5 + 4.0 * nest.lanes / min(p.ic // p.groups * p.kw, 4 * nest.lanes)
    elif p.stride[1] <= 2:
        per_vector = 1.5 + nest.runs_per_vector * p.stride[1]
    else:
        per_vector = 2.0 * nest.lanes
    return vectors * per_vector * nest.oc_segments


def _stream(nest: Nest, rates: Rates) -> float:
    """Cycles to bring tiles' operands closer, beyond what hides behind FMAs."""
    p = nest.problem
    by_pixels = nest.orientation == "pixels"
    block = nest.k_block * p.element
    weight_block = nest.oc_segment * block
    pixel_block = min(nest.hw_segment, nest.pixels) * block
    weight_width = nest.mr if by_pixels else nest.nr
    pixel_width = nest.nr if by_pixels else nest.mr
    # The inner operand is read once for each tile of the outer one.
    if nest.pixels_inner:
        passes, inner, outer = ceil_div(nest.oc, weight_width), pixel_block, weight_block
        outer_panel = weight_width * block
    else:
        passes, inner, outer = ceil_div(nest.hw_segment, pixel_width), weight_block, pixel_block
        outer_panel = pixel_width * block
    blocks = ceil_div(p.k, nest.k_block)
    inner_rate = L2_BYTES if inner + outer_panel < rates.l2_bytes else L3_BYTES
    cycles = 0.0
    if inner + outer_panel > rates.l1_bytes:
        cycles += passes * inner / inner_rate
    if outer > rates.l1_bytes:
        cycles += outer / (L2_BYTES if outer + inner < rates.l2_bytes else L3_BYTES)
    return cycles * blocks * nest.hw_segments * (1.0 - HIDDEN)
