"""Einsum, attention and normalization as products, sums and means in loops, beside float64."""

from __future__ import annotations

import numpy as np
import pytest

from pplconv.network.session import InferenceSession
from tests.network.drawing_cases import Case
from tests.network.graphs import Graph, operators, stages
from tests.network.running import agree, on_host

SIZES = dict(zip("bhijkdef", (2, 3, 4, 5, 6, 7, 2, 3), strict=True))
# Equations, and the products that they become.
PRODUCTS = {
    "bhid,bhjd->bhij": "MatMul", "bihd,bjhd->bhij": "MatMul", "bhij,bjhd->bihd": "MatMul",
    "bid,dhk->bihk": "MatMul", "bihk,hkd->bid": "MatMul", "dhk,bid->bihk": "MatMul",
    "...id,...jd->...ij": "MatMul", "id,dj": "MatMul", "bij,bj->bi": "MatMul", "i,i->": "MatMul",
    "bij,jk->ik": "MatMul", "bij,kj->bk": "MatMul", "bhi,bhj->hbij": "Mul", "i,j->ij": "Mul",
    "bi,i->bi": "Mul", "bhij->bhji": "", "bhij->jb": "", "bij->": "",
}  # fmt: skip


def operands(g: Graph, equation: str, known: bool) -> list[str]:
    """Inputs; the last one is a constant if all is not unknown."""
    terms = equation.partition("->")[0].replace("...", "bh").split(",")
    shapes = [[SIZES[letter] for letter in term] for term in terms]
    last = g.random if known else g.input
    return [*(g.input(*shape) for shape in shapes[:-1]), last(*shapes[-1])]


def in_double_precision(g: Graph, equation: str, names: list[str]) -> np.ndarray:
    wide = [g.feed[n] if n in g.feed else g.array(n) for n in names]
    return np.asarray(np.einsum(equation, *(x.astype(np.float64) for x in wide)))


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("equation", PRODUCTS)
def test_products_run_in_loops(equation, known):
    if known and "," not in equation:
        return
    g = Graph()
    names = operands(g, equation, known)
    y = g.Einsum(*names, equation=equation)
    kinds = operators(stages(g, y)[1])
    assert "Einsum" not in kinds
    wanted = PRODUCTS[equation]
    assert not wanted or kinds[wanted] + kinds["pplconv::Linear"] == 1
    session = InferenceSession(g.model(y), threads=1)
    want = in_double_precision(g, equation, names)
    agree(session.run(None, g.feed), [want.astype(np.float32)])
    assert on_host(session) == []


@pytest.mark.parametrize("equation", ["ii->i", "bii->b", "ij,jk,kd->id", "ij,ij,ij->"])
def test_what_is_no_product(equation):
    g = Graph()
    names = operands(g, equation, False)
    session = InferenceSession(g.model(g.Einsum(*names, equation=equation)), threads=1)
    want = in_double_precision(g, equation, names)
    agree(session.run(None, g.feed), [want.astype(np.float32)])
    assert on_host(session) == ["Einsum"]


@pytest.mark.parametrize(("dtype", "allowed"), [(np.float32, 1e-6), (np.float64, 1e-14),
                                                (np.float16, 2e-3)])  # fmt: skip
@pytest.mark.parametrize("axis", [-1, 1])
def test_rms_normalization_runs_in_loops(axis, dtype, allowed, rng):
    """Squares beyond float16 are no infinities."""
    x = (rng.standard_normal((2, 5, 16)) * 300).astype(dtype)
    scale = rng.standard_normal(x.shape[axis:]).astype(dtype)
    case = Case([x, scale], {"axis": axis, "epsilon": 0.25}, opset=24)
    session = InferenceSession(case.model("RMSNormalization"), threads=1)
    (y,) = session.run(None, case.feed())
    wide = x.astype(np.float64)
    over = tuple(range(axis % 3, 3))
    want = wide / np.sqrt(np.square(wide).mean(over, keepdims=True) + 0.25) * scale
    assert y.dtype == dtype and on_host(session) == []
    np.testing.assert_allclose(y, want, rtol=allowed, atol=allowed * 10)


@pytest.mark.parametrize("causal", [0, 1])
def test_attention_runs_in_loops(causal, rng):
    """Of heads that share keys."""
    q, k, v = (rng.standard_normal((2, h, 5, 8)).astype(np.float32) for h in (6, 2, 2))
    case = Case([q, k, v], {"is_causal": causal}, opset=24)
    session = InferenceSession(case.model("Attention"), threads=1)
    (y,) = session.run(None, case.feed())
    wide = [x.astype(np.float64).repeat(6 // x.shape[1], 1) for x in (q, k, v)]
    scores = wide[0] @ wide[1].swapaxes(2, 3) / np.sqrt(8)
    scores = np.where(np.tri(5, dtype=bool) | (not causal), scores, -np.inf)
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    agree([y], [(shares / shares.sum(-1, keepdims=True) @ wide[2]).astype(np.float32)])
    assert on_host(session) == []


@pytest.mark.parametrize("interleaved", [0, 1])
def test_rotary_embedding_runs_in_loops(interleaved, rng):
    """Pairs of numbers, as one complex number, times a number of the unit circle."""
    x, angles = rng.standard_normal((2, 3, 5, 8)), rng.uniform(0, 7, (9, 4))
    places = rng.integers(0, 9, (2, 5))
    tables = [curve(angles).astype(np.float32) for curve in (np.cos, np.sin)]
    case = Case([x.astype(np.float32), *tables, places], {"interleaved": interleaved}, (1, 2, 3),
                opset=23)  # fmt: skip
    session = InferenceSession(case.model("RotaryEmbedding"), threads=1)
    (y,) = session.run(None, case.feed())
    pairs = x.reshape(2, 3, 5, 4, 2) if interleaved else x.reshape(2, 3, 5, 2, 4).swapaxes(3, 4)
    turned = (pairs[..., 0] + 1j * pairs[..., 1]) * np.exp(1j * angles[places])[:, None]
    want = np.stack([turned.real, turned.imag], -1 if interleaved else -2).reshape(x.shape)
    agree([y], [want.astype(np.float32)])
    assert on_host(session) == []
