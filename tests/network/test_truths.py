"""Comparisons, logic and curves, element by element, beside NumPy and onnxruntime."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest

from pplconv.network.operators.elementwise_steps import NATIVE
from pplconv.network.session import InferenceSession
from tests.network.drawing_cases import Case, broadcast, shape
from tests.network.graphs import Graph
from tests.network.models import model_of
from tests.network.running import (
    by_onnxruntime,
    needs_onnxruntime,
    on_host,
    run,
    session_of,
    step_kinds,
)

every_type = pytest.mark.parametrize("dtype", NATIVE, ids=str)
COMPARISONS: dict[str, Callable[..., np.ndarray]] = {
    "Equal": np.equal, "Greater": np.greater, "GreaterOrEqual": np.greater_equal,
    "Less": np.less, "LessOrEqual": np.less_equal,
}  # fmt: skip
LOGIC: dict[str, Callable[..., np.ndarray]] = {
    "And": np.logical_and, "Equal": np.equal, "Or": np.logical_or, "Xor": np.logical_xor,
}  # fmt: skip
# Beside them: largest errors in eps of the exact value or of 1, where that is larger.
CURVES: dict[str, tuple[Callable[..., np.ndarray], float]] = {
    "Acos": (np.arccos, 2), "Acosh": (np.arccosh, 2), "Asin": (np.arcsin, 2),
    "Asinh": (np.arcsinh, 2), "Atan": (np.arctan, 2), "Atanh": (np.arctanh, 2), "Cos": (np.cos, 2),
    "Cosh": (np.cosh, 2), "Sin": (np.sin, 2), "Sinh": (np.sinh, 2), "Tan": (np.tan, 5),
}  # fmt: skip
SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0)


def numbers(rng: np.random.Generator, sizes: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Many ties, and all special values."""
    x = rng.standard_normal(sizes) * 3
    x = np.where(rng.random(sizes) < 0.5, np.rint(x), x)
    return np.where(rng.random(sizes) < 0.3, rng.choice(SPECIAL, sizes), x).astype(dtype)


def either_shape(rng: np.random.Generator) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Two shapes that broadcast: small ones, empty ones, and long rows."""
    a, b = broadcast(rng)
    size = int(rng.choice([0, 1, 3, 17, 300]))
    return (*a, size), (*b, size if rng.random() < 0.6 else 1)


def computed(case: Case, op: str, outputs: Any) -> np.ndarray:
    """A session's result, computed in loops; truths are bytes of 0 or 1."""
    names = ["" if x is None else f"x{i}" for i, x in enumerate(case.inputs)]
    node = onnx.helper.make_node(op, names, ["y"], **case.attributes)
    session = InferenceSession(model_of([node], case.feed(), (), {"y": outputs}, opset=23))
    (y,) = session.run(None, case.feed())
    assert not on_host(session) and y.dtype == outputs
    if y.dtype == np.bool_:
        assert y.view(np.uint8).max(initial=0) <= 1
    return y


@every_type
@pytest.mark.parametrize("op", COMPARISONS)
def test_comparisons(op, dtype, rng):
    for _ in range(4):
        x, y = (numbers(rng, sizes, dtype) for sizes in either_shape(rng))
        got = computed(Case([x, y]), op, np.dtype(bool))
        np.testing.assert_array_equal(got, COMPARISONS[op](x, y))


@pytest.mark.parametrize("op", LOGIC)
def test_logic(op, rng):
    for _ in range(4):
        x, y = (rng.random(sizes) < 0.5 for sizes in either_shape(rng))
        np.testing.assert_array_equal(computed(Case([x, y]), op, np.dtype(bool)), LOGIC[op](x, y))
    x = rng.random((3, 70)) < 0.5
    np.testing.assert_array_equal(computed(Case([x]), "Not", np.dtype(bool)), ~x)


@pytest.mark.parametrize("dtype", [*NATIVE, np.dtype(bool)], ids=str)
def test_where(dtype, rng):
    for _ in range(4):
        x, y = (
            rng.random(sizes) < 0.5 if dtype == np.bool_ else numbers(rng, sizes, dtype)
            for sizes in either_shape(rng)
        )
        condition = rng.random((x.shape, y.shape, ())[rng.integers(3)]) < 0.5
        got = computed(Case([np.asarray(condition), x, y]), "Where", dtype)
        np.testing.assert_array_equal(got, np.where(condition, x, y))


@every_type
def test_questions_about_one_number(dtype, rng):
    for sizes in ((), (5,), (3, 0), (2, 3, 130)):
        x = numbers(rng, sizes, dtype)
        got = computed(Case([x]), "IsNaN", np.dtype(bool))
        np.testing.assert_array_equal(got, np.isnan(x))
        for below in (0, 1):
            for above in (0, 1):
                given = {"detect_negative": below, "detect_positive": above}
                got = computed(Case([x], given), "IsInf", np.dtype(bool))
                want = np.isinf(x) & ((x < 0) & bool(below) | (x > 0) & bool(above))
                np.testing.assert_array_equal(got, want)
        got = computed(Case([x]), "Sign", dtype)
        np.testing.assert_array_equal(got, np.sign(x))


@every_type
def test_casts_from_and_to_truths(dtype, rng):
    x = numbers(rng, (3, 4, 50), dtype)
    case = Case([x], {"to": onnx.TensorProto.BOOL})
    np.testing.assert_array_equal(computed(case, "Cast", np.dtype(bool)), x != 0)
    truths = rng.random((3, 4, 50)) < 0.5
    case = Case([truths], {"to": onnx.helper.np_dtype_to_tensor_dtype(dtype)})
    np.testing.assert_array_equal(computed(case, "Cast", dtype), truths.astype(dtype))
    like = Case([truths, np.zeros((), dtype)])
    np.testing.assert_array_equal(computed(like, "CastLike", dtype), truths.astype(dtype))


@needs_onnxruntime
@pytest.mark.parametrize("to", [
    np.float16, np.float32, np.float64, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16,
    np.uint32, np.bool_,
])  # fmt: skip
@pytest.mark.parametrize("source", [np.float32, np.float64, np.int32, np.int64, np.uint8, np.bool_])
def test_casts_are_those_of_onnxruntime(source, to, rng):
    """Numbers that the new type holds, as truncated: others are undefined in C."""
    x = rng.uniform(0, 120, (4, 33)) * (1 if np.dtype(to).kind == "u" else rng.choice([-1, 1]))
    case = Case(
        [x.astype(source)], {"to": onnx.helper.np_dtype_to_tensor_dtype(np.dtype(to))}, opset=22
    )
    if np.dtype(to).kind == "u" and np.dtype(source).kind == "f":
        case.inputs[0] = np.abs(case.inputs[0])
    model = case.model("Cast")
    (got,), (want,) = run(model, case.feed()), by_onnxruntime(model, case.feed())
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


@every_type
@pytest.mark.parametrize("op", CURVES)
def test_curves(op, dtype, rng):
    """Within some eps of float64's result, or of half an eps of what a float16 holds."""
    function, allowed = CURVES[op]
    wide = np.longdouble if dtype == np.float64 else np.float64
    for sizes in (shape(rng), (3, 1, 700), (4, 0)):
        x = rng.standard_normal(sizes) * rng.choice([0.1, 1, 30, 1e4])
        if op in ("Cosh", "Sinh"):
            x = np.clip(x, -9, 9)
        x = np.where(rng.random(sizes) < 0.1, rng.choice(SPECIAL, sizes), x).astype(dtype)
        got = computed(Case([x]), op, dtype)
        with np.errstate(all="ignore"):
            want = function(x.astype(wide))
        finite = np.isfinite(want.astype(dtype))
        np.testing.assert_array_equal(got[~finite], want.astype(dtype)[~finite])
        eps = np.finfo(dtype).eps
        np.testing.assert_allclose(
            got[finite], want[finite].astype(dtype), rtol=allowed * float(eps), atol=1e-37
        )


@needs_onnxruntime
@pytest.mark.parametrize("op", [*CURVES, "IsNaN", "IsInf", "Sign"])
def test_special_numbers_as_in_onnxruntime(op):
    x = np.array([*SPECIAL, 0.5, -0.5, 88, -88, 1e5, 1e20], np.float32)
    model = Case([x], opset=22).model(op)
    (got,), (want,) = run(model, {"x0": x}), by_onnxruntime(model, {"x0": x})
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=2e-6, atol=0)


@every_type
def test_remainders(dtype, rng):
    for _ in range(3):
        a, b = either_shape(rng)
        x, y = numbers(rng, a, dtype) * dtype.type(7), numbers(rng, b, dtype)
        for fmod, function in ((1, np.fmod), (0, np.mod)):
            got = computed(Case([x, y], {"fmod": fmod}), "Mod", dtype)
            with np.errstate(all="ignore"):
                np.testing.assert_array_equal(got, function(x, y))


@every_type
def test_shrink(dtype, rng):
    x = numbers(rng, (5, 60), dtype)
    got = computed(Case([x], {"lambd": 0.75, "bias": 0.25}), "Shrink", dtype)
    with np.errstate(invalid="ignore"):
        want = np.where(x < -0.75, x + 0.25, np.where(x > 0.75, x - 0.25, 0)).astype(dtype)
    np.testing.assert_array_equal(got, want)


INTEGERS = {
    "BitShift": ({"direction": "LEFT"}, np.left_shift), "BitwiseAnd": ({}, np.bitwise_and),
    "BitwiseOr": ({}, np.bitwise_or), "BitwiseXor": ({}, np.bitwise_xor), "Mod": ({}, np.mod),
    **{op: ({}, function) for op, function in COMPARISONS.items()},
}  # fmt: skip


@pytest.mark.parametrize("op", INTEGERS)
def test_integers_take_one_call_of_numpy(op, rng):
    """All 64 bits count, which no floating-point number holds."""
    attributes, function = INTEGERS[op]
    a, b = either_shape(rng)
    high = 60 if op == "BitShift" else 3
    dtype = np.uint64 if op == "BitShift" else np.int64
    x, y = (1 << 62) + rng.integers(0, 3, a), rng.integers(1, high, b)
    x, y = x.astype(dtype), (y + (0 if op in ("BitShift", "Mod") else 1 << 62)).astype(dtype)
    node = onnx.helper.make_node(op, ["x", "y"], ["z"], **attributes)
    want = function(x, y)
    model = model_of([node], {"x": x, "y": y}, (), {"z": want.dtype}, opset=23)
    (got,) = run(model, {"x": x, "y": y})
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


# Chains


def masked(g: Graph) -> tuple[str, np.ndarray]:
    """Twice a number where it is above zero and its mask is set, another number elsewhere."""
    x, other = g.input(2, 3, 40), g.input(40)
    mask = g.input(2, 1, 40, dtype=np.bool_)
    g.feed[mask] = g.rng.random((2, 1, 40)) < 0.5
    y = g.Where(g.And(g.Greater(x, g.constant(0)), mask), g.Mul(x, g.constant(2)), other)
    given = g.feed[x], g.feed[mask], g.feed[other]
    return y, np.where((given[0] > 0) & given[1], given[0] * 2, given[2])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_chain_of_truths_and_numbers_is_one_step(dtype):
    g = Graph(3, dtype=dtype)
    y, want = masked(g)
    session = session_of(g, y)
    assert step_kinds(session, g.feed) == ["Greater+And+Mul+Where"]
    (got,) = session.run(None, g.feed)
    assert not on_host(session) and got.dtype == dtype
    np.testing.assert_array_equal(got, want)


def test_a_chain_of_float16_runs_in_loops():
    g = Graph(3, dtype=np.float16)
    y, want = masked(g)
    session = session_of(g, y)
    (got,) = session.run(None, g.feed)
    assert not on_host(session)
    np.testing.assert_array_equal(got, want)


def test_chains_that_end_in_truths(rng):
    """Truths that leave a chain in the middle are read by the next one; in teams, the same bits."""
    x = rng.standard_normal((5, 9000)).astype(np.float32)
    nodes = [
        onnx.helper.make_node("Abs", ["x"], ["a"]),
        onnx.helper.make_node("Less", ["a", "half"], ["near"]),
        onnx.helper.make_node("Not", ["near"], ["far"]),
        onnx.helper.make_node("Cast", ["near"], ["n"], to=onnx.TensorProto.FLOAT),
        onnx.helper.make_node("Mul", ["n", "x"], ["y"]),
    ]
    outputs = {"near": np.bool_, "far": np.bool_, "y": np.float32}
    model = model_of(nodes, {"x": x}, {"half": np.float32(0.5)}, outputs)
    near, far, y = run(model, {"x": x}, teams=(1, 2))
    np.testing.assert_array_equal(near, np.abs(x) < 0.5)
    np.testing.assert_array_equal(far, ~near)
    np.testing.assert_array_equal(y, x * near)
    session = InferenceSession(model, threads=1)
    assert step_kinds(session, {"x": x}) == ["Abs+Less", "Not", "Cast+Mul"]


def test_doubles_between_truths_stay_doubles(rng):
    """0.1 + 0.2 is not 0.3 there; in single precision it is."""
    x = rng.random((4, 20)) < 0.5
    nodes = [
        onnx.helper.make_node("Cast", ["x"], ["d"], to=onnx.TensorProto.DOUBLE),
        onnx.helper.make_node("Mul", ["d", "tenth"], ["t"]),
        onnx.helper.make_node("Add", ["t", "fifth"], ["s"]),
        onnx.helper.make_node("Equal", ["s", "sum"], ["y"]),
    ]
    known = {"tenth": np.float64(0.1), "fifth": np.float64(0.2), "sum": np.float64(0.3)}
    model = model_of(nodes, {"x": x}, known, {"y": np.bool_})
    (y,) = run(model, {"x": x})
    np.testing.assert_array_equal(y, x * 0.1 + 0.2 == 0.3)


def test_types_do_not_mix_in_a_chain(rng):
    """A comparison of doubles decides between singles: two steps."""
    x, a = rng.standard_normal((3, 50)), rng.standard_normal((3, 50)).astype(np.float32)
    nodes = [
        onnx.helper.make_node("Greater", ["x", "bound"], ["above"]),
        onnx.helper.make_node("Where", ["above", "a", "zero"], ["y"]),
    ]
    bound = np.float64(x[0, 0] - 1e-12)
    known = {"bound": bound, "zero": np.float32(0)}
    model = model_of(nodes, {"x": x, "a": a}, known, {"y": np.float32})
    session = InferenceSession(model, threads=1)
    (y,) = session.run(None, {"x": x, "a": a})
    np.testing.assert_array_equal(y, np.where(x > bound, a, 0))
    assert step_kinds(session, {"x": x, "a": a}) == ["Greater", "Where"] and not on_host(session)


def test_bytes_that_are_neither_0_nor_1_are_true():
    """NumPy's bool may hold them, as a view of other bytes."""
    x = np.array([[0, 1, 2, 255, 128, 7]], np.uint8).view(np.bool_)
    nodes = [
        onnx.helper.make_node("Not", ["x"], ["y"]),
        onnx.helper.make_node("Cast", ["x"], ["z"], to=onnx.TensorProto.FLOAT),
    ]
    model = model_of(nodes, {"x": x}, (), {"y": np.bool_, "z": np.float32})
    y, z = run(model, {"x": x})
    np.testing.assert_array_equal(y.view(np.uint8), [[1, 0, 0, 0, 0, 0]])
    np.testing.assert_array_equal(z, [[0, 1, 1, 1, 1, 1]])


@needs_onnxruntime
def test_images_between_convolutions(rng):
    """Of pixels inside, and of planes outside: masks in either layout."""
    g = Graph(5)
    x = g.input(2, 4, 7, 9)
    a, b = g.conv(x, 8, (4, 3, 3)), g.conv(x, 8, (4, 3, 3))
    masks = [g.input(*sizes, dtype=np.bool_) for sizes in ((2, 8, 5, 7), (1, 8, 1, 1), (5, 7))]
    for name in masks:
        g.feed[name] = g.rng.random(g.feed[name].shape) < 0.5
    y = a
    for name in masks:
        y = g.Where(g.Or(g.Less(y, b), name), y, g.Neg(b))
    y = g.conv(y, 3, (8, 3, 3))
    model = g.model(y)
    (got,), (want,) = run(model, g.feed), by_onnxruntime(model, g.feed)
    np.testing.assert_allclose(got, want, rtol=0, atol=2e-5 * np.abs(want).max())
