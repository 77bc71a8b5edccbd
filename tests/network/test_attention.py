"""Attention as one step, beside float64, onnxruntime and the separate steps."""

from __future__ import annotations

import numpy as np
import pytest

from pplconv.network import compiling
from pplconv.network.session import InferenceSession
from tests.network.graphs import Graph
from tests.network.running import (
    agree,
    by_onnxruntime,
    needs_onnxruntime,
    on_host,
    run,
    same,
    session_of,
    step_kinds,
)

both_types = pytest.mark.parametrize("dtype", [np.float32, np.float64])
BOUNDS = {np.dtype(np.float32): 2e-6, np.dtype(np.float64): 1e-14}


def attended(q, k, v, scores=lambda x: x):
    """Attention in float64; `scores` changes the products before the softmax."""
    wide = [x.astype(np.float64) for x in (q, k, v)]
    with np.errstate(all="ignore"):
        x = scores(wide[0] @ wide[1].swapaxes(-1, -2))
        shares = np.exp(x - x.max(-1, keepdims=True))
        return shares / shares.sum(-1, keepdims=True) @ wide[2]


def heads(g, batch, count, queries, keys, width, depth):
    """Inputs of queries, keys and values."""
    return [
        g.input(batch, count, *sizes) for sizes in ((queries, width), (keys, width), (keys, depth))
    ]


def products(g, q, k):
    return g.MatMul(q, g.Transpose(k, perm=[0, 1, 3, 2]))


def is_fused(session: InferenceSession, feed) -> bool:
    kinds = step_kinds(session, feed)
    assert ("Attention" in kinds) != ("Softmax" in kinds)
    assert on_host(session) == []
    return "Attention" in kinds


def compared(g, y, want, fused=True):
    """Run by teams of three sizes, which give the same bits, and compare with float64."""
    assert is_fused(session_of(g, y), g.feed) == fused
    got = run(g.model(y), g.feed, (1, 2, 3))
    agree(got, [want.astype(g.dtype)], BOUNDS[g.dtype])
    return got


@both_types
@pytest.mark.parametrize(
    "sizes",
    [
        (1, 2, 8, 1, 4, 3), (1, 1, 1, 1, 1, 1), (2, 3, 1, 4, 8, 5), (2, 3, 9, 9, 8, 8),
        (1, 1, 33, 70, 17, 5), (2, 1, 49, 49, 32, 32),
        (1, 3, 197, 197, 64, 64), (1, 2, 100, 850, 32, 33), (1, 1, 300, 129, 1, 1),
        (3, 2, 32, 1024, 3, 16),
    ],
)  # fmt: skip
def test_sizes(sizes, dtype, g):
    """With tails everywhere, one query, key and number a head, rows of a power of two."""
    q, k, v = heads(g, *sizes)
    # Sums of many products would lose digits that the softmax shows.
    g.feed[q] /= np.sqrt(g.dtype.type(sizes[4]))
    y = g.MatMul(g.Softmax(products(g, q, k)), v)
    compared(g, y, attended(*(g.feed[name] for name in (q, k, v))))


@pytest.mark.parametrize("queries", [1, 7])
def test_few_queries_are_separate_steps(queries, g):
    q, k, v = heads(g, 1, 2, queries, 40, 8, 8)
    y = g.MatMul(g.Softmax(products(g, q, k)), v)
    compared(g, y, attended(*(g.feed[name] for name in (q, k, v))), fused=False)


@pytest.mark.parametrize("operator", ["Mul", "Div"])
@pytest.mark.parametrize("place", ["q", "k", "both", "after", "none"])
def test_scales(place, operator, g):
    names = heads(g, 2, 2, 13, 21, 8, 5)
    number = 0.25 if operator == "Mul" else 4.0
    q, k, v = names

    def scaled(x):
        return getattr(g, operator)(x, g.constant(number))

    if place in ("q", "both"):
        q = scaled(q)
    if place in ("k", "both"):
        k = scaled(k)
    x = products(g, q, k)
    y = g.MatMul(g.Softmax(scaled(x) if place == "after" else x), v)
    factor = {"both": 1 / 16, "none": 1.0}.get(place, 0.25)
    compared(g, y, attended(*(g.feed[name] for name in names), lambda x: x * factor))


MASKS = [
    (2, 3, 17, 30), (2, 1, 17, 30), (2, 1, 1, 30), (1, 3, 17, 1), (17, 30), (30,), (1, 1, 1, 1),
]  # fmt: skip


@both_types
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("shape", MASKS)
def test_added_masks(shape, known, dtype, g):
    names = heads(g, 2, 3, 17, 30, 8, 6)
    mask = g.random(*shape) if known else g.input(*shape)
    added = g.array(mask) if known else g.feed[mask]
    if len(shape) > 1 and shape[-1] > 1:
        added = added.copy()
        added[..., 3:7] = -np.inf
        if not known:
            g.feed[mask] = added
    if known:
        added = g.array(mask)
    x = g.Add(g.Mul(products(g, *names[:2]), g.constant(0.3)), mask)
    y = g.MatMul(g.Softmax(x, axis=3), names[2])
    compared(g, y, attended(*(g.feed[name] for name in names), lambda x: x * 0.3 + added))


@both_types
@pytest.mark.parametrize("shape", [(2, 1, 17, 30), (2, 1, 1, 30), (30,)])
def test_masks_of_truths(shape, dtype, g):
    names = heads(g, 2, 3, 17, 30, 8, 6)
    mask = g.input(*shape, dtype=np.bool_)
    g.feed[mask] = allowed = np.random.default_rng(3).random(shape) < 0.6
    x = g.Where(mask, products(g, *names[:2]), g.constant(-np.inf))
    y = g.MatMul(g.Softmax(x), names[2])
    want = attended(*(g.feed[n] for n in names), lambda x: np.where(allowed, x, -np.inf))
    compared(g, y, want)


@needs_onnxruntime
def test_rows_without_keys_and_numbers_that_are_none(g):
    """NaN stands in the rows where onnxruntime has it, and in no other."""
    q, k, v = heads(g, 1, 2, 20, 18, 8, 4)
    mask = g.input(20, 18)
    g.feed[mask][4] = -np.inf
    g.feed[mask][9, 3] = np.nan
    g.feed[mask][11, 2] = np.inf
    g.feed[mask][12, 5] = -np.inf
    g.feed[v][0, 1, 6, 2] = np.inf
    y = g.MatMul(g.Softmax(g.Add(products(g, q, k), mask)), v)
    session = session_of(g, y)
    assert is_fused(session, g.feed)
    got = session.run(None, g.feed)
    agree(got, by_onnxruntime(g.model(y), g.feed), 2e-6)
    assert np.isnan(got[0][0, 0, [4, 9, 11]]).all() and np.isfinite(got[0][0, 0, 12]).all()


def test_caps_and_several_sums(g):
    """As DeBERTa and Gemma have them; one of the sums is a product, too."""
    names = heads(g, 1, 2, 40, 40, 8, 8)
    other = g.input(1, 2, 40, 40)
    x = g.Mul(g.Tanh(g.Div(products(g, *names[:2]), g.constant(5.0))), g.constant(5.0))
    more = g.MatMul(names[0], g.Transpose(names[1], perm=[0, 1, 3, 2]))
    y = g.MatMul(g.Softmax(g.Add(g.Add(x, more), other)), names[2])
    want = attended(
        *(g.feed[name] for name in names), lambda x: 5 * np.tanh(x / 5) + x + g.feed[other]
    )
    compared(g, y, want)


@pytest.mark.parametrize("images", [1, 2])
def test_masks_of_windows(images, g):
    """As Swin has them: a bias of each head, a mask of each window, between reshapes."""
    windows, count, n, width = 4, 3, 9, 8
    names = heads(g, images * windows, count, n, n, width, width)
    bias, mask = g.random(1, count, n, n), g.random(1, windows, 1, n, n)
    apart = g.constant([images, windows, count, n, n], np.int64)
    joined = g.constant([-1, count, n, n], np.int64)
    x = g.Add(products(g, *names[:2]), bias)
    x = g.Reshape(g.Add(g.Reshape(x, apart), mask), joined)
    y = g.MatMul(g.Softmax(x), names[2])

    def scores(x):
        x = (x + g.array(bias)).reshape(images, windows, count, n, n) + g.array(mask)
        return x.reshape(-1, count, n, n)

    compared(g, y, attended(*(g.feed[name] for name in names), scores))


@pytest.mark.parametrize("sizes", [(1, 40, 8, 15), (2, 50, 3, 4)])
def test_heads_are_views(sizes, g):
    """Queries, keys and values are parts of one array, and heads are joined without a copy."""
    batch, times, count, width = sizes
    x = g.input(batch, times, 3, count, width)
    parts = g.Split(g.Transpose(x, perm=[2, 0, 3, 1, 4]), axis=0, num_outputs=3, outputs=3)
    q, k, v = (g.Squeeze(part, g.constant([0], np.int64)) for part in parts)
    y = g.Transpose(g.MatMul(g.Softmax(products(g, q, k)), v), perm=[0, 2, 1, 3])
    y = g.Relu(g.Reshape(y, g.constant([batch, times, -1], np.int64)))
    assert step_kinds(session_of(g, y), g.feed) == ["Attention", "Relu"]
    q, k, v = (np.moveaxis(g.feed[x][:, :, i], 1, 2) for i in range(3))
    want = np.maximum(np.moveaxis(attended(q, k, v), 1, 2).reshape(batch, times, -1), 0)
    compared(g, y, want)


def test_shared_keys_and_heads_without_a_batch(g):
    """Keys and values are broadcast to all heads of the queries; ranks differ."""
    q, k, v = g.input(2, 4, 12, 8), g.input(1, 1, 20, 8), g.input(20, 6)
    y = g.MatMul(g.Softmax(g.MatMul(q, g.Transpose(k, perm=[0, 1, 3, 2]))), v)
    compared(g, y, attended(*(g.feed[name] for name in (q, k, v))))


def test_matrices(g):
    q, k, v = g.input(30, 8), g.input(8, 20), g.input(20, 6)
    y = g.MatMul(g.Softmax(g.MatMul(q, k)), v)
    q, k, v = (g.feed[name] for name in (q, k, v))
    compared(g, y, attended(q, k.T, v))


@both_types
def test_operands_that_lie_otherwise(dtype, g):
    """Places beside one another, and each third number of an array."""
    q = g.Transpose(g.input(2, 3, 8, 33), perm=[0, 1, 3, 2])
    third = [g.constant([n], np.int64) for n in (0, 1 << 40, 3, 3)]
    k = g.Slice(g.input(2, 3, 40, 24), *third)
    v = g.Transpose(g.input(2, 3, 7, 40), perm=[0, 1, 3, 2])
    y = g.MatMul(g.Softmax(products(g, q, k)), v)
    feed = [*g.feed.values()]
    q, k, v = feed[0].swapaxes(2, 3), feed[1][..., ::3], feed[2].swapaxes(2, 3)
    compared(g, y, attended(q, k, v))


@pytest.mark.parametrize("other", ["scores", "shares", "axis", "log"])
def test_what_is_no_attention(other, g):
    """Scores or probabilities that others read are computed as a whole."""
    q, k, v = heads(g, 1, 2, 16, 16, 8, 8)
    x = products(g, q, k)
    softmax = g.LogSoftmax if other == "log" else g.Softmax
    shares = softmax(x, axis=2 if other == "axis" else 3)
    y = g.MatMul(shares, v)
    outputs = {"scores": (y, x), "shares": (y, shares)}.get(other, (y,))
    assert "Attention" not in step_kinds(session_of(g, *outputs), g.feed)


def test_separate_steps_give_the_same_bits(g):
    """With the scores as a second output, all steps are separate."""
    q, k, v = heads(g, 2, 2, 65, 90, 24, 20)
    x = g.Mul(products(g, q, k), g.constant(0.2))
    y = g.MatMul(g.Softmax(x), v)
    whole = session_of(g, y, x).run(None, g.feed)
    same(session_of(g, y).run(None, g.feed), whole[:1])


def test_scores_take_no_arena(g):
    """Of 1500 places, as in Whisper, all scores would take 18 MB a head."""
    q, k, v = heads(g, 1, 2, 1500, 1500, 8, 8)
    y = g.MatMul(g.Softmax(products(g, q, k)), v)
    session = session_of(g, y)
    assert is_fused(session, g.feed)
    assert session.plan_for(g.feed).arena_bytes < 1 << 20
    agree(
        session.run(None, g.feed),
        [attended(*(g.feed[name] for name in (q, k, v))).astype(np.float32)], 2e-6,
    )  # fmt: skip


def test_a_network_keeps_its_graph(g):
    """Two attentions, one behind the other, and a residual."""
    q, k, v = heads(g, 1, 2, 24, 24, 8, 8)
    first = g.MatMul(g.Softmax(products(g, q, k)), v)
    second = g.Add(g.MatMul(g.Softmax(products(g, first, k)), first), q)
    inner = attended(*(g.feed[name] for name in (q, k, v)))
    want = attended(inner, g.feed[k], inner) + g.feed[q]
    assert step_kinds(session_of(g, second), g.feed).count("Attention") == 2
    got = run(g.model(second), g.feed, (1, 2, 3))
    agree(got, [want.astype(np.float32)], 4e-6)


def test_graphs_are_independent_of_names():
    """Another seed and float64, in one session for two sets of shapes."""
    g = Graph(7, dtype=np.float64)
    q, k, v = (g.input(*shape, free=True) for shape in ((1, 2, 9, 8), (1, 2, 11, 8), (1, 2, 11, 5)))
    y = g.MatMul(g.Softmax(products(g, q, k)), v)
    session = session_of(g, y)
    for queries, keys in ((9, 11), (40, 3)):
        feed = {
            name: g.rng.standard_normal((1, 2, n, width))
            for name, n, width in ((q, queries, 8), (k, keys, 8), (v, keys, 5))
        }
        agree(session.run(None, feed), [attended(*(feed[name] for name in (q, k, v)))], 1e-14)


def quantized(g, x, scale, zero, dtype=np.uint8):
    """A pair of nodes that rounds to multiples of a scale."""
    numbers = g.constant(scale), g.constant(zero, dtype)
    return g.DequantizeLinear(g.QuantizeLinear(x, *numbers), *numbers)


def rounded(x, scale, zero, dtype=np.uint8):
    info = np.iinfo(dtype)
    steps = np.rint(x.astype(np.float32) / np.float32(scale)).astype(np.float64) + zero
    return (np.clip(steps, info.min, info.max) - zero) * scale


def separate(monkeypatch, g, y):
    """Outputs by steps that are not joined."""
    with monkeypatch.context() as patched:
        patched.setattr(compiling, "with_attention", lambda items, graph: items)
        session = session_of(g, y)
        assert "Attention" not in step_kinds(session, g.feed)
        return session.run(None, g.feed)


@pytest.mark.parametrize(
    "places", ["scores", "masked", "shares", "all"], ids=lambda places: f"of {places}"
)
@pytest.mark.parametrize(
    "sizes", [(2, 2, 37, 41), (1, 1, 300, 129), (1, 2, 33, 2500), (1, 3, 5, 1)]
)
@needs_onnxruntime
def test_quantizations(places, sizes, g, monkeypatch):
    """As quantizers place them: of scores, before and behind a mask, and of probabilities."""
    batch, count, queries, keys = sizes
    q, k, v = heads(g, batch, count, queries, keys, 8, 6)
    x = products(g, q, k)
    if places != "shares":
        x = quantized(g, x, 0.0625, 114)
    if places in ("masked", "all"):
        x = quantized(g, g.Add(x, g.input(queries, keys)), 0.125, -3, np.int8)
    shares = g.Softmax(x)
    if places in ("shares", "all"):
        shares = quantized(g, shares, 1 / 256, 0)
    y = g.MatMul(shares, v)
    session = session_of(g, y)
    assert step_kinds(session, g.feed) == ["Attention"]
    got = run(g.model(y), g.feed, (1, 2, 3))
    same(got, separate(monkeypatch, g, y))
    # Sums in another order are rounded to the next multiple here and there.
    (want,) = by_onnxruntime(g.model(y), g.feed)
    error = np.abs(got[0] - want)
    assert error.mean() < 1e-3 * np.abs(want).max() and error.max() < 0.1 * np.abs(want).max()


def test_quantized_numbers_that_others_read(g):
    """They are computed as a whole: one reader is not part of the attention."""
    q, k, v = heads(g, 1, 2, 40, 40, 8, 8)
    numbers = g.constant(0.0625), g.constant(114, np.uint8)
    steps = g.QuantizeLinear(products(g, q, k), *numbers)
    y = g.MatMul(g.Softmax(g.DequantizeLinear(steps, *numbers)), v)
    z = g.Add(g.DequantizeLinear(steps, *numbers), g.constant(1.0))
    session = session_of(g, y, z)
    assert "Attention" not in step_kinds(session, g.feed)
    (_, more) = session.run(None, g.feed)
    x = g.feed[q].astype(np.float64) @ g.feed[k].astype(np.float64).swapaxes(-1, -2)
    assert np.abs(more - 1 - rounded(x, 0.0625, 114)).max() < 0.07


@both_types
@pytest.mark.parametrize("reshaped", [False, True])
def test_programs_behind_the_softmax(reshaped, dtype, g):
    """Probabilities that a mask scales, and a number added to all of them."""
    names = heads(g, 4, 3, 17, 30, 8, 6)
    kept = g.input(4, 1, 17, 30)
    shares = g.Softmax(products(g, *names[:2]))
    if reshaped:
        apart = g.Reshape(shares, g.constant([2, 2, 3, 17, 30], np.int64))
        scaled = g.Mul(apart, g.Reshape(kept, g.constant([2, 2, 1, 17, 30], np.int64)))
        shares = g.Reshape(scaled, g.constant([4, 3, 17, 30], np.int64))
    else:
        shares = g.Mul(shares, kept)
    y = g.MatMul(g.Add(shares, g.constant(0.25)), names[2])
    q, k, v = (g.feed[name].astype(np.float64) for name in names)
    x = q @ k.swapaxes(-1, -2)
    x = np.exp(x - x.max(-1, keepdims=True))
    want = (x / x.sum(-1, keepdims=True) * g.feed[kept] + 0.25) @ v
    compared(g, y, want)
