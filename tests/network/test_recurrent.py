"""LSTM and GRU, against onnxruntime; under emulation, where that crashes, ONNX's reference."""

from __future__ import annotations

import itertools

import numpy as np
import onnx
import pytest
from onnx import helper

from pplconv.network.session import InferenceSession
from tests.emulation import is_emulated
from tests.network import models
from tests.network.running import agree, alike, by_onnxruntime, on_host, referred

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
    node = helper.make_node(op, inputs, outputs, **attributes)
    return models.model_of([node], feed, constants, outputs), feed


@pytest.mark.sampled(12)
@pytest.mark.parametrize("sizes", SHAPES)
@pytest.mark.parametrize(("op", "direction", "before_reset"), CASES)
def test_sequences(op, direction, before_reset, sizes):
    for bias, states in ((False, True), (True, False)):
        model, feed = model_of(
            op, sizes, direction, bias=bias, states=states, before_reset=before_reset
        )
        expected = (referred if is_emulated() else by_onnxruntime)(model, feed)
        sessions = [InferenceSession(model, threads=threads) for threads in (1, 2)]
        agree(alike(sessions, feed), expected)
        assert not any(map(on_host, sessions))


def of_lengths(op, lengths, known):
    """A model whose sequences have lengths, which are a constant or an input."""
    model, feed = model_of(op, (5, 2, 3, 4), "bidirectional", bias=True, states=True)
    model.graph.node[0].input[4] = "lengths"
    array = np.array(lengths, np.int32)
    if known:
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, "lengths"))
    else:
        model.graph.input.append(helper.make_tensor_value_info("lengths", 6, [2]))
        feed["lengths"] = array
    return model, feed


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("op", ["LSTM", "GRU"])
def test_lengths(op, known):
    """Of whole arrays and of shorter sequences, in both directions."""
    for lengths in ([5, 5], [5, 3], [1, 4]):
        model, feed = of_lengths(op, lengths, known)
        sessions = [InferenceSession(model, threads=threads) for threads in (1, 2)]
        outputs = alike(sessions, feed)
        assert not any(map(on_host, sessions))
        if not is_emulated():
            agree(outputs, by_onnxruntime(model, feed))
        for b, n in enumerate(lengths):
            assert not outputs[0][n:, :, b].any() and outputs[0][:n, :, b].any()


def with_computed_weights(model, feed):
    """The recurrent weights become an input."""
    (tensor,) = [t for t in model.graph.initializer if t.name == "r"]
    model.graph.initializer.remove(tensor)
    feed = feed | {"r": onnx.numpy_helper.to_array(tensor)}
    model.graph.input.append(helper.make_tensor_value_info("r", 1, feed["r"].shape))
    return model, feed


@pytest.mark.parametrize("lengths", [[5, 5], [5, 3]])
@pytest.mark.parametrize("op", ["LSTM", "GRU"])
def test_computed_weights(op, lengths):
    """They are packed once a run, before the first time."""
    model, feed = with_computed_weights(*of_lengths(op, lengths, False))
    session = InferenceSession(model, threads=1)
    plain, other = of_lengths(op, lengths, False)
    agree(session.run(None, feed), InferenceSession(plain, threads=1).run(None, other))
    assert not on_host(session)
    packs = [step for step in session.plan_for(feed).steps if step.kind == "Pack"]
    assert packs and all(step.turns == 1 for step in packs)


@pytest.mark.parametrize(
    ("op", "names"),
    [
        ("LSTM", ["Sigmoid"]),
        ("GRU", ["Sigmoid", "Cosine"]),
        ("GRU", ["Sigmoid", "ScaledTanh"]),
        ("LSTM", ["Affine", "Tanh", "Tanh"]),
    ],
)
@pytest.mark.parametrize("fallback", ["error", "silent"])
def test_activations_that_nobody_knows_are_refused(op, names, fallback):
    """Too few of them, of no standard, or without numbers where ONNX has no default."""
    model, _ = model_of(op, (5, 2, 3, 4), "forward", bias=True, states=False, activations=names)
    with pytest.raises(ValueError, match=f"{op} with the activations {', '.join(names)}"):
        InferenceSession(model, fallback=fallback)


@pytest.mark.parametrize("names", [["sigmoid", "TANH", "Tanh"], ["Sigmoid", "Tanh", "Tanh"]])
def test_usual_activations_by_name(names):
    options = {"bias": True, "states": False}
    model, feed = model_of("LSTM", (5, 2, 3, 4), "reverse", activations=names, **options)
    plain, _ = model_of("LSTM", (5, 2, 3, 4), "reverse", **options)
    session = InferenceSession(model, threads=1)
    agree(session.run(None, feed), referred(plain, feed))
    assert not on_host(session)


@pytest.mark.parametrize("op", ["LSTM", "GRU"])
def test_the_batch_first(op):
    sizes = (5, 2, 3, 4)
    model, feed = model_of(op, sizes, "bidirectional", bias=True, states=True)
    turned, _ = model_of(op, sizes, "bidirectional", bias=True, states=True, layout=1)
    other = {name: np.ascontiguousarray(x.swapaxes(0, 1)) for name, x in feed.items()}
    for value in turned.graph.input:
        value.CopyFrom(helper.make_tensor_value_info(value.name, 1, other[value.name].shape))
    y, *states = InferenceSession(turned, threads=1).run(None, other)
    expected = InferenceSession(model, threads=1).run(None, feed)
    agree([y.transpose(1, 2, 0, 3), *(x.swapaxes(0, 1) for x in states)], expected)


@pytest.mark.parametrize("op", ["LSTM", "GRU"])
@pytest.mark.parametrize("states", [False, True])
def test_an_output_alone(op, states):
    """Each of the outputs may be the only one that anybody wants."""
    for wanted in range(3 if op == "LSTM" else 2):
        model, feed = model_of(op, (3, 2, 4, 5), "bidirectional", bias=True, states=states)
        expected = referred(model, feed)[wanted]
        node, name = model.graph.node[0], ("y", "h", "c")[wanted]
        for place, other in enumerate(list(node.output)):
            if other != name:
                node.output[place] = ""
        kept = [value for value in model.graph.output if value.name == name]
        del model.graph.output[:]
        model.graph.output.extend(kept)
        session = InferenceSession(model, threads=2)
        agree(session.run(None, feed), [expected])
        assert not on_host(session)


@pytest.mark.parametrize("left_out", ["", "h0", "c0"])
@pytest.mark.parametrize("op", ["LSTM", "GRU"])
def test_one_state_in_double_precision(op, left_out):
    model, feed = model_of(op, (3, 2, 4, 5), "bidirectional", bias=True, states=True)
    feed.pop(left_out, None)
    feed = {name: x.astype(np.float64) for name, x in feed.items()}
    graph = model.graph
    graph.node[0].input[:] = ["" if name == left_out else name for name in graph.node[0].input]
    weights = [
        onnx.numpy_helper.to_array(tensor).astype(np.float64) for tensor in graph.initializer
    ]
    for tensor, array in zip(graph.initializer, weights, strict=True):
        tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))
    del graph.input[:]
    graph.input.extend(helper.make_tensor_value_info(n, 11, x.shape) for n, x in feed.items())
    for value in graph.output:
        value.type.tensor_type.elem_type = 11
    session = InferenceSession(model, threads=2)
    agree(session.run(None, feed), referred(model, feed))
    assert not on_host(session)


@pytest.mark.parametrize("sizes", [(0, 2, 3, 4), (3, 0, 3, 4)])
@pytest.mark.parametrize("op", ["LSTM", "GRU"])
def test_no_sequence(op, sizes):
    """Nothing to compute, or a state that stays: a result of its shape, or a refusal."""
    model, feed = model_of(op, sizes, "forward", bias=True, states=True)
    try:
        y, h, *_ = InferenceSession(model, threads=1).run(None, feed)
    except ValueError as error:
        assert op in str(error)
    else:
        assert y.shape == (sizes[0], 1, sizes[1], sizes[3])
        assert h.shape == (1, sizes[1], sizes[3])


@pytest.mark.parametrize("shape", ["w", "r", "b", "h0", "direction", "hidden_size"])
@pytest.mark.parametrize("op", ["LSTM", "GRU"])
def test_operands_that_contradict(op, shape):
    model, feed = model_of(op, (5, 2, 3, 4), "bidirectional", bias=True, states=shape == "h0")
    for tensor in model.graph.initializer:
        if tensor.name == shape:
            array = onnx.numpy_helper.to_array(tensor)
            tensor.CopyFrom(onnx.numpy_helper.from_array(array[:1].copy(), shape))
    if shape == "h0":
        feed["h0"] = feed["h0"][:1]
        model.graph.input[1].CopyFrom(helper.make_tensor_value_info("h0", 1, feed["h0"].shape))
    for attribute in model.graph.node[0].attribute:
        if attribute.name == shape == "direction":
            attribute.s = b"forwards"
        elif attribute.name == shape == "hidden_size":
            attribute.i = 3
    with pytest.raises(ValueError, match=f"contradict|{op}"):
        InferenceSession(model).run(None, feed)
