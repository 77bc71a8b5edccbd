"""The cost model of direct convolution: cycles, term by term."""

from __future__ import annotations

from functools import lru_cache

from .candidate import LINE, ceil_div
from .core_model import (
    CALL_CYCLES,
    STAYS,
    STORE_CYCLES,
    STORE_TRANSPOSED_CYCLES,
    TASK_CYCLES,
    TILE_GROUPS,
    CoreModel,
    busiest_share,
    conflict_cycles,
    conversion_cycles,
    runs_cycles,
    segment_cycles,
    step_cycles,
    streams_cycles,
)
from .direct_blocking import RANGES, DirectBlocking

SEGMENT_CYCLES = 8.0
HIDDEN = 0.7  # of the time in which operands arrive, behind FMAs
TILES_HIDE = 0.6  # the same of tile registers, as in the nest
PADDED_CYCLES = 2.0  # a pixel whose channels are filled up to whole groups
APART_CYCLES = 0.01  # a byte of outputs, if a pixel's channels are stored panel by panel


# Candidates that differ in their segments or in the order of their loops have the same tiles.
@lru_cache(maxsize=256)
def _tiles(
    core: CoreModel, rows: RANGES, columns: RANGES, tile: tuple[int, int, int],
    outputs: tuple[int, int], inputs: tuple[int, int, int], taps_touch: bool,
    apart: tuple[int, int] | None,
) -> tuple[float, float, float, float]:  # fmt: skip
    """Cycles of the FMAs of a group in one image, calls, stored vectors, segments of sums.

    Parameters
    ----------
    core : CoreModel
        The core.
    rows, columns : RANGES
        Outputs that see the same taps.
    tile : tuple of int
        Rows and columns of a tile, and elements of a vector.
    outputs : tuple of int
        Output channels, and those of a panel.
    inputs : tuple of int
        Input channels, those in one segment of a sum, and those multiplied together.
    taps_touch : bool
        Whether one segment has the taps of a row of the kernel.
    apart : tuple of int, or None
        Bytes from one pixel of a tile to the next, along a row and along a column; None: in a slab.
    """
    mr, nr, lanes = tile
    oc, width_of_panel = outputs
    ic, channels, kr = inputs
    fma = calls = stores = segments = 0.0
    panels = ceil_div(oc, width_of_panel)
    tail = oc - (panels - 1) * width_of_panel
    blocks = ceil_div(ic, channels)
    for row, row_end, low, high in rows:
        for column, column_end, left, right in columns:
            height, width = row_end - row, column_end - column
            lines, length = height, width
            along = height * ceil_div(width, mr)
            if apart is not None and width * ceil_div(height, mr) < along:
                lines, length = width, height
            pieces = ceil_div(length, mr)
            size = ceil_div(length, pieces)
            groups = ceil_div(channels, kr)
            k = (high - low) * (right - left) * blocks * groups
            listed = (high - low) * blocks * (1 if taps_touch else right - left)
            each = k // max(listed, 1)
            tiles = lines * pieces
            step = step_cycles(core, size, nr // lanes)
            sums = (panels - 1) * segment_cycles(core, each, step)
            step = step_cycles(core, size, ceil_div(tail, lanes))
            sums += segment_cycles(core, each, step)
            fma += tiles * listed * sums
            fma += tiles * k * panels * streams_cycles(core, size)
            if apart is not None:
                between = apart[0] if lines == height else apart[1]
                fma += tiles * k * panels * size * conflict_cycles(core, size, between)
            calls += tiles * panels
            segments += tiles * panels * listed
            stores += lines * length * ceil_div(oc, lanes)
    return fma, calls, stores, segments


def _rows_from_l2(direct: DirectBlocking, core: CoreModel) -> int:
    """Bytes of pixels that a call of tile registers' kernel reads from L2; 0 if they stay in L1.

    Where they are long, they do not stay while panels of weights pass by. Without this, ResNet-50's
    1x1 layer of 2048 channels in bytes was direct, and took 1.63 times its estimate on silicon;
    its other 1x1 layers, which were not direct, took 1.2 times theirs in the median.
    """
    p, size = direct.problem, direct.ic * direct.numerics.operand_bytes
    _, _, _, _, kh, kw, _, stride, _, dilation, *_ = direct.geometry
    pixels = kh * min((direct.mr - 1) * stride + (kw - 1) * dilation + 1, p.iw * max(p.ih, 1))
    long = core.broadcasts == TILE_GROUPS and pixels * size > STAYS * core.l1_bytes
    return pixels * size if long else 0


def estimate(direct: DirectBlocking, core: CoreModel, threads: int) -> dict[str, float]:
    """Estimate the cycles of the busiest thread.

    Terms: ``fma`` steps of the microkernel, ``tile`` calls, segments and stores, ``pack`` the slab,
    ``convert`` arrays of another type, ``stream`` weights and pixels from beyond L1, ``store`` the
    transposed runs, ``team``.
    """
    p, e = direct.problem, direct.numerics.operand_bytes
    weight = direct.numerics.weight_bytes
    panels = ceil_div(direct.oc, direct.panels.width)
    pixel = (p.block or p.ic) * e  # bytes to the next one, if there is no slab
    apart = None if direct.slab else (p.stride[1] * pixel, p.stride[0] * p.iw * pixel)
    if direct.turned:
        pixel = direct.slab_pixel
        apart = (p.stride[1] * pixel, direct.geometry[6] * direct.geometry[1] * pixel)
    fma, calls, stores, segments = _tiles(
        core, direct.rows, direct.columns, (direct.mr, direct.nr, direct.lanes),
        (direct.oc, direct.panels.width), (direct.ic, direct.channels, direct.numerics.kr),
        direct.taps_touch, apart,
    )  # fmt: skip
    share = p.groups * direct.images
    tile = calls * CALL_CYCLES + segments * SEGMENT_CYCLES + stores * STORE_CYCLES
    if not (direct.slab or direct.turned):
        # The pixels of a tile are one run if a panel has all of their channels.
        outputs = p.oh * p.ow * p.oc * direct.numerics.destination_bytes
        runs = calls if panels == 1 and p.groups == 1 else p.oh * p.ow * panels
        of_lines = direct.lanes * direct.numerics.sum_bytes == LINE
        tile += runs_cycles(core, outputs, runs, of_lines=of_lines)
    panel = direct.panels.bytes(1, direct.k_packed, weight)
    weights = panels * panel
    row_tasks = ceil_div(max(direct.geometry[2], 1), direct.row_segment)
    pixels = direct.slab_rows * direct.geometry[1] * direct.ic * e
    stream = 0.0
    rows = calls * _rows_from_l2(direct, core)
    if direct.pixels_inner:
        # A task reads each panel of weights once, and its pixels once for each panel.
        if rows:
            again = calls * panel if panel > core.l1_bytes else 0.0
            stream += max((rows + again) / core.l2_rate - TILES_HIDE * fma, 0.0)
        else:
            stream += row_tasks * panels * pixels / core.l2_rate * (1.0 - HIDDEN)
            if panel > core.l1_bytes:
                stream += calls * panel / core.l2_rate * (1.0 - HIDDEN)
        if weights + pixels > core.l2_bytes:
            far = row_tasks * weights / core.l3_rate
            stream += max(far - HIDDEN * fma, far * (1.0 - HIDDEN))
        if pixels > core.l2_bytes:
            stream += row_tasks * panels * pixels / core.l3_rate
        if panels > 1 and (direct.turned or not direct.slab):
            stream += p.oh * p.ow * direct.oc * direct.numerics.sum_bytes * APART_CYCLES
    else:
        if rows:
            stream += max((rows + calls * panel) / core.l2_rate - TILES_HIDE * fma, 0.0)
        elif weights > core.l1_bytes // 2:
            stream += calls * panel / core.l2_rate * (1.0 - HIDDEN)
        if weights > core.l2_bytes:
            stream += calls / panels * weights / core.l3_rate
    pack = store = 0.0
    if direct.turned:
        oc_tasks = ceil_div(direct.oc, direct.oc_segment)
        bytes_in = row_tasks * direct.slab_rows * direct.geometry[1] * direct.ic * e * oc_tasks
        bytes_out = p.oh * p.ow * direct.oc * direct.numerics.destination_bytes
        vector = direct.lanes * direct.numerics.sum_bytes
        pack = bytes_in / vector * STORE_TRANSPOSED_CYCLES
        store = bytes_out / vector * STORE_TRANSPOSED_CYCLES
    elif direct.slab:
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
    filled = direct.channels % direct.numerics.kr and not direct.slab
    if core.broadcasts == TILE_GROUPS and filled:
        pack = row_tasks * direct.slab_rows * direct.geometry[1] * PADDED_CYCLES
    work = {
        "fma": fma * share,
        "tile": tile * share + direct.tasks * TASK_CYCLES,
        "pack": pack * share,
        "stream": stream * share,
        "store": store * share,
    }
    if direct.numerics.converts:
        reads = row_tasks * direct.slab_rows / max(direct.geometry[0], 1)
        reads *= ceil_div(direct.oc, direct.oc_segment)
        rounded = core.rounds and not direct.slab
        work["convert"] = conversion_cycles(
            p, direct.numerics, direct.lanes, reads, rounded=rounded
        )
    largest = direct.row_segment / max(direct.geometry[2], 1)
    largest *= min(1.0, direct.oc_segment / direct.oc) / max(share, 1)
    busiest = busiest_share(direct.tasks, threads, min(largest, 1.0))
    cost = {name: cycles * busiest for name, cycles in work.items()}
    cost["team"] = core.team_cycles if threads > 1 else 0.0
    return cost
