"""Attention and products of computed matrices in bfloat16, beside float64.

Queries, keys, values and factors are numbers of bfloat16 here, so products are exact, and sums
round as those of float32. What rounds to bfloat16 is a share of the softmax, and the result. On a
CPU without instructions for such products, arrays are stored as bfloat16 and products are float32.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from pplconv.network import attention_step, compiling, narrow_storage
from pplconv.network.operators.brain_products import ProductPrices, brain_kinds
from tests.network.graphs import Graph
from tests.network.running import on_host, run, session_of, step_kinds
from tests.network.test_attention import heads, products

BRAIN, SINGLE = np.dtype(ml_dtypes.bfloat16), np.dtype(np.float32)
# Half the distance of two neighbours, relative to the larger one.
ROUNDING = 2.0**-8
# Error of sums and curves in float32, relative to the largest term.
IN_SINGLE = 2.0**-19


def brain(array: np.ndarray) -> np.ndarray:
    return array.astype(BRAIN).astype(SINGLE)


@pytest.fixture
def demanded(monkeypatch):
    """Let every CPU store bfloat16, and take it wherever it can be had."""

    def stored(precision: str):
        return BRAIN if precision in ("bf16", "low", "low_bf16") else None

    monkeypatch.setattr(compiling, "brain_type", stored)
    monkeypatch.setattr(narrow_storage, "FEW", 0)


@pytest.fixture
def g() -> Graph:
    return Graph(7)


def shares(q, k, v, scores=lambda x: x):
    """The softmax, the result, and the size of its terms, in float64."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    with np.errstate(all="ignore"):
        x = scores(q @ k.swapaxes(-1, -2))
        found = np.exp(x - x.max(-1, keepdims=True))
        found /= found.sum(-1, keepdims=True)
        return found, found @ v, found @ np.abs(v)


def narrowly(g: Graph, count: int, *sizes: int) -> list[str]:
    names = heads(g, *sizes)
    for name in names[:count]:
        g.feed[name] = brain(g.feed[name])
    g.feed[names[0]] /= 2.0 ** np.round(np.log2(sizes[4]) / 2)
    return names


def compared(g: Graph, y: str, want, terms, *, stored: bool, kinds=("Attention",)):
    """Run by teams of three sizes, which give the same bits; a rounding of each share apart."""
    session = session_of(g, y, precision="low_bf16")
    assert [kind for kind in step_kinds(session, g.feed) if kind != "Reformat"] == list(kinds)
    assert on_host(session) == []
    (got,) = run(g.model(y), g.feed, (1, 2, 3), precision="low_bf16")
    assert got.dtype == SINGLE and got.shape == want.shape
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    finite = np.isfinite(want)
    bound = (1.01 * ROUNDING + IN_SINGLE) * terms
    bound += 1.01 * ROUNDING * np.abs(want) if stored else 0
    assert (np.abs(got - want)[finite] <= bound[finite] + 1e-30).all()
    return got


SIZES = [
    (1, 2, 8, 1, 4, 3), (1, 1, 1, 1, 1, 1), (2, 3, 1, 4, 8, 5), (2, 3, 9, 9, 8, 8),
    (1, 1, 33, 70, 17, 5), (2, 1, 49, 49, 32, 32), (1, 3, 197, 197, 64, 64),
    (1, 2, 100, 850, 32, 33), (1, 1, 300, 129, 1, 1), (3, 2, 32, 1024, 3, 16),
]  # fmt: skip


@pytest.mark.parametrize("sizes", SIZES)
def test_results_of_float32(sizes, demanded, g):
    """The network returns them, so they are not rounded."""
    q, k, v = narrowly(g, 3, *sizes)
    y = g.MatMul(g.Softmax(products(g, q, k)), v)
    _, want, terms = shares(*(g.feed[name] for name in (q, k, v)))
    got = compared(g, y, want, terms, stored=False)
    if sizes[3] > 100 and brain_kinds():  # products of float32 would be within the bound, too
        assert np.abs(got - want).max() > 1e-5 * np.abs(want).max()


@pytest.mark.parametrize("sizes", SIZES)
def test_stored_results(sizes, demanded, g):
    """A step behind them reads bfloat16."""
    q, k, v = narrowly(g, 3, *sizes)
    y = g.Neg(g.MatMul(g.Softmax(products(g, q, k)), v))
    _, want, terms = shares(*(g.feed[name] for name in (q, k, v)))
    compared(g, y, -want, terms, stored=True, kinds=("Attention", "Neg"))


@pytest.mark.parametrize("shape", [(2, 3, 17, 30), (2, 1, 1, 30), (17, 30)])
def test_masks_stay_exact(shape, demanded, g):
    """Scores are float32 until the softmax is done; a row without any key is NaN."""
    names = narrowly(g, 3, 2, 3, 17, 30, 8, 6)
    mask = g.input(*shape)
    g.feed[mask][..., 3:7] = -np.inf
    if shape == (17, 30):
        g.feed[mask][4] = -np.inf
    y = g.MatMul(g.Softmax(g.Add(products(g, *names[:2]), mask)), names[2])
    added = g.feed[mask].astype(np.float64)
    _, want, terms = shares(*(g.feed[name] for name in names), lambda x: x + added)
    compared(g, y, want, terms, stored=False)


def test_numbers_that_are_none(demanded, g):
    """NaN and infinities in queries and values spoil their own rows and columns alone."""
    q, k, v = narrowly(g, 3, 1, 2, 20, 17, 8, 4)
    g.feed[q][0, 0, 5, 1] = np.nan
    g.feed[v][0, 1, 6, 2] = np.nan
    y = g.MatMul(g.Softmax(products(g, q, k)), v)
    _, want, terms = shares(*(g.feed[name] for name in (q, k, v)))
    got = compared(g, y, want, terms, stored=False)
    assert np.isnan(got[0, 0, 5]).all() and np.isnan(got[0, 1, :, 2]).all()
    assert np.isnan(got).sum() == 4 + 20


def test_programs_behind_the_softmax(demanded, g):
    """They change shares of float32, which are rounded behind them."""
    q, k, v = narrowly(g, 3, 1, 2, 40, 33, 8, 4)
    y = g.Softmax(g.Mul(products(g, q, k), g.constant(0.5)))
    y = g.MatMul(g.Mul(y, g.constant(3.0)), v)
    _, want, terms = shares(*(g.feed[name] for name in (q, k, v)), lambda x: 0.5 * x)
    compared(g, y, 3 * want, 3 * terms, stored=False)


def test_operands_that_lie_otherwise(demanded, g):
    """Queries in columns are copied; keys and values may lie either way."""
    q = g.Transpose(g.input(2, 3, 8, 33), perm=[0, 1, 3, 2])
    k, v = g.input(2, 3, 8, 41), g.Transpose(g.input(2, 3, 7, 41), perm=[0, 1, 3, 2])
    g.feed = {name: brain(array) for name, array in g.feed.items()}
    y = g.MatMul(g.Softmax(g.MatMul(q, k)), v)
    turned = (x.swapaxes(2, 3) for x in g.feed.values())
    _, want, terms = shares(*turned)
    session = session_of(g, y, precision="low_bf16")
    assert step_kinds(session, g.feed).count("Attention") == 1 and on_host(session) == []
    (got,) = run(g.model(y), g.feed, (1, 2), precision="low_bf16")
    assert (np.abs(got - want) <= (1.01 * ROUNDING + IN_SINGLE) * terms).all()


def test_operands_that_are_no_numbers_of_bfloat16_are_rounded_once(demanded, g):
    """Like those of a convolution, on a CPU that multiplies bfloat16."""
    q, k, v = narrowly(g, 0, 1, 3, 50, 60, 16, 16)
    y = g.MatMul(g.Softmax(products(g, q, k)), v)
    rounded = [brain(g.feed[name]) if brain_kinds() else g.feed[name] for name in (q, k, v)]
    _, want, terms = shares(*rounded)
    compared(g, y, want, terms, stored=False)


@pytest.mark.parametrize("precision", ["auto", "fp32", "fp16"])
def test_words_that_permit_nothing(precision, demanded, g):
    q, k, v = narrowly(g, 3, 1, 2, 40, 129, 16, 8)
    y = g.MatMul(g.Softmax(products(g, q, k)), v)
    _, want, _ = shares(*(g.feed[name] for name in (q, k, v)))
    (got,) = run(g.model(y), g.feed, precision=precision)
    if precision != "fp16":
        np.testing.assert_allclose(got, want, rtol=0, atol=2e-6 * np.abs(want).max())


def test_the_price_decides(demanded, g, monkeypatch):
    """`low` multiplies bfloat16 only where that is estimated to be faster, conversions included."""
    q, k, v = narrowly(g, 3, 1, 2, 40, 129, 16, 8)
    y = g.MatMul(g.Softmax(products(g, q, k)), v)

    def kernels(narrow: float) -> str:
        prices = ProductPrices(1e9, narrow)
        monkeypatch.setattr(attention_step, "prices_of_attention", lambda *_: prices)
        plan = session_of(g, y, precision="low").plan_for(g.feed)
        (step,) = (step for step in plan.steps if step.kind == "Attention")
        return str(step.detail)

    assert ("gemm_bf16" in kernels(0.0)) == bool(brain_kinds())
    assert "gemm_f32" in kernels(1.001e9)


SHAPES = [
    ((5, 7), (7, 3)), ((1, 1), (1, 1)), ((2, 3, 33, 17), (2, 3, 17, 65)), ((4, 9, 8), (8, 5)),
    ((6, 64), (3, 64, 48)), ((2, 1, 5, 31), (1, 4, 31, 6)), ((70,), (70, 9)), ((3, 8, 70), (70,)),
    ((197, 197), (197, 64)),
]  # fmt: skip


@pytest.mark.parametrize("turned", [(), (0,), (1,), (0, 1)])
@pytest.mark.parametrize("shapes", SHAPES)
def test_products_of_computed_matrices(shapes, turned, demanded):
    """Both are packed or read as bfloat16 in each run; transposed ones lie as before."""
    g = Graph(9)
    names, wide = [], []
    for i, shape in enumerate(shapes):
        swapped = i in turned and len(shape) > 1
        lies = (*shape[:-2], shape[-1], shape[-2]) if swapped else shape
        x = g.input(*lies)
        g.feed[x] = array = brain(g.feed[x])
        wide.append((array.swapaxes(-1, -2) if swapped else array).astype(np.float64))
        order = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]
        names.append(g.Transpose(x, perm=order) if swapped else x)
    y = g.Neg(g.MatMul(*names))
    session = session_of(g, y, precision="low_bf16")
    plan = session.plan_for(g.feed)
    found = [step for step in plan.steps if step.kind == "MatMul"]
    assert found and all(("gemm_bf16" in s.detail) == bool(brain_kinds()) for s in found)
    assert on_host(session) == []
    (got,) = run(g.model(y), g.feed, (1, 2, 3), precision="low_bf16")
    want, terms = -(wide[0] @ wide[1]), np.abs(wide[0]) @ np.abs(wide[1])
    assert got.shape == want.shape
    assert (np.abs(got - want) <= 1.01 * ROUNDING * np.abs(want) + IN_SINGLE * terms).all()


def test_a_product_by_a_known_batch(demanded):
    """Constants of a batch are rounded as the network is made."""
    g = Graph(9)
    x, weights = g.input(3, 20, 33), g.rng.standard_normal((3, 33, 8)).astype(SINGLE)
    y = g.Neg(g.MatMul(x, g.constant(weights)))
    rounded = brain if brain_kinds() else np.asarray
    wide = [rounded(array).astype(np.float64) for array in (g.feed[x], weights)]
    (got,) = run(g.model(y), g.feed, (1, 2), precision="low_bf16")
    want, terms = -(wide[0] @ wide[1]), np.abs(wide[0]) @ np.abs(wide[1])
    assert (np.abs(got - want) <= 1.01 * ROUNDING * np.abs(want) + IN_SINGLE * terms).all()
