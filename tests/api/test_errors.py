"""Bad input: the error names the argument and what it was, and nothing is written."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import pplconv
from tests.api.buffers import untouched
from tests.api.huge_arrays import huge, needs_huge_arrays

F32 = np.float32
ANY = (TypeError, ValueError)


def good_arguments() -> dict[str, Any]:
    """Give a call that is right; every case below spoils it."""
    rng = np.random.default_rng(1)
    return {
        "input": rng.standard_normal((2, 6, 9, 10)).astype(F32),
        "weight": rng.standard_normal((8, 6, 3, 3)).astype(F32),
        "bias": rng.standard_normal(8).astype(F32),
    }


def good_output() -> np.ndarray:
    return np.full((2, 8, 7, 8), 42, F32)


@dataclass(frozen=True)
class Case:
    """Spoiled arguments, the argument that the message names, and texts that it quotes."""

    changes: dict[str, Any]
    names: str
    shows: tuple[str, ...] = ()
    error: type[Exception] | tuple[type[Exception], ...] = ValueError


def zeros(*shape: int, dtype: Any = F32) -> np.ndarray:
    return np.zeros(shape, dtype)


CASES = {
    # Shapes
    "input of 2 dimensions": Case({"input": zeros(9, 10)}, "input", ("(9, 10)",)),
    "input of 5 dimensions": Case({"input": zeros(1, 2, 6, 9, 10)}, "input", ("(1, 2, 6, 9, 10)",)),
    "input without dimensions": Case({"input": F32(1)}, "input", ("()",)),
    "input with other channels": Case({"input": zeros(2, 5, 9, 10)}, "input", ("5", "6")),
    "input channels last": Case({"input": zeros(2, 9, 10, 6)}, "input", ("9", "6")),
    "input without rows": Case({"input": zeros(2, 6, 0, 10)}, "input", ("empty", "0 rows")),
    "input without columns, padded": Case(
        {"input": zeros(2, 6, 9, 0), "padding": 3}, "input", ("empty", "9 rows and 0 columns")
    ),
    "weight of 3 dimensions": Case({"weight": zeros(8, 6, 3)}, "weight", ("(8, 6, 3)",)),
    "weight of 2 dimensions": Case({"weight": zeros(8, 6)}, "weight", ("(8, 6)",)),
    "weight without outputs": Case({"weight": zeros(0, 6, 3, 3), "bias": None}, "weight"),
    "weight without inputs": Case({"weight": zeros(8, 0, 3, 3)}, "weight"),
    "weight without taps": Case({"weight": zeros(8, 6, 3, 0)}, "weight"),
    "kernel higher than the image": Case({"weight": zeros(8, 6, 10, 3)}, "weight", ("10", "9")),
    "kernel wider than the image": Case({"weight": zeros(8, 6, 3, 11)}, "weight", ("11", "10")),
    "kernel larger than the padded image": Case(
        {"weight": zeros(8, 6, 12, 3), "padding": 1}, "weight", ("12", "11")
    ),
    "dilated kernel larger than the image": Case({"dilation": 5}, "weight|dilation", ("11", "9")),
    "bias of other length": Case({"bias": zeros(6)}, "bias", ("6", "8")),
    "bias of 2 dimensions": Case({"bias": zeros(8, 1)}, "bias", ("(8, 1)",)),
    "bias as a scalar": Case({"bias": F32(1)}, "bias"),
    "bias of other type": Case({"bias": zeros(8, dtype="f8")}, "bias", ("float64",), TypeError),
    "bias of integers": Case({"bias": zeros(8, dtype="i8")}, "bias", ("int64",), TypeError),
    "residual of other shape": Case(
        {"residual": zeros(2, 8, 9, 10)}, "residual", ("(2, 8, 9, 10)", "(2, 8, 7, 8)")
    ),
    "residual to be broadcast": Case({"residual": zeros(1, 8, 1, 1)}, "residual"),
    "residual without batch": Case({"residual": zeros(8, 7, 8)}, "residual"),
    "residual of other type": Case(
        {"residual": zeros(2, 8, 7, 8, dtype="f8")}, "residual", ("float64",), TypeError
    ),
    # Groups
    "groups that do not divide the input": Case({"groups": 4}, "groups|input", ("4",)),
    "groups that do not divide the output": Case(
        {"groups": 3, "weight": zeros(8, 2, 3, 3)}, "groups", ("3", "8")
    ),
    "groups for dense weights": Case({"groups": 2}, "groups|input|weight", ("6", "12")),
    "no groups": Case({"groups": 0}, "groups", ("0",)),
    "negative groups": Case({"groups": -1}, "groups", ("-1",)),
    "half a group": Case({"groups": 1.5}, "groups", ("1.5",), TypeError),
    "groups as text": Case({"groups": "1"}, "groups", ("'1'",), TypeError),
    "groups as a truth value": Case({"groups": True}, "groups", ("True",), TypeError),
    "groups as a pair": Case({"groups": (1, 1)}, "groups", ("(1, 1)",), ANY),
    # Stride and dilation
    **{
        f"{name} {value!r}": Case({name: value}, name, (shown,), error)
        for name in ("stride", "dilation")
        for value, shown, error in [
            (0, "0", ValueError),
            (-1, "-1", ValueError),
            ((1, 0), "0", ValueError),
            ((-2, 1), "-2", ValueError),
            ((1, 1, 1), "(1, 1, 1)", ValueError),
            ((1,), "(1,)", ValueError),
            (1.0, "1.0", TypeError),
            ("1", "'1'", TypeError),
            (None, "None", TypeError),
            (True, "True", TypeError),
            ((1, 1.5), "1.5", TypeError),
            (None, "an int or a pair of ints", TypeError),
            (1.5, "an int or a pair of ints", TypeError),
            ((1, None), "an int or a pair of ints, got (1, None)", TypeError),
            (np.array([1.0, 1.0]), "an int or a pair of ints", TypeError),
            (np.array([1, 1, 1]), "array([1, 1, 1])", ValueError),
            (np.zeros((9, 9), int), "an array of shape (9, 9)", ANY),
        ]
    },
    # Padding
    **{
        f"padding {value!r}": Case({"padding": value}, "padding", (shown,), error)
        for value, shown, error in [
            (-1, "-1", ValueError),
            ((0, -1), "-1", ValueError),
            (((0, 0), (0, -3)), "-3", ValueError),
            ((1, 1, 1), "(1, 1, 1)", ValueError),
            ((1, 1, 1, 1), "(1, 1, 1, 1)", ValueError),
            (((1, 1), (1, 1, 1)), "(1, 1, 1)", ValueError),
            ("full", "'full'", ValueError),
            ("SAME", "'SAME'", ValueError),
            ("", "''", ValueError),
            (1.5, "1.5", TypeError),
            (None, "None", TypeError),
            ((0, "1"), "'1'", TypeError),
            (True, "True", TypeError),
            (1.5, '"same_lower", got 1.5', TypeError),
            (None, '"same_lower", got None', TypeError),
            (np.array([0.5, 1.0]), "got array([0.5, 1. ])", TypeError),
            (np.zeros((2, 3), int), "array([[0, 0, 0]", ValueError),
        ]
    },
    "same with a stride": Case({"padding": "same", "stride": 2}, "padding", ("same", "2")),
    "same with a horizontal stride": Case({"padding": "same", "stride": (1, 2)}, "padding"),
    # Activation
    **{
        f"activation {value!r}": Case({"activation": value}, "activation", (shown,), error)
        for value, shown, error in [
            ("tanhshrink", "'tanhshrink'", ValueError),
            ("RELU", "'RELU'", ValueError),
            ("clip", "'clip'", ValueError),
            (("clip",), "('clip',)", ANY),
            (("clip", 1), "('clip', 1)", ANY),
            (("clip", 0, 1, 2), "('clip', 0, 1, 2)", ANY),
            (("relu", 0, 6), "('relu', 0, 6)", ValueError),
            (("clip", 2, 1), "('clip', 2, 1)", ValueError),
            (("clip", math.nan, 1), "nan", ValueError),
            (("clip", 0, math.nan), "nan", ValueError),
            (("clip", "0", 1), "'0'", ANY),
            (("clip", None, 1), "None", ANY),
            (6, "6", ANY),
            (True, "True", ANY),
            (max, "max", ANY),
            ("prelu", "'prelu'", ValueError),
            ("leaky_relu", "'leaky_relu'", ValueError),
            (("leaky_relu",), "('leaky_relu',)", ValueError),
            (("leaky_relu", 0.1, 0.2), "0.2", ValueError),
            (("leaky_relu", math.nan), "nan", ValueError),
            (("leaky_relu", math.inf), "inf", ValueError),
            (("leaky_relu", "0.1"), "'0.1'", TypeError),
            (("leaky_relu", None), "None", TypeError),
            (("leaky_relu", True), "True", TypeError),
            (("leaky_relu", (0.1, 0.2)), "(0.1, 0.2)", TypeError),
            (("silu", 1), "('silu', 1)", ValueError),
            (("sigmoid",), "('sigmoid',)", ValueError),
            (("prelu",), "('prelu',)", ValueError),
            (("prelu", [0.1] * 6), "(6,)", ValueError),
            (("prelu", [[0.1]] * 8), "(8, 1)", ValueError),
            (("prelu", []), "(0,)", ValueError),
            (("prelu", math.nan), "finite slopes", ValueError),
            (("prelu", [math.inf]), "finite slopes", ValueError),
            (("prelu", [0.1] * 7 + [math.nan]), "finite slopes", ValueError),
            (("prelu", "8 slopes"), "dtype", TypeError),
            (("prelu", None), "dtype object", TypeError),
            (("prelu", [True] * 8), "bool", TypeError),
            (("prelu", [1j] * 8), "complex", TypeError),
            ((), "()", ValueError),
            ((0.1, "prelu"), "(0.1, 'prelu')", ValueError),
        ]
    },
    # Words
    **{
        f"{name} {value!r}": Case({name: value}, name, (repr(value),), ANY)
        for name in ("layout", "algorithm")
        for value in ("nchw", "", "NCWH", None, 1, b"NCHW")
    },
    "algorithm that is none": Case({"algorithm": "fastest"}, "algorithm", ("'fastest'", "im2col")),
    "layout that is none": Case({"layout": "CHWN"}, "layout", ("'CHWN'", "NCHW", "NHWC")),
    # Numbers
    **{
        f"tolerance {value!r}": Case({"tolerance": value}, "tolerance", (shown,), error)
        for value, shown, error in [
            (-1e-9, "-1e-09", ValueError),
            (math.nan, "nan", ValueError),
            ("1e-5", "'1e-5'", TypeError),
            (1j, "1j", TypeError),
        ]
    },
    **{
        f"threads {value!r}": Case({"threads": value}, "threads", (repr(value),), error)
        for value, error in [
            (0, ValueError),
            (-1, ValueError),
            (2**40, ValueError),
            (2**70, ValueError),
            (1.5, TypeError),
            (2.0, TypeError),
            (True, TypeError),
            ("2", TypeError),
        ]
    },
}


def check_message(caught: pytest.ExceptionInfo, case: Case) -> None:
    message = str(caught.value)
    assert re.search(rf"\b(?:{case.names})\b", message), message
    for text in case.shows:
        assert text in message


@pytest.mark.parametrize("key", CASES)
def test_conv2d_refuses(key):
    case = CASES[key]
    arguments, out = {**good_arguments(), **case.changes}, good_output()
    with untouched(out), pytest.raises(case.error) as caught:
        pplconv.conv2d(**arguments, out=out)
    check_message(caught, case)


@pytest.mark.parametrize("key", CASES)
def test_prepared_refuses(key):
    case = CASES[key]
    arguments, out = {**good_arguments(), **case.changes}, good_output()
    x, residual = arguments.pop("input"), arguments.pop("residual", None)
    with untouched(out), pytest.raises(case.error) as caught:
        pplconv.Conv2d(**arguments)(x, residual, out)
    check_message(caught, case)


EARLY = [key for key, case in CASES.items() if not {"input", "residual"} & set(case.changes)]
# Mistakes that only the image's size or channels can show.
LATE = {
    "kernel higher than the image",
    "kernel wider than the image",
    "kernel larger than the padded image",
    "dilated kernel larger than the image",
    "groups that do not divide the input",
    "groups for dense weights",
}


@pytest.mark.parametrize("key", sorted(set(EARLY) - LATE))
def test_conv2d_class_refuses_when_it_is_made(key):
    """A mistake that shows without an input is not left for the first call to find."""
    case = CASES[key]
    arguments = {**good_arguments(), **case.changes}
    del arguments["input"]
    with pytest.raises(case.error) as caught:
        pplconv.Conv2d(**arguments)
    check_message(caught, case)


def test_the_unspoiled_call_is_right():
    out = good_output()
    assert pplconv.conv2d(**good_arguments(), out=out) is out
    assert not np.any(out == 42)


@pytest.mark.parametrize(
    ("value", "error"),
    [("fastest", ValueError), ("", ValueError), (None, ANY), (True, ANY), (1, ANY)],
)
def test_unknown_search(value, error):
    with pytest.raises(error, match=r"\bsearch\b") as caught:
        pplconv.Conv2d(zeros(1, 1, 1, 1), search=value)
    assert repr(value) in str(caught.value)


@pytest.mark.parametrize(
    "shape",
    [(6, 9), (1, 2, 6, 9, 10), (2, 5, 9, 10), (2, 6, 2, 10), (2, 6, -9, 10), (-1, 6, 9, 10),
     (2, 6, 9.5, 10), 6, "2691", (2, 6, 9, None), (2, 6, 2**62, 2**62)],
)  # fmt: skip
def test_input_shapes_that_do_not_fit(shape):
    """Preparing and planning refuse alike; either name of the argument will do."""
    weight = zeros(8, 6, 3, 3)
    conv = pplconv.Conv2d(weight)
    with pytest.raises(ANY, match=r"\b(input|input_shape|weight)\b"):
        conv.plan_for(shape)
    with pytest.raises(ANY, match=r"\b(input|input_shape|weight)\b"):
        pplconv.Conv2d(weight, input_shape=shape)
    assert conv.plan_for((2, 6, 9, 10)) is not None


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, r"1 ?x ?1|3"),
        ({"weight": zeros(8, 6, 1, 3)}, r"1 ?x ?1|3"),
        ({"weight": zeros(8, 6, 1, 1), "stride": 2}, "stride"),
        ({"weight": zeros(8, 6, 1, 1), "padding": 1}, "padding"),
    ],
)
def test_pointwise_says_why_it_cannot_serve(changes, reason):
    arguments = {**good_arguments(), **changes, "algorithm": "pointwise"}
    with pytest.raises(ValueError, match=r"\balgorithm\b") as caught:
        pplconv.conv2d(**arguments)
    assert "pointwise" in str(caught.value)
    assert re.search(reason, str(caught.value))


def test_a_refused_call_leaves_the_convolution_usable():
    arguments = good_arguments()
    x = arguments.pop("input")
    conv = pplconv.Conv2d(**arguments)
    before = conv(x)
    for wrong in (
        zeros(1, 5, 9, 9),
        zeros(6, 2, 2),
        "text",
        np.broadcast_to(F32(1), (2**50, 6, 3, 3)),
    ):
        with pytest.raises((TypeError, ValueError, MemoryError)):
            conv(wrong)
    assert conv(x).tobytes() == before.tobytes()


def test_arguments_keep_pytorchs_order_and_names():
    """``stride`` to ``groups`` go by place as in PyTorch; what comes after goes by name."""
    arguments = good_arguments()
    x, weight, bias = arguments.values()
    by_place = pplconv.conv2d(x, weight[:, :3], bias, (1, 2), (1, 0), 2, 2)
    by_name = pplconv.conv2d(
        x, weight[:, :3], bias=bias, stride=(1, 2), padding=(1, 0), dilation=2, groups=2
    )
    assert by_place.tobytes() == by_name.tobytes()
    prepared = pplconv.Conv2d(weight[:, :3], bias, (1, 2), (1, 0), 2, 2)(x)
    assert prepared.tobytes() == by_name.tobytes()
    with pytest.raises(TypeError):
        pplconv.conv2d(x, weight, bias, 1, 0, 1, 1, "relu")
    with pytest.raises(TypeError):
        pplconv.Conv2d(weight, bias, 1, 0, 1, 1, "relu")
    with pytest.raises(TypeError):
        pplconv.conv2d(x, weight, colour="red")


# Sizes beyond 64 bits, and memory that cannot be had ----------------------------------------------


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"padding": 2**31}, "padding|input|out"),
        ({"padding": 2**62}, "padding|input|out"),
        ({"padding": 2**64}, "padding"),
        ({"padding": ((2**63 - 1, 2**63 - 1), (0, 0))}, "padding"),
        ({"dilation": 2**62}, "dilation|weight"),
        ({"dilation": 2**63}, "dilation|weight"),
        ({"stride": 2**64}, "stride"),
        ({"groups": 2**64}, "groups"),
        ({"padding": ((2**33, 2**33), (2**33, 0))}, "padding|input|out"),
        # 2**60 bytes of input and 2**65 of output
        pytest.param(
            {"input": huge(2**57, 2, 1, 1), "weight": huge(64, 2, 1, 1)},
            "input|out",
            marks=needs_huge_arrays,
        ),
    ],
)
def test_sizes_beyond_64_bits(changes, names):
    """Products of sizes are checked before anything is allocated or written."""
    arguments = {**good_arguments(), "bias": None, **changes}
    out = good_output()
    with untouched(out), pytest.raises(ValueError, match=rf"\b(?:{names})\b"):
        pplconv.conv2d(**arguments, out=out)
    with pytest.raises(ValueError, match=rf"\b(?:{names})\b"):
        pplconv.conv2d(**arguments)


@needs_huge_arrays
@pytest.mark.parametrize(
    ("x", "weight", "out_shape"),
    [
        # A sum of 2**50 terms: its weights alone take 2**54 bytes.
        (huge(1, 2**50, 1, 1), huge(4, 2**50, 1, 1), (1, 4, 1, 1)),
        (huge(1, 1, 1, 2**50), huge(4, 2**50, 1, 1), (1, 1, 1, 4)),
    ],
)
def test_memory_that_cannot_be_had_for_packing(x, weight, out_shape):
    layout = "NCHW" if x.shape[1] > 1 else "NHWC"
    out = np.full(out_shape, 42, F32)
    with untouched(out), pytest.raises(MemoryError):
        pplconv.conv2d(x, weight, layout=layout, out=out)
    with pytest.raises(MemoryError):
        pplconv.Conv2d(weight, layout=layout)


@needs_huge_arrays
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_memory_that_cannot_be_had_for_the_output(layout):
    x = huge(2**50, 1, 1, 1)
    with pytest.raises(MemoryError):
        pplconv.conv2d(x, np.zeros((2, 1, 1, 1), F32), layout=layout)
    with pytest.raises(MemoryError):
        pplconv.Conv2d(np.zeros((2, 1, 1, 1), F32), layout=layout)(x)
