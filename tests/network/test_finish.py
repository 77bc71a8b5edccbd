"""What follows an activation while a block is in L1: scales, offsets and sums, in all loops."""

from __future__ import annotations

import numpy as np
import pytest

from pplconv.network.session import InferenceSession
from pplconv.schedules.finish import Finish
from tests.network.graphs import Graph
from tests.network.running import agree, referred, run, step_kinds

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
    g = Graph(opset=20)
    g.rng = rng
    weight = rng.standard_normal((oc, ic // groups, k, k)) / np.sqrt(ic * k * k / groups)
    how = {"strides": [stride] * 2, "pads": [k // 2] * 4, "group": groups}
    y = g.Conv(g.input(2, ic, side, side), g.constant(weight), g.random(oc), **how)
    if activation:
        more = {"alpha": 0.11, "beta": 0.4} if activation == "HardSigmoid" else {}
        y = getattr(g, activation)(y, **more)
    if scale is not None:
        y = g.Mul(y, g.constant(scale))
    if offset is not None:
        y = g.Add(y, g.constant(offset))
    if after:
        out = (side + 2 * (k // 2) - k) // stride + 1
        y = g.Add(y, g.input(2, oc, out, out))
    return g.model(y), g.feed


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
    assert step_kinds(session, feed) == ["Copy", "Conv", "Copy"]


def test_numbers_that_do_not_fit():
    with pytest.raises(ValueError, match="a number for each channel"):
        Finish("f32", np.ones(3), np.ones(4))
    with pytest.raises(ValueError, match="a number for each channel"):
        Finish("f32", np.ones(0))
