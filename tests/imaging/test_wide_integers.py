"""Images of bool, int32 and int64: exact, or refused."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import ndimage

from pplconv.imaging import filter2d, sepfilter2d
from tests.imaging.image_reference import exactly

KERNELS = {
    "integers": np.array([[1.0, -2, 3], [4, 5, -6]]),
    "dyadic": np.array([[0.5, 0.25, -1.75], [3, 0.125, 7]]),
    "halves": np.full((2, 3), 0.5),
    "sixths": np.full((2, 3), 1 / 6),
    "any": np.array([[0.1, -0.37, 1.6], [np.pi, 0.2, -0.9]]),
}


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("bits", [4, 20, 30])
@pytest.mark.parametrize("kind", KERNELS)
def test_sums_are_those_of_fractions(kind, bits, dtype, rng):
    image = rng.integers(-(2**bits), 2**bits, (6, 7, 2)).astype(dtype)
    image[0] = 2**bits - 1
    for border, value in (("reflect101", 0), ("constant", -5)):
        for to in (dtype, "int16"):
            expected = exactly(image, KERNELS[kind], (1, 1), border, value, to)
            found = filter2d(image, KERNELS[kind], border=border, value=value, dtype=to)
            assert found.dtype == to
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("kind", ["integers", "dyadic", "halves"])
def test_sums_of_64_bits(kind, rng):
    """Sums beyond float64, in units of the kernel's values, made of halves."""
    most = 2**52 if kind == "dyadic" else 2**56
    image = rng.integers(-most, most, (5, 6, 1))
    for border, value in (("wrap", 0), ("constant", -3)):
        expected = exactly(image, KERNELS[kind], (1, 1), border, value, np.int64)
        found = filter2d(image, KERNELS[kind], border=border, value=value)
        np.testing.assert_array_equal(found, expected)


def test_separable_sums(rng):
    image = rng.integers(-(2**50), 2**50, (6, 7, 1))
    for row, column in (([1.0, 2, 1], [0.5, 1, -3]), ([5.0], [3.0, 4, 0.25])):
        kernel = np.outer(column, row)
        anchor = kernel.shape[0] // 2, kernel.shape[1] // 2
        expected = exactly(image, kernel, anchor, "reflect", 0, np.int64)
        found = sepfilter2d(image, row, column, border="reflect")
        np.testing.assert_array_equal(found, expected)


def test_many_sums_half_way(rng):
    """Sums are near half way everywhere, and below it: 1 / 6 is less in float64."""
    image = np.full((40, 50), 2**29 + 1, np.int32)
    expected = exactly(image[:3, :4, None], KERNELS["sixths"] / 2, (1, 1), "wrap", 0, np.int32)
    found = filter2d(image, KERNELS["sixths"] / 2, border="wrap")
    assert (found == expected[0, 0, 0]).all()


def test_what_cannot_be_exact_is_refused(rng):
    out = np.full((3, 4), 7)
    for kernel in (9 * np.ones((3, 3)), np.full((3, 3), 1 / 9)):
        with pytest.raises(ValueError, match=r"image and kernel: sums .* convert the image"):
            filter2d(np.full((3, 4), 2**60), kernel, out=out)
    assert (out == 7).all()
    found = filter2d(np.full((3, 4), 2**60), np.full((3, 3), 1 / 9), dtype=np.float64)
    np.testing.assert_allclose(found, 2.0**60)


def test_truth_counts(rng):
    """Of bool come majorities, and of other types counts."""
    image = rng.random((20, 30)) < 0.4
    counts = ndimage.correlate(image.astype(int), np.ones((3, 3), int), mode="mirror")
    np.testing.assert_array_equal(filter2d(image, np.ones((3, 3)), dtype=np.uint8), counts)
    found = filter2d(image, np.full((3, 3), 1 / 9))
    assert found.dtype == np.bool_
    np.testing.assert_array_equal(found, counts >= 5)
    out = np.empty_like(image)
    assert filter2d(image, np.ones((3, 3)), out=out) is out
    np.testing.assert_array_equal(out, ndimage.binary_dilation(image, np.ones((3, 3))))
    around = filter2d(image, np.ones((3, 3)), border="constant", value=True)
    assert around[0].all() and around[:, -1].all()
    with pytest.raises(ValueError, match="value is 2"):
        filter2d(image, np.ones((3, 3)), border="constant", value=2)
    with pytest.raises(TypeError, match="dtype must be"):
        filter2d(image.astype(np.uint8), np.ones((3, 3)), dtype=bool)
    with pytest.raises(ValueError, match="out"):
        filter2d(image, np.ones((3, 3)), out=out[1:])
