"""Weights into panels: both orders of k, whole or in parts, tails zero."""

from __future__ import annotations

import numpy as np
import pytest

from kernel_table import rows, symbol
from packing_case import PackingCall

every_kernel = pytest.mark.parametrize("row", rows("pack_weights"), ids=symbol)


@every_kernel
@pytest.mark.parametrize("taps_first", [0, 1])
@pytest.mark.parametrize("panel_width", [1, 2, 5, 6, 8, 14, 16, 48])
def test_panels(checker, row, taps_first, panel_width, rng):
    for oc in (1, panel_width, panel_width + 1, 3 * panel_width - 1, int(rng.integers(1, 70))):
        for _ in range(4):
            ic, taps = (int(x) for x in rng.integers(1, 10, 2))
            check(checker, row, rng, oc, ic, taps, panel_width, taps_first)


def check(checker, row, rng, oc, ic, taps, panel_width, taps_first):
    """Pack a random part of the panels; the others must stay as they are."""
    call = PackingCall(checker, row, rng)
    size, k, panels = call.dtype.itemsize, ic * taps, -(-oc // panel_width)
    begin = int(rng.integers(0, panels))
    end = int(rng.integers(begin, panels)) + 1
    src = call.place_input("src", (oc, ic, taps), (k * size, taps * size, size))
    strides = (k * panel_width * size, panel_width * size, size)
    call.place_output("dst", (end - begin, k, panel_width), strides)
    # The kernel counts panels from the first, wherever it begins.
    call.values["dst"] -= begin * strides[0]
    call.values |= {
        "oc_begin": begin * panel_width,
        "oc_end": min(end * panel_width, oc),
        "ic": ic,
        "taps": taps,
        "panel_width": panel_width,
        "taps_first": taps_first,
    }
    ordered = src.transpose(0, 2, 1) if taps_first else src
    expected = np.zeros((panels * panel_width, k), call.dtype)
    expected[:oc] = ordered.reshape(oc, k)
    expected = expected.reshape(panels, panel_width, k).transpose(0, 2, 1)[begin:end]
    context = (f"{oc=}", call.values)
    call.same_bits(call.run(context), expected, context)
