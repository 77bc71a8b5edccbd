"""Filters give back an array of the library that the image is from."""

from __future__ import annotations

import array_api_strict as strict
import numpy as np
import pytest

from pplconv import imaging
from tests.api import torch_stand_in
from tests.api.torch_stand_in import Tensor

KERNEL = np.array([[1, 2, 0], [0, -1, 3], [2, 0, 1]])
BANK = np.stack([KERNEL, KERNEL.T, -KERNEL])
LARGE = np.arange(144).reshape(12, 12)

# Calls of an image; `theirs` makes an array of the other library from one of NumPy.
CALLS = {
    "filter2d": lambda x, theirs: imaging.filter2d(x, theirs(KERNEL)),
    "another type": lambda x, theirs: imaging.filter2d(x, theirs(KERNEL), dtype="float64"),
    "a bank": lambda x, theirs: imaging.filter2d(x, theirs(BANK), border="wrap"),
    "sepfilter2d": lambda x, theirs: imaging.sepfilter2d(x, theirs(KERNEL[0]), theirs(KERNEL[1])),
    "correlate2d": lambda x, theirs: imaging.correlate2d(x[:, :, 0], theirs(KERNEL)),
    "convolve2d": lambda x, theirs: imaging.convolve2d(x[:, :, 0], theirs(KERNEL), "same"),
    "in2 is larger": lambda x, theirs: imaging.correlate2d(x[:, :, 0], theirs(LARGE), "valid"),
}


@pytest.fixture(params=CALLS)
def case(request, rng):
    """Give a call, an image, and the result for that as an ndarray."""
    call = CALLS[request.param]
    image = rng.integers(0, 256, (9, 7, 3)).astype(np.uint8)
    return call, image, call(image, np.asarray)


def test_arrays_of_the_array_api_give_such(case):
    call, image, expected = case
    y = call(strict.asarray(image), strict.asarray)
    assert type(y) is type(strict.asarray(image))
    found = np.from_dlpack(y)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


def test_numpy_gives_ndarrays_whatever_the_kernel_is(case):
    call, image, expected = case
    y = call(image, strict.asarray)
    assert type(y) is np.ndarray
    np.testing.assert_array_equal(y, expected)


def test_exporters_without_a_namespace_give_ndarrays(rng):
    image = rng.standard_normal((6, 5)).astype(np.float32)

    class Exporter:
        __dlpack__, __dlpack_device__ = image.__dlpack__, image.__dlpack_device__

    y = imaging.filter2d(Exporter(), KERNEL)
    assert type(y) is np.ndarray
    np.testing.assert_array_equal(y, imaging.filter2d(image, KERNEL))
    y = imaging.correlate2d(Exporter(), KERNEL)
    assert type(y) is np.ndarray
    np.testing.assert_array_equal(y, imaging.correlate2d(image, KERNEL))


def test_tensors_give_tensors_on_the_memory_of_the_result(monkeypatch, rng):
    torch_stand_in.install(monkeypatch)
    image = rng.integers(0, 256, (9, 7)).astype(np.uint8)
    for function in (imaging.filter2d, imaging.correlate2d, imaging.convolve2d):
        y = function(Tensor(image), KERNEL)
        assert type(y) is Tensor and y.a.flags.writeable
        np.testing.assert_array_equal(y.a, function(image, KERNEL))


def test_out_is_returned_as_it_was_given(rng):
    image = rng.integers(0, 256, (9, 7, 3)).astype(np.uint8)
    out = np.empty_like(image)
    assert imaging.filter2d(strict.asarray(image), KERNEL, out=out) is out
    np.testing.assert_array_equal(out, imaging.filter2d(image, KERNEL))
    assert imaging.sepfilter2d(strict.asarray(image), [1, 2], [3, 1], out=out) is out
    np.testing.assert_array_equal(out, imaging.sepfilter2d(image, [1, 2], [3, 1]))
