"""The loops of filters: bands of any height, any team, every type of pixels, what is open."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.signal

from pplconv import imaging, runtime
from pplconv.api.conv import Conv2d
from pplconv.imaging import bands
from pplconv.imaging.banded import READ, Banded, Rounding, RowSums, Short
from pplconv.ops.edges import runs_of, source_index
from tests.imaging.image_reference import BORDERS, exactly, padded


@pytest.fixture(params=[1, 3000, 1 << 19])
def band_bytes(request, monkeypatch):
    """Have bands of few rows and of many."""
    monkeypatch.setattr(bands, "BAND_BYTES", request.param)
    monkeypatch.setattr(bands, "LEAST_ROWS", 1)
    monkeypatch.setattr(bands, "WHOLE_BYTES", 0)


def numbers(rng, shape, dtype):
    """Draw pixels whose small sums are exact."""
    signed = np.dtype(dtype).kind != "u"
    return rng.integers(-60 if signed else 0, 120, shape).astype(dtype)


def summed(image, kernel, border):
    """Correlate (H, W, C) in float64, about the centre."""
    kh, kw = kernel.shape
    sides = (kh // 2, kh - 1 - kh // 2), (kw // 2, kw - 1 - kw // 2)
    around = padded(image.astype(np.float64), sides, border, 0)
    windows = np.lib.stride_tricks.sliding_window_view(around, kernel.shape, axis=(0, 1))
    return np.einsum("hwcij,ij->hwc", windows, kernel)


@pytest.mark.sampled(280)
@pytest.mark.usefixtures("band_bytes")
@pytest.mark.parametrize("dtype", ["u1", "i1", "u2", "i2", "f2", "f4", "f8"])
@pytest.mark.parametrize("result", ["f4", "f8", "i2", "i4"])
@pytest.mark.parametrize("border", BORDERS)
def test_every_type_that_is_read(dtype, result, border, rng):
    """Sums of small numbers are exact, in whatever type; 17 numbers or more take a kernel."""
    if np.dtype(dtype).kind == "f" and np.dtype(result).kind != "f":
        result = "f2"
    kernel = rng.integers(-4, 5, (3, 4)).astype(np.float64)
    for shape in ((11, 3, 1), (7, 19, 3), (2, 70, 1)):
        image = numbers(rng, shape, dtype)
        got = imaging.filter2d(image, kernel, border=border, dtype=result)
        np.testing.assert_array_equal(got, summed(image, kernel, border).astype(result))


@pytest.mark.usefixtures("band_bytes")
@pytest.mark.parametrize("dtype", ["uint8", "float32", "float64"])
@pytest.mark.parametrize("channels", [1, 3])
def test_a_band_more_or_a_thread_more_changes_no_bit(dtype, channels, rng):
    """Neither of one kernel, nor of a bank, nor of vectors."""
    image = rng.uniform(0, 255, (61, 43, channels)).astype(dtype)
    bank, row, column = rng.random((3, 5, 4)), rng.random(7), rng.random(4)
    bank /= bank.sum((1, 2), keepdims=True)

    def results(threads):
        with runtime.team(threads):
            return (
                imaging.filter2d(image, bank[0]), imaging.filter2d(image, bank),
                imaging.sepfilter2d(image, row / row.sum(), column / column.sum()),
            )  # fmt: skip

    expected = results(1)
    for threads in (2, 5):
        for got, one in zip(results(threads), expected, strict=True):
            np.testing.assert_array_equal(got, one)
    for got, one in zip(expected[1], bank, strict=True):
        np.testing.assert_array_equal(got, imaging.filter2d(image, one))


@pytest.mark.sampled(6)
@pytest.mark.usefixtures("band_bytes")
@pytest.mark.parametrize("dtype", ["uint8", "int16"])
@pytest.mark.parametrize("extent", [(1, 6), (3, 4), (9, 9)])
def test_many_sums_that_are_open(dtype, extent, rng):
    """Means of 6, 12 or 81 pixels that are half integers, or nearly, and a kernel beyond them."""
    image = rng.integers(0, 3, (23, 31, 2)).astype(dtype)
    near = np.full(extent, 1 / (2 * extent[1]))
    small = near * (1 + 1e-9 * rng.standard_normal(extent))
    for kernel in (near, small):
        got = imaging.filter2d(image, kernel, border="reflect")
        anchor = extent[0] // 2, extent[1] // 2
        expected = exactly(image, kernel, anchor, "reflect", 0, dtype)
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("layout", ["columns first", "turned", "channels turned", "swapped"])
def test_images_are_converted_once(layout, rng, monkeypatch):
    """However many parts the results are made in."""
    monkeypatch.setattr(bands, "PART_BYTES", 5000)
    image = rng.integers(0, 256, (60, 40, 3), np.uint16)
    laid = {
        "columns first": np.asfortranarray(image), "turned": image[:, ::-1].copy()[:, ::-1],
        "channels turned": image[:, :, ::-1].copy()[:, :, ::-1], "swapped": image.astype(">u2"),
    }[layout]  # fmt: skip
    converted = []

    def readable(image, computed):
        converted.append(made(image, computed))
        return converted[-1]

    made = bands._readable
    monkeypatch.setattr(bands, "_readable", readable)
    kernel = rng.integers(-9, 9, (5, 5)).astype(np.float64)
    for result in ("int32", "float16", "uint8"):
        got = imaging.filter2d(laid, kernel, border="reflect101", dtype=result)
        expected = imaging.filter2d(image, kernel, border="reflect101", dtype=result)
        np.testing.assert_array_equal(got, expected)
    assert sum(not np.shares_memory(one, image) for one in converted) == 3
    assert all(one.dtype == np.uint16 and one.flags.c_contiguous for one in converted)


@pytest.mark.parametrize("turned", [np.asfortranarray, lambda x: x[:, ::-1], np.ascontiguousarray])
def test_arrays_of_long_integers_are_converted_once(turned, rng, monkeypatch):
    """Whatever the parts that their sums are made in."""
    monkeypatch.setattr(bands, "PART_BYTES", 5000)
    image = turned(rng.integers(-99, 99, (120, 70), np.int32))
    kernel = rng.integers(-9, 9, (3, 4), np.int32)
    read, parts = [], []
    readable, run_bands = bands._readable, bands._run_bands
    monkeypatch.setattr(bands, "_readable", lambda *a: read.append(readable(*a)) or read[-1])
    monkeypatch.setattr(bands, "_run_bands", lambda *a: parts.append(a[0]) or run_bands(*a))
    found = imaging.convolve2d(image, kernel)
    np.testing.assert_array_equal(found, scipy.signal.convolve2d(image, kernel))
    assert len(read) == 1 and len(parts) > 5
    assert all(np.shares_memory(part, read[0]) for part in parts)


@pytest.fixture
def made(monkeypatch):
    """Collect the arguments of filters that are prepared."""
    found = []
    monkeypatch.setattr(bands, "Banded", lambda *a: found.append(a) or Banded(*a))
    return found


@pytest.mark.parametrize("turned", [np.ascontiguousarray, np.asfortranarray])
def test_a_small_team_leaves_the_share_of_its_call(turned, rng, made):
    """Whether rows are read where they lie or not: one thread pays here, seven were asked for."""
    image = turned(rng.integers(0, 99, (30, 44), np.uint8))
    got = imaging.filter2d(image, np.ones((3, 3)), border="wrap", dtype=np.int32, threads=7)
    np.testing.assert_array_equal(got, summed(image[:, :, None], np.ones((3, 3)), "wrap")[:, :, 0])
    assert [(a[-3], a[-2] >= 7) for a in made] == [(1, True)]


def test_both_passes_of_a_separable_filter_run_in_a_band(rng, made):
    """Few rows between them are kept, so one thread has one band."""
    image = rng.integers(0, 9, (3000, 400)).astype(np.float32)
    row, column = rng.integers(-3, 4, (2, 5)).astype(np.float64)
    got = imaging.sepfilter2d(image, row, column, threads=1)
    expected = summed(image[:, :, None], np.outer(column, row), "reflect101")[:, :, 0]
    np.testing.assert_array_equal(got, expected)
    ((_, sums, *_, extent, band, _, _, _),) = made
    assert sums.passes == 2 and sums.weights.shape == (10,)
    assert extent == (5, 5) and band == 3000


def test_results_that_are_not_read_as_rows(rng, monkeypatch):
    """Other types of results are made of a few rows of sums at a time."""
    monkeypatch.setattr(bands, "PART_BYTES", 5000)
    image = rng.integers(0, 256, (50, 40), np.uint8)
    kernel = rng.integers(-9, 9, (5, 5)).astype(np.float64)
    expected = summed(image[:, :, None], kernel, "wrap")[:, :, 0]
    got = imaging.filter2d(image, kernel, border="wrap", dtype=np.int32)
    np.testing.assert_array_equal(got, expected)
    got = imaging.filter2d(image.astype(np.float32), kernel, border="wrap", dtype=np.float16)
    np.testing.assert_array_equal(got, expected.astype(np.float16))


@pytest.mark.parametrize("edge", BORDERS)
def test_runs_are_the_places(edge):
    """Written out, runs of neighbours give the places that they were made of."""
    for first, count, size in ((0, 5, 5), (-3, 12, 4), (-9, 30, 1), (2, 2, 9), (-5, 3, 7)):
        index = source_index(edge, first, count, size)
        found = np.full(count, -7)
        for to, begin, length in runs_of(index):
            found[to : to + length] = -1 if begin < 0 else np.arange(begin, begin + length)
        np.testing.assert_array_equal(found, index)


WRONG = {
    "row": {"rows": np.array([0, 1, 2, 3, 4, 6])},
    "row before": {"rows": np.array([0, 1, -2, 3, 4, 5])},
    "run": {"runs": np.array([[0, 3, 6]])},
    "run beyond int64": {"runs": np.array([[0, (1 << 63) - 3, 6]])},
    "run beyond the band": {"runs": np.array([[0, -1, 1 << 62], [0, 0, 6]])},
    "gap": {"runs": np.array([[1, 0, 5]])},
    "empty": {"runs": np.array([[0, 0, 0], [0, 0, 6]])},
    "columns": {"runs": np.array([[0, 0, 5]])},
    "rows": {"rows": np.arange(5)},
    "types": {"rows": np.arange(6, dtype=np.int32)},
    "image": {"image": np.zeros((6, 8, 1), np.float32)[:, ::2]},
    "channels": {"image": np.zeros((6, 6, 2), np.float32)},
    "results": {"results": np.empty((1, 4, 4, 1))},
    "more results": {"results": np.empty((2, 4, 4, 1), np.float32)},
    "limits": {"rounding": Rounding(np.zeros((1, 3), "f4"), np.zeros((1, 9)), None, False)},
    "taps": {"rounding": Rounding(np.zeros((1, 5), "f4"), np.zeros((1, 6)), None, False)},
    "factors": {"rounding": Rounding(np.zeros((1, 5), "f4"), np.zeros((1, 9)), None, True)},
    "again": {
        "rounding": Rounding(np.zeros((1, 5), "f4"), np.zeros((1, 9)), np.zeros((1, 9)), False)
    },
}
for case in ("limits", "taps", "factors", "again"):
    WRONG[case]["results"] = np.empty((1, 4, 4, 1), np.uint8)
WORDS = Short((True,), np.ones(9, np.uint16), 2, 0, 0, 0, 0, 255)
BYTES = {
    "image": np.zeros((6, 6, 1), np.uint8), "value": np.zeros(1, np.uint8), "sums": (),
    "results": np.empty((1, 4, 4, 1), np.uint8), "rounding": WORDS,
}  # fmt: skip
WRONG |= {
    "bytes without words": {**BYTES, "rounding": None},
    "words without bytes": {**BYTES, "value": np.zeros(1, np.float32)},
    "words of floats": {**BYTES, "image": np.zeros((6, 6, 1), np.float32)},
    "weights": {**BYTES, "rounding": WORDS._replace(weights=np.ones(8, np.uint16))},
    "types of weights": {**BYTES, "rounding": WORDS._replace(weights=np.ones(9, np.int64))},
    "passes": {**BYTES, "rounding": WORDS._replace(passes=(True,) * 3)},
    "no passes": {**BYTES, "rounding": WORDS._replace(passes=())},
    "two kernels": {**BYTES, "results": np.empty((2, 4, 4, 1), np.uint8)},
    "long results": {**BYTES, "results": np.empty((1, 4, 4, 1), np.int32)},
}
TAPS = {"sums": RowSums(np.ones(9, np.float32), 1)}
WRONG |= {
    "taps of a row": {"sums": RowSums(np.ones(8, np.float32), 1)},
    "types of taps": {"sums": RowSums(np.ones(9), 1)},
    "taps of two passes": {"sums": RowSums(np.ones(9, np.float32), 2)},
    "many passes": {"sums": RowSums(np.ones(9, np.float32), 3)},
    "results of two kernels": {**TAPS, "results": np.empty((2, 4, 4, 1), np.float32)},
    "other taps": {**TAPS, "extent": (2, 3)},
    "moved sums of few rows": {"sums": RowSums(np.ones(6, np.float32), 2, running=True)},
}
# Right except for the type of the results.
WRONG["integers"] = {
    "rounding": Rounding(np.zeros((1, 5), "f4"), np.zeros((1, 9)), None, False),
    "results": np.empty((1, 4, 4, 1), np.int32),
}


@pytest.mark.parametrize("case", WRONG)
def test_the_loops_refuse_what_does_not_go_together(case):
    """Whoever calls them, nothing is read or written outside of the given arrays."""
    call = {
        "image": np.zeros((6, 6, 1), np.float32),
        "sums": (Conv2d(np.ones((1, 1, 3, 3), np.float32), tolerance=0, threads=1),),
        "rows": np.arange(6), "runs": np.array([[0, 0, 6]]), "value": np.zeros(1, np.float32),
        "results": np.empty((1, 4, 4, 1), np.float32), "rounding": None,
        "extent": (3, 3), "band": 2, "threads": 1, "share": 1,
    }  # fmt: skip
    filtered = Banded(**call)
    filtered(call["image"], call["results"])
    Banded(**{**call, **BYTES})
    Banded(**{**call, **TAPS})
    with pytest.raises((ValueError, TypeError)):
        Banded(**{**call, **WRONG[case]})
    other = np.zeros((6, 6, 1), np.float64), np.zeros((5, 6, 1), np.float32)
    for image in (*other, np.zeros((6, 7, 1), np.float32)[:, :-1]):
        with pytest.raises(ValueError, match="of one form"):
            filtered(image, call["results"])
    with pytest.raises(ValueError, match="of one form"):
        filtered(call["image"], call["results"][:, :3])


def test_what_is_read_has_a_kernel_or_a_loop():
    """Types of sums, and of pixels."""
    made = (np.uint8, np.uint16, np.int16, np.float32, np.float64)
    assert set(READ) == {np.dtype(dtype) for dtype in made}
    assert all(dtype.kind in "uif" for pixels in READ.values() for dtype in pixels)
