"""Scales and zero points that are none: refused when the session is made, by the node's name."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from pplconv.network.session import InferenceSession
from tests.network.quantizing import S8, U8, Quantized

pytestmark = pytest.mark.unemulated("refuses graphs, which no machine changes")


@pytest.fixture
def g() -> Quantized:
    return Quantized()


def written(operator: str) -> tuple[Quantized, str]:
    """A small model, and the node whose scales are spoilt."""
    g = Quantized()
    x = g.input(1, 8, 9, 7)
    if operator == "QuantizeLinear":
        y = node = g.q(x)
    elif operator == "DequantizeLinear":
        y = node = g.dq(g.q(x))
    elif operator == "DequantizeLinear of weights":
        node = g.kernel(4, 8, 3, 3)
        y = g.pair(g.Conv(g.pair(x), node))
    elif operator == "QLinearConv":
        how = [g.parameters(scale, 0, kind) for scale, kind in ((0.1, U8), (0.2, S8), (0.3, U8))]
        w = g.constant(g.rng.integers(-9, 9, (4, 8, 3, 3)), S8)
        y = node = g.QLinearConv(g.q(x), *how[0], w, *how[1], *how[2])
    elif operator == "QLinearMatMul":
        how = [g.parameters(0.1, 0, U8) for _ in range(3)]
        w = g.constant(g.rng.integers(0, 9, (7, 5)), U8)
        y = node = g.QLinearMatMul(g.q(x), *how[0], w, *how[1], *how[2])
    else:
        how = [g.parameters(0.1, 0, U8) for _ in range(3)]
        q = g.q(x)
        y = node = g.QLinearAdd(q, *how[0], q, *how[1], *how[2], domain="com.microsoft")
    if node == y and operator != "DequantizeLinear":
        g.dtype = U8
    return g, node


SCALES = {
    "QuantizeLinear": (1,), "DequantizeLinear": (1,), "DequantizeLinear of weights": (1,),
    "QLinearConv": (1, 4, 6), "QLinearMatMul": (1, 4, 6), "QLinearAdd": (1, 4, 6),
}  # fmt: skip
OF_CONSTANTS = (
    ("DequantizeLinear of weights", 1), ("QLinearConv", 4), ("QLinearMatMul", 4)
)  # fmt: skip
PORTS = [(operator, port) for operator, ports in SCALES.items() for port in ports]


def spoilt(operator: str, port: int, change) -> tuple[onnx.ModelProto, str]:
    """A model whose node has another constant at a port."""
    g, name = written(operator)
    model = g.model(g.nodes[-1].output[0])
    (node,) = (node for node in model.graph.node if node.output[0] == name)
    for tensor in model.graph.initializer:
        if tensor.name == node.input[port]:
            array = numpy_helper.to_array(tensor).copy()
            tensor.CopyFrom(numpy_helper.from_array(change(array), tensor.name))
    return model, name


def refused(said: str, model: onnx.ModelProto) -> None:
    with pytest.raises(ValueError, match=said):
        InferenceSession(model)


def filled(value):
    def change(array):
        array = np.atleast_1d(array).copy()
        array[-1] = value
        return array

    return change


@pytest.mark.parametrize(("operator", "port"), PORTS)
def test_models_are_right_before(operator, port):
    model, _ = spoilt(operator, port, lambda array: array)
    session = InferenceSession(model, threads=1)
    session.run(None, {"x1": np.zeros((1, 8, 9, 7), np.float32)})


@pytest.mark.parametrize(("operator", "port"), PORTS)
@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0, "the scale 0 "), (-0.5, "the scale -0.5"), (np.nan, "not finite"),
        (np.inf, "not finite"), (-np.inf, "not finite"), (1e-39, "the scale 1e-39 "),
    ],
)  # fmt: skip
def test_scales_that_are_none(operator, port, value, said):
    model, name = spoilt(operator, port, filled(value))
    if value == 1e-39 and (operator, port) in OF_CONSTANTS:
        feed = {"x1": np.zeros((1, 8, 9, 7), np.float32)}
        InferenceSession(model, threads=1).run(None, feed)  # no loops compute with it
        return
    refused(f"{said}.*{name!r}", model)


@pytest.mark.parametrize(("operator", "port"), PORTS)
@pytest.mark.parametrize("zero", [False, True])
def test_scales_and_zero_points_that_are_not_constant(operator, port, zero):
    model, name = spoilt(operator, port, lambda array: array)
    (node,) = (node for node in model.graph.node if node.output[0] == name)
    wanted = node.input[port + zero]
    (tensor,) = (tensor for tensor in model.graph.initializer if tensor.name == wanted)
    model.graph.initializer.remove(tensor)
    given = helper.make_tensor_value_info(wanted, tensor.data_type, list(tensor.dims))
    model.graph.input.append(given)
    what = "zero point" if zero else "scale"
    refused(f"a {what} '{wanted}' that is not constant.*{name!r}", model)


def test_scales_that_are_computed_of_an_input(g):
    x = g.input(1, 8)
    y = g.QuantizeLinear(x, g.ReduceMax(g.Abs(x), keepdims=0), g.constant(0, U8))
    refused(f"scale 'reducemax.*not constant.*{y!r}", g.model(y))


def test_scales_that_are_computed_of_constants(g):
    scale = g.Mul(g.constant(0.5), g.constant(0.1))
    x = g.input(1, 8)
    y = g.QuantizeLinear(x, scale, g.constant(0, U8))
    g.dtype = U8
    (got,) = InferenceSession(g.model(y), threads=1).run(None, g.feed)
    np.testing.assert_array_equal(got, np.clip(np.rint(g.feed[x] / np.float32(0.05)), 0, 255))


@pytest.mark.parametrize(
    ("operator", "port"), [pair for pair in PORTS if pair[1] != 6 and pair[0] != "QuantizeLinear"]
)
def test_zero_points_of_another_type(operator, port):
    """300 is beyond uint8, so a wider type holds it."""
    model, name = spoilt(operator, port + 1, lambda array: np.full_like(array, 300, np.int32))
    refused(f"{name!r}", model)


def test_zero_points_of_int32(g):
    integers = g.constant(g.rng.integers(-9, 9, 8), np.int32)
    y = g.Add(g.input(8), g.dq(integers, 0.5, 3, np.int32))
    refused(r"zero point 3 for int32.*'dequantizelinear", g.model(y))


@pytest.mark.parametrize("count", [3, 9])
def test_scales_that_do_not_fit(count, g):
    y = g.q(g.input(1, 8, 9, 7), np.ones(count), np.zeros(count))
    refused(f"{y!r}.*scales have the shape \\({count},\\)", g.model(y))


@pytest.mark.parametrize("axis", [0, 2, 7])
def test_scales_that_do_not_fit_constants(axis, g):
    how = (np.ones(3), np.zeros(3), S8)
    w = g.dq(g.q(g.random(4, 8), *how, axis=axis), *how, axis=axis)
    refused(r"quantizelinear.*(scales have the shape|axis is)", g.model(g.MatMul(g.input(2, 4), w)))


def test_scales_of_a_scalar(g):
    y = g.q(g.input(), np.ones(3), np.zeros(3))
    g.feed = {"x1": np.float32(1)}
    with pytest.raises(ValueError, match="quantizelinear"):
        InferenceSession(g.model(y)).run(None, g.feed)


def test_as_many_zero_points_as_scales(g):
    y = g.q(g.input(1, 8, 9, 7), np.ones(8), np.zeros(4))
    refused(f"{y!r}.*zero points \\(4,\\)", g.model(y))


def test_unknown_operators_of_other_domains_are_refused(g):
    q = g.q(g.input(1, 8))
    how = [g.parameters(0.1, 0, U8) for _ in range(2)]
    y = g.QLinearSoftmax(q, *how[0], *how[1], domain="com.microsoft", axis=1, opset=12)
    refused(r"com\.microsoft\.QLinearSoftmax", g.model(y))
