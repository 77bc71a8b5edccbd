"""HardSwish, factors and offsets in the stores of products of integers, and what stays outside."""

from __future__ import annotations

import numpy as np
import pytest

from pplconv.network.session import InferenceSession
from tests.network.quantizing import (
    CONV,
    FEW,
    LINEAR,
    S8,
    U8,
    Quantized,
    becomes,
    compared,
    exact,
    folded,
    kinds,
    only,
)

pytestmark = pytest.mark.unemulated("onnxruntime crashes there")

HOW = {U8: (0.02, 17, U8), S8: (0.02, -60, S8)}


@pytest.fixture
def g() -> Quantized:
    return Quantized()


def affine(g: Quantized, y: str, steps: str, shape=()) -> str:
    """Multiply (m), by a negative number (n), or add (a), constants as the first operand (M, A)."""
    for step in steps:
        number = {"m": 0.7, "n": -1.3, "a": 0.31}[step.lower()]
        operands = (y, g.constant(np.full(shape, number)))
        operator = g.Add if step.lower() == "a" else g.Mul
        y = operator(*(operands[::-1] if step.isupper() else operands))
    return y


def own(result, name="QuantizedConv"):
    return {key: attribute.value for key, attribute in only(result, name).attributes.items()}


@pytest.mark.parametrize("dtype", [U8, S8])
@pytest.mark.parametrize("steps", ["", "m", "a", "ma", "MA", "am", "na", "mama"])
def test_hardswish(dtype, steps, g):
    y = g.pair(affine(g, g.HardSwish(g.qconv(g.image(), 5, (8, 3, 3))), steps), *HOW[dtype])
    result = becomes(g, y, nodes=CONV, unit=0.02)
    assert own(result)["gate"] == 1
    (got,) = InferenceSession(g.model(y), threads=1).run(None, g.feed)
    np.testing.assert_array_equal(got, exact(result, g.feed)[0])


@pytest.mark.parametrize("group", [1, 8])
def test_numbers_behind_a_gate(group, g):
    """Where nothing quantizes them, they are float32; a bias would be added before the gate."""
    x = g.qconv(g.image(), 8, (8 // group, 3, 3), bias=False, group=group, pads=[1] * 4)
    y = g.Sigmoid(affine(g, g.HardSwish(x), "ma"))
    nodes = {"QuantizeLinear": 1, "QuantizedConv": 1, "Sigmoid": 1}
    becomes(g, y, nodes=nodes, unit=1e-5, allowed=1)


def test_a_product_of_matrices(g):
    x = g.pair(g.input(9, 24))
    y = g.pair(affine(g, g.HardSwish(g.Gemm(x, g.kernel(24, 7, axis=1), g.random(7))), "ma"))
    becomes(g, y, nodes=LINEAR)


def test_a_clamp_behind_a_gate(g):
    x = affine(g, g.HardSwish(g.qconv(g.image(), 5, (8, 3, 3))), "ma")
    y = g.pair(g.Clip(x, g.constant(0.3), g.constant(1.1)), 0.02, 17)
    assert kinds(folded(g, y)) == CONV
    (got,) = compared(g, y, unit=0.02, allowed=FEW)
    assert got.min() == pytest.approx(0.3, abs=0.02)


# Nodes that stay outside


def outside(g: Quantized, y: str, name: str) -> dict:
    """Attributes of the only product, of a model in which a node stays."""
    result = folded(g, y)
    assert kinds(result)[name] == 1, kinds(result)
    compared(g, y, unit=0.05, allowed=FEW)
    return own(result)


# Nodes that stay, and whether the product has a gate; behind the input and its convolution.
OUTSIDE = {
    "of a sum with a residual": ("HardSwish", 0, lambda g, x, y: g.HardSwish(g.Add(y, x))),
    "a residual behind a gate": ("Add", 1, lambda g, x, y: g.Add(g.HardSwish(y), x)),
    "behind a clamp": (
        "HardSwish", 0, lambda g, x, y: g.HardSwish(g.Clip(y, g.constant(-0.5), g.constant(0.8)))
    ),
    "a second gate": ("HardSwish", 1, lambda g, x, y: g.HardSwish(g.HardSwish(y))),
    "factors of channels": ("Mul", 1, lambda g, x, y: g.Mul(g.HardSwish(y), of_channels(g))),
    "offsets of channels": ("Add", 1, lambda g, x, y: g.Add(g.HardSwish(y), of_channels(g))),
    # It would give the result an axis more.
    "a higher rank": ("Mul", 1, lambda g, x, y: affine(g, g.HardSwish(y), "m", (1,) * 5)),
}  # fmt: skip


def of_channels(g: Quantized) -> str:
    return g.constant(g.rng.uniform(0.5, 1, (8, 1, 1)))


@pytest.mark.parametrize("name", OUTSIDE)
def test_nodes_that_stay_outside(name, g):
    node, gate, write = OUTSIDE[name]
    x = g.image()
    y = g.pair(write(g, x, g.qconv(x, 8, (8, 3, 3), pads=[1] * 4)))
    assert outside(g, y, node)["gate"] == gate


def test_a_factor_behind_a_clamp(g):
    y = g.Clip(g.HardSwish(g.qconv(g.image(), 5, (8, 3, 3))), g.constant(0.0), g.constant(0.8))
    assert outside(g, g.pair(affine(g, y, "m"), 0.01, 17), "Mul")["high"] == np.float32(0.8)


def test_a_factor_of_zero(g):
    y = g.HardSwish(g.qconv(g.image(), 5, (8, 3, 3)))
    y = g.Mul(y, g.constant(0.0))
    result = folded(g, g.pair(g.Add(y, g.qconv(g.image(), 5, (8, 3, 3)))))
    assert all(
        np.all(np.abs(node.inputs[3].const_value.numpy()) > 0)
        for node in result.model.graph
        if node.op_type == "QuantizedConv"
    )


def test_a_number_that_others_read(g):
    """What two nodes read stays as it is, and each of them gets it."""
    x = g.qconv(g.image(), 5, (8, 3, 3))
    y = g.pair(g.HardSwish(x), 0.02, 17)
    result = folded(g, y, g.Sigmoid(x))
    assert kinds(result)["HardSwish"] == 1 and own(result)["gate"] == 0


@pytest.mark.parametrize("rank", [0, 1, 4])
def test_ranks_of_a_number(rank, g):
    y = affine(g, g.HardSwish(g.qconv(g.image(), 5, (8, 3, 3))), "ma", (1,) * rank)
    assert kinds(folded(g, g.pair(y, 0.02, 17))) == CONV
