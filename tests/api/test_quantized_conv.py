"""`qconv2d`, `QConv2d` and `conv2d_integer` against the contract, bit for bit."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given

import pplconv
from tests import quantized_reference as reference
from tests.api.buffers import untouched
from tests.api.quantized_cases import Drawn, cases
from tests.api.test_arrays import DLPackOnly

F32 = np.float32

pytestmark = pytest.mark.narrow


def assert_same(actual, expected):
    """Assert equality of bits; zeros of float32 may have either sign."""
    assert type(actual) is np.ndarray
    assert actual.dtype == expected.dtype
    np.testing.assert_array_equal(actual, expected)


def function(d: Drawn, **changes):
    s = d.scales()
    arguments = (
        d.x, s["x_scale"], s["x_zero_point"], d.w, s["w_scale"], s["w_zero_point"],
        s["y_scale"], s["y_zero_point"], d.bias,
    )  # fmt: skip
    return pplconv.qconv2d(*arguments, **{**d.keywords(), "residual": d.residual, **changes})


def prepared(d: Drawn, **changes) -> pplconv.QConv2d:
    return pplconv.QConv2d(d.w, d.bias, **{**d.scales(), **d.keywords(), **changes})


@given(cases())
def test_random_problems(case):
    d = case.drawn()
    expected = d.expected()
    with untouched(d.x, d.w):
        assert_same(function(d), expected)
        conv = prepared(d)
        assert_same(conv(d.x, d.residual), expected)
    out = np.empty(expected.shape, expected.dtype)
    assert conv(d.x, d.residual, out) is out
    assert_same(out, expected)
    assert_same(pickle.loads(pickle.dumps(conv))(d.x, d.residual), expected)


@given(cases())
def test_sums_alone(case):
    d = case.drawn()
    expected = reference.integer_sums(d.x, d.w, d.x_zero, d.w_zero, **case.geometry)
    options = {**case.geometry, **case.problem.options}
    y = pplconv.conv2d_integer(d.x, d.w, d.x_zero, d.w_zero, **options)
    assert_same(y, expected.astype(np.int32))


def one_sum(value, multiplier, zero, dtype=np.uint8, **arguments):
    """Compute an output whose sum and multiplier are known, if the latter is a power of two."""
    return int(
        pplconv.qconv2d(
            np.ones((1, 1, 1), np.uint8), multiplier, 0, np.ones((1, 1, 1, 1), np.int8), 1.0, 0,
            1.0, dtype(zero), np.array([value - 1], np.int32), **arguments,
        )[0, 0, 0]
    )  # fmt: skip


@pytest.mark.parametrize(
    ("value", "zero", "expected"),
    [
        (1, 0, 0), (3, 0, 2), (5, 0, 2), (7, 0, 4),  # ties to even
        (1, 1, 1), (3, 1, 3), (5, 1, 3), (7, 1, 5),  # and then the zero point
        (-1, 1, 1), (-3, 3, 1), (-5, 3, 1), (-7, 5, 1),
        (1000, 0, 255), (-1000, 7, 0), (510, 1, 255), (508, 1, 255), (507, 1, 255), (505, 1, 253),
    ],
)  # fmt: skip
def test_ties_go_to_even_before_the_zero_point_is_added(value, zero, expected):
    assert one_sum(value, 0.5, zero) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [(2**24 + 1, 2**24), (2**24 + 3, 2**24 + 4), (-(2**24) - 1, -(2**24)), (2**30 + 64, 2**30)],
)
def test_sums_beyond_2_to_the_24_are_rounded_to_even_first(value, expected):
    """They lie halfway between two numbers of float32."""
    y = pplconv.qconv2d(
        np.ones((1, 1, 1), np.uint8), 1.0, 1, np.ones((1, 1, 1, 1), np.int8), 1.0, 0,
        bias=np.array([value], np.int32), out_dtype=F32,
    )  # fmt: skip
    assert y[0, 0, 0] == expected


def test_the_multiplier_is_rounded_once():
    """Two roundings to float32, of the product and of the quotient, would give another number."""
    x, w, y = F32(0.0123), F32(0.0456), F32(0.0789)
    rng = np.random.default_rng(7)
    for _ in range(1000):
        x, w, y = rng.uniform(0.001, 0.1, 3).astype(F32)
        once, twice = F32(np.float64(x) * np.float64(w) / np.float64(y)), x * w / y
        if once != twice:
            break
    assert once != twice
    conv = pplconv.QConv2d(np.ones((1, 1, 1, 1), np.int8), x_scale=x, w_scale=w, y_scale=y)
    assert conv.multiplier.tolist() == [once]


@pytest.mark.parametrize("zero", [0, 3, 200])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_padding_is_the_zero_point(rng, zero, layout):
    x = rng.integers(0, 256, (1, 5, 6, 4)).astype(np.uint8)
    w = rng.integers(-128, 128, (3, 5 if layout == "NCHW" else 4, 3, 3)).astype(np.int8)
    sides = ((2, 1), (0, 3))
    axes = ((0, 0), (0, 0), *sides) if layout == "NCHW" else ((0, 0), *sides, (0, 0))
    padded = np.pad(x, axes, constant_values=zero)
    inside = pplconv.conv2d_integer(x, w, zero, 5, padding=sides, layout=layout)
    assert_same(inside, pplconv.conv2d_integer(padded, w, zero, 5, layout=layout))


def test_float_bias_is_rounded_to_even(rng):
    units = 0.25 * np.array([1.0, 0.5], F32)
    for steps, expected in ((0.5, 0), (1.5, 2), (2.5, 2), (-0.5, 0), (-1.5, -2)):
        conv = pplconv.QConv2d(
            np.ones((2, 1, 1, 1), np.int8), (steps * units).astype(F32),
            x_scale=0.25, w_scale=[1.0, 0.5], y_scale=1.0,
        )  # fmt: skip
        assert conv.bias.tolist() == [expected, expected]


@pytest.mark.parametrize(
    ("activation", "low", "high"),
    [(None, -20, 235), ("relu", 0, 235), ("relu6", 0, 6), (("clip", -1.3, 2), -1, 2)],
)
def test_an_activation_is_a_clamp_in_real_units(activation, low, high):
    for value in (-500, -21, -20, -19, -2, -1, 0, 1, 2, 3, 6, 7, 234, 235, 236, 500):
        got = one_sum(value, 1.0, 20, activation=activation)
        assert got == min(max(value, low), high) + 20


def test_types_follow_the_zero_points():
    w = np.ones((2, 1, 1, 1), np.int8)
    scales = {"x_scale": 1.0, "w_scale": 1.0, "y_scale": 1.0}
    conv = pplconv.QConv2d(w, **scales)
    assert (conv.x_dtype, conv.out_dtype) == (np.uint8, np.uint8)
    conv = pplconv.QConv2d(w, **scales, x_zero_point=np.int8(-3))
    assert (conv.x_dtype, conv.out_dtype) == (np.int8, np.int8)
    conv = pplconv.QConv2d(w, **scales, y_zero_point=np.int8(-3))
    assert (conv.x_dtype, conv.out_dtype) == (np.uint8, np.int8)
    conv = pplconv.QConv2d(w, **scales, x_zero_point=-3, x_dtype=np.int8, out_dtype="uint8")
    assert (conv.x_dtype, conv.out_dtype) == (np.int8, np.uint8)
    x = np.zeros((1, 1, 1), np.int8)
    assert pplconv.qconv2d(x, 1.0, 0, w, 1.0, 0, 1.0).dtype == np.int8
    assert pplconv.qconv2d(x, 1.0, 0, w, 1.0, 0, 1.0, np.uint8(1)).dtype == np.uint8


@pytest.mark.parametrize("dtype", [np.int32, F32])
def test_biases_in_the_other_byte_order(rng, dtype):
    w = rng.integers(-9, 9, (4, 3, 1, 1)).astype(np.int8)
    bias = np.arange(4).astype(dtype)
    swapped = bias.astype(bias.dtype.newbyteorder())
    scales = {"x_scale": 0.5, "w_scale": 0.25, "y_scale": 0.5}
    expected = pplconv.QConv2d(w, bias, **scales).bias
    np.testing.assert_array_equal(pplconv.QConv2d(w, swapped, **scales).bias, expected)


def test_scales_and_zero_points_through_dlpack(rng):
    w = rng.integers(0, 255, (4, 3, 1, 1)).astype(np.uint8)
    given = {
        "x_scale": F32(0.5), "x_zero_point": np.uint8(3), "y_scale": F32(0.25),
        "w_scale": rng.uniform(1, 2, 4).astype(F32), "y_zero_point": np.uint8(5),
        "w_zero_point": rng.integers(0, 255, 4).astype(np.uint8),
        "residual_scale": F32(2), "residual_zero_point": np.uint8(7),
    }  # fmt: skip
    expected = pplconv.QConv2d(w, **given)
    made = pplconv.QConv2d(
        w, **{name: DLPackOnly(np.asarray(value)) for name, value in given.items()}
    )
    for name in given:
        np.testing.assert_array_equal(getattr(made, name), getattr(expected, name))
        assert np.asarray(getattr(made, name)).dtype == np.asarray(getattr(expected, name)).dtype
    x = rng.integers(0, 255, (1, 3, 4, 4)).astype(np.uint8)
    assert_same(made(x), expected(x))


def test_useless_zero_points_through_dlpack(rng):
    w = rng.integers(-9, 9, (4, 3, 1, 1)).astype(np.int8)
    scales = {"x_scale": 0.5, "w_scale": 0.5, "out_dtype": F32}
    pplconv.QConv2d(w, y_zero_point=DLPackOnly(np.array(0, np.uint8)), **scales)
    with pytest.raises(ValueError, match="y_zero_point"):
        pplconv.QConv2d(w, y_zero_point=DLPackOnly(np.array(1, np.uint8)), **scales)


def test_teams_of_the_code_around():
    """A team said around a call counts for it, as in `Conv2d`, and not for the next one."""
    conv = pplconv.QConv2d(np.ones((64, 64, 3, 3), np.int8), padding=1, out_dtype=np.int32)
    fixed = pplconv.QConv2d(
        np.ones((64, 64, 3, 3), np.int8), padding=1, out_dtype=np.int32, threads=2
    )
    x = np.arange(64 * 28 * 28, dtype=np.uint8).reshape(1, 64, 28, 28)
    expected, usual = conv(x), conv.plan_for(x.shape).threads
    for team in (3, 1):
        with pplconv.runtime.team(team):
            assert conv.plan_for(x.shape).threads <= team
            assert_same(conv(x), expected)
            assert fixed.plan_for(x.shape).threads == 2
    assert conv.plan_for(x.shape).threads == usual
    assert_same(conv(x), expected)


def test_functions_keep_plans_apart(rng):
    """Problems that differ in what follows the sums alone have plans and results of their own."""
    x = rng.integers(0, 256, (1, 8, 9, 9)).astype(np.uint8)
    w = rng.integers(-128, 128, (8, 8, 3, 3)).astype(np.int8)
    calls = [
        lambda: pplconv.conv2d_integer(x, w),
        lambda: pplconv.conv2d_integer(x, w, 3),
        lambda: pplconv.conv2d_integer(x, w, threads=1),
        lambda: pplconv.conv2d_integer(x.view(np.int8), w),
        lambda: pplconv.conv2d_integer(x, w.view(np.uint8)),
        lambda: pplconv.conv2d_integer(x, -w),
        lambda: pplconv.qconv2d(x, 0.01, 0, w, 0.01, 0, 0.5),
        lambda: pplconv.qconv2d(x, 0.01, 0, w, 0.01, 0, 0.25, np.int8(3)),
        lambda: pplconv.qconv2d(x, 0.01, 0, w, 0.01, 0, out_dtype=F32, algorithm="direct"),
    ]
    first = [call() for call in calls]
    with pplconv.runtime.team(1):
        for call, y in zip(calls, first, strict=True):
            assert_same(call(), y)
    for call, y in zip(reversed(calls), reversed(first), strict=True):
        assert_same(call(), y)
    moved = reference.integer_sums(x, w, 3)
    assert_same(first[1], moved.astype(np.int32))


class Named(pplconv.QConv2d):
    def __init__(self, name):
        super().__init__(np.ones((1, 1, 1, 1), np.int8), out_dtype=np.int32)
        self.name = name


def test_pickles_keep_everything():
    conv = pplconv.QConv2d(
        np.ones((2, 3, 1, 1), np.uint8), np.array([0.5, 1], F32), 2, "same_upper", 1, 1,
        x_scale=0.5, x_zero_point=np.int8(3), w_scale=[1.0, 2.0], w_zero_point=[1, 2], y_scale=2.0,
        y_zero_point=np.uint8(9), residual_scale=0.5, residual_zero_point=7,
        activation=("clip", -1, 1), layout="NHWC", threads=1, max_workspace=10**8,
        search_seconds=2.0,
    )  # fmt: skip
    again = pickle.loads(pickle.dumps(conv))
    assert repr(again) == repr(conv)
    np.testing.assert_array_equal(again.w_zero_point, [1, 2])
    np.testing.assert_array_equal(again.bias, conv.bias)
    arrays = [getattr(c, name) for c in (conv, again) for name in ("weight", "bias", "w_scale")]
    for array in (*arrays, conv.multiplier, again.w_zero_point):
        with pytest.raises(ValueError, match="WRITEABLE"):
            array.flags.writeable = True
    named = pickle.loads(pickle.dumps(Named("first")))
    assert named.name == "first" and named(np.full((1, 1, 1), 5, np.uint8)) == 5


def test_attributes_and_repr():
    conv = pplconv.QConv2d(
        np.ones((4, 3, 3, 5), np.int8), None, 2, 1, groups=2, x_scale=0.5, w_scale=0.1, y_scale=1,
        activation="relu6",
    )  # fmt: skip
    assert conv.weight_shape == (4, 3, 3, 5) and conv.kernel_size == (3, 5)
    assert (conv.in_channels, conv.out_channels, conv.groups) == (6, 4, 2)
    assert conv.stride == (2, 2) and conv.padding == ((1, 1), (1, 1)) and conv.bias is None
    assert conv.x_scale == F32(0.5) and conv.w_scale == F32(0.1) and conv.y_zero_point == 0
    assert conv.signal_to_noise is None
    text = repr(conv)
    assert text.startswith("QConv2d(<int8 array of shape (4, 3, 3, 5)>, bias=None, stride=(2, 2)")
    assert "w_scale=0.1," in text and "activation='relu6'" in text
    for name in ("weight", "stride", "x_scale", "multiplier", "signal_to_noise", "out_dtype"):
        with pytest.raises(AttributeError):
            setattr(conv, name, 1)


def test_plans(rng):
    conv = pplconv.QConv2d(np.ones((4, 3, 3, 3), np.int8), out_dtype=np.int32, threads=1)
    plan = conv.plan_for((3, 8, 8))
    assert isinstance(plan, pplconv.Plan) and plan.threads == 1
    with pytest.raises(ValueError, match="input"):
        conv.plan_for((4, 8, 8))


@pytest.mark.parametrize("channels", [64, 72, 128, 130, 192, 1100])
@pytest.mark.parametrize("groups", [1, 2])
def test_images_begin_anywhere_in_a_line(rng, channels, groups):
    """Kernels that load lines of rows find the same in rows that lie across two."""
    ic, oc, pixels = channels * groups, 200 * groups, (2, 7, 9)
    w = rng.integers(-128, 128, (oc, channels, 1, 1), np.int8)
    expected = None
    for algorithm in ("auto", "pointwise", "direct"):
        for offset in (0, 1, 16, 48):
            memory = np.empty(np.prod(pixels) * ic + 128, np.uint8)
            begin = -memory.ctypes.data % 64 + offset
            x = memory[begin : begin + np.prod(pixels) * ic].reshape(*pixels, ic)
            if expected is None:
                values = rng.integers(0, 256, x.shape, np.uint8)
                expected = reference.integer_sums(values, w, groups=groups, layout="NHWC")
            x[...] = values
            got = pplconv.conv2d_integer(
                x, w, groups=groups, layout="NHWC", algorithm=algorithm, threads=2
            )
            assert_same(got, expected.astype(np.int32))


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("kernel", [1, 3])
@pytest.mark.parametrize("algorithm", ["auto", "direct"])
def test_a_batch_of_no_images(layout, kernel, algorithm):
    """There is a zero point, but without images there are no sums for it to shift."""
    w = np.ones((13, 5, kernel, kernel), np.int8)
    x = np.zeros((0, 5, 6, 7) if layout == "NCHW" else (0, 6, 7, 5), np.int8)
    got = pplconv.conv2d_integer(x, w, 3, layout=layout, algorithm=algorithm)
    image = (7 - kernel, 8 - kernel)
    assert got.dtype == np.int32
    assert got.shape == ((0, 13, *image) if layout == "NCHW" else (0, *image, 13))
