"""Cost of depthwise kernels of many taps whose vectors run over channels.

Such kernels add up blocks of columns and rows. If the distance of pixels is a large power of two,
they share few sets of the caches; then channels are gathered in the scratch (`near_share`).
"""

from __future__ import annotations

import math

from ..problem import ConvProblem
from .candidate import LINE, ceil_div
from .core_model import CoreModel
from .direct_blocking import inside_axis

MANY_TAPS = 26  # at least
# Cycles of a tap, in those of its FMA, and of a vector of outputs besides.
TAP_CYCLES = 1.0
VECTOR_CYCLES = 60.0
BLOCK_COLUMNS = 8
# Pixels whose channels are copied: a vector, of whole cache lines or of parts.
COPIED_CYCLES = 5.0
COPIED_PART_CYCLES = 14.0
# An input that a cache has lost, as pixels share few sets, and that the next one has or not.
L2_CYCLES = 2.0
L3_CYCLES = 6.0
PAGE = 4096


def taps_cycles(taps: float) -> float:
    """Cycles of a vector of outputs, in those of an FMA."""
    return taps * TAP_CYCLES + VECTOR_CYCLES


def near_share(p: ConvProblem, element: int) -> float:
    """Share of a cache that pixels get: sets that their distance leads to; 1 for few taps.

    Addresses within a page select the sets.
    """
    return 1.0 if p.k < MANY_TAPS else min(LINE / math.gcd(PAGE, p.ic * element), 1.0)


def seen(p: ConvProblem) -> tuple[int, int]:
    """Input rows and columns that a block of outputs sees."""
    columns = (BLOCK_COLUMNS - 1) * p.stride[1] + (p.kw - 1) * p.dilation[1] + 1
    return min(p.kh, p.ih), min(columns, p.iw)


def crowded_cycles(p: ConvProblem, share: float, lanes: int, core: CoreModel) -> float:
    """Cycles of the inputs of an image that leave caches early, if pixels get a share of these."""

    def missed(cache: int, pixels: int) -> float:
        size = max(pixels * LINE, 1)
        return max(1.0 - share * cache / size, 0.0) - max(1.0 - cache / size, 0.0)

    rows, columns = seen(p)
    each = L2_CYCLES * missed(core.l1_bytes, rows * columns)
    each += L3_CYCLES * missed(core.l2_bytes, rows * p.iw)
    blocks = ceil_div(p.oc, lanes) * p.oh * ceil_div(p.ow, BLOCK_COLUMNS)
    return blocks * inside_axis(p, 0) * p.kh * columns * each


def copy_cycles(
    p: ConvProblem, chunk: tuple[int, int], slab_rows: int, lanes: int, element: int
) -> float:
    """Cycles to gather the pixels of all images.

    Parameters
    ----------
    p : ConvProblem
        The problem.
    chunk : tuple of int
        Channels and output rows that are gathered together.
    slab_rows : int
        Input rows of a chunk.
    lanes, element : int
        Elements of a vector, bytes of an element.
    """
    channels, rows = chunk
    vector = COPIED_CYCLES if channels * element >= LINE else COPIED_PART_CYCLES
    return p.batch * ceil_div(p.oc, lanes) * ceil_div(p.oh, rows) * slab_rows * p.iw * vector
