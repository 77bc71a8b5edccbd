"""Filters that are kept from call to call: none answers for another one."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import scipy.ndimage
import scipy.signal

import pplconv
from pplconv.imaging import filter2d, kept_filters, sepfilter2d


def mirrored(image, kernel):
    """The result in float64, from SciPy."""
    return scipy.ndimage.correlate(image.astype(np.float64), kernel, mode="mirror")


@pytest.fixture(autouse=True)
def nothing_kept():
    """Begin and end with an empty memory."""
    kept_filters._kept.clear()
    kept_filters._bytes = 0
    yield
    kept_filters._kept.clear()
    kept_filters._bytes = 0


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float32, np.float64])
def test_a_kernel_that_is_changed_in_place_is_another(dtype, rng):
    image = rng.integers(0, 100, (20, 30)).astype(dtype)
    kernel = rng.integers(-2, 3, (3, 3)).astype(np.float64)
    for _ in range(3):
        expected = mirrored(image, kernel)
        got = filter2d(image, kernel, dtype=None if dtype in (np.float32, np.float64) else "int32")
        np.testing.assert_array_equal(got, expected)
        kernel[1, 1] += 1


def test_each_argument_counts(rng):
    """One call after the other, with values that are equal in Python among them."""
    image = rng.integers(0, 256, (9, 12)).astype(np.uint8)
    kernel = rng.integers(0, 3, (3, 3)).astype(np.float64)
    calls = [
        {"border": "wrap"}, {"border": "constant"}, {"border": "constant", "value": 7},
        {"border": "constant", "value": 7.0}, {"anchor": (0, 0)}, {"anchor": (0, 1)},
        {"flip": True}, {"flip": False}, {"dtype": np.uint16}, {"dtype": "int16"},
        {"dtype": np.dtype(np.float32)}, {"dtype": np.float64}, {"threads": 3}, {},
    ]  # fmt: skip
    for call in [*calls, *calls]:
        got = filter2d(image, kernel, **call)
        # SciPy's origins are counted from the centre, in the order of axes.
        x, y = call.get("anchor", (1, 1))
        turned = kernel[::-1, ::-1] if call.get("flip") else kernel
        expected = scipy.ndimage.correlate(
            image.astype(np.float64), turned, mode=call.get("border", "mirror"),
            cval=call.get("value", 0), origin=(y - 1, x - 1),
        )  # fmt: skip
        dtype = np.dtype(call.get("dtype", np.uint8))
        if dtype.kind in "ui":
            expected = expected.clip(0, np.iinfo(dtype).max)
        assert got.dtype == dtype
        np.testing.assert_array_equal(got, expected)
    assert len(kept_filters._kept) == len(calls) - 1  # of two with the default of `flip`
    with pytest.raises(TypeError, match="flip"):
        filter2d(image, kernel, flip=1)
    with pytest.raises(TypeError, match="anchor"):
        filter2d(image, kernel, anchor=(0.0, 1.0))
    with pytest.raises(TypeError, match="value"):
        filter2d(image, kernel, border="constant", value=True)


def test_nan_around_an_image_is_kept(rng):
    """Though it is not equal to itself; zeros of both signs are two values."""
    image, kernel = rng.random((9, 12)), rng.random((3, 3))
    for value in (np.nan, 0.0, -0.0, np.inf):
        expected = scipy.ndimage.correlate(image, kernel, mode="constant", cval=value)
        for _ in range(2):
            got = filter2d(image, kernel, border="constant", value=float(value))
            np.testing.assert_allclose(got, expected)
    assert len(kept_filters._kept) == 4


def test_a_class_with_a_type_of_its_own_is_asked_each_time(rng):
    """What NumPy makes of it may change."""
    image, kernel = rng.integers(0, 9, (9, 12)).astype(np.uint8), rng.integers(0, 3, (3, 3))

    class Own:
        dtype = np.dtype(np.int16)

    for dtype in (np.int16, np.float32):
        Own.dtype = np.dtype(dtype)
        got = filter2d(image, kernel, dtype=Own)
        assert got.dtype == dtype
        np.testing.assert_array_equal(got, mirrored(image, kernel))
    for wrong in (dict, object, "no", "f4,(", [1]):
        with pytest.raises(TypeError, match="dtype must be"):
            filter2d(image, kernel, dtype=wrong)


def test_lists_are_kept_by_their_numbers(rng):
    image, kernel = rng.random((9, 12)), rng.integers(0, 9, (3, 3))
    for _ in range(2):
        np.testing.assert_allclose(filter2d(image, kernel.tolist()), mirrored(image, kernel))
        row, column = kernel[0].tolist(), kernel[:, 0].tolist()
        expected = mirrored(image, np.outer(column, row))
        np.testing.assert_allclose(sepfilter2d(image, row, column), expected)
    assert len(kept_filters._kept) == 2
    for wrong in ([], [[]], [[1, 2], [3]], [[1, [2]]], [1, [2]]):
        with pytest.raises((TypeError, ValueError), match="kernel"):
            filter2d(image, wrong)


def test_the_bound_counts_taps_as_they_are_prepared(rng):
    """A kernel of bytes takes as much as one of float64."""
    image, sizes = rng.random((16, 16)), []
    for dtype in (np.int8, np.float64):
        filter2d(image, rng.integers(0, 9, (9, 9)).astype(dtype))
        sizes.append(kept_filters._bytes - sum(sizes))
    assert sizes[0] == sizes[1] >= 4 * 8 * 81
    filter2d(image, np.ones((50, 50), np.int8))  # too large to be kept
    assert len(kept_filters._kept) == 2


def test_sums_of_larger_integers_are_others(rng):
    """The type of sums depends on pixels: float32 does not hold these."""
    kernel = np.array([[1, 2], [3, -4]], np.int32)
    for largest in (9, 1 << 28, 9, 1 << 28):
        image = rng.integers(0, largest, (9, 12)).astype(np.int32)
        np.testing.assert_array_equal(
            pplconv.imaging.convolve2d(image, kernel), scipy.signal.convolve2d(image, kernel)
        )
    assert len(kept_filters._kept) == 2


def test_forms_of_the_image_count(rng):
    """Strides, channels and types: the same numbers give the same results."""
    image = rng.integers(0, 256, (12, 10, 3)).astype(np.uint8)
    kernel = rng.integers(-2, 3, (3, 3)).astype(np.float64)
    expected = np.stack([mirrored(image[:, :, c], kernel) for c in range(3)], axis=2)
    forms = [
        image, np.asfortranarray(image), image.astype(np.int16), image[:, ::-1].copy()[:, ::-1],
        np.repeat(image, 2, axis=0)[::2],
    ]  # fmt: skip
    for form in [*forms, *forms]:
        np.testing.assert_array_equal(filter2d(form, kernel, dtype=np.int32), expected)


def test_axes_of_one_element_have_any_strides(rng):
    kernel = rng.random((3, 3))
    for image in (rng.random((10, 5, 3))[:, ::5], rng.random((12, 7, 1))[::12]):
        expected = np.stack([mirrored(x, kernel) for x in np.moveaxis(image, 2, 0)], axis=2)
        for _ in range(2):
            np.testing.assert_allclose(filter2d(image, kernel), expected)
    image, out = rng.random((8, 9)), np.empty((2, 8, 9))[::2]
    for _ in range(2):
        filter2d(image, kernel[None], out=out)
        np.testing.assert_allclose(out[0], mirrored(image, kernel))


def test_a_kernel_that_changes_during_the_call(rng, monkeypatch):
    """Another thread writes to it: what is kept is the filter of the key."""
    from pplconv.imaging import filtering

    image, kernel = rng.random((9, 12)), np.ones((3, 3))
    checked = filtering.check_image

    def changing(image):
        kernel[...] = 5
        return checked(image)

    monkeypatch.setattr(filtering, "check_image", changing)
    filter2d(image, kernel)
    monkeypatch.undo()
    np.testing.assert_allclose(filter2d(image, np.ones((3, 3))), mirrored(image, np.ones((3, 3))))
    np.testing.assert_allclose(filter2d(image, kernel), mirrored(image, kernel))


def test_an_image_between_elements_is_another_form(rng):
    """Of the same shape, type and strides as the one before."""
    kernel = rng.random((3, 3))
    for dtype in (np.float32, np.int16):
        image = rng.integers(0, 99, (9, 12)).astype(dtype)
        memory = np.empty(image.nbytes + 1, np.uint8)
        moved = memory[1:].view(dtype).reshape(image.shape)
        moved[...] = image
        assert not moved.flags.aligned
        for one in (image, moved, image, moved):
            got = filter2d(one, kernel, dtype=np.float64 if dtype == np.int16 else None)
            np.testing.assert_allclose(got, mirrored(image, kernel), rtol=1e-5)


def test_a_changed_environment_prepares_again(monkeypatch, rng):
    image = rng.random((16, 16)).astype(np.float32)
    kernel = rng.random((3, 3))
    filter2d(image, kernel)
    filter2d(image, kernel)
    assert len(kept_filters._kept) == 1
    monkeypatch.setenv("PPLCONV_MAX_ISA", "portable")
    np.testing.assert_allclose(filter2d(image, kernel), mirrored(image, kernel), rtol=1e-5)
    assert len(kept_filters._kept) == 2
    with pplconv.runtime.team(3):
        filter2d(image, kernel)
    assert len(kept_filters._kept) == 3


def test_the_memory_is_bounded(rng, monkeypatch):
    monkeypatch.setattr(kept_filters, "MOST", 5)
    image = rng.random((16, 16)).astype(np.float32)
    for _ in range(9):
        filter2d(image, rng.random((3, 3)))
    assert len(kept_filters._kept) == 5
    monkeypatch.setattr(kept_filters, "MOST_BYTES", 40_000)
    for _ in range(9):
        filter2d(image, rng.random((5, 5)))
        assert sum(size for _, size in kept_filters._kept.values()) == kept_filters._bytes
        assert 0 < kept_filters._bytes <= 40_000
    filter2d(image, rng.random((50, 50)))  # too large to be kept
    assert all((50, 50) not in key[5] for key in kept_filters._kept)


def test_out_is_checked_each_time(rng):
    image, kernel = rng.random((16, 16)), rng.random((3, 3))
    out = np.empty((16, 16))
    for _ in range(2):
        assert filter2d(image, kernel, out=out) is out
        np.testing.assert_allclose(out, mirrored(image, kernel))
        for wrong in (np.empty((16, 17)), np.empty((16, 16), np.float32), out.T, image):
            with pytest.raises((TypeError, ValueError), match="out"):
                filter2d(image, kernel, out=wrong)


def test_separable_filters_are_kept_apart_from_others(rng):
    image = rng.integers(0, 256, (16, 16)).astype(np.uint8)
    row, column = rng.integers(0, 4, (1, 3)), rng.integers(0, 4, (3, 1))
    row, column = row.astype(np.float64), column.astype(np.float64)
    for _ in range(2):
        got = sepfilter2d(image, row, column, dtype=np.int32)
        np.testing.assert_array_equal(got, mirrored(image, column * row))
        got = filter2d(image, row, dtype=np.int32)
        np.testing.assert_array_equal(got, mirrored(image, row))


def test_many_threads_share_a_filter(rng):
    images = [rng.integers(0, 256, (40, 50)).astype(np.uint8) for _ in range(8)]
    kernel = rng.integers(-3, 4, (5, 5)).astype(np.float64)
    wrong = []

    def work(image):
        expected = mirrored(image, kernel)
        for _ in range(50):
            if not np.array_equal(filter2d(image, kernel, dtype=np.int32), expected):
                wrong.append(image)

    threads = [threading.Thread(target=work, args=(image,)) for image in images]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_functions_of_signals_are_kept_by_all_of_their_arguments(dtype, rng):
    """Modes, boundaries, fill values and turned kernels, one after the other and again."""
    image, kernel = (rng.integers(-9, 9, shape).astype(dtype) for shape in ((9, 12), (3, 2)))
    for _ in range(2):
        for ours, theirs in (
            (pplconv.imaging.correlate2d, scipy.signal.correlate2d),
            (pplconv.imaging.convolve2d, scipy.signal.convolve2d),
        ):
            for mode in ("full", "same", "valid"):
                for boundary, fill in (("fill", 0), ("fill", 3), ("wrap", 0), ("symm", 0)):
                    expected = theirs(image, kernel, mode, boundary, fill)
                    got = ours(image, kernel, mode, boundary, fill)
                    np.testing.assert_array_equal(got, expected)
            np.testing.assert_array_equal(
                ours(kernel, image, "valid"), theirs(kernel, image, "valid")
            )
        kernel[0, 0] += 1
