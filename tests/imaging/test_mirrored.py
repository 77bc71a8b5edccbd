"""Bytes under mirrored kernels, made where images lie, against exact integers."""

from __future__ import annotations

import numpy as np
import pytest

from pplconv.imaging import filter2d, sepfilter2d
from pplconv.imaging.mirrored import mirrored_digits
from tests.imaging.image_reference import BORDERS, drawn_bytes, outer
from tests.imaging.test_integer_lines import exactly


def gaussian_of(side, sigma):
    taps = np.exp(-((np.arange(side) - side // 2) ** 2) / (2 * sigma**2))
    return taps / taps.sum()


@pytest.mark.parametrize("side", [3, 5])
@pytest.mark.parametrize("border", BORDERS)
def test_every_width(side, border, rng):
    """Widths around those of which parts are copied, in one band and in several."""
    for width in (*range(5, 8), *range(62, 68), *range(127, 133), 190, 260):
        channels = int(rng.choice([1, 3, 4]))
        image = drawn_bytes(rng, (int(rng.integers(5, 30)), width, channels))
        row = gaussian_of(side, rng.uniform(0.8, 3))
        column = row if side == 5 else gaussian_of(side, rng.uniform(0.8, 3))
        y, x = rng.integers(0, side, 2).tolist()
        more = {"border": border, "value": 9, "anchor": (x, y), "threads": int(rng.integers(1, 4))}
        found = np.full(image.shape, 0x55, np.uint8)
        sepfilter2d(image, row, column, out=found, **more)
        expected = exactly(image, outer(column, row), (y, x), border, 9, np.uint8)
        np.testing.assert_array_equal(found, expected)


def test_drawn_kernels(rng):
    """Kernels that are no product; many rows, of which blocks are listed."""
    for _ in range(4):
        quarter = rng.random((2, 2)) / 8
        at = [1, 0, 1]
        kernel = quarter[np.ix_(at, at)]
        assert mirrored_digits(kernel.ravel(), (3, 3), separable=False) is not None
        image = drawn_bytes(rng, (150, 230, 1))
        found = filter2d(image, kernel)
        exact = outer(kernel.ravel(), np.ones(1)).reshape(3, 3)
        expected = exactly(image, exact, (1, 1), "reflect101", 0, np.uint8)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("side", [3, 5])
def test_half_way(side, rng):
    """Sums that are half way, or next to it by what no float32 shows: few of them, and all."""
    for more in (0.0, 2.0**-44, -(2.0**-44)):
        column = np.full(side, 0.0)
        column[side // 2] = column[side // 2 - 1] = column[side // 2 + 1] = 0.25
        row = column * 8 / 9 + more
        row[side // 2] += 2.0**-40
        column = row.copy()
        for image in (
            np.full((40, 150, 1), 9, np.uint8),
            np.where(rng.random((80, 200, 1)) < 0.01, 9, 0).astype(np.uint8),
            rng.choice(np.array([0, 9, 18, 27], np.uint8), (20, 131, 3)),
        ):
            for scale in (1.0, 0.5, 1.125):
                found = sepfilter2d(image, row * scale, column)
                exact = outer(column, row * scale)
                middle = side // 2, side // 2
                expected = exactly(image, exact, middle, "reflect101", 0, np.uint8)
                np.testing.assert_array_equal(found, expected)


def test_which_kernels(rng):
    """Others are left to other loops: not mirrored, with negative taps, large or saturating."""
    row, wide = gaussian_of(3, 1.0), gaussian_of(5, 1.0)

    def taken(down, across):
        taps = np.concatenate([down, across])
        return mirrored_digits(taps, (len(down), len(across)), separable=True) is not None

    assert taken(row, row) and taken(wide, wide) and taken(row, gaussian_of(3, 2.0))
    assert not taken(wide, gaussian_of(5, 2.0)) and not taken(row, wide)
    assert not taken(row, row + np.array([1e-9, 0, 0]))
    assert not taken(row, row - np.array([0.4, 0, 0.4]))
    assert not taken(row, row * 1.01) and not taken(gaussian_of(3, 0.3), row[[1, 1, 1]] * 0.1 + 0.5)
