"""NaN, infinities, zeros, subnormal and very large numbers, and batches of nothing.

Every algorithm follows the direct sum (for Winograd see also ``test_nonfinite``): a special input
reaches its window only, as in PyTorch. Padding is no term of a sum, so an infinite weight makes no
NaN there: ``im2col``, which multiplies padding, computes the border of such channels again.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import math
import platform

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pplconv
from tests.api.blocks import from_layout, to_layout
from tests.api.buffers import guarded
from tests.api.problems import Problem, problems, stated_error
from tests.reference import assert_convolution

DTYPES = ["float32", "float64"]
LAYOUTS = ["NCHW", "NHWC"]
SPECIAL = [math.nan, math.inf, -math.inf, 0.0, -0.0]


def ones(*shape, dtype="float32"):
    return np.ones(shape, dtype)


def check_special(data: st.DataObject, problem: Problem, names: tuple[str, ...]) -> None:
    """Put a few special values anywhere into a drawn choice of these arrays."""
    arrays = problem.arrays()
    given_arrays = [name for name in names if arrays[name] is not None and arrays[name].size]
    chosen = data.draw(st.sets(st.sampled_from(given_arrays), max_size=3)) if given_arrays else ()
    for name in chosen:
        array = arrays[name]
        for _ in range(data.draw(st.integers(1, 4))):
            place = data.draw(st.integers(0, array.size - 1))
            array.flat[place] = data.draw(st.sampled_from(SPECIAL))
    arguments = {**problem.parameters, **problem.options}
    arguments["tolerance"] = data.draw(st.sampled_from([0.0, 1e-5, 1e-3]))
    y = guarded(pplconv.conv2d, problem.output_shape, problem.dtype, **arrays, **arguments)
    stated = stated_error(arrays["weight"], problem.input_shape, **arguments)
    assert_convolution(y, **arrays, **problem.parameters, stated=stated)


@given(data=st.data(), problem=problems(algorithms=("im2col",)))
def test_special_values_stand_where_the_padded_sum_has_them(data, problem):
    check_special(data, problem, ("input", "weight", "bias", "residual"))


@given(data=st.data(), problem=problems(algorithms=("auto", "direct")))
def test_special_values_stand_where_the_direct_sum_has_them(data, problem):
    """Any algorithm may serve. All weights are finite, so padding adds zeros."""
    check_special(data, problem, ("input", "bias", "residual"))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(
    ("algorithm", "tolerance"),
    [("auto", 0), ("auto", 1e-5), ("auto", 1e-3), ("winograd", 1e-3), ("direct", 0), ("im2col", 0)],
)
def test_a_special_input_reaches_its_window_and_nothing_else(
    algorithm, tolerance, value, layout, dtype, rng
):
    """Tails of tiles and blocks must not carry it to other pixels, channels or images."""
    x = rng.standard_normal((2, 19, 23, 35)).astype(dtype)
    w = rng.uniform(0.5, 1, (21, 19, 3, 3)).astype(dtype)
    x[1, 7, 11, 33] = value
    x = to_layout(x, layout)
    arguments = {"padding": 1, "layout": layout}
    way = {"algorithm": algorithm, "tolerance": tolerance}
    y = pplconv.conv2d(x, w, **arguments, **way)
    stated = stated_error(w, x.shape, **arguments, **way)
    assert_convolution(y, x, w, **arguments, stated=stated)
    y = from_layout(y, layout)
    expected = np.zeros(y.shape, bool)
    expected[1, :, 10:13, 32:35] = True
    np.testing.assert_array_equal(~np.isfinite(y), expected)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("algorithm", ["auto", "im2col", "direct", "winograd"])
def test_a_special_weight_reaches_its_channel_and_nothing_else(algorithm, value, layout, rng):
    shape = (1, 9, 12, 13) if layout == "NCHW" else (1, 12, 13, 9)
    x = rng.uniform(0.5, 1, shape).astype(np.float32)
    w = rng.standard_normal((33, 9, 3, 3)).astype(np.float32)
    w[17, 4, 2, 0] = value
    arguments = {"layout": layout, "algorithm": algorithm}
    y = pplconv.conv2d(x, w, **arguments)
    stated = stated_error(w, x.shape, **arguments)
    assert_convolution(y, x, w, layout=layout, stated=stated)
    special = ~np.isfinite(from_layout(y, layout))
    assert special[0, 17].all()
    assert special.sum() == special[0, 17].size


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("algorithm", ["direct", "im2col", "winograd"])
def test_infinite_weights_on_padding(layout, algorithm):
    """In the first row of outputs the infinite taps meet only padding: the finite taps count."""
    x = to_layout(ones(1, 2, 4, 5), layout)
    w = ones(3, 2, 3, 3)
    w[1, 0, 0, :] = np.inf
    y = pplconv.conv2d(x, w, padding=1, layout=layout, algorithm=algorithm)
    y = from_layout(y, layout)
    np.testing.assert_array_equal(y[0, 1, 0], [8, 12, 12, 12, 8])
    assert np.isposinf(y[0, 1, 1:]).all()
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
    x, residual = to_layout(x, layout), to_layout(residual, layout)
    y = pplconv.conv2d(x, w, activation=activation, residual=residual, layout=layout)
    for row in from_layout(y, layout)[0, :, 0]:
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
    x = to_layout(x, layout)
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
    x = to_layout(np.full((1, 6, 10, 17), largest, dtype), layout)
    pick = np.zeros((4, 6, 1, 1), dtype)
    pick[0, 0], pick[1, 5], pick[2, :2], pick[3, :4] = 1, -1, (0.5), (0.25)
    channels = from_layout(pplconv.conv2d(x, pick, layout=layout), layout)
    for channel, value in enumerate([largest, -largest, largest, largest]):
        np.testing.assert_array_equal(channels[0, channel], value)
    overflowing = np.zeros((2, 6, 1, 1), dtype)
    overflowing[0, :3], overflowing[1, 2:] = 1, -1
    channels = from_layout(pplconv.conv2d(x, overflowing, layout=layout), layout)
    assert np.isposinf(channels[0, 0]).all()
    assert np.isneginf(channels[0, 1]).all()
    y = pplconv.conv2d(x, overflowing, layout=layout, activation="relu6")
    channels = from_layout(y, layout)
    np.testing.assert_array_equal(channels[0, 0], 6)
    np.testing.assert_array_equal(channels[0, 1], 0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("algorithm", "kernel"),
    [("pointwise", 1), ("im2col", 2), ("direct", 2), ("winograd", 3), ("depthwise", 3)],
)
@pytest.mark.parametrize("threads", [1, 3])
def test_subnormal_numbers_are_zeros(threads, algorithm, kernel, layout, dtype, rng):
    """Operands and results alike: computing with a subnormal number costs a hundred cycles."""
    info = np.finfo(dtype)
    groups = 40 if algorithm == "depthwise" else 1
    shape = (1, 40, 33, 31) if layout == "NCHW" else (1, 33, 31, 40)
    w = rng.integers(1, 5, (40, 40 // groups, kernel, kernel)).astype(dtype)
    options = {"groups": groups, "layout": layout, "algorithm": algorithm, "threads": threads}
    # Made of bits: NumPy's own arithmetic would give zeros where it flushes (NEON of 32 bits).
    tiny = rng.integers(1, 1000, shape, np.dtype(f"u{np.dtype(dtype).itemsize}")).view(dtype)
    y = pplconv.conv2d(tiny, w, **options)
    np.testing.assert_array_equal(y, np.zeros_like(y))
    # Half of the smallest normal number is subnormal; 64 times as much is not.
    halves = np.full(shape, info.tiny, dtype), np.full_like(w, 2.0**-12)
    y = pplconv.conv2d(*halves, **options)
    np.testing.assert_array_equal(y, np.zeros_like(y))
    # Subnormal terms vanish beside others, and nothing else does.
    x = np.where(rng.integers(0, 2, shape) == 1, tiny, rng.integers(1, 9, shape)).astype(dtype)
    y = pplconv.conv2d(x, w, **options)
    x[x < 1] = 0
    np.testing.assert_array_equal(y, pplconv.conv2d(x, w, **options))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("activation", ["leaky", "silu"])
def test_subnormal_numbers_of_the_epilogue_are_zeros(activation, dtype):
    """Bias, residual, and what an activation makes of them."""
    info = np.finfo(dtype)
    x, w = np.zeros((1, 4, 5, 6), dtype), np.ones((3, 4, 1, 1), dtype)
    bias = np.full(3, info.tiny / 2, dtype)
    residual = np.full((1, 3, 5, 6), info.smallest_subnormal, dtype)
    for form in (None, "relu", ("leaky_relu", 0.5) if activation == "leaky" else "silu"):
        y = pplconv.conv2d(x, w, bias, residual=residual, activation=form)
        np.testing.assert_array_equal(y, np.zeros_like(y))
    # The sum is normal, and its half would not be.
    y = pplconv.conv2d(x, w, -2 * bias, activation=("leaky_relu", 0.5))
    np.testing.assert_array_equal(y, np.zeros_like(y))


@pytest.mark.parametrize("dtype", ["float16", *DTYPES])
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


def floating_point_state() -> bytes:
    """Give this thread's state: rounding, flushing, exception flags (C's ``fegetenv``)."""
    libm = ctypes.CDLL(ctypes.util.find_library("m"))
    room = (ctypes.c_ubyte * 256)()
    assert libm.fegetenv(room) == 0
    # x86-64: 28 bytes of the x87, whose last instruction may differ, then MXCSR. AArch64: FPCR and
    # FPSR.
    return bytes(room)[28:32] if platform.machine() == "x86_64" else bytes(room)


# FE_TOWARDZERO of <fenv.h>.
TOWARD_ZERO = {"x86_64": 0xC00, "aarch64": 0xC00000}


@pytest.fixture
def rounding():
    """Give a setter of the rounding mode of this thread; the mode is put back."""
    libm = ctypes.CDLL(ctypes.util.find_library("m"))
    before = libm.fegetround()
    yield libm.fesetround
    libm.fesetround(before)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("algorithm", ["im2col", "direct", "winograd"])
def test_the_callers_floating_point_state_stays(algorithm, threads, rounding):
    """Neither rounding, nor flushing, nor an exception flag is changed behind the caller's back."""
    tiny = np.finfo(np.float32).tiny
    subnormal = np.array([tiny], np.float32) / 2
    x, weight = np.full((1, 16, 30, 30), 1e-30, np.float32), np.full((16, 16, 3, 3), 1e-30)
    conv = pplconv.Conv2d(weight.astype(np.float32), algorithm=algorithm, threads=threads)
    assert conv.plan_for(x.shape).threads == threads
    for mode in (0, TOWARD_ZERO.get(platform.machine(), 0)):  # to nearest, toward zero
        assert rounding(mode) == 0
        state = floating_point_state()
        y = conv(x)
        assert floating_point_state() == state
        assert not y.any()
        # Python's own arithmetic and NumPy's are as before.
        assert subnormal[0] + subnormal[0] == tiny and subnormal[0] / 2 * 2 == subnormal[0] != 0
        assert 5e-324 * 3 == 1.5e-323 != 0 and np.finfo(np.float64).tiny / 4 > 0
    with np.errstate(all="raise"):
        y = conv(np.full(x.shape, np.inf, np.float32))
    assert not np.isfinite(y).any()
