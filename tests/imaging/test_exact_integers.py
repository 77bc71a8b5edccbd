"""Integers against fractions: each result is the exact sum, rounded once and saturated."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pplconv.imaging import filter2d, sepfilter2d
from pplconv.imaging.rounding import Exact
from tests.imaging.image_reference import (
    BORDERS,
    INTEGERS,
    KINDS,
    any_values,
    exactly,
    few_values,
    geometries,
    kernel_of,
    outer,
    turned,
)


@given(
    geometries(),
    st.sampled_from(INTEGERS),
    st.sampled_from(KINDS),
    st.sampled_from(BORDERS),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
def test_filter2d(geometry, dtype, kind, border, flip, seed):
    rng = np.random.default_rng(seed)
    shape, extent, (y, x) = geometry
    image, kernel = any_values(shape, dtype, rng), kernel_of(kind, extent, rng)
    result = rng.choice([dtype, *INTEGERS, "int32"])
    value = int(image.flat[0])
    seen, at = turned(kernel, (y, x)) if flip else (kernel, (y, x))
    expected = exactly(image, seen, at, border, value, result)
    y = filter2d(
        image, kernel, border=border, value=value, anchor=(x, y), flip=flip, dtype=result
    )  # fmt: skip
    assert y.dtype == result
    np.testing.assert_array_equal(y, expected)


@given(
    geometries(),
    st.sampled_from(INTEGERS),
    st.sampled_from(KINDS),
    st.sampled_from(KINDS),
    st.integers(0, 2**32 - 1),
)
def test_sepfilter2d(geometry, dtype, down, across, seed):
    """No product of both kernels' values is rounded."""
    rng = np.random.default_rng(seed)
    shape, (kh, kw), (y, x) = geometry
    image = any_values(shape, dtype, rng)
    column, row = kernel_of(down, (kh,), rng), kernel_of(across, (kw,), rng)
    expected = exactly(image, outer(column, row), (y, x), "reflect", 0, dtype)
    found = sepfilter2d(image, row, column, border="reflect", anchor=(x, y))
    np.testing.assert_array_equal(found, expected)


@given(
    st.sampled_from(KINDS), st.sampled_from(KINDS), st.sampled_from(INTEGERS),
    st.integers(0, 2**32 - 1),
)  # fmt: skip
def test_banks(first, second, dtype, seed):
    """Kernels of one bank are summed up in one type, and rounded each in its way."""
    rng = np.random.default_rng(seed)
    extent = int(rng.integers(1, 4)), int(rng.integers(1, 5))
    image = few_values((5, 19, 2), dtype, rng)
    bank = np.stack([kernel_of(first, extent, rng), kernel_of(second, extent, rng)])
    found = filter2d(image, bank, border="wrap")
    anchor = extent[0] // 2, extent[1] // 2
    for one, kernel in zip(found, bank, strict=True):
        expected = exactly(image, kernel, anchor, "wrap", 0, dtype)
        np.testing.assert_array_equal(one, expected)


# Sums of these lie half way, or nearly, in a tenth to all of the places.
HALF_WAY = {
    "box 2x3": np.full((2, 3), 1 / 6),
    "box 4x6 of float32": np.full((4, 6), np.float32(1 / 24)).astype(np.float64),
    "three tenths": np.array([[0.3, 0.4, 0.3]]),
    "three tenths and something": np.array([[0.3, 0.4, 0.3, 2.0**-400, 5e-324]]),
    "Prewitt": np.array([[-1.0, 0, 1]] * 3) / 6,
    "cubic B-spline": np.outer([1 / 6, 4 / 6, 1 / 6], [1 / 6, 4 / 6, 1 / 6]),
    "halves": np.array([[0.5, 0.5]]),
    "halves and something": np.array([[0.5, 0.5 + 2.0**-50, 1e-300]]),
    "more than halves": np.array([[0.5 + 2.0**-52, 0.5 - 2.0**-53]]),
}


@pytest.mark.sampled(28)
@pytest.mark.parametrize("name", HALF_WAY)
@pytest.mark.parametrize("dtype", INTEGERS)
def test_sums_half_way(name, dtype, rng):
    kernel = HALF_WAY[name]
    anchor = kernel.shape[0] // 2, kernel.shape[1] // 2
    for result in (dtype, "int32"):
        for _ in range(3):
            image = few_values((9, 37, 1), dtype, rng)
            expected = exactly(image, kernel, anchor, "reflect", 0, result)
            found = filter2d(image, kernel, border="reflect", dtype=result)
            np.testing.assert_array_equal(found, expected)


VECTORS = {
    "box": [1 / 6] * 6,
    "tenths": [0.3, 0.4, 0.3],
    "quintic B-spline": np.array([1, 26, 66, 26, 1]) / 120,
    "narrow": np.exp(-((np.arange(31) - 15) ** 2) / 0.72),
    "wide": np.exp(-((np.arange(21) - 10) ** 2) / 30),
}


@pytest.mark.sampled(9)
@pytest.mark.parametrize("row", VECTORS)
@pytest.mark.parametrize("column", VECTORS)
def test_products_half_way(row, column, rng):
    """Of columns and rows that are nearly integers over a divisor, and of others."""
    x, y = (np.array(VECTORS[name]) / np.sum(VECTORS[name]) for name in (row, column))
    anchor = len(y) // 2, len(x) // 2
    for dtype in ("uint8", "int16"):
        image = few_values((3, 25, 1), dtype, rng)
        expected = exactly(image, outer(y, x), anchor, "reflect101", 0, dtype)
        np.testing.assert_array_equal(sepfilter2d(image, x, y), expected)


def stripes_of(shape, rng):
    """Draw constant areas, stripes and a chessboard of two values, and one pixel of another."""
    y, x = np.indices(shape)
    low, high, odd = rng.integers(0, 120, 3) * 2 + (0, 1, 1)
    image = np.choose((y // 4 + x // 25) % 4, [odd, x % 2, y % 2, (x + y) % 2])
    image = np.where(image == 0, low, np.where(image == 1, high, image))
    image[tuple(rng.integers(0, shape))] = 255
    return image.astype(np.uint8)


@pytest.mark.parametrize("extent", [(1, 2), (2, 2), (3, 3), (5, 5), (7, 6)], ids=str)
def test_constant_areas_and_stripes(extent, rng):
    """Values of no common divisor that add up to a half: most sums are at half way, or nearly."""
    for least in (0.0, -0.5):
        kernel = rng.random(extent) + least
        kernel /= 2 * kernel.sum()
        image = stripes_of((12, 90), rng)
        expected = exactly(image[:, :, None], kernel, (0, 0), "wrap", 0, "uint8")
        found = filter2d(image, kernel, anchor=(0, 0), border="wrap")
        np.testing.assert_array_equal(found, expected[:, :, 0])


@pytest.mark.parametrize("sigma", [0.6, 1.4, 9.0])
def test_gaussians_on_stripes(sigma, rng):
    """Of values of all sizes, whose products have twice as many digits."""
    taps = np.exp(-((np.arange(9) - 4) ** 2) / (2 * sigma * sigma))
    down, across = taps / taps.sum(), taps[1:8] / (2 * taps[1:8].sum())
    image = stripes_of((12, 90), rng)
    expected = exactly(image[:, :, None], outer(down, across), (4, 3), "wrap", 0, "uint8")
    found = sepfilter2d(image, across, down, border="wrap")
    np.testing.assert_array_equal(found, expected[:, :, 0])


def test_no_sum_half_way_is_left_to_integers_of_any_length(rng):
    """Loops over vectors decide all of them, for kernels that are not very wide."""
    for kernel in (rng.random(9), rng.random(25), rng.standard_normal(9)):
        for largest in (255, 65535):
            again = Exact.of(kernel / 2 / kernel.sum(), largest).way("float32").again
            assert again is not None and len(again.digits)
    taps = np.exp(-((np.arange(7) - 3) ** 2) / 4)
    assert len(Exact.product(taps, taps / taps.sum(), 255).way("float32").again.digits)
    tenths = np.array([0.3, 0.4, 0.3])
    assert len(Exact.product(tenths, tenths, 255).way("float32").again.digits)
    # One sum says it all.
    way = Exact.of(tenths, 255).way("float32")
    assert way.again is None and way.direction == 2


def test_large_kernels_are_made_at_once():
    """Their arithmetic is chosen without fractions, and hardly anything is kept."""
    kernel = np.exp(-((np.arange(255) - 127) ** 2) / 3200)
    tracemalloc.start()
    try:
        exact = Exact.product(kernel, kernel, 255)
        assert not exact.way(exact.dtype).error > 1e-6
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kernel", [[[1e308, -1e308, 0.5]], [[1e-310, 0.5]], [[0.0, 0.0]]])
def test_values_at_the_ends_of_the_range(kernel, rng):
    image = rng.integers(0, 256, (9, 11, 1), dtype=np.uint8)
    kernel = np.array(kernel)
    expected = exactly(image, kernel, (0, 1), "reflect101", 0, "uint8")
    np.testing.assert_array_equal(filter2d(image, kernel), expected)


@pytest.mark.parametrize(("rest", "expected"), [(5e-324, 1), (-5e-324, 0), (2.0**-1000, 1)])
def test_the_least_rest_decides(rest, expected):
    """The loops take subnormal numbers for zero."""
    kernel = [[0.5, 0.5 * (1 + 2**-30), rest]]
    image = np.array([[1, 0, 1, 0]], np.uint8)
    assert filter2d(image, kernel, anchor=(0, 0), border="constant")[0, 0] == expected


def test_a_sixth_is_a_little_less():
    """As docs/imaging.md says."""
    image = np.array([[15, 0, 0]], np.uint8)
    assert filter2d(image, [[1 / 6]])[0, 0] == 2
    assert filter2d(image, [[0.5]])[0, 0] == 8


def test_integers_that_become_floats_are_rounded_once(rng):
    image = rng.integers(0, 2**16, (40, 50), dtype=np.uint16)
    kernel = rng.integers(-1000, 1000, (5, 5))
    exact = filter2d(image, kernel, dtype=np.float64)
    assert (exact == np.rint(exact)).all()
    np.testing.assert_array_equal(
        filter2d(image, kernel, dtype=np.float32), exact.astype(np.float32)
    )


@pytest.mark.parametrize("threads", [2, 3, 5])
def test_any_number_of_threads(threads, rng):
    image = rng.integers(0, 256, (900, 700), dtype=np.uint8)
    for kernel in (np.full((2, 3), 1 / 6), rng.standard_normal((5, 5))):
        alone = filter2d(image, kernel, threads=1)
        np.testing.assert_array_equal(filter2d(image, kernel, threads=threads), alone)
        floats = filter2d(image.astype(np.float32), kernel, threads=1)
        several = filter2d(image.astype(np.float32), kernel, threads=threads)
        assert several.tobytes() == floats.tobytes()


@pytest.mark.parametrize(
    ("row", "column"),
    [([1e300], [0.0]), ([1e30, -1e30], [1e-30]), ([1e-44], [1e44]), ([1e200], [1e-200, 0.0])],
)
def test_factors_at_the_ends_of_the_range(row, column, rng):
    """A row's sums alone would be infinite or lost."""
    image = rng.integers(0, 256, (9, 11, 1), dtype=np.uint8)
    row, column = np.array(row), np.array(column)
    anchor = len(column) // 2, len(row) // 2
    expected = exactly(image, outer(column, row), anchor, "reflect101", 0, "uint8")
    np.testing.assert_array_equal(sepfilter2d(image, row, column), expected)
