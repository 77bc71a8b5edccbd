"""Arrays go to worker processes and back: each arrives whole, and its receiver owns it."""

from __future__ import annotations

import numpy as np
import pytest

from tests.instances import process_models as models
from tests.instances.process_case import worker

pytestmark = pytest.mark.unemulated("starts dozens of processes, each seconds of emulation")


@pytest.fixture(scope="module")
def echo():
    with worker(models.Echo) as one:
        yield one


def both(rng, *shape):
    return rng.standard_normal(shape)


ARRAYS = {
    "scalar": lambda rng: np.array(3.5),
    "empty": lambda rng: np.empty((0, 7), np.float32),
    "empty and large": lambda rng: np.empty((1 << 20, 0)),
    "one": lambda rng: np.ones(1, np.uint8),
    "below the limit": lambda rng: rng.integers(0, 255, 16383).astype(np.uint8),
    "at the limit": lambda rng: rng.integers(0, 255, 16384).astype(np.uint8),
    "a line and one": lambda rng: rng.integers(0, 255, 16449).astype(np.uint8),
    "float32": lambda rng: rng.standard_normal((1, 64, 62, 63)).astype("f"),
    "NaN and infinities": lambda rng: np.full((100, 100), [np.nan, np.inf] * 50),
    "float16": lambda rng: rng.standard_normal((100, 200)).astype(np.float16),
    "complex": lambda rng: rng.standard_normal((100, 200)) * 1j,
    "bool": lambda rng: rng.standard_normal((300, 100)) > 0,
    "big-endian": lambda rng: rng.standard_normal((70, 70)).astype(">f8"),
    "text": lambda rng: np.array([["ä" * 40, "b"]] * 500),
    "dates": lambda rng: np.arange(9000).astype("M8[s]"),
    "records": lambda rng: np.zeros(3000, [("a", "i4"), ("b", "f8", (2,))]),
    "objects": lambda rng: np.array([{"a": 1}, None, (3,)] * 3000, object),
    "Fortran order": lambda rng: np.asfortranarray(rng.standard_normal((200, 30))),
    "every other": lambda rng: rng.standard_normal((300, 300))[::2, ::3],
    "backwards": lambda rng: rng.standard_normal((300, 300))[::-1, ::-1],
    "transposed": lambda rng: rng.standard_normal((20, 30, 40)).transpose(2, 0, 1),
    "broadcast": lambda rng: np.broadcast_to(rng.standard_normal(100), (100, 100)),
    "unaligned": lambda rng: np.frombuffer(rng.bytes(40_001), np.uint8)[1:].view(np.float32),
    "megabytes": lambda rng: rng.standard_normal((3, 1 << 20)),
}


@pytest.mark.parametrize("kind", ARRAYS)
def test_arrays_come_back_as_they_were(kind, echo, rng):
    sent = ARRAYS[kind](rng)
    for _ in range(2):
        got = echo.run((sent,), {})
        assert type(got) is np.ndarray
        assert got.dtype == sent.dtype and got.shape == sent.shape
        if sent.dtype.hasobject:
            assert got.tolist() == sent.tolist()
        else:
            assert got.tobytes() == sent.tobytes()
        if sent.flags.forc:
            assert got.flags.f_contiguous == sent.flags.f_contiguous
        if sent.nbytes >= 16384 and sent.dtype.kind not in "OM":  # "O" and "M" have no buffers
            assert got.ctypes.data % 64 == 0


def test_every_size_about_lines_and_pages(echo, rng):
    noise = rng.integers(0, 255, 70_000).astype(np.uint8)
    for size in [*range(16380, 16390), *range(65_000, 65_600, 37), 4095, 4096, 4097, 65536]:
        a, b = noise[:size], noise[size // 2 : size // 2 + 17000]
        got = echo.run((a, b, a), {"more": [b, {"x": a}]})
        np.testing.assert_array_equal(got[0][0], a)
        np.testing.assert_array_equal(got[0][1], b)
        assert got[0][2] is got[0][0]
        np.testing.assert_array_equal(got[1]["more"][0], b)
        np.testing.assert_array_equal(got[1]["more"][1]["x"], a)


def test_requests_may_grow_and_shrink(echo, rng):
    noise = rng.integers(0, 255, 5_000_000).astype(np.uint8)
    for size in [10, 200_000, 50, 5_000_000, 1, 20_000, 900_000, 5_000_000, 3]:
        np.testing.assert_array_equal(echo.run((noise[:size],), {}), noise[:size])


def test_what_is_larger_than_any_kept_segment_comes_through(echo):
    large = np.arange(70 << 17, dtype=np.float64)  # 70 MiB
    for _ in range(2):
        np.testing.assert_array_equal(echo.run((large,), {}), large)
        np.testing.assert_array_equal(echo.run((large[:10],), {}), large[:10])


def test_answers_are_the_callers_own(echo, rng):
    sent = rng.standard_normal(50_000)
    first = echo.run((sent,), {})
    copy = first.copy()
    second = echo.run((-sent,), {})
    np.testing.assert_array_equal(first, copy)
    first += 1
    assert first.flags.writeable and second.flags.writeable
    np.testing.assert_array_equal(second, -sent)
    np.testing.assert_array_equal(sent, copy)


@pytest.mark.parametrize("size", [100, 50_000])
def test_the_model_sees_arrays_as_they_are(size, servant):
    array = np.zeros((2, size))
    assert servant.run(("facts", array), {}) == ((2, size), "<f8", True, False, True)
    assert servant.run(("facts", array.T), {}) == ((size, 2), "<f8", False, True, True)
    if size > 100:
        array.flags.writeable = False
        assert servant.run(("facts", array), {})[-1] is False


def test_a_model_may_write_to_what_it_is_given(servant):
    sent = np.zeros(50_000)
    np.testing.assert_array_equal(servant.run(("change", sent), {}), np.ones(50_000))
    assert not sent.any()


def test_a_model_may_keep_what_it_is_given(rng):
    """The memory of a request is reused only when nothing refers to it."""
    sent = [rng.standard_normal(size) for size in (30_000, 30_000, 5, 200_000, 30_000)]
    with worker(models.Servant) as servant:
        for i, x in enumerate(sent):
            assert servant.run(("keep", x), {}) == i + 1
            servant.run(("change", np.full(30_000, 1e6)), {})
        assert servant.run(("sums",), {}) == [float(x[1:].sum()) for x in sent]


def test_the_request_may_be_anything_that_pickles(echo):
    for value in (None, "text", {"a": [1, 2.5, (3,)]}, b"x" * 300_000, bytearray(50_000), 1 << 80):
        assert echo.run((value,), {}) == value
    assert echo.run((1, "two"), {"three": 3}) == ((1, "two"), {"three": 3})


def test_what_cannot_be_sent_is_an_error_of_that_request(echo):
    with pytest.raises((TypeError, AttributeError), match=r"pickle|lambda|local"):
        echo.run((lambda: 1,), {})
    assert echo.run((1,), {}) == 1
