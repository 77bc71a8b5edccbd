"""Bad input of quantized operators: the error names the argument, and nothing is written."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import pplconv
from tests.api.buffers import untouched
from tests.api.test_errors import Case, check_message

F32, S8, U8 = np.float32, np.int8, np.uint8


def good() -> dict[str, Any]:
    """Give a call of `qconv2d` that is right; every case below spoils it."""
    rng = np.random.default_rng(3)
    return {
        "x": rng.integers(0, 256, (2, 6, 9, 10)).astype(U8),
        "x_scale": F32(0.02),
        "x_zero_point": 3,
        "w": rng.integers(-128, 128, (8, 6, 3, 3)).astype(S8),
        "w_scale": np.full(8, 0.01, F32),
        "w_zero_point": np.zeros(8, S8),
        "y_scale": F32(0.5),
        "y_zero_point": U8(4),
        "bias": np.zeros(8, np.int32),
        "residual": rng.integers(0, 256, (2, 8, 7, 8)).astype(U8),
        "residual_scale": F32(0.25),
        "residual_zero_point": 9,
    }


# Both of the function and of the class, which has other names for its arrays.
PARAMETERS = {
    **{
        f"{name} of {value!r}": Case({name: value}, name, ("0",))
        for name in ("x_scale", "w_scale", "y_scale", "residual_scale")
        for value in (0.0, -1.0, np.inf, np.nan, 1e-60)
    },
    "a w_scale among many": Case({"w_scale": [1, 1, 1, -2, 1, 1, 1, 1]}, "w_scale", ("-2",)),
    "no x_scale": Case({"x_scale": None}, "x_scale", (), TypeError),
    "no y_scale": Case({"y_scale": None}, "y_scale", (), TypeError),
    "x_scale of text": Case({"x_scale": "0.5"}, "x_scale", (), TypeError),
    "x_scale for each channel": Case({"x_scale": np.ones(6, F32)}, "x_scale", ("(6,)",)),
    "y_scale for each channel": Case({"y_scale": np.ones(8, F32)}, "y_scale", ("(8,)",)),
    "too few w_scale": Case({"w_scale": np.ones(7, F32)}, "w_scale", ("(8,)", "(7,)")),
    "w_scale of 2 dimensions": Case({"w_scale": np.ones((8, 1), F32)}, "w_scale", ("(8, 1)",)),
    "x_zero_point out of range": Case({"x_zero_point": 256}, "x_zero_point", ("255", "256")),
    "x_zero_point below": Case({"x_zero_point": -1}, "x_zero_point", ("0", "-1")),
    "x_zero_point of the other type": Case(
        {"x_zero_point": S8(3), "x_dtype": U8}, "x_zero_point", ("uint8", "int8"), TypeError
    ),
    "x_zero_point of a float": Case({"x_zero_point": 3.0}, "x_zero_point", (), TypeError),
    "x_zero_point for each channel": Case({"x_zero_point": [1] * 6}, "x_zero_point", ("(6,)",)),
    "y_zero_point out of range": Case({"y_zero_point": 300}, "y_zero_point", ("300",)),
    "y_zero_point of the other type": Case(
        {"y_zero_point": S8(1), "out_dtype": U8}, "y_zero_point", ("uint8", "int8"), TypeError
    ),
    "w_zero_point out of range": Case({"w_zero_point": 128}, "w_zero_point", ("127", "128")),
    "one w_zero_point out of range": Case(
        {"w_zero_point": [0] * 7 + [-129]}, "w_zero_point", ("-128", "-129")
    ),
    "w_zero_point of the other type": Case(
        {"w_zero_point": U8(0)}, "w_zero_point", ("int8", "uint8"), TypeError
    ),
    "too many w_zero_point": Case({"w_zero_point": [0] * 9}, "w_zero_point", ("(8,)", "(9,)")),
    "residual_zero_point out of range": Case(
        {"residual_zero_point": 256}, "residual_zero_point", ("256",)
    ),
    "residual_zero_point without a scale": Case(
        {"residual_scale": None, "residual": None}, "residual_zero_point"
    ),
    "bias of other length": Case({"bias": np.zeros(6, np.int32)}, "bias", ("(8,)", "(6,)")),
    "bias of int64": Case({"bias": np.zeros(8, np.int64)}, "bias", ("int64",), TypeError),
    "bias of float64": Case({"bias": np.zeros(8)}, "bias", ("float64",), TypeError),
    "bias too large": Case({"bias": np.full(8, 1e9, F32)}, "bias", ("1000000000.0", "int32")),
    "bias of NaN": Case({"bias": np.full(8, np.nan, F32)}, "bias", ("nan",)),
    "activation that is no clip": Case({"activation": "silu"}, "activation", ("silu",)),
    "activation unknown": Case({"activation": "rleu"}, "activation", ("rleu",)),
    "out_dtype of int16": Case({"out_dtype": np.int16}, "out_dtype", ("int16",)),
    "out_dtype that is none": Case({"out_dtype": "small"}, "out_dtype", ("small",), TypeError),
    "layout in blocks": Case({"layout": "NCHWc"}, "layout", ("NCHWc",)),
    "layout unknown": Case({"layout": "HWCN"}, "layout", ("HWCN",)),
    "groups": Case({"groups": 3}, "groups", ("8", "3")),
    "stride": Case({"stride": 0}, "stride", ("0",)),
    "padding": Case({"padding": -1}, "padding", ("-1",)),
    "threads": Case({"threads": 0}, "threads", ("0",)),
    "algorithm": Case({"algorithm": "fft"}, "algorithm", ("fft",)),
    "y_scale for sums": Case({"out_dtype": np.int32}, "y_scale", ("int32",)),
    "y_zero_point for real numbers": Case(
        {"out_dtype": F32, "y_scale": None, "residual_scale": None, "residual": None,
         "residual_zero_point": None},
        "y_zero_point", ("float32",),
    ),
    "activation of sums": Case(
        {"out_dtype": np.int32, "y_scale": None, "y_zero_point": None, "residual_scale": None,
         "residual": None, "residual_zero_point": None, "activation": "relu"},
        "activation", ("int32",),
    ),
    "multiplier too small": Case(
        {"x_scale": 1e-38, "w_scale": 1e-3, "bias": None}, "w_scale", ("2e-41",)
    ),
    "multiplier too large": Case({"x_scale": 1e30, "w_scale": 1e30}, "w_scale", ("e+60",)),
    "residual far larger than the output": Case(
        {"residual_scale": 1e30, "y_scale": 1e-30}, "residual_scale|w_scale", ("e",)
    ),
}  # fmt: skip
ARRAYS = {
    "x of floats": Case({"x": np.zeros((2, 6, 9, 10), F32)}, "x", ("float32",), TypeError),
    "x of 2 dimensions": Case({"x": np.zeros((9, 10), U8)}, "x", ("(9, 10)",)),
    "x with other channels": Case({"x": np.zeros((2, 5, 9, 10), U8)}, "x", ("5", "6")),
    "x empty": Case({"x": np.zeros((2, 6, 0, 10), U8)}, "x", ("empty",)),
    "w of floats": Case({"w": np.zeros((8, 6, 3, 3), F32)}, "w", ("float32",), TypeError),
    "w of int16": Case({"w": np.zeros((8, 6, 3, 3), "i2")}, "w", ("int16",), TypeError),
    "w of 3 dimensions": Case({"w": np.zeros((8, 6, 3), S8)}, "w", ("(8, 6, 3)",)),
    "kernel larger than the image": Case({"w": np.zeros((8, 6, 10, 3), S8)}, "w", ("10", "9")),
    "residual of other shape": Case(
        {"residual": np.zeros((2, 8, 9, 10), U8)}, "residual", ("(2, 8, 9, 10)", "(2, 8, 7, 8)")
    ),
    "residual of other type": Case(
        {"residual": np.zeros((2, 8, 7, 8), S8)}, "residual", ("int8",), TypeError
    ),
    "residual without its scale": Case(
        {"residual_scale": None, "residual_zero_point": None}, "residual", ("residual_scale",)
    ),
    "residual of sums": Case(
        {"out_dtype": np.int32, "y_scale": None, "y_zero_point": None, "residual_scale": None,
         "residual_zero_point": None}, "residual", ("int32",),
    ),
    "out of other shape": Case({"out": np.zeros((2, 8, 7, 9), U8)}, "out", ("(2, 8, 7, 9)",)),
    "out of other type": Case({"out": np.zeros((2, 8, 7, 8), S8)}, "out", ("int8",), TypeError),
    "out that is no array": Case({"out": [0]}, "out", ("list",), TypeError),
}  # fmt: skip
# The class has other names for its arrays.
RENAMED = {"x": "input", "w": "weight"}


@pytest.mark.parametrize("name", [*PARAMETERS, *ARRAYS])
def test_functions(name):
    case = {**PARAMETERS, **ARRAYS}[name]
    arguments = {**good(), **case.changes}
    arguments.pop("x_dtype", None)
    out = arguments.setdefault("out", np.full((2, 8, 7, 8), 42, U8))
    with untouched(np.asarray(out)), pytest.raises(case.error) as caught:
        pplconv.qconv2d(**arguments)
    check_message(caught, case)


@pytest.mark.parametrize("name", [*PARAMETERS, *ARRAYS])
def test_the_class(name):
    case = {**PARAMETERS, **ARRAYS}[name]
    arguments = {**good(), **case.changes}
    x, w, residual = (arguments.pop(key) for key in ("x", "w", "residual"))
    out = arguments.pop("out", np.full((2, 8, 7, 8), 42, U8))
    with untouched(np.asarray(out)), pytest.raises(case.error) as caught:
        pplconv.QConv2d(w, **arguments)(x, residual, out)
    names = "|".join(RENAMED.get(key, key) for key in case.names.split("|"))
    check_message(caught, replace(case, names=names))


def test_a_good_call_is_one():
    arguments = good()
    y = pplconv.qconv2d(**arguments)
    x, w, residual = (arguments.pop(key) for key in ("x", "w", "residual"))
    conv = pplconv.QConv2d(w, **arguments)
    np.testing.assert_array_equal(conv(x, residual), y)


def test_inputs_must_have_the_type_that_was_said():
    conv = pplconv.QConv2d(np.ones((8, 6, 3, 3), S8), out_dtype=np.int32, x_dtype=S8)
    with pytest.raises(TypeError, match=r"input must be int8.*uint8"):
        conv(np.zeros((6, 9, 9), U8))
    with pytest.raises(TypeError, match="input"):
        conv(np.zeros((6, 9, 9), F32))


# Sums that could leave int32 -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "zero", "weight", "least", "most"),
    [
        (U8, 0, 127, 0, 255 * 127),
        (U8, 128, 127, -128 * 127, 127 * 127),
        (U8, 0, -128, -255 * 128, 0),
        (S8, 0, 127, -128 * 127, 127 * 127),
        (S8, -128, -3, -3 * 255, 0),
        (S8, 5, 3, -133 * 3, 122 * 3),
    ],
)
def test_the_bound_of_sums_is_exact(kind, zero, weight, least, most):
    """A bias may come as near to the ends of int32 as the largest and least sums let it."""
    w = np.full((1, 1, 1, 1), weight, S8)
    x = np.array([np.iinfo(kind).min, np.iinfo(kind).max], kind).reshape(1, 1, 1, 2)
    for bias, beyond in ((2**31 - 1 - most, 1), (-(2**31) - least, -1)):
        offset = np.array([bias], np.int32)
        conv = pplconv.QConv2d(w, offset, x_zero_point=kind(zero), out_dtype=np.int32)
        exact = sorted((x.astype(int).ravel() - zero) * weight + bias)
        assert sorted(conv(x).ravel().tolist()) == exact
        if -(2**31) <= bias + beyond < 2**31:
            with pytest.raises(ValueError, match=r"weight: .* channel 0 .* int32"):
                pplconv.QConv2d(w, offset + beyond, x_zero_point=kind(zero), out_dtype=np.int32)


def test_long_sums_are_refused_by_what_the_weights_are():
    """One channel of many is too large; the message says which one."""
    w = np.zeros((3, 66400, 1, 1), S8)
    w[1] = 127
    assert pplconv.QConv2d(np.minimum(w, 126), out_dtype=np.int32) is not None
    with pytest.raises(ValueError, match=r"weight: .* channel 1 .* 2150364000"):
        pplconv.QConv2d(w, out_dtype=np.int32)
    with pytest.raises(ValueError, match=r"\bw: .* channel 1"):
        pplconv.conv2d_integer(np.zeros((66400, 1, 1), U8), w)
    # Zero points count: half of the range on each side of 128 is half the sum.
    assert pplconv.QConv2d(w, out_dtype=np.int32, x_zero_point=128) is not None
    with pytest.raises(ValueError, match="weight"):
        pplconv.QConv2d(w, out_dtype=np.int32, x_zero_point=128, w_zero_point=[0, -128, 0])


@pytest.mark.parametrize("weight", [3, np.int64(3)])
def test_sizes_instead_of_weights(weight):
    with pytest.raises(TypeError, match="weight must be an array"):
        pplconv.QConv2d(weight, out_dtype=np.int32)


def test_integer_convolution_names_its_arguments():
    x, w = np.zeros((1, 3, 4, 4), U8), np.zeros((2, 3, 3, 3), S8)
    for arguments, error, name in (
        ((x.astype(F32), w), TypeError, "x"),
        ((x, w.astype(F32)), TypeError, "w"),
        ((x[:, :2], w), ValueError, "x"),
        ((x, w, 256), ValueError, "x_zero_point"),
        ((x, w, S8(0)), TypeError, "x_zero_point"),
        ((x, w, 0, [1, 2, 3]), ValueError, "w_zero_point"),
    ):
        with pytest.raises(error, match=rf"(^|\W){name}\b"):
            pplconv.conv2d_integer(*arguments)
