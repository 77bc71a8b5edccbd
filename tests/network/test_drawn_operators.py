"""Operators with random attributes beside onnxruntime: above all those that run in Python."""

from __future__ import annotations

import fractions
import itertools
import math
import tracemalloc
import zlib

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import pytest

from pplconv.network.nodes import attributes_of
from pplconv.network.operators.table import COMPUTED, ROWS
from pplconv.network.session import InferenceSession
from tests.network.drawing_cases import Case
from tests.network.drawn_operators import DRAWERS
from tests.network.models import model_of
from tests.network.running import (
    agree,
    by_onnxruntime,
    compare_models,
    needs_onnxruntime,
    on_host,
    run,
)

# Made of nothing or of what has gone before it runs.
CONSTANTS = {"Constant"}
# onnxruntime refuses it where all is constant.
UNFOLDED = {"GroupNormalization"}
# They are not folded: loops of ours, or functions of one run, may be much faster.
SLOW = {"ConvTranspose", "Einsum", "RoiAlign"}
DRAWS = 3


def drawn(op: str, seed: int) -> Case:
    """An operator's case."""
    return DRAWERS[op](np.random.default_rng([seed, zlib.crc32(op.encode())]))


def compare(case: Case, op: str) -> InferenceSession:
    """Run a case by a session and by onnxruntime, and compare all results."""
    return compare_models(case.model(op), case.feed())


@pytest.mark.sampled(44)
@needs_onnxruntime
@pytest.mark.parametrize("op", sorted(DRAWERS))
def test_operators(op, rng):
    for seed in rng.integers(0, 1 << 32, DRAWS).tolist():
        compare(drawn(op, seed), op)


# Of sequences, optionals and texts: `test_values` compares them.
OTHERS = {"ai.onnx.ml.LabelEncoder", "ConcatFromSequence", "SplitToSequence"}


def test_all_that_runs_in_python_is_drawn():
    alone = {op for op, row in ROWS.items() if row.loops is None and row.expression is None}
    others = {op for op in ROWS if op.startswith(("Sequence", "Optional"))} | OTHERS
    assert DRAWERS.keys() >= (alone | COMPUTED.keys()) - CONSTANTS - others


# Operators with functions in NumPy, of which sessions may know no shapes.
BY_ARRAYS = sorted(COMPUTED.keys() & {
    "ArgMax", "ArgMin", "Ceil", "Clip", "Col2Im", "Compress", "ConstantOfShape", "Einsum", "Exp",
    "EyeLike", "Flatten", "Floor", "GatherElements", "GatherND", "IsNaN", "Log",
    "NonMaxSuppression", "NonZero", "Range", "ReduceMax", "ReduceMin", "Relu", "RoiAlign", "Round",
    "ScatterElements", "ScatterND", "Sigmoid", "Split", "Sqrt", "Tanh", "Tile", "TopK", "Trilu",
    "Unique",
})  # fmt: skip


@pytest.mark.sampled(8)
@needs_onnxruntime
@pytest.mark.parametrize("op", BY_ARRAYS)
def test_functions_need_no_shapes(op, rng):
    """Arrays and attributes alone give onnxruntime's results."""
    for seed in rng.integers(0, 1 << 32, 4 * DRAWS).tolist():
        case = drawn(op, seed)
        model = case.model(op)
        expected = by_onnxruntime(model, case.feed())
        attributes = dict(attributes_of(ir.from_proto(model).graph[0]))
        with np.errstate(all="ignore"):
            results = COMPUTED[op](attributes, case.inputs, ())
        agree(results[: len(expected)], expected, least=1.0)


I64 = np.int64
# Operands that no operator can take, and what is said of them.
WRONG = {
    "indices has 3, outside of the axis 1 of .2, 3.": [
        ("GatherND", [np.zeros((2, 3)), I64([[0, 3]])], {}),
        ("GatherElements", [np.zeros((2, 3)), I64([[0, 3]])], {"axis": 1}),
        ("ScatterND", [np.zeros((2, 3)), I64([[0, 3]]), np.ones(1)], {}),
        ("ScatterElements", [np.zeros((2, 3)), I64([[3]]), np.ones((1, 1))], {"axis": -1}),
    ],
    "indices has -3, outside of the axis 0": [
        ("GatherND", [np.zeros((2, 3)), I64([[-3]])], {}),
        ("ScatterND", [np.zeros((2, 3)), I64([[-3]]), np.ones((1, 3))], {}),
    ],
    "batch_indices has 2, there are 2 images": [
        ("RoiAlign", [np.zeros((2, 1, 3, 3)), np.zeros((1, 4)), I64([2])], {}),
    ],
    "K is 4, the axis has 3": [("TopK", [np.zeros((2, 3)), I64([4])], {})],
    "K is -1": [("TopK", [np.zeros((2, 3)), I64([-1])], {})],
    "repeats is .2, -1.": [("Tile", [np.zeros((2, 3)), I64([2, -1])], {})],
    "delta is 0": [("Range", [I64(0), I64(3), I64(0)], {})],
    "the shape is .-1.": [("ConstantOfShape", [I64([-1])], {})],
    "iou_threshold is 1.5": [
        ("NonMaxSuppression", [np.zeros((1, 1, 4)), np.ones((1, 1, 1)), I64(1), np.array(1.5)], {}),
    ],
    "blocks of .2, 2. at .2, 2. places": [
        ("Col2Im", [np.zeros((1, 4, 3)), I64([3, 3]), I64([2, 2])], {}),
    ],
}  # fmt: skip


@pytest.mark.parametrize("problem", WRONG)
def test_operands_that_are_refused(problem):
    """onnxruntime refuses all of these, too."""
    for op, operands, attributes in WRONG[problem]:
        with pytest.raises(ValueError, match=problem):
            COMPUTED[op](attributes, operands, ())


def test_indices_outside_of_an_axis_name_the_node(g):
    index = g.input(1, 2, dtype=np.int64)
    y = g.GatherND(g.input(2, 3), index)
    session = InferenceSession(g.model(y), threads=1)
    g.feed[index] = np.array([[0, 7]])
    with pytest.raises(ValueError, match=rf"GatherND of '{y}'.*index 7 is out of range"):
        session.run(None, g.feed)


def test_numbers_of_a_range_are_rounded_once():
    """As the standard has them, ``start + i * delta``; onnxruntime adds up rounded sums."""
    start, limit, delta = np.float32([0.1, 1000.05, 0.1])
    (y,) = COMPUTED["Range"]({}, [start, limit, delta], ())
    want = np.float64(start) + np.arange(10000) * np.float64(delta)
    assert y.dtype == np.float32
    np.testing.assert_array_equal(y, want.astype(np.float32))


def of_constants(case: Case, op: str) -> onnx.ModelProto:
    """A case of which all is known."""
    case.known = tuple(i for i, x in enumerate(case.inputs) if x is not None)
    model = case.model(op)
    # Outputs of the network are not folded.
    (node,) = model.graph.node
    for i, name in enumerate(list(node.output)):
        node.output[i] = f"{name}_inside"
        model.graph.node.append(onnx.helper.make_node("Reshape", [node.output[i], "row"], [name]))
        model.graph.output[i].type.tensor_type.ClearField("shape")
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([-1]), "row"))
    return model


@pytest.mark.sampled(89)
@needs_onnxruntime
@pytest.mark.parametrize("op", sorted(DRAWERS.keys() - UNFOLDED))
def test_constants_are_computed_in_the_same_way(op, rng):
    for seed in rng.integers(0, 1 << 32, DRAWS if op in COMPUTED else 1).tolist():
        case = drawn(op, seed)
        session = compare_models(of_constants(case, op), {})
        programs = [compiled for compiled, _ in session._network.programs.values()]
        steps = [step.kind for compiled in programs for step in compiled.steps]
        assert op not in steps or op not in COMPUTED.keys() - SLOW


SEEN_BY_NONE = {
    "kernel_shape": [2, 2], "dilations": [3, 1], "strides": [2, 1], "pads": [1, 0, 1, 0],
}  # fmt: skip


@needs_onnxruntime
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int8, np.uint8])
def test_a_maximum_of_padding_alone_is_the_lowest_number(dtype, rng):
    case = Case([(rng.standard_normal((1, 3, 2, 3)) * 9).astype(dtype)], SEEN_BY_NONE, opset=22)
    compare(case, "MaxPool")


def test_a_maximum_of_infinities_is_infinite():
    """onnxruntime gives the lowest finite number instead."""
    for sizes in ((4,), (4, 4)):
        kernel = [2] * len(sizes)
        case = Case([np.full((1, 1, *sizes), -np.inf, np.float32)], {"kernel_shape": kernel})
        (y,) = InferenceSession(case.model("MaxPool"), threads=1).run(None, case.feed())
        assert (y == -np.inf).all()


def test_padding_to_the_same_size_counts_dilated_windows(rng):
    """onnxruntime does not, and gives fewer outputs than ONNX's text."""
    x = rng.standard_normal((1, 2, 9)).astype(np.float32)
    given = {"kernel_shape": [3], "dilations": [2], "strides": [2], "auto_pad": "SAME_UPPER"}
    case = Case([x], given, opset=22)
    (y,) = InferenceSession(case.model("MaxPool"), threads=1).run(None, case.feed())
    padded = np.pad(x, [(0, 0), (0, 0), (2, 2)], constant_values=-np.inf)
    want = np.stack([padded[..., o * 2 : o * 2 + 5 : 2].max(-1) for o in range(5)], -1)
    np.testing.assert_array_equal(y, want)


def test_integers_that_do_not_fit_are_the_nearest_that_do(rng):
    """By Python's integers; onnxruntime sums in double precision, and loses digits of int64."""
    count = 5
    for dtype, low in itertools.product((np.int32, np.int64, np.uint64), (0, 5, 31)):
        bounds = np.iinfo(dtype)
        x = rng.integers(bounds.min >> low, (bounds.max >> low) + 1, (40, count), dtype)
        rows = [[int(number) for number in row] for row in x]
        exact = {
            "ReduceL1": [sum(map(abs, row)) for row in rows],
            "ReduceL2": [math.isqrt(sum(n * n for n in row)) for row in rows],
            "ReduceMean": [int(fractions.Fraction(sum(row), count)) for row in rows],
            "ReduceProd": [math.prod(row) for row in rows],
            "ReduceSum": [sum(row) for row in rows],
            "ReduceSumSquare": [sum(n * n for n in row) for row in rows],
        }
        for op, numbers in exact.items():
            want = [min(max(number, bounds.min), bounds.max) for number in numbers]
            case = Case([x, np.array([1])], {"keepdims": 0}, (1,))
            (y,) = InferenceSession(case.model(op), threads=1).run(None, case.feed())
            assert y.dtype == dtype and [int(number) for number in y] == want, op
            (y,) = InferenceSession(of_constants(case, op), threads=1).run(None, {})
            assert y.dtype == dtype and [int(number) for number in y] == want, op


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint8])
def test_integers_that_fit_become_no_python_objects(dtype, rng):
    x, axes = rng.integers(1, 100, (300, 1000)).astype(dtype), np.array([1])
    few = np.where(rng.random(x.shape) < 0.01, 3, 1).astype(dtype)
    wide = x.astype(np.int64)
    expected = {
        "ReduceL1": wide.sum(1), "ReduceMean": wide.sum(1) // 1000, "ReduceSum": wide.sum(1),
        "ReduceSumSquare": (wide**2).sum(1), "ReduceProd": few.astype(np.int64).prod(1),
    }  # fmt: skip
    for op, want in expected.items():
        tracemalloc.start()
        (y,) = COMPUTED[op]({"keepdims": 0}, [few if op == "ReduceProd" else x, axes], [])
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        np.testing.assert_array_equal(y, np.clip(want, None, np.iinfo(dtype).max))
        # Two arrays of 64 bits and some rows; objects take four times as much.
        assert peak < 24 * x.size, op


def test_a_size_that_constants_say_is_known(g):
    y = g.Cast(g.NonZero(g.constant([0, 3, 0, 5])), to=onnx.TensorProto.FLOAT)
    np.testing.assert_array_equal(run(g.model(y), {})[0], [[1, 3]])


@needs_onnxruntime
@pytest.mark.parametrize("opset", [18, 20, 21])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_groups_have_a_scale_each_before_opset_21(opset, dtype, rng):
    x = rng.standard_normal((2, 6, 5, 4)).astype(dtype)
    scale, offset = rng.standard_normal((2, 6 if opset == 21 else 2)).astype(dtype)
    case = Case([x, scale, offset], {"num_groups": 2}, opset=opset)
    model = case.model("GroupNormalization")
    session = InferenceSession(model, threads=1)
    (y,), (want,) = session.run(None, case.feed()), by_onnxruntime(model, case.feed())
    assert y.dtype == dtype and on_host(session) == []
    allowed = 2e-5 if dtype == np.float32 else 4e-3
    np.testing.assert_allclose(y, want, rtol=allowed, atol=allowed)
    wrong = Case([x, np.ones(3, dtype), np.ones(3, dtype)], {"num_groups": 2}, opset=opset)
    with pytest.raises(ValueError, match="contradict"):
        InferenceSession(wrong.model("GroupNormalization"), threads=1).run(None, wrong.feed())


@needs_onnxruntime
@pytest.mark.parametrize("op", ["GroupNormalization", "MeanVarianceNormalization"])
def test_loops_of_ours(op, rng):
    for seed in rng.integers(0, 1 << 32, DRAWS).tolist():
        case = drawn(op, seed)
        # Of few numbers onnxruntime's own error is large.
        case.inputs[0] = rng.standard_normal((2, case.inputs[0].shape[1], 6, 7), np.float32)
        assert on_host(compare(case, op)) == []


@needs_onnxruntime
@pytest.mark.parametrize("op", [
    "Add", "AveragePool", "Conv", "Gather", "GatherElements", "Gelu", "Gemm", "GlobalAveragePool",
    "InstanceNormalization", "LSTM", "LayerNormalization", "LpNormalization", "MatMul", "MaxPool",
    "Pad", "PRelu", "ReduceMax", "Resize", "Sigmoid", "Softmax", "Sum", "Where",
])  # fmt: skip
def test_bfloat16(op, rng):
    """Rounded to bfloat16 at the end: onnxruntime's answer to the same numbers as float32."""
    for seed in rng.integers(0, 1 << 32, DRAWS).tolist():
        narrow, wide = drawn(op, seed), drawn(op, seed)
        narrow.opset = wide.opset = 22
        narrow.outputs = wide.outputs = 3 if op == "LSTM" else 1
        narrow.inputs = [as_bfloat16(x) for x in narrow.inputs]
        wide.inputs = [as_float32(x) for x in narrow.inputs]
        session = InferenceSession(narrow.model(op), threads=1)
        expected = by_onnxruntime(wide.model(op), wide.feed())
        for y, want in zip(session.run(None, narrow.feed()), expected, strict=True):
            if want.dtype != np.float32:
                np.testing.assert_array_equal(y, want)
                continue
            assert y.dtype == ml_dtypes.bfloat16 and y.shape == want.shape
            finite = np.isfinite(want)
            scale = float(np.abs(want[finite]).max(initial=0))
            np.testing.assert_array_equal(y[~finite].astype(np.float32), want[~finite])
            # Half a unit of eight bits, and float32's own error.
            np.testing.assert_allclose(
                y[finite].astype(np.float32), want[finite], rtol=2**-8, atol=1e-4 * scale
            )


def as_bfloat16(x: np.ndarray | None) -> np.ndarray | None:
    """Floats as bfloat16."""
    return x.astype(ml_dtypes.bfloat16) if x is not None and x.dtype == np.float32 else x


def as_float32(x: np.ndarray | None) -> np.ndarray | None:
    """Numbers of bfloat16 as float32."""
    return x.astype(np.float32) if x is not None and x.dtype == ml_dtypes.bfloat16 else x


def test_a_cast_to_bfloat16_rounds(rng):
    x = rng.standard_normal((3, 40)).astype(np.float32)
    kinds = onnx.TensorProto.BFLOAT16, onnx.TensorProto.FLOAT
    nodes = [
        onnx.helper.make_node("Mul", ["x", "x"], ["square"]),
        onnx.helper.make_node("Cast", ["square"], ["narrow"], to=kinds[0]),
        onnx.helper.make_node("Cast", ["narrow"], ["wide"], to=kinds[1]),
        onnx.helper.make_node("Neg", ["narrow"], ["y"]),
    ]
    outputs = {"y": ml_dtypes.bfloat16, "wide": np.float32}
    session = InferenceSession(model_of(nodes, {"x": x}, (), outputs, opset=22))
    y, wide = session.run(None, {"x": x})
    rounded = (x * x).astype(ml_dtypes.bfloat16)
    assert y.dtype == ml_dtypes.bfloat16 and wide.dtype == np.float32
    np.testing.assert_array_equal(wide, rounded.astype(np.float32))
    np.testing.assert_array_equal(y.astype(np.float32), -rounded.astype(np.float32))
    assert [value.type for value in session.get_outputs()] == ["tensor(bfloat16)", "tensor(float)"]
