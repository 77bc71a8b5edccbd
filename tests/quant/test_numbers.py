"""Numbers as integers and back, and weights as integers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from pplconv import quant

F32, S8, U8 = np.float32, np.int8, np.uint8
FLOATS = st.floats(-(2.0**100), 2.0**100, width=32)
RANGES = {U8: (0, 255), S8: (-128, 127)}


@given(
    arrays.arrays(F32, st.integers(0, 40), elements=FLOATS),
    st.floats(2.0**-60, 2.0**60, width=32),
    st.sampled_from([U8, S8]),
    st.integers(0, 255),
)
def test_quantize_is_onnx_s(x, scale, dtype, zero):
    """The expected values are Python integers, computed from the float32 quotient."""
    low, high = RANGES[dtype]
    zero = zero + low
    expected = []
    for value in x:
        with np.errstate(over="ignore", under="ignore"):
            quotient = float(F32(value) / F32(scale))
        rounded = round(quotient) if math.isfinite(quotient) else math.copysign(10**9, quotient)
        expected.append(int(min(max(rounded + zero, low), high)))
    q = quant.quantize(x, scale, zero, dtype=dtype)
    assert q.dtype == dtype
    assert q.tolist() == expected
    assert quant.quantize(x, scale, dtype(zero)).tolist() == expected


@given(st.sampled_from([U8, S8]), st.floats(0.015625, 100, width=32), st.integers(0, 255))
def test_every_integer_stays_itself(dtype, scale, zero):
    low, high = RANGES[dtype]
    q = np.arange(low, high + 1).astype(dtype)
    x = quant.dequantize(q, scale, zero + low)
    assert x.dtype == F32
    np.testing.assert_array_equal(quant.quantize(x, scale, zero + low, dtype=dtype), q)
    assert x[zero] == 0


def test_scales_along_an_axis(rng):
    x = rng.standard_normal((3, 4, 5)).astype(F32)
    scale, zero = np.array([0.1, 0.2, 0.3, 0.4], F32), np.array([1, 2, 3, 4], U8)
    for axis in (1, -2):
        q = quant.quantize(x, scale, zero, axis=axis)
        back = quant.dequantize(q, scale, zero, axis=axis)
        for i in range(4):
            np.testing.assert_array_equal(q[:, i], quant.quantize(x[:, i], scale[i], zero[i]))
            np.testing.assert_array_equal(
                back[:, i], quant.dequantize(q[:, i], scale[i], int(zero[i]))
            )


def test_infinities_saturate():
    assert quant.quantize([np.inf, -np.inf], 1.0, 3).tolist() == [255, 0]


def test_bias_is_dequantized():
    q = np.array([2**30, -3], np.int32)
    np.testing.assert_array_equal(quant.dequantize(q, 0.5), np.array([2.0**29, -1.5], F32))


@pytest.mark.parametrize(
    ("call", "error", "name"),
    [
        (lambda: quant.quantize([np.nan], 1.0), ValueError, "x"),
        (lambda: quant.quantize(np.ones(3, int), 1.0), TypeError, "x"),
        (lambda: quant.quantize([1.0], 0.0), ValueError, "scale"),
        (lambda: quant.quantize([1.0], np.inf), ValueError, "scale"),
        (lambda: quant.quantize([1.0], "1"), TypeError, "scale"),
        (lambda: quant.quantize([1.0], 1.0, 256), ValueError, "zero_point"),
        (lambda: quant.quantize([1.0], 1.0, -(2**32)), ValueError, "zero_point"),
        (lambda: quant.quantize([1.0], 1.0, np.uint64(2**63)), ValueError, "zero_point"),
        (lambda: quant.dequantize(np.ones(1, U8), 1.0, 2**32 + 1), ValueError, "zero_point"),
        (lambda: quant.quantize([1.0], 1.0, 0.5), TypeError, "zero_point"),
        (lambda: quant.quantize([1.0], 1.0, dtype="int16"), ValueError, "dtype"),
        (lambda: quant.quantize([1.0, 2.0], [1.0, 2.0]), ValueError, "scale"),
        (lambda: quant.quantize([1.0, 2.0], [1.0, 2.0, 3.0], axis=0), ValueError, "scale"),
        (lambda: quant.quantize([1.0, 2.0], [1.0, 2.0], axis=1), ValueError, "axis"),
        (lambda: quant.quantize(1.0, [1.0, 2.0], axis=0), ValueError, "axis"),
        (lambda: quant.dequantize(np.ones(3), 1.0), TypeError, "q"),
        (lambda: quant.signal_to_noise([1.0], [1.0, 2.0]), ValueError, "approximation"),
        (lambda: quant.quantize_weights(np.ones((2, 2), int)), TypeError, "w"),
        (lambda: quant.quantize_weights(np.ones((0, 2))), ValueError, "w"),
        (lambda: quant.quantize_weights(1.0), ValueError, "w"),
        (lambda: quant.quantize_weights([[np.inf, 1.0]]), ValueError, "w"),
        (lambda: quant.quantize_weights([[np.nan, 1.0]]), ValueError, "w"),
        (lambda: quant.quantize_weights([[1.0]], axis=2), ValueError, "axis"),
        (lambda: quant.quantize_weights([[1.0]], dtype=np.int16), ValueError, "dtype"),
    ],
)
def test_errors_name_the_argument(call, error, name):
    with pytest.raises(error, match=rf"^{name}\b"):
        call()


def test_signal_to_noise():
    exact = np.array([3.0, 4.0])
    assert quant.signal_to_noise(exact, exact) == math.inf
    assert quant.signal_to_noise(exact, [3.0, 4.5]) == pytest.approx(20.0)
    assert quant.signal_to_noise([0.0], [1.0]) == -math.inf
    # The ratio is that of all elements together, for any shape and type.
    assert quant.signal_to_noise(exact.astype("f2").reshape(2, 1), [[3.5], [4.0]]) == pytest.approx(
        20.0
    )


# Weights -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [S8, U8])
@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("per_channel", [True, False])
def test_weights_come_back(rng, per_channel, symmetric, dtype):
    w = (rng.standard_normal((6, 4, 3, 3)) * np.exp2(rng.integers(-9, 9, (6, 1, 1, 1)))).astype(F32)
    w[1] = np.abs(w[1])
    q, scale, zero = quant.quantize_weights(w, per_channel, symmetric, dtype=dtype)
    assert q.dtype == dtype and q.shape == w.shape
    assert np.shape(scale) == np.shape(zero) == ((6,) if per_channel else ())
    assert scale.dtype == F32 and zero.dtype == dtype
    back = quant.dequantize(q, scale, zero, axis=0 if per_channel else None)
    # Rounding adds half a step. The integer zero point moves an asymmetric range by another half.
    steps = np.abs(back - w) / (scale[:, None, None, None] if per_channel else scale)
    assert steps.max() <= 0.501 if symmetric else steps.max() <= 1.001
    if symmetric:
        middle = 0 if dtype is S8 else 128
        assert np.all(zero == middle)
        each = np.abs(q.astype(int) - middle).reshape(6, -1).max(1)
        assert np.all(each == 127) if per_channel else each.max() == 127
    else:
        low, high = RANGES[dtype]
        each = q.reshape(6, -1)
        assert each.min() <= low + 1 and each.max() >= high - 1
    if not symmetric and per_channel:
        # The range of a channel without negative numbers begins at zero.
        assert zero[1] == RANGES[dtype][0]


@pytest.mark.parametrize("axis", [1, -1])
def test_columns_of_a_matrix(rng, axis):
    w = rng.standard_normal((7, 5)).astype(F32)
    q, scale, zero = quant.quantize_weights(w, axis=axis)
    other = quant.quantize_weights(w.T)
    np.testing.assert_array_equal(q, other[0].T)
    np.testing.assert_array_equal(scale, other[1])
    assert zero.shape == (5,)


@pytest.mark.parametrize("symmetric", [True, False])
def test_weights_of_zero(symmetric):
    w = np.zeros((2, 3), F32)
    w[1] = [1, 2, -4]
    q, scale, _ = quant.quantize_weights(w, symmetric=symmetric)
    assert scale[0] == 1 and len(set(q[0].tolist())) == 1
    back = quant.dequantize(q, scale, quant.quantize_weights(w, symmetric=symmetric)[2], axis=0)
    np.testing.assert_array_equal(back[0], 0)


def test_weights_at_the_ends_of_float32():
    for w in ([[1e-45, -1e-45]], [[3e38, -3.4e38]], [[1e300, -1e300]], [[1e-300, 0.0]]):
        q, scale, zero = quant.quantize_weights(np.array(w), symmetric=False)
        assert np.isfinite(scale).all() and (scale >= np.finfo(F32).tiny).all()
        assert q.shape == (1, 2) and zero.shape == (1,)


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_weights_of_other_types(rng, dtype):
    w = rng.standard_normal((3, 8)).astype(np.float16)
    got, expected = quant.quantize_weights(w.astype(dtype)), quant.quantize_weights(w.astype(F32))
    for ours, theirs in zip(got, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)
