"""The other rules: each against the graph as it was, and what each must leave alone."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from onnx import TensorProto

from pplconv.network.session import InferenceSession
from tests.network.graphs import Graph, operators, rewritten, swap
from tests.network.running import on_host

pytestmark = pytest.mark.unemulated("reads and rewrites graphs, which no machine changes")

BOTH = [False, True]
LOWEST = float("-inf")


# Pad


@pytest.mark.parametrize("axes", [None, (2, 3), (-1, -2)])
@pytest.mark.parametrize("own", [None, [1, 0, 0, 1]])
def test_zeros_go_into_conv(axes, own, g):
    amounts = [0, 0, 1, 2, 0, 0, 3, 0] if axes is None else [1, 2, 3, 0]
    more = () if axes is None else (g.constant(0), g.constant(axes, np.int64))
    y = g.Pad(g.input(1, 4, 6, 6), g.constant(amounts, np.int64), *more)
    result = rewritten(g, g.conv(y, 5, (4, 3, 3), **({"pads": own} if own else {})))
    assert operators(result) == {"pplconv::Conv": 1}


@pytest.mark.parametrize(
    ("amounts", "value", "mode"),
    [
        ([0, 0, 1, 1, 0, 0, 1, 1], 1.0, "constant"),
        ([0, 0, -1, 1, 0, 0, 1, 1], 0.0, "constant"),
        ([0, 1, 1, 1, 0, 0, 1, 1], 0.0, "constant"),
        ([1, 0, 1, 1, 0, 0, 1, 1], 0.0, "constant"),
        ([0, 0, 1, 1, 0, 0, 1, 1], 0.0, "edge"),
        ([0, 0, 1, 1, 0, 0, 1, 1], 0.0, "reflect"),
    ],
)
def test_other_pads_stay(amounts, value, mode, g):
    channels = 4 + amounts[1] + amounts[5]
    y = g.Pad(g.input(1, 4, 6, 6), g.constant(amounts, np.int64), g.constant(value), mode=mode)
    assert operators(rewritten(g, g.conv(y, 5, (channels, 3, 3))))["Pad"] == 1


def test_pad_that_differs_between_runs_or_has_another_user_stays(g):
    y = g.Pad(g.input(1, 4, 6, 6), g.constant([0, 0, 1, 1, 0, 0, 1, 1], np.int64), g.input())
    z = g.Pad(g.input(1, 4, 6, 6), g.constant([0, 0, 1, 1, 0, 0, 1, 1], np.int64))
    result = rewritten(g, g.conv(y, 5, (4, 3, 3)), g.conv(z, 5, (4, 3, 3)), g.Tanh(z))
    assert operators(result)["Pad"] == 2


@pytest.mark.parametrize("counted", [0, 1])
@pytest.mark.parametrize("own", [None, [1, 1, 1, 1]])
@pytest.mark.parametrize("ceiling", [0, 1])
@pytest.mark.parametrize("amount", [1, 3])
def test_zeros_go_into_average_pools_that_count_them(counted, own, ceiling, amount, g):
    pads = [0, 0, amount, 0, 0, 0, 1, 1]
    y = g.Pad(g.input(1, 2, 7, 7), g.constant(pads, np.int64))
    z = g.AveragePool(
        y,
        kernel_shape=[3, 3],
        strides=[2, 2],
        count_include_pad=counted,
        ceil_mode=ceiling,
        **({"pads": own} if own else {}),
    )
    result = rewritten(g, z)
    merged = not ceiling and (counted or not own) and amount + (1 if own else 0) < 3
    assert operators(result)["Pad"] == (not merged)


@pytest.mark.parametrize("value", [0.0, LOWEST, -3.0])
def test_only_minus_infinity_goes_into_max_pools(value, g):
    pads = g.constant([0, 0, 1, 1, 0, 0, 1, 1], np.int64)
    y = g.Pad(g.input(1, 2, 7, 7), pads, g.constant(value))
    result = rewritten(g, g.MaxPool(y, kernel_shape=[3, 3], strides=[2, 2]))
    assert operators(result)["Pad"] == (value != LOWEST)


# HardSigmoid, HardSwish, Clip


def clipped(g: Graph, x: str, b: float = 3.0, h: float = 6.0, swapped: bool = False) -> str:
    total = g.Add(*swap(swapped, x, g.constant(b)))
    return g.Clip(total, g.constant(0), g.constant(h))


def divided(g: Graph, y: str, h: float, how: int) -> str:
    if how == 0:
        return g.Div(y, g.constant(h))
    return g.Mul(*swap(how == 2, y, g.constant(1 / h)))


@pytest.mark.parametrize(("how", "swapped"), list(itertools.product(range(3), BOTH)))
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_hard_sigmoid_from_pieces(how, swapped, dtype, g):
    x = g.input(3, 50)
    result = rewritten(
        g,
        divided(g, clipped(g, x, 2.0, 5.0, swapped), 5.0, how),
        tolerance=2e-3 if dtype == np.float16 else 1e-6,
    )
    assert operators(result) == {"HardSigmoid": 1}


@pytest.mark.parametrize(
    ("how", "swapped", "commuted"), list(itertools.product(range(3), BOTH, BOTH))
)
@pytest.mark.parametrize("product_first", BOTH)
def test_hard_swish_from_pieces(how, swapped, commuted, product_first, g):
    x = g.Mul(g.input(3, 50), g.constant(4.0))
    gate = clipped(g, x, swapped=swapped)
    if product_first:
        y = divided(g, g.Mul(*swap(commuted, x, gate)), 6.0, how)
    else:
        y = g.Mul(*swap(commuted, x, divided(g, gate, 6.0, how)))
    assert operators(rewritten(g, y)) == {"Mul": 1, "HardSwish": 1}


@pytest.mark.parametrize("first", BOTH)
def test_clip_spelled_as_min_and_max(first, g):
    x = g.input(3, 50)
    total = g.Add(x, g.constant(3))
    low = g.Max(*swap(first, total, g.constant(0)))
    high = g.Min(*swap(first, low, g.constant(6)))
    assert operators(rewritten(g, g.Mul(x, g.Div(high, g.constant(6))))) == {"HardSwish": 1}


# What is written of x, and what becomes of it.
WRITTEN = {
    "a gate of HardSigmoid": (
        lambda g, x: g.Mul(g.HardSigmoid(x, alpha=1 / 6, beta=0.5), x), {"HardSwish": 1}
    ),
    "a gate of another value": (
        lambda g, x: g.Div(g.Mul(g.input(3, 50), clipped(g, x)), g.constant(6)),
        {"Add": 1, "Clip": 1, "Mul": 1, "Div": 1},
    ),
    "Relu and Min are one Clip": (
        lambda g, x: g.Tanh(g.Min(g.Relu(x), g.constant(6))), {"Clip": 1, "Tanh": 1}
    ),
    "constants that are no scalars are no bounds": (
        lambda g, x: g.Min(g.Max(x, g.random(50)), g.random(1, 1, 1)), {"Max": 1, "Min": 1}
    ),
    "of crossed bounds the last one decides": (
        lambda g, x: within(g, within(g, x, 1, -1), 0, 2), {"Clip": 1}
    ),
    "bounds that do not overlap": (
        lambda g, x: within(g, within(g, x, -1, 1), 2, 3), {"Clip": 1}
    ),
    "a mean": (lambda g, x: g.Mean(x, g.input(50), g.input(1, 1)), {"Add": 2, "Mul": 1}),
}  # fmt: skip


def within(g: Graph, x: str, low: float, high: float) -> str:
    return g.Clip(x, g.constant(low), g.constant(high))


@pytest.mark.parametrize("name", WRITTEN)
def test_what_becomes_of_it(name, g):
    write, left = WRITTEN[name]
    assert operators(rewritten(g, write(g, g.input(3, 50)))) == left


@pytest.mark.parametrize(
    ("b", "h", "divisor", "left"),
    [
        (3.1, 6.0, 6.0, {"HardSigmoid", "Mul"}),
        (3.0, 6.1, 6.0, {"Add", "Clip", "Div", "Mul"}),
        (3.0, 6.0, 5.9, {"Add", "Clip", "Div", "Mul"}),
        (3.0, 5.0, 5.0, {"HardSigmoid", "Mul"}),
        (3.0, 6.0, -6.0, {"Add", "Clip", "Div", "Mul"}),
    ],
)
def test_other_constants_are_no_hard_swish(b, h, divisor, left):
    g = Graph()
    x = g.input(3, 50)
    y = g.Mul(x, g.Div(clipped(g, x, b, h), g.constant(divisor)))
    assert set(operators(rewritten(g, y))) == left
    g = Graph()
    x = g.input(3, 50)
    y = g.Div(g.Mul(x, clipped(g, x, b, h)), g.constant(divisor))
    assert "HardSwish" not in operators(rewritten(g, y))


# Swish


@pytest.mark.parametrize("first", BOTH)
def test_swish(first, g):
    x = g.input(3, 50)
    assert operators(rewritten(g, g.Mul(*swap(first, x, g.Sigmoid(x))))) == {"Swish": 1}


def test_what_is_no_swish(g):
    x, z = g.input(3, 50), g.input(3, 50)
    gate = g.Sigmoid(x)
    assert operators(rewritten(g, g.Mul(x, gate), gate, g.Mul(z, g.Sigmoid(x)))) == {
        "Sigmoid": 2,
        "Mul": 2,
    }


# LayerNormalization


def layer_normalization(g: Graph, x: str, axes=-1, square: str = "Pow", two=2.0, **more) -> str:
    axis = g.constant([axes], np.int64)
    centred = g.Sub(x, g.ReduceMean(x, axis, **more))
    squared = g.Pow(centred, g.constant(two)) if square == "Pow" else g.Mul(centred, centred)
    variance = g.Add(g.ReduceMean(squared, axis, **more), g.constant(1e-4))
    return str(g.Div(centred, g.Sqrt(variance)))


@pytest.mark.parametrize("square", ["Pow", "Mul"])
@pytest.mark.parametrize("first", BOTH)
@pytest.mark.parametrize("axis", [-1, 2])
def test_layer_normalization(square, first, axis, g):
    y = layer_normalization(g, g.input(2, 5, 8), axis, square)
    z = g.Add(*swap(first, g.Mul(*swap(first, y, g.random(8))), g.random(8)))
    assert operators(rewritten(g, z)) == {"LayerNormalization": 1}


def test_layer_normalization_without_scale(g):
    """Exporters leave out factors of one, and so do the rules before this one."""
    y = layer_normalization(g, g.input(2, 5, 8))
    assert operators(rewritten(g, g.Mul(y, g.constant(np.ones(8))))) == {"LayerNormalization": 1}


@pytest.mark.parametrize("change", [{"axes": 1}, {"two": 3.0}, {"keepdims": 0}])
def test_what_is_no_layer_normalization(change, g):
    x = g.input(8, 8, 8)
    y = layer_normalization(g, x, **change)
    assert not operators(rewritten(g, g.Add(g.Mul(y, g.random(8)), g.random(8))))[
        "LayerNormalization"
    ]


@pytest.mark.parametrize("scale", [(8,), (5, 8), (1,), (2, 5, 8)])
@pytest.mark.parametrize("offset", [(8,), (5, 1), (5, 8)])
def test_other_factors_and_terms_stay_behind_layer_normalization(scale, offset, g):
    y = layer_normalization(g, g.input(2, 5, 8))
    result = operators(rewritten(g, g.Add(g.Mul(y, g.random(*scale)), g.random(*offset))))
    assert result["LayerNormalization"] == 1
    assert result["Mul"] == (scale != (8,))
    assert result["Add"] == (offset != (8,) or scale != (8,))


# InstanceNormalization


@pytest.mark.parametrize("shape", [(2, 3, 7), (2, 3, 5, 7), (1, 2, 3, 4, 5)])
@pytest.mark.parametrize("free", BOTH)
def test_instance_normalization(shape, free, g):
    """As each channel's own mean and variance have it, in double precision."""
    x = g.input(*shape, free=free)
    scale, offset = g.rng.standard_normal((2, shape[1])).astype(np.float32)
    y = g.InstanceNormalization(x, g.constant(scale), g.constant(offset), epsilon=1e-2)
    session = InferenceSession(g.model(y), threads=1)
    (got,) = session.run(None, g.feed)
    assert not on_host(session)
    a = g.feed[x].astype(np.float64)
    around = tuple(range(2, len(shape)))
    centred = a - a.mean(around, keepdims=True)
    normal = centred / np.sqrt((centred**2).mean(around, keepdims=True) + 1e-2)
    column = (-1,) + (1,) * len(around)
    expected = normal * scale.reshape(column) + offset.reshape(column)
    np.testing.assert_allclose(got, expected, rtol=0, atol=2e-6 * np.abs(expected).max())


def test_computed_factors_of_instances(g):
    """They are reshaped in each run, which copies nothing."""
    x = g.input(1, 3, 4, 4)
    y = g.InstanceNormalization(x, g.input(3), g.random(3))
    assert operators(rewritten(g, y)) == {
        "LayerNormalization": 1, "Reshape": 1, "Mul": 1, "Add": 1,
    }  # fmt: skip


# Softmax


@pytest.mark.parametrize("operator", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize(
    ("shape", "axis"), [((2, 5), 1), ((2, 3, 5), 2), ((2, 5, 1, 1), 1), ((2, 1, 5, 1), 1)]
)
def test_softmax_of_old_opsets_is_one_softmax(operator, shape, axis):
    g = Graph(opset=12)
    y = getattr(g, operator)(g.input(*shape), axis=axis)
    assert operators(rewritten(g, y)) == {operator: 1}


def test_softmax_over_several_axes_keeps_its_reshapes():
    g = Graph(opset=12)
    result = operators(rewritten(g, g.Softmax(g.input(2, 3, 5), axis=1)))
    assert result["Softmax"] == 1 and len(result) > 1


# Nothing, and many


def test_no_ops_vanish(g):
    x = g.Tanh(g.input(2, 3, 4))
    x = g.Identity(g.Cast(g.Dropout(x), to=TensorProto.FLOAT))
    x = g.Div(
        g.Mul(g.Sub(g.Add(x, g.constant(0)), g.constant([0])), g.constant([[1]])), g.constant(1)
    )
    x = g.Transpose(g.Reshape(x, g.constant([2, 3, 4], np.int64)), perm=[0, 1, 2])
    x = g.Expand(g.Concat(x, axis=0), g.constant([2, 1, 4], np.int64))
    x = g.Pad(g.Sum(g.Max(x)), g.constant([0] * 6, np.int64))
    assert operators(rewritten(g, g.Exp(x))) == {"Tanh": 1, "Exp": 1}


def test_no_ops_at_the_borders(g):
    x = g.input(2, 3)
    y = g.Tanh(x)
    result = rewritten(g, g.Identity(x), g.Identity(y), g.Identity(y), y, g.Add(y, g.constant(0)))
    assert result.model.graph.inputs[0].name == x
    assert operators(result)["Tanh"] == 1


def test_neutral_operands_that_enlarge_stay(g):
    x = g.input(3, 1)
    y = g.Add(x, g.constant(np.zeros((1, 1, 1))))
    z = g.Mul(x, g.constant(np.ones((1, 4))))
    assert operators(rewritten(g, y, z)) == {"Add": 1, "Mul": 1}


def test_almost_neutral_operands_stay(g):
    x = g.input(3, 4)
    y = g.Sub(g.constant(0), x)
    z = g.Div(g.constant(1), x)
    w = g.Add(x, g.constant([0, 0, 0, 1]))
    assert operators(rewritten(g, y, z, w)) == {"Sub": 1, "Div": 1, "Add": 1}


@pytest.mark.parametrize(("operator", "left"), [("Sum", "Add"), ("Min", "Min"), ("Max", "Max")])
def test_many_operands(operator, left, g):
    x = [g.input(2, 3, 4), g.input(3, 1), g.input(1), g.input(2, 1, 4)]
    assert operators(rewritten(g, getattr(g, operator)(*x))) == {left: 3}


def test_reshapes_in_a_row(g):
    x = g.Flatten(g.Reshape(g.input(2, 3, 4), g.constant([0, -1], np.int64)), axis=0)
    y = g.Squeeze(g.Unsqueeze(x, g.constant([0], np.int64)), g.constant([1], np.int64))
    assert operators(rewritten(g, y)) == {"Reshape": 1}


def test_transposes_in_a_row(g):
    x = g.input(2, 3, 4)
    y = g.Transpose(g.Transpose(x, perm=[1, 2, 0]), perm=[0, 2, 1])
    z = g.Transpose(g.Transpose(x, perm=[1, 2, 0]), perm=[2, 0, 1])
    assert operators(rewritten(g, y, g.Tanh(z))) == {"Transpose": 1, "Tanh": 1}


def test_a_transpose_with_another_user_stays(g):
    y = g.Transpose(g.input(2, 3, 4))
    assert operators(rewritten(g, y, g.Transpose(y))) == {"Transpose": 2}
