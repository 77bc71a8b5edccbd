"""Operators that compute each element, and those that move them, as networks of one node."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from pplconv.network.operators.table import EXPRESSIONS, ROWS
from pplconv.network.session import InferenceSession
from tests.network.graphs import Graph
from tests.network.running import by_onnxruntime, needs_onnxruntime, on_host, one
from tests.network.test_truths import COMPARISONS, CURVES, LOGIC

both_types = pytest.mark.parametrize("dtype", [np.float32, np.float64])
SHAPE = (2, 3, 4, 5)


# Element by element


UNARY = [
    ("Celu", {}), ("Celu", {"alpha": 1.7}), ("Elu", {}), ("Elu", {"alpha": 0.4}), ("Selu", {}),
    ("Selu", {"alpha": 0.7, "gamma": 2.0}),
    ("Abs", {}), ("Ceil", {}), ("Clip", {}), ("Erf", {}), ("Exp", {}), ("Floor", {}), ("Gelu", {}),
    ("Gelu", {"approximate": "tanh"}), ("HardSigmoid", {}), ("HardSigmoid", {"alpha": 0.3}),
    ("HardSigmoid", {"alpha": 0.1, "beta": 0.7}), ("HardSwish", {}), ("LeakyRelu", {}),
    ("LeakyRelu", {"alpha": 0.3}), ("LeakyRelu", {"alpha": -1.5}), ("Log", {}), ("Neg", {}),
    ("Reciprocal", {}), ("Relu", {}), ("Round", {}), ("Sigmoid", {}), ("Sqrt", {}), ("Swish", {}),
    ("Swish", {"alpha": 1.7}), ("Softplus", {}), ("Mish", {}), ("Tanh", {}), ("Max", {}),
    ("Min", {}), ("Sum", {}), ("Mean", {}),
]  # fmt: skip
BINARY = ["Add", "Sub", "Mul", "Div", "Max", "Min", "Sum", "Mean", "PRelu"]
POSITIVE = {"Log", "Sqrt"}
BROADCASTS = [(5,), (1,), (), (4, 1), (3, 1, 1), (1, 4, 5), (2, 1, 4, 1), (1, 3, 1, 5), SHAPE]


@both_types
@pytest.mark.parametrize(("op", "attributes"), UNARY, ids=str)
@pytest.mark.parametrize("shape", [SHAPE, (7,), (), (3, 1, 700)])
def test_unary(op, attributes, shape, dtype, g):
    if op == "Celu":  # ONNX has it in single precision alone
        g, dtype = Graph(), np.float32
    x = g.input(*shape)
    g.feed[x] = np.asarray(3 * g.feed[x], dtype)
    if op in POSITIVE:
        g.feed[x] = np.abs(g.feed[x]) + dtype(0.1)
    # The reference computes some in single precision.
    rough = dtype == np.float64 and op in ("Erf", "Gelu", "HardSwish", "HardSigmoid")
    one(g, getattr(g, op)(x, **attributes), allowed=1e-6 if rough else None)


@both_types
@pytest.mark.parametrize("op", BINARY)
@pytest.mark.parametrize("known", [False, True])
def test_binary(op, known, dtype):
    for shape in BROADCASTS:
        g = Graph(2, dtype=dtype)
        x = g.input(*SHAPE)
        y = g.positive(*shape) if known else g.input(*shape)
        if op == "Div" and not known:
            g.feed[y] = np.asarray(np.abs(g.feed[y]) + dtype(0.5), dtype)
        if op == "Add" and shape == SHAPE:
            one(g, g.Add(y, x))
        one(g, getattr(g, op)(x, y))


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Max"])
@pytest.mark.parametrize(
    ("a", "b"), [((4, 1), (1, 5)), ((2, 1, 1, 5), (3, 4, 1)), ((1, 3, 1, 1), SHAPE), ((), (3,))]
)
def test_both_are_broadcast(op, a, b, g):
    one(g, getattr(g, op)(g.input(*a), g.input(*b)))


@both_types
@pytest.mark.parametrize("op", ["Max", "Min", "Sum", "Mean"])
def test_several_operands(op, dtype):
    for count in (3, 5, 9):
        g = Graph(4, dtype=dtype)
        shapes = itertools.islice(itertools.cycle([SHAPE, (5,), (3, 1, 1), SHAPE]), count)
        one(g, getattr(g, op)(*(g.input(*shape) for shape in shapes)))


def test_more_operands_than_registers(g):
    one(g, g.Sum(*(g.input(3, 4) for _ in range(40))))


@both_types
@pytest.mark.parametrize("exponent", [2.0, 1.0, 0.5, 3.0, -1.0, 2.5])
def test_power(exponent, dtype):
    for known in (False, True):
        g = Graph(6, dtype=dtype)
        x = g.input(*SHAPE)
        g.feed[x] = np.asarray(np.abs(g.feed[x]) + dtype(0.1), dtype)
        e = g.constant(exponent) if known else g.input()
        g.feed |= {} if known else {e: np.asarray(exponent, dtype)}
        one(g, g.Pow(x, e))


@both_types
@pytest.mark.parametrize(
    "bounds", [(-0.5, 0.5), (None, 0.25), (0.0, None), (0.5, -0.5), (-math.inf, math.inf)]
)
def test_clip(bounds, dtype):
    for known in (False, True):
        g = Graph(7, dtype=dtype)
        x = g.input(3, 50)
        names = []
        for bound in bounds:
            if bound is None:
                names.append("")
                continue
            names.append(g.constant(bound) if known else g.input())
            g.feed |= {} if known else {names[-1]: np.asarray(bound, dtype)}
        one(g, g.Clip(x, *names))


@pytest.mark.parametrize("dtype", [np.int64, np.int32])
@pytest.mark.parametrize("op", ["Add", "Relu", "Sub"])
def test_integers_run_in_loops(op, dtype):
    g = Graph(8, dtype=dtype)
    x, y = g.input(3, 4), g.input(3, 4)
    one(g, getattr(g, op)(*((x,) if op == "Relu" else (x, y))))


def test_other_integers_run_in_python():
    g = Graph(8, dtype=np.int16)
    one(g, g.Add(g.input(3, 4), g.input(3, 4)), host=True)


def test_special_numbers():
    """NaN and infinities go where the reference has them."""
    for op in ("Relu", "Clip", "Tanh", "Sigmoid", "Exp", "Abs", "HardSwish", "Erf", "Sqrt"):
        g = Graph(9)
        x = g.input(1, 3)
        g.feed[x] = np.array([[np.inf, 0.0, 2.0]], np.float32)
        one(g, getattr(g, op)(x))


# Moves


def test_transpose():
    for perm in itertools.permutations(range(4)):
        g = Graph(10)
        x = g.input(*SHAPE)
        one(g, g.Transpose(x, perm=perm), g.Relu(g.Transpose(x, perm=perm)))
    g = Graph(11)
    one(g, g.Transpose(g.input(3, 4, 5)))


@both_types
def test_shapes(dtype, g):
    x = g.input(2, 3, 4, 5)
    one(
        g,
        g.Reshape(x, g.constant([6, -1], np.int64)),
        g.Reshape(x, g.constant([0, 0, 20], np.int64)),
        g.Flatten(x, axis=2),
        g.Flatten(x, axis=0),
        g.Flatten(g.Transpose(x, perm=[0, 2, 3, 1])),
        g.Unsqueeze(x, g.constant([0, -1], np.int64)),
        g.Squeeze(g.Unsqueeze(x, g.constant([0, 3], np.int64)), g.constant([3], np.int64)),
        g.Identity(x),
    )


@pytest.mark.parametrize("target", [(3, 4, 5), (1, 4, 5), (2, 3, 4, 5), (3, 1, 5)])
def test_expand(target, g):
    x = g.input(3, 1, 5)
    y = g.Expand(x, g.constant(target, np.int64))
    one(g, y, g.Tanh(y))


@pytest.mark.parametrize("axis", [0, 1, 2, 3, -1])
@pytest.mark.parametrize(
    ("start", "end", "step"),
    [(0, 1, 1), (1, 100, 1), (-2, 2**60, 1), (0, -1, 1), (0, 100, 2), (1, 100, 3), (1, 1, 1)],
)
def test_slice(axis, start, end, step, g):
    x = g.input(4, 5, 6, 7)
    names = [g.constant([n], np.int64) for n in (start, end, axis, step)]
    y = g.Slice(x, *names)
    one(g, y, g.Relu(y))


@pytest.mark.parametrize("axes", [(1, 3), (-1, -3), (2, 0)])
def test_slice_of_several_axes(axes, g):
    x = g.input(4, 5, 6, 7)
    starts, ends, steps = ([1, 2], [4, 6], [1, 2])
    names = [g.constant(n, np.int64) for n in (starts, ends, axes, steps)]
    one(g, g.Slice(x, *names))


@pytest.mark.parametrize("axis", [0, 1, 2, 3, -2])
def test_split_and_concat(axis):
    sizes = [1, 2, 3]
    shape = [2, 3, 4, 5]
    shape[axis] = 6
    g = Graph(17)
    x = g.input(*shape)
    parts = g.Split(x, g.constant(sizes, np.int64), axis=axis, outputs=3)
    one(g, *parts, g.Concat(parts[2], parts[0], parts[1], axis=axis))
    g = Graph(18)
    one(g, *g.Split(g.input(*shape), axis=axis, num_outputs=4, outputs=4))


@both_types
@pytest.mark.parametrize("axis", [0, 1, 2, 3, -1])
def test_concat(axis, dtype, g):
    """Inputs, constants, what is computed, and the same thing twice."""
    x, y = g.input(*SHAPE), g.input(*SHAPE)
    z = g.Exp(x)
    whole = g.Concat(x, z, g.random(*SHAPE), y, z, axis=axis)
    one(g, whole, g.Relu(whole), z)


def test_concat_of_concats(g):
    x = g.input(1, 4, 5, 6)
    a, b = g.Relu(x), g.Tanh(x)
    inner = g.Concat(a, b, axis=1)
    one(g, g.Concat(g.Sigmoid(inner), inner, a, axis=1), g.Neg(inner))


PADS = [
    [0, 0, 1, 2, 0, 0, 3, 0],
    [1, 1, 1, 1, 1, 1, 1, 1],
    [0, 2, 0, 0, 0, 0, 0, 5],
    [0, 0, -1, 1, 0, 0, 0, -2],
    [0, -2, 0, 0, 0, 2, 0, 0],
    [0, 0, 0, 0, 0, 0, 0, 0],
]


@both_types
@pytest.mark.parametrize("pads", PADS, ids=str)
@pytest.mark.parametrize("value", [None, 2.5, -math.inf])
def test_pad(pads, value, dtype, g):
    more = () if value is None else (g.constant(value),)
    x = g.input(*SHAPE)
    sides = np.reshape(pads, (2, 4)).T
    padded = np.pad(g.feed[x], np.maximum(sides, 0), constant_values=value or 0)
    # Negative pads take elements away.
    cut = tuple(
        slice(max(-a, 0), n - max(-b, 0)) for (a, b), n in zip(sides, padded.shape, strict=True)
    )
    y = g.Pad(x, g.constant(pads, np.int64), *more)
    one(g, y, expected=lambda model, feed: [padded[cut]])


@pytest.mark.parametrize("axes", [(1, 3), (-1, 0), (2,)])
def test_pad_of_some_axes(axes, g):
    amounts = g.constant([1, 2, 3, 0][: 2 * len(axes)], np.int64)
    one(g, g.Pad(g.input(*SHAPE), amounts, g.constant(1.0), g.constant(axes, np.int64)))


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("index", [0, 1, -1])
def test_gather_of_one_index(axis, index, g):
    y = g.Gather(g.input(3, 4, 5), g.constant(index, np.int64), axis=axis)
    one(g, y, g.Relu(y))


def test_gather_of_several(g):
    one(g, g.Gather(g.input(3, 4), g.constant([2, 0], np.int64), axis=1))


@pytest.mark.parametrize("kind", [np.int8, np.int16, np.int32, np.int64, np.uint8, np.bool_])
def test_other_types_are_moved(kind):
    g = Graph(26, dtype=kind)
    x = g.input(2, 3, 4)
    parts = [g.Transpose(x, perm=[0, 2, 1]) for _ in range(2)]
    one(g, g.Concat(*parts, axis=2))


@both_types
@pytest.mark.parametrize("mode", ["edge", "reflect", "wrap"])
@pytest.mark.parametrize(
    "pads",
    [
        (0, 0, 1, 2, 0, 0, 3, 1), (0, 0, 0, 4, 0, 0, 0, 4), (1, 2, 0, 0, 1, 0, 0, 0),
        (0, 0, -1, 2, 0, 0, 3, -2), (0, -1, 0, 0, 0, -1, -1, 0), (0, 0, 3, 4, 0, 0, 3, 4),
    ],
    ids=str,
)  # fmt: skip
def test_pads_of_own_elements(mode, pads, dtype, g):
    """NumPy's, of the part that negative pads leave."""
    x = g.input(*SHAPE)
    pixels = g.conv(x, 3, (3, 1, 1))
    padded = [g.Pad(value, g.constant(pads, np.int64), mode=mode) for value in (x, pixels)]
    session = InferenceSession(g.model(pixels, *padded), threads=1)
    beside, *got = session.run(None, g.feed)
    assert not on_host(session)
    before, after = pads[:4], pads[4:]
    parts = tuple(
        slice(max(-b, 0), n - max(-e, 0)) for n, b, e in zip(SHAPE, before, after, strict=True)
    )
    around = [(max(b, 0), max(e, 0)) for b, e in zip(before, after, strict=True)]
    for array, result in zip((g.feed[x], beside), got, strict=True):
        np.testing.assert_array_equal(result, np.pad(array[parts], around, mode=mode))


BLOCKED = {
    "DCR": ("DepthToSpace", (2, 24, 3, 5)), "CRD": ("DepthToSpace", (2, 24, 3, 5)),
    "": ("SpaceToDepth", (2, 3, 6, 10)),
}  # fmt: skip


@needs_onnxruntime
@pytest.mark.parametrize("mode", BLOCKED)
def test_blocks_of_pixels(mode):
    """Of images beside pixels, in planes, and of parts of either."""
    op, whole = BLOCKED[mode]
    attributes = {"blocksize": 2, **({"mode": mode} if mode else {})}
    for shape in (whole, (1, *whole[1:]), (3, whole[1], 2, 2)):
        g = Graph(27)
        x = g.input(*shape)
        wide = g.conv(x, shape[1], (shape[1], 1, 1))
        flat = g.Transpose(g.input(*(shape[i] for i in (0, 2, 3, 1))), perm=[0, 3, 1, 2])
        results = [getattr(g, op)(value, **attributes) for value in (x, wide, flat)]
        one(g, *results, expected=by_onnxruntime)


def test_every_operator_has_a_test():
    """A name that is added to the tables belongs into these modules."""
    elsewhere = {
        "ArgMax", "ArgMin", "AveragePool", "Cast", "Conv", "ConvTranspose", "GRU", "GatherElements",
        "GatherND", "Gemm", "GlobalAveragePool", "GlobalMaxPool", "LSTM", "LayerNormalization",
        "LogSoftmax", "MatMul", "MaxPool", "OneHot", "RNN", "ReduceL2", "ReduceMax", "ReduceMean",
        "ReduceMin", "ReduceSum", "ReduceSumSquare", "Resize", "RoiAlign", "ScatterElements",
        "ScatterND", "Softmax", "Tile",
    }  # fmt: skip
    here = {
        "Concat", "DepthToSpace", "Expand", "Flatten", "Gather", "Identity", "Pad", "Reshape",
        "Slice", "SpaceToDepth", "Split", "Squeeze", "Transpose", "Unsqueeze",
    }  # fmt: skip
    own = {"pplconv.Conv", "pplconv.ConvTranspose", "pplconv.Linear", "pplconv.Reformat"}
    quantized = {
        "DequantizeLinear", "DynamicQuantizeLinear", "QuantizeLinear", "pplconv.QuantizedAdd",
        "pplconv.QuantizedAverage", "pplconv.QuantizedConv", "pplconv.QuantizedConvTranspose",
        "pplconv.QuantizedLinear",
    }  # fmt: skip
    lowered = {op for op, row in ROWS.items() if row.loops is not None}
    assert lowered == elsewhere | here | own | quantized
    curves = {"Pow", "Clip", "Softsign"} | set(CURVES)
    truths = {"Cast", "IsInf", "IsNaN", "Mod", "Not", "Shrink", "Sign", "Where"}
    truths |= {*COMPARISONS, *LOGIC}
    assert set(EXPRESSIONS) == {op for op, _ in UNARY} | set(BINARY) | curves | truths
