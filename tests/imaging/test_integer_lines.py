"""Filters of integers in blocks of rows: wide rows, of several strips, against exact integers."""

from __future__ import annotations

import numpy as np
import pytest

from pplconv.imaging import filter2d, sepfilter2d
from tests.imaging.image_reference import BORDERS, outer, windows_of

# Sums that lie half way, next to it by what no float32 shows, and anywhere.
TINY = 2.0**-44
TAPS = {
    "drawn": lambda n, rng: rng.random(n) / n * 1.1,
    "signed": lambda n, rng: rng.standard_normal(n) / n,
    "ties": lambda n, rng: np.full(n, 0.5) / max(n - 1, 1) + np.zeros(n),
    "near": lambda n, rng: (
        rng.choice([0.5, 0.25, 0.125, 1.0], n) / 2 + TINY * rng.integers(-2, 3, n)
    ),
    "exact": lambda n, rng: rng.integers(-16, 17, n) / 8.0 + 2.0**-9,
}


def exactly(image, kernel, anchor, border, value, dtype):
    """Filter an image (H, W, C) in integers of any length, half to even, saturated."""
    unit = max(tap.denominator for tap in kernel.ravel())
    windows = windows_of(image.astype(np.int64), kernel.shape, anchor, border, value)
    sums = sum(
        windows[..., r, c].astype(object) * int(kernel[r, c] * unit)
        for r in range(kernel.shape[0])
        for c in range(kernel.shape[1])
    )
    below = sums // unit
    twice = 2 * (sums - below * unit)
    whole = below + ((twice > unit) | ((twice == unit) & (below % 2 == 1)))
    limits = np.iinfo(dtype)
    return np.maximum(np.minimum(whole, int(limits.max)), int(limits.min)).astype(dtype)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int16", "int8"])
@pytest.mark.parametrize("taps", TAPS)
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_wide_rows(dtype, taps, channels, rng):
    """Images of few rows and of many blocks of columns: all borders, anchors and lengths."""
    limits = np.iinfo(dtype)
    for width in (1, 15, 64, 65, 383, 1300 // channels):
        extent = tuple(int(n) for n in rng.integers(1, 6, 2))
        shape = (int(rng.integers(5, 15)), max(width, 5), channels)
        image = rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
        if rng.random() < 0.3:
            image[...] = image[0, 0, 0] | 1
        border, value = str(rng.choice(BORDERS)), int(image[0, -1, 0])
        y, x = (int(rng.integers(n)) for n in extent)
        result = str(rng.choice([dtype, "uint8", "int16"]))
        column, row = (TAPS[taps](n, rng) for n in extent)
        more = {"border": border, "value": value, "anchor": (x, y), "dtype": result}
        kernel = outer(column, row)
        np.testing.assert_array_equal(
            sepfilter2d(image, row, column, **more),
            exactly(image, kernel, (y, x), border, value, result),
        )
        values = TAPS[taps](extent[0] * extent[1], rng).reshape(extent)
        np.testing.assert_array_equal(
            filter2d(image, values, **more),
            exactly(image, outer(values.ravel(), np.ones(1)).reshape(extent), (y, x), border,
                    value, result),
        )  # fmt: skip


def test_teams(rng):
    """Bands of a team have the results of one thread."""
    image = rng.integers(0, 256, (97, 301, 3), np.uint8)
    taps = rng.random(5) / 2.4
    alone = sepfilter2d(image, taps, taps, threads=1)
    np.testing.assert_array_equal(sepfilter2d(image, taps, taps, threads=3), alone)
