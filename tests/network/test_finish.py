"""What follows an activation while a block is in L1: scales, offsets and sums, in all loops."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from pplconv.network.session import InferenceSession
from pplconv.schedules.finish import Finish
from tests.network.models import model_of
from tests.network.running import agree, referred, run

# Channels in and out, kernel, stride, groups, height: each is another kind of loops.
LAYERS = {
    "product": (24, 40, 1, 1, 1, 9),
    "strided product": (19, 21, 1, 2, 1, 9),
    "stem": (3, 17, 3, 2, 1, 15),
    "winograd": (64, 72, 3, 1, 1, 16),
    "few pixels": (48, 33, 3, 1, 1, 3),
    "one channel": (5, 1, 3, 1, 1, 8),
    "depthwise": (37, 37, 5, 1, 37, 9),
    "depthwise, stride 2": (16, 16, 3, 2, 16, 10),
    "groups": (12, 20, 3, 1, 4, 7),
}
ACTIVATIONS = ("", "Relu", "HardSwish", "HardSigmoid", "LeakyRelu", "Sigmoid")


def network(rng, layer, activation, scale, offset, after):
    """A convolution with what follows, and a feed."""
    ic, oc, k, stride, groups, side = LAYERS[layer]
    weight = rng.standard_normal((oc, ic // groups, k, k)) / np.sqrt(ic * k * k / groups)
    kept = {"w": weight, "b": rng.standard_normal(oc)}
    nodes = [helper.make_node(
        "Conv", ["x", "w", "b"], ["sum"], strides=[stride] * 2, pads=[k // 2] * 4, group=groups,
    )]  # fmt: skip
    last = "sum"
    if activation:
        alpha = {"alpha": 0.11, "beta": 0.4} if activation == "HardSigmoid" else {}
        nodes.append(helper.make_node(activation, [last], ["active"], **alpha))
        last = "active"
    for name, op in (("scale", "Mul"), ("offset", "Add")):
        if (scale if name == "scale" else offset) is not None:
            kept[name] = scale if name == "scale" else offset
            nodes.append(helper.make_node(op, [last, name], [name + "d"]))
            last = name + "d"
    out = (side + 2 * (k // 2) - k) // stride + 1
    inputs = {"x": (2, ic, side, side)}
    if after:
        inputs["r"] = (2, oc, out, out)
        nodes.append(helper.make_node("Add", [last, "r"], ["total"]))
        last = "total"
    feed = {n: rng.standard_normal(s).astype(np.float32) for n, s in inputs.items()}
    constants = {n: np.asarray(a, np.float32) for n, a in kept.items()}
    outputs = {last: (np.float32, (2, oc, out, out))}
    return model_of(nodes, feed, constants, outputs, opset=20), feed


@pytest.mark.sampled(11)
@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_what_follows(layer, activation, rng):
    oc = LAYERS[layer][1]
    for _ in range(3):
        shape = [(1, oc, 1, 1), (1, 1, 1, 1)][int(rng.integers(0, 2))]
        scale, offset = (
            rng.standard_normal(shape) if rng.integers(0, 2) else None for _ in range(2)
        )
        model, feed = network(rng, layer, activation, scale, offset, bool(rng.integers(0, 2)))
        agree(run(model, feed, teams=(1, 2, 3)), referred(model, feed), 3e-5)


def test_it_is_one_step(rng):
    """Nothing but the copies of the borders is left beside the convolution."""
    model, feed = network(
        rng, "winograd", "HardSigmoid", rng.standard_normal((1, 72, 1, 1)),
        rng.standard_normal((1, 72, 1, 1)), False,
    )  # fmt: skip
    session = InferenceSession(model, threads=1)
    kinds = [step.kind for step in session.plan_for({n: x.shape for n, x in feed.items()}).steps]
    assert kinds == ["Copy", "Conv", "Copy"]


def test_numbers_that_do_not_fit():
    with pytest.raises(ValueError, match="a number for each channel"):
        Finish("f32", np.ones(3), np.ones(4))
    with pytest.raises(ValueError, match="a number for each channel"):
        Finish("f32", np.ones(0))
