"""Arithmetic of integers and casts in loops, beside NumPy and onnxruntime."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import onnx
import pytest

from pplconv.network.session import InferenceSession
from tests.network.drawing_cases import Case, broadcast
from tests.network.graphs import Graph
from tests.network.models import model_of
from tests.network.running import by_onnxruntime, needs_onnxruntime, on_host, session_of, step_kinds

INTEGERS = (np.dtype(np.int64), np.dtype(np.int32))
every_type = pytest.mark.parametrize("dtype", INTEGERS, ids=str)
FLOATS = (np.dtype(np.float32), np.dtype(np.float64))
BYTES = (np.dtype(np.uint8), np.dtype(np.int8))
TRUTH = np.dtype(bool)
ARITHMETIC = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Min": np.minimum,
              "Max": np.maximum}  # fmt: skip
COMPARISONS = {"Equal": np.equal, "Greater": np.greater, "GreaterOrEqual": np.greater_equal,
               "Less": np.less, "LessOrEqual": np.less_equal}  # fmt: skip


def numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Numbers of all sizes, many ties, and both limits of the type."""
    info = np.iinfo(dtype)
    x = rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    x >>= rng.integers(0, info.bits - 1, shape).astype(dtype)
    limits = rng.choice(np.array([info.min, info.max, -1, 0, 1], dtype), shape)
    return np.where(rng.random(shape) < 0.3, limits, x)


def shapes(rng: np.random.Generator) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Two shapes that broadcast: small ones, empty ones, and long rows."""
    a, b = broadcast(rng)
    size = int(rng.choice([0, 1, 3, 17, 300]))
    return (*a, size), (*b, size if rng.random() < 0.6 else 1)


def session(case: Case, op: str, output: Any) -> InferenceSession:
    """A session of one node, all of it in loops."""
    names = ["" if x is None else f"x{i}" for i, x in enumerate(case.inputs)]
    node = onnx.helper.make_node(op, names, ["y"], **case.attributes)
    made = InferenceSession(model_of([node], case.feed(), (), {"y": output}, opset=23))
    made.run(None, case.feed())
    assert not on_host(made)
    return made


def computed(case: Case, op: str, output: Any) -> np.ndarray:
    """A session's result."""
    (y,) = session(case, op, output).run(None, case.feed())
    assert y.dtype == output
    return y


@every_type
@pytest.mark.parametrize("op", ARITHMETIC)
def test_arithmetic_wraps_around(op, dtype, rng):
    for _ in range(5):
        x, y = (numbers(rng, sizes, dtype) for sizes in shapes(rng))
        with np.errstate(over="ignore"):
            expected = ARITHMETIC[op](x, y)
        np.testing.assert_array_equal(computed(Case([x, y]), op, dtype), expected)


@every_type
@pytest.mark.parametrize("op", COMPARISONS)
def test_comparisons(op, dtype, rng):
    for _ in range(5):
        x, y = (numbers(rng, sizes, dtype) for sizes in shapes(rng))
        got = computed(Case([x, y]), op, TRUTH)
        np.testing.assert_array_equal(got, COMPARISONS[op](x, y))


@every_type
def test_one_operand(dtype, rng):
    x = numbers(rng, (3, 70), dtype)
    for op, function in {"Abs": np.abs, "Neg": np.negative, "Sign": np.sign}.items():
        np.testing.assert_array_equal(computed(Case([x]), op, dtype), function(x))
    np.testing.assert_array_equal(computed(Case([x]), "Relu", dtype), np.maximum(x, 0))


@every_type
def test_clip(dtype, rng):
    """Omitted bounds are those of the type, which no float32 holds."""
    x = numbers(rng, (2, 40), dtype)
    low, high = np.array(-7, dtype), np.array(np.iinfo(dtype).max - 1, dtype)
    for bounds in ([], [low], [None, high], [low, high]):
        expected = x
        if bounds and bounds[0] is not None:
            expected = np.maximum(expected, low)
        if len(bounds) > 1:
            expected = np.minimum(expected, high)
        np.testing.assert_array_equal(computed(Case([x, *bounds]), "Clip", dtype), expected)


@needs_onnxruntime
@every_type
def test_division_as_in_onnxruntime(dtype, rng):
    """Quotients are rounded toward zero; the sign of a remainder is one of both."""
    x = numbers(rng, (4, 50), dtype)
    y = rng.choice(np.array([-(2**31), -9, -7, -2, 2, 3, 7, 1000], dtype), (4, 50))
    for op, attributes in (("Div", {}), ("Mod", {}), ("Mod", {"fmod": 1})):
        case = Case([x, y], attributes)
        node = onnx.helper.make_node(op, ["x0", "x1"], ["y"], **attributes)
        model = model_of([node], case.feed(), (), {"y": dtype}, opset=21)
        (expected,) = by_onnxruntime(model, case.feed())
        np.testing.assert_array_equal(computed(case, op, dtype), expected)


@every_type
def test_quotients_by_zero_do_no_harm(dtype):
    """Nobody says what they are; others beside them stay right, and the process lives."""
    info = np.iinfo(dtype)
    x = np.array([7, info.min, 0, info.min, -7], dtype)
    y = np.array([0, -1, 0, 0, 2], dtype)
    assert computed(Case([x, y]), "Div", dtype)[4] == -3
    assert computed(Case([x, y]), "Mod", dtype)[4] == 1


@every_type
def test_where(dtype, rng):
    for _ in range(4):
        x, y = (numbers(rng, sizes, dtype) for sizes in shapes(rng))
        condition = rng.random(x.shape) < 0.5
        got = computed(Case([condition, x, y]), "Where", dtype)
        np.testing.assert_array_equal(got, np.where(condition, x, y))


def castable(
    rng: np.random.Generator, shape: tuple[int, ...], source: np.dtype, to: np.dtype
) -> np.ndarray:
    """Numbers that a cast defines: integers wrap around, floats have to fit."""
    if source == TRUTH:
        return np.asarray(rng.random(shape) < 0.5)
    if source.kind in "iu":
        info = np.iinfo(source)
        return rng.integers(info.min, info.max, shape, source, endpoint=True)
    x = rng.standard_normal(shape) * 50
    if to.kind in "iu":
        info = np.iinfo(to)
        x = rng.uniform(info.min / 2, info.max / 2, shape)
    elif to == TRUTH or to.kind == "f":
        special = rng.choice([np.nan, np.inf, -np.inf, 0.0, -0.0, 0.25], shape)
        x = np.where(rng.random(shape) < 0.5, special, x)
    return np.asarray(x, source)


@needs_onnxruntime
@pytest.mark.parametrize(
    ("source", "to"),
    [pair for pair in itertools.permutations((*INTEGERS, *FLOATS, *BYTES, TRUTH), 2)],
    ids=str,
)
def test_casts(source, to, rng):
    for sizes in ((), (1,), (0, 3), (2, 3, 37), (5, 300)):
        x = castable(rng, sizes, source, to)
        case = Case([x], {"to": int(onnx.helper.np_dtype_to_tensor_dtype(to))})
        node = onnx.helper.make_node("Cast", ["x0"], ["y"], **case.attributes)
        model = model_of([node], case.feed(), (), {"y": to}, opset=21)
        got = computed(case, "Cast", to)
        np.testing.assert_array_equal(got, by_onnxruntime(model, case.feed())[0])
        np.testing.assert_array_equal(got, x.astype(to))


def test_casts_join_chains(rng):
    """A Cast of what a chain reads, and one of its result, have no step of their own."""
    g = Graph(seed=5, dtype=np.int32)
    x = g.input(4, 33, dtype=np.int64)
    g.feed[x] = rng.integers(-1000, 1000, (4, 33))
    wide = g.Cast(x, to=onnx.TensorProto.FLOAT)
    half, more = (g.constant(number, np.float32) for number in (0.5, 1.25))
    y = g.Cast(g.Add(g.Mul(wide, half), more), to=onnx.TensorProto.INT32)
    made = session_of(g, y)
    (got,) = made.run(None, g.feed)
    assert step_kinds(made, g.feed) == ["Cast+Mul+Add+Cast"]
    expected = (g.feed[x].astype(np.float32) * np.float32(0.5) + np.float32(1.25)).astype(np.int32)
    np.testing.assert_array_equal(got, expected)


def test_casts_within_chains(rng):
    """Where a Cast changes numbers between operators, a program ends."""
    g = Graph(seed=6, dtype=np.float32)
    x = g.input(3, 50)
    g.feed[x] = (rng.standard_normal((3, 50)) * 9).astype(np.float32)
    whole = g.Cast(g.Mul(x, x), to=onnx.TensorProto.INT64)
    y = g.Mul(g.Cast(g.Add(whole, whole), to=onnx.TensorProto.FLOAT), x)
    truth = g.Cast(g.Cast(g.Floor(x), to=onnx.TensorProto.BOOL), to=onnx.TensorProto.FLOAT)
    made = session_of(g, y, truth)
    got, one = made.run(None, g.feed)
    square = (g.feed[x] * g.feed[x]).astype(np.int64)
    np.testing.assert_array_equal(got, (square + square).astype(np.float32) * g.feed[x])
    np.testing.assert_array_equal(one, (np.floor(g.feed[x]) != 0).astype(np.float32))
    assert not on_host(made)


def test_constants_stay_exact(rng):
    """No integer goes through floating point, which has 53 bits at most."""
    large = 2**62 + 1
    g = Graph(seed=2, dtype=np.int64)
    x = g.input(3, 40)
    g.feed[x] = rng.integers(-5, 5, (3, 40))
    y = g.Sub(g.Add(x, g.constant(large)), g.constant(large - 2))
    np.testing.assert_array_equal(session_of(g, y).run(None, g.feed)[0], g.feed[x] + 2)


@every_type
def test_other_layouts(dtype, rng):
    """Transposed and broadcast operands of several types in one program."""
    g = Graph(seed=3, dtype=dtype)
    a, b = g.input(3, 5, 7), g.input(7, 5, dtype=np.uint8)
    g.feed |= {
        a: numbers(rng, (3, 5, 7), dtype), b: rng.integers(0, 200, (7, 5)).astype(np.uint8)
    }  # fmt: skip
    wide = g.Cast(g.Transpose(b, perm=[1, 0]), to=int(onnx.helper.np_dtype_to_tensor_dtype(dtype)))
    made = session_of(g, g.Add(a, wide))
    with np.errstate(over="ignore"):
        expected = g.feed[a] + g.feed[b].T.astype(dtype)
    np.testing.assert_array_equal(made.run(None, g.feed)[0], expected)
    assert not on_host(made)
