"""Masks, NaN as missing pixels, and a kernel for each channel, compared with sums in float64."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import ndimage

from pplconv.imaging import box, filter2d, gaussian, sepfilter2d

KERNEL = np.array([[1.0, 2, 1], [2, 5, 2], [0.5, 2, 1]])


def quotients(image, present, kernel, mode="mirror"):
    """Divide sums by those of the weights that are present: astropy's `convolve`."""
    image = np.where(present, image.astype(float), 0.0)
    sums = ndimage.correlate(image, kernel, mode=mode)
    weights = ndimage.correlate(present.astype(float), kernel, mode=mode)
    with np.errstate(all="ignore"):
        return np.where(weights == 0, np.nan, sums / weights)


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int32", "float16", "float32", "float64"])
def test_quotients_of_a_mask_and_of_nan(dtype, rng):
    image = (rng.random((14, 17)) * 100).astype(dtype)
    mask = rng.random(image.shape) < 0.3
    mask[3:9, 4:9] = True
    found = filter2d(image, KERNEL, mask=mask, normalize=True)
    wide = dtype in ("int32", "float64")
    own = np.dtype(dtype).kind == "f"
    assert found.dtype == (dtype if own else np.float64 if wide else np.float32)
    expected = quotients(image, ~mask, KERNEL)
    assert np.isnan(expected).any()
    tolerance = {"float16": 1e-3, "int32": 1e-12, "float64": 1e-12}.get(dtype, 1e-6)
    np.testing.assert_allclose(found, expected, rtol=tolerance)
    if own:
        holes = np.where(mask, np.nan, image).astype(dtype)
        again = filter2d(holes, KERNEL, normalize=True)
        np.testing.assert_array_equal(again, found)
        out = np.empty_like(holes)
        assert filter2d(holes, KERNEL, normalize=True, out=out) is out
        np.testing.assert_array_equal(out, found)


ASTROPY = [
    [2.0, 3.2, 5.416666666666667, 8.076923076923077],
    [4.4, 5.428571428571429, 7.384615384615385, 11.4],
    [6.5, 7.25, 10.333333333333334, 16.384615384615383],
]


def test_values_of_astropy():
    """From astropy 8.0.2's `convolve(x, kernel, boundary="extend")`, with NaN interpolated."""
    image = np.array([[1.0, np.nan, 3.0, 10.0], [4.0, 5.0, 6.0, np.nan], [7.0, 8.0, 9.0, 20.0]])
    kernel = np.array([[1.0, 2, 1], [2, 4, 2], [1, 2, 1]])
    found = filter2d(image, kernel, normalize=True, border="replicate")
    np.testing.assert_allclose(found, ASTROPY, rtol=1e-12)


def test_masked_pixels_count_as_zero(rng):
    image = rng.integers(0, 256, (11, 12, 3), dtype=np.uint8)
    for mask in (rng.random((11, 12)) < 0.3, rng.random((11, 12, 3)) < 0.3):
        empty = np.where(mask if mask.ndim == 3 else mask[..., None], 0, image).astype(np.uint8)
        found = filter2d(image, KERNEL / 16, mask=mask)
        assert found.dtype == np.uint8
        np.testing.assert_array_equal(found, filter2d(empty, KERNEL / 16))
        ours = sepfilter2d(image, [1, 2, 1], [1, 2, 1], mask=mask, normalize=True)
        full = np.outer([1, 2, 1], [1, 2, 1]).astype(float)
        for c in range(3):
            one = mask[..., c] if mask.ndim == 3 else mask
            np.testing.assert_allclose(ours[..., c], quotients(image[..., c], ~one, full), 1e-6)


def test_outside_of_nan_is_missing(rng):
    image = rng.random((8, 9))
    found = filter2d(image, KERNEL, border="constant", value=np.nan, normalize=True)
    around = quotients(np.pad(image, 1), np.pad(np.ones((8, 9), bool), 1), KERNEL)[1:-1, 1:-1]
    np.testing.assert_allclose(found, around, rtol=1e-12)
    zeros = filter2d(image, KERNEL, border="constant", normalize=True)
    expected = ndimage.correlate(image, KERNEL, mode="constant") / KERNEL.sum()
    np.testing.assert_allclose(zeros, expected, rtol=1e-12)


def test_infinities_are_present_and_banks_have_a_quotient_each(rng):
    image = rng.random((9, 9))
    image[4, 4], image[0, 0] = np.inf, np.nan
    bank = np.stack([KERNEL, np.ones((3, 3))])
    found = filter2d(image, bank, normalize=True)
    for one, kernel in zip(found, bank, strict=True):
        assert np.isinf(one[3:6, 3:6]).all()
        expected = quotients(np.where(np.isinf(image), 0, image), ~np.isnan(image), kernel)
        np.testing.assert_allclose(one[:3], expected[:3], rtol=1e-12)


def test_named_filters_take_masks(rng):
    image = rng.random((13, 14, 2))
    image[5, 6, 0] = np.nan
    mask = rng.random(image.shape) < 0.2
    expected = np.stack(
        [
            quotients(image[..., c], ~(mask | np.isnan(image))[..., c], np.ones((3, 3)))
            for c in range(2)
        ]
    )
    found = box(image, mask=mask, normalize=True)
    np.testing.assert_allclose(np.moveaxis(found, -1, 0), expected, rtol=1e-12)
    moved = gaussian(
        np.moveaxis(image, -1, 0), mask=np.moveaxis(mask, -1, 0), normalize=True, channel_axis=0
    )
    np.testing.assert_allclose(
        np.moveaxis(moved, 0, -1), gaussian(image, mask=mask, normalize=True), rtol=1e-12
    )


@pytest.mark.parametrize("dtype", ["uint8", "float32", "float64", "int64"])
def test_one_kernel_for_each_channel(dtype, rng):
    image = (rng.random((10, 11, 3)) * 200).astype(dtype)
    kernels = rng.integers(-4, 5, (3, 3, 4)) / 2
    found = filter2d(image, kernels, per_channel=True)
    out = np.empty_like(image)
    assert filter2d(image, kernels, per_channel=True, out=out) is out
    np.testing.assert_array_equal(out, found)
    for c in range(3):
        expected = ndimage.correlate(image[..., c].astype(float), kernels[c], mode="mirror")
        if np.dtype(dtype).kind != "f":
            limits = np.iinfo(dtype)
            expected = np.clip(np.rint(expected), limits.min, float(limits.max))
        np.testing.assert_allclose(
            found[..., c], expected, rtol=1e-5, atol=1e-3 * (dtype[0] == "f")
        )
    with pytest.raises(ValueError, match=r"kernel must have one kernel .* for each channel"):
        filter2d(image, kernels[:2], per_channel=True)
    with pytest.raises(TypeError, match="per_channel must be"):
        filter2d(image, kernels, per_channel=1)


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ({"mask": np.zeros((3, 3), int)}, TypeError, "mask must be of bool"),
        ({"mask": np.zeros((3, 3), bool)}, ValueError, "mask must have shape"),
        ({"normalize": 1}, TypeError, "normalize must be"),
        ({"kernel": [[1, -1]], "normalize": True}, ValueError, "kernel must have a finite sum"),
        ({"dtype": np.int16, "normalize": True}, TypeError, "dtype must be float16"),
    ],
    ids=["type", "shape", "flag", "sum", "dtype"],
)
def test_wrong_arguments_are_named(arguments, error, match):
    with pytest.raises(error, match=match):
        filter2d(**{"image": np.zeros((6, 7), np.uint8), "kernel": KERNEL, **arguments})
