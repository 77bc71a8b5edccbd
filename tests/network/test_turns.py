"""Turns of Scan and Loop as a repeat, against NumPy and onnxruntime."""

from __future__ import annotations

import itertools
import signal

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from pplconv.network.session import InferenceSession
from pplconv.ops.program import Program
from tests.emulation import is_emulated
from tests.network.running import agree, by_onnxruntime

OPSET = [helper.make_opsetid("", 17)]


def value(name, shape, kind=1):
    return helper.make_tensor_value_info(name, kind, shape)


def model_of(node, inputs, outputs, initializers=()):
    graph = helper.make_graph([node], "g", inputs, outputs, list(initializers))
    return helper.make_model(graph, opset_imports=OPSET, ir_version=8)


def bodies(session):
    """All programs of turns, None for a body that is run turn by turn."""
    found = []
    for program, _ in session._network.programs.values():
        for body in program.bodies:
            for turn, _ in body.programs.values():
                found += getattr(turn, "repeated", {}).values()
    return found


def scan(back, axis):
    """h' = tanh(h R + x) and all h, of rows of x along an axis, which is that of the result too."""
    body = helper.make_graph(
        [
            helper.make_node("MatMul", ["h", "r"], ["p"]),
            helper.make_node("Add", ["p", "x"], ["s"]),
            helper.make_node("Tanh", ["s"], ["next"]),
            helper.make_node("Mul", ["next", "next"], ["shown"]),
        ],
        "b",
        [value("h", [3, 4]), value("x", [3, 4])],
        [value("next", [3, 4]), value("shown", [3, 4])],
    )
    node = helper.make_node(
        "Scan", ["h0", "xs"], ["last", "ys"], body=body, num_scan_inputs=1,
        scan_input_axes=[axis], scan_input_directions=[back[0]],
        scan_output_axes=[axis], scan_output_directions=[back[1]],
    )  # fmt: skip
    rng = np.random.default_rng(3)
    r = (0.4 * rng.standard_normal((4, 4))).astype(np.float32)
    outputs = [value("last", [3, 4]), value("ys", None)]
    inputs = [value("h0", [3, 4]), value("xs", [None] * 3)]
    return model_of(node, inputs, outputs, [numpy_helper.from_array(r, "r")]), r


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("back", list(itertools.product([0, 1], [0, 1])))
def test_scan(back, axis, rng):
    model, r = scan(back, axis)
    sessions = [InferenceSession(model, threads=threads) for threads in (1, 2)]
    for turns in (2, 7, 300, 1):
        xs = rng.standard_normal((turns, 3, 4)).astype(np.float32)
        h = h0 = rng.standard_normal((3, 4)).astype(np.float32)
        ys = np.empty_like(xs)
        for turn in range(turns):
            h = np.tanh(h @ r + xs[turns - 1 - turn if back[0] else turn])
            ys[turns - 1 - turn if back[1] else turn] = h * h
        feed = {"h0": h0, "xs": np.ascontiguousarray(np.moveaxis(xs, 0, axis))}
        kept = {name: array.copy() for name, array in feed.items()}
        for session in sessions:
            agree(session.run(None, feed), [h, np.moveaxis(ys, 0, axis)])
            for name, array in feed.items():
                np.testing.assert_array_equal(array, kept[name])
    if not is_emulated():
        agree(sessions[0].run(None, feed), by_onnxruntime(model, feed))


def loop(ending, *, most=True, counts=True):
    """Sums of the turns' numbers, or of ones, times a weight; squares of the sums are stacked."""
    condition = {
        "never": [helper.make_node("Identity", ["cond"], ["on"])],
        "constant": [
            helper.make_node("Constant", [], ["on"], value=numpy_helper.from_array(np.array(True)))
        ],
        "early": [helper.make_node("Less", ["next", "bound"], ["on"])],
    }[ending]
    body = helper.make_graph(
        [
            helper.make_node("Cast", ["i" if counts else "cond"], ["n"], to=1),
            helper.make_node("MatMul", ["matrix", "factor"], ["column"]),
            helper.make_node("ReduceSum", ["column"], ["weight"], keepdims=0),
            helper.make_node("Mul", ["n", "weight"], ["part"]),
            helper.make_node("Add", ["sum", "part"], ["next"]),
            helper.make_node("Mul", ["next", "next"], ["square"]),
            *condition,
        ],
        "b",
        [value("i", [], 7), value("cond", [], 9), value("sum", []), value("matrix", [2, 3])],
        [value("on", [], 9), value("next", []), value("kept", [2, 3]), value("square", [])],
    )
    body.node.append(helper.make_node("Identity", ["matrix"], ["kept"]))
    inputs = [value("start", []), value("factor", [3, 1]), value("matrix0", [2, 3])]
    initializers = [numpy_helper.from_array(np.array(30, np.float32), "bound")]
    if most:
        inputs.append(value("most", [], 7))
    else:
        initializers.append(numpy_helper.from_array(np.array(True), "first"))
    operands = ["most" if most else "", "" if most else "first", "start", "matrix0"]
    node = helper.make_node("Loop", operands, ["last", "same", "squares"], body=body)
    outputs = [value("last", []), value("same", [2, 3]), value("squares", [None])]
    return model_of(node, inputs, outputs, initializers)


@pytest.mark.parametrize("counts", [False, True])
@pytest.mark.parametrize("ending", ["never", "constant", "early"])
def test_loop(ending, counts):
    model = loop(ending, counts=counts)
    session = InferenceSession(model, threads=1)
    for turns in (0, 1, 2, 9, 40, 9):
        feed = {
            "start": np.array(1, np.float32),
            "factor": np.array([[1], [0], [0.5]], np.float32),
            "matrix0": np.array([[1, 0, 0], [0, 1, 0]], np.float32),
            "most": np.array(turns, np.int64),
        }
        total, squares = np.float32(1), []
        for turn in range(turns):
            total = np.float32(total + (turn if counts else 1))
            squares.append(total * total)
            if ending == "early" and total >= 30:
                break
        got = session.run(None, feed)
        agree(got, [total, feed["matrix0"], np.array(squares, np.float32)])
        if not is_emulated():
            agree(got, by_onnxruntime(model, feed))
    # The turn's number, which has 64 bits, is cast in loops.
    # One repeat is for each number of turns, or for all of them, if a condition ends it.
    count = 1 if ending == "early" else 3
    assert [program is not None for program in bodies(session)] == [True] * count


def test_a_loop_that_ends_itself_is_a_repeat():
    feed = {
        "start": np.array(1, np.float32),
        "factor": np.array([[1], [0], [0.5]], np.float32),
        "matrix0": np.array([[1, 0, 0], [0, 1, 0]], np.float32),
    }
    session = InferenceSession(loop("early", most=False), threads=1)
    last, same, squares = session.run(None, feed)
    np.testing.assert_array_equal(same, feed["matrix0"])
    assert last == 37 and len(squares) == 9
    assert [type(program) for program in bodies(session)] == [Program]


def ending_loop(scanned=True, grows=False, most=True):
    """A loop that goes on while a count of int64 is below a bound, with states of several types.

    `grows`: a state of shape () has one of shape (1,) after the first turn.
    """
    width = 3
    node = helper.make_node
    nodes = [
        node("Add", ["count", "one"], ["count1"]),
        node("Not", ["flag"], ["flag1"]),
        node("MatMul", ["s", "w"], ["p"]),
        node("Tanh", ["p"], ["s1"]),
        node("Cast", ["flag"], ["f"], to=1),
        node("Add", ["total", "f" if not grows else "g"], ["total1"]),
        node("Less", ["count1", "bound"], ["on"]),
        # Nobody reads this state.
        node("Neg", ["s1"], ["unread1"]),
        node("Cast", ["i"], ["turn"], to=6),
    ]
    if grows:
        nodes.insert(5, node("Reshape", ["f", "axis"], ["g"]))
    free = None if grows else []
    states = [("count", 7, []), ("flag", 9, []), ("s", 1, [2, width]), ("total", 1, free),
              ("unread", 1, [2, width])]  # fmt: skip
    body = helper.make_graph(
        nodes, "b",
        [value("i", [], 7), value("go", [], 9), *(value(n, shape, k) for n, k, shape in states)],
        [value("on", [], 9), *(value(f"{n}1", shape, k) for n, k, shape in states),
         *([value("turn", [], 6), value("p", [2, width])] if scanned else [])],
    )  # fmt: skip
    outputs = [value(f"{n}_", shape, k) for n, k, shape in states]
    outputs += [value("turns", [None], 6), value("ps", [None, 2, width])] if scanned else []
    rng = np.random.default_rng(5)
    w = (rng.standard_normal((width, width)) / width**0.5).astype(np.float32)
    constants = {"one": np.array(1), "axis": np.array([1]), "w": w, "total": np.float32(0)}
    constants |= {"flag": np.array(True), "unread": np.zeros((2, width), np.float32)}
    names = ["count", "flag", "s", "total", "unread"]
    loop = node("Loop", ["most" if most else "", "go0", *names],
                [output.name for output in outputs], body=body)  # fmt: skip
    inputs = [value("count", [], 7), value("bound", [], 7), value("s", [2, width])]
    inputs += [value("go0", [], 9), *([value("most", [], 7)] if most else [])]
    tensors = [
        numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()
    ]
    return model_of(loop, inputs, outputs, tensors), w


def ended(feed, w, grows):
    """What `ending_loop` gives."""
    count, flag, s, total = int(feed["count"]), True, feed["s"], 0.0
    unread, turns, ps, going = np.zeros_like(s), [], [], bool(feed["go0"])
    while going and len(turns) < feed.get("most", 1 << 62):
        turns.append(len(turns))
        ps.append(s @ w)
        total, count, flag, s = total + flag, count + 1, not flag, np.tanh(ps[-1])
        unread, going = -s, count < feed["bound"]
    total = np.full((1,) if grows and turns else (), total, np.float32)
    stacked = np.array(ps, np.float32).reshape(-1, *s.shape)
    return [np.array(count), np.array(flag), s, total, unread, np.array(turns, np.int32), stacked]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("grows", [False, True])
@pytest.mark.parametrize("scanned", [False, True])
def test_conditions_that_end_turns(scanned, grows, threads, rng):
    """In the first turn, in later ones, never, after fewer than the number of turns, before any."""
    model, w = ending_loop(scanned=scanned, grows=grows)
    session = InferenceSession(model, threads=threads)
    for bound, most, go in [(1, 9, 1), (2, 9, 1), (5, 9, 1), (64, 999, 1), (65, 65, 1), (90, 40, 1),
                            (300, 200, 1), (7, 1, 1), (7, 2, 1), (7, 0, 1), (7, 9, 0)]:  # fmt: skip
        feed = {
            "count": np.array(0), "bound": np.array(bound), "most": np.array(most),
            "go0": np.array(bool(go)), "s": rng.standard_normal((2, 3)).astype(np.float32),
        }  # fmt: skip
        kept = feed["s"].copy()
        got = session.run(None, feed)
        agree(got, ended(feed, w, grows)[: len(got)], least=1)
        np.testing.assert_array_equal(feed["s"], kept)
        if not is_emulated() and not grows:
            agree(got, by_onnxruntime(model, feed), least=1)
    # A state that grows in the first turn has a program before, which is no repeat, and one behind.
    assert sorted(program is not None for program in bodies(session)) == [False] * grows + [True]


def test_states_that_nobody_needs_are_not_computed(rng):
    model, w = ending_loop(scanned=False)
    (unread,) = (output for output in model.graph.output if output.name == "unread_")
    model.graph.output.remove(unread)
    session = InferenceSession(model, threads=1)
    feed = {
        "count": np.array(0), "bound": np.array(5), "most": np.array(9), "go0": np.array(True),
        "s": rng.standard_normal((2, 3)).astype(np.float32),
    }  # fmt: skip
    agree(session.run(None, feed), ended(feed, w, False)[:4], least=1)
    ((program, _),) = session._network.programs.values()
    (body,) = program.bodies
    ((turn, _),) = body.programs.values()
    assert "unread1" not in [name for name, _, _ in turn.outputs] and len(turn.outputs) == 5


def test_large_stacked_results_are_made_turn_by_turn(monkeypatch, rng):
    """Nobody makes room for all turns that a condition may end at once."""
    model, w = ending_loop()
    # An int32 and 2x3 floats in each turn.
    for room, found in ((64 * 28 - 1, False), (64 * 28, True)):
        monkeypatch.setattr("pplconv.network.turns._MOST_BYTES", room)
        session = InferenceSession(model, threads=1)
        feed = {
            "count": np.array(0), "bound": np.array(5), "most": np.array(9), "go0": np.array(True),
            "s": rng.standard_normal((2, 3)).astype(np.float32),
        }  # fmt: skip
        agree(session.run(None, feed), ended(feed, w, False), least=1)
        assert [program is not None for program in bodies(session)] == [found]


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers by signals")
def test_signals_end_a_loop_without_end(rng):
    class Alarm(Exception):
        pass

    def ring(*_):
        raise Alarm("rung")

    model, _ = ending_loop(scanned=False, most=False)
    session = InferenceSession(model, threads=1)
    feed = {"count": np.array(0), "bound": np.array(3), "go0": np.array(True),
            "s": np.zeros((2, 3), np.float32)}  # fmt: skip
    assert session.run(["count_"], feed)[0] == 3
    before = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises((Alarm, ValueError), match="rung"):
            session.run(["count_"], {**feed, "bound": np.array(1 << 60)})
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert session.run(["count_"], feed)[0] == 3


def test_turns_run_without_python(rng):
    """A body of loops is a repeat, for each number of turns; few of them are kept."""
    model, _ = scan((0, 0), 0)
    session = InferenceSession(model, threads=1)
    h0 = np.zeros((3, 4), np.float32)
    for turns in (2, 5):
        xs = rng.standard_normal((turns, 3, 4)).astype(np.float32)
        session.run(None, {"h0": h0, "xs": xs})
    assert [type(program) for program in bodies(session)] == [Program] * 2
    session = InferenceSession(loop("never", counts=False), threads=1)
    for turns in range(2, 14):
        feed = {
            "start": np.array(1, np.float32),
            "factor": np.ones((3, 1), np.float32),
            "matrix0": np.ones((2, 3), np.float32),
            "most": np.array(turns, np.int64),
        }
        assert session.run(None, feed)[0] == 1 + 6 * turns
    assert [type(program) for program in bodies(session)] == [Program] * 8


def test_a_body_in_python_or_with_a_growing_state_is_run_turn_by_turn(rng):
    grown = helper.make_graph(
        [
            helper.make_node("Concat", ["s", "x"], ["next"], axis=0),
            helper.make_node("Identity", ["cond"], ["on"]),
        ],
        "b",
        [value("i", [], 7), value("cond", [], 9), value("s", [None, 2])],
        [value("on", [], 9), value("next", [None, 2])],
    )
    node = helper.make_node("Loop", ["most", "", "s0"], ["last"], body=grown)
    inputs = [value("s0", [1, 2]), value("x", [1, 2]), value("most", [], 7)]
    model = model_of(node, inputs, [value("last", [None, 2])])
    onnx.checker.check_model(model)
    session = InferenceSession(model, threads=1)
    s0, x = rng.random((1, 2), np.float32), rng.random((1, 2), np.float32)
    got = session.run(None, {"s0": s0, "x": x, "most": np.array(4, np.int64)})
    agree(got, [np.concatenate([s0, *[x] * 4])])
    assert bodies(session) and not any(bodies(session))


def loop_of_indices(turns):
    """Each turn adds one to a row of a table, and tells the place of its largest element."""
    node = helper.make_node
    body = helper.make_graph(
        [
            node("Mod", ["turn", "count"], ["at"]),
            node("Gather", ["indices", "at"], ["index"], axis=0),
            node("GatherND", ["state", "index"], ["row"]),
            node("Add", ["row", "one"], ["more"]),
            node("ScatterND", ["state", "index", "more"], ["next"]),
            node("ArgMax", ["row"], ["place"], axis=1),
            node("Cast", ["place"], ["number"], to=onnx.TensorProto.INT32),
            node("Identity", ["go"], ["on"]),
        ],
        "b",
        [value("turn", [], 7), value("go", [], 9), value("state", [3, 6])],
        [value("on", [], 9), value("next", [3, 6]), value("number", [1, 1], 6)],
    )
    loop = node("Loop", ["turns", "", "start"], ["y", "places"], body=body)
    constants = {"turns": turns, "count": 4, "one": np.float32(1)}
    return model_of(
        loop, [value("start", [3, 6]), value("indices", [4, 1, 1], 7)],
        [value("y", [3, 6]), value("places", None, 6)],
        [numpy_helper.from_array(np.array(number), name) for name, number in constants.items()],
    )  # fmt: skip


@pytest.mark.parametrize("threads", [1, 2])
def test_a_loop_of_indices(threads, rng):
    """Integers, indices and a cast run their turns as one repeat, which refuses wrong indices."""
    session = InferenceSession(loop_of_indices(9), threads=threads)
    start = rng.standard_normal((3, 6)).astype(np.float32)
    indices = rng.integers(-3, 3, (4, 1, 1))
    y, places = session.run(None, {"start": start, "indices": indices})
    expected, found = start.copy(), []
    for turn in range(9):
        row = expected[indices[turn % 4, 0, 0]]
        found.append(int(row.argmax()))
        row += 1
    np.testing.assert_array_equal(y, expected)
    assert places.dtype == np.int32 and places.ravel().tolist() == found
    assert all(program is not None for program in bodies(session)) and bodies(session)
    wrong = indices.copy()
    wrong[2] = 3
    with pytest.raises(ValueError, match=r"cannot run .*: .*index 3 is out of range"):
        session.run(None, {"start": start, "indices": wrong})
    again = session.run(None, {"start": start, "indices": indices})
    np.testing.assert_array_equal(again[0], expected)
