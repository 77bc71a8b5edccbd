"""Sums in double of what an error left open: windows, limits, and the list that is kept."""

from __future__ import annotations

import numpy as np
import pytest

from kernel_table import every_row, symbol
from rows_call import Call

every_kernel = pytest.mark.parametrize("row", every_row("settle_sums"), ids=symbol)
UNTOUCHED = -7
WORD = 0x55


def judge(checker, row, rng, *, extent, step, integer, error, taps, scale):
    """Settle some results of a row, and compare everything with NumPy."""
    (rows, columns), width, limits = extent, 3 * step + 20, np.iinfo(integer)
    pixels = np.rint(scale * rng.standard_normal((rows, width + (columns - 1) * step)))
    listed = np.flatnonzero(rng.random(width) < 0.4)
    windows = np.stack([pixels[:, i : i + (columns - 1) * step + 1 : step] for i in listed])
    sums = (windows * taps).sum((1, 2))
    low, high = (np.rint(np.clip(x, limits.min, limits.max)) for x in (sums - error, sums + error))
    # Sums of whole numbers and halves are exact in any order.
    expected = np.full(width, WORD, integer)
    expected[listed[low == high]] = low[low == high]
    call = Call(checker, row, rng)
    stride = pixels.shape[1] * 4 + 4 * int(rng.integers(0, 5))
    call.put("src", pixels.astype(np.float32), stride)
    call.put("taps", taps.reshape(1, -1), 0)
    call.put("parameters", np.array([[error, limits.min, limits.max]], np.float64), 0)
    kept = call.put("open", listed.reshape(1, -1), 0, writable=True)
    count = call.put("open_count", np.full((1, 1), len(listed)), 0, writable=True)
    call.put("dst", np.full((1, width), WORD, integer), 0, writable=True)
    got = call.run(step=step, rows=rows, columns=columns, size=integer(0).itemsize)[0]
    np.testing.assert_array_equal(got, expected)
    assert count[0, 0] == (low != high).sum()
    np.testing.assert_array_equal(kept[0, : count[0, 0]], listed[low != high])


@every_kernel
@pytest.mark.parametrize("integer", [np.uint8, np.int8, np.uint16, np.int16])
def test_windows_of_every_extent(checker, row, integer, rng):
    """Pixels side by side, and others between them."""
    for columns in range(1, 20):
        for step in (1, 3):
            extent = int(rng.integers(1, 5)), columns
            taps = rng.integers(-8, 9, extent) / 2
            error = float(rng.choice([0.0, 1e-9, 0.25]))
            judge(
                checker, row, rng, extent=extent, step=step, integer=integer, error=error,
                taps=taps, scale=np.iinfo(integer).max / 16,
            )  # fmt: skip


@every_kernel
def test_an_infinite_error_settles_nothing(checker, row, rng):
    taps = np.ones((2, 2))
    judge(
        checker, row, rng, extent=(2, 2), step=1, integer=np.int16, error=np.inf, taps=taps, scale=9
    )


@every_kernel
def test_no_list(checker, row):
    values = dict.fromkeys(("src", "taps", "dst", "open"), 8)
    parameters = checker.arena("parameters").buffer(24, "start", 0)
    count = checker.arena("open_count", writable=True).buffer(8, "start", 0)
    count.array((1,), np.int64, (8,))[0] = 0
    values |= {"parameters": parameters.address, "open_count": count.address}
    values |= {"src_rs": 8, "step": 1, "rows": 3, "columns": 3, "size": 2}
    checker.call(row, values, "no list")
    assert count.array((1,), np.int64, (8,))[0] == 0
