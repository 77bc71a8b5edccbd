"""Filters that are kept from call to call: none answers for another one."""

from __future__ import annotations

import copy
import inspect
import os
import pickle
import threading
from functools import partial

import numpy as np
import pytest
import scipy.ndimage
import scipy.signal

import pplconv
from pplconv.imaging import (
    box,
    correlate2d,
    filter2d,
    gaussian,
    laplace,
    scharr,
    sepfilter2d,
    sobel,
    unsharp,
)
from pplconv.imaging.kept_filters import keeping, kept_filters


def mirrored(image, kernel):
    """The result in float64, from SciPy."""
    return scipy.ndimage.correlate(image.astype(np.float64), kernel, mode="mirror")


@pytest.fixture(autouse=True)
def nothing_kept():
    """Begin and end with an empty memory."""
    kept_filters.clear()
    yield
    kept_filters.clear()


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
    assert len(kept_filters) == len(calls) - 1  # of two with the default of `flip`
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
    assert len(kept_filters) == 4


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
    assert len(kept_filters) == 2
    for wrong in ([], [[]], [[1, 2], [3]], [[1, [2]]], [1, [2]]):
        with pytest.raises((TypeError, ValueError), match="kernel"):
            filter2d(image, wrong)


def test_the_bound_counts_taps_as_they_are_prepared(rng):
    """A kernel of bytes takes as much as one of float64."""
    image, sizes = rng.random((16, 16)), []
    for dtype in (np.int8, np.float64):
        filter2d(image, rng.integers(0, 9, (9, 9)).astype(dtype))
        sizes.append(kept_filters.size - sum(sizes))
    assert sizes[1] >= sizes[0] >= 4 * 8 * 81
    filter2d(image, np.ones((50, 50), np.int8))  # too large to be kept
    assert len(kept_filters) == 2


def test_sums_of_larger_integers_are_others(rng):
    """The type of sums depends on pixels: float32 does not hold these."""
    kernel = np.array([[1, 2], [3, -4]], np.int32)
    for largest in (9, 1 << 28, 9, 1 << 28):
        image = rng.integers(0, largest, (9, 12)).astype(np.int32)
        np.testing.assert_array_equal(
            pplconv.imaging.convolve2d(image, kernel), scipy.signal.convolve2d(image, kernel)
        )
    # The call itself, which is no one filter, and a filter for each type of sums.
    assert len(kept_filters) == 3


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
    assert len(kept_filters) == 1
    monkeypatch.setenv("PPLCONV_TEAM_START_US", "2")
    np.testing.assert_allclose(filter2d(image, kernel), mirrored(image, kernel), rtol=1e-5)
    assert len(kept_filters) == 2
    with pplconv.runtime.team(3):
        filter2d(image, kernel)
    assert len(kept_filters) == 3


def test_the_memory_is_bounded(rng, monkeypatch):
    monkeypatch.setattr(kept_filters, "most", 5)
    image = rng.random((16, 16)).astype(np.float32)
    for _ in range(9):
        filter2d(image, rng.random((3, 3)))
    assert len(kept_filters) == 5
    monkeypatch.setattr(kept_filters, "most_bytes", 40_000)
    for _ in range(9):
        filter2d(image, rng.random((5, 5)))
        assert 0 < kept_filters.size <= 40_000
    count = len(kept_filters)
    filter2d(image, rng.random((50, 50)))  # too large to be kept
    assert len(kept_filters) == count
    monkeypatch.setattr(kept_filters, "most_bytes", 10_000)
    filter2d(image, rng.random((7, 7)))  # more than a fourth of the bound
    assert len(kept_filters) == count


def test_the_least_recently_used_filter_goes_first(rng, monkeypatch):
    monkeypatch.setattr(kept_filters, "most", 3)
    image, made = rng.random((16, 16)), []
    kernels = [rng.random((3, 3)) for _ in range(4)]

    @keeping("kernel")
    def counted(image, kernel):
        made.append(kernel[0, 0])
        return filter2d(image, kernel)

    for at in (0, 1, 2, 0, 3, 0, 2, 3, 1):
        np.testing.assert_allclose(counted(image, kernels[at]), mirrored(image, kernels[at]))
    assert made == [kernels[at][0, 0] for at in (0, 1, 2, 3, 1)]


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


def in_float64(image, kernel):
    return scipy.ndimage.correlate(image.astype(np.float64), kernel, mode="mirror")


SMOOTH, STEP = np.array([[1.0], [2.0], [1.0]]), np.array([[-1.0, 0.0, 1.0]])
CALLS = {
    "box": (partial(box, size=3), np.full((3, 3), 1 / 9)),
    "gaussian": (
        partial(gaussian, sigma=0.5, radius=1),
        np.outer(*2 * [np.exp([-2, 0, -2]) / np.exp([-2, 0, -2]).sum()]),
    ),
    "sobel": (partial(sobel, axis=1), SMOOTH * STEP),
    "scharr": (partial(scharr, axis=0), np.array([[3.0, 10, 3]]) * STEP.T),
    "laplace": (laplace, np.array([[0, 1, 0], [1, -4, 1], [0, 1, 0]])),
    "unsharp": (
        partial(unsharp, sigma=0, amount=1.0, radius=1), np.pad([[1.0]], 1),
    ),
    "sepfilter2d": (partial(sepfilter2d, kernel_x=[1, 2, 1], kernel_y=[1.0, 0, 3]),
                    np.outer([1.0, 0, 3], [1, 2, 1])),
    "filter2d": (partial(filter2d, kernel=[[1, 2], [3, 4]]), np.array([[1, 2], [3, 4]])),
    "correlate2d": (partial(correlate2d, in2=SMOOTH * STEP, mode="same", boundary="symm"), None),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("dtype", [np.int16, np.float32])
def test_each_function_is_looked_up(name, dtype, rng, monkeypatch):
    """The second call of a form checks and plans nothing, and sees the pixels of its own image."""
    call, kernel = CALLS[name]
    images = [rng.integers(0, 99, (16, 16)).astype(dtype) for _ in range(2)]
    first = call(images[0])
    if name == "unsharp" and dtype == np.float32:
        return  # two filters and a difference; below
    for module in ("filtering.check_image", "signal._array", "noted.prepared"):
        monkeypatch.setattr(f"pplconv.imaging.{module}", None)
    for image, got in ((images[0], first), (images[1], call(images[1]))):
        if kernel is None:
            expected = scipy.signal.correlate2d(image, SMOOTH * STEP, "same", "symm")
        else:
            expected = in_float64(image, kernel)
        rounded = expected if got.dtype.kind == "f" else np.rint(expected)
        np.testing.assert_allclose(got, rounded, rtol=1e-5, atol=1e-4)


def test_calls_that_are_more_than_one_filter(rng):
    """Magnitudes, sharpened floats, means of int32, missing pixels and pixels of bool."""
    image = rng.random((16, 17))
    for _ in range(3):
        along, across = (in_float64(image, k) for k in ((SMOOTH * STEP).T, SMOOTH * STEP))
        np.testing.assert_allclose(sobel(image), np.hypot(along, across), atol=1e-12)
        blurred = in_float64(
            image, np.outer(*2 * [np.exp([-2, 0, -2]) / np.exp([-2, 0, -2]).sum()])
        )
        np.testing.assert_allclose(unsharp(image, 0.5, radius=1), 2 * image - blurred)
        whole = (image * 100).astype(np.int32)
        np.testing.assert_array_equal(laplace(whole), in_float64(whole, CALLS["laplace"][1]))
        hole = image.copy()
        hole[3, 4] = np.nan
        mean = in_float64(np.nan_to_num(hole), np.ones((3, 3)))
        mean /= in_float64(~np.isnan(hole), np.ones((3, 3)))
        np.testing.assert_allclose(box(hole, 3, normalize=True), mean)
        votes = in_float64(image > 0.5, np.ones((3, 3))) >= 5
        np.testing.assert_array_equal(box(image > 0.5, 3), votes)
        image = rng.random((16, 17))


def test_a_kept_function_is_like_any_other():
    for function in (filter2d, sepfilter2d, box, correlate2d):
        assert inspect.isroutine(function) and inspect.unwrap(function) is not function
        assert next(iter(inspect.signature(function).parameters)) in ("image", "in1")
        assert pickle.loads(pickle.dumps(function)) is function
        assert copy.deepcopy(function) is function
        assert function.__doc__ and function.__name__ in repr(function)
    assert pickle.loads(pickle.dumps(partial(box, size=3)))(np.eye(3)).shape == (3, 3)

    class Filters:
        smooth = box

    assert Filters.smooth is box
    with pytest.raises(TypeError, match="image"):  # the object, as for any function
        Filters().smooth()


def test_arguments_by_place_and_by_name_are_the_same(rng):
    image, kernel = rng.random((9, 12)), rng.random((3, 3))
    for _ in range(2):
        got = filter2d(kernel=kernel, border="wrap", image=image)
        np.testing.assert_array_equal(got, filter2d(image, border="wrap", kernel=kernel))
        np.testing.assert_allclose(
            got, scipy.ndimage.correlate(image, kernel, mode="wrap"), rtol=1e-12
        )
    assert len(kept_filters) == 1
    for wrong in (
        partial(filter2d, image), partial(filter2d, image, kernel, "wrap"),
        partial(filter2d, image, kernel, kernel=kernel), partial(filter2d, image, kernel, bad=1),
        partial(filter2d, image, kernel, **{"Border": "wrap"}), filter2d,
    ):  # fmt: skip
        with pytest.raises(TypeError, match="argument"):
            wrong()


def test_out_must_not_overlap_the_kernel(rng):
    memory, image = rng.random((16, 16)), rng.random((16, 16))
    kernel = memory[5:8, 2:5]
    for _ in range(2):
        with pytest.raises(ValueError, match="out must not overlap kernel"):
            filter2d(image, kernel, out=memory)
        np.testing.assert_allclose(filter2d(image, kernel), mirrored(image, kernel))
        with pytest.raises(ValueError, match="out must not overlap image"):
            box(image, 3, out=image)
        np.testing.assert_allclose(box(image, 3), mirrored(image, np.full((3, 3), 1 / 9)))
    frozen = np.empty((16, 16))
    frozen.flags.writeable = False
    for wrong in (frozen, np.empty((16, 32))[:, ::2], np.empty((1, 16, 16)), [[1.0]]):
        with pytest.raises((TypeError, ValueError), match="out must"):
            filter2d(image, kernel, out=wrong)


def test_arrays_of_other_kinds_take_the_long_way(rng):
    image, kernel = rng.random((9, 12)), rng.random((3, 3))

    class Own(np.ndarray):
        pass

    for _ in range(2):
        for given in (image.view(Own), image.tolist(), image.astype(">f8")):
            np.testing.assert_allclose(filter2d(given, kernel), mirrored(image, kernel))
        np.testing.assert_allclose(filter2d(image, kernel.view(Own)), mirrored(image, kernel))
        out = np.empty((9, 12)).view(Own)
        assert filter2d(image, kernel, out=out) is out
        np.testing.assert_allclose(out, mirrored(image, kernel))
        with pytest.raises(TypeError, match="masked"):
            filter2d(np.ma.array(image, mask=image > 2), kernel)
        with pytest.raises(TypeError, match="image must be"):
            filter2d(image * 1j, kernel)
        with pytest.raises(ValueError, match="image must not be empty"):
            filter2d(image[:0], kernel)


def test_kernels_in_any_order_of_bytes_and_strides(rng):
    image, kernel = rng.random((9, 12)), rng.random((3, 4))
    for _ in range(2):
        for given in (
            np.asfortranarray(kernel), kernel.astype(">f8"), np.repeat(kernel, 2, 1)[:, ::2],
            kernel[::-1].copy()[::-1],
        ):  # fmt: skip
            np.testing.assert_allclose(filter2d(image, given), mirrored(image, kernel))
        kernel[1, 2] += 1


def test_an_environment_that_is_replaced_is_read(monkeypatch, rng):
    image, kernel = rng.random((16, 16)).astype(np.float32), rng.random((3, 3))
    filter2d(image, kernel)
    monkeypatch.setattr(os, "environ", {**os.environ, "PPLCONV_NUM_THREADS": "none"})
    with pytest.raises(ValueError, match="PPLCONV_NUM_THREADS"):
        filter2d(image, kernel)
    monkeypatch.undo()
    np.testing.assert_allclose(filter2d(image, kernel), mirrored(image, kernel), rtol=1e-5)
    assert len(kept_filters) == 1
    monkeypatch.setenv("PPLCONV_MAX_ISA", "no")
    with pytest.raises(ValueError, match="PPLCONV_MAX_ISA"):
        filter2d(image, kernel)


def test_threads_that_fill_and_empty_the_table_at_once(rng, monkeypatch):
    """Each has kernels of its own, more than are kept; all of them change the environment."""
    monkeypatch.setattr(kept_filters, "most", 4)
    image = rng.integers(0, 99, (16, 16)).astype(np.float32)
    kernels = rng.integers(-3, 4, (6, 5, 3, 3)).astype(np.float32)
    expected = [[mirrored(image, kernel) for kernel in some] for some in kernels]
    wrong = []

    def work(number):
        for turn in range(60):
            at = turn % 5
            os.environ["PPLCONV_NUM_THREADS"] = str(1 + turn // 10 % 2)
            out = np.empty_like(image) if turn % 2 else None
            got = filter2d(image, kernels[number][at], out=out)
            if not np.array_equal(got, expected[number][at]):
                wrong.append((number, turn))

    monkeypatch.setenv("PPLCONV_NUM_THREADS", "1")
    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(kept_filters) <= 4
