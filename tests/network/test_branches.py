"""If whose condition follows from shapes: it is open when a session is made, and known later."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from pplconv.network.session import InferenceSession
from tests.network.models import graph_of, model_of
from tests.network.running import agree, by_onnxruntime, needs_onnxruntime

OTHER = graph_of([helper.make_node("Neg", ["x"], ["other"])], {}, {"other": np.float32})
CONDITIONS = {
    "shape": [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "two"], ["height"]),
        helper.make_node("Equal", ["height", "four"], ["c"]),
    ],
    "data": [
        helper.make_node("ReduceMax", ["x"], ["largest"], keepdims=0),
        helper.make_node("Greater", ["largest", "zero"], ["c"]),
    ],
    "input": [],
}


def branching(then: onnx.GraphProto, condition: str, opset: int = 18) -> onnx.ModelProto:
    """A model of one If, for images of any size; the other branch is a Neg."""
    node = helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=OTHER)
    inputs: dict[str, Any] = {"x": (np.float32, ["n", 2, "h", "w"])}
    if condition == "input":
        inputs["c"] = (np.bool_, [])
    constants = {"two": 2, "four": 4, "zero": np.float32(0)}
    return model_of([*CONDITIONS[condition], node], inputs, constants, opset=opset)


def images(*nodes: onnx.NodeProto, weights: dict[str, np.ndarray] | None = None) -> Any:
    """A branch, with weights of its own."""
    return graph_of(nodes, {}, {nodes[-1].output[0]: np.float32}, weights or {})


@needs_onnxruntime
@pytest.mark.parametrize(
    ("opset", "last"),
    [
        (11, {"op_type": "AveragePool", "kernel_shape": [3, 3], "pads": [1] * 4}),
        (12, {"op_type": "Softmax", "axis": 1}),
        (18, {"op_type": "InstanceNormalization", "inputs": ["s", "s"]}),
        (21, {"op_type": "GroupNormalization", "inputs": ["s", "s"], "num_groups": 2}),
    ],
)
def test_shapes_choose(opset, last, rng):
    weights = {"w": rng.standard_normal((4, 2, 3, 3)), "s": rng.standard_normal(4)}
    weights = {name: array.astype(np.float32) for name, array in weights.items()}
    last = dict(last)
    operands = ["conv", *last.pop("inputs", [])]
    conv = helper.make_node("Conv", ["x", "w"], ["conv"], auto_pad="SAME_UPPER")
    then = images(conv, helper.make_node(inputs=operands, outputs=["t"], **last), weights=weights)
    model = branching(then, "shape", opset)
    session = InferenceSession(model, threads=1)
    for height in (4, 6, 4):
        feed = {"x": rng.standard_normal((2, 2, height, 5)).astype(np.float32)}
        agree(session.run(None, feed), by_onnxruntime(model, feed), least=1)


def test_inputs_choose(rng):
    session = InferenceSession(branching(images(helper.make_node("Relu", ["x"], ["t"])), "input"))
    x = rng.standard_normal((1, 2, 3, 3)).astype(np.float32)
    for choice, want in ((True, np.maximum(x, 0)), (False, -x), (True, np.maximum(x, 0))):
        (y,) = session.run(None, {"x": x, "c": np.array(choice)})
        np.testing.assert_array_equal(y, want)


@pytest.mark.parametrize("fallback", [False, True])
def test_data_do_not(fallback):
    """The message names no option with which the model would be refused, too."""
    model = branching(images(helper.make_node("Relu", ["x"], ["t"])), "data")
    with pytest.raises(ValueError, match="If with a condition that depends on data") as error:
        InferenceSession(model, fallback=fallback)
    assert "fallback" not in str(error.value)


def test_a_branch_is_checked_when_it_is_taken(rng):
    model = branching(images(helper.make_node("Det", ["x"], ["t"])), "shape")
    session = InferenceSession(model)
    x = rng.standard_normal((1, 2, 4, 4)).astype(np.float32)
    with pytest.raises(ValueError, match=r"Det.*fallback=True runs"):
        session.run(None, {"x": x})
    # The advice helps.
    (y,) = InferenceSession(model, fallback=True).run(None, {"x": x})
    np.testing.assert_allclose(y, np.linalg.det(x.astype(np.float64)), rtol=1e-4, atol=1e-5)
