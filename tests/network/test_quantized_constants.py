"""Constants that are quantized or dequantized: folded, or computed by a step of their own."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from pplconv.network.session import InferenceSession
from tests.network.quantizing import S8, U8, Quantized, folded, kinds

S16, U16 = np.dtype(np.int16), np.dtype(np.uint16)
KINDS = pytest.mark.parametrize(("dtype", "zero"), [(U8, 3), (S8, -3), (S16, -3), (U16, 3)])


def agrees(g: Quantized, *outputs: str, tolerance: float = 1e-6) -> None:
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
    agrees(g, g.MatMul(g.input(2, 5), w), tolerance=1e-5)


@KINDS
def test_weights_that_are_stored_as_numbers(dtype, zero):
    g = Quantized()
    w = g.pair(g.random(5, 4), 0.1, zero, dtype)
    agrees(g, g.MatMul(g.input(2, 5), w), tolerance=1e-5)


def test_scales_of_half_precision():
    g = Quantized()
    scale, zero = g.constant(2.0**-7, np.float16), g.constant(100, U8)
    w = g.DequantizeLinear(g.constant(g.rng.integers(0, 255, (5, 4)), U8), scale, zero)
    y = g.MatMul(g.input(2, 5), g.Cast(w, to=onnx.TensorProto.FLOAT))
    agrees(g, y, tolerance=1e-5)


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
    agrees(g, y)


@KINDS
def test_outputs_that_are_constant(dtype, zero):
    g = Quantized()
    y = g.dq(g.constant(np.arange(8).reshape(2, 4), dtype), 0.5, zero, dtype)
    agrees(g, y, g.Add(g.input(2, 4), y))
    g = Quantized()
    g.input(2, 4)
    y = g.q(g.random(2, 4), 0.1, zero, dtype)
    g.dtype = dtype
    agrees(g, y)


def test_a_constant_quantized_once_shapes_are_known_is_folded():
    g = Quantized()
    x = g.input(1, 4, free=True)
    numbers = g.pair(g.Cast(g.Shape(x), to=onnx.TensorProto.FLOAT), 0.5, 3)
    y = g.Mul(x, g.Gather(numbers, g.constant([1], np.int64)))
    assert not kinds(folded(g, y))["QuantizeLinear"]
    agrees(g, y)
