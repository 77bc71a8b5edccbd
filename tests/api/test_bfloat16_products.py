"""Products of bfloat16 matrices: `Linear` and `matmul`."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import pplconv
from tests.api.brain_cases import BF16, ROUNDING, assert_near, draw, every_cap, team, wide
from tests.api.buffers import guarded

pytestmark = pytest.mark.narrow


@every_cap
@pytest.mark.parametrize("lead", [(), (1,), (7,), (2, 5), (0,)], ids=str)
@pytest.mark.parametrize("features", [(1, 1), (33, 17), (70, 129)], ids=str)
def test_linear(lead, features, cap, rng, monkeypatch):
    monkeypatch.setenv("PPLCONV_MAX_ISA", cap)
    k, n = features
    w, b = draw(rng, n, k), draw(rng, n)
    x, r = draw(rng, *lead, k), draw(rng, *lead, n)
    layer = pplconv.Linear(w, b, activation="relu")
    y = guarded(layer, r.shape, BF16, x, r)
    assert y.tobytes() == layer(x, r).tobytes()
    exact_x, exact_w = wide(x, w)
    added = (b + r.astype(np.float32)).astype(np.float64)
    if r.size:
        sums = exact_x @ exact_w.T
        plain = pplconv.Linear(w)
        assert_near(plain(x), plain.plan_for(x.shape), sums)
        assert_near(y, layer.plan_for(x.shape), sums, added, "relu")
    again = pickle.loads(pickle.dumps(layer))
    assert again(x, r).tobytes() == y.tobytes()


# Sizes and strides of a and b; some operands have to be copied first.
PRODUCTS = {
    "rows": lambda rng: (draw(rng, 13, 37), draw(rng, 37, 18)),
    "transposed": lambda rng: (draw(rng, 37, 13).T, draw(rng, 18, 37).T),
    "a transposed": lambda rng: (draw(rng, 37, 13).T, draw(rng, 37, 18)),
    "b transposed": lambda rng: (draw(rng, 13, 37), draw(rng, 18, 37).T),
    "gaps": lambda rng: (draw(rng, 13, 80)[:, :37], draw(rng, 37, 50)[:, 9:27]),
    "steps": lambda rng: (draw(rng, 13, 74)[:, ::2], draw(rng, 37, 36)[:, ::-2]),
    "batch": lambda rng: (draw(rng, 3, 13, 37), draw(rng, 37, 18)),
    "batches": lambda rng: (draw(rng, 2, 1, 13, 37), draw(rng, 3, 37, 18)),
    "one row": lambda rng: (draw(rng, 37), draw(rng, 37, 18)),
    "one column": lambda rng: (draw(rng, 13, 37), draw(rng, 37)),
    "two vectors": lambda rng: (draw(rng, 37), draw(rng, 37)),
    "one k": lambda rng: (draw(rng, 13, 1), draw(rng, 1, 18)),
    "no k": lambda rng: (draw(rng, 13, 0), draw(rng, 0, 18)),
    "no row": lambda rng: (draw(rng, 0, 37), draw(rng, 37, 18)),
}


@every_cap
@pytest.mark.parametrize("name", PRODUCTS)
def test_matmul(name, cap, rng, monkeypatch):
    monkeypatch.setenv("PPLCONV_MAX_ISA", cap)
    a, b = PRODUCTS[name](rng)
    sums = np.matmul(*wide(a, b))
    y = pplconv.matmul(a, b, threads=team(cap))
    assert y.dtype == BF16 and y.shape == sums.shape
    np.testing.assert_allclose(y.astype(np.float64), sums, rtol=ROUNDING, atol=2e-5)
    residual = draw(rng, *sums.shape)
    columns = sums.shape[-1] if b.ndim > 1 else 1
    bias = draw(rng, columns)
    out = np.empty(sums.shape, BF16)
    result = pplconv.matmul(
        a, b, bias=bias, residual=residual, activation="relu", out=out, threads=team(cap)
    )
    assert result is out
    wide_bias, wide_residual = wide(bias, residual)
    exact = np.maximum(sums + (wide_bias if b.ndim > 1 else wide_bias[0]) + wide_residual, 0)
    np.testing.assert_allclose(out.astype(np.float64), exact, rtol=ROUNDING, atol=2e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_matmul_takes_the_wider_type(dtype, rng):
    a, b = draw(rng, 5, 7), rng.standard_normal((7, 6)).astype(dtype)
    for x, y in ((a, b), (b.T, a.T)):
        expected = pplconv.matmul(x.astype(dtype), y.astype(dtype))
        result = pplconv.matmul(x, y)
        assert result.dtype == dtype and result.tobytes() == expected.tobytes()


def test_matmul_has_no_common_type_with_half_precision(rng):
    a = draw(rng, 5, 7)
    with pytest.raises(TypeError, match="b must be bfloat16 like a, or float32, got float16"):
        pplconv.matmul(a, np.ones((7, 3), np.float16))
    with pytest.raises(TypeError, match="b must be float16 like a, or float32, got bfloat16"):
        pplconv.matmul(a.astype(np.float16), a.T)
