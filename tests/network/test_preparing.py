"""Preparing a model: once, and once for each set of input shapes."""

from __future__ import annotations

import threading

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from pplconv import InferenceSession
from pplconv.network import folding
from pplconv.network.checking import OLDEST_OPSET
from pplconv.network.loading import load
from pplconv.network.opsets import OPSET
from pplconv.network.preparing import prepare, specialize
from tests.network.evaluating import evaluate
from tests.network.graphs import Graph, fused, operators, rewritten

pytestmark = pytest.mark.unemulated("reads and rewrites graphs, which no machine changes")


def of_opset(opset: int) -> Graph:
    """Operators whose definitions changed between opsets."""
    g = Graph(opset=opset)
    x = g.input(1, 4, 6, 6)
    y = g.conv(x, 4, (4, 3, 3), pads=[1, 1, 1, 1])
    y = g.batch_norm(y, 4, epsilon=1e-3)
    if opset >= 11:
        y = g.Clip(y, g.constant(-1), g.constant(1))
        y = g.Pad(y, g.constant([0, 0, 1, 1, 0, 0, 1, 1], np.int64))
    else:
        y = g.Clip(y, min=-1.0, max=1.0)
        y = g.Pad(y, pads=[0, 0, 1, 1, 0, 0, 1, 1])
    y = g.conv(y, 4, (4, 3, 3))
    y = g.AveragePool(y, kernel_shape=[2, 2], strides=[2, 2])
    if opset >= 13:
        y = g.Squeeze(g.ReduceSum(y, g.constant([2], np.int64)), g.constant([2], np.int64))
    else:
        y = g.Squeeze(g.ReduceSum(y, axes=[2]), axes=[2])
    g.last = g.Softmax(g.Dropout(y), axis=2)
    return g


@pytest.mark.parametrize("opset", [*range(7, 19), *range(20, 25)])
def test_all_opsets(opset):
    g = of_opset(opset)
    result = rewritten(g, g.last)
    assert result.model.opset_imports[""] == OPSET
    assert operators(result)["pplconv::Conv"] == 2
    assert not {"Pad", "Dropout", "BatchNormalization", "Clip"} & set(operators(result))


@pytest.mark.parametrize(
    ("shape", "perm"),
    [
        # Above and below the size from which on they are copied in blocks, with whole blocks and
        # without; the last axis stays, moves, or has one element.
        ((256, 192), (1, 0)), ((130, 257), (1, 0)), ((9, 100), (1, 0)),
        ((70, 65, 3, 3), (2, 3, 1, 0)), ((70, 65, 3, 3), (1, 0, 2, 3)),
        ((3, 64, 128, 1), (3, 2, 0, 1)), ((5, 1, 130, 66), (1, 3, 2, 0)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8, np.int64])
def test_transposed_constants(shape, perm, dtype):
    g = Graph(dtype=dtype)
    array = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    x = g.input(*array.transpose(perm).shape)
    prepared = prepare(load(g.model(g.Add(x, g.Transpose(g.constant(array), perm=perm)))))
    (value,) = prepared.model.graph.initializers.values()
    found = value.const_value.numpy()
    assert found.dtype == dtype and found.flags.c_contiguous
    assert (found == array.transpose(perm)).all()


def test_the_oldest_opset():
    """onnxruntime does not compute it, so the next opset judges it."""
    outputs = []
    for opset in (OLDEST_OPSET, OLDEST_OPSET + 1):
        g = of_opset(opset)
        outputs += InferenceSession(g.model(g.last), threads=1).run(None, g.feed)
    assert outputs[0].tobytes() == outputs[1].tobytes()


def test_an_opset_that_is_too_old():
    g = of_opset(OLDEST_OPSET - 1)
    with pytest.raises(ValueError, match=f"of opset 5: expected one from {OLDEST_OPSET} to"):
        load(g.model(g.last))


def test_the_newest_opset():
    g = of_opset(onnx.defs.onnx_opset_version())
    prepared = prepare(load(g.model(g.last)))
    special = specialize(prepared.model, {"x1": (1, 4, 6, 6)})
    assert len(fused(special)) == 2


def test_declared_shapes_are_not_believed(g):
    y = g.Relu(g.conv(g.input(1, 4, 6, 6), 5, (4, 3, 3)))
    model = g.model(y)
    wrong = helper.make_tensor_value_info("conv4", TensorProto.FLOAT, [9, 9])
    model.graph.value_info.append(wrong)
    model.graph.output[0].type.tensor_type.shape.dim.add(dim_value=77)
    special = specialize(prepare(load(model)).model, {})
    assert tuple(special.model.graph.outputs[0].shape) == (1, 5, 4, 4)
    np.testing.assert_array_equal(
        evaluate(special.model, g.feed)[0].shape, evaluate(load(g.model(y)), g.feed)[0].shape
    )


@pytest.mark.parametrize("size", ["?", "n", -1, None])
def test_sizes_that_are_unknown_alike_are_not_equal(size, g):
    y = g.Add(g.Relu(g.conv(g.input(1, 4, 6, 6), 4, (4, 1, 1))), g.input(1, 1, 1, 1))
    for name in g.inputs:
        g.inputs[name] = (g.inputs[name][0], (size,) * 4)
    assert operators(rewritten(g, y)) == {"pplconv::Conv": 1, "Add": 1}


def test_weights_that_are_also_inputs_are_constants():
    g = Graph(opset=9)
    y = g.conv(g.input(1, 4, 6, 6), 5, (4, 3, 3))
    model = g.model(y)
    for weight in model.graph.initializer:
        info = helper.make_tensor_value_info(weight.name, weight.data_type, weight.dims)
        model.graph.input.append(info)
    special = specialize(prepare(load(model)).model, {})
    assert [value.name for value in special.model.graph.inputs] == ["x1"]
    assert len(fused(special)) == 1


def test_constants_as_nodes(g):
    w = g.Constant(value=onnx.numpy_helper.from_array(np.ones((5, 4, 3, 3), np.float32)))
    y = g.Mul(g.Conv(g.input(1, 4, 6, 6), w), g.Constant(value_float=2.0))
    assert operators(rewritten(g, y)) == {"pplconv::Conv": 1}


def test_sizes_computed_at_run_time_are_folded(g):
    x = g.input(2, 3, 4, free=True)
    shape = g.Shape(x)
    rows = g.Gather(shape, g.constant([1], np.int64))
    y = g.Reshape(x, g.Concat(g.constant([-1], np.int64), rows, axis=0))
    filled = g.Expand(g.constant([[1.0]]), g.Shape(y))
    counted = g.Cast(
        g.Range(g.constant(0, np.int64), g.Squeeze(rows), g.constant(1, np.int64)),
        to=TensorProto.FLOAT,
    )
    zeros = g.ConstantOfShape(g.Shape(y))
    result = rewritten(g, g.Add(g.Mul(y, g.Add(filled, zeros)), counted))
    assert set(operators(result)) == {"Reshape", "Add"}


def test_branches_on_shapes_are_taken(g):
    x = g.input(2, 3, free=True)
    results = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in ("a", "b")]
    bodies = [
        helper.make_graph([helper.make_node(op, [x], [r.name])], "body", [], [r])
        for op, r in zip(("Relu", "Tanh"), results, strict=True)
    ]
    rows = g.Gather(g.Shape(x), g.constant(0, np.int64))
    flag = g.Equal(rows, g.constant(2, np.int64))
    y = g.If(flag, then_branch=bodies[0], else_branch=bodies[1])
    assert set(operators(rewritten(g, g.Exp(y)))) == {"Relu", "Exp"}


def test_folding_is_bounded(monkeypatch):
    monkeypatch.setattr(folding, "FOLD_BYTES", 1000)
    g = Graph()
    large = g.Expand(g.constant([1.0]), g.constant([20, 20], np.int64))
    small = g.Expand(g.constant([1.0]), g.constant([5, 20], np.int64))
    y = g.Add(g.input(20, 20), g.Tanh(large))
    result = operators(rewritten(g, y, g.Add(g.input(5, 20), g.Tanh(small))))
    assert result["Expand"] == 1 and result["Tanh"] == 1


def test_huge_constants_are_not_made(g):
    huge = g.Expand(g.constant([1.0]), g.constant([1 << 20, 1 << 20], np.int64))
    tiled = g.Tile(g.constant([1.0]), g.constant([1 << 40], np.int64))
    filled = g.ConstantOfShape(g.constant([1 << 20, 1 << 20], np.int64))
    x = g.input(1)
    prepared = prepare(load(g.model(g.Add(x, huge), g.Add(x, tiled), g.Add(x, filled))))
    special = specialize(prepared.model, {"x2": (1,)} if "x2" in g.inputs else {})
    assert {"Expand", "Tile", "ConstantOfShape"} <= set(operators(special))


def test_repeated_constants_take_no_memory(monkeypatch):
    monkeypatch.setattr(folding, "_VIEW_BYTES", 1000)
    g = Graph()
    w = g.ConstantOfShape(g.constant([8, 4, 3, 3], np.int64))
    special = rewritten(g, g.Conv(g.input(1, 4, 6, 6), w))
    (node,) = fused(special)
    assert node.inputs[1].const_value.numpy().strides == (0, 0, 0, 0)


def test_many_large_constants_are_not_made_either(monkeypatch):
    monkeypatch.setattr(folding, "_TOTAL_BYTES", 2500)
    g = Graph()
    x = g.input(250)
    made = [g.Expand(g.constant([float(i)]), g.constant([250], np.int64)) for i in range(6)]
    result = operators(rewritten(g, *(g.Add(x, value) for value in made)))
    # Two of them in each of the two stages.
    assert result["Expand"] == 2


def test_the_model_given_is_left_alone():
    g = of_opset(12)
    model = load(g.model(g.last))
    nodes = [node.op_type for node in model.graph]
    prepared = prepare(model)
    middle = [node.op_type for node in prepared.model.graph]
    for _ in range(2):
        specialize(prepared.model, {"x1": (1, 4, 6, 6)})
    assert [node.op_type for node in model.graph] == nodes
    assert [node.op_type for node in prepared.model.graph] == middle


def test_weights_are_shared_between_shapes(g):
    x = g.input(1, 4, 6, 6, free=True)
    g.inputs[x] = (g.inputs[x][0], ("n", 4, "h", "w"))
    prepared = prepare(load(g.model(g.Relu(g.conv(x, 5, (4, 3, 3))))))
    (one,), (two,) = (fused(specialize(prepared.model, {x: (1, 4, size, 6)})) for size in (6, 8))
    assert np.shares_memory(one.inputs[1].const_value.numpy(), two.inputs[1].const_value.numpy())


def test_many_threads_at_once():
    g = of_opset(17)
    prepared = prepare(load(g.model(g.last)))
    results = []

    def work():
        for _ in range(5):
            special = specialize(prepared.model, {"x1": (1, 4, 6, 6)})
            results.append((operators(special), str(special.fired)))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 20 and all(result == results[0] for result in results)


def test_inputs_that_are_shapes(g):
    x = g.input(2, 6)
    g.inputs["shape"] = (np.dtype(np.int64), (3,))
    prepared = prepare(load(g.model(g.Tanh(g.Reshape(x, "shape")))))
    for shape in ((3, 2, 2), (1, 4, 3)):
        special = specialize(prepared.model, {}, {"shape": np.array(shape)})
        assert [value.name for value in special.model.graph.inputs] == [x]
        assert tuple(special.model.graph.outputs[0].shape) == shape
    special = specialize(prepared.model, {})
    assert special.model is None and special.cut.nodes[0].op_type == "Reshape"


@pytest.mark.parametrize(
    ("constants", "message"),
    [
        ({"none": np.zeros(3, np.int64)}, "constants names 'none'"),
        ({"shape": np.zeros(3, np.int32)}, "constants has INT32"),
        ({"shape": np.zeros(2, np.int64)}, "constants has \\(2,\\)"),
        ({"shape": np.array([7, 7, 7])}, "'reshape2' \\(Reshape\\)"),
    ],
)
def test_constants_that_do_not_fit(constants, message, g):
    g.inputs["shape"] = (np.dtype(np.int64), (3,))
    prepared = prepare(load(g.model(g.Reshape(g.input(2, 6), "shape"))))
    with pytest.raises(ValueError, match=message):
        specialize(prepared.model, {}, constants)


# What is refused


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({}, "has none for the input 'x1'"),
        ({"x": (1, 4, 6, 6)}, "names 'x'"),
        ({"x1": (1, 4, 6)}, "expected"),
        ({"x1": (1, 5, 6, 6)}, "expected"),
        ({"x1": (1, 4, -6, 6)}, "negative"),
        ({"x1": (1, 4, 1, 6)}, "'conv4'"),
    ],
)
def test_shapes_that_do_not_fit(shapes, message, g):
    x = g.input(1, 4, 6, 6)
    g.inputs[x] = (g.inputs[x][0], ("n", 4, "h", "w"))
    prepared = prepare(load(g.model(g.conv(x, 5, (4, 3, 3)))))
    with pytest.raises(ValueError, match=message):
        specialize(prepared.model, shapes)


CONTRADICTING = {
    "Add": lambda g, x: g.Add(x, g.input(5, 6)),
    "MatMul": lambda g, x: g.MatMul(x, g.random(5, 6)),
    "Conv": lambda g, x: g.Conv(x, g.random(5, 3, 3, 3)),
    "Conv groups": lambda g, x: g.Conv(x, g.random(5, 2, 3, 3), group=2),
    "Conv bias": lambda g, x: g.Conv(x, g.random(5, 4, 3, 3), g.random(4)),
    "ConvTranspose": lambda g, x: g.ConvTranspose(x, g.random(5, 4, 3, 3)),
    "Reshape": lambda g, x: g.Reshape(x, g.constant([7, 3], np.int64)),
    "Concat": lambda g, x: g.Concat(x, g.input(1, 4, 5, 5), axis=1),
    # Windows that are none.
    **{
        f"Conv {attributes}": lambda g, x, attributes=attributes: g.Conv(
            x, g.random(5, 4, 3, 3), **attributes
        )
        for attributes in (
            {"strides": [0, 1]}, {"dilations": [1, 0]}, {"pads": [0, 0, -1, 0]}, {"strides": [1]}
        )
    },
}  # fmt: skip


@pytest.mark.parametrize("kind", CONTRADICTING)
def test_contradictions_name_the_node(kind, g):
    y = CONTRADICTING[kind](g, g.input(1, 4, 6, 6))
    with pytest.raises(ValueError, match=f"'{y}' \\({kind.split()[0]}\\)"):
        specialize(prepare(load(g.model(y))).model, {})


def test_a_model_ends_where_shapes_depend_on_data(g):
    y = g.Cast(g.NonZero(g.Relu(g.input(3, 4))), to=TensorProto.FLOAT)
    special = specialize(prepare(load(g.model(y))).model, {})
    assert [node.op_type for node in special.model.graph] == ["Relu"]
    assert [node.op_type for node in special.cut.nodes] == ["NonZero", "Cast"]


def test_unknown_operators_name_the_node(g):
    prepared = prepare(load(g.model(g.Strange(g.input(3, 4), domain="other"))))
    with pytest.raises(ValueError, match="'strange2' \\(other::Strange\\)"):
        specialize(prepared.model, {})


# Padding


@pytest.mark.parametrize("mode", ["VALID", "SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize(
    ("operator", "kernel", "stride"),
    [
        (operator, kernel, stride)
        for operator in ("Conv", "MaxPool", "AveragePool")
        for kernel in (1, 2, 3, 4)
        for stride in (1, 2, 3)
        # onnxruntime, which says what is right, refuses a MaxPool that leaves pixels out.
        if operator != "MaxPool" or kernel >= stride
    ],
)
def test_automatic_padding(mode, kernel, stride, operator, g):
    x = g.input(1, 2, 7, 10)
    attributes = {"auto_pad": mode, "strides": [stride] * 2}
    if operator == "Conv":
        y = g.Conv(x, g.random(3, 2, kernel, kernel), **attributes)
    else:
        y = getattr(g, operator)(x, kernel_shape=[kernel] * 2, **attributes)
    result = rewritten(g, y)
    (node,) = result.model.graph
    assert "auto_pad" not in node.attributes and len(node.attributes.get_ints("pads")) == 4


@pytest.mark.parametrize("mode", ["VALID", "SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize("kernel", [2, 3, 4])
@pytest.mark.parametrize("stride", [1, 2])
def test_automatic_padding_of_transposed(mode, kernel, stride, g):
    w = g.random(2, 3, kernel, kernel)
    y = g.ConvTranspose(g.input(1, 2, 5, 4), w, auto_pad=mode, strides=[stride] * 2)
    assert operators(rewritten(g, y)) == {"pplconv::ConvTranspose": 1}


@pytest.mark.parametrize("shape", [(9, 7), (10, 8), (11, 9)])
@pytest.mark.parametrize("mode", ["NOTSET", "SAME_UPPER", "SAME_LOWER"])
def test_output_shape_of_transposed(shape, mode, g):
    x, w = g.input(1, 2, 5, 4), g.random(2, 3, 3, 3)
    y = g.ConvTranspose(x, w, strides=[2, 2], output_shape=shape, auto_pad=mode)
    result = rewritten(g, y)
    assert operators(result) == {"pplconv::ConvTranspose": 1}
    assert tuple(result.model.graph.outputs[0].shape) == (1, 3, *shape)
