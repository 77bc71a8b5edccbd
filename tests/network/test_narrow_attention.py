"""Attention of float16 and bfloat16 as one step: arrays as they are stored, sums in float32."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from pplconv import planner
from pplconv.network import compiling
from pplconv.network.formats import half_level
from tests.network.graphs import Graph
from tests.network.running import (
    by_onnxruntime,
    needs_onnxruntime,
    on_host,
    run,
    session_of,
    step_kinds,
)
from tests.network.test_attention import attended, heads, products

BFLOAT = np.dtype(ml_dtypes.bfloat16)
HALF = np.dtype(np.float16)
# Half the distance of two neighbours, relative to the larger one.
ROUNDING = {HALF: 2.0**-11, BFLOAT: 2.0**-8}
narrow_types = pytest.mark.parametrize("dtype", [HALF, BFLOAT], ids=["float16", "bfloat16"])


def near(got, want) -> None:
    """One rounding away from float64, and NaN where that has it."""
    assert got.dtype in ROUNDING and got.shape == want.shape
    found = got.astype(np.float64)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(want))
    finite = np.isfinite(want)
    scale = np.abs(want[finite]).max(initial=1e-3)
    bound = 1.01 * ROUNDING[got.dtype] * np.abs(want[finite]) + 4e-6 * scale
    assert (np.abs(found[finite] - want[finite]) <= bound).all()


def compared(g, y, want, kinds=("Attention",)):
    """Run these steps by teams of three sizes, which give the same bits."""
    session = session_of(g, y)
    assert on_host(session) == []
    assert step_kinds(session, g.feed) == list(kinds)
    assert on_host(session) == []
    (got,) = run(g.model(y), g.feed, (1, 2, 3))
    near(got, want)
    return got


def in_half_precision(monkeypatch) -> None:
    """Store values as on a CPU that computes in half precision."""
    isa = half_level() or planner.default_context("f32").isa
    monkeypatch.setattr(compiling, "half_level", lambda: isa)


def operands(g, *names):
    return [g.feed[name] for name in names]


@narrow_types
@pytest.mark.parametrize(
    "sizes",
    [
        (1, 2, 8, 1, 4, 3), (1, 1, 1, 1, 1, 1), (2, 3, 1, 4, 8, 5), (2, 3, 9, 9, 8, 8),
        (1, 1, 33, 70, 17, 5), (2, 1, 49, 49, 32, 32), (1, 3, 197, 197, 64, 64),
        (1, 2, 100, 850, 32, 33), (1, 1, 300, 129, 1, 1), (3, 2, 32, 1024, 3, 16),
    ],
)  # fmt: skip
def test_sizes(sizes, dtype, g):
    """With tails everywhere, one query, key and number a head, rows of a power of two."""
    q, k, v = heads(g, *sizes)
    g.feed[q] = (g.feed[q] / np.sqrt(np.float32(sizes[4]))).astype(dtype)
    y = g.MatMul(g.Softmax(products(g, q, k)), v)
    compared(g, y, attended(*operands(g, q, k, v)))


@narrow_types
def test_few_queries_are_separate_steps(dtype, g):
    q, k, v = heads(g, 1, 2, 3, 40, 8, 8)
    y = g.MatMul(g.Softmax(products(g, q, k)), v)
    session = session_of(g, y)
    assert "Attention" not in step_kinds(session, g.feed)
    near(session.run(None, g.feed)[0], attended(*operands(g, q, k, v)))


@narrow_types
@pytest.mark.parametrize("shape", [(2, 3, 17, 30), (2, 1, 1, 30), (17, 30), (1, 1, 1, 1)])
def test_masks(shape, dtype, g):
    """Masks that are computed, with minus infinity; a row without any key is NaN."""
    names = heads(g, 2, 3, 17, 30, 8, 6)
    mask = g.input(*shape)
    if shape[-1] > 1:
        g.feed[mask][..., 3:7] = -np.inf
    if shape == (17, 30):
        g.feed[mask][4] = -np.inf
    added = g.feed[mask].astype(np.float64)
    y = g.MatMul(g.Softmax(g.Add(products(g, *names[:2]), mask)), names[2])
    want = attended(*operands(g, *names), lambda x: x + added)
    compared(g, y, want, ["Reformat", "Attention"])


def test_masks_do_not_narrow_scores(monkeypatch):
    """Nor do masks as large as the scores where a CPU computes in half precision."""
    in_half_precision(monkeypatch)
    g = Graph(6, dtype=HALF)
    names = heads(g, 1, 2, 33, 30, 8, 6)
    mask = g.input(1, 2, 33, 30)
    y = g.MatMul(g.Softmax(g.Add(products(g, *names[:2]), mask)), names[2])
    added = g.feed[mask].astype(np.float64)
    want = attended(*operands(g, *names), lambda x: x + added)
    compared(g, y, want, ["Reformat", "Attention"])


@narrow_types
def test_numbers_that_are_none(dtype, g):
    """NaN and infinities in queries, keys and values spoil their own rows and columns."""
    q, k, v = heads(g, 1, 2, 20, 18, 8, 4)
    g.feed[q][0, 0, 5, 1] = np.nan
    g.feed[q][0, 1, 7, 1] = np.inf
    g.feed[v][0, 1, 6, 2] = np.nan
    y = g.MatMul(g.Softmax(products(g, q, k)), v)
    got = compared(g, y, attended(*operands(g, q, k, v)))
    assert np.isnan(got[0, 0, 5].astype(np.float32)).all()
    assert np.isfinite(got[0, 0, 6].astype(np.float32)).all()


def test_what_float16_cannot_hold(g):
    """Sums are float32: scores beyond 65504 are numbers, results beyond it infinite."""
    g = Graph(3, dtype=HALF)
    q, k, v = heads(g, 1, 1, 6, 5, 4, 3)
    g.feed[q] *= HALF.type(1000)
    g.feed[k] *= HALF.type(1000)
    g.feed[v][..., 0] = 65504
    y = g.MatMul(g.Softmax(products(g, q, k)), v)
    (got,) = run(g.model(y), g.feed)
    near(got, attended(*operands(g, q, k, v)))


@narrow_types
def test_operands_that_lie_otherwise(dtype, g):
    """Places beside one another, and each third number of an array, which is copied."""
    q = g.Transpose(g.input(2, 3, 8, 33), perm=[0, 1, 3, 2])
    third = [g.constant([n], np.int64) for n in (0, 1 << 40, 3, 3)]
    x = g.input(2, 3, 40, 24)
    k = g.Transpose(g.Slice(x, *third), perm=[0, 1, 3, 2])
    v = g.Transpose(g.input(2, 3, 7, 40), perm=[0, 1, 3, 2])
    y = g.MatMul(g.Softmax(g.MatMul(q, k)), v)
    session = session_of(g, y)
    assert step_kinds(session, g.feed).count("Attention") == 1
    feed = [*g.feed.values()]
    want = attended(feed[0].swapaxes(2, 3), feed[1][..., ::3], feed[2].swapaxes(2, 3))
    (got,) = run(g.model(y), g.feed, (1, 2))
    near(got, want)


@narrow_types
def test_square_operands(dtype, g):
    """Their shapes do not tell rows from columns."""
    q, k, v = (g.Transpose(g.input(2, 8, 8), perm=[0, 2, 1]) for _ in "qkv")
    y = g.MatMul(g.Softmax(g.MatMul(q, k)), v)
    q, k, v = (x.swapaxes(1, 2) for x in g.feed.values())
    compared(g, y, attended(q, k.swapaxes(1, 2), v), ["Copy", "Attention"])


@narrow_types
def test_heads_are_views(dtype, g):
    """Rows of all heads in and out, as exporters write them, are one step without a copy."""
    batch, times, count, width = 2, 50, 3, 4

    def apart(x, n):
        shape = g.constant([batch, n, count, width], np.int64)
        return g.Transpose(g.Reshape(x, shape), perm=[0, 2, 1, 3])

    rows = [g.input(batch, n, count * width) for n in (times, 40, 40)]
    q, k, v = (apart(x, n) for x, n in zip(rows, (times, 40, 40), strict=True))
    y = g.Transpose(g.MatMul(g.Softmax(products(g, q, k)), v), perm=[0, 2, 1, 3])
    y = g.Reshape(y, g.constant([batch, times, -1], np.int64))
    taken = (x.reshape(batch, -1, count, width).swapaxes(1, 2) for x in operands(g, *rows))
    want = attended(*taken).swapaxes(1, 2).reshape(batch, times, -1)
    compared(g, y, want)


@narrow_types
def test_what_others_read_is_converted_once(dtype, g):
    """Queries that are keys, and a result with two readers."""
    x = g.input(1, 2, 40, 8)
    shared = g.MatMul(g.Softmax(products(g, x, x)), x)
    y = g.Add(shared, x)
    session = session_of(g, y, shared)
    kinds = step_kinds(session, g.feed)
    assert kinds.count("Attention") == 1 and kinds.count("Reformat") >= 2
    got = session.run(None, g.feed)
    want = attended(*operands(g, x, x, x))
    near(got[1], want)
    near(got[0], want + g.feed[x].astype(np.float64))


@narrow_types
def test_attention_of_onnx(dtype, g):
    """Joined and separate heads, fewer of keys, causal; beside onnxruntime in float32."""
    g = Graph(5, dtype=dtype, opset=23)
    q, k, v = g.input(2, 40, 24), g.input(2, 40, 12), g.input(2, 40, 12)
    y = g.Attention(q, k, v, q_num_heads=4, kv_num_heads=2, is_causal=1, scale=0.25)
    (got,) = run(g.model(y), g.feed, (1, 2))
    session = session_of(g, y)
    assert "Attention" in step_kinds(session, g.feed) and on_host(session) == []
    rows = [x.astype(np.float64).reshape(2, 40, -1, 6).swapaxes(1, 2) for x in g.feed.values()]
    keys, values = (np.repeat(x, 2, axis=1) for x in rows[1:])
    causal = np.where(np.tri(40, dtype=bool), 0.0, -np.inf)
    want = attended(rows[0], keys, values, lambda x: 0.25 * x + causal)
    near(got, want.swapaxes(1, 2).reshape(2, 40, 24))


@needs_onnxruntime
def test_float16_beside_onnxruntime(g):
    """Its steps are rounded one by one: it is as near as that allows."""
    g = Graph(2, dtype=HALF)
    q, k, v = heads(g, 2, 3, 37, 45, 16, 8)
    y = g.MatMul(g.Softmax(products(g, q, k)), v)
    (got,) = run(g.model(y), g.feed)
    (other,) = by_onnxruntime(g.model(y), g.feed)
    want = attended(*operands(g, q, k, v))
    worst = [np.abs(x.astype(np.float64) - want).max() for x in (got, other)]
    assert worst[0] <= max(worst[1], 2.0**-11 * np.abs(want).max())


def test_projections_that_are_stored_in_float16(monkeypatch):
    """On a CPU that computes in half precision, neighbours give and take float16."""
    in_half_precision(monkeypatch)
    g = Graph(4, dtype=HALF)
    times, count, width = 40, 2, 8
    x = g.input(times, 16)

    def projected(x):
        rows = g.MatMul(x, g.constant(g.rng.standard_normal((16, 16)) / 8))
        shape = g.constant([1, times, count, width], np.int64)
        return g.Transpose(g.Reshape(rows, shape), perm=[0, 2, 1, 3])

    q, k, v = (projected(x) for _ in range(3))
    y = g.Transpose(g.MatMul(g.Softmax(products(g, q, k)), v), perm=[0, 2, 1, 3])
    y = g.MatMul(g.Reshape(y, g.constant([times, -1], np.int64)), g.random(16, 16))
    session = session_of(g, y)
    kinds = step_kinds(session, g.feed)
    assert kinds.count("Attention") == 1 and "Reformat" not in kinds
    wide = session_of(g, y, precision="fp32")
    got, want = (each.run(None, g.feed)[0].astype(np.float64) for each in (session, wide))
    np.testing.assert_allclose(got, want, rtol=0, atol=2.0**-8 * np.abs(want).max())
