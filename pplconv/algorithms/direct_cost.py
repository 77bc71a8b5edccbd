"""The cost model of direct convolution: cycles, term by term."""

from __future__ import annotations

from .candidate import ceil_div
from .core_model import (
    CALL_CYCLES,
    STORE_CYCLES,
    STORE_TRANSPOSED_CYCLES,
    TASK_CYCLES,
    CoreModel,
    busiest_share,
    conflict_cycles,
    conversion_cycles,
    segment_cycles,
    step_cycles,
    streams_cycles,
)
from .direct_blocking import DirectBlocking

SEGMENT_CYCLES = 8.0
HIDDEN = 0.7  # of the time in which operands arrive, behind FMAs
APART_CYCLES = 0.01  # a byte of outputs, if a pixel's channels are stored panel by panel


def estimate(direct: DirectBlocking, core: CoreModel, threads: int) -> dict[str, float]:
    """Estimate the cycles of the busiest thread.

    Terms: ``fma`` steps of the microkernel, ``tile`` calls, segments and stores, ``pack`` the slab,
    ``convert`` arrays of another type, ``stream`` weights and pixels from beyond L1, ``store`` the
    transposed runs, ``team``.
    """
    p, e = direct.problem, direct.numerics.operand_bytes
    weight = direct.numerics.weight_bytes
    fma = calls = stores = segments = 0.0
    panels = ceil_div(direct.oc, direct.panels.width)
    tail = direct.oc - (panels - 1) * direct.panels.width
    blocks = ceil_div(direct.ic, direct.channels)
    vectors = direct.nr // direct.lanes
    pixel = (p.block or p.ic) * e  # bytes to the next one, if there is no slab
    for row, row_end, low, high in direct.rows:
        for column, column_end, left, right in direct.columns:
            height, width = row_end - row, column_end - column
            lines, length = height, width
            along = height * ceil_div(width, direct.mr)
            if not direct.slab and width * ceil_div(height, direct.mr) < along:
                lines, length = width, height
            pieces = ceil_div(length, direct.mr)
            size = ceil_div(length, pieces)
            groups = ceil_div(direct.channels, direct.numerics.kr)
            k = (high - low) * (right - left) * blocks * groups
            listed = (high - low) * blocks * (1 if direct.taps_touch else right - left)
            each = k // max(listed, 1)
            tiles = lines * pieces
            step = step_cycles(core, size, vectors)
            sums = (panels - 1) * segment_cycles(core, each, step)
            step = step_cycles(core, size, ceil_div(tail, direct.lanes))
            sums += segment_cycles(core, each, step)
            fma += tiles * listed * sums
            fma += tiles * k * panels * streams_cycles(core, size)
            if not direct.slab:
                apart = p.stride[1] * pixel if lines == height else p.stride[0] * p.iw * pixel
                fma += tiles * k * panels * size * conflict_cycles(core, size, apart)
            calls += tiles * panels
            segments += tiles * panels * listed
            stores += lines * length * ceil_div(direct.oc, direct.lanes)
    share = p.groups * direct.images
    tile = calls * CALL_CYCLES + segments * SEGMENT_CYCLES + stores * STORE_CYCLES
    panel = direct.panels.bytes(1, direct.k_packed, weight)
    weights = panels * panel
    row_tasks = ceil_div(max(direct.geometry[2], 1), direct.row_segment)
    pixels = direct.slab_rows * direct.geometry[1] * direct.ic * e
    stream = 0.0
    if direct.pixels_inner or direct.slab:
        # A task reads each panel of weights once, and its pixels once for each panel.
        stream += row_tasks * panels * pixels / core.l2_rate * (1.0 - HIDDEN)
        if panel > core.l1_bytes:
            stream += calls * panel / core.l2_rate * (1.0 - HIDDEN)
        if weights + pixels > core.l2_bytes:
            far = row_tasks * weights / core.l3_rate
            stream += max(far - HIDDEN * fma, far * (1.0 - HIDDEN))
        if pixels > core.l2_bytes:
            stream += row_tasks * panels * pixels / core.l3_rate
        if panels > 1 and not direct.slab:
            stream += p.oh * p.ow * direct.oc * direct.numerics.sum_bytes * APART_CYCLES
    else:
        if weights > core.l1_bytes // 2:
            stream += calls * panel / core.l2_rate * (1.0 - HIDDEN)
        if weights > core.l2_bytes:
            stream += calls / panels * weights / core.l3_rate
    pack = store = 0.0
    if direct.slab:
        oc_tasks = ceil_div(direct.oc, direct.oc_segment)
        vectors_in = row_tasks * direct.slab_rows * p.iw * max(direct.ic / direct.lanes, 0.25)
        pack = vectors_in * STORE_TRANSPOSED_CYCLES * oc_tasks
        store = p.oh * p.ow / direct.lanes * direct.oc * STORE_TRANSPOSED_CYCLES
        # No FMAs run meanwhile to hide transfers from beyond L2.
        image, result = p.ih * p.iw * p.ic * e, p.oh * p.ow * p.oc * direct.numerics.sum_bytes
        if image > core.l2_bytes:
            slabs = row_tasks * direct.slab_rows * p.iw * direct.ic * e * oc_tasks
            pack = max(pack, slabs / core.l3_rate)
        if image + result > core.l2_bytes:
            store = max(store, result / p.groups / core.l3_rate)
    work = {
        "fma": fma * share,
        "tile": tile * share + direct.tasks * TASK_CYCLES,
        "pack": pack * share,
        "stream": stream * share,
        "store": store * share,
    }
    if direct.numerics.converts:
        reads = row_tasks * direct.slab_rows / max(direct.geometry[0], 1)
        work["convert"] = conversion_cycles(
            p, direct.numerics, direct.lanes, reads * ceil_div(direct.oc, direct.oc_segment)
        )
    largest = direct.row_segment / max(direct.geometry[2], 1)
    largest *= min(1.0, direct.oc_segment / direct.oc) / max(share, 1)
    busiest = busiest_share(direct.tasks, threads, min(largest, 1.0))
    cost = {name: cycles * busiest for name, cycles in work.items()}
    cost["team"] = core.team_cycles if threads > 1 else 0.0
    return cost
