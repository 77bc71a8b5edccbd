"""onnxruntime's attention, its products and its LSTM of integers, beside onnxruntime."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from pplconv.network.session import InferenceSession
from tests.network.graphs import Graph
from tests.network.quantizing import drawn_integers, drawn_weights
from tests.network.running import (
    by_onnxruntime,
    compare_models,
    needs_onnxruntime,
    on_host,
    referred,
)

pytestmark = needs_onnxruntime

OURS = {"domain": "com.microsoft"}
BATCH, LENGTH, HEADS, WIDTH = 2, 5, 3, 4
HIDDEN = HEADS * WIDTH


@pytest.fixture
def g() -> Graph:
    return Graph()


def mask_of(g: Graph, kind: str, keys: int = LENGTH) -> str:
    """A mask by its form."""
    arrays = {
        "lengths": np.int32([keys, keys - 2]),
        "keys": np.int32([[1] * keys, [1] * (keys - 3) + [0] * 3]),
        "pairs": np.tril(np.ones((BATCH, LENGTH, keys), np.int32), 2),
    }
    if not kind:
        return ""
    name = g.input(*arrays[kind].shape, dtype=np.int32)
    g.feed[name] = arrays[kind]
    return name


def given(*operands: str) -> list[str]:
    """Operands without those that are left out at the end."""
    names = list(operands)
    while not names[-1]:
        names.pop()
    return names


@pytest.mark.parametrize("mask", ["", "lengths", "keys", "pairs"])
@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("added", [False, True])
def test_attention(added, causal, mask, g):
    bias = g.input(BATCH, HEADS, LENGTH, LENGTH) if added else ""
    operands = given(
        g.input(BATCH, LENGTH, 7), g.random(7, 3 * HIDDEN), g.random(3 * HIDDEN), mask_of(g, mask),
        "", bias,
    )  # fmt: skip
    y = g.Attention(*operands, num_heads=HEADS, unidirectional=causal, **OURS)
    session = compare_models(g.model(y), g.feed)
    assert not {"Softmax", "MatMul"} & set(on_host(session))


def test_attention_of_other_sizes_and_scale(g):
    operands = g.input(BATCH, LENGTH, 7), g.random(7, 2 * HIDDEN + 6), g.random(2 * HIDDEN + 6)
    y = g.Attention(*operands, num_heads=HEADS, qkv_hidden_sizes=[HIDDEN, HIDDEN, 6], scale=0.3,
                    **OURS)  # fmt: skip
    compare_models(g.model(y), g.feed)


@pytest.mark.parametrize("causal", [0, 1])
def test_attention_with_a_past(causal, g):
    past = g.input(2, BATCH, HEADS, 3, WIDTH)
    operands = g.input(BATCH, LENGTH, 7), g.random(7, 3 * HIDDEN), g.random(3 * HIDDEN)
    mask = mask_of(g, "keys", LENGTH + 3)
    outputs = g.Attention(*operands, mask, past, num_heads=HEADS, unidirectional=causal, outputs=2,
                          **OURS)  # fmt: skip
    compare_models(g.model(*outputs), g.feed)


@pytest.mark.parametrize("mask", ["", "lengths", "keys", "pairs"])
@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("bias", [False, True])
def test_multi_head_attention(bias, causal, mask, g):
    rows = [g.input(BATCH, LENGTH, HIDDEN) for _ in range(3)]
    operands = given(*rows, g.random(3 * HIDDEN) if bias else "", mask_of(g, mask))
    y = g.MultiHeadAttention(*operands, num_heads=HEADS, unidirectional=causal, **OURS)
    session = compare_models(g.model(y), g.feed)
    assert not {"Softmax", "MatMul"} & set(on_host(session))


def test_multi_head_attention_with_a_past_and_a_bias_of_scores(g):
    rows = [g.input(BATCH, LENGTH, HIDDEN) for _ in range(3)]
    past = [g.input(BATCH, HEADS, 3, WIDTH) for _ in range(2)]
    added = g.input(1, HEADS, LENGTH, LENGTH + 3)
    outputs = g.MultiHeadAttention(*rows, "", "", added, *past, num_heads=HEADS, outputs=3, **OURS)
    compare_models(g.model(*outputs), g.feed)


def test_multi_head_attention_of_given_heads(g):
    """Across two sequences, as decoders read an encoder."""
    q, k, v = g.input(BATCH, LENGTH, HIDDEN), *(g.input(BATCH, HEADS, 7, WIDTH) for _ in range(2))
    compare_models(g.model(g.MultiHeadAttention(q, k, v, num_heads=HEADS, **OURS)), g.feed)


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("shape", [(2, 3, 5, 8), (2, 5, 24)])
@pytest.mark.parametrize("places", [[[0, 3, 1, 2, 4], [7, 6, 5, 4, 3]], [2]])
def test_rotary_embedding(places, shape, interleaved, g):
    operands = g.input(*shape), g.constant(places, np.int64), g.random(9, 4), g.random(9, 4)
    y = g.RotaryEmbedding(*operands, interleaved=interleaved, **OURS)
    session = compare_models(g.model(y), g.feed)
    assert not {"Mul", "Add", "Sub", "Concat"} & set(on_host(session))


def test_rotary_embedding_of_a_part(g):
    operands = (
        g.input(2, 5, 24),
        g.constant([[4] * 5] * 2, np.int64),
        g.random(9, 2),
        g.random(9, 2),
    )
    y = g.RotaryEmbedding(*operands, num_heads=3, rotary_embedding_dim=4, **OURS)
    compare_models(g.model(y), g.feed)


def test_what_attention_does_not_serve(g):
    x, w, b = g.input(BATCH, LENGTH, 7), g.random(7, 3 * HIDDEN), g.random(3 * HIDDEN)
    four = g.input(BATCH, 1, 9, 9, dtype=np.int32)
    nodes = {
        "num_heads 0": g.Attention(x, w, b, **OURS),
        "do_rotary": g.Attention(x, w, b, num_heads=HEADS, do_rotary=1, **OURS),
        "a mask of 4 axes": g.Attention(x, w, b, four, num_heads=HEADS, **OURS),
        "packed keys and values": g.MultiHeadAttention(x, num_heads=HEADS, **OURS),
    }
    for reason, y in nodes.items():
        with pytest.raises(ValueError, match=rf"com\.microsoft\.\w+ with {reason}.*: {y}"):
            InferenceSession(g.model(*nodes.values()), threads=1)


def test_a_layer_of_an_encoder(g):
    """As onnxruntime's optimizer writes BERT: the mask of an embedding, three fused kinds."""
    words = g.input(BATCH, LENGTH, dtype=np.int32)
    g.feed[words] = g.rng.integers(0, 9, (BATCH, LENGTH), np.int32)
    mask = mask_of(g, "keys")
    x, counts = g.EmbedLayerNormalization(
        words, "", g.random(9, HIDDEN), g.random(7, HIDDEN), "", g.random(HIDDEN), g.random(HIDDEN),
        mask, outputs=2, **OURS,
    )  # fmt: skip
    for _ in range(2):
        y = g.Attention(x, g.random(HIDDEN, 3 * HIDDEN), g.random(3 * HIDDEN), counts,
                        num_heads=HEADS, **OURS)  # fmt: skip
        y = g.MatMul(y, g.random(HIDDEN, HIDDEN))
        x = g.SkipLayerNormalization(y, x, *(g.random(HIDDEN) for _ in range(3)), **OURS)
        y = g.BiasGelu(g.MatMul(x, g.random(HIDDEN, 32)), g.random(32), **OURS)
        y = g.MatMul(y, g.random(32, HIDDEN))
        x = g.SkipLayerNormalization(y, x, *(g.random(HIDDEN) for _ in range(3)), **OURS)
    session = compare_models(g.model(x), g.feed)
    assert not {"Softmax", "MatMul", "LayerNormalization", "Gelu"} & set(on_host(session))


# Integers


def integers(g: Graph, dtype, *shape: int, known: bool = False) -> str:
    """An input of any integers, or constant weights."""
    array = (drawn_weights if known else drawn_integers)(g.rng, dtype, shape)
    if known:
        return g.constant(array, dtype)
    name = g.input(*shape, dtype=dtype)
    g.feed[name] = array
    return name


def quantized(g: Graph, x_type, w_type, channels: int) -> list[str]:
    """Operands of products: integers, scales of columns, zero points."""
    x = integers(g, x_type, 2, 5, 8)
    w = integers(g, w_type, 8, channels, known=True)
    scale = g.constant(g.rng.uniform(0.01, 0.02, channels))
    zeros = g.constant(7, x_type), g.constant(3 if w_type == np.uint8 else 0, w_type)
    return [x, w, g.constant(0.02), scale, *zeros]


# onnxruntime has no others.
TYPES = [(np.uint8, np.uint8), (np.uint8, np.int8), (np.int8, np.int8)]


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("x_type", "w_type"), TYPES)
def test_products_of_integers_to_numbers(x_type, w_type, bias, g):
    operands = quantized(g, x_type, w_type, 6)
    y = g.MatMulIntegerToFloat(*operands, *([g.random(6)] if bias else []), **OURS)
    compare_models(g.model(y), g.feed)


@pytest.mark.parametrize("w_type", [np.uint8, np.int8])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("zero", [False, True])
def test_products_of_what_is_quantized_in_each_run(zero, bias, w_type, g):
    x, w = g.input(2, 5, 8), integers(g, w_type, 8, 6, known=True)
    operands = [x, w, g.constant(0.01), g.constant(5, w_type) if zero else ""]
    operands.append(g.random(6) if bias else "")
    compare_models(g.model(g.DynamicQuantizeMatMul(*given(*operands), **OURS)), g.feed)


@pytest.mark.parametrize("mask", ["", "keys"])
@pytest.mark.parametrize("causal", [0, 1])
def test_quantized_attention(causal, mask, g):
    x, w, x_scale, _, x_zero, w_zero = quantized(g, np.uint8, np.int8, 3 * HIDDEN)
    # Small scores: a Softmax of large ones magnifies the last digits of either library.
    operands = [x, w, g.random(3 * HIDDEN), x_scale, g.constant(0.002), mask_of(g, mask)]
    y = g.QAttention(*operands, x_zero, w_zero, num_heads=HEADS, unidirectional=causal, **OURS)
    compare_models(g.model(y), g.feed)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("more", [
    {}, {"strides": [2, 1], "pads": [1, 0, 2, 1]}, {"dilations": [2, 1], "ceil_mode": 1},
])  # fmt: skip
def test_pools_of_channels_last(more, dtype, g):
    g.dtype = np.dtype(dtype)
    y = g.NhwcMaxPool(integers(g, dtype, 2, 9, 8, 5), kernel_shape=[3, 2], **more, **OURS)
    compare_models(g.model(y), g.feed)


def lstm(g: Graph, direction: str, w_type, *, of_channels: bool, states: bool) -> tuple[str, ...]:
    """A DynamicQuantizeLSTM."""
    directions = 2 if direction == "bidirectional" else 1
    times, batch, depth, width = 6, 2, 8, 5
    weights, scales = [], []
    for rows in (depth, width):
        weights.append(integers(g, w_type, directions, rows, 4 * width, known=True))
        shape = (directions, 4 * width) if of_channels else (directions,)
        scales.append(g.constant(g.rng.uniform(0.004, 0.008, shape)))
        zero = 128 if w_type == np.uint8 else 0
        scales.append(g.constant(np.full(shape, zero), w_type))
    start = [g.input(directions, batch, width) for _ in range(2)] if states else ["", ""]
    outputs: list[str] = g.DynamicQuantizeLSTM(
        g.input(times, batch, depth), *weights, g.random(directions, 8 * width), "", *start, "",
        *scales, direction=direction, hidden_size=width, outputs=3, **OURS,
    )  # fmt: skip
    return tuple(outputs)


def as_numbers(g: Graph) -> tuple[Graph, list[str]]:
    """The same network with an LSTM of the numbers that the weights stand for, in float64."""
    (node,) = g.nodes
    wide = Graph(dtype=np.float64, opset=22)
    names = {name: wide.input(*g.feed[name].shape) for name in g.inputs}
    wide.feed = {names[name]: x.astype(np.float64) for name, x in g.feed.items()}
    inputs = [*node.input]
    weights = []
    for w, scale, zero in ((1, 8, 9), (2, 10, 11)):
        integers_, s, z = (g.array(inputs[i]).astype(np.float64) for i in (w, scale, zero))
        s, z = (a.reshape(len(a), 1, -1) for a in (s, z))
        weights.append(wide.constant(np.swapaxes((integers_ - z) * s, 1, 2)))
    start = [names.get(name, "") for name in inputs[5:7]]
    operands = [names[inputs[0]], *weights, wide.constant(g.array(inputs[3])), "", *start]
    more = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    return wide, wide.LSTM(*given(*operands), outputs=3, **more)


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize(("w_type", "of_channels", "states"), [
    (np.uint8, False, True), (np.int8, True, False), (np.int8, False, True),
])  # fmt: skip
def test_lstm_of_integers(direction, w_type, of_channels, states, g):
    """The numbers of the weights are exact; onnxruntime rounds inputs and states to eight bits."""
    outputs = lstm(g, direction, w_type, of_channels=of_channels, states=states)
    session = InferenceSession(g.model(*outputs), threads=1)
    got = session.run(None, g.feed)
    assert on_host(session) == []
    wide, named = as_numbers(g)
    exact = referred(wide.model(*named), wide.feed)
    rounded = by_onnxruntime(g.model(*outputs), g.feed)
    for x, y, z in zip(got, exact, rounded, strict=True):
        assert x.dtype == np.float32 and x.shape == y.shape == z.shape
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-5)
        # Inputs are rounded by at most 1/510 of their range, in sums of a few of them.
        np.testing.assert_allclose(x, z, rtol=0, atol=0.05)


def test_an_lstm_of_computed_weights_is_refused(g):
    y = lstm(g, "forward", np.int8, of_channels=False, states=False)[0]
    name = g.nodes[0].input[1]
    (tensor,) = (tensor for tensor in g.weights if tensor.name == name)
    g.weights.remove(tensor)
    g.inputs[name] = (np.dtype(np.int8), tuple(tensor.dims))
    with pytest.raises(ValueError, match="DynamicQuantizeLSTM with W, its scale or its zero point"):
        InferenceSession(g.model(y), threads=1)
