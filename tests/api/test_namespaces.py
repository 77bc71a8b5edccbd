"""Results come back in the library of the input: by its namespace, as PyTorch's, or as NumPy's."""

from __future__ import annotations

import types

import array_api_strict as strict
import ml_dtypes
import numpy as np
import pytest

import pplconv
from tests.api import torch_stand_in
from tests.api.buffers import draw
from tests.api.torch_stand_in import Tensor

F32 = np.float32


def conv(rng):
    return pplconv.Conv2d(draw(rng, 8, 6, 3, 3), padding=1)


def qconv(rng):
    return pplconv.QConv2d(np.ones((8, 6, 3, 3), np.int8), padding=1, out_dtype="int32")


def by_weight(call, *shape):
    """A function of two arrays as one of the first."""
    return lambda rng: (lambda w: lambda x, out=None: call(x, w, out=out))(draw(rng, *shape))


def of_bytes(call, *shape):
    return lambda rng: lambda x, out=None: call(x, np.ones(shape, np.int8), out=out)


def qconv2d(x, w, out=None):
    return pplconv.qconv2d(x, 0.5, 3, w, 0.25, 0, 9.0, np.uint8(1), out=out)


def qmatmul(x, w, out=None):
    return pplconv.qmatmul(x, 0.5, 3, w, 0.25, 0, 9.0, np.uint8(1), out=out)


CALLS = {
    "conv2d": by_weight(pplconv.conv2d, 8, 6, 3, 3),
    "Conv2d": conv,
    "conv1d": by_weight(pplconv.conv1d, 8, 6, 3),
    "conv_transpose1d": by_weight(pplconv.conv_transpose1d, 6, 8, 3),
    "conv3d": by_weight(pplconv.conv3d, 8, 6, 2, 3, 3),
    "Conv3d": lambda rng: pplconv.Conv3d(draw(rng, 8, 6, 2, 3, 3), padding=1),
    "conv_transpose3d": by_weight(pplconv.conv_transpose3d, 6, 8, 2, 3, 3),
    "conv_transpose2d": by_weight(pplconv.conv_transpose2d, 6, 8, 3, 3),
    "ConvTranspose2d": lambda rng: pplconv.ConvTranspose2d(draw(rng, 6, 8, 2, 2), stride=2),
    "matmul": by_weight(pplconv.matmul, 7, 5),
    "Linear": lambda rng: pplconv.Linear(draw(rng, 5, 7)),
    "conv2d_integer": of_bytes(pplconv.conv2d_integer, 8, 6, 3, 3),
    "qconv2d": of_bytes(qconv2d, 8, 6, 3, 3),
    "QConv2d": qconv,
    "matmul_integer": of_bytes(pplconv.matmul_integer, 7, 5),
    "qmatmul": of_bytes(qmatmul, 7, 5),
}
BYTES = ("conv2d_integer", "qconv2d", "QConv2d", "matmul_integer", "qmatmul")

# Shapes of inputs that are no images.
SHAPES = {"1d": (1, 6, 9), "3d": (1, 6, 3, 9, 7)}


@pytest.fixture(params=CALLS)
def case(request, rng):
    """Give a call, an input for it, and the result for that as an ndarray."""
    call = CALLS[request.param](rng)
    if request.param in BYTES:
        x = rng.integers(0, 256, (1, 6, 9, 7)).astype(np.uint8)
    else:
        x = draw(rng, *SHAPES.get(request.param[-2:], (1, 6, 9, 7)))
    return call, x, call(x)


def test_arrays_of_the_array_api_give_such(case):
    call, x, expected = case
    y = call(strict.asarray(x))
    assert isinstance(y, type(strict.asarray(x)))
    assert np.from_dlpack(y).tobytes() == expected.tobytes()
    assert np.from_dlpack(y).dtype == expected.dtype


def test_numpy_lists_and_subclasses_give_ndarrays(case):
    call, x, expected = case
    for given in (x, x.view(type("Sub", (np.ndarray,), {})), np.asfortranarray(x)):
        y = call(given)
        assert type(y) is np.ndarray and y.tobytes() == expected.tobytes()
    if x.dtype == F32:
        y = call(x.tolist())
        assert type(y) is np.ndarray and y.tobytes() == expected.tobytes()


def test_out_is_returned_as_it_was_given(case):
    call, x, expected = case
    out = np.empty_like(expected)
    assert call(strict.asarray(x), out=out) is out
    assert out.tobytes() == expected.tobytes()


def test_the_first_operand_decides(rng):
    a, b = draw(rng, 3, 4), draw(rng, 4, 5)
    assert type(pplconv.matmul(a, strict.asarray(b))) is np.ndarray
    assert type(pplconv.matmul(a.tolist(), strict.asarray(b))) is np.ndarray
    assert type(pplconv.matmul(strict.asarray(a), b)) is type(strict.asarray(a))


def test_layouts_change_within_a_library(rng):
    x = draw(rng, 1, 20, 5, 6)
    blocked = pplconv.to_blocked(strict.asarray(x), 8)
    assert type(blocked) is type(strict.asarray(x))
    back = pplconv.from_blocked(blocked, 20)
    assert type(back) is type(blocked) and np.from_dlpack(back).tobytes() == x.tobytes()


class Given:
    """An array of a library that knows the array API; `namespace` is what it says it is from."""

    def __init__(self, a, namespace):
        self._a, self._namespace = a, namespace

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self._a, dtype)

    def __array_namespace__(self, *, api_version=None):
        return self._namespace


def test_results_are_handed_over_without_a_copy(case):
    call, x, expected = case
    handed = []
    library = types.SimpleNamespace(from_dlpack=lambda y: handed.append(y) or "theirs")
    assert call(Given(x, library)) == "theirs"
    (y,) = handed
    assert type(y) is np.ndarray and y.flags.writeable and y.tobytes() == expected.tobytes()


@pytest.mark.parametrize("error", [None, BufferError, TypeError])
def test_libraries_that_refuse_dlpack_are_asked_for_an_array(error, case):
    call, x, expected = case

    def from_dlpack(y):
        raise error

    library = types.SimpleNamespace(asarray=lambda y: ("theirs", y))
    if error is not None:
        library.from_dlpack = from_dlpack
    word, y = call(Given(x, library))
    assert word == "theirs" and y.tobytes() == expected.tobytes()


def test_numpy_as_a_namespace_gives_ndarrays(case):
    call, x, expected = case
    y = call(Given(x, np))
    assert type(y) is np.ndarray and y.tobytes() == expected.tobytes()


@pytest.fixture
def torch(monkeypatch):
    torch_stand_in.install(monkeypatch)


def test_tensors_give_tensors(torch, case):
    call, x, expected = case
    y = call(Tensor(x))
    assert type(y) is Tensor and type(y.a) is np.ndarray
    assert y.a.tobytes() == expected.tobytes()


def test_tensors_of_bfloat16_give_such(torch, rng):
    brain = ml_dtypes.bfloat16
    x, w = draw(rng, 1, 6, 9, 7).astype(brain), draw(rng, 8, 6, 3, 3).astype(brain)
    word, bits = pplconv.conv2d(Tensor(x), w)
    assert word == "bfloat16" and bits.tobytes() == pplconv.conv2d(x, w).tobytes()


def test_others_are_asked_for_nothing(torch, case):
    call, x, expected = case

    class Exporter:
        """Neither a tensor nor of the array API."""

        __dlpack__, __dlpack_device__ = x.__dlpack__, x.__dlpack_device__

    y = call(Exporter())
    assert type(y) is np.ndarray and y.tobytes() == expected.tobytes()
