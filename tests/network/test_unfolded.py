"""Constants that are too large to be folded, and copies of arrays that are written again."""

from __future__ import annotations

import numpy as np
import pytest

from pplconv.network import folding
from pplconv.network.session import InferenceSession
from tests.network.graphs import Graph
from tests.network.running import agree, referred


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("channels", [7, 15, 64])
def test_a_copy_of_an_array_before_its_last_pass_serves_nobody_behind_it(channels, batch):
    """A part of a Concat, finished in place, that a residual wants without gaps."""
    g = Graph(opset=18)
    pool = {"kernel_shape": [2, 2], "strides": [2, 2]}
    p = g.MaxPool(g.input(batch, channels, 16, 16), **pool)
    r = g.MaxPool(g.input(batch, 1, 16, 16), **pool)
    y = g.Add(g.Relu(g.conv(p, 1, (channels, 1, 1))), r)
    q = g.MaxPool(g.Concat(y, p, axis=1), kernel_shape=[2, 2])
    z = g.Relu(g.Add(g.conv(p, 1, (channels, 1, 1)), y))
    model = g.model(q, z)
    agree(InferenceSession(model, threads=1).run(None, g.feed), referred(model, g.feed))


@pytest.fixture
def unfolded(monkeypatch):
    monkeypatch.setattr(folding, "FOLD_BYTES", 64)


@pytest.mark.usefixtures("unfolded")
@pytest.mark.parametrize("part", ["Split", "Slice", "Identity"])
def test_parts_of_constants(part):
    g = Graph(opset=18)
    x, c = g.input(2, 3, 5, 8), g.random(4, 3, 5, 8)
    if part == "Split":
        a, b = g.Split(c, axis=0, num_outputs=2, outputs=2)
    elif part == "Slice":
        a = b = g.Slice(c, *(g.constant([n], np.int64) for n in (1, 3)))
    else:
        a = b = g.Identity(g.random(2, 3, 5, 8))
    model = g.model(g.Add(g.Add(x, a), b))
    agree(InferenceSession(model, threads=1).run(None, g.feed), referred(model, g.feed))


@pytest.mark.usefixtures("unfolded")
@pytest.mark.parametrize("product", [False, True])
def test_constants_of_another_type(product):
    g = Graph(opset=18)
    x, c = g.input(40, 40), g.constant(g.rng.standard_normal((40, 40)), np.float16)
    wide = g.Cast(c, to=1)
    model = g.model(g.MatMul(x, wide) if product else g.Add(x, wide))
    agree(InferenceSession(model, threads=1).run(None, g.feed), referred(model, g.feed))
