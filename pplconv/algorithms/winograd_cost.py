"""The cost model of Winograd's algorithm: cycles, term by term."""

from __future__ import annotations

from .candidate import LINE, ceil_div
from .core_model import (
    HIDDEN,
    STORE_TRANSPOSED_CYCLES,
    TASK_CYCLES,
    CoreModel,
    busiest_share,
    conversion_cycles,
    matrix_cycles,
    step_cycles,
)
from .winograd_blocking import WinogradBlocking

# Arithmetic of a transform, without its stores: cycles for each position and vector of channels.
TRANSFORM_CYCLES = 1.5
# V and M may have this share of L2 before the images that pass by drive them out.
L2_KEPT = 0.45
# V and M that pass through shared scratch are written to it and read from it, and what they drive
# out of L2 has to be written, too.
SHARED = 2.5
PIECE_CYCLES = 60.0
OTHERS = 0.25  # of the steps of a block's other tiles, in which weights arrive
# A team waits for its last thread at the end of each stage.
WAIT_CYCLES = 3000.0


def staged(winograd: WinogradBlocking, core: CoreModel, threads: int) -> dict[str, float]:
    """Estimate the cycles of the busiest thread where V and M lie beyond L2.

    Terms: ``fma`` products with their calls, ``pre`` and ``post`` transforms with their traffic,
    ``stream`` weights and V on their way to the products, ``store`` the slabs of NCHW, ``tasks``,
    ``team`` with its waits.
    """
    e = winograd.numerics.operand_bytes
    vector, rounds = winograd.lanes * e, ceil_div(winograd.tiles, winograd.tile_block)
    fma = _products(winograd, core)
    v_vectors, m_vectors = _vectors(winograd)
    vm_bytes = (v_vectors + m_vectors) * vector
    u_bytes = winograd.positions * winograd.panels.bytes(winograd.oc, winograd.ic, e)
    far = vector / core.far_rate(vm_bytes // max(rounds, 1))
    # Of what a thread reads, the others have written most, and their caches have it, or had.
    taken = core.taken * vector / LINE * (1.0 - 1.0 / threads)
    pre = v_vectors * (TRANSFORM_CYCLES + SHARED * far + taken)
    post = m_vectors * (TRANSFORM_CYCLES + SHARED * far + taken)
    # V arrives with the first panel.
    panels = ceil_div(winograd.oc, winograd.panels.width)
    stream = float(rounds * winograd.positions * panels * winograd.ic)
    stream *= _late(winograd, core, u_bytes)
    stream += v_vectors * vector * panels / core.l2_rate * (1.0 - HIDDEN)
    tasks = sum(winograd.part_tasks) * TASK_CYCLES
    tasks += winograd.positions * ceil_div(winograd.oc, winograd.oc_segment) * TASK_CYCLES
    work = {
        "fma": fma,
        "pre": pre,
        "post": post,
        "stream": stream,
        "store": _slabs(winograd, 1),
        "tasks": rounds * tasks,
    }
    if winograd.numerics.converts:
        p = winograd.problem
        reads = winograd.t**2 / winograd.n**2
        work["convert"] = conversion_cycles(p, winograd.numerics, winograd.lanes, reads)
        work["convert"] /= p.groups
    # The products have most of the work, and the largest tasks.
    count = winograd.positions * ceil_div(winograd.oc, winograd.oc_segment)
    busiest = busiest_share(count, threads, 1 / count) * winograd.problem.groups
    cost = {name: cycles * busiest for name, cycles in work.items()}
    cost["team"] = 0.0
    if threads > 1:
        cost["team"] = core.team_cycles + 3 * winograd.rounds * WAIT_CYCLES
    return cost


def _late(winograd: WinogradBlocking, core: CoreModel, u_bytes: int) -> float:
    """Cycles that a row of a panel of weights keeps waiting, on its way from L3 or memory.

    It arrives with a step of the first register tile, which hides what it has time for. The other
    tiles of the block hide a part: prefetches run ahead, but not as far as the next panel.
    """
    step = step_cycles(core, min(winograd.mr, winograd.tile_block), winograd.nr // winograd.lanes)
    others = ceil_div(winograd.tile_block, winograd.mr) - 1
    row = winograd.nr * winograd.numerics.operand_bytes / core.far_rate(u_bytes)
    return max(row - step * (1.0 + OTHERS * others), 0.0)


def _products(winograd: WinogradBlocking, core: CoreModel) -> float:
    """Cycles of the microkernel in all products of a group."""
    products = 0.0
    whole, rest = divmod(winograd.tiles, winograd.tile_block)
    for size, count in ((winograd.tile_block, whole), (rest, 1)):
        if size:
            products += count * matrix_cycles(
                core, size, winograd.panels.padded(winograd.oc), winograd.mr, winograd.nr,
                winograd.lanes, winograd.ic, ceil_div(winograd.ic, winograd.ic_segment),
            )  # fmt: skip
    return products * winograd.positions


def _vectors(winograd: WinogradBlocking) -> tuple[int, int]:
    """Vectors of V and of M of a group."""
    tiles = winograd.tiles * winograd.positions
    return (
        tiles * ceil_div(winograd.ic, winograd.lanes),
        tiles * ceil_div(winograd.oc, winograd.lanes),
    )


def _slabs(winograd: WinogradBlocking, repeats: int) -> float:
    """Cycles to bring a group's pixels into slabs, `repeats` times, and outputs from there."""
    p = winograd.problem
    if not winograd.by_planes:
        return 0.0
    overlap = (winograd.t / winograd.n) * (
        1.0 + (winograd.r - 1) / (winograd.slab_tiles * winograd.n)
    )
    pixels = p.batch * p.oh * p.ow / winograd.lanes
    return (overlap * winograd.ic * repeats + winograd.oc) * pixels * STORE_TRANSPOSED_CYCLES


def estimate(winograd: WinogradBlocking, core: CoreModel, threads: int) -> dict[str, float]:
    """Estimate the cycles of the busiest thread.

    Terms: ``fma`` products with their calls, ``pre`` and ``post`` transforms with their
    traffic, ``stream`` weights and V that come from further than L1, ``store`` the slabs
    of NCHW, ``tasks``, ``team``.
    """
    p, e = winograd.problem, winograd.numerics.operand_bytes
    ic_segments = ceil_div(winograd.ic, winograd.ic_segment)
    oc_segments = ceil_div(winograd.oc, winograd.oc_segment)
    blocks = ceil_div(winograd.tiles, winograd.tile_block)
    fma = _products(winograd, core)
    v_vectors, m_vectors = _vectors(winograd)
    v_vectors *= oc_segments
    write = winograd.lanes * e / core.l2_write
    read = winograd.lanes * e / core.l2_rate
    # Images larger than L2 come from L3: the input once, for V; the output there and back.
    shares = winograd.n**2 / winograd.t**2
    image = p.batch * p.ih * p.iw * p.ic * e
    arrive = shares * winograd.lanes * e / core.l3_rate if image > core.l2_bytes // 2 else 0.0
    pre = v_vectors * (TRANSFORM_CYCLES + write + arrive)
    # M is written by the products, which hide half of it, and read by the transform. Each
    # further segment of input channels loads and stores it once more.
    m_moves = 0.5 * write + (ic_segments - 1) * (write + read)
    post = m_vectors * (m_moves + read + TRANSFORM_CYCLES + 2.0 * arrive)
    u_bytes = winograd.positions * winograd.panels.bytes(winograd.oc, winograd.ic, e)
    scratch = (
        winograd.positions * winograd.tile_block * (winograd.ic_segment + winograd.oc_block) * e
    )
    stream = 0.0
    panels = ceil_div(winograd.oc, winograd.panels.width)
    if u_bytes + scratch > core.l2_bytes:
        # The weights pass by once for each block of tiles.
        rows = blocks * winograd.positions * panels * winograd.ic
        stream += rows * _late(winograd, core, u_bytes)
    else:
        stream += blocks * u_bytes / core.l2_rate * (1.0 - HIDDEN)
    driven_out = min(max(scratch / core.l2_bytes - L2_KEPT, 0.0) / (1.0 - L2_KEPT), 1.0)
    stream += driven_out * (v_vectors + m_vectors) * winograd.lanes * e / core.l3_rate
    stream += v_vectors * winograd.lanes * e * panels / oc_segments / core.l2_rate * (1.0 - HIDDEN)
    work = {
        "fma": fma * p.groups,
        "pre": pre * p.groups,
        "post": post * p.groups,
        "stream": stream * p.groups,
        "store": _slabs(winograd, oc_segments) * p.groups,
        "tasks": winograd.tasks * (TASK_CYCLES + winograd.positions * PIECE_CYCLES),
    }
    if winograd.numerics.converts:
        reads = oc_segments / shares
        work["convert"] = conversion_cycles(p, winograd.numerics, winograd.lanes, reads)
    largest = winograd.tile_block / max(winograd.tiles, 1)
    largest *= min(1.0, winograd.oc_segment / winograd.oc) / p.groups
    busiest = busiest_share(winograd.tasks, threads, min(largest, 1.0))
    cost = {name: cycles * busiest for name, cycles in work.items()}
    cost["team"] = core.team_cycles if threads > 1 else 0.0
    return cost
