"""Einsum as products of matrices in loops, and RMSNormalization, beside float64."""

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
