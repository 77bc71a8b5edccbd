"""Products with matrices as networks of one node, of operands that lie in any way."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pplconv.network.session import InferenceSession
from tests.emulation import is_emulated
from tests.network.graphs import Graph
from tests.network.running import agree, alike, on_host, one

EXAMPLES = 5 if is_emulated() else max(settings.default.max_examples // 4, 10)
Shape = tuple[int, ...]
Made = tuple[str, np.ndarray]
both_types = pytest.mark.parametrize("dtype", [np.float32, np.float64])


@both_types
@pytest.mark.parametrize("shape", [(4, 6), (1, 6), (2, 3, 6), (2, 1, 5, 6)])
@pytest.mark.parametrize("columns", [1, 9, 20])
def test_matmul(shape, columns, dtype, g):
    one(g, g.MatMul(g.input(*shape), g.random(6, columns)))


@pytest.mark.parametrize(
    ("a", "b"), [((6,), (6, 4)), ((2, 3, 6), (2, 6, 4)), ((3, 6), (6,)), ((5, 4, 6), (6, 2))]
)
def test_matmul_of_two_inputs_or_other_ranks(a, b, g):
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


def test_products_that_share_weights(g):
    """Transposed, times a factor, and with another number of rows."""
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


@both_types
@pytest.mark.parametrize("shapes", SHAPES)
def test_two_computed_matrices(shapes, dtype, g):
    y = g.MatMul(*(g.input(*shape) for shape in shapes))
    results = [one(g, y, threads=threads)[0] for threads in (1, 2, 3)]
    assert len({y.tobytes() for y in results}) == 1


@pytest.mark.parametrize("sizes", [(1, 40, 8, 15), (2, 5, 3, 4), (1, 1, 2, 3)])
def test_attention(sizes, g):
    """Queries, keys and values are views of one array; keys are turned round."""
    batch, times, heads, depth = sizes
    x = g.Transpose(g.input(batch, times, 3, heads, depth), perm=[2, 0, 3, 1, 4])
    parts = g.Split(x, axis=0, num_outputs=3, outputs=3)
    q, k, v = (g.Squeeze(part, g.constant([0], np.int64)) for part in parts)
    scores = g.MatMul(q, g.Transpose(k, perm=[0, 1, 3, 2]))
    one(g, g.MatMul(g.Softmax(scores), v))


# Operands that lie in any way: views, results of steps, batches, no elements


def _input(g: Graph, shape: Shape, draw) -> Made:
    name = g.input(*shape)
    return name, g.feed[name]


def _computed(g: Graph, shape: Shape, draw) -> Made:
    name, x = _input(g, shape, draw)
    return g.Relu(name), np.maximum(x, 0)


def _transposed(g: Graph, shape: Shape, draw) -> Made:
    order = draw(st.permutations(range(len(shape))))
    held = [0] * len(shape)
    for place, axis in enumerate(order):
        held[axis] = shape[place]
    name, x = _input(g, tuple(held), draw)
    return g.Transpose(name, perm=list(order)), x.transpose(order)


def _sliced(g: Graph, shape: Shape, draw) -> Made:
    axis, step, first = (draw(st.integers(*b)) for b in ((0, len(shape) - 1), (1, 3), (0, 2)))
    held = [*shape]
    held[axis] = first + shape[axis] * step
    name, x = _input(g, tuple(held), draw)
    numbers = (g.constant([n], np.int64) for n in (first, 1 << 40, axis, step))
    kept = [slice(None)] * len(shape)
    kept[axis] = slice(first, None, step)
    return g.Slice(name, *numbers), x[tuple(kept)]


def _expanded(g: Graph, shape: Shape, draw) -> Made:
    held = tuple(n if draw(st.booleans()) else 1 for n in shape)
    name, x = _input(g, held, draw)
    return g.Expand(name, g.constant(shape, np.int64)), np.broadcast_to(x, shape)


def _split(g: Graph, shape: Shape, draw) -> Made:
    axis = draw(st.integers(0, len(shape) - 1))
    held = [*shape]
    held[axis] += 3
    name, x = _input(g, tuple(held), draw)
    parts = g.Split(name, g.constant([1, shape[axis], 2], np.int64), axis=axis, outputs=3)
    return parts[1], np.split(x, [1, 1 + shape[axis]], axis)[1]


KINDS: tuple[Callable[..., Made], ...] = (
    _input, _computed, _transposed, _sliced, _expanded, _split,
)  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_operands(dtype, data):
    draw = data.draw
    g = Graph(draw(st.integers(0, 1 << 16)), dtype=dtype)
    size = st.sampled_from([1, 2, 3, 5, 16, 17, 33, 0])
    m, k, n = draw(size), draw(size), draw(size)
    batch = draw(st.lists(st.sampled_from([1, 2, 3, 0]), max_size=3))
    fit = [tuple(b if draw(st.booleans()) else 1 for b in batch) for _ in range(2)]
    a = (k,) if draw(st.integers(0, 7)) == 0 else (*fit[0], m, k)
    b = (k,) if draw(st.integers(0, 7)) == 0 else (*fit[1][draw(st.integers(0, 3)) :], k, n)
    (left, x), (right, y) = (draw(st.sampled_from(KINDS))(g, shape, draw) for shape in (a, b))
    expected = np.matmul(x.astype(np.float64), y.astype(np.float64)).astype(dtype)
    name = g.MatMul(left, right)
    if expected.ndim and draw(st.booleans()):
        # Written where a joined array wants it.
        name, expected = g.Concat(name, name, axis=-1), np.concatenate([expected] * 2, -1)
    model = g.model(name)
    sessions = [InferenceSession(model, threads=threads) for threads in (1, 2)]
    agree(alike(sessions, g.feed), [expected], least=1.0)
    assert not (on_host(sessions[0]) and min(*x.shape, *y.shape))


@pytest.mark.parametrize(
    "batches", [((300, 1), (1, 300)), ((1, 200), (200, 1)), ((70, 2), (70, 1))]
)
def test_batches_that_no_problem_covers(batches, g):
    """However many products there are, the program stays small and is made soon."""
    a, b = (g.input(*batch, 2, 3) if i == 0 else g.input(*batch, 3, 2)
            for i, batch in enumerate(batches))  # fmt: skip
    left, right = g.feed[a], g.feed[b]
    session = InferenceSession(g.model(g.MatMul(a, g.Relu(b))), threads=2)
    agree(session.run(None, g.feed), [np.matmul(left, np.maximum(right, 0))])
    (compiled, _), *_ = session._network.programs.values()
    assert len(compiled.steps) < 1000


def test_a_matrix_by_itself(g):
    """One array is both operands, and one of them is turned round."""
    x = g.Relu(g.input(2, 9, 9))
    model = g.model(g.MatMul(x, x), g.MatMul(x, g.Transpose(x, perm=[0, 2, 1])))
    (held,) = g.feed.values()
    y = np.maximum(held, 0)
    agree(InferenceSession(model, threads=1).run(None, g.feed), [y @ y, y @ y.transpose(0, 2, 1)])


def test_products_after_products(g):
    """One product's packed operand lies where another's was, and is packed anew in each run."""
    x, w = g.input(7, 7), g.input(7, 7)
    y = x
    for _ in range(6):
        y = g.Tanh(g.MatMul(y, g.MatMul(w, y)))
    session = InferenceSession(g.model(y), threads=2)
    for seed in range(3):
        rng = np.random.default_rng(seed)
        feed = {name: (rng.standard_normal((7, 7)) / 4).astype(np.float32) for name in (x, w)}
        expected, other = (feed[name].astype(np.float64) for name in (x, w))
        for _ in range(6):
            expected = np.tanh(expected @ (other @ expected))
        agree(session.run(None, feed), [expected.astype(np.float32)], 1e-5)
