"""Conventions of other libraries, as the table of docs/imaging.md has them, by those libraries."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageFilter
from scipy import ndimage, signal

from pplconv.imaging import box, convolve2d, correlate2d, filter2d, gaussian, sepfilter2d
from tests.imaging.image_reference import geometries

NDIMAGE = {
    "reflect101": "mirror",
    "reflect": "reflect",
    "replicate": "nearest",
    "wrap": "wrap",
    "constant": "constant",
}
OPENCV = {
    "reflect101": cv2.BORDER_REFLECT_101,
    "reflect": cv2.BORDER_REFLECT,
    "replicate": cv2.BORDER_REPLICATE,
    "constant": cv2.BORDER_CONSTANT,
}
SEEDS = st.integers(0, 2**32 - 1)


def small(shape, rng, dtype=np.float64):
    """Integers so small that every library's sums are exact."""
    return rng.integers(0, 16, shape).astype(dtype)


@given(geometries(), st.sampled_from(list(NDIMAGE)), st.booleans(), SEEDS)
def test_ndimage(geometry, border, flip, seed):
    """`origin` counts from the centre, `k // 2`, of a kernel that turns as well."""
    rng = np.random.default_rng(seed)
    (h, w, _), extent, (y, x) = geometry
    image, kernel = small((h, w), rng), small(extent, rng) - 8
    function = ndimage.convolve if flip else ndimage.correlate
    origin = y - extent[0] // 2, x - extent[1] // 2
    expected = function(image, kernel, mode=NDIMAGE[border], cval=3, origin=origin)
    found = filter2d(image, kernel, border=border, value=3, anchor=(x, y), flip=flip)
    np.testing.assert_array_equal(found, expected)


DEPTHS = [
    ("uint8", "uint8"), ("uint8", "int16"), ("uint8", "float32"), ("uint16", "uint16"),
    ("int16", "int16"), ("uint16", "float32"), ("float32", "float32"), ("float64", "float64"),
]  # fmt: skip


@given(geometries(), st.sampled_from(DEPTHS), st.sampled_from(list(OPENCV)), st.booleans(), SEEDS)
def test_opencv(geometry, types, border, centre, seed):
    """Anchors, borders and `ddepth` are OpenCV's; sums that float32 holds are equal."""
    rng = np.random.default_rng(seed)
    shape, extent, anchor = geometry
    anchor = (-1, -1) if centre else anchor[::-1]
    image, kernel = small(shape, rng, types[0]), small(extent, rng) / 2 - 4
    depth = cv2.CV_MAKETYPE({"uint8": 0, "uint16": 2, "int16": 3, "float32": 5, "float64": 6}[
        types[1]], 1)  # fmt: skip
    expected = cv2.filter2D(image, depth, kernel, anchor=anchor, borderType=OPENCV[border])
    found = filter2d(image, kernel, border=border, anchor=anchor, dtype=types[1])
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected.reshape(found.shape))


@given(geometries(), st.sampled_from(list(OPENCV)), SEEDS)
def test_opencv_separable(geometry, border, seed):
    rng = np.random.default_rng(seed)
    shape, (kh, kw), (y, x) = geometry
    image, row, column = small(shape, rng, np.float32), small(kw, rng) - 8, small(kh, rng) - 8
    expected = cv2.sepFilter2D(image, -1, row, column, anchor=(x, y), borderType=OPENCV[border])
    found = sepfilter2d(image, row, column, border=border, anchor=(x, y))
    np.testing.assert_array_equal(found, expected.reshape(found.shape))


def test_opencv_rounds_half_to_even_and_refuses_to_wrap():
    image = np.arange(16, dtype=np.uint8).reshape(4, 4)
    halves = cv2.filter2D(image, -1, np.array([[0.5]]))
    np.testing.assert_array_equal(halves, np.rint(image / 2).astype(np.uint8))
    np.testing.assert_array_equal(filter2d(image, [[0.5]]), halves)
    with pytest.raises(cv2.error):
        cv2.filter2D(image, -1, np.ones((3, 3)), borderType=cv2.BORDER_WRAP)


def test_ndimage_cuts_and_wraps_integers():
    """What the table says of it, and where `filter2d` differs."""
    image = np.array([[3, 200, 255]], np.uint8)
    assert ndimage.correlate(image, [[0.5]]).tolist() == [[1, 100, 127]]
    assert filter2d(image, [[0.5]]).tolist() == [[2, 100, 128]]
    assert ndimage.correlate(image, [[2]]).tolist() == [[6, 144, 254]]
    assert filter2d(image, [[2]]).tolist() == [[6, 255, 255]]


TYPES = ["uint8", "int8", "uint16", "int32", "int64", "uint64", "float32", "float64"]
PAIRS = st.tuples(st.integers(1, 7), st.integers(1, 7))


@given(
    st.sampled_from([correlate2d, convolve2d]), PAIRS, PAIRS,
    st.sampled_from(["full", "valid", "same"]), st.sampled_from(["fill", "wrap", "symm"]),
    st.sampled_from(TYPES), st.sampled_from(TYPES), SEEDS,
)  # fmt: skip
def test_signal(function, first, second, mode, boundary, one, other, seed):
    """Shapes, types, the swap of `mode="valid"` and integers that wrap around."""
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, 100, first).astype(one), rng.integers(0, 100, second).astype(other)
    theirs = getattr(signal, function.__name__)
    try:
        expected = theirs(a, b, mode, boundary, 7)
    except ValueError:
        with pytest.raises(ValueError, match="in1"):
            function(a, b, mode, boundary, 7)
        return
    found = function(a, b, mode, boundary, 7)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


def test_signal_on_larger_arrays(rng):
    a, b = rng.standard_normal((200, 310)), rng.standard_normal((25, 14))
    for mode in ("full", "valid", "same"):
        expected = signal.fftconvolve(a, b, mode)
        np.testing.assert_allclose(convolve2d(a, b, mode), expected, atol=1e-11)


def test_signal_refuses_sums_that_it_could_not_hold():
    with pytest.raises(ValueError, match="2\\*\\*53"):
        correlate2d(np.full((3, 3), 2**50), np.full((2, 2), 4))
    with pytest.raises(TypeError, match=r"in2 must be of integers.*complex"):
        correlate2d(np.ones((3, 3)), np.ones((2, 2), complex))


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ({"mode": "all"}, ValueError, "mode must be one of full, valid, same"),
        ({"boundary": "reflect"}, ValueError, "boundary must be one of fill, wrap, symm"),
        ({"fillvalue": [1, 2]}, TypeError, "fillvalue"),
        ({"fillvalue": 1j}, TypeError, "fillvalue"),
        ({"in1": np.ones(3)}, ValueError, "in1 must have 2 dimensions"),
        ({"in2": np.ones((0, 3))}, ValueError, "in2 must not be empty"),
        ({"in1": np.ma.ones((3, 3))}, TypeError, "in1 must not be a masked array"),
    ],
    ids=["mode", "boundary", "fillvalue", "complex", "in1", "in2", "mask"],
)
def test_signal_names_what_is_wrong(arguments, error, match):
    given_ = {"in1": np.ones((3, 3)), "in2": np.ones((2, 2)), **arguments}
    with pytest.raises(error, match=match):
        correlate2d(**given_)


@pytest.mark.filterwarnings("ignore:Casting complex values")  # of SciPy's
@pytest.mark.parametrize("call", [correlate2d, convolve2d])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16])
def test_what_lies_around_integers_is_one_of_them(call, dtype, rng):
    """SciPy refuses Python's integers that the type does not hold, on Arm by NumPy's warning."""
    a, b = (rng.integers(0, 5, shape).astype(dtype) for shape in ((5, 6), (3, 3)))
    limits = np.iinfo(dtype)
    for wrong in (limits.min - 1, limits.max + 1):
        with pytest.raises((ValueError, RuntimeWarning), match=r"could not cast|value .* in cast"):
            getattr(signal, call.__name__)(a, b, fillvalue=wrong)
        for value in (wrong, np.int64(wrong), float(wrong)):
            with pytest.raises(ValueError, match=f"fillvalue must be .* {np.dtype(dtype)} holds"):
                call(a, b, fillvalue=value)
    for wrong in (np.nan, np.inf):
        with pytest.raises(ValueError, match="fillvalue must be"):
            call(a, b, fillvalue=wrong)
    for value in (limits.min, limits.max, 1.5, True, np.float32(3)):
        expected = getattr(signal, call.__name__)(a, b, fillvalue=value)
        np.testing.assert_array_equal(call(a, b, fillvalue=value), expected)


@pytest.mark.parametrize("sums", [{}, {"scale": 1}, {"scale": 64, "offset": 7}])
def test_pillow(sums, rng):
    """The row of docs/migration.md: rows from the bottom, halves up, the rim copied."""
    image, kernel = rng.integers(0, 256, (20, 30), np.uint8), rng.integers(-9, 12, (3, 3))
    kernel[1, 1] += 32 - kernel.sum()
    read = Image.fromarray(image).filter(ImageFilter.Kernel((3, 3), kernel.ravel(), **sums))
    exact = filter2d(image.astype(float), kernel[::-1] / sums.get("scale", 32))
    expected = np.clip(np.floor(exact + sums.get("offset", 0) + 0.5), 0, 255)
    expected[[0, -1]], expected[:, [0, -1]] = image[[0, -1]], image[:, [0, -1]]
    np.testing.assert_array_equal(np.asarray(read), expected)


@pytest.mark.parametrize("ours, theirs, argument", [
    (gaussian, ndimage.gaussian_filter, 2.0), (box, ndimage.uniform_filter, 5),
], ids=["gaussian", "box"])  # fmt: skip
def test_ndimage_filters_the_third_axis_too(ours, theirs, argument, rng):
    image = rng.random((40, 50, 3))
    got = ours(image, argument, border="reflect")
    np.testing.assert_allclose(got, theirs(image, argument, axes=(0, 1)), rtol=1e-12)
    assert np.abs(got - theirs(image, argument)).max() > 0.1
