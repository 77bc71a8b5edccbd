"""Separable filters of 16-bit images by sums of pairs along rows, then down columns."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from pplconv.imaging import bands, sepfilter2d
from pplconv.imaging.banded import paired_isa
from pplconv.imaging.fixed_factors import pair_factors
from tests.imaging.image_reference import BORDERS, outer
from tests.imaging.test_integer_lines import exactly
from tests.imaging.test_pairs import drawn, drawn_kernel
from tests.levels import allowed_isas

TYPES = (np.uint16, np.int16)


@pytest.fixture
def factored(monkeypatch):
    """Weights of columns and rows that loops were given; all filters take them that can."""
    made = []

    def noted(*arguments):
        made.append(pair_factors(*arguments))
        return made[-1]

    monkeypatch.setattr(bands, "pair_factors", noted)
    monkeypatch.setattr(bands, "_factored_products", lambda *_: 0)
    return made


def taken(made):
    """Whether some filters were made of a column and a row, where there are kernels."""
    return any(numbers is not None for numbers in made) == (paired_isa() is not None)


def drawn_factor(rng, taps):
    """Draw a column or a row, mirrored or not."""
    factor = drawn_kernel(rng, taps)
    if rng.random() < 0.6:
        factor = factor + factor[::-1]
        # A row whose taps cancel out has no direction.
        factor = factor / max(np.abs(factor).sum(), 0.5)
    return factor


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("border", BORDERS)
def test_every_width(dtype, border, rng, factored):
    """Widths around vectors and blocks, in one band and in several; images that lie apart."""
    for width in (*range(1, 6), *range(30, 36), *range(62, 68), 127, 128, 129, 200, 257, 261):
        extent = tuple(rng.integers(1, 10, 2).tolist())
        channels = int(rng.choice([1, 1, 2, 3, 4]))
        shape = int(rng.integers(9, 25)), max(width, 9), channels
        image = drawn(rng, (shape[0], shape[1] + 3, channels), dtype)[:, : shape[1]]
        if rng.random() < 0.3:
            image = image[::-1]
        column, row = (drawn_factor(rng, n) for n in extent)
        y, x = (int(rng.integers(n)) for n in extent)
        value = int(image[0, 0, 0])
        more = {"border": border, "value": value, "anchor": (x, y)}
        found = np.full(shape, 0x55, dtype)
        sepfilter2d(image, row, column, out=found, threads=int(rng.integers(1, 4)), **more)
        expected = exactly(image, outer(column, row), (y, x), border, value, dtype)
        np.testing.assert_array_equal(found, expected)
    assert taken(factored)


@pytest.mark.parametrize("level", [None, *allowed_isas()])
def test_levels(level, rng, monkeypatch, factored):
    """Columns and rows of 3 to 24 taps, at every level."""
    if level is not None:
        monkeypatch.setenv("PPLCONV_MAX_ISA", level)
    for _ in range(30):
        dtype = TYPES[int(rng.integers(len(TYPES)))]
        extent = tuple(rng.integers(3, 25, 2).tolist())
        channels = int(rng.choice([1, 1, 3, 4]))
        image = drawn(rng, (int(rng.integers(25, 40)), int(rng.integers(25, 150)), channels), dtype)
        column, row = (drawn_factor(rng, n) for n in extent)
        found = sepfilter2d(image, row, column)
        middle = tuple(n // 2 for n in extent)
        expected = exactly(image, outer(column, row), middle, "reflect101", 0, dtype)
        np.testing.assert_array_equal(found, expected)
    assert taken(factored)


@pytest.mark.parametrize("size", [3, 5, 7, 9, 15, 21, 31])
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_gaussians(size, channels, rng):
    """Gaussians as the planner takes them: equal pixels, extreme ones and any, exactly."""
    sigma = 0.3 * ((size - 1) * 0.5 - 1) + 0.8
    column = np.exp(-((np.arange(size) - size // 2) ** 2) / (2 * sigma**2))
    column /= column.sum()
    for dtype in TYPES:
        limits = np.iinfo(dtype)
        shape = (40, 150, channels)
        checkered = np.indices(shape).sum(0) % 2
        for image in (
            drawn(rng, shape, dtype),
            np.full(shape, limits.max, dtype),
            np.full(shape, limits.min, dtype),
            np.where(checkered, limits.max, limits.min).astype(dtype),
            np.where(rng.random(shape) < 0.01, limits.max, limits.min).astype(dtype),
        ):
            found = sepfilter2d(image, column, column)
            middle = (size // 2, size // 2)
            expected = exactly(image, outer(column, column), middle, "reflect101", 0, dtype)
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("channels", [1, 3])
def test_half_way(dtype, channels, rng, factored):
    """Sums half way, or next to it by what no integers of 64 bits tell: all of them, and few."""
    for more in (0.0, 2.0**-52, -(2.0**-52)):
        # Taps of few bits, so that pixels of one value, times their sum, are half way.
        column = np.array([2.0**-9, 0.5 - 2.0**-8, 2.0**-9])
        row = np.array([2.0**-9, 1 - 2.0**-8, 2.0**-9])
        column[1] += more
        for image in (
            np.full((30, 150, channels), 9, dtype),
            np.full((31, 139, channels), 32767, dtype),
            np.where(rng.random((40, 200, channels)) < 0.01, 9, 0).astype(dtype),
            np.repeat(rng.integers(0, 9, (30, 8, channels)), 20, 1).astype(dtype),
        ):
            found = sepfilter2d(image, row, column)
            expected = exactly(image, outer(column, row), (1, 1), "reflect101", 0, dtype)
            np.testing.assert_array_equal(found, expected)
    assert taken(factored)


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
@pytest.mark.parametrize("dtype", TYPES)
def test_single_ties(dtype, channels, rng, factored):
    """A result that is half way, wherever it lies: the last one of an odd row, too."""
    column, row = np.array([0.0, 1.0, 2.0**-15]), np.array([-(2.0**-9), 0.5, 0.0])
    for width in (*range(2, 40), 127, 129, 131):
        y, channel = int(rng.integers(1, 11)), int(rng.integers(channels))
        image = rng.integers(10, 40, (12, width, channels)).astype(dtype) * 2
        image[y, -1, channel] = 4 * int(rng.integers(50)) + 1
        image[y, -2, channel] = image[y + 1, -2:, channel] = 0
        found = sepfilter2d(image, row, column, border="replicate", threads=1)
        expected = exactly(image, outer(column, row), (1, 1), "replicate", 0, dtype)
        np.testing.assert_array_equal(found, expected)
        # It is rounded down to an even number.
        assert expected[y, -1, channel] == image[y, -1, channel] // 2
    assert taken(factored)


def test_wide_images(rng, factored):
    """Rows of several strips, and many rows that see each other."""
    for channels, shape in ((1, (12, 9001)), (3, (12, 3001)), (1, (120, 40))):
        column, row = drawn_factor(rng, 9), drawn_factor(rng, 4)
        image = drawn(rng, (*shape, channels), np.uint16)
        for threads in (1, 3):
            found = sepfilter2d(image, row, column, border="wrap", threads=threads)
            expected = exactly(image, outer(column, row), (4, 2), "wrap", 0, np.uint16)
            np.testing.assert_array_equal(found, expected)
    assert taken(factored)


def test_which_filters(rng, monkeypatch):
    """Columns and rows are multiplied one after the other where that saves products."""
    made = []

    def noted(*arguments):
        made.append(pair_factors(*arguments))
        return made[-1]

    monkeypatch.setattr(bands, "pair_factors", noted)
    for shape, rows, columns, wins in (
        ((200, 256, 1), 3, 3, False),
        ((200, 256, 1), 5, 5, True),
        ((200, 256, 3), 5, 5, True),
        # Pixels of several channels need not be brought into pairs.
        ((200, 256, 3), 3, 3, True),
        ((200, 256, 1), 9, 9, True),
        ((200, 256, 1), 1, 9, False),
        ((200, 256, 1), 9, 1, False),
        # Sums are made in whole blocks.
        ((64, 64, 1), 9, 9, False),
        # Pixels of more channels are left to other loops.
        ((200, 256, 5), 9, 9, False),
    ):
        for dtype in (*TYPES, np.uint8):
            image = drawn(rng, shape, dtype)
            row, column = (rng.random(n // 2 + 1) for n in (columns, rows))
            row, column = (np.r_[x[:0:-1], x] / (2 * x.sum()) for x in (row, column))
            sepfilter2d(image, row, column)
            expected = wins and dtype != np.uint8 and paired_isa() is not None
            assert bool(made) == expected
            made.clear()


def test_others():
    """Large sums, short fractions and scales that overflow are left to other loops."""

    def numbers(column, row, dtype=np.uint16):
        taps = np.concatenate([column, row]).astype(np.float64)
        return pair_factors(taps, (len(column), len(row)), np.dtype(dtype))

    thirds = np.full(3, 1 / 3)
    assert numbers(thirds, thirds) is not None and numbers(-thirds, thirds, np.int16) is not None
    assert numbers(thirds * 1e30, thirds * 1e-30) is not None
    for column, row in (
        (np.zeros(3), thirds), (thirds * 30, thirds), (np.full(3, 0.25), np.full(3, 0.5)),
        (thirds * 1e300, thirds * 1e-300), (thirds * 1e-300, thirds * 1e300),
        (np.full(3, 5e-324), thirds),
    ):  # fmt: skip
        assert numbers(column, row) is None


@pytest.mark.parametrize("dtype", TYPES)
def test_bound(dtype, rng):
    """Sums are as near as `near` says, and fit in 32 bits, wherever pixels are extreme."""
    limits, offset = np.iinfo(dtype), 2**15 if dtype == np.uint16 else 0
    checked = 0
    for _ in range(150):
        rows, columns = rng.integers(1, 25, 2).tolist()
        column, row = drawn_factor(rng, rows), drawn_factor(rng, columns)
        made = pair_factors(np.concatenate([column, row]), (rows, columns), np.dtype(dtype))
        if made is None:
            continue
        checked += 1
        shift, together, flip, fraction, start, near, cross, flipped, taps = made[:9].tolist()
        assert flip == flipped == offset and taps in (rows, (rows + 1) // 2)
        pairs = (columns + 1) // 2
        words = made[12 : 12 + pairs + taps].view(np.int16).astype(object)
        of_row, of_column = words[: 4 * pairs].reshape(pairs, 2, 2), words[4 * pairs :]
        of_column = of_column.reshape(taps, 4)
        high, low = (of_row[:, k].ravel()[:columns] for k in (0, 1))
        exact = outer(column, row)
        for first in (row > 0, high > 0, low > 0, rng.random(columns) < 0.5):
            for then in (column > 0, column < 0, rng.random(rows) < 0.5):
                # Pixels whose products with the row's digits have one sign or the other.
                picks = first[None] == then[:, None]
                pixels = np.where(picks, int(limits.max), int(limits.min)).astype(object)
                x = pixels - offset
                sums = []
                for line in x:
                    total = sum(high * line)
                    for k in range(0, columns, 2 * together):
                        lows = sum((low * line)[k : k + 2 * together]) + (1 << shift >> 1)
                        assert abs(lows) < 1 << 31
                        total += lows >> shift
                    assert abs(total) < 1 << 30
                    sums.append(total)
                total, lows = start, 1 << cross >> 1
                for k, (zero, w, c, d) in enumerate(of_column):
                    u = sums[k] + sums[rows - 1 - k if taps < rows else k]
                    total += w * (u >> 16)
                    lows += c * ((u & 0xFFFF) - (1 << 15)) + d * (u >> 16)
                    assert zero == 0
                assert abs(lows) < 1 << 31
                total += lows >> cross
                assert -(1 << 31) <= total < 1 << 31
                wanted = ((exact * pixels).sum() - offset) * 2**fraction + (1 << fraction >> 1)
                assert 0 <= total - wanted <= 2 * near
        # Longer weights, and the bound of their error.
        precise, begin, error = made[9:12].tolist()
        fine = made[12 + pairs + taps :].reshape(rows, columns).astype(object)
        pixels = rng.choice([limits.min, limits.max], (rows, columns)).astype(int).astype(object)
        wanted = ((exact * pixels).sum() - offset) * 2**precise + (1 << precise >> 1)
        assert abs(begin + (fine * (pixels - offset)).sum() - wanted) <= error
        assert isinstance(wanted, Fraction) and math.isfinite(wanted)
    assert checked > 50
