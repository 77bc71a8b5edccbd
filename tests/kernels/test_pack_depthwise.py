"""Depthwise weights into rows, one for each tap: whole and in parts, tails zero."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.kernel_table import every_row, symbol
from tests.kernels.packing_case import PackingCall

every_kernel = pytest.mark.parametrize("row", every_row("pack_depthwise"), ids=symbol)


def check(checker, row: dict, rng: np.random.Generator, oc: int, taps: int, width: int):
    """Pack a random part of the channels; the others must stay as they are."""
    call = PackingCall(checker, row, rng)
    size, parts = call.dtype.itemsize, -(-oc // 16)
    begin = int(rng.integers(0, parts)) * 16
    end = min(oc, begin + 16 * int(rng.integers(1, parts + 1)))
    last = width if end == oc else end
    src = call.place_input("src", (oc, taps), (taps * size, size))
    call.place_output("dst", (taps, last - begin), (width * size, size))
    call.values["dst"] -= begin * size
    call.values |= {"taps": taps, "oc_begin": begin, "oc_end": end, "width": width}
    expected = np.zeros((taps, width), call.dtype)
    expected[:, :oc] = src.T
    expected = expected[:, begin:last]
    context = (f"{oc=}", call.values)
    call.same_bits(call.run(context), expected, context)


@every_kernel
def test_channels_and_taps(checker, row, rng):
    """Every number of channels, rounded up to a unit or not."""
    for oc in range(1, 50):
        for unit in (1, 8, 16):
            taps = int(rng.choice([1, 2, 3, 9, 15, 16, 17, 25, 49]))
            check(checker, row, rng, oc, taps, -(-oc // unit) * unit)
