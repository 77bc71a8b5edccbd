"""NaN, infinities, zeros, subnormal and very large numbers, and batches of nothing.

The rule is that of the direct sum over the input padded with zeros, as in PyTorch: a padded tap
contributes ``0 * w``, which is NaN where the weight is infinite.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pplconv
from buffers import GuardedOutput, untouched
from problems import problems
from reference import assert_convolution, conv2d_reference

DTYPES = ["float32", "float64"]
LAYOUTS = ["NCHW", "NHWC"]
SPECIAL = [math.nan, math.inf, -math.inf, 0.0, -0.0]


def ones(*shape, dtype="float32"):
    return np.ones(shape, dtype)


@given(data=st.data(), problem=problems())
def test_special_values_stand_where_the_direct_sum_has_them(data, problem):
    """A few special values anywhere, in the arrays that a drawn choice names."""
    arrays = problem.arrays()
    given_arrays = [name for name, array in arrays.items() if array is not None and array.size]
    for name in data.draw(st.sets(st.sampled_from(given_arrays), max_size=3)):
        array = arrays[name]
        for _ in range(data.draw(st.integers(1, 4))):
            place = data.draw(st.integers(0, array.size - 1))
            array.flat[place] = data.draw(st.sampled_from(SPECIAL))
    output = GuardedOutput(problem.output_shape, problem.dtype)
    pplconv.conv2d(**arrays, **problem.parameters, **problem.options, out=output.array)
    output.assert_margins_intact()
    assert_convolution(output.array, **arrays, **problem.parameters)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_special_input_reaches_its_window_and_nothing_else(value, layout, dtype, rng):
    """Tails of tiles and blocks must not carry it to other pixels, channels or images."""
    x = rng.standard_normal((2, 19, 23, 35)).astype(dtype)
    w = rng.uniform(0.5, 1, (21, 19, 3, 3)).astype(dtype)
    x[1, 7, 11, 33] = value
    if layout == "NHWC":
        x = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    y = pplconv.conv2d(x, w, padding=1, layout=layout)
    assert_convolution(y, x, w, padding=1, layout=layout)
    y = y if layout == "NCHW" else y.transpose(0, 3, 1, 2)
    expected = np.zeros(y.shape, bool)
    expected[1, :, 10:13, 32:35] = True
    np.testing.assert_array_equal(~np.isfinite(y), expected)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_special_weight_reaches_its_channel_and_nothing_else(value, layout, rng):
    shape = (1, 9, 12, 13) if layout == "NCHW" else (1, 12, 13, 9)
    x = rng.uniform(0.5, 1, shape).astype(np.float32)
    w = rng.standard_normal((33, 9, 3, 3)).astype(np.float32)
    w[17, 4, 2, 0] = value
    y = pplconv.conv2d(x, w, layout=layout)
    assert_convolution(y, x, w, layout=layout)
    special = ~np.isfinite(y if layout == "NCHW" else y.transpose(0, 3, 1, 2))
    assert special[0, 17].all()
    assert special.sum() == special[0, 17].size


@pytest.mark.parametrize("layout", LAYOUTS)
def test_infinite_weights_on_padding_give_nan(layout):
    """0 * inf: the first row of outputs sees only padding with its infinite taps."""
    x = ones(1, 4, 5, 2) if layout == "NHWC" else ones(1, 2, 4, 5)
    w = ones(3, 2, 3, 3)
    w[1, 0, 0, :] = np.inf
    y = pplconv.conv2d(x, w, padding=1, layout=layout)
    assert_convolution(y, x, w, padding=1, layout=layout)
    y = y if layout == "NCHW" else y.transpose(0, 3, 1, 2)
    assert np.isnan(y[0, 1, 0]).all()
    assert np.isposinf(y[0, 1, 1:, 1:-1]).all()
    assert np.isfinite(y[0, [0, 2]]).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kernel", [1, 3])
@pytest.mark.parametrize(
    ("activation", "expected"),
    [
        (None, [math.nan, math.inf, -math.inf, -7, 0, 7]),
        ("relu", [math.nan, math.inf, 0, 0, 0, 7]),
        ("relu6", [math.nan, 6, 0, 0, 0, 6]),
        (("clip", -2, 3), [math.nan, 3, -2, -2, 0, 3]),
        (("clip", 1, 1), [math.nan, 1, 1, 1, 1, 1]),
        (("clip", 0, math.inf), [math.nan, math.inf, 0, 0, 0, 7]),
        (("clip", -math.inf, 1), [math.nan, 1, -math.inf, -7, 0, 1]),
        (("clip", -math.inf, math.inf), [math.nan, math.inf, -math.inf, -7, 0, 7]),
        (("leaky_relu", 0.5), [math.nan, math.inf, -math.inf, -3.5, 0, 7]),
        (("leaky_relu", 0), [math.nan, math.inf, 0, 0, 0, 7]),
        (("prelu", [2] * 18), [math.nan, math.inf, -math.inf, -14, 0, 7]),
        (("prelu", [0] * 18), [math.nan, math.inf, 0, 0, 0, 7]),
        ("hardswish", [math.nan, math.inf, 0, 0, 0, 7]),
    ],
)
def test_activations_of_special_values(activation, expected, kernel, layout, dtype):
    """NaN stays NaN through every activation, in every lane; the rest is clipped."""
    repeats, channels = 7, 18
    values = np.tile(np.array([math.nan, math.inf, -math.inf, -7, 0, 7], dtype), repeats)
    x = np.zeros((1, 1, kernel, values.size + kernel - 1), dtype)
    w = np.zeros((channels, 1, kernel, kernel), dtype)
    w[:, 0, 0, 0] = 1
    residual = np.broadcast_to(values, (1, channels, 1, values.size))
    if layout == "NHWC":
        x, residual = x.transpose(0, 2, 3, 1), residual.transpose(0, 2, 3, 1)
    y = pplconv.conv2d(x, w, activation=activation, residual=residual, layout=layout)
    y = y if layout == "NCHW" else y.transpose(0, 3, 1, 2)
    for row in y[0, :, 0]:
        np.testing.assert_array_equal(row, np.tile(expected, repeats))


@pytest.mark.parametrize("name", ["bias", "residual"])
def test_special_bias_and_residual(name, rng):
    arrays = {
        "input": rng.standard_normal((1, 3, 6, 7)).astype(np.float32),
        "weight": rng.standard_normal((5, 3, 3, 3)).astype(np.float32),
        "bias": np.zeros(5, np.float32),
        "residual": np.zeros((1, 5, 4, 5), np.float32),
    }
    arrays[name].flat[:3] = [np.nan, np.inf, -np.inf]
    for activation in (None, "relu6"):
        y = pplconv.conv2d(**arrays, activation=activation)
        assert_convolution(y, **arrays, activation=activation)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_opposite_infinities_give_nan(dtype, layout):
    x = ones(1, 2, 4, 5, dtype=dtype)
    x[0, :, 1, 1] = np.inf, -np.inf
    if layout == "NHWC":
        x = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    w = ones(2, 2, 1, 1, dtype=dtype)
    y = pplconv.conv2d(x, w, layout=layout)
    assert_convolution(y, x, w, layout=layout)
    assert np.isnan(y).sum() == 2


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kernel", [1, 3])
def test_negative_zeros_are_zeros(dtype, kernel):
    x = np.full((1, 20, 6, 6), -0.0, dtype)
    w = np.ones((5, 20, kernel, kernel), dtype)
    bias = np.full(5, -0.0, dtype)
    for activation in (None, "relu", ("clip", -1, 1)):
        y = pplconv.conv2d(x, w, bias, activation=activation)
        np.testing.assert_array_equal(y, np.zeros_like(y))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_largest_finite_values(dtype, layout, rng):
    """They pass unharmed, overflow where the sum does, and cancel where no order can overflow."""
    largest = np.finfo(dtype).max
    shape = (1, 6, 10, 17) if layout == "NCHW" else (1, 10, 17, 6)
    x = np.full(shape, largest, dtype)
    pick = np.zeros((4, 6, 1, 1), dtype)
    pick[0, 0], pick[1, 5], pick[2, :2], pick[3, :4] = 1, -1, (0.5), (0.25)
    y = pplconv.conv2d(x, pick, layout=layout)
    channels = y if layout == "NCHW" else y.transpose(0, 3, 1, 2)
    for channel, value in enumerate([largest, -largest, largest, largest]):
        np.testing.assert_array_equal(channels[0, channel], value)
    overflowing = np.zeros((2, 6, 1, 1), dtype)
    overflowing[0, :3], overflowing[1, 2:] = 1, -1
    y = pplconv.conv2d(x, overflowing, layout=layout)
    channels = y if layout == "NCHW" else y.transpose(0, 3, 1, 2)
    assert np.isposinf(channels[0, 0]).all()
    assert np.isneginf(channels[0, 1]).all()
    y = pplconv.conv2d(x, overflowing, layout=layout, activation="relu6")
    channels = y if layout == "NCHW" else y.transpose(0, 3, 1, 2)
    np.testing.assert_array_equal(channels[0, 0], 6)
    np.testing.assert_array_equal(channels[0, 1], 0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kernel", [1, 2])
def test_subnormal_numbers(dtype, layout, kernel, rng):
    """Underflow is gradual, and the bound of the reference leaves no room for flushing to zero."""
    info = np.finfo(dtype)
    shape = (1, 4, 9, 11) if layout == "NCHW" else (1, 9, 11, 4)
    x = (rng.integers(1, 1000, shape) * info.smallest_subnormal).astype(dtype)
    w = rng.integers(1, 5, (3, 4, kernel, kernel)).astype(dtype)
    y = pplconv.conv2d(x, w, layout=layout)
    assert_convolution(y, x, w, layout=layout)
    # Sums of subnormal numbers times small integers are exact.
    np.testing.assert_array_equal(y, conv2d_reference(x, w, layout=layout).astype(dtype))
    assert (y != 0).all()
    tiny = np.full(shape, info.tiny, dtype)
    y = pplconv.conv2d(tiny, np.full_like(w, 0.5), layout=layout)
    assert_convolution(y, tiny, np.full_like(w, 0.5), layout=layout)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kernel", [1, 3])
def test_empty_batches(dtype, layout, kernel):
    """No images in, none out, of the right shape; ``out`` is taken and given back."""
    x = np.zeros((0, 4, 6, 7) if layout == "NCHW" else (0, 6, 7, 4), dtype)
    w = np.ones((5, 4, kernel, kernel), dtype)
    side = (7 - kernel, 8 - kernel)
    shape = (0, 5, *side) if layout == "NCHW" else (0, *side, 5)
    bias = np.ones(5, dtype)
    y = pplconv.conv2d(x, w, bias, layout=layout)
    assert y.shape == shape and y.dtype == dtype
    out, residual = np.empty(shape, dtype), np.empty(shape, dtype)
    conv = pplconv.Conv2d(w, bias, layout=layout, activation="relu")
    assert pplconv.conv2d(x, w, bias, layout=layout, residual=residual, out=out) is out
    assert conv(x, residual, out) is out
    # Empty is no excuse: what is wrong with a full batch is wrong with an empty one.
    with pytest.raises(ValueError, match="out"):
        conv(x, out=np.empty((1, *shape[1:]), dtype))
    with pytest.raises(ValueError, match="weight"):
        pplconv.conv2d(x, np.ones((5, 4, 8, 1), dtype), layout=layout)


def test_the_callers_floating_point_state_stays(rng):
    """Neither rounding nor flushing to zero is changed behind the caller's back."""
    tiny = np.finfo(np.float32).tiny
    halves = np.array([tiny], np.float32)
    weight = np.full((2, 3, 3, 3), 1e-30, np.float32)
    with untouched(weight), np.errstate(all="ignore"):
        pplconv.conv2d(np.full((1, 3, 8, 8), 1e-30, np.float32), weight)
        assert (halves / 2)[0] == tiny / 2 != 0
    with np.errstate(all="raise"):
        y = pplconv.conv2d(np.full((1, 3, 8, 8), np.inf, np.float32), weight * 0 + 1)
    assert np.isposinf(y).all()
