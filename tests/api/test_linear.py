"""`Linear`: weights packed once, any leading dimensions, pickles, plans, wisdom."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import pplconv
from pplconv.matrix_problem import MatrixProblem
from tests.api.buffers import guarded

DTYPES = ["float16", "float32", "float64"]
TOLERANCE = {"float16": 4e-3, "float32": 1e-5, "float64": 1e-13}


def close(result, expected, dtype):
    assert result.dtype == dtype
    assert result.shape == expected.shape
    if expected.size:
        limit = TOLERANCE[dtype] * max(np.abs(expected).max(), 1)
        assert np.abs(result.astype(np.float64) - expected).max() <= limit


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("lead", [(), (1,), (7,), (2, 5), (3, 1, 4), (0,), (2, 0)], ids=str)
@pytest.mark.parametrize("features", [(1, 1), (33, 17), (70, 129)], ids=str)
def test_any_leading_dimensions(dtype, lead, features, rng):
    k, n = features
    w, b = rng.standard_normal((n, k)).astype(dtype), rng.standard_normal(n).astype(dtype)
    x, r = (rng.standard_normal((*lead, size)).astype(dtype) for size in (k, n))
    layer = pplconv.Linear(w, b, activation="relu")
    exact = x.astype(np.float64) @ w.astype(np.float64).T + b
    close(layer(x), np.maximum(exact, 0), dtype)
    y = guarded(layer, (*lead, n), dtype, x, r)
    close(y, np.maximum(exact + r, 0), dtype)
    if len(lead) == 1:
        close(layer(np.asfortranarray(x)), np.maximum(exact, 0), dtype)


def test_attributes_and_repr():
    layer = pplconv.Linear(np.ones((8, 3), np.float32), np.ones(8, np.float32), threads=2)
    assert (layer.in_features, layer.out_features, layer.weight_shape) == (3, 8, (8, 3))
    assert (layer.threads, layer.search, layer.precision, layer.activation) == (
        2, "estimate", None, None,
    )  # fmt: skip
    assert repr(layer).startswith("Linear(<float32 array of shape (8, 3)>, bias=<float32 array")
    with pytest.raises(AttributeError):
        layer.threads = 3


@pytest.mark.parametrize(
    ("name", "arguments", "keywords"),
    [
        ("weight", (8,), {}),
        ("weight", (np.ones((2, 3, 1), np.float32),), {}),
        ("weight", (np.ones((0, 3), np.float32),), {}),
        ("weight", (np.ones((2, 3), int),), {}),
        ("bias", (np.ones((2, 3), np.float32), np.ones(3, np.float32)), {}),
        ("activation", (np.ones((2, 3), np.float32),), {"activation": "tanhshrink"}),
        ("precision", (np.ones((2, 3)),), {"precision": "fp16"}),
        ("input_shape", (np.ones((2, 3), np.float32),), {"input_shape": (4, 5)}),
        ("search", (np.ones((2, 3), np.float32),), {"search": "guess"}),
        ("threads", (np.ones((2, 3), np.float32),), {"threads": 0}),
        ("max_workspace", (np.ones((2, 3), np.float32),), {"max_workspace": -1}),
    ],
)  # fmt: skip
def test_errors_name_the_argument(name, arguments, keywords):
    with pytest.raises((TypeError, ValueError), match=rf"^{name}\b"):
        pplconv.Linear(*arguments, **keywords)


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("input", {"input": np.ones((2, 4), np.float32)}),
        ("input", {"input": np.float32(1)}),
        ("input", {"input": np.ones((2, 3))}),
        ("residual", {"input": np.ones((2, 3), np.float32), "residual": np.ones(8, np.float32)}),
        ("residual", {"input": np.ones((1, 2, 3), np.float32), "residual": np.ones((1, 2, 8))}),
        ("out", {"input": np.ones((1, 5, 3), np.float32)}),
        ("out", {"input": np.ones((5, 3), np.float32)}),
    ],
)  # fmt: skip
def test_calls_are_checked_and_write_nothing(name, call):
    layer, out = pplconv.Linear(np.ones((8, 3), np.float32)), np.full((2, 8), 7, np.float32)
    with pytest.raises((TypeError, ValueError), match=rf"^{name}\b"):
        layer(**call, out=out)
    assert (out == 7).all()


class Named(pplconv.Linear):
    """A subclass with an attribute of its own."""


def test_pickles(rng):
    layer = Named(rng.standard_normal((8, 3)).astype("f4"), activation=("leaky_relu", 0.5))
    layer.name = "fc"
    x = rng.standard_normal((5, 3)).astype("f4")
    again = pickle.loads(pickle.dumps(layer))
    assert type(again) is Named
    assert again.name == "fc"
    assert again(x).tobytes() == layer(x).tobytes()
    plain = pickle.loads(pickle.dumps(pplconv.Linear(layer.weight)))
    assert type(plain) is pplconv.Linear


def test_plans_show_the_problem():
    plan = pplconv.Linear(np.ones((512, 256), np.float32)).plan_for((4, 16, 256))
    assert plan.problem == "m64n512k256"
    assert plan.algorithm == "gemm"
    assert plan.bits == "sum over k"
    assert str(MatrixProblem.parse(plan.problem)) == plan.problem


@pytest.mark.parametrize("text", ["m64n512", "m0n1k1", "n1m1k1", "m1n1k1x", "", "m-1n1k1"])
def test_texts_that_are_no_problem(text):
    with pytest.raises(ValueError, match=r"matrix problem|size of 0"):
        MatrixProblem.parse(text)


def test_searches_are_remembered(tmp_path, monkeypatch):
    monkeypatch.setenv("PPLCONV_WISDOM", str(tmp_path / "wisdom.json"))
    w = np.ones((48, 32), np.float32)
    searched = pplconv.Linear(w, search="measure", search_seconds=0.05, input_shape=(24, 32))
    assert searched.plan_for((24, 32)).search == "measure"
    assert pplconv.Linear(w).plan_for((24, 32)).search == "wisdom"
    assert "m24n48k32" in (tmp_path / "wisdom.json").read_text()


def test_workspace_is_bounded():
    w = np.ones((512, 2048), np.float32)
    layer = pplconv.Linear(w, max_workspace=100_000, threads=2)
    assert layer.plan_for((600, 2048)).scratch_bytes <= 100_000
    assert (layer(np.ones((600, 2048), np.float32)) == 2048).all()
