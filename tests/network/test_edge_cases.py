"""Operands of unusual shapes, signs and places, which look like usual ones by their size."""

from __future__ import annotations

import itertools

import numpy as np
import onnx
import pytest
from onnx import helper

from pplconv.network import folding
from pplconv.network.session import InferenceSession
from tests.network.graphs import Graph
from tests.network.models import model_of
from tests.network.quantizing import Quantized
from tests.network.running import agree, by_onnxruntime, needs_onnxruntime, one, referred, run


@pytest.fixture
def g() -> Graph:
    return Graph(11, opset=21)


@needs_onnxruntime
@pytest.mark.parametrize("kernel", [3, 5])
@pytest.mark.parametrize("size", [(6, 20), (12, 12), (24, 30)])
def test_one_channel_among_others(kernel, size, g):
    """A convolution writes one channel of a joined array, and reads one of a divided one."""
    x, pads = g.input(1, 16, *size), [kernel // 2] * 4
    w = g.random(1, 16, 1, 1)
    b = g.Conv(x, g.random(1, 16, kernel, kernel), pads=pads)
    joined = g.Concat(g.Conv(x, w), b, g.Conv(x, w), axis=1)
    p, q = g.Split(joined, g.constant([1, 2], np.int64), axis=1, outputs=2)
    y = g.Concat(g.Conv(p, g.random(16, 1, kernel, kernel), pads=pads), q, axis=1)
    one(g, y, expected=by_onnxruntime, allowed=1e-4)


@needs_onnxruntime
@pytest.mark.parametrize("shape", [(4, 1), (1, 4), (4,), (1,), (), (4, 4)])
@pytest.mark.parametrize("alpha", [1.0, 0.5])
def test_a_bias_of_rows_is_none_of_columns(shape, alpha, g):
    y = g.Gemm(g.input(4, 3), g.random(3, 4), g.random(*shape), alpha=alpha)
    one(g, y, host=shape in ((4, 1), (4, 4)), expected=by_onnxruntime)


@needs_onnxruntime
@pytest.mark.parametrize("shape", [(4, 1), (1, 4), (4,), (1,), (4, 4)])
@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("given", [False, True])
def test_scales_of_other_shapes(shape, axis, given, g):
    x, scale = g.input(4, 4), (g.input if given else g.random)(*shape)
    one(g, g.LayerNormalization(x, scale, axis=axis), host=None, expected=by_onnxruntime)


@pytest.mark.parametrize("index", [-3, -1, 0, 2])
def test_an_index_that_is_there(index, g):
    one(g, g.Gather(g.input(3, 4), g.constant(index, np.int64)))


@pytest.mark.parametrize("index", [-4, 3, 5])
def test_an_index_beyond_the_array_is_an_error(index, g):
    y = g.Gather(g.input(3, 4), g.constant(index, np.int64))
    with pytest.raises(ValueError, match=r"index|indices|Gather"):
        run(g.model(y), g.feed)


def test_zeros_of_both_signs_are_two_constants(g):
    x = g.input(3)
    g.feed[x] = np.array([1.0, -1.0, 2.0], np.float32)
    (y,) = run(g.model(g.Add(*(g.Div(x, g.constant(zero)) for zero in (0.0, -0.0)))), g.feed)
    assert np.isnan(y).all()


def test_outputs_have_arrays_of_their_own(g):
    x = g.input(3)
    y = g.Relu(x)
    session = InferenceSession(g.model(y, g.Neg(x)))
    first, other = np.empty(3, np.float32), np.empty(3, np.float32)
    with pytest.raises(ValueError, match="share memory"):
        session.run(None, g.feed, out=[first, first])
    with pytest.raises(ValueError, match="output_names"):
        session.run([y, y], g.feed, out=[first, other])
    np.testing.assert_array_equal(*session.run([y, y], g.feed))


@pytest.mark.parametrize("after", ["HardSigmoid", "affine", "residual"])
def test_what_follows_a_convolution_of_halves(after):
    g = Graph(11, opset=21, dtype=np.float16)
    y = g.Conv(g.input(1, 3, 6, 6), g.random(4, 3, 3, 3))
    if after == "HardSigmoid":
        y = g.HardSigmoid(y)
    elif after == "affine":
        y = g.Mul(g.Relu(y), g.random(4, 1, 1))
    else:
        y = g.Add(g.Relu(y), g.input(1, 4, 4, 4))
    model = g.model(y)
    agree(run(model, g.feed), referred(model, g.feed), 2e-2)


@needs_onnxruntime
def test_a_normalization_whose_mean_is_asked_for(g):
    outputs = g.LayerNormalization(g.input(3, 8), g.random(8), outputs=2)
    one(g, *outputs, expected=by_onnxruntime)


@needs_onnxruntime
@pytest.mark.parametrize("op", ["HardSigmoid", "Gelu", "Elu"])
def test_long_chains_are_cut(op, g):
    """However long a chain is, it runs; constants of attributes count as well."""
    y = g.input(5, 7)
    for i in range(24):
        options = {"approximate": "tanh"} if op == "Gelu" else {}
        if op == "HardSigmoid":
            options = {"alpha": 0.5 + i / 64, "beta": 0.25 + i / 128}
        y = getattr(g, op)(y, **options)
    one(g, y, expected=by_onnxruntime)


@needs_onnxruntime
def test_many_operands_of_one_sum(g):
    one(g, g.Sum(*(g.input(3, 4) for _ in range(30))), expected=by_onnxruntime)


def test_operands_repeated_in_every_other_dimension(g):
    a, b = g.input(2, 1, 2, 1, 2, 1, 2), g.input(1, 3, 1, 3, 1, 3, 1)
    agree(run(g.model(g.Add(a, b)), g.feed), [g.feed[a] + g.feed[b]])


def test_constants_of_no_dimension_stay_so(g):
    one(g, g.CumSum(g.input(3, 4), g.constant(1, np.int64)), host=True)


def test_a_convolution_of_padding_alone(g):
    y = g.Conv(g.input(1, 2, 0, 5), g.random(3, 2, 3, 3), g.random(3), pads=[2, 0, 2, 0])
    session = InferenceSession(g.model(y), threads=1)
    try:
        (got,) = session.run(None, g.feed)
    except ValueError as error:
        assert "empty" in str(error) or "shape" in str(error)
    else:
        assert got.shape == (1, 3, 2, 3)


def test_lists_and_masks(g):
    x = g.input(3)
    session = InferenceSession(g.model(g.Relu(x)))
    (y,) = session.run(None, {x: [-1, 0, 2]})
    np.testing.assert_array_equal(y, np.array([0, 0, 2], np.float32))
    with pytest.raises((TypeError, ValueError), match="mask"):
        session.run(None, {x: np.ma.masked_array(g.feed[x], mask=[0, 1, 0])})
    raw = np.zeros(13, np.uint8)
    odd = raw[1:].view(np.float32)
    (y,) = session.run(None, {x: odd})
    np.testing.assert_array_equal(y, np.zeros(3, np.float32))
    with pytest.raises(ValueError, match="aligned"):
        session.run(None, g.feed, out=[odd])


@pytest.mark.parametrize("shape", [(5,), (2, 1), (1, 1, 1, 4), (2, 3)])
def test_slopes_that_do_not_fit(shape, g):
    """A slope is stretched to its input, never the other way."""
    y = g.PRelu(g.input(2, 3, 4), g.random(*shape))
    with pytest.raises(ValueError, match="PRelu"):
        run(g.model(y), g.feed)


@needs_onnxruntime
@pytest.mark.parametrize(("op", "dtype"), [
    *itertools.product(["ReduceMax", "ReduceMin"], ["float32", "int32", "int64", "int8", "uint8"]),
    *itertools.product(["ReduceL1", "ReduceProd", "ReduceSum"], ["float32", "int32"]),
])  # fmt: skip
def test_axes_named_twice_are_taken_once(op, dtype, rng):
    x = rng.integers(0, 9, (2, 3, 4)).astype(dtype)
    for axes in ([1, 1], [1, -2], [0, -3], [1, 2, 1]):
        named = {"a": np.array(axes)}
        for feed, constants in ({"x": x}, named), ({"x": x} | named, {}):
            model = model_of([helper.make_node(op, ["x", "a"], ["y"])], feed, constants)
            agree(InferenceSession(model).run(None, feed), by_onnxruntime(model, feed))


@pytest.mark.parametrize("axes", [[0, 0], [0, -1]])
def test_shapes_that_follow_from_axes_named_twice(axes, rng, capfd):
    x = rng.standard_normal((2, 3, 4)).astype(np.float32)
    for op, nodes, want in (
        ("ReduceProd", [helper.make_node("Reshape", ["x", "size"], ["y"])], x.reshape(24)),
        ("ReduceMax", [helper.make_node("ConstantOfShape", ["size"], ["y"])], np.zeros(4)),
    ):
        shape = helper.make_node("Shape", ["x"], ["shape"])
        reduced = helper.make_node(op, ["shape", "a"], ["size"])
        model = model_of([shape, reduced, *nodes], {"x": x}, {"a": np.array(axes)})
        (y,) = InferenceSession(model).run(None, {"x": x})
        np.testing.assert_array_equal(y, want)
    assert "failed" not in "".join(capfd.readouterr())


@needs_onnxruntime
def test_indices_with_fractions_go_toward_zero():
    index = np.array([0.5, -0.5, 1.9, -1.5, -3.9, 2.99, 3.2, np.inf, np.nan], np.float32)
    feed = {"i": index, "d": np.float32(3), "v": np.array([0, 1], np.float32)}
    feed = {name: np.asarray(x) for name, x in feed.items()}
    model = model_of([helper.make_node("OneHot", ["i", "d", "v"], ["y"])], feed, {})
    agree(InferenceSession(model).run(None, feed), by_onnxruntime(model, feed))


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int64", "uint64"])
def test_indices_of_few_bits_and_a_large_depth(dtype):
    index = np.array([0, 5, np.iinfo(dtype).max, -3 if dtype.startswith("i") else 7], dtype)
    constants = {"d": np.array(300), "v": np.array([0, 1], np.float32)}
    model = model_of([helper.make_node("OneHot", ["i", "d", "v"], ["y"])], {"i": index}, constants)
    model.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    (y,) = InferenceSession(model).run(None, {"i": index})
    want = np.zeros((4, 300), np.float32)
    for row, number in zip(want, index.tolist(), strict=True):
        if -300 <= number < 300:
            row[number] = 1
    np.testing.assert_array_equal(y, want)


@pytest.mark.parametrize("axes", [[3], [-4]])
def test_axes_that_are_not_there(axes, g):
    y = g.ReduceSum(g.input(2, 3, 4), g.constant(axes, np.int64))
    with pytest.raises(ValueError, match="ReduceSum"):
        run(g.model(y), g.feed)


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("how", [{"spatial_scale": 1e30}, {"sampling_ratio": 1 << 30}])
def test_regions_of_endless_points_are_refused(how, given, g):
    x = (g.input if given else g.random)(1, 2, 5, 5)
    aligned = g.RoiAlign(x, g.constant([[0, 0, 3, 2]]), g.constant([0], np.int64), **how)
    with pytest.raises(ValueError, match=rf"RoiAlign of '{aligned}'.*points"):
        run(g.model(g.Neg(aligned)), g.feed, fallback="silent")


def test_an_error_in_python_names_the_node(g):
    x, index = g.input(3, 4), g.input(2, dtype=np.int64)
    g.feed[index] = np.array([0, 7])
    taken = g.Gather(x, index)
    with pytest.raises(ValueError, match=f"cannot run Gather of '{taken}': IndexError"):
        run(g.model(g.Neg(taken)), g.feed)


# Bounds of a Clip that cross


BOUNDS = [(2.0, 1.0), (0.5, -0.25), (np.inf, 3.0), (1.0, -np.inf)]


# A product, or an input, whose result is clipped.
CLIPPED = {
    "Conv": lambda g, x: g.conv(x, 4, (3, 3, 3)),
    "grouped": lambda g, x: g.conv(x, 6, (1, 3, 3), group=3),
    "ConvTranspose": lambda g, x: g.ConvTranspose(x, g.random(3, 2, 2, 2), strides=[2, 2]),
    "MatMul": lambda g, x: g.Add(g.MatMul(x, g.random(5, 7)), g.random(7)),
    "input": lambda g, x: x,
}


@needs_onnxruntime
@pytest.mark.parametrize("name", CLIPPED)
@pytest.mark.parametrize("bounds", BOUNDS)
def test_crossed_bounds(name, bounds, g):
    """ONNX has the upper one everywhere: ``min(max(x, low), high)``."""
    y = g.Clip(CLIPPED[name](g, g.input(2, 3, 6, 5)), *(g.constant(bound) for bound in bounds))
    (got,) = one(g, y, expected=by_onnxruntime)
    assert (got == np.float32(bounds[1])).all()


@needs_onnxruntime
@pytest.mark.parametrize(
    "order", [("Max", "Min"), ("Min", "Max"), ("Relu", "Min"), ("Clip", "Relu")]
)
def test_the_last_bound_decides(order, g):
    y = CLIPPED["Conv"](g, g.input(2, 3, 6, 5))
    for operator, bound in zip(order, (1.5, -0.5), strict=True):
        if operator == "Relu":
            y = g.Relu(y)
        elif operator == "Clip":
            y = g.Clip(y, g.constant(-1), g.constant(-2))
        else:
            y = getattr(g, operator)(y, g.constant(bound))
    one(g, y, expected=by_onnxruntime)


@needs_onnxruntime
@pytest.mark.parametrize("bounds", BOUNDS[:2])
def test_crossed_bounds_of_integers(bounds):
    g = Quantized()
    low, high = (g.constant(bound, np.float32) for bound in bounds)
    y = g.pair(g.Clip(g.qconv(g.image(), 4, (8, 3, 3)), low, high))
    one(g, y, host=None, expected=by_onnxruntime)


# Constants that stay as they are


@pytest.fixture
def unfolded(monkeypatch):
    """Constants that are too large to be folded."""
    monkeypatch.setattr(folding, "FOLD_BYTES", 64)


@pytest.mark.usefixtures("unfolded")
@pytest.mark.parametrize("part", ["Split", "Slice", "Identity"])
def test_parts_of_constants_that_are_not_folded(part, g):
    x, c = g.input(2, 3, 5, 8), g.random(4, 3, 5, 8)
    if part == "Split":
        a, b = g.Split(c, axis=0, num_outputs=2, outputs=2)
    elif part == "Slice":
        a = b = g.Slice(c, *(g.constant([n], np.int64) for n in (1, 3)))
    else:
        a = b = g.Identity(g.random(2, 3, 5, 8))
    one(g, g.Add(g.Add(x, a), b))


@pytest.mark.usefixtures("unfolded")
@pytest.mark.parametrize("product", [False, True])
def test_constants_of_another_type_that_are_not_folded(product, g):
    x, c = g.input(40, 40), g.constant(g.rng.standard_normal((40, 40)), np.float16)
    wide = g.Cast(c, to=1)
    one(g, g.MatMul(x, wide) if product else g.Add(x, wide))
