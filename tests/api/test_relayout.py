"""``to_blocked`` and ``from_blocked``: each element where it belongs, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pplconv
from tests.api.blocks import in_blocks, lanes_of_no_channel, out_of_blocks
from tests.api.buffers import untouched
from tests.api.huge_arrays import WIDE, huge, needs_huge_arrays

DTYPES = ["float32", "float64"]
BLOCKS = [1, 2, 3, 4, 5, 7, 8, 12, 15, 16, 17, 31, 32, 33, 48, 63, 64]


def any_bits(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Give elements of every kind: NaN with payloads, infinities, denormals, both zeros."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return rng.integers(0, 256, size, np.uint8).view(dtype).reshape(shape)


def check(x: np.ndarray, block: int) -> None:
    """Go there and back, and compare both ways bit for bit."""
    channels = x.shape[-3]
    expected = in_blocks(x, block)
    with untouched(x):
        blocked = pplconv.to_blocked(x, block)
    assert type(blocked) is np.ndarray
    assert blocked.shape == expected.shape and blocked.dtype == x.dtype
    assert blocked.flags.c_contiguous and blocked.flags.writeable
    assert blocked.tobytes() == expected.tobytes()
    # What stands in the lanes of no channel is never looked at.
    lanes_of_no_channel(blocked, channels)[...] = 42
    with untouched(blocked):
        planes = pplconv.from_blocked(blocked, channels)
        whole = pplconv.from_blocked(blocked)
    assert type(planes) is np.ndarray
    assert planes.shape == x.shape and planes.dtype == x.dtype
    assert planes.flags.c_contiguous and planes.flags.writeable
    assert planes.tobytes() == x.tobytes()
    assert whole.tobytes() == out_of_blocks(blocked, expected.shape[-4] * block).tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("block", BLOCKS)
def test_every_number_of_channels(block, dtype, rng):
    for channels in range(1, 71):
        check(any_bits(rng, (2, channels, 5, 7), dtype), block)


@pytest.mark.parametrize("dtype", DTYPES)
@given(data=st.data())
def test_any_shape(dtype, data):
    batch = data.draw(st.sampled_from([None, 0, 1, 2, 3]))
    shape = data.draw(st.tuples(st.integers(1, 130), st.integers(1, 20), st.integers(1, 70)))
    if batch is not None:
        shape = (batch, *shape)
    numbers = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    check(any_bits(numbers, shape, dtype), data.draw(st.integers(1, 64)))


@pytest.mark.sampled(22)
@pytest.mark.parametrize("threads", [1, 2, 3, 7])
@pytest.mark.parametrize(
    "shape",
    [
        (1, 64, 112, 112),  # one image, whole blocks
        (1, 3, 301, 299),  # one block that is mostly lanes of no channel
        (3, 130, 57, 61),  # tails of channels and of pixels
        (17, 256, 7, 7),  # many images of few pixels
        (1, 40, 64, 64),  # segments of pixels that come out even
        (1, 1000, 9, 1),
    ],
)
@pytest.mark.parametrize("dtype", DTYPES)
def test_large_arrays_for_any_team(dtype, shape, threads, monkeypatch, rng):
    monkeypatch.setenv("PPLCONV_NUM_THREADS", str(threads))
    for block in (8, 16, 20):
        check(any_bits(rng, shape, dtype), block)


def test_a_wish_for_more_threads_than_a_process_can_have(monkeypatch, rng):
    monkeypatch.setenv("PPLCONV_NUM_THREADS", "65536")
    check(any_bits(rng, (1, 64, 80, 80), "float32"), 16)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "shape",
    [(0, 20, 6, 7), (2, 0, 6, 7), (2, 20, 0, 7), (2, 20, 6, 0), (0, 0, 0, 0), (20, 0, 7)],
)
def test_arrays_without_elements(shape, dtype):
    x = np.zeros(shape, dtype)
    blocked = pplconv.to_blocked(x, 8)
    assert blocked.dtype == dtype
    assert blocked.shape == (*shape[:-3], -(-shape[-3] // 8), *shape[-2:], 8)
    planes = pplconv.from_blocked(blocked, shape[-3])
    assert (planes.shape, planes.dtype) == (shape, dtype)


def test_the_default_block_is_what_both_functions_agree_on(rng):
    for dtype in DTYPES:
        x = any_bits(rng, (2, 20, 5, 6), dtype)
        blocked = pplconv.to_blocked(x)
        assert blocked.tobytes() == in_blocks(x, blocked.shape[-1]).tobytes()
        assert pplconv.from_blocked(blocked, 20).tobytes() == x.tobytes()


def test_lists_are_float64():
    blocked = pplconv.to_blocked([[[1, 2.5]], [[3, 4]], [[5, 6]]], block=2)
    assert blocked.dtype == np.float64
    assert blocked.tolist() == [[[[1, 3], [2.5, 4]]], [[[5, 0], [6, 0]]]]
    assert pplconv.from_blocked(blocked.tolist(), channels=3).tolist() == [
        [[1, 2.5]], [[3, 4]], [[5, 6]],
    ]  # fmt: skip


def f32(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


REFUSED = {
    pplconv.to_blocked: [
        ((f32(6, 7),), ValueError, ("x ", "3 or 4", "(6, 7)")),
        ((f32(1, 2, 6, 7, 8),), ValueError, ("x ", "3 or 4", "(1, 2, 6, 7, 8)")),
        ((np.zeros((2, 3, 4), np.int64),), TypeError, ("x ", "int64")),
        ((np.zeros((2, 3, 4), np.int16),), TypeError, ("x ", "int16")),
        ((None,), (TypeError, ValueError), ("x ",)),
        ((f32(2, 3, 4), 0), ValueError, ("block", "1", "0")),
        ((f32(2, 3, 4), -8), ValueError, ("block", "-8")),
        ((f32(2, 3, 4), 65), ValueError, ("block", "64", "65")),
        ((f32(2, 3, 4), 8.0), TypeError, ("block", "8.0")),
        ((f32(2, 3, 4), "8"), TypeError, ("block", "'8'")),
        ((f32(2, 3, 4), True), TypeError, ("block", "True")),
        *([((huge(2**57, 1, 1, 1), 64), ValueError, ("x ",))] if WIDE else []),
    ],
    pplconv.from_blocked: [
        ((f32(6, 7, 8),), ValueError, ("x ", "4 or 5", "(6, 7, 8)")),
        ((f32(1, 1, 2, 6, 7, 8),), ValueError, ("x ", "4 or 5")),
        ((np.zeros((2, 3, 4, 8), np.int32),), TypeError, ("x ", "int32")),
        ((f32(2, 3, 4, 0),), ValueError, ("x ", "1 to 64", "(2, 3, 4, 0)")),
        ((f32(2, 3, 4, 65),), ValueError, ("x ", "1 to 64", "(2, 3, 4, 65)")),
        ((f32(3, 6, 7, 8), 16), ValueError, ("channels", "16", "24")),
        ((f32(3, 6, 7, 8), 25), ValueError, ("channels", "24", "25")),
        ((f32(3, 6, 7, 8), 0), ValueError, ("channels", "0")),
        ((f32(0, 6, 7, 8), 1), ValueError, ("channels", "1")),
        ((f32(3, 6, 7, 8), -1), ValueError, ("channels", "-1")),
        ((f32(3, 6, 7, 8), 20.0), TypeError, ("channels", "20.0")),
        ((f32(3, 6, 7, 8), False), TypeError, ("channels", "False")),
    ],
}


@pytest.mark.parametrize(
    ("change", "arguments", "error", "shows"),
    [(change, *case) for change, cases in REFUSED.items() for case in cases],
)
def test_what_is_refused(change, arguments, error, shows):
    with pytest.raises(error) as caught:
        change(*arguments)
    assert [text for text in shows if text not in str(caught.value)] == []


@needs_huge_arrays
def test_memory_that_cannot_be_had():
    with pytest.raises(MemoryError):
        pplconv.to_blocked(huge(2**50, 1, 1, 1), 1)
    with pytest.raises(MemoryError):
        pplconv.from_blocked(huge(2**50, 1, 1, 1, 1))
