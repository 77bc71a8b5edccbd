"""Sums, averages and moves of quantized values, and operators of quantized arrays in pieces."""

from __future__ import annotations

import numpy as np
import pytest

from pplconv.network.operators import exact_products
from pplconv.network.session import InferenceSession
from tests.network.quantizing import (
    CONV,
    FEW,
    S8,
    U8,
    Quantized,
    becomes,
    compared,
    folded,
    kinds,
    only,
)
from tests.network.running import by_onnxruntime, on_host

pytestmark = pytest.mark.unemulated("reads and rewrites graphs; onnxruntime crashes there")

BOTH = [False, True]
PAIR = {"QuantizeLinear": 1, "DequantizeLinear": 1}


# Sums and averages


@pytest.fixture
def g() -> Quantized:
    return Quantized()


@pytest.mark.parametrize("activation", ["", "Relu", "Clip"])
@pytest.mark.parametrize(("dtype", "zero"), [(U8, 99), (S8, -3), (S8, -128), (U8, 0)])
def test_add(activation, dtype, zero, g):
    y = g.Add(g.image(how=(0.05, 128, U8)), g.image(how=(0.03, -9, S8)))
    if activation == "Relu":
        y = g.Relu(y)
    elif activation:
        y = g.Clip(y, g.constant(-0.5), g.constant(0.7))
    nodes = {"QuantizeLinear": 2, "QuantizedAdd": 1, "DequantizeLinear": 1}
    becomes(g, g.pair(y, 0.0437, zero, dtype), nodes=nodes, unit=0.0437)


def test_add_of_the_same(g):
    x = g.image()
    y = g.pair(g.Add(x, x), 0.1, 120)
    assert kinds(folded(g, y))["QuantizedAdd"] == 1
    # Half of an integer is rounded alike.
    compared(g, y, unit=0.1)


def test_what_is_no_sum_of_integers(g):
    x = g.image()
    results = [
        g.q(g.Add(x, g.input(1, 8, 9, 7))),
        g.q(g.Add(x, g.image(1, 8, 1, 1))),
        g.q(g.Add(x, g.image(how=(0.001, 9, np.uint16)))),
        g.q(g.Add(x, g.image()), 0.001, 9, np.uint16),
        g.q(g.Mul(x, g.image())),
    ]
    assert "QuantizedAdd" not in kinds(folded(g, *results))


@pytest.mark.parametrize(
    "pool",
    [
        lambda g, x: g.GlobalAveragePool(x),
        lambda g, x: g.ReduceMean(x, g.constant([2, -1], np.int64)),
        lambda g, x: g.AveragePool(x, kernel_shape=[3, 2], strides=[2, 1]),
        lambda g, x: g.AveragePool(x, kernel_shape=[3, 3], pads=[1] * 4, count_include_pad=1),
        lambda g, x: g.AveragePool(x, kernel_shape=[2, 2], dilations=[2, 1]),
    ],
)
@pytest.mark.parametrize("how", [(0.0113, 120, U8), (0.0113, 3, S8)])
def test_averages(pool, how, g):
    y = g.pair(pool(g, g.image(how=(0.05, 100, U8))), *how)
    becomes(g, y, nodes={**PAIR, "QuantizedAverage": 1}, unit=0.0113)


@pytest.mark.parametrize(
    "pool",
    [
        lambda g, x: g.AveragePool(x, kernel_shape=[3, 3], pads=[1] * 4),
        lambda g, x: g.AveragePool(x, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1),
        lambda g, x: g.ReduceMean(x, g.constant([1], np.int64)),
        lambda g, x: g.ReduceMean(x, g.constant([2, 3], np.int64), keepdims=0),
    ],
)
def test_other_averages_are_of_numbers(pool, g):
    y = g.pair(pool(g, g.image()), 0.0113, 100)
    assert "QuantizedAverage" not in kinds(folded(g, y))
    compared(g, y, unit=0.0113, allowed=FEW)


# Moves

MOVES = {
    "Flatten": lambda g, x: g.Flatten(x),
    "MaxPool": lambda g, x: g.MaxPool(x, kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1]),
    "Pad": lambda g, x: g.Pad(x, g.constant([0, 0, 1, 2, 0, 0, 0, 3], np.int64)),
    "Reflected": lambda g, x: g.Pad(
        x, g.constant([0, 0, 1, 2, 0, 0, 0, 3], np.int64), mode="reflect"
    ),
    "Reshape": lambda g, x: g.Reshape(x, g.constant([2, -1], np.int64)),
    "Resize": lambda g, x: g.Resize(x, "", g.constant([1, 1, 2, 3]), mode="nearest"),
    "Slice": lambda g, x: g.Slice(x, *(g.constant([n], np.int64) for n in (1, 5, 2, 2))),
    "Squeeze": lambda g, x: g.Squeeze(x, g.constant([0], np.int64)),
    "Transpose": lambda g, x: g.Transpose(x, perm=[0, 2, 3, 1]),
    "Gather": lambda g, x: g.Gather(x, g.constant(2, np.int64), axis=1),
}


@pytest.mark.parametrize("move", sorted(MOVES))
@pytest.mark.parametrize("how", [(0.05, 120, U8), (0.05, -11, S8)])
def test_what_moves_integers(move, how, g):
    y = g.pair(MOVES[move](g, g.image(how=how)), *how)
    result = folded(g, y)
    assert {k: n for k, n in kinds(result).items() if k != "MatMul"}.items() >= PAIR.items()
    assert sum(kinds(result).values()) == 3
    (moved,) = (n for n in result.model.graph if "Linear" not in n.op_type)
    assert moved.outputs[0].dtype.numpy() == how[2]
    compared(g, y, unit=1e-6)


@pytest.mark.parametrize(
    "move",
    [
        lambda g, x: g.Pad(x, g.constant([0, 0, 1, 2, 0, 0, 0, 3], np.int64), g.constant(1.5)),
        lambda g, x: g.Resize(x, "", g.constant([1, 1, 2, 3]), mode="linear"),
        lambda g, x: g.MaxPool(x, outputs=2, kernel_shape=[2, 2])[0],
    ],
)
def test_what_computes_numbers_stays(move, g):
    x = g.image()
    y = move(g, x)
    outputs = [y]
    if g.nodes[-1].op_type == "MaxPool":
        outputs.append(g.Cast(g.nodes[-1].output[1], to=1))
    nodes = [n.op_type for n in folded(g, *outputs).model.graph]
    assert nodes.index("DequantizeLinear") < nodes.index(
        g.nodes[2 if len(outputs) > 1 else -1].op_type
    )


@pytest.mark.parametrize("dtype", [U8, S8])
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_pools_of_bytes(axes, dtype):
    """Drawn windows of all bytes, for every number of channels around a vector's."""
    for seed, channels in enumerate((1, 2, 7, 15, 16, 17, 31, 47, 48, 49, 63, 64, 65, 81, 129)):
        g = Quantized()
        rng = g.rng = np.random.default_rng(seed)
        kernel, strides, dilations = (rng.integers(1, n, axes) for n in (5, 4, 3))
        reach = (kernel - 1) * dilations + 1
        size = reach + rng.integers(0, 9, axes)
        pads = [int(rng.integers(0, k)) for k in (*kernel, *kernel)]
        x = g.integers(2, channels, *size.tolist(), dtype=dtype)
        y = g.MaxPool(
            g.dq(x, 0.1, 3, dtype), kernel_shape=kernel.tolist(), strides=strides.tolist(),
            dilations=dilations.tolist(), pads=pads, ceil_mode=int(rng.integers(0, 2)),
        )  # fmt: skip
        model = g.model(g.pair(y, 0.1, 3, dtype))
        session = InferenceSession(model, threads=1)
        (got,) = session.run(None, g.feed)
        (expected,) = by_onnxruntime(model, g.feed)
        np.testing.assert_array_equal(got, expected)
        found = [step.kind for step in session.plan_for(g.feed).by_operators().steps]
        assert "MaxPool" in found and "Quantize" not in found
        assert found.count("Dequantize") == 1


def test_concat_of_one_scale(g):
    y = g.Concat(g.image(), g.image(), axis=1)
    y = g.pair(g.qconv(y, 4, (16, 3, 3)))
    becomes(g, y, nodes={**CONV, "QuantizeLinear": 2, "Concat": 1})


def test_concat_of_two_scales_converts_where_they_differ(g):
    a, b = g.image(how=(0.05, 100, U8)), g.image(how=(0.03, 100, U8))
    y = g.pair(g.Concat(a, b, axis=1), 0.05, 100)
    # Of one part alone: down to numbers and up again.
    nodes = {"QuantizeLinear": 3, "DequantizeLinear": 2, "Concat": 1}
    becomes(g, y, nodes=nodes, unit=1e-6, allowed=0)


def test_concat_with_numbers_stays(g):
    y = g.pair(g.Concat(g.image(), g.input(1, 8, 9, 7), axis=1))
    assert [n.op_type for n in folded(g, y).model.graph if n.op_type == "Concat"]
    assert kinds(folded(g, y))["DequantizeLinear"] == 2
    compared(g, y, unit=1e-6)


def test_pairs(g):
    x = g.image()
    same, other = g.pair(x), g.pair(x, 0.05, 127)
    assert kinds(folded(g, same)) == PAIR
    assert kinds(folded(g, other)) == {"QuantizeLinear": 2, "DequantizeLinear": 2}
    compared(g, same, other, unit=1e-6)


def test_conversions_are_shared(g):
    x = g.Sigmoid(g.input(1, 8, 9, 7))
    y = g.pair(g.qconv(g.pair(x), 4, (8, 1, 1)))
    z = g.pair(g.qconv(g.pair(x), 4, (8, 3, 3)))
    result = folded(g, y, z)
    assert kinds(result)["QuantizeLinear"] == 1
    assert result.fired["QuantizeLinear twice"]
    compared(g, y, z, unit=0.05, allowed=FEW)


@pytest.mark.parametrize(("zero", "dtype", "stays"), [(0, U8, 0), (-128, S8, 0), (5, U8, 1)])
def test_relu_before_the_least_integer(zero, dtype, stays, g):
    y = g.pair(g.Relu(g.input(1, 8, 9, 7)), 0.02, zero, dtype)
    assert kinds(folded(g, y))["Relu"] == stays
    compared(g, y, unit=1e-6)


# Constants


def test_weights_that_are_stored_as_numbers(g):
    w = g.pair(g.constant(g.rng.uniform(-1, 1, (4, 8, 3, 3))), 1 / 127, 0, S8)
    y = g.pair(g.Conv(g.image(), w))
    assert kinds(folded(g, y))["QuantizedConv"] == 1
    compared(g, y, unit=0.05, allowed=FEW)


def test_weights_that_nothing_takes_are_numbers(g):
    y = g.Relu(g.Conv(g.input(1, 8, 9, 7), g.kernel(4, 8, 3, 3)))
    result = becomes(g, y, nodes={"Conv": 1}, unit=1e-5, allowed=1)
    assert only(result, "Conv").domain == "pplconv" and result.fired["activation into Conv"]


# Operators of quantized arrays


@pytest.mark.parametrize("dtype", [U8, S8])
@pytest.mark.parametrize("bias", BOTH)
def test_qlinear_conv(dtype, bias, g):
    limits = np.iinfo(dtype)
    x, w = g.integers(1, 8, 9, 7, dtype=dtype), g.integers(4, 8, 3, 3, dtype=S8, known=True)
    scale = g.rng.uniform(0.0005, 0.003, 4)
    xs, xz = g.parameters(0.04, 5, dtype)
    more = [g.constant(g.rng.integers(-9999, 9999, 4), np.int32)] if bias else []
    y = g.QLinearConv(
        x, xs, xz, w, *g.parameters(scale, np.zeros(4), S8), *g.parameters(0.05, 7, dtype),
        *more, pads=[1] * 4, strides=[2, 2],
    )  # fmt: skip
    g.dtype = dtype
    assert kinds(folded(g, y)) == {"QuantizedConv": 1}
    (got,) = InferenceSession(g.model(y), threads=1).run(None, g.feed)
    # One tap after the other, in int64; the zero point is added at the end.
    padded = np.pad(g.feed[x].astype(np.int64) - 5, ((0, 0), (0, 0), (1, 1), (1, 1)))
    weights = g.array(w).astype(np.int64)
    sums = np.zeros(got.shape, np.int64)
    for i in range(3):
        for j in range(3):
            tap = padded[:, :, i : i + 9 : 2, j : j + 7 : 2]
            sums += np.einsum("nchw,oc->nohw", tap, weights[:, :, i, j])
    if bias:
        sums += g.array(more[0]).reshape(-1, 1, 1)
    factor = np.float64(np.float32(0.04)) * scale.astype(np.float32) / np.float32(0.05)
    scaled = sums.astype(np.float32) * factor.astype(np.float32).reshape(-1, 1, 1)
    expected = np.clip(np.rint(scaled) + 7, limits.min, limits.max)
    assert len(np.unique(expected)) > 30
    np.testing.assert_array_equal(got, expected.astype(dtype))


def by_one(g, scale, zero):
    return g.parameters(scale, zero, U8)


MICROSOFT = {
    "QLinearAdd": lambda g, x, y: g.QLinearAdd(
        x, *by_one(g, 0.05, 9), y, *by_one(g, 0.03, 8), *by_one(g, 0.07, 7), domain="com.microsoft"
    ),
    "QLinearMul": lambda g, x, y: g.QLinearMul(
        x, *by_one(g, 0.05, 99), y, *by_one(g, 0.03, 108), *by_one(g, 0.07, 77),
        domain="com.microsoft",
    ),
    "QLinearGlobalAveragePool": lambda g, x, y: g.QLinearGlobalAveragePool(
        x, *by_one(g, 0.05, 9), *by_one(g, 0.031, 7), domain="com.microsoft", channels_last=0
    ),
    "QLinearSigmoid": lambda g, x, y: g.QLinearSigmoid(
        x, *by_one(g, 0.05, 99), *by_one(g, 1 / 256, 0), domain="com.microsoft"
    ),
    "QLinearLeakyRelu": lambda g, x, y: g.QLinearLeakyRelu(
        x, *by_one(g, 0.05, 99), *by_one(g, 0.05, 50), domain="com.microsoft", alpha=0.3
    ),
    "QLinearConcat": lambda g, x, y: g.QLinearConcat(
        *by_one(g, 0.06, 60), x, *by_one(g, 0.05, 99), y, *by_one(g, 0.06, 60),
        domain="com.microsoft", axis=1,
    ),
}  # fmt: skip
FOLDED = {
    "QLinearAdd": {"QuantizedAdd": 1},
    "QLinearGlobalAveragePool": {"QuantizedAverage": 1},
    "QLinearConcat": {"DequantizeLinear": 1, "QuantizeLinear": 1, "Concat": 1},
}


@pytest.mark.parametrize("operator", sorted(MICROSOFT))
def test_operators_of_onnxruntime(operator):
    g = Quantized(dtype=U8)
    x, y = g.integers(1, 8, 9, 7), g.integers(1, 8, 9, 7)
    z = MICROSOFT[operator](g, x, y)
    model = g.model(z)
    result = folded(g, z)
    if operator in FOLDED:
        assert kinds(result) == FOLDED[operator]
    assert not any(node.domain == "com.microsoft" for node in result.model.graph)
    assert model.opset_import
    compared(g, z, unit=1, allowed=FEW)


@pytest.mark.parametrize("transposed", [0, 1])
@pytest.mark.parametrize("bias", BOTH)
def test_qgemm(transposed, bias):
    g = Quantized(dtype=U8)
    x = g.integers(3, 8)
    w = g.integers(*((6, 8) if transposed else (8, 6)), dtype=S8, known=True)
    more = g.constant(g.rng.integers(-9999, 9999, 6), np.int32) if bias else ""
    scale = g.rng.uniform(0.005, 0.01, 6)
    y = g.QGemm(
        x, *by_one(g, 0.05, 99), w, *g.parameters(scale, np.zeros(6), S8), more,
        *by_one(g, 0.3, 128), domain="com.microsoft", transB=transposed,
    )  # fmt: skip
    becomes(g, y, nodes={"QuantizedLinear": 1}, unit=1, allowed=0.06)


def test_qlinear_matmul():
    g = Quantized(dtype=U8)
    x, other = g.integers(3, 8), g.integers(8, 6)
    known = g.integers(8, 6, known=True)
    operands = [by_one(g, 0.05, 99), by_one(g, 0.02, 130), by_one(g, 0.3, 128)]
    y = g.QLinearMatMul(x, *operands[0], known, *operands[1], *operands[2])
    z = g.QLinearMatMul(x, *operands[0], other, *operands[1], *operands[2])
    compared(g, y, z, unit=1, allowed=0.06)
    found = kinds(folded(g, y, z))
    assert found["QuantizedLinear"] == found["MatMul"] == found["QuantizeLinear"] == 1
    session = InferenceSession(g.model(y, z), threads=1)
    session.run(None, g.feed)
    assert not on_host(session)


@pytest.mark.parametrize("dtype", [U8, S8])
def test_integer_products(dtype):
    """Known zero points; sums are compared exactly."""
    g = Quantized(dtype=np.int32)
    x, a = g.integers(1, 8, 9, 7), g.integers(3, 8)
    w, b = (g.integers(*shape, dtype=dtype, known=True) for shape in ((4, 8, 3, 3), (8, 6)))
    zeros = g.constant(99, U8), g.constant(7, dtype)
    y = g.ConvInteger(x, w, *zeros, pads=[1] * 4)
    z = g.MatMulInteger(a, b, *zeros)
    bare = g.MatMulInteger(a, b)
    becomes(g, y, z, bare, nodes={"QuantizedConv": 1, "QuantizedLinear": 2}, unit=1, allowed=0)


def test_dynamic_quantization(g):
    x = g.input(1, 8, 9, 7)
    q, scale, zero = g.DynamicQuantizeLinear(x, outputs=3)
    w = g.integers(4, 8, 3, 3, dtype=S8, known=True)
    y = g.Cast(g.ConvInteger(q, w, zero), to=1)
    y = g.Mul(y, g.Mul(scale, g.constant(0.01)))
    rows, row_scale, row_zero = g.DynamicQuantizeLinear(g.Flatten(x, axis=2), outputs=3)
    b = g.integers(63, 6, dtype=S8, known=True)
    z = g.Mul(g.Cast(g.MatMulInteger(rows, b, row_zero), to=1), row_scale)
    back = g.DequantizeLinear(q, scale, zero)
    found = kinds(folded(g, y, z, back))
    assert found["QuantizedConv"] == found["QuantizedLinear"] == 1
    compared(g, y, z, back, unit=1e-4, allowed=1)


@pytest.mark.parametrize("dtype", [U8, S8])
@pytest.mark.parametrize("groups", [1, 2])
def test_sums_with_computed_zero_points(dtype, groups, monkeypatch, g):
    """Of computed weights: by float32 as by float64, where sums could leave it; exact."""
    x = g.DynamicQuantizeLinear(g.input(2, 8, 9, 7), outputs=3)
    shapes = (6, 8 // groups, 3, 2), (6,)
    w, zeros = (g.integers(*shape, dtype=dtype) for shape in shapes)
    how = {"pads": [1, 0, 2, 1], "strides": [1, 2], "dilations": [2, 1], "group": groups}
    y = g.Cast(g.ConvInteger(x[0], w, x[2], zeros, **how), to=1)
    model = g.model(y)
    sessions = [InferenceSession(model, threads=2)]
    single = sessions[0].run(None, g.feed)[0]
    monkeypatch.setattr(exact_products, "_IN_SINGLE", 0)
    sessions.append(InferenceSession(model, threads=2))
    double = sessions[1].run(None, g.feed)[0]
    assert single.any() and single.tobytes() == double.tobytes()
    assert not any(map(on_host, sessions))
