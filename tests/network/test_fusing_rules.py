"""What fused convolutions take in, and what stays a node of its own."""

from __future__ import annotations

import numpy as np
import pytest

from pplconv.network.fused_nodes import Port, activation_of, inputs_of
from tests.network.graphs import Graph, fused, has, operators, rewritten

pytestmark = pytest.mark.unemulated("reads and rewrites graphs, which no machine changes")

SHAPE = (1, 4, 6, 6)
CALLS = {
    "relu": lambda g, y: g.Relu(y),
    "clip": lambda g, y: g.Clip(y, g.constant(-0.5), g.constant(1.5)),
    "clip low": lambda g, y: g.Clip(y, g.constant(0.25)),
    "clip high": lambda g, y: g.Clip(y, "", g.constant(0.25)),
    "leaky_relu": lambda g, y: g.LeakyRelu(y, alpha=0.2),
    "prelu": lambda g, y: g.PRelu(y, g.random(5, 1, 1)),
    "prelu one": lambda g, y: g.PRelu(y, g.random(1)),
    "hardswish": lambda g, y: g.HardSwish(y),
    "hardsigmoid": lambda g, y: g.HardSigmoid(y, alpha=0.3, beta=0.4),
    "sigmoid": lambda g, y: g.Sigmoid(y),
    "silu": lambda g, y: g.Mul(g.Sigmoid(y), y),
    "swish": lambda g, y: g.Swish(y),
    "softplus": lambda g, y: g.Softplus(y),
    "mish": lambda g, y: g.Mish(y),
    "gelu": lambda g, y: g.Gelu(y),
}
PARAMETERS = {
    "clip": (-0.5, 1.5),
    "clip low": (0.25, np.inf),
    "clip high": (-np.inf, 0.25),
    "leaky_relu": (0.2,),
    "hardsigmoid": (0.3, 0.4),
}


def conv(g: Graph, x: str | None = None, channels: int = 5) -> str:
    return g.conv(x or g.input(*SHAPE), channels, (4, 3, 3), pads=[1, 1, 1, 1])


def same(g: Graph, x: str | None = None) -> str:
    return conv(g, x, 4)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_a_convolution_alone(dtype, g):
    result = rewritten(g, conv(g), tolerance=4e-3 if dtype == np.float16 else 2e-5)
    (node,) = fused(result)
    assert has(node) and len(inputs_of(node)) == 8
    assert activation_of(node) == ("", ())


def test_double_precision():
    g = Graph(dtype=np.float64)
    assert operators(rewritten(g, g.Relu(conv(g)), tolerance=1e-13)) == {"pplconv::Conv": 1}


@pytest.mark.parametrize("kind", ["Conv", "ConvTranspose"])
@pytest.mark.parametrize("call", CALLS)
def test_activations(kind, call, g):
    w = (5, 4, 3, 3) if kind == "Conv" else (4, 5, 3, 3)
    y = getattr(g, kind)(g.input(*SHAPE), g.random(*w), g.random(5), strides=[2, 2])
    result = rewritten(g, CALLS[call](g, y))
    (node,) = fused(result)
    name, parameters = activation_of(node)
    assert operators(result) == {f"pplconv::{kind}": 1}
    assert name == call.split()[0].replace("swish", "silu").replace("hardsilu", "hardswish")
    assert parameters == pytest.approx(PARAMETERS.get(call, ()))


@pytest.mark.parametrize(
    "call",
    [
        lambda g, y: g.Tanh(y),
        lambda g, y: g.Gelu(y, approximate="tanh"),
        lambda g, y: g.PRelu(y, g.random(5, 6, 6)),
        lambda g, y: g.PRelu(y, g.random(6)),
        lambda g, y: g.PRelu(y, g.input(5, 1, 1)),
        lambda g, y: g.Clip(y, g.input(), g.constant(1)),
        lambda g, y: g.Mul(y, g.Sigmoid(g.Tanh(y))),
        lambda g, y: g.Swish(y, alpha=1.5),
    ],
)
def test_other_activations_stay(call, g):
    (node,) = fused(rewritten(g, call(g, conv(g))))
    assert activation_of(node)[0] == ""


@pytest.mark.parametrize("output", [False, True])
def test_a_value_with_another_user_stays(output, g):
    y = conv(g)
    (node,) = fused(rewritten(g, g.Relu(y), y if output else g.Tanh(y)))
    assert activation_of(node)[0] == ""


def test_a_user_in_a_subgraph_counts():
    from onnx import helper

    g = Graph()
    y = conv(g)
    z = g.Relu(y)
    body = helper.make_graph(
        [helper.make_node("Softmax", [y], ["inner"])],
        "body",
        [],
        [helper.make_tensor_value_info("inner", 1, [1, 5, 6, 6])],
    )
    g.inputs["flag"] = (np.dtype(bool), ())
    g.feed["flag"] = np.array(True)
    other = g.If("flag", then_branch=body, else_branch=_renamed(body))
    from pplconv.network.loading import load
    from pplconv.network.preparing import prepare, specialize

    prepared = prepare(load(g.model(z, other)))
    special = specialize(prepared.model, {name: x.shape for name, x in g.feed.items()})
    assert [node.op_type for node in special.cut.nodes] == ["If"]
    # The Conv has no Relu in its store, as the branches read its own result.
    assert [node.op_type for node in special.model.graph] == ["Conv", "Relu"]


def _renamed(graph):
    import onnx

    copy = onnx.GraphProto()
    copy.CopyFrom(graph)
    copy.node[0].output[0] = copy.output[0].name = "inner_else"
    return copy


@pytest.mark.parametrize("activation", list(CALLS))
def test_scale_and_offset_after_an_activation(activation, g):
    y = CALLS[activation](g, conv(g))
    z = g.Add(g.random(1), g.Mul(y, g.random(5, 1, 1)))
    (node,) = fused(rewritten(g, z))
    wanted = {Port.SCALE, Port.OFFSET} | ({Port.SLOPE} if "prelu" in activation else set())
    assert has(node, *wanted)


# Residuals that a convolution of x takes in, as which operand, and its activation.
RESIDUALS = {
    "before, first": (lambda g, x: g.Relu(g.Add(x, same(g, x))), {Port.RESIDUAL}, "relu"),
    "before, second": (lambda g, x: g.Relu(g.Add(same(g, x), x)), {Port.RESIDUAL}, "relu"),
    "after": (
        lambda g, x: g.Add(CALLS["silu"](g, same(g, x)), x), {Port.RESIDUAL_AFTER}, "silu"
    ),
    "before and after": (
        lambda g, x: g.Add(g.Relu(g.Add(same(g, x), x)), g.Tanh(x)),
        {Port.RESIDUAL, Port.RESIDUAL_AFTER}, "relu",
    ),
    "then a scale": (
        lambda g, x: g.Mul(g.Add(same(g, x), x), g.random(4, 1, 1)),
        {Port.RESIDUAL, Port.SCALE}, "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RESIDUALS)
def test_residuals(name, g):
    write, ports, activation = RESIDUALS[name]
    (node,) = fused(rewritten(g, write(g, g.input(*SHAPE))))
    assert has(node, *ports) and activation_of(node)[0] == activation


# What is written of x, and the nodes that are left.
LEFT = {
    "an activation after a scale": (
        lambda g, x: g.Sigmoid(g.Mul(g.Relu(conv(g, x)), g.random(5, 1, 1))),
        {"pplconv::Conv": 1, "Sigmoid": 1},
    ),
    "a third residual": (
        lambda g, x: g.Add(g.Add(g.Relu(g.Add(same(g, x), x)), g.Tanh(x)), g.Exp(x)),
        {"pplconv::Conv": 1, "Tanh": 1, "Exp": 1, "Add": 1},
    ),
    "an activation after a later residual": (
        lambda g, x: g.Relu(g.Add(g.Relu(same(g, x)), x)), {"pplconv::Conv": 1, "Relu": 1}
    ),
    "a constant residual": (
        lambda g, x: g.Add(same(g, x), g.random(*SHAPE)), {"pplconv::Conv": 1, "Add": 1}
    ),
    "a value added to itself": (
        lambda g, x: g.Add(*[same(g, x)] * 2), {"pplconv::Conv": 1, "Add": 1}
    ),
    "a bias that differs between runs": (
        lambda g, x: g.Conv(x, g.random(5, 4, 3, 3), g.input(5)), {"Conv": 1}
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LEFT)
def test_what_stays(name, g):
    write, left = LEFT[name]
    assert operators(rewritten(g, write(g, g.input(*SHAPE)))) == left


def test_scales_and_offsets_in_any_order(g):
    y = g.Relu(conv(g))
    z = g.Sub(g.random(5, 1, 1), g.Div(g.Add(y, g.random(1)), g.positive(5, 1, 1)))
    result = rewritten(g, g.Mul(g.Sub(z, g.random(1)), g.random(1)))
    assert operators(result) == {"pplconv::Conv": 1}


@pytest.mark.parametrize("shape", [(1, 5, 6, 6), (6,), (2, 1, 1, 1)])
def test_constants_along_other_axes_stay(shape, g):
    result = rewritten(g, g.Mul(g.Relu(conv(g)), g.random(*shape)))
    assert operators(result) == {"pplconv::Conv": 1, "Mul": 1}


def test_offset_joins_after_a_residual_and_a_scale_does_not(g):
    x = g.input(*SHAPE)
    y = g.Add(g.Add(g.Relu(same(g, x)), x), g.random(4, 1, 1))
    result = rewritten(g, g.Mul(y, g.random(4, 1, 1)))
    (node,) = fused(result)
    assert operators(result)["Mul"] == 1
    assert inputs_of(node)[Port.RESIDUAL_AFTER] is not None


@pytest.mark.parametrize("shape", [(1, 1, 6, 6), (1, 4, 1, 1), (4, 6, 6), (2, 4, 6, 6)])
def test_a_residual_that_is_broadcast_stays(shape, g):
    result = rewritten(g, g.Relu(g.Add(same(g), g.input(*shape))))
    assert operators(result) == {"pplconv::Conv": 1, "Add": 1, "Relu": 1}


def test_of_two_convolutions_the_later_takes_the_other(g):
    x = g.input(*SHAPE)
    early = same(g, x)
    late = same(g, g.Tanh(x))
    result = rewritten(g, g.Relu(g.Add(early, late)))
    first, second = fused(result)
    assert inputs_of(second)[Port.RESIDUAL] is first.outputs[0]
    assert inputs_of(first)[Port.RESIDUAL] is None


def test_a_residual_that_depends_on_the_convolution_makes_no_cycle(g):
    y = same(g)
    z = same(g, g.Tanh(y))
    result = rewritten(g, g.Relu(g.Add(y, z)))
    first, second = fused(result)
    assert inputs_of(second)[Port.RESIDUAL] is first.outputs[0]


def test_a_chain_of_residual_blocks(g):
    x = g.input(*SHAPE)
    for _ in range(3):
        x = g.Relu(g.Add(same(g, g.Relu(same(g, x))), x))
    result = rewritten(g, x, tolerance=1e-4)
    assert operators(result) == {"pplconv::Conv": 6}


def test_free_sizes_of_inputs(g):
    x = g.input(*SHAPE, free=True)
    g.inputs[x] = (g.inputs[x][0], ("n", 4, "h", "w"))
    y = g.Relu(g.Add(same(g, x), x))
    assert operators(rewritten(g, y)) == {"pplconv::Conv": 1}


def moved(g: Graph, y: str) -> str:
    """Images as rows of pixels."""
    return g.Transpose(g.Reshape(y, g.constant([1, 5, 36], np.int64)), perm=[0, 2, 1])


@pytest.mark.parametrize("call", ["gelu", "relu", "clip low", "silu"])
def test_activations_pass_what_moves(call, g):
    result = rewritten(g, CALLS[call](g, moved(g, conv(g))))
    (node,) = fused(result)
    assert activation_of(node)[0] == call.split()[0]
    assert operators(result) == {"pplconv::Conv": 1, "Reshape": 1, "Transpose": 1}


def test_activations_of_rows_pass_what_moves(g):
    y = g.MatMul(g.input(1, 36, 6), g.random(6, 4))
    image = g.Reshape(g.Transpose(y, perm=[0, 2, 1]), g.constant([1, 4, 6, 6], np.int64))
    result = rewritten(g, g.Gelu(image))
    (node,) = fused(result)
    assert activation_of(node)[0] == "gelu"


def test_activations_pass_to_a_number_without_axes(g):
    y = g.MatMul(g.input(1, 6), g.random(6, 1))
    result = rewritten(g, g.Sigmoid(g.Squeeze(y)))
    assert activation_of(fused(result)[0])[0] == "sigmoid"
    assert result.model.graph.outputs[0].shape == ()


@pytest.mark.parametrize(
    "call",
    [
        lambda g, y: (g.Gelu(moved(g, y)), y),  # what is moved has another reader
        lambda g, y: (g.PRelu(moved(g, y), g.random(5)),),  # its slopes are those of rows
        lambda g, y: (g.Gelu(moved(g, g.Relu(y))),),  # the convolution has one already
        lambda g, y: (g.Gelu(moved(g, g.Tanh(y))),),
    ],
)
def test_activations_that_stay_behind_what_moves(call, g):
    result = rewritten(g, *call(g, conv(g)))
    assert activation_of(fused(result)[0])[0] in ("", "relu")
    assert {"Gelu", "PRelu"} & set(operators(result))
