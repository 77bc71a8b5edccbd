"""Networks of volumes: three spatial axes, computed by the loops of images, one for each depth."""

from __future__ import annotations

import numpy as np
import pytest

from pplconv.network.session import InferenceSession
from tests.network.graphs import Graph, operators, stages
from tests.network.mission_bytes import BYTES_CASES
from tests.network.running import (
    agree,
    compare_models,
    needs_onnxruntime,
    on_host,
    referred,
    step_kinds,
)

pytestmark = needs_onnxruntime


def compare(graph: Graph, *outputs: str) -> InferenceSession:
    """Compare with onnxruntime, in double precision with the reference; no step is in Python."""
    model = graph.model(*outputs)
    if graph.dtype == np.float64:  # onnxruntime has no such convolutions
        session = InferenceSession(model, threads=1)
        agree(session.run(None, graph.feed), referred(model, graph.feed))
    else:
        session = compare_models(model, graph.feed)
    assert not on_host(session)
    return session


CONVOLUTIONS = {
    "plain": {}, "stride": {"strides": [2, 3, 1], "pads": [2, 1, 0, 1, 2, 1]},
    "dilation": {"dilations": [2, 1, 3], "pads": [1, 0, 2, 1, 0, 2]}, "groups": {"group": 3},
    "depthwise": {"group": 6, "pads": [1] * 6}, "upper": {"auto_pad": "SAME_UPPER"},
    "valid": {"auto_pad": "VALID"},
}  # fmt: skip


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_convolutions(case, dtype, batch):
    g = Graph(dtype=dtype)
    attributes = CONVOLUTIONS[case]
    x = g.input(batch, 6, 7, 9, 8, free=True)
    y = g.conv(x, 12, (6 // attributes.get("group", 1), 3, 2, 3), **attributes)
    compare(g, g.Relu(g.batch_norm(y, 12)))


TRANSPOSED = {
    "plain": {}, "stride": {"strides": [2, 2, 2]}, "pads": {"strides": [3, 2, 1], "pads": [1] * 6},
    "dilation": {"dilations": [2, 1, 2], "strides": [3, 1, 2]}, "groups": {"group": 3},
    "more": {"strides": [2, 3, 2], "output_padding": [1, 2, 1]},
}  # fmt: skip


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("case", TRANSPOSED)
def test_transposed_convolutions(case, batch):
    g = Graph()
    attributes = TRANSPOSED[case]
    x = g.input(batch, 6, 4, 5, 6)
    w = g.random(6, 9 // attributes.get("group", 1), 3, 3, 3)
    compare(g, g.LeakyRelu(g.ConvTranspose(x, w, g.random(9), **attributes), alpha=0.1))


POOLS = {
    "plain": {}, "pads": {"strides": [2, 2, 2], "pads": [1] * 6},
    "uneven": {"pads": [1, 0, 1, 0, 1, 1], "strides": [1, 2, 3]},
    "dilation": {"dilations": [2, 1, 2]}, "ceil": {"ceil_mode": 1, "strides": [2, 2, 2]},
}  # fmt: skip


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("case", POOLS)
@pytest.mark.parametrize("operator", ["MaxPool", "AveragePool", "counted"])
def test_pools(operator, case, batch):
    g = Graph()
    attributes = {**POOLS[case]}
    if operator == "counted":
        operator, attributes["count_include_pad"] = "AveragePool", 1
    x = g.input(batch, 5, 8, 8, 9)
    compare(g, getattr(g, operator)(x, kernel_shape=[3, 3, 3], **attributes))


@pytest.mark.parametrize("shape", [(), (6, 1, 1, 1), (1, 6, 1, 1, 1), (2, 6, 5, 7, 6), (7, 6)])
@pytest.mark.parametrize("constant", [True, False], ids=["constant", "computed"])
def test_operands_that_broadcast(constant, shape):
    g = Graph()
    x = g.conv(g.input(2, 6, 5, 7, 6), 6, (6, 3, 3, 3), pads=[1] * 6)
    y = g.Mul(x, g.random(*shape) if constant else g.input(*shape))
    z = g.conv(g.Sigmoid(y), 4, (6, 3, 1, 1))
    compare(g, z)
    _, special = stages(g, z)
    assert operators(special)["Transpose"] == 2 + (shape == (2, 6, 5, 7, 6) and not constant)


def test_activations_and_residuals_join_convolutions():
    g = Graph()
    x = g.conv(g.input(1, 6, 5, 7, 6), 6, (6, 1, 1, 1))
    y = g.Relu(g.conv(x, 8, (6, 1, 3, 3), pads=[0, 1, 1, 0, 1, 1]))
    y = g.Relu(g.Add(g.conv(y, 6, (8, 1, 1, 1)), x))
    out = g.conv(y, 4, (6, 2, 1, 1))
    compare(g, out)
    _, special = stages(g, out)
    kinds = operators(special)
    assert kinds["pplconv::Conv"] == 5 and not kinds["Relu"] and not kinds["Add"]


@pytest.mark.parametrize("axis", [1, 3, -1])
def test_joined(axis):
    g = Graph()
    x = g.input(1, 6, 4, 7, 6)
    y = g.Concat(g.conv(x, 6, (6, 1, 1, 1)), x, g.random(1, 6, 4, 7, 6), axis=axis)
    compare(g, g.conv(y, 5, (18 if axis == 1 else 6, 3, 3, 3)))


def test_a_network_like_a_unet():
    """Down, up and across, with nothing but convolutions, pools and copies into the Concat."""
    g = Graph()
    x = g.input(1, 4, 8, 16, 16)
    a = g.Relu(g.batch_norm(g.conv(x, 8, (4, 3, 3, 3), pads=[1] * 6), 8))
    b = g.MaxPool(a, kernel_shape=[2, 2, 2], strides=[2, 2, 2])
    b = g.Relu(g.batch_norm(g.conv(b, 16, (8, 3, 3, 3), pads=[1] * 6), 16))
    c = g.ConvTranspose(b, g.random(16, 8, 2, 2, 2), strides=[2, 2, 2])
    d = g.Relu(g.conv(g.Concat(c, a, axis=1), 8, (16, 3, 3, 3), pads=[1] * 6))
    session = compare(g, g.conv(d, 3, (8, 1, 1, 1)))
    kinds = set(step_kinds(session, g.feed))
    assert kinds <= {"Conv", "Copy", "MaxPool", "Max", "Add", "Fused"}, kinds


def test_pools_and_resizes_copy_nothing():
    """Images with channels last are columns of their depths as well."""
    g = Graph()
    x = g.conv(g.input(2, 6, 6, 8, 8), 8, (6, 1, 1, 1))
    y = g.MaxPool(x, kernel_shape=[3, 3, 3], strides=[2, 2, 2], pads=[1] * 6)
    z = g.Resize(y, "", g.constant(np.array([1, 1, 2, 2, 3], np.float32)), mode="linear")
    session = compare(g, g.conv(z, 32, (8, 1, 1, 1)))
    kinds = step_kinds(session, g.feed)
    first, last = kinds.index("Conv"), kinds.index("Conv", kinds.index("Conv") + 1)
    assert kinds[first + 1 : last] == ["MaxPool", "MaxPool", "Resize", "Resize"]
    assert set(kinds[:first] + kinds[last + 1 :]) <= {"Copy"}


def test_quantized_volumes_are_one_sum_of_integers():
    """Depths are joined by copies of bytes; activation and QuantizeLinear are in the store."""
    case = BYTES_CASES["pairs pads"](3, np.uint8)
    session = InferenceSession(case.model, threads=1)
    kinds = step_kinds(session, case.feed)
    assert kinds.count("QuantizedConv") == 1 and set(kinds) == {"Copy", "QuantizedConv"}


@pytest.mark.parametrize("n", [1, 2])
def test_depths_that_no_tap_reaches(n):
    """A stride beyond the kernel: bias alone, known or computed, and then an activation."""
    for known in (True, False):
        g = Graph()
        x, w = g.input(n, 3, 3, 4, 4), g.random(3, 5, 2, 2, 2)
        b = g.random(5) if known else g.input(5)
        compare(g, g.Relu(g.ConvTranspose(x, w, b, strides=[4, 3, 3])))
