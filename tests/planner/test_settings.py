"""``search=``, ``search_seconds=`` and ``max_workspace=`` of the public functions."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import pplconv
from pplconv.activations import COST_CLASSES
from pplconv.api.conv import _unpickle
from pplconv.arguments.activation import activation_of

W = np.ones((16, 16, 3, 3), np.float32)
X = np.ones((1, 16, 12, 12), np.float32)


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        ({"search": "guess"}, ValueError),
        ({"search": None}, ValueError),
        ({"search": 1}, ValueError),
        ({"search_context": "warm"}, ValueError),
        ({"search_context": None}, ValueError),
        ({"search_context": 1}, ValueError),
        ({"search_seconds": 0}, ValueError),
        ({"search_seconds": -1.0}, ValueError),
        ({"search_seconds": float("nan")}, ValueError),
        ({"search_seconds": float("inf")}, ValueError),
        ({"search_seconds": "1"}, TypeError),
        ({"search_seconds": True}, TypeError),
        ({"search_seconds": None}, TypeError),
        ({"max_workspace": -1}, ValueError),
        ({"max_workspace": 2**70}, ValueError),
        ({"max_workspace": 1.5}, TypeError),
        ({"max_workspace": "1M"}, TypeError),
        ({"max_workspace": True}, TypeError),
    ],
)
def test_wrong_settings_are_named(wrong, kind):
    (name,) = wrong
    with pytest.raises(kind, match=rf"\b{name}\b"):
        pplconv.Conv2d(W, **wrong)
    if name == "max_workspace":
        with pytest.raises(kind, match=rf"\b{name}\b"):
            pplconv.conv2d(X, W, **wrong)


@pytest.mark.parametrize("kind", [int, np.int64])
def test_a_workspace_is_any_integer(kind):
    conv = pplconv.Conv2d(W, max_workspace=kind(1 << 22), search_seconds=kind(1))
    assert conv.plan_for(X.shape).scratch_bytes <= 1 << 22


def test_kept_plans_tell_workspaces_apart():
    """The first call must not decide for the second, nor an error for a later call."""
    for _ in range(2):
        with pytest.raises(ValueError, match="max_workspace"):
            pplconv.conv2d(X, W, algorithm="im2col", max_workspace=1)
        pplconv.conv2d(X, W, algorithm="im2col")
        with pytest.raises(TypeError, match="max_workspace"):
            pplconv.conv2d(X, W, algorithm="im2col", max_workspace=1.0)


def test_a_pickle_keeps_the_settings():
    conv = pplconv.Conv2d(
        W, algorithm="im2col", search="measure", search_seconds=0.01, max_workspace=1, threads=1,
        precision="fp32", search_context="cold", padding=1, padding_mode="reflect",
    )  # fmt: skip
    arguments = conv.__reduce__()[1]
    settings = ("im2col", None, "measure", 1, 0.01, 1, "fp32", "cold", "auto", None, "reflect")
    assert arguments[-11:] == settings
    with pytest.raises(ValueError, match="max_workspace must be at least"):
        pickle.loads(pickle.dumps(conv)).plan_for(X.shape)


def test_a_pickle_of_an_older_version_is_read():
    """Its function had no arguments for the class, and none for settings that came later."""
    _, arguments, _ = pplconv.Conv2d(W, threads=1).__reduce__()
    older = _unpickle(*arguments[2:-6])
    assert type(older) is pplconv.Conv2d
    assert (older.search_seconds, older.max_workspace, older.precision) == (0.5, None, None)
    np.testing.assert_array_equal(older(X), pplconv.Conv2d(W, threads=1)(X))


@pytest.mark.parametrize("layer", [pplconv.Conv2d(W), pplconv.Linear(W[:, :, 0, 0])])
def test_a_pickle_without_a_search_context_is_hot(layer):
    """Layers were pickled so before there was a `search_context`."""
    function, arguments, _ = layer.__reduce__()
    later = ("hot", "auto", None, "zeros")[: 4 if isinstance(layer, pplconv.Conv2d) else 3]
    assert arguments[-len(later) :] == later
    older = function(*arguments[: -len(later)])
    assert older.search_context == "hot"
    assert repr(older) == repr(layer)


@pytest.mark.parametrize("layer", [pplconv.Conv2d(W), pplconv.Linear(W[:, :, 0, 0])])
def test_a_pickle_that_knows_nothing_of_zeros_may_leave_them_out(layer):
    function, arguments, _ = layer.__reduce__()
    older = function(*arguments[:-2])
    assert (older.sparse, older.block) == ("auto", None)
    assert repr(older) == repr(layer)


@pytest.mark.parametrize("kind", [pplconv.Conv2d, pplconv.Linear])
def test_a_layer_keeps_its_search_context(kind):
    weight = W if kind is pplconv.Conv2d else W[:, :, 0, 0]
    shape = X.shape if kind is pplconv.Conv2d else (3, 16)
    layer = kind(weight, search="measure", search_seconds=0.01, search_context="cold", threads=1)
    again = pickle.loads(pickle.dumps(layer))
    assert again.search_context == layer.search_context == "cold"
    assert "search_context='cold'" in repr(again)
    assert again.plan_for(shape).search == "measure"
    (entry,) = pplconv.wisdom.export()["entries"]
    assert entry["epilogue"] == "none search_context=cold"


@pytest.mark.parametrize(
    ("activation", "expected"),
    [
        (None, "none"),
        ("relu", "none"),
        (("clip", -1, 1), "none"),
        (("leaky_relu", 0.1), "slope"),
        (("prelu", [0.5]), "slope"),
        (("prelu", np.ones(16)), "slope"),
        ("hardswish", "slope"),
        ("sigmoid", "exp"),
        ("silu", "exp"),
    ],
)
def test_every_activation_has_a_class(activation, expected, path):
    assert activation_of(activation, 16).epilogue == expected
    assert expected in COST_CLASSES
    conv = pplconv.Conv2d(W, activation=activation, search="measure", search_seconds=0.01)
    plan = conv.plan_for(X.shape)
    assert plan.search == "measure"
    assert [e["epilogue"] for e in pplconv.wisdom.export()["entries"]] == [expected]
    np.testing.assert_allclose(conv(X), pplconv.conv2d(X, W, activation=activation), rtol=1e-5)
