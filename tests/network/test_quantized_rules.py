"""Which quantized operators become nodes of integers, and which must not."""

from __future__ import annotations

import numpy as np
import pytest

from pplconv.network.integer_nodes import RESIDUAL
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
    folded,
    kinds,
    only,
)

pytestmark = pytest.mark.unemulated("reads and rewrites graphs; onnxruntime crashes there")

BOTH = [False, True]


@pytest.fixture
def g() -> Quantized:
    return Quantized()


# Convolutions


@pytest.mark.parametrize("dtype", [U8, S8])
@pytest.mark.parametrize("stored", [U8, S8])
@pytest.mark.parametrize("bias", BOTH)
@pytest.mark.parametrize(
    "geometry",
    [
        {"pads": [1, 1, 1, 1]},
        {"pads": [2, 0, 1, 1], "strides": [2, 1], "dilations": [1, 2]},
        {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
    ],
)
def test_conv(dtype, stored, bias, geometry, g):
    how = (0.03, 121 if dtype == U8 else -7, dtype)
    out = (0.04, 130 if stored == U8 else 3, stored)
    y = g.pair(g.qconv(g.image(1, 8, 9, 7, how=how), 5, (8, 3, 3), bias, **geometry), *out)
    result = becomes(g, y, nodes=CONV, unit=0.04)
    assert result.fired["Conv of integers"] and result.fired["QuantizeLinear into QuantizedConv"]


@pytest.mark.parametrize("group", [2, 8])
def test_groups(group, g):
    becomes(g, g.pair(g.qconv(g.image(), 8, (8 // group, 3, 3), group=group)), nodes=CONV)


@pytest.mark.parametrize(
    ("dtype", "zero", "kept"), [(S8, 0, S8), (S8, 5, None), (U8, 128, S8), (U8, 3, np.int16)]
)
def test_zero_points_of_weights(dtype, zero, kept, g):
    w = g.kernel(4, 8, 3, 3, zero=zero, dtype=dtype, least=10)
    y = g.pair(g.Conv(g.image(), w))
    result = becomes(g, y, nodes=CONV)
    weights = only(result).inputs[1]
    assert kept is None or weights.dtype.numpy() == kept
    # Of symmetric weights the model's own are used.
    assert (weights.name == "c1") == (zero == 0)


def test_one_scale_and_a_scale_and_a_zero_point_a_channel(g):
    x = g.image()
    y = g.pair(g.Conv(x, g.kernel(4, 8, 1, 1, axis=None)))
    z = g.pair(g.Conv(x, g.kernel(4, 8, 1, 1, zero=[1, -2, 3, 0])))
    assert kinds(folded(g, y, z))["QuantizedConv"] == 2
    compared(g, y, z, unit=0.05, allowed=FEW)


def test_bias_that_is_quantized(g):
    x, w = g.image(), g.kernel(4, 8, 3, 3, axis=None)
    scale = np.float32(0.05) * g.scale_of(w)
    integers = g.rng.integers(-9999, 9999, 4)
    bias = g.DequantizeLinear(g.constant(integers, np.int32), g.constant(scale))
    y = g.pair(g.Conv(x, w, bias))
    result = becomes(g, y, nodes=CONV)
    w_sums = only(result).inputs[1].const_value.numpy().reshape(4, -1).sum(1, dtype=np.int64)
    np.testing.assert_array_equal(
        only(result).inputs[2].const_value.numpy(), integers - 128 * w_sums
    )


def test_channels_without_weights_are_their_bias(g):
    w = np.zeros((3, 8, 1, 1))
    w[1] = 100
    scales = np.float32([1e-30, 0.001, 10])
    weights = g.dq(g.constant(w, S8), scales, np.zeros(3), S8, axis=0)
    y = g.pair(g.Conv(g.image(), weights, g.constant([0.7, 0.1, -0.3])))
    assert kinds(folded(g, y)) == CONV
    (got,) = compared(g, y, unit=0.05, allowed=FEW)
    assert len(np.unique(got[:, 0])) == len(np.unique(got[:, 2])) == 1


@pytest.mark.parametrize("operator", ["Conv", "ConvTranspose", "Gemm", "MatMul"])
@pytest.mark.parametrize("most", [2, 100])
@pytest.mark.parametrize("bias", [0.01, 1e9])
def test_a_bias_between_the_units_of_sums(operator, most, bias, g):
    """It is added to the numbers: rounded to a unit they would be half of one off."""
    images = operator.startswith("Conv")
    w = g.rng.integers(-most, most + 1, (8, 8, 3, 3) if images else (8, 8))
    scale = np.float32(0.7)
    b = (bias * g.rng.uniform(-1, 1, 8)).astype(np.float32)
    x = g.image() if images else g.pair(g.input(3, 8), 0.05, 114)
    operands = [x, g.dq(g.constant(w, S8), scale, 0, S8), g.constant(b)]
    if operator == "MatMul":
        y = g.Add(g.MatMul(*operands[:2]), operands[2])
    else:
        y = getattr(g, operator)(*operands)
    assert kinds(folded(g, y))["Add"] == 1
    (plain,), (got,) = (
        InferenceSession(g.model(one), threads=1).run(None, g.feed) for one in (x, y)
    )
    wide = plain.astype(np.float64)
    if images:
        back = operator == "ConvTranspose"
        turned = np.flip(w, (2, 3)).swapaxes(0, 1) if back else w
        padded = np.pad(wide, [(0, 0), (0, 0), (2, 2), (2, 2)] if back else [(0, 0)] * 4)
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
        sums = np.einsum("nchwij,ocij->nohw", windows, turned.astype(np.float64))
    else:
        sums = wide @ w.astype(np.float64)
    beside = (1, 8, 1, 1) if images else (1, 8)
    wanted = sums * np.float64(scale) + b.reshape(beside).astype(np.float64)
    np.testing.assert_allclose(got, wanted, rtol=3e-7, atol=3e-7 * np.abs(sums).max())


def test_float_behind_a_convolution(g):
    """Sums become float32 where nothing quantizes them."""
    y = g.Sigmoid(g.qconv(g.image(), 4, (8, 3, 3)))
    nodes = {"QuantizeLinear": 1, "QuantizedConv": 1, "Add": 1, "Sigmoid": 1}
    becomes(g, y, nodes=nodes, unit=1e-6, allowed=1)


@pytest.mark.parametrize("activation", ["Relu", "Clip", "ReluClip", "lower"], ids=lambda name: name)
@pytest.mark.parametrize("zero", [0, 100])
def test_clamps(activation, zero, g):
    y = g.qconv(g.image(), 4, (8, 3, 3))
    if activation.startswith("Relu"):
        y = g.Relu(y)
    if activation.endswith("Clip"):
        y = g.Clip(y, g.constant(-0.4), g.constant(0.62))
    if activation == "lower":
        y = g.Clip(y, g.constant(-0.2))
    y = g.pair(y, 0.02, zero)
    becomes(g, y, nodes=CONV, unit=0.02)


@pytest.mark.parametrize("first", BOTH)
@pytest.mark.parametrize("relu", BOTH)
@pytest.mark.parametrize("dtype", [U8, S8])
def test_residual(first, relu, dtype, g):
    x = g.image(how=(0.04, 7, dtype))
    y = g.qconv(x, 8, (8, 3, 3), pads=[1] * 4)
    y = g.Add(x, y) if first else g.Add(y, x)
    y = g.pair(g.Relu(y) if relu else y, 0.03, 60, dtype)
    result = becomes(g, y, nodes=CONV, unit=0.03)
    assert only(result).inputs[RESIDUAL] is only(result).inputs[0]


def test_residual_of_another_type_than_the_output(g):
    """It is added to numbers, which are quantized in a step of their own."""
    x = g.image(how=(0.04, 7, S8))
    y = g.pair(g.Add(x, g.qconv(x, 8, (8, 3, 3), pads=[1] * 4)))
    result = becomes(g, y, nodes={**CONV, "QuantizeLinear": 2})
    assert only(result).inputs[RESIDUAL] is only(result).inputs[0]


def test_what_is_no_residual(g):
    x = g.image()
    y = g.qconv(x, 8, (8, 3, 3), pads=[1] * 4)
    float_input = g.input(1, 8, 9, 7)
    small = g.image(1, 8, 1, 1)
    # Numbers, an array that is repeated, and one that is clamped before.
    results = [
        g.pair(g.Add(y, float_input)),
        g.pair(g.Add(g.qconv(x, 8, (8, 1, 1)), small)),
        g.pair(g.Add(g.Relu(g.qconv(x, 8, (8, 1, 1))), x)),
    ]
    result = folded(g, *results)
    assert kinds(result)["QuantizedConv"] == 3 and kinds(result)["Add"] == 3
    assert all(
        len(node.inputs) <= RESIDUAL or node.inputs[RESIDUAL] is None
        for node in result.model.graph if node.op_type == "QuantizedConv"
    )  # fmt: skip
    compared(g, *results, unit=0.05, allowed=FEW)


def test_sums_that_others_read_stay(g):
    y = g.qconv(g.image(), 4, (8, 3, 3))
    z = g.pair(g.Relu(y))
    result = folded(g, y, z)
    assert kinds(result) == {**CONV, "QuantizeLinear": 2, "Add": 1, "Relu": 1}
    compared(g, z, unit=0.05, allowed=FEW)


def test_dequantized_values_that_others_read_stay(g):
    x = g.image()
    y, z = g.pair(g.qconv(x, 4, (8, 3, 3))), g.Sigmoid(x)
    assert kinds(folded(g, y, z)) == {**CONV, "DequantizeLinear": 2, "Sigmoid": 1}


def weights(g: Quantized, most: int, scale: float) -> str:
    return g.dq(g.constant(g.rng.integers(-most, most + 1, (4, 8, 3, 3)), S8), scale, 0, S8)


# Convolutions that are none of integers, by what keeps them.
WRONG = {
    "numbers that are not quantized": lambda g: g.Conv(g.input(1, 8, 9, 7), g.kernel(4, 8, 3, 3)),
    "weights that are not quantized": lambda g: g.Conv(g.image(), g.random(4, 8, 3, 3)),
    "scales along another axis": lambda g: g.Conv(g.image(), g.kernel(4, 8, 3, 3, axis=1)),
    "an input of many scales": lambda g: g.Conv(
        g.pair(g.input(1, 8, 9, 7), np.full(8, 0.1), np.full(8, 3)), g.kernel(4, 8, 3, 3)
    ),
    "an input of 16 bits": lambda g: g.Conv(
        g.image(how=(0.001, 5, np.uint16)), g.kernel(4, 8, 3, 3)
    ),
    "units that are no normal numbers": lambda g: g.Conv(g.image(), weights(g, 98, 1e-38)),
    "a bias that is computed": lambda g: g.Conv(g.image(), g.kernel(4, 8, 3, 3), g.input(4)),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_convolution_of_integers(name, g):
    result = folded(g, g.pair(WRONG[name](g)))
    assert "QuantizedConv" not in kinds(result)
    assert kinds(result)["Conv"] == 1


def test_outputs_that_are_not_taken_in(g):
    """16 bits, many scales, and scales that leave no normal number."""
    x = g.image()
    results = [
        g.q(g.qconv(x, 4, (8, 3, 3)), 0.001, 5, np.uint16),
        g.q(g.qconv(x, 4, (8, 3, 3)), np.full(4, 0.1), np.full(4, 3)),
        g.q(g.qconv(x, 4, (8, 3, 3)), 1e38, 3),
    ]
    assert kinds(folded(g, *results)) == {"QuantizeLinear": 4, "QuantizedConv": 3}


# Products


@pytest.mark.parametrize("shape", [(3, 8), (2, 3, 8)])
@pytest.mark.parametrize("offset", [None, (6,), (1, 6), (1,), ()])
@pytest.mark.parametrize("first", BOTH)
def test_matmul(shape, offset, first, g):
    y = g.MatMul(g.image(*shape), g.kernel(8, 6, axis=1))
    if offset is not None:
        c = g.positive(*offset)
        y = g.Add(c, y) if first else g.Add(y, c)
    y = g.pair(g.Relu(y), 0.02, 10)
    becomes(g, y, nodes=LINEAR, unit=0.02, allowed=0.06)


@pytest.mark.parametrize("transposed", [0, 1])
@pytest.mark.parametrize("offset", [None, (6,), (1, 6), (1,)])
def test_gemm(transposed, offset, g):
    w = g.kernel(*((6, 8) if transposed else (8, 6)), axis=1 - transposed)
    more = () if offset is None else (g.positive(*offset),)
    y = g.pair(g.Gemm(g.image(3, 8), w, *more, transB=transposed, beta=0.5), 0.02, 10)
    becomes(g, y, nodes=LINEAR, unit=0.02, allowed=0.06)


def test_products_that_are_none_of_integers(g):
    x = g.image(3, 8)
    results = [
        g.MatMul(x, g.image(8, 6)),
        g.MatMul(x, g.kernel(8, 6, axis=0)),
        g.MatMul(g.image(8), g.kernel(8, 6, axis=1)),
        g.MatMul(x, g.kernel(2, 8, 6, axis=None)),
        g.Gemm(x, g.kernel(3, 6, axis=1), transA=1),
        g.Gemm(x, g.kernel(8, 6, axis=1), alpha=0.5),
        g.Gemm(x, g.kernel(8, 6, axis=1), g.random(3, 6)),
    ]
    assert "QuantizedLinear" not in kinds(folded(g, *results))


def test_residual_of_a_product(g):
    x = g.image(3, 8)
    y = g.pair(g.Add(g.MatMul(x, g.kernel(8, 8, axis=1)), x), 0.03, 77)
    result = folded(g, y)
    assert only(result, "QuantizedLinear").inputs[RESIDUAL] is not None
    compared(g, y, unit=0.03, allowed=0.06)
