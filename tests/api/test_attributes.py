"""What a ``Conv2d`` says of itself: attributes, signature, repr; and what subclasses keep."""

from __future__ import annotations

import copy
import inspect
import pickle

import numpy as np
import pytest

import pplconv
from tests.api.buffers import draw


@pytest.fixture
def conv(rng):
    return pplconv.Conv2d(
        draw(rng, 6, 2, 3, 5), draw(rng, 6), (2, 1), (1, 2), np.array([1, 2]), 2,
        activation=("leaky_relu", 0.5), layout="NHWC", algorithm="im2col", tolerance=0,
        precision="fp32", search="measure", search_seconds=2, max_workspace=1 << 20, threads=3,
        search_context="cold", block=(1, 1),
    )  # fmt: skip


ATTRIBUTES = {
    "weight_shape": (6, 2, 3, 5),
    "in_channels": 4,
    "out_channels": 6,
    "kernel_size": (3, 5),
    "dtype": np.dtype(np.float32),
    "stride": (2, 1),
    "padding": ((1, 1), (2, 2)),
    "dilation": (1, 2),
    "groups": 2,
    "activation": ("leaky_relu", 0.5),
    "layout": "NHWC",
    "algorithm": "im2col",
    "tolerance": 0.0,
    "precision": "fp32",
    "search": "measure",
    "search_seconds": 2.0,
    "search_context": "cold",
    "max_workspace": 1 << 20,
    "threads": 3,
    "sparse": "auto",
    "block": (1, 1),
}


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_attributes_are_read_only(name, conv):
    value = getattr(conv, name)
    assert value == ATTRIBUTES[name] and type(value) is type(ATTRIBUTES[name])
    with pytest.raises(AttributeError):
        setattr(conv, name, value)


def test_every_parameter_is_an_attribute(conv):
    parameters = set(inspect.signature(pplconv.Conv2d).parameters)
    assert parameters - set(dir(conv)) == {"input_shape"}


def test_slopes_are_read_only(rng):
    slope = np.full(6, 0.5, np.float32)
    conv = pplconv.Conv2d(draw(rng, 6, 2, 3, 5), activation=("prelu", slope))
    assert conv.bias is None
    with pytest.raises(ValueError, match="read-only"):
        conv.activation[1][...] = 0
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(conv)).activation[1], slope)


def test_repr_reads_like_the_call_that_made_it(conv):
    text = repr(conv)
    prefix = "Conv2d(<float32 array of shape (6, 2, 3, 5)>, bias=<float32 array of shape (6,)>, "
    assert text.startswith(prefix) and text.endswith(")") and "\n" not in text
    # With arrays in the places that it leaves for them, it is that call.
    words = text.replace("<float32 array of shape ", "np.ones(").replace(")>", "), np.float32)")
    again = eval(words, {"Conv2d": pplconv.Conv2d, "np": np})
    assert repr(again) == text
    for name in ATTRIBUTES:
        assert getattr(again, name) == getattr(conv, name)


def test_repr_of_the_least():
    text = repr(pplconv.Conv2d(np.ones((1, 1, 1, 1)), padding="same"))
    assert text.startswith("Conv2d(<float64 array of shape (1, 1, 1, 1)>, bias=None, ")
    assert "padding='same'" in text


# Signatures --------------------------------------------------------------------------------------


class Scaled(pplconv.Conv2d):
    """A subclass with a constructor and a state of its own."""

    __slots__ = ("__dict__", "note")

    def __init__(self, weight, scale, **arguments):
        super().__init__(weight, **arguments)
        self.scale, self.note = scale, "kept"

    def __call__(self, input):
        return super().__call__(input) * self.scale


class Named(pplconv.Conv2d):
    """A subclass that adds nothing but a name."""


def test_signatures_of_subclasses(rng):
    assert list(inspect.signature(pplconv.Conv2d).parameters)[:2] == ["weight", "bias"]
    assert list(inspect.signature(Scaled(draw(rng, 4, 3, 3, 3), 2)).parameters) == ["input"]
    assert list(inspect.signature(Scaled).parameters) == ["weight", "scale", "arguments"]


def test_the_signature_is_that_of_the_call(rng):
    conv = pplconv.Conv2d(draw(rng, 4, 3, 1, 1))
    x, residual = draw(rng, 1, 3, 4, 4), draw(rng, 1, 4, 4, 4)
    bound = inspect.signature(conv).bind(x, out=np.empty((1, 4, 4, 4), np.float32))
    bound.arguments["residual"] = residual
    assert conv(*bound.args, **bound.kwargs).tobytes() == conv(x, residual).tobytes()


# Subclasses --------------------------------------------------------------------------------------

COPIES = {
    "pickle": lambda conv: pickle.loads(pickle.dumps(conv)),
    "oldest pickle": lambda conv: pickle.loads(pickle.dumps(conv, protocol=2)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}


@pytest.mark.parametrize("way", COPIES)
def test_subclasses_stay_what_they_are(way, rng):
    x = draw(rng, 1, 3, 8, 9)
    conv = Scaled(draw(rng, 4, 3, 3, 3), np.float32(3), padding=1, activation="relu")
    conv.extra = {"a": [1, 2]}
    again = COPIES[way](conv)
    assert type(again) is Scaled
    assert again.scale == 3 and again.extra == {"a": [1, 2]}
    assert (again.extra is conv.extra) is (way == "copy")
    assert again(x).tobytes() == conv(x).tobytes()
    assert repr(again) == repr(conv) and repr(conv).startswith("Scaled(<")
    if hasattr(object, "__getstate__"):  # Python 3.11; before, nothing asks what slots hold
        assert again.note == "kept"
    plain = Named(draw(rng, 4, 3, 3, 3))
    assert type(COPIES[way](plain)) is Named


class Stated(pplconv.Conv2d):
    """A subclass that says itself what it keeps."""

    def __getstate__(self):
        return {"kept": self.kept}

    def __setstate__(self, state):
        self.kept = state["kept"] + 1


def test_subclasses_may_have_a_state_of_their_own(rng):
    conv = Stated(draw(rng, 4, 3, 3, 3))
    conv.kept, conv.lost = 1, 2
    again = pickle.loads(pickle.dumps(conv))
    assert again.kept == 2 and not hasattr(again, "lost")
