"""Quantized constants, and scales, zero points and biases that have other shapes or none."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from pplconv.network.session import InferenceSession
from tests.network.quantizing import S8, U8, Quantized, folded, kinds
from tests.network.running import by_onnxruntime, needs_onnxruntime

OURS = {"domain": "com.microsoft"}


def agrees(g: Quantized, y: str, unit: float = 1.0) -> np.ndarray:
    """A session gives what onnxruntime gives, up to one unit in a few places."""
    model = g.model(y)
    (got,), (expected,) = (
        InferenceSession(model, threads=1).run(None, g.feed), by_onnxruntime(model, g.feed)
    )  # fmt: skip
    assert got.dtype == expected.dtype and got.shape == expected.shape
    assert len(np.unique(expected)) > min(10, expected.size - 1)
    difference = np.abs(got.astype(np.float64) - expected) / unit
    assert difference.max() <= 1 and (difference > 0.01).mean() < 0.06
    return got


# Output zero points that are left out: integers are of the type of the input


def s8(g: Quantized, scale: float, zero: int) -> list[str]:
    return list(g.parameters(scale, zero, S8))


WITHOUT = {
    "QLinearAdd": lambda g, x, s: g.QLinearAdd(x, *s8(g, 0.05, 9), x, *s8(g, 0.03, 8), s, **OURS),
    "QLinearMul": lambda g, x, s: g.QLinearMul(x, *s8(g, 0.05, 9), x, *s8(g, 0.03, 8), s, **OURS),
    "QLinearSigmoid": lambda g, x, s: g.QLinearSigmoid(x, *s8(g, 0.05, 9), s, **OURS),
    "QLinearLeakyRelu": lambda g, x, s: g.QLinearLeakyRelu(
        x, *s8(g, 0.05, 9), s, alpha=0.3, **OURS
    ),
}


@pytest.mark.parametrize("operator", sorted(WITHOUT))
@needs_onnxruntime
def test_output_zero_points_left_out(operator):
    g = Quantized(dtype=S8)
    y = WITHOUT[operator](g, g.integers(1, 8, 9, 7, dtype=S8), g.constant(0.05, np.float32))
    (without,) = InferenceSession(g.model(y), threads=1).run(None, g.feed)
    assert without.dtype == S8
    # onnxruntime aborts where some of them have none.
    g.nodes[-1].input.append(g.constant(0, S8))
    np.testing.assert_array_equal(agrees(g, y), without)


def test_several_in_a_row():
    """The type comes from further up, through what moves integers."""
    g = Quantized(dtype=S8)
    x, s = g.integers(1, 8, 9, 7, dtype=S8), g.constant(0.05, np.float32)
    y = g.Transpose(WITHOUT["QLinearAdd"](g, x, s), perm=[0, 2, 3, 1])
    y = g.QLinearConcat(s, "", y, s, "", y, s, "", axis=1, **OURS)
    z = g.QLinearLeakyRelu(y, s, "", s, alpha=0.3, **OURS)
    (got,) = InferenceSession(g.model(z), threads=1).run(None, g.feed)
    assert got.dtype == S8 and got.min() < 0 < got.max()


# QGemm


def gemm(g: Quantized, scale, c: str, *stored: str, m: int = 4, n: int = 4) -> str:
    x = g.integers(m, 8)
    w = g.integers(8, n, dtype=S8, known=True)
    zeros = np.zeros(np.shape(scale))
    return str(g.QGemm(x, *g.parameters(0.05, 99, U8), w, *g.parameters(scale, zeros, S8), c,
                       *stored, **OURS))  # fmt: skip


@pytest.mark.parametrize("shape", [(4, 4), (1, 4), (4, 1), (4,), (1,), ()])
@pytest.mark.parametrize("one", [False, True])
@needs_onnxruntime
def test_biases_of_qgemm(shape, one):
    g = Quantized(dtype=U8)
    c = g.constant(g.rng.integers(-20000, 20000, shape), np.int32)
    scale = 0.01 if one else g.rng.uniform(0.002, 0.02, 4)
    y = gemm(g, scale, c, *g.parameters(0.3, 128, U8))
    got = agrees(g, y)
    g.feed = {name: np.full_like(x, 99) for name, x in g.feed.items()}
    product = np.float32(0.05) * np.asarray(scale, np.float32)
    bias = np.broadcast_to(g.array(c) * product / np.float32(0.3), (4, 4))
    (alone,) = InferenceSession(g.model(y), threads=1).run(None, g.feed)
    assert np.abs(alone - np.clip(np.rint(bias) + 128, 0, 255)).max() <= 1 < np.ptp(got)


@pytest.mark.parametrize("bias", [False, True])
@needs_onnxruntime
def test_qgemm_that_gives_numbers(bias):
    g = Quantized()
    y = gemm(g, 0.01, g.constant(np.arange(4) * 999, np.int32) if bias else "")
    if not bias:
        del g.nodes[-1].input[6:]
    assert kinds(folded(g, y)) == {"QuantizedLinear": 1}
    agrees(g, y, 0.0005)


def test_qgemm_with_a_scale_alone_is_refused():
    g = Quantized()
    y = gemm(g, 0.01, "", g.constant(0.3, np.float32))
    with pytest.raises(ValueError, match="QGemm"):
        InferenceSession(g.model(y)).run(None, g.feed)


# Scales and zero points in different numbers


@pytest.mark.parametrize("scales", [(), (1,), (4,)])
@pytest.mark.parametrize("zeros", [(), (1,), (4,)])
@needs_onnxruntime
def test_one_zero_point_and_many_scales(scales, zeros):
    g = Quantized(dtype=U8)
    x = g.integers(1, 8, 9, 7)
    w = g.integers(4, 8, 3, 3, known=True)
    scale, zero = g.rng.uniform(0.001, 0.003, scales), g.rng.integers(120, 130, zeros)
    zero[...] = zero.reshape(-1)[0]  # onnxruntime has one for all channels alone
    how = g.parameters(0.05, 99, U8)
    y = g.QLinearConv(
        x, *how, w, *g.parameters(scale, zero, U8), *g.parameters(0.1, 128, U8)
    )  # fmt: skip
    assert kinds(folded(g, y)) == {"QuantizedConv": 1}
    agrees(g, y)


@needs_onnxruntime
def test_two_convolutions_share_what_is_repeated():
    g = Quantized(dtype=U8)
    x = g.integers(1, 8, 9, 7)
    w = g.integers(8, 8, 1, 1, known=True)
    how, other = g.parameters(0.05, 99, U8), g.parameters(np.full(8, 0.003), 128, U8)
    bias = g.constant(g.rng.integers(-999, 999, 8), np.int32)
    y = g.QLinearConv(x, *how, w, *other, *how, bias)
    y = g.QLinearConv(y, *how, w, *other, *how, bias)
    agrees(g, y)


# Nothing to multiply, nothing to quantize


def test_products_of_nothing():
    g = Quantized()
    x = g.pair(g.input(3, 0))
    y = g.Add(g.MatMul(x, g.kernel(0, 5, axis=1)), g.random(5))
    (got,) = InferenceSession(g.model(y), threads=1).run(None, g.feed)
    np.testing.assert_array_equal(got, np.broadcast_to(g.array(g.nodes[-1].input[1]), (3, 5)))


def test_sums_of_nothing():
    g = Quantized(dtype=np.int32)
    y = g.MatMulInteger(g.integers(3, 0), g.constant(np.zeros((0, 5)), S8), g.constant(9, U8))
    (got,) = InferenceSession(g.model(y), threads=1).run(None, g.feed)
    np.testing.assert_array_equal(got, np.zeros((3, 5), np.int32))
    assert got.dtype == np.int32


def test_dynamic_quantization_of_nothing():
    g = Quantized()
    q, scale, zero = g.DynamicQuantizeLinear(g.input(3, 0), outputs=3)
    y = g.Mul(g.Cast(zero, to=1), scale)
    z = g.DequantizeLinear(q, scale, zero)
    got = InferenceSession(g.model(y, scale, z), threads=1).run(None, g.feed)
    assert got[0] == 0 and got[1] > 0 and got[2].shape == (3, 0)


# Constants: folded, or computed by a step of their own

S16, U16 = np.dtype(np.int16), np.dtype(np.uint16)
KINDS = pytest.mark.parametrize(("dtype", "zero"), [(U8, 3), (S8, -3), (S16, -3), (U16, 3)])


def as_referred(g: Quantized, *outputs: str, tolerance: float = 1e-6) -> None:
    """A session runs, and gives what ONNX's reference gives."""
    model = g.model(*outputs)
    got = InferenceSession(model, threads=1).run(None, g.feed)
    for x, y in zip(got, ReferenceEvaluator(model).run(None, g.feed), strict=True):
        assert x.shape == y.shape and x.dtype == y.dtype
        assert len(np.unique(y)) > 1
        np.testing.assert_allclose(x.astype(np.float64), y.astype(np.float64), 0, tolerance)


@KINDS
def test_weights_of_any_integers(dtype, zero):
    g = Quantized()
    w = g.dq(g.constant(g.rng.integers(0, 90, (5, 4)), dtype), 1e-2, zero, dtype)
    as_referred(g, g.MatMul(g.input(2, 5), w), tolerance=1e-5)


@KINDS
def test_weights_that_are_stored_as_numbers(dtype, zero):
    g = Quantized()
    w = g.pair(g.random(5, 4), 0.1, zero, dtype)
    as_referred(g, g.MatMul(g.input(2, 5), w), tolerance=1e-5)


def test_scales_of_half_precision():
    g = Quantized()
    scale, zero = g.constant(2.0**-7, np.float16), g.constant(100, U8)
    w = g.DequantizeLinear(g.constant(g.rng.integers(0, 255, (5, 4)), U8), scale, zero)
    y = g.MatMul(g.input(2, 5), g.Cast(w, to=onnx.TensorProto.FLOAT))
    as_referred(g, y, tolerance=1e-5)


@pytest.mark.parametrize("back", [False, True])
def test_constants_that_appear_with_shapes(back):
    g = Quantized()
    x = g.input(2, 4, free=True)
    y = g.q(g.Cast(g.Shape(x), to=onnx.TensorProto.FLOAT), 0.5, 3)
    if back:
        y = g.Add(x, g.Unsqueeze(g.Gather(g.dq(y, 0.5, 3), g.constant([0], np.int64)),
                                 g.constant([0], np.int64)))  # fmt: skip
    else:
        g.dtype = U8
    as_referred(g, y)


@KINDS
def test_outputs_that_are_constant(dtype, zero):
    g = Quantized()
    y = g.dq(g.constant(np.arange(8).reshape(2, 4), dtype), 0.5, zero, dtype)
    as_referred(g, y, g.Add(g.input(2, 4), y))
    g = Quantized()
    g.input(2, 4)
    y = g.q(g.random(2, 4), 0.1, zero, dtype)
    g.dtype = dtype
    as_referred(g, y)


def test_a_constant_quantized_once_shapes_are_known_is_folded():
    g = Quantized()
    x = g.input(1, 4, free=True)
    numbers = g.pair(g.Cast(g.Shape(x), to=onnx.TensorProto.FLOAT), 0.5, 3)
    y = g.Mul(x, g.Gather(numbers, g.constant([1], np.int64)))
    assert not kinds(folded(g, y))["QuantizeLinear"]
    as_referred(g, y)


# Further operators of quantized arrays, and images whose channels are last

MORE = {
    "QLinearAveragePool": lambda g, x, p, q: g.QLinearAveragePool(
        x, *p, *q, kernel_shape=[2, 3], strides=[2, 1], **OURS
    ),
    "QLinearAveragePool, channels last": lambda g, x, p, q: g.QLinearAveragePool(
        x, *p, *q, kernel_shape=[2, 3], channels_last=1, **OURS
    ),
    "QLinearGlobalAveragePool, channels last": lambda g, x, p, q: g.QLinearGlobalAveragePool(
        x, *p, *q, channels_last=1, **OURS
    ),
    "QLinearSoftmax": lambda g, x, p, q: g.QLinearSoftmax(
        x, *p, *g.parameters(1 / 256, 0, U8), axis=-1, opset=13, **OURS
    ),
}


@needs_onnxruntime
@pytest.mark.parametrize("name", MORE)
def test_further_operators(name):
    g = Quantized(dtype=U8)
    p, q = g.parameters(0.05, 100, U8), g.parameters(0.04, 90, U8)
    agrees(g, MORE[name](g, g.integers(2, 12, 9, 7), p, q))


@needs_onnxruntime
@pytest.mark.parametrize("dtype", [U8, S8])
def test_convolutions_of_channels_last(dtype):
    g = Quantized(dtype=dtype)
    x, w = g.integers(1, 9, 7, 8, dtype=dtype), g.integers(6, 8, 3, 3, dtype=S8, known=True)
    how = g.parameters(0.05, 9, dtype), g.parameters(0.02, 0, S8), g.parameters(4.0, 3, dtype)
    y = g.QLinearConv(x, *how[0], w, *how[1], *how[2], channels_last=1, kernel_shape=[3, 3],
                      pads=[1, 1, 1, 1], **OURS)  # fmt: skip
    agrees(g, y)
