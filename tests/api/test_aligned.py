"""Arrays that begin on a cache line: `empty_aligned`, and the results that pplconv makes."""

from __future__ import annotations

import numpy as np
import pytest

import pplconv

LINE = 64


def starts_on_a_line(array) -> bool:
    return array.ctypes.data % LINE == 0


@pytest.mark.parametrize("shape", [7, (), (0, 3), (1, 3, 5), [4, 5, 6, 7], (np.int64(3), 2)])
@pytest.mark.parametrize("dtype", [np.float32, "f8", np.dtype("<i2"), bool])
def test_shape_type_and_place(shape, dtype):
    array = pplconv.empty_aligned(shape, dtype)
    like = np.empty(shape, dtype)
    assert (array.shape, array.dtype) == (like.shape, like.dtype)
    assert array.flags.c_contiguous and array.flags.writeable and array.flags.aligned
    assert starts_on_a_line(array)


def test_every_byte_is_its_own():
    arrays = [pplconv.empty_aligned(n, np.uint8) for n in range(200)]
    for i, array in enumerate(arrays):
        array[...] = i
    for i, array in enumerate(arrays):
        assert (array == i).all()


def test_float32_unless_said_otherwise():
    assert pplconv.empty_aligned(3).dtype == np.float32


@pytest.mark.parametrize(
    ("shape", "dtype", "error", "name"),
    [
        ((3, -1), np.float32, ValueError, "shape"),
        (2.5, np.float32, TypeError, "shape"),
        (("a",), np.float32, TypeError, "shape"),
        (3, object, TypeError, "dtype"),
        (1 << 62, np.float64, (MemoryError, ValueError, OverflowError), "."),
    ],
)
def test_what_cannot_be_made(shape, dtype, error, name):
    with pytest.raises(error, match=name):
        pplconv.empty_aligned(shape, dtype)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_large_results_start_on_a_line(layout, rng):
    x = rng.standard_normal((2, 24, 24, 24)).astype(np.float32)
    w = rng.standard_normal((24, 24, 3, 3)).astype(np.float32)
    conv = pplconv.Conv2d(w, padding=1, layout=layout)
    results = [conv(x) for _ in range(8)]
    results += [pplconv.conv2d(x, w, padding=1, layout=layout) for _ in range(8)]
    assert all(starts_on_a_line(y) for y in results)
    # A place of its own for each: none is written twice.
    assert all((y == results[0]).all() for y in results[:8])


def test_blocked_arrays_start_on_a_line(rng):
    x = rng.standard_normal((2, 40, 16, 16)).astype(np.float32)
    blocked = [pplconv.to_blocked(x) for _ in range(8)]
    back = [pplconv.from_blocked(b, 40) for b in blocked]
    assert all(starts_on_a_line(y) for y in [*blocked, *back])
    assert all((y == x).all() for y in back)
