"""Sums of columns of pixels in four rows, against NumPy in float64."""

from __future__ import annotations

import numpy as np
import pytest

from pplconv._kernels import PIXELS
from tests.kernels.kernel_table import DTYPES, every_row, symbol
from tests.kernels.rows_call import Call

every_kernel = pytest.mark.parametrize("row", every_row("pixel_columns"), ids=symbol)
KINDS = {"u8": np.uint8, "u16": np.uint16, "s16": np.int16}
LINES = 4


def summed(checker, row, rng, kind, pixels, weights, count):
    """Run the kernel on rows of pixels between guard pages; give its rows of sums."""
    element = DTYPES[row["dtype"]]
    call = Call(checker, row, rng)
    rows = call.put("pixels", pixels, (count + int(rng.integers(5))) * pixels.itemsize)
    addresses = rows.ctypes.data + rows.strides[0] * np.arange(len(rows))
    call.put("rows", addresses.astype(np.int64).reshape(1, -1), 0)
    call.put("weights", weights.astype(element).reshape(1, -1), 0)
    pitch = (count + int(rng.integers(5))) * element.itemsize
    call.put("dst", np.full((LINES, count), np.nan, element), pitch, writable=True)
    return call.run(kind=PIXELS[kind], taps=len(weights), count=count)


@every_kernel
@pytest.mark.parametrize("kind", KINDS)
def test_sums(checker, row, rng, kind):
    """Every tail, all pixels of a type, up to nine taps; integers are exact."""
    lanes, limits = row["lanes"], np.iinfo(KINDS[kind])
    for count in (*range(1, 2 * lanes + 2), 4 * lanes, 9 * lanes - 1):
        taps = int(rng.integers(1, 10))
        pixels = rng.integers(
            limits.min, limits.max, (LINES + taps - 1, count), KINDS[kind], endpoint=True
        )
        weights = rng.integers(-20, 21, taps)
        found = summed(checker, row, rng, kind, pixels, weights, count)
        expected = sum(
            weight * pixels[r : r + LINES].astype(np.float64) for r, weight in enumerate(weights)
        )
        np.testing.assert_array_equal(found, expected)


@every_kernel
def test_rounding(checker, row, rng):
    """Each product and each sum is rounded at most once."""
    count, taps = 5 * row["lanes"] + 3, 5
    pixels = rng.integers(0, 256, (LINES + taps - 1, count), np.uint8)
    element = DTYPES[row["dtype"]]
    weights = rng.standard_normal(taps).astype(element).astype(np.float64)
    found = summed(checker, row, rng, "u8", pixels, weights, count)
    windows = np.stack([pixels[r : r + LINES] for r in range(taps)]).astype(np.float64)
    expected = np.einsum("r,rlc->lc", weights, windows)
    sizes = np.einsum("r,rlc->lc", abs(weights), windows)
    assert (abs(found - expected) <= 2 * taps * np.finfo(element).eps * sizes).all()
