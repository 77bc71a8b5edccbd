"""Floating point against float64, within the bound of a direct sum."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pplconv.imaging import box, filter2d, sepfilter2d
from tests.imaging.image_reference import BORDERS, FLOATS, geometries, turned, windows_of


def assert_near(found, windows, kernel, dtype, computed, roundings=0):
    exact = np.einsum("hwcij,ij->hwc", windows.astype(np.float64), kernel)
    sizes = np.einsum("hwcij,ij->hwc", abs(windows.astype(np.float64)), abs(kernel))
    bound = (kernel.size + 4 + roundings) * np.finfo(computed).eps * sizes
    bound += 2 * kernel.size * float(np.finfo(np.float64).eps) * sizes
    bound += float(np.finfo(dtype).eps) * abs(exact) + float(np.finfo(dtype).smallest_subnormal)
    assert found.dtype == dtype
    assert (abs(found.astype(np.float64) - exact) <= bound).all()


@given(
    geometries(), st.sampled_from(FLOATS), st.sampled_from([None, *FLOATS]),
    st.sampled_from(BORDERS), st.booleans(), st.integers(0, 2**32 - 1),
)  # fmt: skip
def test_filter2d(geometry, dtype, result, border, flip, seed):
    rng = np.random.default_rng(seed)
    shape, extent, (y, x) = geometry
    image, kernel = rng.standard_normal(shape).astype(dtype), rng.standard_normal(extent)
    seen, at = turned(kernel, (y, x)) if flip else (kernel, (y, x))
    windows = windows_of(image, extent, at, border, 0.5)
    found = filter2d(
        image, kernel, border=border, value=0.5, anchor=(x, y), flip=flip, dtype=result
    )
    computed = np.result_type(dtype, result or dtype, np.float32)
    assert_near(found, windows, seen, np.dtype(result or dtype), computed)


@given(geometries(), st.sampled_from(FLOATS), st.booleans(), st.integers(0, 2**32 - 1))
def test_sepfilter2d(geometry, dtype, flip, seed):
    rng = np.random.default_rng(seed)
    shape, (kh, kw), (y, x) = geometry
    image = rng.standard_normal(shape).astype(dtype)
    row, column = rng.standard_normal(kw), rng.standard_normal(kh)
    kernel = np.outer(column, row)
    seen, at = turned(kernel, (y, x)) if flip else (kernel, (y, x))
    windows = windows_of(image, (kh, kw), at, "wrap", 0)
    found = sepfilter2d(image, row, column, border="wrap", anchor=(x, y), flip=flip)
    computed = np.result_type(dtype, np.float32)
    assert_near(found, windows, seen, np.dtype(dtype), computed, kh + kw)


@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("extent", [(3, 3), (5, 5)])
def test_small_squares_see_borders(extent, border, rng):
    """Of all widths up to some vectors: kernels that are drawn, or a column and a row."""
    for width in (*range(1, 140), 600):
        shape = int(rng.integers(1, 45)), width, int(rng.integers(1, 6))
        image = rng.standard_normal(shape).astype(np.float32)
        anchor = tuple(int(rng.integers(size)) for size in extent)
        windows = windows_of(image, extent, anchor, border, 0.5)
        column, row = rng.standard_normal(extent).astype(np.float32)[:2]
        options = {"border": border, "value": 0.5, "anchor": anchor[::-1]}
        for kernel in (rng.standard_normal(extent), np.outer(column, row)):
            found = [filter2d(image, kernel, threads=threads, **options) for threads in (1, 3)]
            np.testing.assert_array_equal(*found)
            assert_near(found[0], windows, kernel, np.dtype("f4"), np.float32, sum(extent))
        column, row = (rng.standard_normal(size) for size in extent)
        found = sepfilter2d(image, row, column, **options)
        assert_near(found, windows, np.outer(column, row), np.dtype("f4"), np.float32, sum(extent))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("extent", [(3, 9), (9, 3), (13, 16), (31, 31), (2, 64), (64, 2)])
def test_boxes_of_sums_of_neighbours(dtype, extent, rng):
    """Of all tails and bands; the largest numbers have a mean, and NaN stays where it is seen."""
    channels = int(rng.integers(1, 4))
    image = rng.standard_normal((70, int(rng.integers(1, 90)), channels)).astype(dtype)
    anchor, kernel = tuple(size // 2 for size in extent), np.full(extent, 1 / np.prod(extent))
    computed = np.result_type(dtype, np.float32)
    windows = windows_of(image, extent, anchor, "reflect", 0)
    found = [box(image, extent, border="reflect", threads=threads) for threads in (1, 3)]
    np.testing.assert_array_equal(*found)
    assert_near(found[0], windows, kernel, np.dtype(dtype), computed, sum(extent))
    image[33] = np.nan
    seen = windows_of(np.isnan(image), extent, anchor, "reflect", 0).any((3, 4))
    np.testing.assert_array_equal(np.isnan(box(image, extent, border="reflect")), seen)
    largest = np.full((40, 41), 0.99 * np.finfo(dtype).max, dtype)
    np.testing.assert_allclose(box(largest, extent), largest, rtol=100 * np.finfo(dtype).eps)


@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("extent", [(15, 15), (9, 10), (24, 12), (25, 9), (1, 31)])
def test_boxes_see_borders(extent, border, rng):
    """Sums of columns beyond a border are those of other columns, or of its value."""
    anchor, kernel = tuple(size // 2 for size in extent), np.full(extent, 1 / np.prod(extent))
    for shape in ((40, 37, 3), (70, 5, 1), (3, 130, 1)):
        image = rng.standard_normal(shape).astype(np.float32)
        windows = windows_of(image, extent, anchor, border, 0.5)
        found = [box(image, extent, border=border, value=0.5, threads=n) for n in (1, 3)]
        np.testing.assert_array_equal(*found)
        assert_near(found[0], windows, kernel, np.dtype(np.float32), np.float32, sum(extent))


@pytest.mark.parametrize("extent", [(33, 1), (121, 1), (40, 3), (1, 121)])
@pytest.mark.parametrize("width", [9, 150, 600])
def test_high_and_wide_kernels(extent, width, rng):
    """Rings have room for all rows of taps, in blocks of few rows and of many."""
    image = rng.standard_normal((140, width, 1)).astype(np.float32)
    kernel, anchor = rng.standard_normal(extent), tuple(size // 2 for size in extent)
    windows = windows_of(image, extent, anchor, "reflect", 0)
    found = [filter2d(image, kernel, border="reflect", threads=threads) for threads in (1, 3)]
    np.testing.assert_array_equal(*found)
    assert_near(found[0], windows, kernel, np.dtype(np.float32), np.float32)
    if 1 not in extent:
        row, column = rng.standard_normal(extent[1]), rng.standard_normal(extent[0])
        found = [sepfilter2d(image, row, column, border="reflect", threads=threads)
                 for threads in (1, 3)]  # fmt: skip
        np.testing.assert_array_equal(*found)
        assert_near(found[0], windows, np.outer(column, row), np.dtype(np.float32), np.float32, 50)


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("size", [3, 5, 9])
def test_nan_and_infinities_reach_those_that_see_them(special, size, rng):
    image = rng.random((40, 50), dtype=np.float32)
    image[17, 23] = special
    found = filter2d(image, np.ones((size, size)))
    reach = size // 2
    reached = np.zeros(image.shape, bool)
    reached[17 - reach : 18 + reach, 23 - reach : 24 + reach] = True
    assert (np.isfinite(found) != reached).all()


@pytest.mark.parametrize("count", [1, 8])
def test_taps_that_are_zero_see_nan(count, rng):
    """However many they are: zero times NaN is NaN."""
    image = rng.standard_normal((40, 50)).astype(np.float32)
    image[20, 30] = np.nan
    bank = np.zeros((count, 9, 9), np.float32)
    bank[:, 4, :] = 1
    seen = np.isnan(filter2d(image, bank))
    assert seen[:, 16:25, 26:35].all() and seen.sum() == count * 81


def test_zeros_stay_zeros(rng):
    """No Winograd: as the documents promise of images."""
    image = np.zeros((60, 60), np.float32)
    image[30, 30] = 1e8
    found = filter2d(image, rng.random((3, 3)) + 0.1)
    assert np.count_nonzero(found) == 9


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize("shape", [(30, 41), (30, 41, 3), (30, 41, 1)])
def test_a_bank_gives_an_image_for_each_kernel(dtype, shape, rng):
    image = (rng.random(shape) * 255).astype(dtype)
    bank = rng.standard_normal((5, 4, 3))
    found = filter2d(image, bank, anchor=(0, 3))
    assert found.shape == (5, *shape)
    one_by_one = np.stack([filter2d(image, kernel, anchor=(0, 3)) for kernel in bank])
    if dtype == "uint8":
        np.testing.assert_array_equal(found, one_by_one)
    else:
        np.testing.assert_allclose(found, one_by_one, rtol=0, atol=255 * 1e-5)


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32", "float64"])
def test_images_in_any_strides_and_byte_order(dtype, rng):
    image = (rng.random((36, 44, 3)) * 100).astype(dtype)
    kernel = rng.standard_normal((3, 5))
    for other in (
        image[::-1, ::2],
        image.transpose(1, 0, 2),
        image[..., 1],
        image.astype(image.dtype.newbyteorder()),
        np.broadcast_to(image[:1], image.shape),
    ):
        expected = filter2d(np.ascontiguousarray(other, dtype), kernel)
        found = filter2d(other, kernel)
        assert found.dtype == np.dtype(dtype)
        np.testing.assert_array_equal(found, expected)
    assert found.flags.c_contiguous


def test_large_images_are_filtered_in_bands(rng):
    """Each row is computed, whatever the bands: wide rows, many channels, tall kernels."""
    for shape, extent in (((300, 3000), (5, 5)), ((64, 700, 7), (31, 3)), ((2100, 40), (2, 9))):
        image = rng.integers(0, 256, shape, dtype=np.uint8)
        kernel = rng.integers(-3, 4, extent)
        flat = image.reshape(*shape[:2], -1).astype(int)
        windows = windows_of(flat, extent, (extent[0] // 2, extent[1] // 2), "reflect101", 0)
        exact = np.einsum("hwcij,ij->hwc", windows, kernel).reshape(shape)
        np.testing.assert_array_equal(filter2d(image, kernel, dtype=np.int32), exact)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("border", BORDERS)
def test_blocks_of_rows(dtype, channels, border, rng):
    """Of any height and width, read in place and copied, from rows that lie apart."""
    for height, width, extent in (
        (1, 300, (3, 3)), (7, 260, (5, 4)), (37, 90, (2, 7)), (70, 523 // channels, (7, 7)),
        (5, 611, (1, 5)), (33, 40, (9, 1)), (3, 2, (11, 11)), (4, 800, (4, 23)),
    ):  # fmt: skip
        (y, x), (kh, kw) = (int(rng.integers(n)) for n in extent), extent
        wide = rng.standard_normal((height, width + 5, channels)).astype(dtype)
        image = wide[:, 2:-3]
        image[height // 2, width // 3] = np.nan
        image[0, -1] = np.inf
        options = {"border": border, "value": 0.5, "anchor": (x, y)}
        kernel, row, column = (rng.standard_normal(n) for n in (extent, kw, kh))
        for seen in (kernel, np.outer(column, row)):
            out = np.full((height, width, channels), np.nan, dtype)
            if seen is kernel:
                filter2d(image, kernel, out=out, **options)
            else:
                sepfilter2d(image, row, column, out=out, **options)
            windows = windows_of(image, extent, (y, x), border, 0.5).astype(np.float64)
            with np.errstate(invalid="ignore"):
                exact = np.einsum("hwcij,ij->hwc", windows, seen)
            special = ~np.isfinite(exact)
            np.testing.assert_array_equal(out[special], exact[special])
            windows[special], out[special] = 0, 0
            assert_near(out, windows, seen, np.dtype(dtype), np.dtype(dtype), kh + kw)


@pytest.mark.parametrize("separable", [False, True])
@pytest.mark.parametrize("channels", [1, 3])
def test_results_past_the_caches(separable, channels, rng):
    """Are the same, whatever their place."""
    shape = (1103, 4099 // channels, channels)
    image = rng.integers(-50, 50, shape).astype(np.float32)
    row, column = rng.integers(-3, 4, (2, 3)).astype(np.float32)
    around = np.pad(image, ((1, 1), (1, 1), (0, 0)), mode="reflect")
    sums = sum(row[k] * around[:, k : k + shape[1]] for k in range(3))
    expected = sum(column[k] * sums[k : k + shape[0]] for k in range(3))
    for before in (0, 1, 13):
        out = np.full(before + expected.size + 1, np.nan, np.float32)
        found = out[before:-1].reshape(shape)
        if separable:
            sepfilter2d(image, row, column, out=found)
        else:
            filter2d(image, np.outer(column, row), out=found)
        np.testing.assert_array_equal(found, expected)
        assert np.isnan(out[:before]).all() and np.isnan(out[-1])
