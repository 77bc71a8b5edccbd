"""Unknown keyword arguments: names of other libraries are told what they are here."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import pplconv

CALLED = ("conv2d", "Conv2d", "conv_transpose2d", "ConvTranspose2d")
# ONNX's, Keras's and TensorFlow's names, PyTorch's of a layer, and a misspelling.
MEANT = {
    "strides": "that is `stride` here",
    "dilations": "that is `dilation` here",
    "dilation_rate": "that is `dilation` here",
    "pads": "that is `padding` here",
    "group": "that is `groups` here",
    "data_format": "that is `layout` here",
    "kernel_size": "that is the shape of `weight` here",
    "tolerence": "did you mean 'tolerance'?",
}


def call(name: str, **more: object):
    x, w = np.ones((1, 4, 6, 6), np.float32), np.ones((4, 4, 3, 3), np.float32)
    arrays = (w,) if name[0] == "C" else (x, w)
    return getattr(pplconv, name)(*arrays, **more)


@pytest.mark.parametrize("name", CALLED)
def test_a_name_of_another_library(name):
    for word, hint in MEANT.items():
        with pytest.raises(TypeError) as caught:
            call(name, **{word: 1})
        assert str(caught.value) == f"{name}() got an unexpected keyword argument {word!r}: {hint}"
    with pytest.raises(TypeError, match=r"argument 'zebra'$"):
        call(name, zebra=1)


@pytest.mark.parametrize("name", CALLED)
def test_other_errors_and_signatures_stay(name):
    # Raised inside, with their traces, and by Python itself.
    with pytest.raises(TypeError, match=r"^stride must be an int") as caught:
        call(name, stride="a")
    assert caught.value.__cause__ is None
    with pytest.raises(TypeError, match="at least"):
        getattr(pplconv, name)()
    with pytest.raises(ValueError, match=r"^stride"):
        call(name, stride=0)
    found = inspect.signature(getattr(pplconv, name)).parameters
    assert "stride" in found and all(one.kind != one.VAR_KEYWORD for one in found.values())
    # Every way to call it ends in the same place.
    with pytest.raises(TypeError, match="that is `stride` here"):
        getattr(pplconv, name)(**{"weight": np.ones((4, 4, 3, 3), np.float32), "strides": 1})


def test_values_are_those_without_the_entry():
    """Ones of 4 channels, 3x3 of them a sum, and two steps in each direction."""
    got = call("conv2d", stride=2)
    assert got.shape == (1, 4, 2, 2) and (got == 36).all()
    assert (call("Conv2d", stride=2)(np.ones((1, 4, 6, 6), np.float32)) == got).all()
