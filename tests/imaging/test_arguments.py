"""Wrong arguments of filters: each is named, and `out` is untouched."""

from __future__ import annotations

import inspect
import re
import threading

import numpy as np
import pytest
from scipy import ndimage

import pplconv
from pplconv.imaging import convolve2d, correlate2d, filter2d, sepfilter2d
from tests.api.test_arrays import unaligned

IMAGE = np.zeros((6, 7), np.uint8)
KERNEL = np.ones((3, 3))

WRONG = {
    "image type": ({"image": np.zeros((6, 7), np.uint64)}, TypeError, "image must be bool, uint8"),
    "image complex": ({"image": np.zeros((6, 7), complex)}, TypeError, "image must be bool, uint8"),
    "image dimensions": ({"image": np.zeros(6, np.uint8)}, ValueError, "image must have shape"),
    "image empty": ({"image": np.zeros((0, 7), np.uint8)}, ValueError, "image must not be empty"),
    "image mask": ({"image": np.ma.zeros((6, 7), np.uint8)}, TypeError, "image must not be a mask"),
    "kernel type": ({"kernel": KERNEL.astype(complex)}, TypeError, "kernel must be of integers"),
    "kernel dimensions": ({"kernel": np.ones(3)}, ValueError, "kernel must have 2 or 3"),
    "kernel empty": ({"kernel": np.ones((0, 3))}, ValueError, "kernel must not be empty"),
    "kernel infinite": ({"kernel": [[np.inf]]}, ValueError, "kernel must be finite"),
    "kernel large": ({"kernel": np.array([[2**53 + 1]])}, ValueError, "kernel has integers of"),
    "border": ({"border": "mirror"}, ValueError, "border must be one of reflect101"),
    "border type": ({"border": 4}, ValueError, "border must be one of"),
    "value beyond": ({"border": "constant", "value": 256}, ValueError, "value is 256"),
    "value between": ({"border": "constant", "value": 0.5}, TypeError, "value must be an integer"),
    "anchor": ({"anchor": (3, 0)}, ValueError, "anchor must be within the kernel"),
    "anchor negative": ({"anchor": (0, -2)}, ValueError, "anchor must be within the kernel"),
    "anchor type": ({"anchor": 1}, TypeError, "anchor must be a pair"),
    "anchor three": ({"anchor": (1, 1, 1)}, ValueError, "anchor must be a pair"),
    "anchor float": ({"anchor": (1.0, 1)}, TypeError, "anchor must be a pair"),
    "flip": ({"flip": 1}, TypeError, "flip must be True or False"),
    "dtype": ({"dtype": np.int64}, TypeError, "dtype must be uint8"),
    "dtype of nothing": ({"dtype": "colour"}, TypeError, "dtype must be a type of NumPy"),
    "threads": ({"threads": 0}, ValueError, "threads is 0"),
    "threads type": ({"threads": 1.5}, TypeError, "threads must be an integer"),
}


@pytest.mark.parametrize("case", WRONG)
def test_filter2d(case):
    arguments, error, match = WRONG[case]
    out = np.full((6, 7), 77, np.uint8)
    with pytest.raises(error, match=match):
        filter2d(**{"image": IMAGE, "kernel": KERNEL, "out": out, **arguments})
    assert (out == 77).all()


@pytest.mark.parametrize(
    ("name", "kernel", "error"),
    [
        ("kernel_x", np.ones((2, 2)), ValueError),
        ("kernel_y", np.ones(0), ValueError),
        ("kernel_y", ["a"], TypeError),
    ],
    ids=["matrix", "empty", "text"],
)
def test_sepfilter2d(name, kernel, error):
    with pytest.raises(error, match=name):
        sepfilter2d(**{"image": IMAGE, "kernel_x": [1, 2, 1], "kernel_y": [1], name: kernel})


@pytest.mark.parametrize(
    ("out", "error"),
    [
        (np.zeros((7, 6), np.uint8), ValueError),
        (np.zeros((6, 7), np.int16), TypeError),
        (np.zeros((6, 14), np.uint8)[:, ::2], ValueError),
        ([[0]], TypeError),
    ],
    ids=["shape", "type", "strides", "list"],
)
def test_out_that_cannot_be_written(out, error):
    with pytest.raises(error, match="out"):
        filter2d(IMAGE, KERNEL, out=out)


def test_out_must_lie_apart():
    image = np.zeros((6, 7), np.float64)
    with pytest.raises(ValueError, match="out must not overlap image"):
        filter2d(image, KERNEL, out=image)
    kernel = np.ones((6, 7))
    with pytest.raises(ValueError, match="out must not overlap kernel"):
        filter2d(image, kernel, out=kernel)


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float32])
def test_out_is_written_and_returned(dtype, rng):
    image = rng.integers(0, 256, (40, 50, 3), dtype=np.uint8)
    out = np.zeros((40, 50, 3), dtype)
    assert filter2d(image, KERNEL / 4, dtype=dtype, out=out) is out
    np.testing.assert_array_equal(out, filter2d(image, KERNEL / 4, dtype=dtype))
    bank = np.zeros((2, 40, 50, 3), dtype)
    assert filter2d(image, np.stack([KERNEL, KERNEL / 4]), dtype=dtype, out=bank) is bank
    np.testing.assert_array_equal(bank[1], out)


def test_inputs_stay_as_they_are(rng):
    image = rng.integers(0, 256, (40, 50), dtype=np.uint8)
    kernel = rng.standard_normal((3, 5))
    before = image.copy(), kernel.copy()
    image.flags.writeable = kernel.flags.writeable = False
    filter2d(image, kernel, flip=True)
    np.testing.assert_array_equal(image, before[0])
    np.testing.assert_array_equal(kernel, before[1])


def test_lists_are_images_of_float64():
    found = filter2d([[1, 2], [3, 4]], [[1]])
    assert found.dtype == np.float64
    assert found.tolist() == [[1, 2], [3, 4]]


def test_images_of_one_pixel():
    for border in ("reflect101", "reflect", "replicate", "wrap"):
        assert filter2d(np.full((1, 1), 7, np.uint8), np.ones((5, 5)), border=border) == 175


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.float32])
@pytest.mark.parametrize("correlated", [convolve2d, correlate2d])
def test_arrays_that_nobody_could_visit(correlated, dtype, mode):
    """Strides of zero pretend 2**60 elements."""
    endless = np.broadcast_to(dtype(1), (1 << 30, 1 << 30))
    for second in (np.ones((3, 3), dtype), endless, endless[: 1 << 29]):
        with pytest.raises((MemoryError, ValueError)):
            correlated(endless, second, mode)
    if dtype is not np.int32:
        with pytest.raises(MemoryError):
            filter2d(endless, KERNEL)
        with pytest.raises((MemoryError, ValueError)):
            filter2d(IMAGE, endless)


def test_many_threads_filter_at_once(rng):
    """More kernels than prepared convolutions are kept, from several threads."""
    image = rng.integers(0, 256, (60, 70), dtype=np.uint8)
    kernels = [np.full((2, 2), number / 8) for number in range(80)]
    expected = [filter2d(image, kernel) for kernel in kernels]
    wrong = []

    def work():
        for kernel, one in zip(kernels, expected, strict=True):
            if not np.array_equal(filter2d(image, kernel), one):
                wrong.append(kernel)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_team_around_the_call_counts(monkeypatch, rng):
    from pplconv.imaging import noted

    teams = []
    prepared = noted.prepared
    monkeypatch.setattr(noted, "prepared", lambda *a: teams.append(a[5]) or prepared(*a))
    kernel = rng.random((3, 3))  # which no other test has had prepared
    with pplconv.runtime.team(3):
        filter2d(IMAGE, kernel)
        filter2d(IMAGE, kernel, threads=2)
    assert teams == [3, 2]


def test_the_package_has_the_room():
    assert pplconv.imaging.filter2d is filter2d
    assert "imaging" in dir(pplconv)
    for function in (filter2d, sepfilter2d, correlate2d, convolve2d):
        assert inspect.getdoc(function).count("Examples") == 1


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
@pytest.mark.parametrize("kind", [unaligned, np.matrix], ids=["unaligned", "matrix"])
@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float16, np.float32, np.float64])
def test_images_of_any_kind_of_array_are_filtered(kind, dtype, rng):
    """A np.matrix is an array of two dimensions; results are arrays."""
    image, kernel = rng.integers(0, 5, (6, 7)).astype(dtype), rng.integers(-2, 3, (3, 3))
    tall = rng.integers(0, 3, 3).astype(np.float64)
    square = np.lib.stride_tricks.sliding_window_view(np.pad(image.astype(int), 1), (3, 3))
    whole = np.lib.stride_tricks.sliding_window_view(np.pad(image.astype(int), 2), (3, 3))
    limits = np.iinfo(dtype) if np.dtype(dtype).kind in "ui" else np.finfo(dtype)
    for found, expected in (
        (
            filter2d(kind(image), kind(kernel.astype(float)), border="constant"),
            np.clip((square * kernel).sum((2, 3)), limits.min, limits.max),
        ),
        (
            sepfilter2d(kind(image), kind(tall[None]), kind(tall[None]), border="constant"),
            np.clip((square * np.outer(tall, tall)).sum((2, 3)), limits.min, limits.max),
        ),
        (
            correlate2d(kind(image), kind(kernel.astype(np.int8).astype(dtype))),
            (whole * kernel.astype(dtype).astype(int)).sum((2, 3)).astype(dtype),
        ),
    ):
        assert type(found) is np.ndarray
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.float32])
def test_what_callers_raise_for_is_theirs(dtype, rng):
    """Taps that a type does not hold are rounded to zero, whatever numpy.errstate says."""
    image = rng.integers(0, 9, (9, 8)).astype(dtype)
    at = np.arange(31) - 15
    taps = np.exp(-(at**2) / 2 / 0.6**2)
    taps /= taps.sum()
    square = np.lib.stride_tricks.sliding_window_view(
        np.pad(image.astype(float), 15, "wrap"), (31, 31)
    )
    expected = np.einsum("hwij,i,j->hw", square, taps, taps)
    with np.errstate(all="raise"):
        for found in (
            sepfilter2d(image, taps, taps, border="wrap"),
            filter2d(image, np.outer(taps, taps), border="wrap"),
        ):
            assert abs(found.astype(float) - expected).max() <= (
                0.501 if dtype is np.uint8 else 0.01
            )


@pytest.mark.parametrize("argument", ["border", "mode"])
@pytest.mark.parametrize(
    "word", ["mirror", "nearest", "grid-mirror", "grid-wrap", "grid-constant", "reflect"]
)
def test_words_of_scipy_are_told_what_they_are_here(argument, word, rng):
    """The border that the message names gives SciPy's values."""
    image, kernel = rng.standard_normal((6, 7)), rng.standard_normal((5, 3))
    if argument == "border" and word == "reflect":
        found = "reflect"
    else:
        with pytest.raises(ValueError, match=r"that is border='[a-z0-9]*' here$") as caught:
            filter2d(image, kernel, **{argument: word})
        (found,) = re.findall("that is border='(.*)' here", str(caught.value))
    expected = ndimage.correlate(image, kernel, mode=word)
    np.testing.assert_allclose(filter2d(image, kernel, border=found), expected, atol=1e-13)
