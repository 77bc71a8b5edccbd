"""Products with matrices as networks of one node, against ONNX's reference."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.network.graphs import Graph
from tests.network.models import model_of
from tests.network.running import check, one

both_types = pytest.mark.parametrize("dtype", [np.float32, np.float64])


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
    one(g, g.MatMul(g.input(*a), g.input(*b)))


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


SHAPES = [
    ((3, 4), (4, 5)), ((7,), (7,)), ((7,), (7, 3)), ((2, 7), (7,)), ((2, 3, 4), (2, 4, 5)),
    ((2, 3, 4), (4, 5)), ((3, 4), (2, 4, 5)), ((2, 1, 3, 4), (1, 6, 4, 5)),
    ((8, 40, 15), (8, 15, 40)), ((2, 3, 2, 5, 6), (2, 1, 2, 6, 7)), ((1, 1, 1), (1, 1, 1)),
    ((33, 70), (70, 129)),
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shapes", SHAPES)
def test_two_computed_matrices(shapes, dtype):
    rng = np.random.default_rng(5)
    a, b = (rng.standard_normal(shape).astype(dtype) for shape in shapes)
    feed = {"a": a, "b": b}
    model = model_of([helper.make_node("MatMul", ["a", "b"], ["y"])], feed)
    results = [check(model, feed, threads=threads)[0] for threads in (1, 2, 3)]
    assert len({y.tobytes() for y in results}) == 1


@pytest.mark.parametrize("sizes", [(1, 40, 8, 15), (2, 5, 3, 4), (1, 1, 2, 3)])
def test_attention(sizes):
    """Queries, keys and values are views of one array; keys are turned round."""
    batch, times, heads, depth = sizes
    x = np.random.default_rng(6).standard_normal((batch, times, 3, heads, depth))
    x = x.astype(np.float32)
    axis = onnx.numpy_helper.from_array(np.array([0]))
    nodes = [
        helper.make_node("Constant", [], ["axis"], value=axis),
        helper.make_node("Transpose", ["a"], ["t"], perm=[2, 0, 3, 1, 4]),
        helper.make_node("Split", ["t"], ["q0", "k0", "v0"], axis=0, num_outputs=3),
        *(helper.make_node("Squeeze", [f"{n}0", "axis"], [n]) for n in "qkv"),
        helper.make_node("Transpose", ["k"], ["turned"], perm=[0, 1, 3, 2]),
        helper.make_node("MatMul", ["q", "turned"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["shares"]),
        helper.make_node("MatMul", ["shares", "v"], ["y"]),
    ]
    check(model_of(nodes, {"a": x}), {"a": x})
