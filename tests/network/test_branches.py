"""If whose condition follows from shapes: it is open when a session is made, and known later."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from pplconv.network.session import InferenceSession
from tests.network.models import graph_of, model_of
from tests.network.running import agree, by_onnxruntime, needs_onnxruntime, step_kinds

OTHER = graph_of([helper.make_node("Neg", ["x"], ["other"])], {}, {"other": np.float32})
CONDITIONS = {
    "shape": [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "two"], ["height"]),
        helper.make_node("Equal", ["height", "four"], ["c"]),
    ],
    "computed from an input": [helper.make_node("Less", ["n", "two"], ["c"])],
    "input": [],
}


def branching(then: onnx.GraphProto, condition: str, opset: int = 18) -> onnx.ModelProto:
    """A model of one If, for images of any size; the other branch is a Neg."""
    node = helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=OTHER)
    inputs: dict[str, Any] = {"x": (np.float32, ["n", 2, "h", "w"])}
    if condition == "input":
        inputs["c"] = (np.bool_, [])
    elif condition != "shape":
        inputs["n"] = (np.int64, [])
    constants = {"two": 2, "four": 4}
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


@pytest.mark.parametrize(
    ("condition", "choices"),
    [
        ("input", {"c": [np.array(True), np.array(False)]}),
        ("computed from an input", {"n": [np.array(1), np.array(2)]}),
    ],
)
def test_inputs_choose(condition, choices, rng):
    """A program for each value has only the branch that is taken."""
    session = InferenceSession(branching(images(helper.make_node("Relu", ["x"], ["t"])), condition))
    x = rng.standard_normal((1, 2, 3, 3)).astype(np.float32)
    ((name, (first, second)),) = choices.items()
    for choice, want in ((first, np.maximum(x, 0)), (second, -x), (first, np.maximum(x, 0))):
        (y,) = session.run(None, {"x": x, name: choice})
        np.testing.assert_array_equal(y, want)
        assert "If" not in step_kinds(session, {"x": x, name: choice})


def test_a_branch_is_checked_when_it_is_taken(rng):
    model = branching(images(helper.make_node("Det", ["x"], ["t"])), "shape")
    session = InferenceSession(model, fallback="error")
    x = rng.standard_normal((1, 2, 4, 4)).astype(np.float32)
    with pytest.raises(ValueError, match=r'Det.*fallback="warn" runs'):
        session.run(None, {"x": x})
    # The advice helps; without it there is one warning for all sizes.
    session = InferenceSession(model)
    with pytest.warns(RuntimeWarning, match=r"onnx\.reference computes.*Det, 1 of them") as said:
        outputs = [session.run(None, {"x": x[:n]})[0] for n in (1, 2)]
    assert len(said) == 1
    for n, y in enumerate(outputs, 1):
        expected = np.linalg.det(x[:n].astype(np.float64))
        np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)


def test_slow_operators_are_named(rng):
    """By default a model with operators of ONNX's reference runs, with one warning."""
    nodes = [helper.make_node("Det", ["x"], ["d"]), helper.make_node("Det", ["x"], ["y"])]
    model = model_of(nodes, {"x": (np.float32, [1, 2, 4, 4])}, outputs=("d", "y"))
    with pytest.warns(RuntimeWarning, match="Det, 2 of them: .*silent") as said:
        session = InferenceSession(model)
    assert len(said) == 1 and said[0].filename == __file__
    x = rng.standard_normal((1, 2, 4, 4)).astype(np.float32)
    for y in session.run(None, {"x": x}):
        np.testing.assert_allclose(y, np.linalg.det(x.astype(np.float64)), rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="Det, 2 of them"):
        InferenceSession(model, fallback="error")
    for silent in ("silent", True):
        InferenceSession(model, fallback=silent)
    with pytest.raises(ValueError, match=r"fallback must be one of warn, error, silent"):
        InferenceSession(model, fallback="never")
