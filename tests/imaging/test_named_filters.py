"""Filters with names, compared with SciPy, scikit-image and OpenCV under their conventions."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from scipy import ndimage
from skimage import filters

from pplconv.imaging import box, filter2d, gaussian, laplace, scharr, sobel, unsharp
from tests.imaging.image_reference import exactly

SHAPES = [(23, 31), (17, 20, 3)]
BORDERS = [("reflect101", "mirror"), ("reflect", "reflect"), ("replicate", "nearest")]


@pytest.mark.parametrize(("border", "theirs"), BORDERS)
@pytest.mark.parametrize("shape", SHAPES)
def test_gaussian_is_that_of_scipy_and_scikit_image(shape, border, theirs, rng):
    """Sigma, its order of axes, the truncation and the channels."""
    image = rng.standard_normal(shape)
    for sigma, truncate in ((1.0, 4.0), ((0.7, 2.1), 3.0), ((0, 1.5), 2.5)):
        found = gaussian(image, sigma, truncate=truncate, border=border)
        both = (sigma, sigma) if isinstance(sigma, float) else sigma
        flat = (*both, 0) if len(shape) > 2 else both
        expected = ndimage.gaussian_filter(image, flat, mode=theirs, truncate=truncate)
        np.testing.assert_allclose(found, expected, atol=1e-12)
        expected = filters.gaussian(
            image, both, mode=theirs, truncate=truncate, channel_axis=2 if len(shape) > 2 else None
        )
        np.testing.assert_allclose(found, expected, atol=1e-12)


def test_gaussian_of_a_radius_is_that_of_opencv(rng):
    image = rng.standard_normal((20, 33)).astype(np.float32)
    expected = cv2.GaussianBlur(image, (7, 11), sigmaX=1.3, sigmaY=2.0)
    found = gaussian(image, (2.0, 1.3), radius=(5, 3))
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_gaussian_of_integers_is_rounded_once(rng):
    image = rng.integers(0, 256, (19, 14), dtype=np.uint8)
    expected = np.rint(ndimage.gaussian_filter(image.astype(float), 1.2, mode="mirror"))
    found = gaussian(image, 1.2)
    assert found.dtype == np.uint8
    np.testing.assert_array_equal(found, expected)
    exact = gaussian(image, 1.2, dtype=np.float64)
    expected = ndimage.gaussian_filter(image.astype(float), 1.2, mode="mirror")
    np.testing.assert_allclose(exact, expected, rtol=1e-13)


@pytest.mark.parametrize("size", [1, 3, 4, (2, 5), (7, 1)])
def test_box_is_that_of_scipy_and_opencv(size, rng):
    image = rng.standard_normal((15, 22))
    found = box(image, size, border="reflect")
    np.testing.assert_allclose(found, ndimage.uniform_filter(image, size), atol=1e-13)
    rows, columns = (size, size) if isinstance(size, int) else size
    np.testing.assert_allclose(box(image, size), cv2.blur(image, (columns, rows)), atol=1e-13)


def test_box_of_integers(rng):
    image = rng.integers(0, 256, (12, 13, 1), dtype=np.uint8)
    expected = exactly(image, np.full((3, 5), 1 / 3 / 5), (1, 2), "reflect", 0, np.uint8)
    np.testing.assert_array_equal(box(image, (3, 5), border="reflect"), expected)


@pytest.mark.parametrize(
    ("ours", "theirs", "one", "scale"),
    [(sobel, filters.sobel, cv2.Sobel, 1 / 4), (scharr, filters.scharr, cv2.Scharr, 1 / 16)],
    ids=["sobel", "scharr"],
)
def test_derivatives(ours, theirs, one, scale, rng):
    """Weights and signs of OpenCV; with `scale` those of scikit-image."""
    image = rng.integers(0, 256, (16, 21), dtype=np.uint8)
    for axis, (dx, dy) in enumerate([(0, 1), (1, 0)]):
        found = ours(image, axis)
        assert found.dtype == np.int16
        np.testing.assert_array_equal(found, one(image, cv2.CV_16S, dx, dy))
        real = image / 16
        found = ours(real, axis, scale=scale, border="reflect")
        np.testing.assert_allclose(found, theirs(real, axis=axis), atol=1e-13)
    magnitude = ours(real, scale=scale / np.sqrt(2), border="reflect")
    np.testing.assert_allclose(magnitude, theirs(real), atol=1e-13)
    assert ours(image).dtype == np.float32
    expected = np.hypot(*(one(image, cv2.CV_64F, dx, 1 - dx) for dx in (0, 1)))
    np.testing.assert_allclose(ours(image), expected, rtol=1e-6)


def test_sobel_is_that_of_scipy(rng):
    image = rng.standard_normal((14, 14))
    for axis in (0, 1):
        expected = ndimage.sobel(image, axis)
        np.testing.assert_allclose(sobel(image, axis, border="reflect"), expected, atol=1e-13)


def test_laplace(rng):
    """The sign of SciPy and OpenCV, and the opposite of that of scikit-image."""
    image = rng.integers(0, 256, (15, 18), dtype=np.uint8)
    np.testing.assert_array_equal(laplace(image), cv2.Laplacian(image, cv2.CV_16S))
    real = image / 8
    found = laplace(real, border="reflect")
    np.testing.assert_allclose(found, ndimage.laplace(real), atol=1e-12)
    np.testing.assert_allclose(found, -filters.laplace(real), atol=1e-12)
    with pytest.raises(TypeError, match="dtype must be"):
        laplace(real, dtype=np.uint8)


@pytest.mark.parametrize("shape", SHAPES)
def test_unsharp(shape, rng):
    """With ``channel_axis=-1``, scikit-image 0.26 leaves its result unwritten."""
    image = rng.random(shape)
    expected = filters.unsharp_mask(
        image, 1.5, 0.7, preserve_range=True, channel_axis=2 if len(shape) > 2 else None
    )
    np.testing.assert_allclose(unsharp(image, 1.5, 0.7, border="reflect"), expected, atol=1e-12)
    inner = unsharp(image, 1.5, 0.7, mode="valid")
    np.testing.assert_allclose(inner, expected[6:-6, 6:-6], atol=1e-12)
    pixels = rng.integers(0, 256, shape, dtype=np.uint8)
    blurred = ndimage.gaussian_filter(pixels.astype(float), (1, 1, 0)[: len(shape)], mode="mirror")
    expected = np.clip(np.rint(pixels + 2.0 * (pixels - blurred)), 0, 255)
    np.testing.assert_array_equal(unsharp(pixels, 1, 2.0), expected)


@pytest.mark.parametrize("axis", [0, 1, -3, -2])
def test_channels_on_another_axis(axis, rng):
    image = rng.standard_normal((11, 12, 2))
    moved = np.moveaxis(image, -1, axis)
    for call in (gaussian, box, sobel, scharr, laplace, unsharp):
        expected = np.moveaxis(call(image, mode="valid"), -1, axis)
        out = np.empty(expected.shape)
        assert call(moved, channel_axis=axis, mode="valid", out=out) is out
        np.testing.assert_array_equal(out, expected)
        np.testing.assert_array_equal(call(moved, channel_axis=axis, mode="valid"), expected)


@pytest.mark.parametrize("call", [gaussian, box, sobel, scharr, laplace, unsharp])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.uint8, bool, np.int16, np.int32])
def test_results_are_written_to_out(call, dtype, rng):
    image = (rng.random((9, 10)) * 99).astype(dtype)
    expected = call(image)
    out = np.empty_like(expected)
    assert call(image, out=out) is out
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize(
    ("call", "arguments", "error", "match"),
    [
        (gaussian, {"sigma": -1}, ValueError, "sigma must not be negative"),
        (gaussian, {"sigma": "a"}, TypeError, "sigma must be a number"),
        (gaussian, {"sigma": (1, 2, 3)}, ValueError, "sigma must be one value or two"),
        (gaussian, {"sigma": np.nan}, ValueError, "sigma must be finite"),
        (gaussian, {"sigma": 1e9}, ValueError, "sigma and truncate must give fewer"),
        (gaussian, {"radius": -1}, ValueError, "radius is -1"),
        (gaussian, {"truncate": -1}, ValueError, "truncate must not"),
        (box, {"size": 0}, ValueError, "size is 0"),
        (box, {"size": 2.5}, TypeError, "size must be an integer"),
        (sobel, {"axis": 2}, ValueError, "axis is 2"),
        (sobel, {"scale": None}, TypeError, "scale must be a number"),
        (sobel, {"dtype": np.uint8}, TypeError, "dtype must be .* for the magnitude"),
        (scharr, {"channel_axis": 3}, ValueError, "channel_axis is 3"),
        (laplace, {"mode": "nearest"}, ValueError, "mode must be one of same, valid"),
        (unsharp, {"amount": np.inf}, ValueError, "amount must be finite"),
        (box, {"size": 9, "mode": "valid"}, ValueError, "must be no larger than the image"),
    ],
)
def test_wrong_arguments_are_named(call, arguments, error, match):
    with pytest.raises(error, match=match):
        call(np.zeros((6, 7), np.uint8), **arguments)


def test_valid_results_are_those_that_see_no_border(rng):
    for dtype in (np.uint8, np.float32, np.float64, np.int32):
        image = (rng.random((12, 15, 2)) * 200).astype(dtype)
        kernel = rng.integers(-3, 4, (4, 3)) / 2
        same = filter2d(image, kernel, border="wrap")
        valid = filter2d(image, kernel, mode="valid", border="wrap", anchor=(0, 0))
        np.testing.assert_array_equal(valid, same[2:-1, 1:-1])
