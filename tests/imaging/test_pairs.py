"""Images of bytes and 16-bit integers by products of pairs, against exact integers."""

from __future__ import annotations

import numpy as np
import pytest

from pplconv import planner
from pplconv.imaging import bands, filter2d, sepfilter2d
from pplconv.imaging.banded import paired_isa
from pplconv.imaging.fixed_point import pair_weights
from pplconv.numerics import numerics_of
from tests.imaging.image_reference import BORDERS, outer
from tests.imaging.test_integer_lines import exactly
from tests.levels import allowed_isas

TYPES = (np.uint8, np.uint16, np.int16)


def fractions_of(kernel):
    """The taps of a kernel in fractions."""
    return outer(kernel.ravel(), np.ones(1)).reshape(kernel.shape)


def drawn(rng, shape, dtype):
    """Draw pixels of any size, or the smallest, the largest and zero alone."""
    limits = np.iinfo(dtype)
    if rng.random() < 0.3:
        return rng.choice([limits.min, limits.max, 0], shape).astype(dtype)
    return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)


def drawn_kernel(rng, extent):
    """Draw a kernel of either sign or both, whose sums may saturate."""
    kernel = rng.standard_normal(extent)
    kernel = rng.choice([-1, 1]) * np.abs(kernel) if rng.random() < 0.6 else kernel
    return kernel * (rng.choice([0.3, 1.0, 1.0, 3.3]) / np.abs(kernel).sum())


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("border", BORDERS)
def test_every_width(dtype, border, rng):
    """Widths around vectors, in one band and in several; rows of images lie apart."""
    for width in (*range(1, 6), *range(30, 36), *range(62, 68), 127, 128, 129, 200, 261):
        extent = tuple(rng.integers(1, 10, 2).tolist())
        channels = int(rng.integers(1, 6))
        shape = int(rng.integers(9, 25)), max(width, 9), channels
        image = drawn(rng, (shape[0], shape[1] + 3, channels), dtype)[:, : shape[1]]
        if rng.random() < 0.3:
            image = image[::-1]
        kernel = drawn_kernel(rng, extent)
        y, x = (int(rng.integers(n)) for n in extent)
        value = int(image[0, 0, 0])
        more = {"border": border, "value": value, "anchor": (x, y)}
        found = np.full(shape, 0x55, dtype)
        filter2d(image, kernel, out=found, threads=int(rng.integers(1, 4)), **more)
        expected = exactly(image, fractions_of(kernel), (y, x), border, value, dtype)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("level", [None, *allowed_isas()])
def test_drawn_filters(level, rng, monkeypatch):
    """Kernels and products of a column and a row, at every level."""
    if level is not None:
        monkeypatch.setenv("PPLCONV_MAX_ISA", level)
    for _ in range(100):
        dtype = TYPES[int(rng.integers(len(TYPES)))]
        extent = tuple(rng.integers(1, 8, 2).tolist())
        channels = int(rng.choice([1, 1, 3, 4]))
        image = drawn(rng, (int(rng.integers(8, 20)), int(rng.integers(8, 90)), channels), dtype)
        middle = tuple(n // 2 for n in extent)
        column, row = (drawn_kernel(rng, n) for n in extent)
        for kernel, found in (
            (outer(column, row), sepfilter2d(image, row, column)),
            (fractions_of(k := drawn_kernel(rng, extent)), filter2d(image, k)),
        ):
            expected = exactly(image, kernel, middle, "reflect101", 0, dtype)
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", TYPES)
def test_half_way(dtype, rng):
    """Sums half way, or next to it by what no integers of 64 bits tell: all of them, and few."""
    for more in (0.0, 2.0**-52, -(2.0**-52)):
        kernel = rng.integers(1, 9, (3, 3)) * 2.0**-18
        kernel[1, 1] += 0.5 - kernel.sum() + more
        for image in (
            np.full((30, 90, 1), 9, dtype),
            np.full((30, 50, 3), 127, dtype),
            np.full((31, 50, 3), 32767 % (np.iinfo(dtype).max + 1), dtype),
            np.where(rng.random((40, 200, 1)) < 0.01, 9, 0).astype(dtype),
            np.repeat(rng.integers(0, 9, (30, 8, 3)), 20, 1).astype(dtype),
        ):
            found = filter2d(image, kernel)
            expected = exactly(image, fractions_of(kernel), (1, 1), "reflect101", 0, dtype)
            np.testing.assert_array_equal(found, expected)


def test_wide_images(rng):
    """Rows of several strips."""
    for channels in (1, 3):
        kernel = rng.random((9, 4)) - 0.2
        kernel /= np.abs(kernel).sum()
        for dtype in (np.uint8, np.uint16):
            image = drawn(rng, (12, 9001 // channels, channels), dtype)
            found = filter2d(image, kernel, border="wrap")
            expected = exactly(image, fractions_of(kernel), (4, 2), "wrap", 0, dtype)
            np.testing.assert_array_equal(found, expected)


def test_which_kernels(rng):
    """Others are left to other loops: large sums, short fractions, sums that are often near."""

    def taken(kernel, dtype=np.uint16):
        kernel = np.asarray(kernel, np.float64)
        made = pair_weights(kernel.ravel(), kernel.shape, np.dtype(dtype), separable=False)
        return made is not None

    drawn = rng.random((3, 3)) / 9
    assert taken(drawn) and taken(-drawn) and taken(drawn, np.int16) and taken([[0.3]])
    assert taken(rng.random((11, 11)) / 121) and taken(rng.random((11, 11)) / 121, np.uint8)
    assert taken(rng.random((9, 9)) - 0.5, np.uint8)
    assert not taken(np.zeros((3, 3))) and not taken(np.full((3, 3), 0.25))
    assert not taken(rng.random((3, 3)) * 300) and not taken([[1e300, 1.0]])
    assert not taken(rng.standard_normal((9, 9)))


@pytest.mark.parametrize("dtype", TYPES)
def test_bound(dtype, rng):
    """Sums of two digits are as near as `near` says, and fit, wherever pixels are extreme."""
    limits, offset = np.iinfo(dtype), 2**15 if dtype == np.uint16 else 0
    for _ in range(200):
        extent = tuple(rng.integers(1, 12, 2).tolist())
        kernel = drawn_kernel(rng, extent)
        made = pair_weights(kernel.ravel(), extent, np.dtype(dtype), separable=False)
        if made is None:
            continue
        fraction, shift, start, near, together = made[:5].tolist()
        # Bytes are paired with those below, and the sums of all rows are made together.
        down = dtype == np.uint8
        assert not down or together == extent[0]
        one, other = extent[::-1] if down else extent
        pairs = other // 2 + 1
        words = made[9 + 4 * one * pairs :].view(np.int16).astype(object)
        words = words.reshape(*((pairs, one) if down else (one, pairs)), 2, 2, 2)[:, :, :, 0]
        if down:
            words = words.transpose(1, 0, 2, 3)
        high, low = (x.reshape(one, -1)[:, :other] for x in np.moveaxis(words, 2, 0))
        high, low = (high.T, low.T) if down else (high, low)
        exact = fractions_of(kernel) * 2**fraction
        for signs in (kernel > 0, kernel < 0, high > 0, low > 0, low < 0, kernel == kernel):
            pixels = np.where(signs, int(limits.max), int(limits.min))
            x = pixels.astype(object) - offset
            sums = [
                int((low[r : r + together] * x[r : r + together]).sum()) + (1 << shift >> 1)
                for r in range(0, extent[0], together)
            ]
            assert max(map(abs, sums)) < 1 << 31
            total = start - near - (1 << fraction >> 1) + (high * x).sum()
            total += sum(one >> shift for one in sums)
            assert abs(total - ((exact * pixels).sum() - (offset << fraction))) <= near
            assert -(1 << 31) <= total + (1 << fraction >> 1) + near < 1 << 31


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
@pytest.mark.parametrize("dtype", TYPES)
def test_single_ties(dtype, channels, rng):
    """A result that is half way, wherever it lies in a vector: the last one of a row, too."""
    kernel = np.zeros((3, 3))
    kernel[1, 1], kernel[0, 0] = 0.5 + 2.0**-15, -(2.0**-15)
    for width in range(2, 75):
        y, channel = int(rng.integers(1, 12)), int(rng.integers(channels))
        image = rng.integers(10, 40, (12, width, channels)).astype(dtype) * 2
        # Half of it is rounded down to an even number.
        image[y, -1, channel] = image[y - 1, -2, channel] = 4 * int(rng.integers(50)) + 1
        found = filter2d(image, kernel, border="replicate", threads=1)
        expected = exactly(image, fractions_of(kernel), (1, 1), "replicate", 0, dtype)
        np.testing.assert_array_equal(found, expected)
        assert expected[y, -1, channel] == image[y, -1, channel] // 2


def test_levels(monkeypatch):
    """AVX2 and above have kernels."""
    for level in allowed_isas():
        monkeypatch.setenv("PPLCONV_MAX_ISA", level)
        assert (paired_isa() is not None) == level.startswith("avx")


def test_bytes(rng, monkeypatch):
    """Kernels of bytes that are no products are taken, unless float32 has longer vectors."""
    made = []

    def noted(*arguments, **options):
        made.append(arguments)
        return pair_weights(*arguments, **options)

    monkeypatch.setattr(bands, "pair_weights", noted)
    image = drawn(rng, (20, 70, 3), np.uint8)
    for level in allowed_isas():
        monkeypatch.setenv("PPLCONV_MAX_ISA", level)
        isa = paired_isa()
        floats = planner.best_isa(numerics_of("f32", "f32"))
        filter2d(image, drawn_kernel(rng, (3, 3)))
        taken = isa is not None and (isa.startswith("avx512") or not floats.startswith("avx512"))
        assert len(made) == taken
        sepfilter2d(image, rng.random(3), rng.random(3))
        assert len(made) == taken
        made.clear()
