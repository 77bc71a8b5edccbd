"""What plans and sessions say of ``precision="low"``, and demands that no node can meet."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

from pplconv.network import low_precision
from pplconv.network.low_precision import narrow_types
from pplconv.network.session import InferenceSession
from pplconv.numerics import BRAIN_KINDS
from pplconv.quant import quantize_model
from tests.network.graphs import Graph
from tests.network.models import graph_of, model_of
from tests.network.running import session_of


def image(dtype: type = np.float32) -> tuple[Graph, str]:
    g = Graph(3, dtype=dtype)
    return g, g.Relu(g.conv(g.input(1, 16, 12, 12), 32, (16, 1, 1)))


@pytest.fixture
def brain(monkeypatch):
    """A CPU with products of bfloat16, whatever this one has; they take half of the time."""
    monkeypatch.setattr(low_precision, "narrow_types", lambda: ["bfloat16"])
    monkeypatch.setattr(low_precision.planner, "least_cycles", cycles)


def cycles(problem, tolerance, most):
    return 50.0 if set(BRAIN_KINDS) & set(problem.permitted) else 100.0


@pytest.fixture
def plain(monkeypatch):
    """A CPU without."""
    monkeypatch.setattr(low_precision, "narrow_types", lambda: [])


LINE = (
    'precision="low" would take 50 % of the time of convolutions and products, by the estimate; '
    "their operands are rounded to bfloat16, by up to 0.4 %: see session.compare(feed)"
)


@pytest.mark.parametrize("precision", ["auto", "fp32"])
def test_the_gain_is_told(brain, precision):
    g, y = image()
    session = session_of(g, y, precision=precision)
    plan = session.plan_for(g.feed)
    assert plan.advice == LINE and LINE in str(plan).splitlines()
    assert session.profile(g.feed, repeats=1).advice == LINE
    assert str(session) == f"{session!r}\n{LINE}"


def test_before_the_first_run_nothing_is_estimated(brain, monkeypatch):
    def never(*_: object) -> str:
        raise AssertionError

    g, y = image()
    monkeypatch.setattr(low_precision, "advice", never)
    session = session_of(g, y)
    assert str(session) == repr(session)
    session.run(None, g.feed)
    assert "\n" not in repr(session)


def test_products_of_computed_matrices_count(brain):
    g = Graph(4)
    x, w = g.input(8, 16), g.input(16, 24)
    y = g.MatMul(g.MatMul(x, w), g.random(24, 8))
    assert "would take 50 % of" in session_of(g, y).plan_for(g.feed).advice


def test_a_small_gain(brain, monkeypatch):
    g, y = image()
    monkeypatch.setattr(low_precision.planner, "least_cycles", lambda *_: 1.0)
    assert "next to nothing" in session_of(g, y).plan_for(g.feed).advice


def test_a_network_without_products_gets_no_advice(brain):
    g = Graph()
    y = g.Relu(g.input(2, 3))
    session = session_of(g, y)
    session.run(None, g.feed)
    assert session.plan_for(g.feed).advice == "" and str(session) == repr(session)


def test_a_network_that_is_cut(brain):
    """Products in front of the cut are counted, and those of the parts that have run."""
    g = Graph(8)
    x = g.conv(g.input(1, 8, 6, 6), 8, (8, 1, 1))
    places = g.Cast(g.NonZero(g.Relu(x)), to=1)
    y = g.conv(g.Unsqueeze(places, g.constant([0, 2], np.int64)), 8, (4, 1, 1))
    session = session_of(g, y)
    session.run(None, g.feed)
    (step,) = (step for step in session.plan_for(g.feed).steps if step.plan is not None)
    assert step.kind == "Conv" and str(session).endswith(LINE)


def test_cpus_without_products_of_bfloat16(plain):
    g, y = image()
    assert session_of(g, y).plan_for(g.feed).advice == ""
    assert session_of(g, y, precision="low").plan_for(g.feed).advice == (
        'precision="low" changes nothing: this CPU multiplies in no type that is narrower than '
        "float32"
    )


def test_a_session_that_has_it_says_nothing(brain):
    g, y = image()
    assert session_of(g, y, precision="low").plan_for(g.feed).advice == ""


def test_a_word_that_permits_says_why_it_changes_nothing(brain):
    g, y = image(np.float64)
    session = session_of(g, y, precision="low")
    session.run(None, g.feed)
    assert str(session).endswith(
        """precision="low" changes nothing: Conv of 'conv4' is of float64"""
    )


@pytest.mark.narrow
def test_the_estimate_of_this_cpu():
    """As the planner's own figures have it, and with the types that this CPU has."""
    g, y = image()
    advice = session_of(g, y).plan_for(g.feed).advice
    assert advice.startswith('precision="low" would') == ("bfloat16" in narrow_types())


def quantized() -> onnx.ModelProto:
    g, y = image()
    return quantize_model(g.model(y), [g.feed])


def of_integers() -> onnx.ModelProto:
    g = Graph(dtype=np.uint8)
    y = g.ConvInteger(g.input(1, 4, 6, 6), g.constant(np.ones((4, 4, 3, 3)), np.int8))
    return model_of(g.nodes, g.inputs, g.weights, {y: np.int32}, opset=24)


def computed() -> onnx.ModelProto:
    g = Graph()
    return g.model(g.Conv(g.input(1, 4, 6, 6), g.input(5, 4, 3, 3)))


def recurrent() -> onnx.ModelProto:
    g = Graph(dtype=np.float64)
    y = g.LSTM(g.input(3, 2, 4), g.random(1, 20, 4), g.random(1, 20, 5), hidden_size=5)
    return g.model(y)


def double() -> onnx.ModelProto:
    g, y = image(np.float64)
    return g.model(y)


REFUSED = {
    "float64": (double, "Conv of 'conv4' is of float64"),
    "quantized": (quantized, "Conv of '[^']+' multiplies quantized numbers"),
    "integers": (of_integers, "ConvInteger of '[^']+' multiplies integers"),
    "computed": (computed, "Conv of 'conv3' multiplies by computed weights"),
    "recurrent": (recurrent, "LSTM of '[^']+' is of float64"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_demands_that_no_node_can_meet(case):
    """Whatever the CPU has. Words that only permit are taken."""
    make, why = REFUSED[case]
    model = make()
    message = f'^precision="low_bf16" demands products of bfloat16, .* can have: {why}$'
    with pytest.raises(ValueError, match=message):
        InferenceSession(model, precision="low_bf16")
    for word in ("auto", "fp32", "fp16", "bf16", "low"):
        InferenceSession(model, precision=word)


def mixed() -> onnx.ModelProto:
    g = Graph()
    wide = g.Cast(g.MatMul(g.Cast(g.input(3, 4), to=11), g.constant(np.eye(4), np.float64)), to=1)
    return g.model(g.MatMul(wide, g.random(4, 5)))


def of_computed_matrices() -> onnx.ModelProto:
    g = Graph()
    return g.model(g.MatMul(g.input(3, 4), g.input(4, 5)))


def without_products() -> onnx.ModelProto:
    g = Graph()
    return g.model(g.Relu(g.input(3, 4)))


def in_a_branch() -> onnx.ModelProto:
    """A product by a known matrix of the graph around it."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["z"])]
    other = [helper.make_node("Identity", ["x"], ["u"])]
    branches = {
        "then_branch": graph_of(nodes, {}, {"z": (np.float32, [4, 4])}),
        "else_branch": graph_of(other, {}, {"u": (np.float32, [4, 4])}),
    }
    flow = helper.make_node("If", ["c"], ["y"], **branches)
    inputs = {"x": (np.float32, [4, 4]), "c": (np.bool_, [])}
    return model_of([flow], inputs, {"w": np.eye(4, dtype=np.float32)}, {"y": np.float32})


@pytest.mark.parametrize("make", [mixed, of_computed_matrices, without_products, in_a_branch])
def test_demands_that_some_node_can_meet(make):
    InferenceSession(make(), precision="low_bf16")
