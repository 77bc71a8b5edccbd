"""All attributes of LSTM, GRU and RNN, against float64 and against onnxruntime."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from onnx import helper

from pplconv.network.session import InferenceSession
from tests.emulation import is_emulated
from tests.network import models
from tests.network.recurrent_reference import FUNCTIONS, NUMBERS, USUAL, recurrent
from tests.network.running import agree, alike, by_onnxruntime, on_host

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
# Bounded ones: the others grow from time to time.
STEADY = ("HardSigmoid", "ScaledTanh", "Sigmoid", "Softsign", "Tanh")


def drawn(op, rng, *, dtype=np.float32, layout=0, activations=tuple(FUNCTIONS)):
    """A model of one node, what it is fed, its operands, and its attributes."""
    times, batch, depth, width = (int(n) for n in rng.integers(1, (7, 5, 6, 20)))
    batch, width = (1 if rng.random() < 0.2 else n for n in (batch, width))
    directions = int(rng.integers(1, 3))

    def numbers(*shape):
        return (0.5 * rng.standard_normal(shape)).astype(dtype)

    def state():
        shape = (batch, directions, width) if layout else (directions, batch, width)
        return numbers(*shape) if rng.random() < 0.5 else None

    attributes = {
        "hidden_size": width,
        "direction": "bidirectional" if directions == 2 else rng.choice(["forward", "reverse"]),
    }
    if layout:
        attributes["layout"] = 1
    if rng.random() < 0.4:
        attributes["clip"] = float(rng.choice([0.25, 1.0]))
    if rng.random() < 0.6:
        names = [str(name) for name in rng.choice(activations, len(USUAL[op]) * directions)]
        counts = [NUMBERS.get(name, 0) for name in names]
        attributes["activations"] = names
        for place, word in enumerate(("alpha", "beta")):
            count = sum(n > place for n in counts)
            if count:
                attributes[f"activation_{word}"] = (rng.integers(1, 8, count) / 8).tolist()
    if op == "GRU":
        attributes["linear_before_reset"] = int(rng.integers(2))
    if op == "LSTM" and rng.random() < 0.3:
        attributes["input_forget"] = 1
    x = numbers(*((batch, times) if layout else (times, batch)), depth)
    weights = [numbers(directions, GATES[op] * width, n) for n in (depth, width)]
    bias = numbers(directions, 2 * GATES[op] * width) if rng.random() < 0.7 else None
    lengths = rng.integers(1, times + 1, batch).astype(np.int32) if rng.random() < 0.5 else None
    operands = [x, *weights, bias, lengths, state()]
    if op == "LSTM":
        operands += [state(), numbers(directions, 3 * width) if rng.random() < 0.5 else None]
    fed = {0, 5, 6} | ({4} if rng.random() < 0.5 else set())
    # Weights, biases and peepholes, all or some of them.
    fed |= {place for place in (1, 2, 3, 7) if rng.random() < 0.3}
    named = {f"i{k}": a for k, a in enumerate(operands) if a is not None}
    inputs = [f"i{k}" if a is not None else "" for k, a in enumerate(operands)]
    outputs = ["y", "h", "c"][: 3 if op == "LSTM" else 2]
    feed = {name: a for name, a in named.items() if int(name[1:]) in fed}
    constants = {name: a for name, a in named.items() if name not in feed}
    node = helper.make_node(op, inputs, outputs, **attributes)
    model = models.model_of([node], feed, constants, outputs)
    for value in model.graph.output:
        value.type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    return model, feed, operands, attributes


def singles(arrays):
    """Round to float32."""
    return [array.astype(np.float32) for array in arrays]


@pytest.mark.sampled(12)
@pytest.mark.parametrize("layout", [0, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("op", GATES)
def test_all_attributes(op, dtype, layout, rng):
    """Against float64, weights and lengths known or computed; the same bits for each team."""
    for _ in range(12):
        model, feed, operands, attributes = drawn(
            op, rng, dtype=dtype, layout=layout, activations=STEADY
        )
        expected = recurrent(op, operands, attributes)[: len(model.graph.output)]
        sessions = [InferenceSession(model, threads=threads) for threads in (1, 2)]
        got = alike(sessions, feed)
        assert not any(map(on_host, sessions))
        tolerance = 2e-5 if dtype == np.float32 else 1e-10
        for array, wanted in zip(got, expected, strict=True):
            assert array.dtype == dtype
            np.testing.assert_allclose(array, wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("op", GATES)
def test_all_attributes_as_onnxruntime(op, rng):
    if is_emulated():
        pytest.skip("onnxruntime crashes under emulation")
    for _ in range(15):
        model, feed, _, _ = drawn(op, rng, activations=STEADY)
        agree(InferenceSession(model, threads=1).run(None, feed), by_onnxruntime(model, feed))


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("op", GATES)
def test_each_activation(op, name, rng):
    """Alone at each place, with and without its numbers; ONNX has none for two of them."""
    width, gates = 3, GATES[op]
    x = rng.standard_normal((2, 4, 3)).astype(np.float32)
    weights = [
        (0.5 * rng.standard_normal((1, gates * width, 3))).astype(np.float32) for _ in range(2)
    ]
    constants = dict(zip(("w", "r"), weights, strict=True))
    numbers = {"activation_alpha": [0.75], "activation_beta": [0.25]}
    for place, given in itertools.product(range(len(USUAL[op])), (numbers, {})):
        if not given and name in ("Affine", "ScaledTanh"):
            continue
        names = list(USUAL[op])
        names[place] = name
        attributes = {"activations": names, **given}
        node = helper.make_node(op, ["x", "w", "r"], ["y", "h"], hidden_size=width, **attributes)
        model = models.model_of([node], {"x": x}, constants, ["y", "h"])
        session = InferenceSession(model, threads=1)
        expected = singles(recurrent(op, [x, *weights], attributes)[:2])
        agree(session.run(None, {"x": x}), expected)
        assert not on_host(session)


@pytest.mark.parametrize("op", GATES)
def test_numbers_that_are_not_finite(op, rng):
    """NaN and infinities of one sequence stay in it, from their time on."""
    for _ in range(4):
        model, feed, operands, attributes = drawn(op, rng, activations=("Tanh", "Sigmoid"))
        attributes.pop("clip", None)
        if any(a.name == "clip" for a in model.graph.node[0].attribute):
            continue
        feed["i0"][-1, 0, 0] = operands[0][-1, 0, 0] = np.nan
        with np.errstate(invalid="ignore", over="ignore"):
            expected = recurrent(op, operands, attributes)
        got = InferenceSession(model, threads=1).run(None, feed)
        for array, wanted in zip(got, expected, strict=False):
            np.testing.assert_array_equal(np.isnan(array), np.isnan(wanted))
            np.testing.assert_allclose(array, wanted, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("op", GATES)
def test_long_sequences_have_no_more_steps_than_short_ones(op, rng):
    found = []
    for times in (2, 3000):
        x = rng.standard_normal((times, 1, 4)).astype(np.float32)
        constants = {
            name: (0.4 * rng.standard_normal((2, GATES[op] * 5, n))).astype(np.float32)
            for name, n in (("w", 4), ("r", 5))
        }
        attributes = {"hidden_size": 5, "direction": "bidirectional"}
        node = helper.make_node(op, ["x", "w", "r"], ["y", "h"], **attributes)
        model = models.model_of([node], {"x": x}, constants, ["y", "h"])
        session = InferenceSession(model, threads=1)
        expected = singles(recurrent(op, [x, *constants.values()], attributes)[:2])
        agree(session.run(None, {"x": x}), expected)
        steps = session.profile({"x": x}, repeats=1).steps
        found.append(len(steps))
        assert sum(step.turns == times for step in steps) >= 4
    assert found[0] == found[1]


@pytest.mark.parametrize("op", GATES)
@pytest.mark.parametrize("lengths", [[6, 1], [-1, 2]])
def test_known_lengths_beyond_the_array_are_refused(op, lengths):
    x = np.zeros((5, 2, 3), np.float32)
    constants = {
        name: np.zeros((1, GATES[op] * 4, n), np.float32) for name, n in (("w", 3), ("r", 4))
    }
    constants["l"] = np.array(lengths, np.int32)
    node = helper.make_node(op, ["x", "w", "r", "", "l"], ["y"], hidden_size=4)
    model = models.model_of([node], {"x": x}, constants, ["y"])
    with pytest.raises(ValueError, match=rf"{op} 'y': sequence_lens has lengths"):
        InferenceSession(model).run(None, {"x": x})


@pytest.mark.parametrize("op", GATES)
def test_a_sequence_without_times_keeps_its_state(op, rng):
    """Lengths of zero, known and computed; y is zero."""
    x, h = (rng.standard_normal(shape).astype(np.float32) for shape in ((3, 2, 3), (1, 2, 4)))
    constants = {
        name: rng.standard_normal((1, GATES[op] * 4, n)).astype(np.float32)
        for name, n in (("w", 3), ("r", 4))
    }
    lengths = np.array([0, 3], np.int32)
    node = helper.make_node(op, ["x", "w", "r", "", "l", "h0"], ["y", "h"], hidden_size=4)
    expected = singles(recurrent(op, [x, *constants.values(), None, lengths, h], {})[:2])
    for known in (False, True):
        feed = {"x": x, "h0": h} if known else {"x": x, "h0": h, "l": lengths}
        more = {**constants, "l": lengths} if known else constants
        model = models.model_of([node], feed, more, ["y", "h"])
        got = InferenceSession(model, threads=1).run(None, feed)
        agree(got, expected)
        np.testing.assert_array_equal(got[1][0, 0], h[0, 0])
