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
    parts,
    step_cycles,
)
from .winograd_blocking import WinogradBlocking

# Arithmetic of a transform, without its stores: cycles for each position and vector of channels.
TRANSFORM_CYCLES = 1.5
# A vector of V with unused lanes, where vectors have so many bytes and several subkernels store
# into one cache line: cycles more for each position.
MASKED_BYTES = 64
SHARED_LINE_CYCLES = 4.0
# V and M may take this share of L2 before the streamed images evict them.
L2_KEPT = 0.45
# V and M in shared scratch are written and read once, and the lines that they evict from L2 are
# written back.
SHARED = 2.5
PIECE_CYCLES = 60.0
# Bytes of weights for each instruction of a step, from which on a core asks for enough lines ahead
# to use all of memory's rate: 37.7 MB arrived at 6.7, 7.9 and 11.6 bytes a cycle for tiles of 4x16,
# 4x24 (AVX2) and 4x64 (AVX-512) on a Zen 5.
BYTES_AHEAD = 6.5
OTHERS = 0.5  # of the steps of a block's other tiles, which hide the arrival of weights
LONE = 0.5  # of the time by which a panel arrives later than a single other tile ends
# A team waits for its last thread at the end of each stage.
WAIT_CYCLES = 3000.0


def staged(winograd: WinogradBlocking, core: CoreModel, threads: int) -> dict[str, float]:
    """Estimate the cycles of the busiest thread of a staged plan, whose V and M are beyond L2.

    Terms: ``fma`` products with their calls, ``pre`` and ``post`` transforms with their traffic,
    ``stream`` weights and V on their way to the products, ``store`` the slabs of NCHW, ``tasks``,
    ``team`` with its waits.
    """
    numerics = winograd.numerics
    vector = winograd.lanes * numerics.sum_bytes
    rounds = ceil_div(winograd.tiles, winograd.tile_block)
    fma = _products(winograd, core)
    v_vectors, m_vectors = _vectors(winograd)
    vm_bytes = (v_vectors + m_vectors) * vector
    u_bytes = winograd.packed_weight_bytes // winograd.problem.groups
    far = vector / core.far_rate(vm_bytes // max(rounds, 1))
    # Most lines that a thread reads were written by other threads, and come from their caches.
    taken = core.taken * vector / LINE * (1.0 - 1.0 / threads)
    pre = v_vectors * (TRANSFORM_CYCLES + SHARED * far + taken)
    post = m_vectors * (TRANSFORM_CYCLES + SHARED * far + taken)
    # V arrives with the first panel.
    panels = ceil_div(winograd.oc, winograd.panels.width)
    stream = float(rounds * winograd.positions * panels * _steps(winograd))
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
    if numerics.converts:
        work["convert"] = _conversions(winograd, 1) / winograd.problem.groups
    # The products have most of the work, and the largest tasks.
    count = winograd.positions * ceil_div(winograd.oc, winograd.oc_segment)
    busiest = busiest_share(count, threads, 1 / count) * winograd.problem.groups
    cost = {name: cycles * busiest for name, cycles in work.items()}
    cost["team"] = 0.0
    if threads > 1:
        cost["team"] = core.team_cycles + 3 * winograd.rounds * WAIT_CYCLES
    return cost


def _late(winograd: WinogradBlocking, core: CoreModel, u_bytes: int) -> float:
    """Cycles that a product waits for a row of a panel of weights from L3 or memory.

    The row arrives during a step of the first register tile, whose time it overlaps. The other
    tiles of the block hide a part too, as they fetch the next panel. A single other tile fetches
    all of it, and waits where it is shorter than that takes. A tile without others fetches what
    its instructions reach.
    """
    vectors = winograd.nr // winograd.lanes
    rows = max(min(winograd.tile_block, winograd.tiles), 1)
    steps = [step_cycles(core, m, vectors) for m, n in parts(rows, winograd.mr) for _ in range(n)]
    panels, element = winograd.panels, winograd.numerics.weight_bytes
    size = panels.bytes(1, panels.kr, element)
    reached = 1.0
    if len(steps) == 1 and core.broadcasts == 1:
        # A core looks some instructions ahead: FMAs, loads of V, and those of the row.
        instructions = min(rows, winograd.mr) * (vectors + 1) + vectors
        reached = min(size / instructions / BYTES_AHEAD, 1.0)
    row = size / core.far_rate(u_bytes, reached)
    late = max(row - steps[0] - OTHERS * sum(steps[1:]), 0.0)
    return late + LONE * max(row - steps[1], 0.0) if len(steps) == 2 else late


def _steps(winograd: WinogradBlocking) -> int:
    """Steps of k of the products: groups of channels of V that lie side by side."""
    return ceil_div(winograd.depth, winograd.panels.kr)


def _products(winograd: WinogradBlocking, core: CoreModel) -> float:
    """Cycles of the microkernel in all products of a group."""
    products = 0.0
    whole, rest = divmod(winograd.tiles, winograd.tile_block)
    for size, count in ((winograd.tile_block, whole), (rest, 1)):
        if size:
            products += count * matrix_cycles(
                core, size, winograd.panels.padded(winograd.oc), winograd.mr, winograd.nr,
                winograd.lanes, _steps(winograd), ceil_div(winograd.depth, winograd.ic_segment),
            )  # fmt: skip
    return products * winograd.positions


def _vectors(winograd: WinogradBlocking) -> tuple[int, int]:
    """Vectors of V and of M of a group."""
    tiles, numerics = winograd.tiles * winograd.positions, winograd.numerics
    narrower = numerics.sum_bytes // numerics.operand_bytes
    return (
        tiles * winograd.subkernels * ceil_div(winograd.ic, narrower * winograd.lanes),
        tiles * ceil_div(winograd.oc, winograd.lanes),
    )


def _slabs(winograd: WinogradBlocking, repeats: int) -> float:
    """Cycles to bring a group's pixels into slabs, `repeats` times, and outputs from there."""
    p, numerics = winograd.problem, winograd.numerics
    # Integer sums of NHWC are stored from a slab without a transposition.
    if not winograd.by_planes or (numerics.exact and p.layout == "NHWC"):
        return 0.0
    overlap = (winograd.t / winograd.n) * (
        1.0 + winograd.slab_overlap / (winograd.slab_tiles * winograd.n)
    )
    if numerics.exact:  # bytes
        overlap *= numerics.source_bytes / numerics.sum_bytes
    pixels = p.batch * p.oh * p.ow / winograd.lanes
    # Few channels are turned as if they were half of a vector.
    channels = max(winograd.ic, winograd.lanes // 2)
    # Subkernels side by side share a slab, if the segment has all of them.
    across = ceil_div(p.kw, winograd.r)
    slabs = min(ceil_div(across * winograd.ic, winograd.ic_segment), across)
    reads = overlap * channels * repeats * slabs * winograd.subkernels / across
    return (reads + winograd.oc) * pixels * STORE_TRANSPOSED_CYCLES


def _conversions(winograd: WinogradBlocking, repeats: int) -> float:
    """Cycles to convert pixels, `repeats` times, and outputs; the transform widens bytes itself."""
    numerics, reads = winograd.numerics, repeats * winograd.t**2 / winograd.n**2
    reads *= 0 if numerics.exact else winograd.subkernels
    return conversion_cycles(winograd.problem, numerics, winograd.lanes, reads)


def estimate(winograd: WinogradBlocking, core: CoreModel, threads: int) -> dict[str, float]:
    """Estimate the cycles of the busiest thread.

    Terms: ``fma`` products with their calls, ``pre`` and ``post`` transforms with their traffic,
    ``stream`` weights and V that come from beyond L1, ``store`` the slabs of NCHW, ``tasks``,
    ``team``.
    """
    p, numerics = winograd.problem, winograd.numerics
    vector = winograd.lanes * numerics.sum_bytes
    ic_segments = ceil_div(winograd.depth, winograd.ic_segment)
    oc_segments = ceil_div(winograd.oc, winograd.oc_segment)
    blocks = ceil_div(winograd.tiles, winograd.tile_block)
    fma = _products(winograd, core)
    v_vectors, m_vectors = _vectors(winograd)
    v_vectors *= oc_segments
    write, read = vector / core.l2_write, vector / core.l2_rate
    # Images larger than L2 come from L3: the input for V, and the output's lines, which leave for
    # it while the transform goes on.
    shares = winograd.n**2 / winograd.t**2
    pixel = numerics.source_bytes if numerics.exact else numerics.operand_bytes
    image = p.batch * p.ih * p.iw * p.ic * pixel
    result = p.batch * p.oh * p.ow * p.oc * numerics.destination_bytes
    arrive, leave = (
        shares * vector / core.l3_rate if size > core.l2_bytes // 2 else 0.0
        for size in (image, result)
    )
    pre = v_vectors * (TRANSFORM_CYCLES + write + arrive / winograd.subkernels)
    if winograd.subkernels > 1 and vector == MASKED_BYTES and winograd.ic < winograd.lanes:
        pre += v_vectors * SHARED_LINE_CYCLES
    # M is written by the products, which hide half of it, and read by the transform. Each
    # further segment of input channels loads and stores it once more.
    m_moves = 0.5 * write + (ic_segments - 1) * (write + read)
    post = m_vectors * (m_moves + read + TRANSFORM_CYCLES + leave)
    u_bytes = winograd.packed_weight_bytes // p.groups
    scratch = winograd.ic_segment * numerics.operand_bytes + winograd.oc_block * numerics.sum_bytes
    scratch *= winograd.positions * winograd.tile_block
    stream = 0.0
    panels = ceil_div(winograd.oc, winograd.panels.width)
    if u_bytes + scratch > core.l2_bytes:
        # All weights are read once for each block of tiles.
        rows = blocks * winograd.positions * panels * _steps(winograd)
        stream += rows * _late(winograd, core, u_bytes)
    else:
        stream += blocks * u_bytes / core.l2_rate * (1.0 - HIDDEN)
    # Half of a block's outputs pass through L2 while V and M are there.
    passing = winograd.tile_block * winograd.n**2 * winograd.oc_block * numerics.destination_bytes
    occupied = scratch + (0.5 * passing if leave else 0.0)
    driven_out = min(max(occupied / core.l2_bytes - L2_KEPT, 0.0) / (1.0 - L2_KEPT), 1.0)
    stream += driven_out * (v_vectors + m_vectors) * vector / core.l3_rate
    stream += v_vectors * vector * panels / oc_segments / core.l2_rate * (1.0 - HIDDEN)
    work = {
        "fma": fma * p.groups,
        "pre": pre * p.groups,
        "post": post * p.groups,
        "stream": stream * p.groups,
        "store": _slabs(winograd, oc_segments) * p.groups,
        "tasks": winograd.tasks * (TASK_CYCLES + winograd.positions * PIECE_CYCLES),
    }
    if numerics.converts:
        work["convert"] = _conversions(winograd, oc_segments)
    largest = winograd.tile_block / max(winograd.tiles, 1)
    largest *= min(1.0, winograd.oc_segment / winograd.oc) / p.groups
    busiest = busiest_share(winograd.tasks, threads, min(largest, 1.0))
    cost = {name: cycles * busiest for name, cycles in work.items()}
    cost["team"] = core.team_cycles if threads > 1 else 0.0
    return cost
