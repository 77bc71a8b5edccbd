"""Networks of float32 that are quantized by samples."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import pplconv
from pplconv.network.session import InferenceSession
from pplconv.quant import quantize_model, signal_to_noise
from tests.network.graphs import Graph
from tests.network.running import by_onnxruntime
from tests.network.running import step_kinds as kinds

pytestmark = pytest.mark.unemulated("onnxruntime crashes there, and no machine changes graphs")

LEAST_DB = 22.0


def network(free: bool = False) -> tuple[Graph, str]:
    """Convolutions of all kinds, residuals, pools, a join, and a product."""
    g = Graph(3)
    x = g.input(1, 3, 16, 12, free=free)
    a = g.Relu(g.conv(x, 16, (3, 3, 3), pads=[1] * 4, strides=[2, 2]))
    b = g.Relu(g.conv(a, 16, (1, 3, 3), pads=[1] * 4, group=16))
    b = g.conv(b, 16, (16, 1, 1))
    c = g.Relu(g.Add(b, a))
    d = g.MaxPool(c, kernel_shape=[2, 2], strides=[2, 2])
    e = g.HardSwish(g.conv(d, 8, (16, 3, 3), pads=[1] * 4))
    f = g.Concat(d, e, axis=1)
    h = g.Clip(g.conv(f, 24, (24, 1, 1)), g.constant(0), g.constant(6))
    h = g.Flatten(g.GlobalAveragePool(h))
    return g, g.Gemm(h, g.random(10, 24), g.random(10), transB=1)


def samples(g: Graph, count: int = 4) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(8)
    return [
        {name: rng.standard_normal(x.shape).astype(x.dtype) for name, x in g.feed.items()}
        for _ in range(count)
    ]


def quantized(g: Graph, *outputs: str) -> tuple[InferenceSession, list, list]:
    """A session of a network that was quantized, its outputs, and those of the network."""
    model = g.model(*outputs)
    session = InferenceSession(quantize_model(model, samples(g)), threads=1)
    exact, got = InferenceSession(model).run(None, g.feed), session.run(None, g.feed)
    for expected, result in zip(exact, got, strict=True):
        assert signal_to_noise(expected, result) > LEAST_DB
    return session, got, exact


def counted(model: onnx.ModelProto, operator: str) -> int:
    return sum(node.op_type == operator for node in model.graph.node)


def test_progress():
    g, y = network()
    model, given, told = g.model(y), samples(g, 2), []
    quiet = quantize_model(model, given, progress=False)
    assert quantize_model(model, given, progress=lambda *said: told.append(said)) == quiet
    assert told == [(0.0, "1/2 samples"), (0.5, "2/2 samples")]
    told.clear()
    quantize_model(model, iter(given), progress=lambda *said: told.append(said))
    assert told == [(0.0, "1/? samples"), (0.0, "2/? samples")]
    with pytest.raises(TypeError, match="progress"):
        quantize_model(model, given, progress=3)


@pytest.mark.parametrize("method", ["minmax", "percentile", "mse"])
def test_network(method):
    g, y = network()
    model = quantize_model(g.model(y), samples(g), method=method)
    onnx.checker.check_model(model)
    assert [i.name for i in model.graph.input] == [i.name for i in g.model(y).graph.input]
    assert [o.name for o in model.graph.output] == [y]
    session = InferenceSession(model, threads=1)
    (got,) = session.run(None, g.feed)
    (exact,) = InferenceSession(g.model(y), threads=1).run(None, g.feed)
    assert signal_to_noise(exact, got) > LEAST_DB
    (other,) = by_onnxruntime(model, g.feed)
    assert signal_to_noise(other, got) > 35
    found = kinds(session, g.feed)
    assert found.count("QuantizedConv") == 5 and found.count("QuantizedLinear") == 1
    assert not {"Conv", "Relu", "Clip", "Add", "Gemm"} & set(found)
    # The sum of the shortcut is in a store.
    plan = session.plan_for(g.feed).by_operators()
    assert sum("residual" in step.detail for step in plan.steps) == 1
    assert sum("HardSwish" in step.detail for step in plan.steps) == 1
    # Numbers for the averages; the pool compares bytes.
    assert [kind for kind in found if "uantize" in kind and "ized" not in kind] == [
        "Quantize", "Quantize"
    ]  # fmt: skip
    assert not any(step.host for step in plan.steps)


@pytest.mark.parametrize("op", ["Celu", "Elu", "Gelu", "LeakyRelu", "Selu", "Softplus", "Swish"])
def test_activations_are_tables_in_stores(g, op):
    """The operand of an activation is quantized, so that its product stores bytes."""
    x = g.conv(g.input(1, 8, 9, 7), 16, (8, 3, 3), pads=[1] * 4)
    y = g.conv(getattr(g, op)(x), 4, (16, 1, 1))
    session, (got,), _ = quantized(g, y)
    assert kinds(session, g.feed).count("QuantizedConv") == 2
    assert not any(op in kind for kind in kinds(session, g.feed))
    (other,) = by_onnxruntime(quantize_model(g.model(y), samples(g)), g.feed)
    assert signal_to_noise(other, got) > 35


def test_sums_and_gates_of_activations_read_bytes(g):
    """Blocks of EfficientNet and of YOLO: no array of float32 that is larger than a gate."""
    a = g.conv(g.input(1, 8, 9, 7), 16, (8, 3, 3), pads=[1] * 4)
    a = g.Mul(a, g.Sigmoid(a))
    gate = g.conv(g.GlobalAveragePool(a), 4, (16, 1, 1))
    gate = g.Sigmoid(g.conv(g.Mul(gate, g.Sigmoid(gate)), 16, (4, 1, 1)))
    b = g.conv(g.Mul(a, gate), 16, (16, 1, 1))
    c = g.conv(b, 16, (16, 1, 1))
    d = g.Add(b, g.Mul(c, g.Sigmoid(c)))
    y = g.conv(d, 8, (16, 1, 1))
    session, (got,), _ = quantized(g, y)
    found = kinds(session, g.feed)
    assert found.count("QuantizedConv") == 6 and "Swish" not in "".join(found)
    assert "Dequantize+Mul+Quantize" in found and "QuantizedAdd" in found
    (other,) = by_onnxruntime(quantize_model(g.model(y), samples(g)), g.feed)
    assert signal_to_noise(other, got) > 35


@pytest.mark.parametrize("activation", ["none", "Relu", "HardSwish", "affine", "residual"])
@pytest.mark.parametrize("free", [False, True])
def test_factors_of_channels_read_bytes(g, activation, free):
    """Squeeze and excite: the product stores bytes, for the mean and for the factors."""
    x = g.input(2, 8, 9, 7, free=free)
    a = g.conv(x, 20, (8, 3, 3), pads=[1] * 4)
    if activation == "Relu":
        a = g.Relu(a)
    elif activation == "residual":
        a = g.Relu(g.Add(a, g.conv(x, 20, (8, 1, 1))))
    elif activation != "none":
        a = g.HardSwish(a)
    if activation == "affine":
        a = g.Add(g.Mul(a, g.constant(1.25)), g.constant(0.125))
    gate = g.conv(g.GlobalAveragePool(a), 4, (20, 1, 1))
    gate = g.HardSigmoid(g.conv(g.Relu(gate), 20, (4, 1, 1)), alpha=0.2, beta=0.5)
    y = g.conv(g.Mul(a, gate), 4, (20, 1, 1))
    session, (got,), _ = quantized(g, y)
    found = kinds(session, g.feed)
    assert "Dequantize+Mul+Quantize" in found
    assert found.count("QuantizedConv") == (5 if activation == "residual" else 4)
    for step in session.plan_for(g.feed).by_operators().steps:
        # The factors and the result are numbers, no image before the last product.
        assert "to float32" not in step.detail or step.shape[1:] in ((20, 1, 1), (4, 9, 7))
    (other,) = by_onnxruntime(quantize_model(g.model(y), samples(g)), g.feed)
    assert signal_to_noise(other, got) > 35


def test_sums_of_factors_read_bytes(g):
    """Blocks of PP-OCR's pyramid: what a factor multiplies is added to a larger image's bytes."""
    x = g.Relu(g.conv(g.input(1, 8, 4, 5), 16, (8, 1, 1)))
    below, above = (
        g.conv(value, 20, (16, 1, 1)) for value in (g.Resize(x, "", g.constant([1, 1, 2, 2])), x)
    )
    low, high = (
        g.Mul(value, g.Sigmoid(g.conv(g.GlobalAveragePool(value), 20, (20, 1, 1))))
        for value in (below, above)
    )
    y = g.conv(g.Add(low, g.Resize(high, "", g.constant([1, 1, 2, 2]))), 4, (20, 3, 3))
    outputs = y, g.conv(high, 4, (20, 3, 3))
    session, got, _ = quantized(g, *outputs)
    for step in session.plan_for(g.feed).by_operators().steps:
        assert (
            "to float32" not in step.detail or step.shape[1:2] == (4,) or step.shape[2:] == (1, 1)
        )
    assert "Dequantize+Mul+Dequantize+Add+Quantize" in kinds(session, g.feed)
    others = by_onnxruntime(quantize_model(g.model(*outputs), samples(g)), g.feed)
    for other, result in zip(others, got, strict=True):
        assert signal_to_noise(other, result) > 35


def test_long_chains_of_sums(g):
    """Chains that are longer than Python's stack."""
    x = g.input(1, 4, 3, 3)
    y = x
    for _ in range(1200):
        y = g.Mul(y, x)
    assert quantize_model(
        g.model(g.conv(y, 4, (4, 1, 1))), [{name: np.ones_like(a) for name, a in g.feed.items()}]
    )


def test_weights_and_values():
    g, y = network()
    model = quantize_model(g.model(y), samples(g))
    arrays = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type not in ("QuantizeLinear", "DequantizeLinear"):
            continue
        scale, zero = (arrays[name] for name in node.input[1:3])
        assert scale.dtype == np.float32 and (scale > 0).all()
        if node.input[0] in arrays:
            weights = arrays[node.input[0]]
            assert not zero.any() and scale.ndim == 1
            if weights.dtype == np.int8:
                assert weights.min() >= -127
                largest = np.abs(weights.astype(int)).reshape(len(weights), -1).max(1)
                assert (largest == 127).all()
            else:
                assert weights.dtype == np.int32
        else:
            assert zero.dtype == np.uint8 and scale.ndim == 0
    # Nothing of float32 is left but scales.
    assert all(a.dtype != np.float32 or a.ndim < 2 for a in arrays.values())


def test_all_integers_are_used(g):
    """The range of an input is that of the samples, with zero in it."""
    x = g.input(1, 4, 5, 5)
    y = g.conv(x, 4, (4, 1, 1))
    low, high = (np.full((1, 4, 5, 5), n, np.float32) for n in (1.5, 4.0))
    model = quantize_model(g.model(y), [low, high])
    arrays = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    (node,) = (n for n in model.graph.node if n.op_type == "QuantizeLinear")
    assert arrays[node.input[1]] == np.float32(4 / 255) and arrays[node.input[2]] == 0


def test_open_sizes():
    g, y = network(free=True)
    model = quantize_model(g.model(y), samples(g))
    session, exact = InferenceSession(model), InferenceSession(g.model(y))
    for shape in ((1, 3, 16, 12), (2, 3, 20, 18)):
        x = {"x1": g.rng.standard_normal(shape).astype(np.float32)}
        assert signal_to_noise(exact.run(None, x)[0], session.run(None, x)[0]) > LEAST_DB


@pytest.mark.parametrize("by", ["name", "output"])
def test_what_is_kept(by):
    g, y = network()
    model = g.model(y)
    first = next(node for node in model.graph.node if node.op_type == "Conv")
    first.name = "the first"
    kept = "the first" if by == "name" else first.output[0]
    quantized = quantize_model(model, samples(g), keep=[kept])
    found = kinds(InferenceSession(quantized, threads=1), g.feed)
    assert found.count("Conv") == 1 and found.count("QuantizedConv") == 4


def test_channels_without_weights_and_a_bias_that_is_shared(g):
    w = g.rng.standard_normal((4, 8, 1, 1))
    w[1], w[2] = 0, 1e-38
    weights, bias = g.constant(w), g.constant([0.3, 0.7, -0.4, 0])
    x = g.input(1, 8, 6, 6)
    y, z = g.Conv(x, weights, bias), g.Conv(g.Relu(x), weights, bias)
    session, got, exact = quantized(g, y, z)
    assert kinds(session, g.feed).count("QuantizedConv") == 2
    for result, expected in zip(got, exact, strict=True):
        np.testing.assert_allclose(result[:, 1:3], expected[:, 1:3], rtol=1e-5)


def test_one_bias_with_several_factors(g):
    x, w, bias = g.input(3, 8), g.random(8, 4), g.random(4)
    outputs = [g.Gemm(x, w, bias, beta=beta) for beta in (1.0, -2.0)]
    session, _, _ = quantized(g, *outputs)
    assert kinds(session, g.feed).count("QuantizedLinear") == 2


@pytest.mark.unbanded("its image is laid out before the first step")
def test_two_branches_that_are_added(g):
    x = g.input(1, 8, 6, 6)
    y = g.Relu(g.Add(g.conv(x, 8, (8, 3, 3), pads=[1] * 4), g.conv(x, 8, (8, 1, 1))))
    session, _, _ = quantized(g, g.conv(y, 4, (8, 1, 1)))
    assert kinds(session, g.feed) == ["Quantize", "Copy", *["QuantizedConv"] * 3, "Copy"]


def test_operators_that_read_numbers_get_them(g):
    y = g.Sigmoid(g.input(1, 8, 6, 6))
    z = g.Tanh(y)
    model = quantize_model(g.model(g.conv(y, 4, (8, 1, 1)), z), samples(g))
    (tanh,) = (node for node in model.graph.node if node.op_type == "Tanh")
    assert tanh.input[0] == y


def test_several_inputs(g):
    x, other = g.input(1, 8, 6, 6), g.input(1, 8, 6, 6)
    y = g.conv(g.Mul(x, other), 4, (8, 1, 1))
    quantize_model(g.model(y), samples(g))
    with pytest.raises(TypeError, match="samples must be mappings"):
        quantize_model(g.model(y), [g.feed[x]])


def test_a_network_without_products(g):
    y = g.Relu(g.input(1, 4))
    assert counted(quantize_model(g.model(y), samples(g)), "QuantizeLinear") == 0


def test_it_is_public():
    assert pplconv.quant.quantize_model is quantize_model
    with pytest.raises(AttributeError, match="no attribute 'quantise'"):
        _ = pplconv.quant.quantise


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"samples": []}, ValueError, "samples must be given, got none"),
        ({"method": "median"}, ValueError, "method must be"),
        ({"percentile": 3, "method": "percentile"}, ValueError, "percentile must be"),
        ({"keep": "conv"}, TypeError, "keep must be"),
        ({"keep": ["nothing"]}, ValueError, "keep names 'nothing'"),
        ({"samples": [{"x1": np.full((1, 3, 16, 12), np.nan, np.float32)}]}, ValueError,
         "the value 'x1'.*finite"),
        ({"samples": [{"x1": np.zeros((1, 4, 16, 12), np.float32)}]}, ValueError, "feed: input"),
    ],
)  # fmt: skip
def test_what_is_refused(options, error, said):
    g, y = network()
    with pytest.raises(error, match=said):
        quantize_model(g.model(y), **{"samples": samples(g, 1), **options})
