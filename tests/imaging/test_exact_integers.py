"""Integers against fractions: each result is the exact sum, rounded once and saturated."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from image_reference import BORDERS, INTEGERS, exactly, geometries, windows_of
from pplconv.imaging import filter2d, sepfilter2d
from pplconv.imaging.rounding import Exact, rounded

# Kernels whose sums lie at, or next to, half way between integers.
KINDS = ("integers", "dyadic", "box", "normal", "tiny", "cancelling", "wide")


def kernel_of(kind, extent, rng):
    if kind == "integers":
        return rng.integers(-9, 10, extent).astype(np.float64)
    if kind == "dyadic":
        return rng.integers(-64, 65, extent) / 128
    if kind == "box":
        return np.full(extent, 1 / np.prod(extent))
    if kind == "normal":
        return rng.standard_normal(extent)
    if kind == "tiny":
        return rng.standard_normal(extent) * 1e-9 + 0.5 * (rng.random(extent) < 0.2)
    if kind == "cancelling":
        kernel = np.where(rng.random(extent) < 0.5, 1e25, -1e25)
        return kernel + 0.5
    return rng.choice([0.5, 1e-30, -1e-25, 2.0**-60, 1.5], extent)


def image_of(shape, dtype, rng):
    limits = np.iinfo(dtype)
    image = rng.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)
    # Large areas of extreme pixels saturate, and few levels give equal sums.
    return np.where(rng.random(shape) < 0.3, limits.max, image).astype(dtype)


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
    image, kernel = image_of(shape, dtype, rng), kernel_of(kind, extent, rng)
    result = rng.choice([dtype, *INTEGERS, "int32"])
    value = int(image.flat[0])
    seen, at = kernel, (y, x)
    if flip:
        seen, at = kernel[::-1, ::-1], (extent[0] - 1 - y, extent[1] - 1 - x)
    expected = exactly(image.astype(int), seen, at, border, value, result)
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
    image = image_of(shape, dtype, rng)
    column, row = kernel_of(down, (kh,), rng), kernel_of(across, (kw,), rng)
    flat = np.pad(image.astype(int), ((y, kh - 1 - y), (x, kw - 1 - x), (0, 0)), mode="symmetric")
    windows = np.lib.stride_tricks.sliding_window_view(flat, (kh, kw), axis=(0, 1))
    taps = [Fraction(a) * Fraction(b) for a in column.tolist() for b in row.tolist()]
    sums = [
        round(sum(t * p for t, p in zip(taps, one, strict=True)))
        for one in windows.reshape(-1, kh * kw).tolist()
    ]
    limits = np.iinfo(dtype)
    expected = np.array([min(max(s, limits.min), limits.max) for s in sums]).reshape(shape)
    found = sepfilter2d(image, row, column, border="reflect", anchor=(x, y))
    np.testing.assert_array_equal(found, expected)


@given(st.sampled_from(KINDS), st.integers(0, 2**32 - 1))
def test_rounding_alone(kind, seed):
    """The last resort by itself, for windows that the error of float64 would not send there."""
    rng = np.random.default_rng(seed)
    taps = rng.integers(1, 30)
    kernel = kernel_of(kind, (taps,), rng)
    windows = rng.integers(-(2**15), 2**15, (20, taps))
    exact = [
        round(sum(Fraction(t) * p for t, p in zip(kernel.tolist(), one, strict=True)))
        for one in windows.tolist()
    ]
    found = rounded(Exact.of(kernel, 2**15), windows)
    if max(map(abs, exact)) < 2**53:
        assert found.tolist() == exact


@pytest.mark.parametrize("kernel", [[[1e308, -1e308, 0.5]], [[1e-310, 0.5]], [[0.0, 0.0]]])
def test_values_at_the_ends_of_the_range(kernel, rng):
    image = rng.integers(0, 256, (9, 11, 1), dtype=np.uint8)
    kernel = np.array(kernel)
    expected = exactly(image.astype(int), kernel, (0, 1), "reflect101", 0, "uint8")
    np.testing.assert_array_equal(filter2d(image, kernel), expected)


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
    taps = [Fraction(a) * Fraction(b) for a in column.tolist() for b in row.tolist()]
    extent = len(column), len(row)
    windows = windows_of(
        image.astype(int), extent, (extent[0] // 2, extent[1] // 2), "reflect101", 0
    )
    expected = [
        min(max(round(sum(t * p for t, p in zip(taps, one, strict=True))), 0), 255)
        for one in windows.reshape(-1, len(taps)).tolist()
    ]
    found = sepfilter2d(image, row, column)
    assert found.ravel().tolist() == expected
