"""Operands of unusual shapes, signs and places, which look like usual ones by their size."""

from __future__ import annotations

import itertools

import numpy as np
import onnx
import pytest
from onnx import helper

from pplconv.network.session import InferenceSession
from tests.network.running import agree, by_onnxruntime, check, needs_onnxruntime, referred

RNG = np.random.default_rng(11)


def constant(*shape: int, dtype: str = "float32") -> np.ndarray:
    return RNG.standard_normal(shape).astype(dtype)


def model_of(
    nodes: list[onnx.NodeProto], inputs: dict[str, np.ndarray], constants: dict[str, np.ndarray],
    outputs: tuple[str, ...] = ("y",),
) -> onnx.ModelProto:  # fmt: skip
    kinds = {name: helper.np_dtype_to_tensor_dtype(x.dtype) for name, x in inputs.items()}
    first = next(iter(kinds.values()), onnx.TensorProto.FLOAT)
    graph = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info(name, kinds[name], x.shape) for name, x in inputs.items()],
        [helper.make_tensor_value_info(name, first, None) for name in outputs],
        [onnx.numpy_helper.from_array(np.asarray(x), name) for name, x in constants.items()],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 21)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


@needs_onnxruntime
@pytest.mark.parametrize("kernel", [3, 5])
@pytest.mark.parametrize("size", [(6, 20), (12, 12), (24, 30)])
def test_one_channel_among_others(kernel, size):
    """A convolution writes one channel of a joined array, and reads one of a divided one."""
    x = constant(1, 16, *size)
    pads = [kernel // 2] * 4
    nodes = [
        helper.make_node("Conv", ["x", "w2"], ["a"]),
        helper.make_node("Conv", ["x", "w"], ["b"], pads=pads),
        helper.make_node("Conv", ["x", "w2"], ["c"]),
        helper.make_node("Concat", ["a", "b", "c"], ["j"], axis=1),
        helper.make_node("Split", ["j", "parts"], ["p", "q"], axis=1),
        helper.make_node("Conv", ["p", "w3"], ["d"], pads=pads),
        helper.make_node("Concat", ["d", "q"], ["y"], axis=1),
    ]
    constants = {
        "w": constant(1, 16, kernel, kernel), "w2": constant(1, 16, 1, 1),
        "w3": constant(16, 1, kernel, kernel), "parts": np.array([1, 2]),
    }  # fmt: skip
    model = model_of(nodes, {"x": x}, constants)
    check(model, {"x": x}, expected=by_onnxruntime, allowed=1e-4)


@needs_onnxruntime
@pytest.mark.parametrize("shape", [(4, 1), (1, 4), (4,), (1,), (), (4, 4)])
@pytest.mark.parametrize("alpha", [1.0, 0.5])
def test_a_bias_of_rows_is_none_of_columns(shape, alpha):
    a = constant(4, 3)
    nodes = [helper.make_node("Gemm", ["a", "b", "c"], ["y"], alpha=alpha)]
    model = model_of(nodes, {"a": a}, {"b": constant(3, 4), "c": constant(*shape)})
    host = shape in ((4, 1), (4, 4))
    check(model, {"a": a}, host=host, expected=by_onnxruntime)


@needs_onnxruntime
@pytest.mark.parametrize("shape", [(4, 1), (1, 4), (4,), (1,), (4, 4)])
@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("given", [False, True])
def test_scales_of_other_shapes(shape, axis, given):
    x, scale = constant(4, 4), constant(*shape)
    nodes = [helper.make_node("LayerNormalization", ["x", "s"], ["y"], axis=axis)]
    feed = {"x": x} | ({"s": scale} if given else {})
    model = model_of(nodes, feed, {} if given else {"s": scale})
    session = InferenceSession(model, threads=1)
    agree(session.run(None, feed), by_onnxruntime(model, feed))


@pytest.mark.parametrize("index", [-3, -1, 0, 2])
def test_an_index_that_is_there(index):
    x = constant(3, 4)
    model = model_of(
        [helper.make_node("Gather", ["x", "i"], ["y"])], {"x": x}, {"i": np.array(index)}
    )
    check(model, {"x": x})


@pytest.mark.parametrize("index", [-4, 3, 5])
def test_an_index_beyond_the_array_is_an_error(index):
    x = constant(3, 4)
    model = model_of(
        [helper.make_node("Gather", ["x", "i"], ["y"])], {"x": x}, {"i": np.array(index)}
    )
    with pytest.raises(ValueError, match=r"index|indices|Gather"):
        InferenceSession(model).run(None, {"x": x})


def test_zeros_of_both_signs_are_two_constants():
    x = np.array([1.0, -1.0, 2.0], np.float32)
    nodes = [
        helper.make_node("Div", ["x", "plus"], ["a"]),
        helper.make_node("Div", ["x", "minus"], ["b"]),
        helper.make_node("Add", ["a", "b"], ["y"]),
    ]
    zeros = {"plus": np.float32(0.0), "minus": np.float32(-0.0)}
    (y,) = InferenceSession(model_of(nodes, {"x": x}, zeros)).run(None, {"x": x})
    assert np.isnan(y).all()


def test_outputs_have_arrays_of_their_own():
    x = constant(3)
    nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Neg", ["x"], ["z"])]
    session = InferenceSession(model_of(nodes, {"x": x}, {}, ("y", "z")))
    one, other = np.empty(3, np.float32), np.empty(3, np.float32)
    with pytest.raises(ValueError, match="share memory"):
        session.run(None, {"x": x}, out=[one, one])
    with pytest.raises(ValueError, match="output_names"):
        session.run(["y", "y"], {"x": x}, out=[one, other])
    first, second = session.run(["y", "y"], {"x": x})
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("after", ["HardSigmoid", "affine", "residual"])
def test_what_follows_a_convolution_of_halves(after):
    x = constant(1, 3, 6, 6, dtype="float16")
    nodes = [helper.make_node("Conv", ["x", "w"], ["a"])]
    if after == "HardSigmoid":
        nodes.append(helper.make_node("HardSigmoid", ["a"], ["y"]))
    else:
        other = "s" if after == "affine" else "r"
        nodes.append(helper.make_node("Relu", ["a"], ["b"]))
        nodes.append(helper.make_node("Mul" if after == "affine" else "Add", ["b", other], ["y"]))
    feed = {"x": x} | ({"r": constant(1, 4, 4, 4, dtype="float16")} if after == "residual" else {})
    weights = constant(4, 3, 3, 3, dtype="float16")
    constants = {"w": weights} | (
        {"s": constant(4, 1, 1, dtype="float16")} if after == "affine" else {}
    )
    model = model_of(nodes, feed, constants)
    got = InferenceSession(model, threads=1).run(None, feed)
    agree(got, referred(model, feed), 2e-2)


@needs_onnxruntime
def test_a_normalization_whose_mean_is_asked_for():
    x = constant(3, 8)
    nodes = [helper.make_node("LayerNormalization", ["x", "s"], ["y", "mean"])]
    model = model_of(nodes, {"x": x}, {"s": constant(8)}, ("y", "mean"))
    check(model, {"x": x}, host=True, expected=by_onnxruntime)


@needs_onnxruntime
@pytest.mark.parametrize("op", ["HardSigmoid", "Gelu", "Elu"])
def test_long_chains_are_cut(op):
    """However long a chain is, it runs; constants of attributes count as well."""
    x = constant(5, 7)
    names = ["x", *(f"v{i}" for i in range(23)), "y"]
    nodes = []
    for i, (before, name) in enumerate(itertools.pairwise(names)):
        options = {"approximate": "tanh"} if op == "Gelu" else {}
        if op == "HardSigmoid":
            options = {"alpha": 0.5 + i / 64, "beta": 0.25 + i / 128}
        nodes.append(helper.make_node(op, [before], [name], **options))
    check(model_of(nodes, {"x": x}, {}), {"x": x}, host=op == "Elu", expected=by_onnxruntime)


@needs_onnxruntime
def test_many_operands_of_one_sum():
    inputs = {f"x{i}": constant(3, 4) for i in range(30)}
    model = model_of([helper.make_node("Sum", list(inputs), ["y"])], inputs, {})
    session = InferenceSession(model, threads=1)
    agree(session.run(None, inputs), by_onnxruntime(model, inputs))


def test_operands_repeated_in_every_other_dimension():
    a, b = constant(2, 1, 2, 1, 2, 1, 2), constant(1, 3, 1, 3, 1, 3, 1)
    nodes = [helper.make_node("Add", ["a", "b"], ["y"])]
    model = model_of(nodes, {"a": a, "b": b}, {})
    got = InferenceSession(model, threads=1).run(None, {"a": a, "b": b})
    agree(got, [a + b])


def test_constants_of_no_dimension_stay_so():
    x = constant(3, 4)
    nodes = [helper.make_node("CumSum", ["x", "axis"], ["y"])]
    check(model_of(nodes, {"x": x}, {"axis": np.array(1)}), {"x": x}, host=True)


def test_a_convolution_of_padding_alone():
    x = np.empty((1, 2, 0, 5), np.float32)
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["y"], pads=[2, 0, 2, 0])]
    model = model_of(nodes, {"x": x}, {"w": constant(3, 2, 3, 3), "b": constant(3)})
    session = InferenceSession(model, threads=1)
    try:
        (y,) = session.run(None, {"x": x})
    except ValueError as error:
        assert "empty" in str(error) or "shape" in str(error)
    else:
        assert y.shape == (1, 3, 2, 3)


def test_lists_and_masks():
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    session = InferenceSession(model_of(nodes, {"x": constant(3)}, {}))
    (y,) = session.run(None, {"x": [-1, 0, 2]})
    np.testing.assert_array_equal(y, np.array([0, 0, 2], np.float32))
    with pytest.raises((TypeError, ValueError), match="mask"):
        session.run(None, {"x": np.ma.masked_array(constant(3), mask=[0, 1, 0])})
    raw = np.zeros(13, np.uint8)
    odd = raw[1:].view(np.float32)
    (y,) = session.run(None, {"x": odd})
    np.testing.assert_array_equal(y, np.zeros(3, np.float32))
    with pytest.raises(ValueError, match="aligned"):
        session.run(None, {"x": constant(3)}, out=[odd])


@pytest.mark.parametrize("shape", [(5,), (2, 1), (1, 1, 1, 4), (2, 3)])
def test_slopes_that_do_not_fit(shape):
    """A slope is stretched to its input, never the other way."""
    x = constant(2, 3, 4)
    model = model_of(
        [helper.make_node("PRelu", ["x", "s"], ["y"])], {"x": x}, {"s": constant(*shape)}
    )
    with pytest.raises(ValueError, match="PRelu"):
        InferenceSession(model).run(None, {"x": x})


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
def test_axes_that_are_not_there(axes):
    x = constant(2, 3, 4)
    model = model_of(
        [helper.make_node("ReduceSum", ["x", "a"], ["y"])], {"x": x}, {"a": np.array(axes)}
    )
    with pytest.raises(ValueError, match="ReduceSum"):
        InferenceSession(model).run(None, {"x": x})


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("how", [{"spatial_scale": 1e30}, {"sampling_ratio": 1 << 30}])
def test_regions_of_endless_points_are_refused(how, given):
    x, regions = constant(1, 2, 5, 5), np.array([[0, 0, 3, 2]], np.float32)
    nodes = [
        helper.make_node("RoiAlign", ["x", "regions", "i"], ["aligned"], **how),
        helper.make_node("Neg", ["aligned"], ["y"]),
    ]
    known = {"regions": regions, "i": np.zeros(1, np.int64)} | ({} if given else {"x": x})
    feed = {"x": x} if given else {}
    with pytest.raises(ValueError, match=r"RoiAlign of 'aligned'.*points"):
        InferenceSession(model_of(nodes, feed, known), threads=1, fallback=True).run(None, feed)


def test_an_error_in_python_names_the_node():
    x, index = constant(3, 4), np.array([0, 7])
    nodes = [
        helper.make_node("Gather", ["x", "i"], ["taken"]),
        helper.make_node("Neg", ["taken"], ["y"]),
    ]
    model = model_of(nodes, {"x": x, "i": index}, {})
    with pytest.raises(ValueError, match="cannot run Gather of 'taken': IndexError"):
        InferenceSession(model).run(None, {"x": x, "i": index})
