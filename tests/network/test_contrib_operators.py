"""onnxruntime's own operators, as its optimizer writes them, beside onnxruntime."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pplconv.network.session import InferenceSession
from tests.network.graphs import Graph
from tests.network.running import compare_models, needs_onnxruntime, on_host

pytestmark = needs_onnxruntime

OURS = {"domain": "com.microsoft"}


@pytest.fixture
def g() -> Graph:
    return Graph()


def alike(g: Graph, *outputs: str) -> None:
    """Loops alone give onnxruntime's results."""
    session = compare_models(g.model(*outputs), g.feed)
    assert on_host(session) == []


def refused(g: Graph, y: str, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        InferenceSession(g.model(y), threads=1)


# Convolutions and products

ACTIVATIONS = {
    "Relu": [], "Sigmoid": [], "Tanh": [], "LeakyRelu": [0.2], "Clip": [-0.3, 0.4],
    "HardSigmoid": [0.3, 0.6],
}  # fmt: skip


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_fused_conv(activation, residual, g):
    numbers = ACTIVATIONS[activation]
    operands = [g.input(2, 6, 7, 5), g.random(8, 3, 3, 3), g.random(8)]
    if residual:
        operands.append(g.input(2, 8, 4, 3))
    more = {"activation_params": numbers} if numbers else {}
    y = g.FusedConv(*operands, activation=activation, group=2, strides=[2, 2], pads=[1, 1, 1, 1],
                    **more, **OURS)  # fmt: skip
    alike(g, y)


def test_fused_conv_without_a_bias(g):
    alike(g, g.FusedConv(g.input(1, 4, 6, 6), g.random(8, 4, 3, 3), activation="Relu", **OURS))


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"activation": "Quux"}, "the activation 'Quux'"),
        ({"activation": "LeakyRelu"}, "activation_params of 0 numbers, expected 1"),
        ({"activation": "Clip", "activation_params": [1.0]}, "1 numbers, expected 2"),
    ],
)
def test_activations_that_are_none(more, reason, g):
    y = g.FusedConv(g.input(1, 4, 6, 6), g.random(8, 4, 3, 3), **more, **OURS)
    refused(g, y, rf"com\.microsoft\.FusedConv with .*{reason}, 1 of them: {y}")


@pytest.mark.parametrize(
    "more",
    [
        {"activation": "Relu"},
        {"activation": "LeakyRelu", "activation_alpha": 0.3},
        {"activation": "Sigmoid", "alpha": 0.5, "beta": 2.0, "transB": 1},
        {"activation": "HardSigmoid", "activation_alpha": 0.3, "activation_beta": 0.4},
        {"activation": "Elu", "activation_alpha": 0.7, "transA": 1},
    ],
)
def test_fused_gemm(more, g):
    a = g.input(*((8, 3) if more.get("transA") else (3, 8)))
    b = g.random(*((6, 8) if more.get("transB") else (8, 6)))
    session = compare_models(g.model(g.FusedGemm(a, b, g.random(6), **more, **OURS)), g.feed)
    # Loops transpose no computed matrix of a Gemm.
    assert on_host(session) == ["Gemm"] * more.get("transA", 0)


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("alpha", [1.0, 0.125])
@pytest.mark.parametrize("trans_a", [0, 1])
@pytest.mark.parametrize("trans_b", [0, 1])
def test_fused_matmul(trans_a, trans_b, alpha, known, g):
    a = g.input(2, 3, *((8, 5) if trans_a else (5, 8)))
    shape = (6, 8) if trans_b else (8, 6)
    b = g.random(*shape) if known else g.input(2, 3, *shape)
    more = {"transA": trans_a, "transB": trans_b, "alpha": alpha}
    alike(g, g.FusedMatMul(a, b, **more, **OURS))


@pytest.mark.parametrize("trans", [0, 1])
@pytest.mark.parametrize("side", ["A", "B", "AB"])
def test_fused_matmul_of_transposed_batches(side, trans, g):
    """Rows before the batch."""

    def operand(name, rows, columns):
        first, last = (columns, rows) if trans else (rows, columns)
        return g.input(*((first, 2, 3, last) if name in side else (2, 3, first, last)))

    more = {f"transBatch{name}": 1 for name in side}
    y = g.FusedMatMul(operand("A", 5, 8), operand("B", 8, 6), transA=trans, transB=trans, **more,
                      **OURS)  # fmt: skip
    alike(g, y)


@pytest.mark.parametrize("operator", ["FusedConv", "FusedMatMul", "FusedGemm"])
def test_nodes_without_an_operand(operator, g):
    x = g.input(2, 4, 6, 6)
    y = getattr(g, operator)(x, activation="Relu", **OURS)
    refused(g, y, f"wrong at the node '{y}' .com.microsoft::{operator}.")


# Curves


@pytest.mark.parametrize("opset", [11, 24])
def test_gelus(opset):
    """Models need not import onnxruntime's domain."""
    g = Graph(opset=opset)
    x = g.input(3, 4, 33)
    bias = g.random(33)
    curves = [
        g.Gelu(x, **OURS), g.BiasGelu(x, bias, **OURS), g.FastGelu(x, **OURS),
        g.FastGelu(x, bias, **OURS), g.QuickGelu(x, **OURS), g.QuickGelu(x, alpha=1.1, **OURS),
    ]  # fmt: skip
    alike(g, *curves)


def test_what_onnxruntime_computes_on_other_devices_only(g):
    x, bias, skip = g.input(2, 5, 8), g.random(8), g.input(2, 5, 8)
    outputs = g.BiasSplitGelu(x, bias, **OURS), g.BiasAdd(x, bias, skip, **OURS)
    halves, total = InferenceSession(g.model(*outputs), threads=1).run(None, g.feed)
    wide = g.feed[x].astype(np.float64) + g.array(bias)
    error = np.vectorize(math.erf)(wide[..., 4:] / math.sqrt(2))
    want = wide[..., :4] * wide[..., 4:] * (1 + error) / 2
    np.testing.assert_allclose(halves, want, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(total, wide + g.feed[skip], rtol=1e-6, atol=1e-6)


# Normalizations


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("offset", [False, True])
@pytest.mark.parametrize("batch", [2, 1])
def test_skip_layer_normalization(batch, offset, bias, g):
    x, skip = g.input(2, 5, 16), g.input(batch, 5, 16)
    scale, beta = g.random(16), g.random(16) if offset else ""
    more = (g.random(16),) if bias else ()
    y, _, _, total = g.SkipLayerNormalization(
        x, skip, scale, beta, *more, outputs=4, epsilon=1e-3, **OURS
    )
    y = g.SkipLayerNormalization(total, y, scale, beta, epsilon=1e-5, **OURS)
    alike(g, y, total)


@pytest.mark.parametrize("bias", [False, True])
def test_skip_simplified_layer_normalization(bias, g):
    x, skip = g.input(2, 5, 16), g.input(2, 5, 16)
    more = (g.random(16),) if bias else ()
    y, _, _, total = g.SkipSimplifiedLayerNormalization(
        x, skip, g.random(16), *more, outputs=4, epsilon=1e-3, **OURS
    )
    alike(g, y, total)


@pytest.mark.parametrize("opset", [11, 16, 18])
@pytest.mark.parametrize("axis", [-1, 1])
def test_layer_normalizations_of_onnxs_domain(axis, opset):
    """As onnxruntime writes them before opset 17, and without a mean in any."""
    g = Graph(opset=opset)
    x = g.input(2, 5, 16)
    shape = (16,) if axis == -1 else (5, 16)
    y = g.LayerNormalization(x, g.random(*shape), g.random(*shape), axis=axis, epsilon=1e-3)
    z = g.SimplifiedLayerNormalization(y, g.random(*shape), axis=axis, epsilon=1e-3, stash_type=1)
    alike(g, y, z)


def test_outputs_that_are_not_served(g):
    operands = g.input(2, 5, 16), g.input(2, 5, 16), g.random(16)
    _, mean = g.SkipLayerNormalization(*operands, outputs=2, **OURS)
    refused(g, mean, rf"com\.microsoft\.SkipLayerNormalization with the output '{mean}'")


@pytest.mark.parametrize("segments", [False, True])
@pytest.mark.parametrize("mask", [False, True])
@pytest.mark.parametrize("positions", [False, True])
def test_embeddings(positions, mask, segments):
    g = Graph(dtype=np.int32)
    words = g.input(2, 5)
    g.feed[words] = g.rng.integers(0, 9, (2, 5), np.int32)
    g.dtype = np.dtype(np.float32)
    operands = [words, "", g.random(9, 16), g.random(7, 16), "", g.random(16), g.random(16), "", ""]
    if segments:
        operands[1], operands[4] = words, g.random(9, 16)
    if mask:
        operands[7] = g.input(2, 5, dtype=np.int32)
        g.feed[operands[7]] = np.int32([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])
    if positions:
        operands[8] = g.input(2, 5, dtype=np.int32)
        g.feed[operands[8]] = g.rng.integers(0, 7, (2, 5), np.int32)
    while not operands[-1]:
        operands.pop()
    y, counts, total = g.EmbedLayerNormalization(*operands, outputs=3, epsilon=1e-4, **OURS)
    total = g.Identity(total)
    session = compare_models(g.model(y, g.Cast(counts, to=1), total), g.feed)
    assert not {"LayerNormalization", "Add"} & set(on_host(session))


# ONNX's operators under onnxruntime's name


def test_operators_of_the_same_meaning(g):
    x = g.input(3, 4, 5, 6)
    index = g.constant([[0, 1], [2, -1]], np.int64)
    grid = g.input(3, 2, 3, 2)
    outputs = [
        g.GatherND(x, index, **OURS),
        g.Trilu(x, g.constant(1, np.int64), upper=0, **OURS),
        g.Pad(x, g.constant([0, 0, 1, 2, 0, 0, 0, 1], np.int64), g.constant(3.0), **OURS),
        g.GridSample(x, grid, mode="bicubic", padding_mode="border", **OURS),
        g.GridSample(x, grid, align_corners=1, **OURS),
    ]
    compare_models(g.model(*outputs), g.feed)
