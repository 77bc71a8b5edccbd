"""`Conv2d.quantize`: scales from samples, and how near the result comes."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import pplconv
from pplconv import quant

F32 = np.float32


@pytest.fixture
def samples(rng):
    return rng.standard_normal((6, 8, 12, 11)).astype(F32)


def conv(rng, **arguments):
    w = (rng.standard_normal((16, 8, 3, 3)) * np.exp2(rng.uniform(-4, 2, (16, 1, 1, 1)))).astype(
        F32
    )
    bias = rng.standard_normal(16).astype(F32)
    return pplconv.Conv2d(w, bias, padding=1, **arguments)


def measured(layer, quantized, x, residual=None):
    """Give the signal-to-noise ratio, from the outside."""
    q_residual = residual
    if quantized.residual_scale is not None:
        q_residual = quant.quantize(
            residual, quantized.residual_scale, quantized.residual_zero_point,
            dtype=quantized.out_dtype,
        )  # fmt: skip
    q = quant.quantize(x, quantized.x_scale, quantized.x_zero_point, dtype=quantized.x_dtype)
    y = quantized(q, q_residual)
    if quantized.y_scale is not None:
        y = quant.dequantize(y, quantized.y_scale, quantized.y_zero_point)
    return quant.signal_to_noise(layer(x, residual), y)


@pytest.mark.parametrize("method", ["minmax", "percentile", "mse"])
@pytest.mark.parametrize("x_dtype", ["uint8", "int8"])
@pytest.mark.parametrize("out_dtype", [None, "uint8", "int8", "float32"])
@pytest.mark.parametrize("activation", [None, "relu", ("clip", -1, 4)])
def test_outputs_are_near(rng, samples, method, x_dtype, out_dtype, activation):
    layer = conv(rng, activation=activation)
    made = layer.quantize(samples, method=method, x_dtype=x_dtype, out_dtype=out_dtype)
    assert isinstance(made, pplconv.QConv2d)
    assert (made.x_dtype, made.out_dtype) == (x_dtype, out_dtype or x_dtype)
    assert made.weight.dtype == np.int8 and made.w_scale.shape == (16,)
    assert made.signal_to_noise == pytest.approx(measured(layer, made, samples), abs=1e-3)
    assert 28 < made.signal_to_noise < 60
    assert pickle.loads(pickle.dumps(made)).signal_to_noise == made.signal_to_noise
    if out_dtype == "float32":
        assert made.y_scale is None
    elif activation == "relu":
        assert made.y_zero_point == np.iinfo(made.out_dtype).min


def test_a_scale_for_each_channel_is_nearer(rng, samples):
    layer = conv(rng)
    each, one = (layer.quantize(samples, per_channel=per, out_dtype=F32) for per in (True, False))
    assert np.shape(one.w_scale) == ()
    # As of each channel by itself: the small ones lose their digits.
    exact = layer(samples)
    q = quant.quantize(samples, each.x_scale, each.x_zero_point)
    channels = [
        [quant.signal_to_noise(exact[:, c], made(q)[:, c]) for c in range(16)]
        for made in (each, one)
    ]
    assert min(channels[0]) > 35
    assert min(channels[1]) < min(channels[0]) - 10


def test_weights_with_zero_points(rng, samples):
    w = rng.uniform(0.5, 1.5, (16, 8, 3, 3)).astype(F32)
    layer = pplconv.Conv2d(w)
    x = np.abs(samples)
    symmetric, asymmetric = (
        layer.quantize(x, symmetric=flag, out_dtype=F32) for flag in (True, False)
    )
    assert np.all(symmetric.w_zero_point == 0) and np.all(asymmetric.w_zero_point == -128)
    largest = w.reshape(16, -1).max(1)
    np.testing.assert_allclose(symmetric.w_scale, largest / 127, rtol=1e-6)
    np.testing.assert_allclose(asymmetric.w_scale, largest / 255, rtol=1e-6)
    assert asymmetric.signal_to_noise > symmetric.signal_to_noise


@pytest.mark.parametrize("out_dtype", ["uint8", "int8", "float32"])
def test_residuals(rng, samples, out_dtype):
    layer = conv(rng, activation="relu")
    residual = (rng.standard_normal((6, 16, 12, 11)) * 20).astype(F32)
    pairs = [(x, r) for x, r in zip(samples, residual, strict=True)]
    made = layer.quantize(iter(pairs), out_dtype=out_dtype)
    assert (made.residual_scale is None) is (out_dtype == "float32")
    assert made.signal_to_noise == pytest.approx(measured(layer, made, samples, residual), abs=1e-3)
    assert made.signal_to_noise > 30


def test_samples_in_any_form(rng, samples):
    layer = conv(rng)
    whole = layer.quantize(samples)
    for form in (list(samples), tuple(samples), (x for x in samples), [samples[:2], samples[2:]]):
        made = layer.quantize(form)
        assert repr(made) == repr(whole)
        assert made.signal_to_noise == pytest.approx(whole.signal_to_noise)
        np.testing.assert_array_equal(made.multiplier, whole.multiplier)


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_other_types_and_layouts(rng, samples, dtype, layout):
    w = rng.standard_normal((4, 4, 3, 2)).astype(dtype)
    layer = pplconv.Conv2d(
        w, stride=2, padding="same_upper", groups=2, layout=layout, threads=1,
        max_workspace=10**8, algorithm="im2col",
    )  # fmt: skip
    x = samples.astype(dtype) if layout == "NCHW" else samples.transpose(0, 2, 3, 1).astype(dtype)
    made = layer.quantize(x)
    assert (made.stride, made.padding, made.groups) == ((2, 2), "same_upper", 2)
    assert (made.layout, made.threads, made.max_workspace) == (layout, 1, 10**8)
    assert made.signal_to_noise == pytest.approx(measured(layer, made, x), abs=1e-3)
    assert made.signal_to_noise > 30


def test_a_bias_beyond_all_weights(rng, samples):
    """int32 would not hold the bias of the first channel in units of so small a scale."""
    w = rng.standard_normal((3, 8, 1, 1)).astype(F32)
    w[0] *= 1e-12
    bias = np.array([5.0, 0.5, -2.0], F32)
    layer = pplconv.Conv2d(w, bias)
    made = layer.quantize(samples, out_dtype=F32)
    assert 2**29 <= made.bias[0] <= 2**30
    np.testing.assert_array_equal(made.w_scale[1:], quant.quantize_weights(w)[1][1:])
    y = made(quant.quantize(samples, made.x_scale, made.x_zero_point))
    np.testing.assert_allclose(y[:, 0], 5.0, rtol=1e-6)
    for per_channel in (True, False):
        assert layer.quantize(samples, per_channel=per_channel).signal_to_noise > 30


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("per_channel", [True, False])
def test_channels_without_weights_are_their_bias(rng, samples, per_channel, symmetric):
    w = np.zeros((4, 8, 1, 1), F32)
    w[1:3] = [[[[1e-39]]], [[[-1e-30]]]]
    if per_channel:
        w[3] = rng.standard_normal((8, 1, 1))
    bias = np.array([0.31, 0.0, -0.17, 0.03], F32)
    layer = pplconv.Conv2d(w, bias)
    made = layer.quantize(samples, out_dtype=F32, per_channel=per_channel, symmetric=symmetric)
    y = made(quant.quantize(samples, made.x_scale, made.x_zero_point))
    np.testing.assert_allclose(y[:, 0], 0.31, rtol=1e-6)
    np.testing.assert_allclose(y[:, 1], 0, atol=1e-20)
    np.testing.assert_allclose(y[:, 2], -0.17, rtol=1e-6)
    assert made.signal_to_noise > 30


@pytest.mark.parametrize(
    ("arguments", "error", "name"),
    [
        ({"samples": []}, ValueError, "samples"),
        ({"samples": [np.zeros((8, 9, 9), np.float64)]}, TypeError, "samples"),
        ({"samples": np.zeros((2, 7, 9, 9), F32)}, ValueError, "samples"),
        ({"samples": [(np.zeros((8, 9, 9), F32),)]}, ValueError, "samples"),
        ({"samples": np.full((8, 9, 9), np.nan, F32)}, ValueError, "samples"),
        ({"method": "most"}, ValueError, "method"),
        ({"percentile": 0}, ValueError, "percentile"),
        ({"x_dtype": "float32"}, ValueError, "x_dtype"),
        ({"out_dtype": "int32"}, ValueError, "out_dtype"),
    ],
)
def test_errors_name_the_argument(rng, samples, arguments, error, name):
    with pytest.raises(error, match=rf"\b{name}\b"):
        conv(rng).quantize(**{"samples": samples, **arguments})


def test_what_has_no_quantized_form(rng, samples):
    with pytest.raises(ValueError, match=r"activation .*'silu'"):
        conv(rng, activation="silu").quantize(samples)
    with pytest.raises(ValueError, match=r"layout .*NCHWc"):
        conv(rng, layout="NCHWc").quantize(pplconv.to_blocked(samples, 8))
