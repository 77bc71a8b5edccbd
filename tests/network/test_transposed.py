"""ConvTranspose in networks: all ranks, groups and ways to say how large the output is."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

import pplconv
from pplconv.memory.array_like import bfloat16_dtype
from pplconv.network import compiling, narrow_storage
from tests.network import models
from tests.network.graphs import Graph
from tests.network.running import (
    agree,
    by_onnxruntime,
    compare_models,
    needs_onnxruntime,
    on_host,
    one,
)


@pytest.fixture
def g() -> Graph:
    return Graph(opset=17)


@pytest.mark.parametrize(
    "kernel, attributes",
    [
        ((3, 3), {"dilations": [2, 2]}),
        ((2, 3), {"dilations": [2, 3], "strides": [2, 2]}),
        ((2, 2), {"strides": [3, 4]}),
        ((1, 1), {"strides": [2, 2], "output_padding": [1, 1]}),
        ((3, 2), {"strides": [2, 2], "pads": [2, 1, 0, 1]}),
    ],
    ids=str,
)
def test_an_infinite_input_reaches_what_its_taps_lead_to(kernel, attributes, g):
    name, bias = g.input(1, 4, 5, 6), g.random(5)
    x = g.feed[name]
    x[0, 1, 2, 3] = np.inf
    y = g.ConvTranspose(name, g.random(4, 5, *kernel), bias, **attributes)
    session = pplconv.InferenceSession(g.model(y))
    (y,) = session.run(None, g.feed)
    assert "Conv" in str(session.plan_for(g.feed)), "loops of ours"
    # One image of ones and zeros tells where the taps of that input lead.
    (seen,) = session.run(None, {name: (~np.isfinite(x)).astype(np.float32)})
    reached = seen != g.array(bias).reshape(1, -1, 1, 1)
    assert reached.any() and not reached.all()
    np.testing.assert_array_equal(np.isfinite(y), ~reached)


def drawn(rng, axes, kind):
    """A model with random attributes; `kind` says what the weights are."""
    groups = int(rng.choice([1, 1, 2, 3]))
    sizes, kernel, strides, dilations = (rng.integers(1, n, axes).tolist() for n in (6, 4, 5, 3))
    attributes = {"group": groups, "strides": strides, "dilations": dilations}
    full = [
        (n - 1) * s + (k - 1) * d + 1
        for n, s, k, d in zip(sizes, strides, kernel, dilations, strict=True)
    ]
    if rng.random() < 0.5:
        more = [int(rng.integers(0, s)) for s in strides]
        attributes["output_padding"] = more
        full = [n + m for n, m in zip(full, more, strict=True)]
    how = rng.integers(5)
    if how == 0:
        attributes["auto_pad"] = str(rng.choice(["SAME_UPPER", "SAME_LOWER", "VALID"]))
    elif how == 1:
        attributes["output_shape"] = [int(rng.integers(1, n + 1)) for n in full]
        attributes["auto_pad"] = str(rng.choice(["SAME_UPPER", "SAME_LOWER", "NOTSET"]))
    elif how < 4:
        begins = [int(rng.integers(0, n)) for n in full]
        ends = [int(rng.integers(0, n - b)) for n, b in zip(full, begins, strict=True)]
        attributes["pads"] = begins + ends
    if rng.random() < 0.5:
        attributes["kernel_shape"] = kernel
    arrays = {
        "x": rng.standard_normal((int(rng.integers(1, 3)), 2 * groups, *sizes)),
        "w": rng.standard_normal((2 * groups, int(rng.integers(1, 4)), *kernel)),
    }
    if rng.random() < 0.7:
        arrays["b"] = rng.standard_normal(groups * arrays["w"].shape[1])
    arrays = {name: array.astype(np.float32) for name, array in arrays.items()}
    nodes = [helper.make_node("ConvTranspose", list(arrays), ["z"], **attributes)]
    # What follows is fused, if something is.
    nodes.append(helper.make_node(str(rng.choice(["Relu", "Identity", "Shape"])), ["z"], ["y"]))
    fed = ["x", "w", "b"] if kind == "inputs" else ["x"]
    feed = {name: array for name, array in arrays.items() if name in fed}
    weights = {name: array for name, array in arrays.items() if name not in fed}
    outputs = dict.fromkeys("yz")
    return models.model_of(nodes, feed, weights, outputs, opset=17), feed


def around(model) -> None:
    """Put an element-wise step before a drawn node, and one behind it: values between steps."""
    nodes = model.graph.node
    nodes[0].input[0], nodes[0].output[0] = "before", "behind"
    first, last = (
        helper.make_node("Tanh", ["x"], ["before"]),
        helper.make_node("Tanh", ["behind"], ["z"]),
    )
    kept = [first, nodes[0], last, *nodes[1:]]
    del nodes[:]
    nodes.extend(kept)


@pytest.mark.sampled(2)
@needs_onnxruntime
@pytest.mark.parametrize("kind", ["constants", "inputs"])
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_drawn_attributes_beside_onnxruntime(axes, kind, rng):
    taken = 0
    for _ in range(40):
        model, feed = drawn(rng, axes, kind)
        try:
            expected = by_onnxruntime(model, feed)
        except Exception as error:
            # It refuses outputs from which a convolution would not lead back to the input.
            assert "ConvTranspose" in str(error)
            continue
        taken += 1
        got = pplconv.InferenceSession(model, threads=1).run(None, feed)
        agree(got, expected)
    assert taken >= 20


@pytest.mark.narrow
@pytest.mark.sampled(2)
@needs_onnxruntime
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_drawn_attributes_in_bfloat16(axes, rng, monkeypatch):
    """The input, the result, or both are stored as bfloat16; weights follow the input."""
    types = {"low_bf16": bfloat16_dtype()}
    monkeypatch.setattr(compiling, "brain_type", types.get)
    monkeypatch.setattr(narrow_storage, "FEW", 0)
    narrow = 0
    for _ in range(40):
        model, feed = drawn(rng, axes, "constants")
        around(model)
        try:
            (expected, *_) = by_onnxruntime(model, feed)
        except Exception as error:
            assert "ConvTranspose" in str(error)
            continue
        session = pplconv.InferenceSession(model, threads=1, precision="low_bf16")
        (got, *_) = session.run(None, feed)
        # Each operand and the result are rounded once, and sums are of few terms.
        bound = 2.0**-7 * (1 + np.abs(expected).max(initial=0))
        np.testing.assert_allclose(got, expected, rtol=0, atol=3 * bound)
        narrow += "bfloat16" in str(session.plan_for(feed)) or "bf16" in str(session.plan_for(feed))
        wide = pplconv.InferenceSession(model, threads=1)
        agree(wide.run(None, feed)[:1], [expected])
    assert narrow >= 10


@needs_onnxruntime
def test_sizes_of_outputs(g):
    """Outputs by groups, smaller ones than the taps reach, and what `auto_pad` leaves."""
    operands = g.input(1, 2, 7, 5), g.random(2, 1, 3, 3), g.constant([10, 20])
    for attributes, shape in (
        ({"group": 2}, (9, 7)),
        ({"group": 2, "output_shape": [6, 5]}, (6, 5)),
        (
            {"strides": [2, 2], "auto_pad": "SAME_UPPER", "output_padding": [1, 1], "group": 2},
            (14, 10),
        ),
        # The taps reach no further: ONNX's text says input times stride.
        ({"group": 2, "strides": [4, 4], "auto_pad": "SAME_LOWER"}, (27, 19)),
    ):
        y = g.ConvTranspose(*operands, **attributes)
        (got,) = one(g, y, host=None, expected=by_onnxruntime)
        assert got.shape == (1, 2, *shape)


@needs_onnxruntime
@pytest.mark.parametrize("follows", ["Relu", "PRelu", "Add"])
@pytest.mark.parametrize(
    "kernel, attributes",
    [
        ((3, 2), {"strides": [40, 17], "pads": [5, 0, 3, 9], "group": 2}),
        ((12, 20), {"strides": [11, 9], "pads": [4, 7, 0, 8]}),
        ((4, 3), {"strides": [12, 8], "dilations": [5, 6], "group": 2}),
        ((1, 2), {"strides": [1, 3000]}),
    ],
    ids=str,
)
def test_large_strides(kernel, attributes, follows, g):
    """A product by runs of taps, in few steps."""
    groups = attributes.get("group", 1)
    w, b = g.random(2 * groups, 5, *kernel), g.random(5 * groups)
    z = g.ConvTranspose(g.input(2, 2 * groups, 2, 3), w, b, **attributes)
    others = {"Relu": (), "PRelu": (g.random(5 * groups, 1, 1),), "Add": (g.Tanh(z),)}[follows]
    model = g.model(getattr(g, follows)(z, *others))
    session = pplconv.InferenceSession(model, threads=1)
    agree(session.run(None, g.feed), by_onnxruntime(model, g.feed))
    assert len(session.plan_for(g.feed).steps) < 24


@needs_onnxruntime
@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize(("kernel", "stride"), [(3, 1), (3, 2), (2, 2), (4, 3)])
def test_a_residual_is_added_in_loops(kernel, stride, group, g):
    """Before an activation, and after one."""
    x = g.input(2, 6, 5, 6)

    def transposed(value, bias=()):
        w = g.random(6, 6 // group, kernel, kernel)
        return g.ConvTranspose(value, w, *bias, strides=[stride] * 2, group=group)

    y = g.Relu(g.Add(transposed(x, [g.random(6)]), transposed(x)))
    z = g.Add(g.Tanh(transposed(x)), y)
    session = compare_models(g.model(y, z), g.feed)
    assert not on_host(session)
