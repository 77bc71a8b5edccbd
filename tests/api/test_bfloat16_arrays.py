"""Arrays and tensors of bfloat16: what is taken, and what they may not be mixed with."""

from __future__ import annotations

import importlib.util
import sys

import numpy as np
import pytest

import pplconv
from tests.api.brain_cases import BF16, draw
from tests.brain_exporter import Exporter

pytestmark = pytest.mark.narrow


@pytest.fixture
def small(rng):
    """Operands of a small convolution."""
    return {"input": draw(rng, 2, 8, 9, 7), "weight": draw(rng, 16, 8, 3, 3)}


# Arrays and tensors ------------------------------------------------------------------------------


def test_arrays_with_gaps_and_single_images(small):
    expected = pplconv.conv2d(**small)
    x = np.zeros((2, 8, 18, 14), BF16)
    x[:, :, ::2, ::2] = small["input"]
    strided = {"input": x[:, :, ::2, ::2], "weight": np.asfortranarray(small["weight"])}
    assert pplconv.conv2d(**strided).tobytes() == expected.tobytes()
    single = pplconv.conv2d(small["input"][0], small["weight"])
    assert single.shape == expected.shape[1:] and single.tobytes() == expected[0].tobytes()
    assert pplconv.conv2d(small["input"][:0], small["weight"]).shape == (0, *expected.shape[1:])


def test_lists_of_numbers_take_the_type(small):
    bias = [0.5] * 16
    expected = pplconv.conv2d(**small, bias=np.array(bias, BF16))
    assert pplconv.conv2d(**small, bias=bias).tobytes() == expected.tobytes()
    listed = pplconv.conv2d(small["input"], small["weight"].tolist(), bias)
    assert listed.tobytes() == expected.tobytes()
    layer = pplconv.Conv2d(small["weight"], bias)
    assert layer(small["input"].tolist()).tobytes() == expected.tobytes()


def test_slopes_of_the_same_type(small, rng):
    slope = draw(rng, 16)
    expected = pplconv.conv2d(**small, activation=("prelu", slope.astype(np.float32)))
    y = pplconv.conv2d(**small, activation=("prelu", slope))
    assert y.tobytes() == expected.tobytes()


class Tensor(Exporter):
    """An exporter that NumPy asks first, in vain, as PyTorch's tensors are."""

    def __array__(self, dtype=None, copy=None):
        raise TypeError("Got unsupported ScalarType BFloat16")


@pytest.mark.parametrize("kind", [Exporter, Tensor])
def test_exporters_are_taken(kind, small, rng):
    arrays = {**small, "bias": draw(rng, 16), "residual": draw(rng, 2, 16, 7, 5)}
    expected = pplconv.conv2d(**arrays)
    tensors = {name: kind(array.view(np.uint16)) for name, array in arrays.items()}
    y = pplconv.conv2d(**tensors)
    assert y.dtype == BF16 and y.tobytes() == expected.tobytes()
    layer = pplconv.Conv2d(tensors["weight"], tensors["bias"])
    assert layer.dtype == BF16 and layer.weight.tobytes() == small["weight"].tobytes()
    y = layer(tensors["input"], tensors["residual"])
    assert y.tobytes() == expected.tobytes()
    a, b = draw(rng, 5, 7), draw(rng, 7, 3)
    product = pplconv.matmul(*(kind(array.view(np.uint16)) for array in (a, b)))
    assert product.tobytes() == pplconv.matmul(a, b).tobytes()


@pytest.mark.parametrize("kind", [Exporter, Tensor])
def test_exporters_need_the_type(kind, small, monkeypatch):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(TypeError, match=r"input is bfloat16.* ml_dtypes: install it"):
        pplconv.conv2d(kind(small["input"].view(np.uint16)), np.ones((16, 8, 3, 3), np.float32))


@pytest.mark.parametrize("kind", [Exporter, Tensor])
def test_tensors_elsewhere_are_refused(kind, small):
    tensor = kind(small["input"].view(np.uint16), device=2)
    with pytest.raises(TypeError, match="input must be in CPU memory"):
        pplconv.conv2d(tensor, small["weight"])


# The real libraries, where they are installed; the stand-ins above do all that they do.
if importlib.util.find_spec("torch"):
    import torch

    def test_tensors_of_pytorch_are_taken(small):
        expected = pplconv.conv2d(**small)
        tensors = {
            name: torch.nn.Parameter(torch.from_numpy(array.astype(np.float32)).bfloat16())
            for name, array in small.items()
        }
        layer = pplconv.Conv2d(tensors["weight"])
        for got in (pplconv.conv2d(**tensors), layer(tensors["input"])):
            assert got.dtype is torch.bfloat16
            assert got.view(torch.int16).numpy().tobytes() == expected.tobytes()


# What is refused ---------------------------------------------------------------------------------


def test_bits_are_no_numbers(small):
    bits = {name: array.view(np.uint16) for name, array in small.items()}
    with pytest.raises(TypeError, match="input must be float16, bfloat16, float32 or float64"):
        pplconv.conv2d(**bits)
    with pytest.raises(TypeError, match="masked"):
        pplconv.conv2d(np.ma.masked_array(small["input"]), small["weight"])


@pytest.mark.parametrize("word", ["fp16", "half"])
def test_words_that_say_nothing_about_it(word, small):
    with pytest.raises(ValueError, match="precision must be"):
        pplconv.conv2d(**small, precision=word)


def test_functions_that_do_not_take_it(small):
    for call in (
        lambda: pplconv.conv_transpose2d(small["input"], small["weight"][:8]),
        lambda: pplconv.ConvTranspose2d(small["weight"]),
        lambda: pplconv.to_blocked(small["input"], 4),
    ):
        with pytest.raises(TypeError, match=r"must be float16, float32 or float64.*bfloat16"):
            call()
