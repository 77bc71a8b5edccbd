"""Bounds of a Clip that cross: ONNX has the upper one everywhere, ``min(max(x, low), high)``."""

from __future__ import annotations

import numpy as np
import pytest

from pplconv.network.session import InferenceSession
from tests.network.graphs import Graph
from tests.network.quantizing import Quantized
from tests.network.running import agree, by_onnxruntime, check, needs_onnxruntime

BOUNDS = [(2.0, 1.0), (0.5, -0.25), (np.inf, 3.0), (1.0, -np.inf)]


def maker(name: str, g: Graph) -> str:
    """A product, or an input, whose result is clipped."""
    x = g.input(2, 3, 6, 5)
    if name == "Conv":
        return g.conv(x, 4, (3, 3, 3))
    if name == "grouped":
        return g.conv(x, 6, (1, 3, 3), group=3)
    if name == "ConvTranspose":
        return str(g.ConvTranspose(x, g.random(3, 2, 2, 2), strides=[2, 2]))
    if name == "MatMul":
        return str(g.Add(g.MatMul(x, g.random(5, 7)), g.random(7)))
    return x


@needs_onnxruntime
@pytest.mark.parametrize("name", ["Conv", "grouped", "ConvTranspose", "MatMul", "input"])
@pytest.mark.parametrize("bounds", BOUNDS)
def test_clip(name, bounds):
    g = Graph(3)
    y = g.Clip(maker(name, g), *(g.constant(bound) for bound in bounds))
    model = g.model(y)
    (got,) = check(model, g.feed, expected=by_onnxruntime)
    assert (got == np.float32(bounds[1])).all()


@needs_onnxruntime
@pytest.mark.parametrize(
    "order", [("Max", "Min"), ("Min", "Max"), ("Relu", "Min"), ("Clip", "Relu")]
)
def test_the_last_bound_decides(order):
    g = Graph(4)
    y = maker("Conv", g)
    for operator, bound in zip(order, (1.5, -0.5), strict=True):
        if operator == "Relu":
            y = g.Relu(y)
        elif operator == "Clip":
            y = g.Clip(y, g.constant(-1), g.constant(-2))
        else:
            y = getattr(g, operator)(y, g.constant(bound))
    check(g.model(y), g.feed, expected=by_onnxruntime)


@needs_onnxruntime
@pytest.mark.parametrize("bounds", BOUNDS[:2])
def test_quantized(bounds):
    g = Quantized()
    low, high = (g.constant(bound, np.float32) for bound in bounds)
    y = g.pair(g.Clip(g.qconv(g.image(), 4, (8, 3, 3)), low, high))
    model = g.model(y)
    agree(InferenceSession(model, threads=1).run(None, g.feed), by_onnxruntime(model, g.feed))
