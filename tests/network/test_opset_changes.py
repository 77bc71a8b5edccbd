"""Operators that need no conversion, compared with ONNX's converter."""

import gc

import numpy as np
import onnx
import onnx.version_converter
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import pplconv
from pplconv.network.opset_changes import UNCHANGED_SINCE
from pplconv.network.opsets import OPSET
from tests.patience import eventually

_DEFAULT = ("layout", 0)
_FLOW = {"If", "Loop", "Scan"}
_NAMES = sorted(UNCHANGED_SINCE.keys() - _FLOW)
_REQUIRED = {
    "axis": 1, "to": TensorProto.FLOAT, "equation": "ij->ji", "kernel_shape": [2, 2], "size": 3,
    "blocksize": 2, "value": helper.make_tensor("", 1, [2], [1.0, 2.0]), "hidden_size": 3,
    "perm": [3, 2, 1, 0], "num_groups": 2, "num_outputs": 2,
}  # fmt: skip


def _model(operator, opset):
    """A model of one node with all operands and required attributes, without any default."""
    schema = onnx.defs.get_schema(operator, opset)
    count = max(schema.min_input, min(schema.max_input, 2))
    inputs = [
        helper.make_tensor_value_info(f"x{i}", TensorProto.FLOAT, [4, 4, 4, 4])
        for i in range(count)
    ]
    given = {name: _REQUIRED[name] for name, each in schema.attributes.items() if each.required}
    outputs = [f"y{i}" for i in range(2 if operator == "Split" else max(1, schema.min_output))]
    node = helper.make_node(operator, [f"x{i}" for i in range(count)], outputs, "name", **given)
    graph = helper.make_graph(
        [node], "graph", inputs,
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


@pytest.mark.parametrize("operator", _NAMES)
def test_onnx_converter_changes_nothing(operator):
    for opset in range(UNCHANGED_SINCE[operator], OPSET):
        model = _model(operator, opset)
        converted = onnx.version_converter.convert_version(model, OPSET)
        (before,), (after,) = model.graph.node, converted.graph.node
        assert before.op_type == after.op_type
        assert len(after.input) == len(before.input)
        assert len(after.output) == len(before.output)
        old = {a.name: helper.get_attribute_value(a) for a in before.attribute}
        new = {a.name: helper.get_attribute_value(a) for a in after.attribute}
        # It writes this default.
        assert old == {name: value for name, value in new.items() if (name, value) != _DEFAULT}


_MOVED = {
    "ReduceL1": {"axes": [1, -1]}, "ReduceL2": {"axes": [0], "keepdims": 0},
    "ReduceLogSum": {"axes": [2]}, "ReduceLogSumExp": {}, "ReduceMax": {"axes": [1, 2]},
    "ReduceMean": {"axes": [-1], "keepdims": 1}, "ReduceMin": {"axes": [0], "keepdims": 0},
    "ReduceProd": {"axes": [2]}, "ReduceSum": {"axes": [1]}, "ReduceSumSquare": {"axes": [0, 1]},
    "Squeeze": {"axes": [0]}, "Unsqueeze": {"axes": [1, 3]}, "Softmax": {"axis": -1},
    "LogSoftmax": {"axis": -1},
}  # fmt: skip
_FLATTENING = [
    {}, {"axis": 0}, {"axis": 1}, {"axis": 2}, {"axis": -2},
]  # fmt: skip


@pytest.mark.parametrize("opset", [11, 12, 13, 17])
@pytest.mark.parametrize("operator", sorted(_MOVED))
def test_attributes_that_became_operands(operator, opset):
    schema = onnx.defs.get_schema(operator, opset)
    given = {name: value for name, value in _MOVED[operator].items() if name in schema.attributes}
    node = helper.make_node(operator, ["x"], ["y"], **given)
    if operator == "Unsqueeze" and not given:
        return  # of these opsets the axes are an operand
    _agrees(node, ["y"], opset)


@pytest.mark.parametrize("opset", [9, 11, 12, 13])
@pytest.mark.parametrize("given", _FLATTENING, ids=str)
@pytest.mark.parametrize("operator", ["LogSoftmax", "Softmax"])
def test_softmax_took_all_dimensions_from_its_axis_on(operator, given, opset):
    if opset < 11 and given.get("axis", 0) < 0:
        pytest.skip("no negative axes before opset 11")
    _agrees(helper.make_node(operator, ["x"], ["y"], **given), ["y"], opset)


@pytest.mark.parametrize(
    "given",
    [
        {"starts": [1], "ends": [3]},
        {"starts": [1, -4], "ends": [1000, -1], "axes": [2, 1]},
        {"starts": [0, 0, 2], "ends": [1, 2, 2]},
    ],
    ids=str,
)
def test_bounds_of_slices_were_attributes(given):
    _agrees(helper.make_node("Slice", ["x"], ["y"], **given), ["y"], 9)


def test_a_name_that_another_value_has():
    nodes = [
        helper.make_node("Neg", ["x"], ["y_axes"]),
        helper.make_node("Relu", ["x"], ["y_Flatten"]),
        helper.make_node("ReduceSum", ["x"], ["y"], axes=[1]),
        helper.make_node("Softmax", ["y"], ["z"], axis=1),
        helper.make_node("Add", ["z", "y_axes"], ["u"]),
        helper.make_node("Mul", ["u", "y_Flatten"], ["v"]),
    ]
    _agrees_all(nodes, ["v"], 11)


@pytest.mark.parametrize("opset", [11, 12, 15])
def test_subgraphs(opset):
    axes = [helper.make_node("Constant", [], ["axes"], value_ints=[2])] if opset > 12 else []
    given = {} if opset > 12 else {"axes": [2]}
    squeezed = helper.make_node("ReduceSum", ["a", "axes"] if opset > 12 else ["a"], ["s"], **given)

    def branch(operator, name):
        return helper.make_graph(
            [
                helper.make_node("Softmax", ["x"], [f"{name}_a"], axis=1),
                helper.make_node(operator, [f"{name}_a"], [name]),
            ],
            name, [], [helper.make_tensor_value_info(name, TensorProto.FLOAT, None)],
        )  # fmt: skip

    truth = helper.make_tensor_value_info("go", TensorProto.BOOL, [])
    body = helper.make_graph(
        [
            helper.make_node("Softmax", ["state"], ["a"], axis=2), *axes, squeezed,
            helper.make_node("Add", ["a", "s"], ["next"]),
            helper.make_node("Identity", ["go"], ["goes"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("turn", TensorProto.INT64, []), truth,
            helper.make_tensor_value_info("state", TensorProto.FLOAT, None),
        ],
        [
            helper.make_tensor_value_info("goes", TensorProto.BOOL, []),
            helper.make_tensor_value_info("next", TensorProto.FLOAT, None),
        ],
    )  # fmt: skip
    nodes = [
        helper.make_node("Constant", [], ["turns"], value=helper.make_tensor("", 7, [], [3])),
        helper.make_node("Constant", [], ["true"], value=helper.make_tensor("", 9, [], [True])),
        helper.make_node("ReduceMax", ["x"], ["most"], keepdims=0),
        helper.make_node("Constant", [], ["one"], value=helper.make_tensor("", 1, [], [1.0])),
        helper.make_node("Greater", ["most", "one"], ["large"]),
        helper.make_node(
            "If", ["large"], ["y"], then_branch=branch("Neg", "then"),
            else_branch=branch("Exp", "else"),
        ),
        helper.make_node("Loop", ["turns", "true", "y"], ["z"], body=body),
    ]  # fmt: skip
    _agrees_all(nodes, ["z"], opset)


@pytest.mark.parametrize("opset", [11, 12, 13, 17])
def test_parts(opset):
    _agrees(helper.make_node("Split", ["x"], ["y", "z"], axis=1), ["y", "z"], opset)
    if opset < 13:
        _agrees(
            helper.make_node("Split", ["x"], ["y", "z"], axis=1, split=[1, 3]), ["y", "z"], opset
        )


def _agrees(node, outputs, opset):
    _agrees_all([node], outputs, opset)


def _agrees_all(nodes, outputs, opset):
    graph = helper.make_graph(
        nodes, "graph", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, 6])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    x = np.random.default_rng(0).uniform(0.5, 2, (1, 4, 6)).astype(np.float32)
    # The reference computes a Softmax of any opset as one of the newest.
    newest = onnx.version_converter.convert_version(model, OPSET)
    wanted = ReferenceEvaluator(newest).run(None, {"x": x})
    got = pplconv.InferenceSession(model).run(None, {"x": x})
    for y, expected in zip(got, wanted, strict=True):
        assert y.shape == expected.shape
        np.testing.assert_allclose(y, expected, 1e-5, 1e-6)


def test_a_refused_model_leaves_the_collector_on():
    # A thread of a server that another test has stopped may still make a session.
    eventually(gc.isenabled, "the end of other sessions' making")
    with pytest.raises(ValueError, match="ONNX"):
        pplconv.InferenceSession(b"no model")
    eventually(gc.isenabled, "the end of the pause")
