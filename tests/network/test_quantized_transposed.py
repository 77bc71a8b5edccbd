"""ConvTranspose between DequantizeLinear and QuantizeLinear: convolutions of integers."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import pplconv
from pplconv.network.session import InferenceSession
from tests.network.quantizing import (
    FEW,
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
from tests.network.running import by_onnxruntime, needs_onnxruntime, on_host

TRANSPOSED = {"QuantizeLinear": 1, "QuantizedConvTranspose": 1, "DequantizeLinear": 1}
NAME = "QuantizedConvTranspose"

pytestmark = [
    needs_onnxruntime,
    pytest.mark.unemulated("reads and rewrites graphs; onnxruntime crashes there"),
]


@pytest.fixture
def g() -> Quantized:
    return Quantized()


def drawn(g: Quantized) -> str:
    """A node with random attributes, types, scales, and what follows in its store."""
    rng = g.rng
    groups = int(rng.choice([1, 1, 2, 3]))
    size, kernel, stride, dilation = (rng.integers(1, n, 2) for n in (6, 4, 5, 3))
    how = rng.integers(6)
    if how == 0:
        kernel, dilation = stride, np.array([1, 1])
    elif how == 1:
        stride = rng.integers(5, 40, 2)
    full = (size - 1) * stride + (kernel - 1) * dilation + 1
    attributes = {"group": groups, "strides": stride.tolist(), "dilations": dilation.tolist()}
    if rng.random() < 0.4:
        more = rng.integers(0, stride)
        attributes["output_padding"], full = more.tolist(), full + more
    if how > 2:
        begins = rng.integers(0, full)
        attributes["pads"] = [*begins.tolist(), *rng.integers(0, full - begins).tolist()]
    depth, channels = int(rng.choice([1, 2, 5, 16])), int(rng.choice([1, 3, 8, 17]))
    dtype = (U8, S8)[rng.integers(2)]
    zero = int(rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max + 1))
    x = g.image(int(rng.integers(1, 3)), depth * groups, *size.tolist(), how=(0.03, zero, dtype))
    of_weights = (S8, 0) if rng.random() < 0.7 else (U8, 120)
    w = g.kernel(
        depth * groups, channels, *kernel.tolist(), axis=(None, 1)[rng.integers(2)],
        dtype=of_weights[0], zero=of_weights[1],
    )  # fmt: skip
    bias = () if rng.random() < 0.4 else (g.random(channels * groups),)
    y = str(g.ConvTranspose(x, w, *bias, **attributes))
    follows = rng.choice(["", "Relu", "Clip", "HardSwish"])
    if follows == "Clip":
        y = g.Clip(y, g.constant(-0.5, np.float32), g.constant(0.4, np.float32))
    elif follows:
        y = getattr(g, follows)(y)
    return y


@pytest.mark.parametrize("seed", range(60))
def test_drawn_attributes(seed):
    """Beside onnxruntime, and the same bits as one product for each tap by the contract."""
    g = Quantized()
    g.rng = np.random.default_rng(seed)
    stored = (U8, S8)[seed % 2]
    y = g.pair(drawn(g), 0.02, int(g.rng.integers(0, 100)), stored)
    model, result = g.model(y), folded(g, y)
    found = kinds(result)
    # A bias that is not coarse enough for small weights is added to numbers.
    assert found == TRANSPOSED or found["Add"] or not found[NAME]
    got = [InferenceSession(model, threads=n).run(None, g.feed)[0] for n in (1, 2)]
    assert got[0].tobytes() == got[1].tobytes()
    if found[NAME]:
        np.testing.assert_array_equal(got[0], exact(result, g.feed)[0])
    difference = np.abs(got[0] - by_onnxruntime(model, g.feed)[0]) / 0.02
    assert difference.max() < 1.001 and (difference > 0.001).mean() <= FEW


def test_most_drawn_nodes_are_of_integers():
    found: Counter[str] = Counter()
    for seed in range(60):
        g = Quantized()
        g.rng = np.random.default_rng(seed)
        found.update(kinds(folded(g, g.pair(drawn(g), 0.02, 9, U8))))
    assert found[NAME] >= 50


@pytest.mark.parametrize(
    ("shape", "kernel", "attributes"),
    [
        ((2, 6, 9), (6, 5, 4), {"strides": [2], "pads": [1, 1]}),
        ((1, 6, 3, 4, 5), (6, 5, 2, 2, 2), {"strides": [2, 2, 2]}),
        ((1, 6, 3, 4, 5), (6, 5, 3, 3, 2), {"strides": [2, 1, 2], "pads": [0, 1, 0, 0, 1, 0]}),
    ],
    ids=str,
)
def test_signals_and_volumes(shape, kernel, attributes, g):
    """Volumes whose depths overlap add parts of float32."""
    y = g.ConvTranspose(g.image(*shape), g.kernel(*kernel, axis=1), g.random(5), **attributes)
    y = g.pair(y, 0.02, 100)
    found = kinds(folded(g, y))
    assert found[NAME] >= 1 and not found["ConvTranspose"]
    compared(g, y, unit=0.02, allowed=FEW)


@pytest.mark.unbanded("counts the steps of a whole image")
@pytest.mark.parametrize("side", [2, 3])
@pytest.mark.parametrize("channels", [3, 24])
def test_steps_are_products_of_bytes(side, channels, g):
    """A head of a detector: all outputs of a pixel by one product, or one for each phase."""
    w = g.kernel(12, channels, side, side, axis=1)
    y = g.ConvTranspose(g.image(1, 12, 6, 7), w, g.random(channels), strides=[2, 2])
    y = g.pair(g.Relu(y), 0.02, 0)
    becomes(g, y, nodes=TRANSPOSED, unit=0.02)
    session = InferenceSession(g.model(y), threads=1)
    steps = [step for step in session.plan_for(g.feed).steps if step.kind == NAME]
    assert len(steps) == (1 if side == 2 else 4)
    assert all("uint8 x int8 to uint8" in step.detail for step in steps)
    assert not on_host(session)


def test_a_table_in_the_store(g):
    """An activation between two pairs maps byte to byte."""
    w = g.kernel(8, 5, 3, 3, axis=1)
    y = g.pair(g.ConvTranspose(g.image(), w, g.random(5), strides=[2, 2]), 0.03, 128)
    y = g.pair(g.Sigmoid(y), 1 / 255, 0)
    compared(g, y, unit=1 / 255, allowed=FEW)
    session = InferenceSession(g.model(y), threads=1)
    assert "by a table" in str(session.plan_for(g.feed))


def test_float_behind_it(g):
    """Without a QuantizeLinear the sums become float32."""
    w = g.kernel(8, 5, 3, 3, axis=1)
    y = g.Sigmoid(g.ConvTranspose(g.image(), w, g.random(5), strides=[2, 2]))
    result = folded(g, y)
    assert only(result, NAME).outputs[0].dtype.numpy() == np.float32
    compared(g, y, unit=1e-4, allowed=1.0)


def test_a_sum_behind_it_is_no_residual(g):
    w = g.kernel(8, 8, 3, 3, axis=1)
    x = g.image()
    y = g.Add(g.ConvTranspose(x, w, pads=[1] * 4), x)
    y = g.pair(y, 0.04, 120)
    found = kinds(folded(g, y))
    assert found[NAME] == 1 and found["Add"] == 1
    compared(g, y, unit=0.04, allowed=FEW)


def test_what_is_no_product_of_integers(g):
    """Computed weights, and scales of the wrong axis."""
    x = g.image(1, 8, 5, 5)
    for w in (g.input(8, 5, 3, 3), g.kernel(8, 5, 3, 3, axis=0)):
        y = g.pair(g.ConvTranspose(x, w), 0.05, 128)
        found = kinds(folded(g, y))
        assert found["ConvTranspose"] == 1 and not found[NAME]
        compared(g, y, unit=0.05, allowed=FEW)


def test_sums_beyond_int32_stay_numbers(g):
    """So many terms that a part of the sum, or its offset, could leave int32."""
    w = g.kernel(80000, 1, 1, 1, axis=None)
    y = g.pair(g.ConvTranspose(g.image(1, 80000, 1, 2), w), 0.05, 128)
    assert not kinds(folded(g, y))[NAME]


def test_quantize_model_takes_it(rng):
    """All but groups and sums: those stay as they are."""
    g = Quantized()
    x = g.input(1, 8, 6, 7)
    y = g.Relu(g.ConvTranspose(x, g.random(8, 6, 2, 2), g.random(6), strides=[2, 2]))
    y = g.ConvTranspose(y, g.random(6, 4, 3, 3), strides=[2, 2], pads=[1] * 4)
    y = g.Add(y, g.random(4, 1, 1))
    y = g.ConvTranspose(y, g.random(4, 3, 3, 3), group=2)
    samples = [{x: rng.standard_normal((1, 8, 6, 7)).astype(np.float32)} for _ in range(3)]
    model = g.model(y)
    quantized = pplconv.quant.quantize_model(model, samples)
    session = InferenceSession(quantized, threads=1)
    (got,) = session.run(None, samples[0])
    (expected,) = InferenceSession(model).run(None, samples[0])
    noise = np.square(got - expected, dtype=np.float64).sum()
    assert noise < 1e-3 * np.square(expected, dtype=np.float64).sum()
    plan = str(session.plan_for(samples[0]))
    assert plan.count(NAME) >= 2 and "Conv " in plan
