"""Large filters by transforms: values, exact integers, choice, and what is refused."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from scipy import ndimage, signal

from pplconv.imaging import filter2d
from pplconv.imaging.transforms import Transformed

BORDERS = {"reflect101": "mirror", "reflect": "reflect", "wrap": "wrap", "constant": "constant"}


@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sums_of_transforms(dtype, border, rng):
    """Several tiles, with tails: errors are relative to both norms."""
    image = rng.standard_normal((301, 140)).astype(dtype)
    kernel = rng.standard_normal((16, 33)).astype(dtype)
    found = filter2d(image, kernel, border=border, value=2, method="fft")
    assert found.dtype == dtype
    wide = image.astype(float)
    expected = ndimage.correlate(wide, kernel.astype(float), mode=BORDERS[border], cval=2)
    tolerance = 1e-5 if dtype == "float32" else 1e-12
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=tolerance)


def test_valid_results_and_banks(rng):
    image, bank = rng.standard_normal((90, 80, 2)), rng.standard_normal((2, 9, 17))
    found = filter2d(image, bank, mode="valid", method="fft")
    for k in range(2):
        for c in range(2):
            expected = signal.correlate2d(image[..., c], bank[k], "valid")
            np.testing.assert_allclose(found[k, ..., c], expected, atol=1e-12)


@pytest.mark.parametrize("dtype", ["uint8", "int16"])
@pytest.mark.parametrize("to", ["uint8", "int16", "int32", "float64"])
def test_integers_are_exact(dtype, to, rng):
    limits = np.iinfo(dtype)
    image = rng.integers(limits.min, limits.max, (150, 143), dtype=dtype, endpoint=True)
    image[:60] = limits.max
    kernel = rng.integers(-64, 65, (21, 19)) / 128
    sums = signal.correlate2d(np.pad(image, ((10, 10), (9, 9)), "symmetric"), kernel * 128, "valid")
    expected = sums / 128
    if to != "float64":
        expected = np.clip(np.rint(expected), np.iinfo(to).min, np.iinfo(to).max)
    found = filter2d(image, kernel, border="reflect", dtype=to, method="fft")
    assert found.dtype == to
    np.testing.assert_array_equal(found, expected)


def test_auto_takes_transforms_of_large_kernels_only(monkeypatch, rng):
    ran = []
    run = Transformed.run
    monkeypatch.setattr(Transformed, "run", lambda self, out: (ran.append(1), run(self, out)))
    image = rng.random((256, 256))
    for size, expected in ((3, []), (11, []), (101, [1])):
        ran.clear()
        kernel = rng.random((size, size))
        found = filter2d(image, kernel, method="auto", threads=1)
        assert ran == expected
        np.testing.assert_allclose(found, filter2d(image, kernel), rtol=1e-12)
    image[3, 3] = np.nan
    ran.clear()
    np.testing.assert_array_equal(
        filter2d(image, kernel, method="auto", threads=1), filter2d(image, kernel)
    )
    assert ran == []


def test_what_transforms_would_not_do_is_refused(monkeypatch):
    image, kernel = np.zeros((40, 40), np.uint8), np.full((15, 15), 1 / 225)
    with pytest.raises(ValueError, match=r"kernel must have integers or short .* method='fft'"):
        filter2d(image, kernel, method="fft")
    np.testing.assert_array_equal(filter2d(image, kernel, method="auto"), image)
    ones = np.ones((40, 40))
    for pixels, taps, value in (
        (ones * np.inf, kernel, 0), (ones, kernel, np.nan), (ones * 1e300, kernel, 0),
        (ones, kernel * 1e300, 0),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="image, kernel and value must be finite"):
            filter2d(pixels, taps, border="constant", value=value, method="fft")
    # No border has this value.
    means = filter2d(ones, kernel, border="wrap", value=np.nan, method="fft")
    np.testing.assert_allclose(means, 1, rtol=1e-12)
    with pytest.raises(ValueError, match="image must not be int64"):
        filter2d(image.astype(np.int64), kernel, method="fft")
    with pytest.raises(ValueError, match="method must be one of direct, auto, fft"):
        filter2d(image, kernel, method="winograd")
    monkeypatch.setitem(sys.modules, "scipy.fft", None)
    with pytest.raises(ValueError, match="scipy must be installed"):
        filter2d(image / 1.0, kernel, method="fft")
    assert filter2d(image / 1.0, np.ones((99, 99)), method="auto", threads=1).max() == 0
