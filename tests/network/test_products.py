"""Products with matrices as networks of one node, against ONNX's reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphs import Graph
from running import check

both_types = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def one(g: Graph, *outputs: str, **options: Any) -> None:
    """Compare the network that was written."""
    check(g.model(*outputs), g.feed, **options)


@both_types
@pytest.mark.parametrize("shape", [(4, 6), (1, 6), (2, 3, 6), (2, 1, 5, 6)])
@pytest.mark.parametrize("columns", [1, 9, 20])
def test_matmul(shape, columns, dtype):
    g = Graph(22, dtype=dtype)
    one(g, g.MatMul(g.input(*shape), g.random(6, columns)))


@pytest.mark.parametrize(
    ("a", "b"), [((6,), (6, 4)), ((2, 3, 6), (2, 6, 4)), ((3, 6), (6,)), ((5, 4, 6), (6, 2))]
)
def test_matmul_of_two_inputs_or_other_ranks(a, b):
    g = Graph(23)
    one(g, g.MatMul(g.input(*a), g.input(*b)), host=True)


@both_types
@pytest.mark.parametrize("turned", [0, 1])
@pytest.mark.parametrize("bias", [None, (), (1,), (5,), (1, 5)])
def test_gemm(turned, bias, dtype):
    for factors in ({}, {"alpha": 0.5}, {"alpha": -2.0, "beta": 0.25}):
        g = Graph(24, dtype=dtype)
        w = g.random(*((5, 7) if turned else (7, 5)))
        more = () if bias is None else (g.random(*bias),)
        one(g, g.Gemm(g.input(3, 7), w, *more, transB=turned, **factors))


def test_products_that_share_weights():
    """Transposed, times a factor, and with another number of rows."""
    g = Graph(32)
    x, w = g.input(3, 7), g.random(7, 7)
    one(g, g.MatMul(x, w), g.Gemm(x, w, transB=1), g.Gemm(x, w, alpha=0.5), g.MatMul(g.Exp(x), w))


def test_gemm_in_python():
    for shape, attributes, bias in (((7, 3), {"transA": 1}, (5,)), ((3, 7), {}, (3, 1))):
        g = Graph(25)
        one(g, g.Gemm(g.input(*shape), g.random(7, 5), g.random(*bias), **attributes), host=True)
