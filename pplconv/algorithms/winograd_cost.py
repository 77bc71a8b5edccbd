"""The cost model of Winograd's algorithm: cycles, term by term."""

from __future__ import annotations

from .candidate import ceil_div
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
from .winograd_blocking import WinogradBlocking

# Arithmetic of a transform, without its stores: cycles for each position and vector of channels.
TRANSFORM_CYCLES = 2.5
U_BYTES = 12.0  # transformed weights: bytes a cycle from L3, where they are read ahead
HIDDEN_STEP = 0.6  # of the time of a microkernel's step
PIECE_CYCLES = 60.0


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
    products = 0.0
    whole, rest = divmod(winograd.tiles, winograd.tile_block)
    for size, count in ((winograd.tile_block, whole), (rest, 1)):
        if size:
            products += count * matrix_cycles(
                core, size, winograd.panels.padded(winograd.oc), winograd.mr, winograd.nr,
                winograd.lanes, winograd.ic, ic_segments,
            )  # fmt: skip
    fma = products * winograd.positions
    v_vectors = (
        winograd.tiles * ceil_div(winograd.ic, winograd.lanes) * winograd.positions * oc_segments
    )
    m_vectors = winograd.tiles * ceil_div(winograd.oc, winograd.lanes) * winograd.positions
    write = winograd.lanes * e / L2_WRITE_BYTES
    read = winograd.lanes * e / core.l2_rate
    # Images larger than L2 come from L3: the input once, for V; the output there and back.
    shares = winograd.n**2 / winograd.t**2
    image = p.batch * p.ih * p.iw * p.ic * e
    arrive = shares * winograd.lanes * e / L3_BYTES if image > core.l2_bytes // 2 else 0.0
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
        # The weights pass by once for each block of tiles, a row of a panel for each step of
        # the first register tile, which hides what it has time for.
        step = step_cycles(
            core, min(winograd.mr, winograd.tile_block), winograd.nr // winograd.lanes
        )
        row = winograd.nr * e / U_BYTES
        stream += (
            blocks * winograd.positions * panels * winograd.ic * max(row - HIDDEN_STEP * step, 0)
        )
    else:
        stream += blocks * u_bytes / core.l2_rate * (1.0 - HIDDEN)
    if scratch > core.l2_bytes:
        stream += (v_vectors + m_vectors) * winograd.lanes * e / L3_BYTES
    stream += v_vectors * winograd.lanes * e * panels / oc_segments / core.l2_rate * (1.0 - HIDDEN)
    store = 0.0
    if winograd.by_planes:
        overlap = (winograd.t / winograd.n) * (
            1.0 + (winograd.r - 1) / (winograd.slab_tiles * winograd.n)
        )
        pixels = p.batch * p.oh * p.ow / winograd.lanes
        slabs = overlap * winograd.ic * oc_segments + winograd.oc
        store = slabs * pixels * STORE_TRANSPOSED_CYCLES
    work = {
        "fma": fma * p.groups,
        "pre": pre * p.groups,
        "post": post * p.groups,
        "stream": stream * p.groups,
        "store": store * p.groups,
        "tasks": winograd.tasks * (TASK_CYCLES + winograd.positions * PIECE_CYCLES),
    }
    if winograd.numerics.converts:
        work["convert"] = conversion_cycles(p, winograd.lanes, oc_segments / shares)
    largest = winograd.tile_block / max(winograd.tiles, 1)
    largest *= min(1.0, winograd.oc_segment / winograd.oc) / p.groups
    busiest = busiest_share(winograd.tasks, threads, min(largest, 1.0))
    cost = {name: cycles * busiest for name, cycles in work.items()}
    cost["team"] = core.team_cycles if threads > 1 else 0.0
    return cost
