"""Scales, offsets and BatchNormalization into the weights beside them, and what stays."""

from __future__ import annotations

import numpy as np
import pytest

from tests.network.graphs import Graph, operators, rewritten

pytestmark = pytest.mark.unemulated("reads and rewrites graphs, which no machine changes")

KINDS = ["Conv", "ConvTranspose"]


def convolution(g: Graph, kind: str, x: str, channels: int = 4, group: int = 1, **more) -> str:
    """A convolution of four channels, of which `channels` come out."""
    if kind == "Conv":
        return g.conv(x, channels, (4 // group, 3, 3), group=group, **more)
    w = g.random(4, channels // group, 3, 3)
    return g.ConvTranspose(x, w, g.random(channels), group=group, **more)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("group", [1, 2])
def test_batch_normalization_goes_into_the_weights(kind, group, g):
    y = convolution(g, kind, g.input(2, 4, 7, 6), 6, group, strides=[2, 2], pads=[1, 1, 0, 1])
    result = rewritten(g, g.batch_norm(y, 6, epsilon=0.01))
    assert operators(result) == {f"pplconv::{kind}": 1}
    assert len(result.fired[f"BatchNormalization into {kind}"]) == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("operator", ["Mul", "Add", "Sub", "Div"])
@pytest.mark.parametrize("shape", [(), (1,), (5, 1, 1), (1, 5, 1, 1), (1, 1, 1, 1)])
@pytest.mark.parametrize("first", [False, True])
def test_affine_after_goes_into_the_weights(kind, operator, shape, first, g):
    w = (5, 4, 3, 3) if kind == "Conv" else (4, 5, 3, 3)
    y = getattr(g, kind)(g.input(1, 4, 6, 6), g.random(*w))
    c = g.positive(*shape)
    result = rewritten(g, getattr(g, operator)(*((c, y) if first else (y, c))))
    merged = not (operator == "Div" and first)
    assert operators(result)[operator] == (0 if merged else 1)
    assert (f"affine into {kind}" in result.fired) == merged


@pytest.mark.parametrize(
    "shape",
    [(1, 5, 4, 4), (4,), (1, 4), (4, 1), (2, 5, 1, 1), (2, 1, 1, 1), (1, 1, 5, 1, 1), (1,) * 5],
)
def test_constants_that_are_not_per_channel_stay(shape, g):
    y = g.conv(g.input(1, 4, 6, 6), 5, (4, 3, 3))
    result = rewritten(g, g.Add(y, g.random(*shape)))
    assert operators(result) == {"pplconv::Conv": 1, "Add": 1}


def test_one_channel_is_not_taken_for_many(g):
    y = g.conv(g.input(1, 4, 6, 6), 1, (4, 3, 3))
    result = rewritten(g, g.Mul(y, g.random(1, 5, 1, 1)))
    assert operators(result) == {"pplconv::Conv": 1, "Mul": 1}


def test_division_by_zero_stays(g):
    y = g.conv(g.input(1, 4, 6, 6), 2, (4, 3, 3))
    z = g.Div(y, g.constant([[[1.0]], [[0.0]]]))
    result = rewritten(g, g.Clip(z, g.constant(-1), g.constant(1)))
    assert operators(result)["Div"] == 1


def test_scale_that_differs_between_runs_stays(g):
    y = g.conv(g.input(1, 4, 6, 6), 5, (4, 3, 3))
    result = rewritten(g, g.Mul(y, g.input(1, 5, 1, 1)))
    assert operators(result) == {"pplconv::Conv": 1, "Mul": 1}


@pytest.mark.parametrize("output", [False, True])
def test_convolution_with_another_user_keeps_its_weights(output, g):
    y = g.conv(g.input(1, 4, 6, 6), 5, (4, 3, 3))
    z = g.batch_norm(y, 5)
    result = rewritten(g, z, y if output else g.Tanh(y))
    assert operators(result)["Mul"] == 1 and operators(result)["Add"] == 1
    assert "BatchNormalization into Conv" not in result.fired


def test_shared_weights_are_copied(g):
    x, w = g.input(1, 4, 6, 6), g.random(4, 4, 1, 1)
    y = g.Conv(x, w)
    z = g.Mul(g.Conv(x, w), g.random(4, 1, 1))
    result = rewritten(g, y, z, g.Mul(w, g.input(1)))
    assert len(result.fired["affine into Conv"]) == 1


def test_weights_that_are_an_input_are_left_alone(g):
    y = g.Conv(g.input(1, 4, 6, 6), g.input(4, 4, 1, 1))
    result = rewritten(g, g.Mul(y, g.random(4, 1, 1)))
    assert operators(result) == {"Conv": 1, "Mul": 1}


def test_batch_normalization_in_training_goes_into_no_weights(g):
    y = g.conv(g.input(2, 4, 6, 6), 5, (4, 3, 3))
    z = g.batch_norm(y, 5, outputs=3, training_mode=1)
    result = rewritten(g, z[0])
    assert "BatchNormalization into Conv" not in result.fired
    assert operators(result)["ReduceMean"] >= 1


@pytest.mark.parametrize("shape", [(2, 3, 5, 4), (4, 3), (2, 3, 7)])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_batch_normalization_elsewhere_is_a_product_and_a_sum(shape, dtype, g):
    x = g.input(*shape)
    result = rewritten(g, g.batch_norm(x, 3), tolerance=4e-3 if dtype == np.float16 else 2e-5)
    assert operators(result) == {"Mul": 1, "Add": 1}
    assert {len(v.shape) for v in result.model.graph.initializers.values()} == {len(shape) - 1}


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("operator", ["Mul", "Add", "Sub", "Div"])
@pytest.mark.parametrize("shape", [(), (1,), (4, 1, 1)])
def test_affine_before_goes_into_the_weights(group, operator, shape, g):
    x = getattr(g, operator)(g.input(1, 4, 6, 6), g.positive(*shape))
    result = rewritten(g, convolution(g, "Conv", x, 6, group))
    assert operators(result) == {"pplconv::Conv": 1}


def test_subtraction_from_a_constant_goes_into_the_weights(g):
    x = g.Sub(g.positive(4, 1, 1), g.input(1, 4, 6, 6))
    assert operators(rewritten(g, convolution(g, "Conv", x))) == {"pplconv::Conv": 1}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("operator", ["Mul", "Add"])
def test_only_factors_pass_padding(kind, operator, g):
    x = getattr(g, operator)(g.input(1, 4, 6, 6), g.positive(4, 1, 1))
    result = rewritten(g, convolution(g, kind, x, pads=[1, 1, 1, 1]))
    assert operators(result)[operator] == (1 if operator == "Add" else 0)


@pytest.mark.parametrize("shape", [(1, 4, 1, 1), (4, 6, 6)])
def test_affine_before_that_makes_the_input_stays(shape, g):
    x = g.Mul(g.input(1, 1, 6, 6), g.random(*shape))
    assert operators(rewritten(g, convolution(g, "Conv", x)))["Mul"] == 1


def test_affine_before_with_another_user_stays(g):
    x = g.Mul(g.input(1, 4, 6, 6), g.random(4, 1, 1))
    assert operators(rewritten(g, convolution(g, "Conv", x), g.Tanh(x)))["Mul"] == 1


def test_factors_that_a_type_cannot_hold_stay():
    g = Graph(dtype=np.float16)
    y = g.Conv(g.input(1, 1, 2, 2), g.constant(np.full((1, 1, 1, 1), 6e4)))
    z = g.Mul(y, g.constant(100.0))
    result = rewritten(g, g.Clip(z, g.constant(-1), g.constant(1)), tolerance=1e-3)
    assert "affine into Conv" not in result.fired


def test_constants_in_a_row_become_one(g):
    x = g.input(1, 3, 4, 4)
    y = g.Mul(g.Add(g.Mul(x, g.random(3, 1, 1)), g.random(3, 1, 1)), g.random(1))
    result = rewritten(g, g.Add(y, g.constant(2.0)))
    assert operators(result) == {"Mul": 1, "Add": 1}


def test_constants_of_different_axes_stay_apart(g):
    x = g.input(1, 3, 4, 4)
    result = rewritten(g, g.Mul(g.Mul(x, g.random(3, 1, 1)), g.random(1, 4)))
    assert operators(result) == {"Mul": 2}


def test_constants_that_enlarge_their_operand(g):
    y = g.Mul(g.Add(g.input(1, 3, 1, 1), g.random(1, 3, 4, 4)), g.constant(2.0))
    result = rewritten(g, g.Tanh(y))
    assert operators(result)["Mul"] == 1
