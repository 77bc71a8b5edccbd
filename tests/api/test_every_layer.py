"""All kinds of layers alike: copies of weights, pickles, signatures, objects half made."""

from __future__ import annotations

import importlib
import inspect
import pickle

import numpy as np
import pytest

import pplconv
from tests.api.layers import LAYERS, Layer, every_layer


@every_layer
def test_weights_and_bias_are_read_only_copies(kind: Layer, rng):
    """The layer took a snapshot: later changes of the arrays do not reach it, nor its pickle."""
    arrays, x = kind.weights(rng), kind.input(rng)
    layer = kind.kind(*arrays, **kind.settings)
    prepared = kind.kind(*arrays, **kind.settings, input_shape=x.shape)
    expected, content = layer(x), [array.tobytes() for array in arrays]
    for name, given in zip(("weight", "bias"), arrays, strict=True):
        shown = getattr(layer, name)
        assert shown.dtype == given.dtype and shown.tobytes() == given.tobytes()
        assert not np.shares_memory(shown, given)
        with pytest.raises(ValueError, match="read-only"):
            shown[...] = 0
        with pytest.raises(ValueError, match="WRITEABLE"):
            shown.flags.writeable = True
        with pytest.raises(AttributeError):
            setattr(layer, name, given)
        assert given.flags.writeable
        given[...] = 0
    larger = kind.input(rng, 20)  # its plan is made after the change
    again = pickle.loads(pickle.dumps(layer))
    assert [array.tobytes() for array in (again.weight, again.bias)] == content
    for unchanged in (layer, prepared, again):
        assert unchanged(x).tobytes() == expected.tobytes()
        assert unchanged(larger).tobytes() == again(larger).tobytes()


@every_layer
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickles(kind: Layer, protocol, rng):
    x = kind.input(rng)
    layer = kind.made(rng, threads=2, max_workspace=1 << 26, input_shape=x.shape)
    again = pickle.loads(pickle.dumps(layer, protocol))
    assert type(again) is kind.kind and repr(again) == repr(layer)
    assert again.weight.dtype == layer.weight.dtype == kind.dtype
    assert again.plan_for(x.shape) == layer.plan_for(x.shape)
    assert again(x).tobytes() == layer(x).tobytes()


SIGNATURES = {
    "Conv2d": "(input, residual=None, out=None)",
    "ConvTranspose2d": "(input, residual=None, out=None, output_size=None)",
    "Linear": "(input, residual=None, out=None)",
}


@pytest.mark.parametrize("name", SIGNATURES)
def test_signatures_of_instances(name, rng):
    layer = LAYERS[name].made(rng)
    assert str(inspect.signature(layer)) == SIGNATURES[name]
    subclass = type("Named", (type(layer),), {"__doc__": "A subclass that only has a name."})
    assert str(inspect.signature(subclass(layer.weight))) == SIGNATURES[name]


@pytest.mark.parametrize(
    "use",
    [
        lambda layer, x: layer(x),
        lambda layer, x: layer.plan_for(x.shape),
        lambda layer, x: pickle.dumps(layer),
        lambda layer, x: layer.__reduce_prepared__(1),
    ],
    ids=["call", "plan_for", "pickle", "reduce_prepared"],
)
@pytest.mark.parametrize("name", SIGNATURES)
def test_an_object_without_its_constructor_is_refused(name, use, rng):
    """It has no plans to look into: an exception, where C would follow a null pointer."""
    kind = LAYERS[name].kind
    with pytest.raises((TypeError, AttributeError)):
        use(kind.__new__(kind), LAYERS[name].input(rng))


@pytest.mark.parametrize("name", ["Conv2d", "ConvTranspose2d"])
def test_sizes_as_of_torch_are_told_what_is_taken(name):
    for sizes in ((6, 8, 3), (np.int64(6), 8, 3)):
        with pytest.raises(
            TypeError,
            match=rf"^weight must be an array .* got .*6.*torch\.nn\.{name} takes numbers",
        ):
            getattr(pplconv, name)(*sizes)


# Names that pickles of released versions ask for --------------------------------------------------


# What pickles of 0.1.0 and 0.2.0 name: of layers, plans and sessions, as `pickletools.dis` shows.
NAMED = [
    ("pplconv._conv", "_unpickle"),
    ("pplconv.api.layer", "rebuild"),
    ("pplconv.api.conv", "Conv2d"),
    ("pplconv.api.linear", "Linear"),
    ("pplconv.api.quantized_layer", "QConv2d"),
    ("pplconv.api.transposed_layer", "ConvTranspose2d"),
    ("pplconv.api.transposed_plan", "TransposedPlan"),
    ("pplconv.network.builder", "Settings"),
    ("pplconv.network.session", "_rebuild"),
    ("pplconv.network.travelling", "Sent"),
    ("pplconv.planner.plan", "Plan"),
]


@pytest.mark.parametrize(("module", "name"), NAMED)
def test_a_pickle_finds_its_names(module, name):
    found = pickle.loads(f"c{module}\n{name}\n.".encode())
    # Where it is defined today, pickles find it too.
    home = importlib.import_module(found.__module__)
    assert getattr(home, found.__name__) is found
