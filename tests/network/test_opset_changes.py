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
_NAMES = sorted(UNCHANGED_SINCE)
_REQUIRED = {
    "axis": 1, "to": TensorProto.FLOAT, "equation": "ij->ji", "kernel_shape": [2, 2], "size": 3,
    "blocksize": 2, "hidden_size": 3, "perm": [3, 2, 1, 0], "num_groups": 2, "num_outputs": 2,
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


@pytest.mark.parametrize("opset", [11, 12, 13, 17])
@pytest.mark.parametrize("operator", sorted(_MOVED))
def test_attributes_that_became_operands(operator, opset):
    schema = onnx.defs.get_schema(operator, opset)
    given = {name: value for name, value in _MOVED[operator].items() if name in schema.attributes}
    node = helper.make_node(operator, ["x"], ["y"], **given)
    if operator == "Unsqueeze" and not given:
        return  # of these opsets the axes are an operand
    _agrees(node, ["y"], opset)


@pytest.mark.parametrize("opset", [11, 12, 13, 17])
def test_parts(opset):
    _agrees(helper.make_node("Split", ["x"], ["y", "z"], axis=1), ["y", "z"], opset)
    if opset < 13:
        _agrees(
            helper.make_node("Split", ["x"], ["y", "z"], axis=1, split=[1, 3]), ["y", "z"], opset
        )


def _agrees(node, outputs, opset):
    graph = helper.make_graph(
        [node], "graph", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, 6])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    x = np.random.default_rng(0).uniform(0.5, 2, (1, 4, 6)).astype(np.float32)
    wanted = ReferenceEvaluator(model).run(None, {"x": x})
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
