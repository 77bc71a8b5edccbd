"""LSTM and GRU, against onnxruntime."""

from __future__ import annotations

import itertools

import numpy as np
import onnx
import pytest
from onnx import helper

from pplconv.network.session import InferenceSession
from running import agree, by_onnxruntime, on_host

SHAPES = [(5, 1, 3, 4), (7, 3, 6, 17), (1, 2, 1, 1), (4, 1, 33, 40)]
CASES = [
    *itertools.product(["LSTM"], ["forward", "reverse", "bidirectional"], [0]),
    *itertools.product(["GRU"], ["forward", "reverse", "bidirectional"], [0, 1]),
]


def model_of(op, sizes, direction, *, bias, states, before_reset=0, **attributes):
    """A model of one node, and inputs for it."""
    rng = np.random.default_rng(sum(sizes))
    times, batch, depth, width = sizes
    directions = 2 if direction == "bidirectional" else 1
    gates = 4 if op == "LSTM" else 3

    def random(*shape):
        return (0.5 * rng.standard_normal(shape)).astype(np.float32)

    constants = {
        "w": random(directions, gates * width, depth),
        "r": random(directions, gates * width, width),
        "b": random(directions, 2 * gates * width),
    }
    feed = {"x": random(times, batch, depth)}
    inputs = ["x", "w", "r", "b" if bias else "", ""]
    if states:
        feed["h0"] = random(directions, batch, width)
        inputs.append("h0")
        if op == "LSTM":
            feed["c0"] = random(directions, batch, width)
            inputs.append("c0")
    outputs = ["y", "h", "c"][: 3 if op == "LSTM" else 2]
    attributes |= {"hidden_size": width, "direction": direction}
    if op == "GRU":
        attributes["linear_before_reset"] = before_reset
    graph = helper.make_graph(
        [helper.make_node(op, inputs, outputs, **attributes)], "g",
        [helper.make_tensor_value_info(name, 1, x.shape) for name, x in feed.items()],
        [helper.make_tensor_value_info(name, 1, None) for name in outputs],
        [onnx.numpy_helper.from_array(x, name) for name, x in constants.items()],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 21)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10), feed


@pytest.mark.parametrize("sizes", SHAPES)
@pytest.mark.parametrize(("op", "direction", "before_reset"), CASES)
def test_sequences(op, direction, before_reset, sizes):
    for bias, states in itertools.product([False, True], repeat=2):
        model, feed = model_of(
            op, sizes, direction, bias=bias, states=states, before_reset=before_reset
        )
        expected = by_onnxruntime(model, feed)
        results = []
        for threads in (1, 2, 3):
            session = InferenceSession(model, threads=threads)
            results.append(session.run(None, feed))
            assert not on_host(session)
        agree(results[0], expected)
        for other in results[1:]:
            for x, y in zip(results[0], other, strict=True):
                assert x.tobytes() == y.tobytes()
