"""Gates with a shortcut, and products with constant weights."""

from __future__ import annotations

import itertools

import pytest

from pplconv.network.fused_nodes import activation_of, inputs_of
from tests.network.graphs import fused, operators, rewritten, swap

pytestmark = pytest.mark.unemulated("reads and rewrites graphs, which no machine changes")

BOTH = [False, True]


# Gates


@pytest.mark.parametrize(("first", "flipped"), list(itertools.product(BOTH, BOTH)))
def test_shortcut_around_a_gate(first, flipped, g):
    x = g.conv(g.input(1, 4, 6, 6), 4, (4, 1, 1))
    gate = g.Sigmoid(g.conv(g.GlobalAveragePool(x), 4, (4, 1, 1)))
    result = rewritten(g, g.Add(*swap(first, x, g.Mul(*swap(flipped, x, gate)))))
    assert operators(result) == {"pplconv::Conv": 2, "GlobalAveragePool": 1, "Mul": 1}


def test_what_is_no_gate(g):
    x, full, wider = g.input(1, 4, 6, 6), g.input(1, 4, 6, 6), g.input(2, 1, 1, 1)
    y, z = g.Add(x, g.Mul(x, full)), g.Add(x, g.Mul(x, wider))
    assert operators(rewritten(g, y, z)) == {"Add": 2, "Mul": 2}


# Linear


@pytest.mark.parametrize("shape", [(3, 8), (2, 3, 8)])
@pytest.mark.parametrize("offset", [None, (6,), (1, 6), (1,), ()])
@pytest.mark.parametrize("first", BOTH)
def test_linear(shape, offset, first, g):
    y = g.MatMul(g.input(*shape), g.random(8, 6))
    if offset is not None:
        y = g.Add(*swap(first, y, g.random(*offset)))
    result = rewritten(g, g.Relu(y))
    (node,) = fused(result)
    assert operators(result) == {"pplconv::Linear": 1} and activation_of(node)[0] == "relu"
    assert (inputs_of(node)[2] is not None) == (offset is not None)


@pytest.mark.parametrize("transposed", [0, 1])
@pytest.mark.parametrize("offset", [None, (6,), (1, 6), (1,), ()])
@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 1.0), (0.5, 2.0)])
def test_gemm(transposed, offset, alpha, beta, g):
    w = g.random(*((6, 8) if transposed else (8, 6)))
    more = () if offset is None else (g.random(*offset),)
    y = g.Gemm(g.input(3, 8), w, *more, transB=transposed, alpha=alpha, beta=beta)
    assert operators(rewritten(g, g.Sigmoid(y))) == {"pplconv::Linear": 1}


@pytest.mark.parametrize("offset", [(3, 6), (3, 1)])
def test_offsets_along_rows_stay(offset, g):
    x = g.input(3, 8)
    y = g.Gemm(x, g.random(8, 6), g.random(*offset))
    z = g.Add(g.MatMul(x, g.random(8, 6)), g.random(*offset))
    assert operators(rewritten(g, y, z)) == {"Gemm": 1, "Add": 1, "pplconv::Linear": 1}


def test_products_that_are_no_linear(g):
    x = g.input(3, 8)
    results = (
        g.MatMul(x, g.input(8, 6)),
        g.MatMul(g.input(8), g.random(8, 6)),
        g.MatMul(x, g.random(8)),
        g.MatMul(x, g.random(2, 8, 6)),
        g.Gemm(x, g.random(3, 6), transA=1),
    )
    assert operators(rewritten(g, *results)) == {"MatMul": 4, "Gemm": 1}


def test_prelu_after_linear_stays(g):
    y = g.PRelu(g.MatMul(g.input(3, 8), g.random(8, 6)), g.random(6))
    assert operators(rewritten(g, y)) == {"pplconv::Linear": 1, "PRelu": 1}


@pytest.mark.parametrize("first", BOTH)
@pytest.mark.parametrize("shape", [(3, 8), (2, 3, 8)])
@pytest.mark.parametrize("offset", [None, "before", "after"])
def test_residual(first, shape, offset, g):
    y = g.MatMul(g.input(*shape), g.random(8, 6))
    if offset == "before":
        y = g.Add(y, g.random(6))
    y = g.Add(*swap(first, y, g.input(*shape[:-1], 6)))
    if offset == "after":
        y = g.Add(y, g.random(6))
    result = rewritten(g, g.Relu(y))
    (node,) = fused(result)
    assert operators(result) == {"pplconv::Linear": 1} and activation_of(node)[0] == "relu"
    assert inputs_of(node)[3] is not None


@pytest.mark.parametrize("first", BOTH)
def test_of_two_products_one_takes_in_the_other(first, g):
    y, z = (g.MatMul(g.input(3, 8), g.random(8, 6)) for _ in range(2))
    result = rewritten(g, g.Add(*swap(first, y, z)))
    assert operators(result) == {"pplconv::Linear": 2}


def test_sums_that_are_no_residual(g):
    """Of another shape, constant, behind an activation, or of a product with another user."""
    y, z, u, v = (g.MatMul(g.input(3, 8), g.random(8, 6)) for _ in range(4))
    results = (
        g.Add(y, g.input(1, 6)),
        g.Add(z, g.random(3, 6)),
        g.Add(g.Relu(u), g.input(3, 6)),
        g.Add(v, g.input(3, 6)),
        v,
    )
    assert operators(rewritten(g, *results)) == {"pplconv::Linear": 4, "Add": 4}
