"""If, Loop and Scan, and sizes that depend on data, beside onnxruntime."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnx.parser
import pytest

from pplconv.network.session import InferenceSession
from tests.network.flow_cases import FLOWS, SIZES, Case, model_of
from tests.network.running import agree, by_onnxruntime, copies, needs_onnxruntime

CASES = FLOWS | SIZES


@needs_onnxruntime
@pytest.mark.parametrize("name", CASES)
def test_as_onnxruntime(name, rng):
    case = CASES[name]
    model = model_of(case, rng)
    session = InferenceSession(model, threads=1)
    for height in (6, 5, 6):
        for feed in case.feeds:
            feed = {"x": rng.standard_normal((2, 2, height, 6)).astype(np.float32), **feed}
            agree(session.run(None, feed), by_onnxruntime(model, feed), least=1)


@needs_onnxruntime
@pytest.mark.parametrize("name", ["if", "loop", "behind a loop", "computed bounds"])
def test_copies_and_threads(name, rng):
    """Sessions that were pickled or sent to another process compute the same bits, in any team."""
    case = CASES[name]
    model = model_of(case, rng)
    session = InferenceSession(model, threads=1)
    feed = {"x": rng.standard_normal((2, 2, 6, 6)).astype(np.float32), **case.feeds[0]}
    expected = session.run(None, feed)
    for other in (*copies(session), InferenceSession(model, threads=3)):
        for got, want in zip(other.run(None, feed), expected, strict=True):
            np.testing.assert_array_equal(got, want)


def test_turns_share_a_program(rng):
    """The number of a turn is no constant: all turns run one program, also where it is a bound."""
    session = InferenceSession(model_of(FLOWS["loop by index"], rng), threads=1)
    session.run(None, {"x": rng.standard_normal((2, 2, 9, 6)).astype(np.float32)})
    ((program, _),) = session._network.programs.values()
    (body,) = program.bodies
    assert len(body.programs) == 1
    ((turn, _),) = body.programs.values()
    assert turn.rest is None or len(turn.rest.programs) == 1


def test_branches_are_made_when_they_are_taken(rng):
    session = InferenceSession(model_of(FLOWS["if"], rng), threads=1)
    x = rng.standard_normal((1, 2, 6, 6)).astype(np.float32)
    session.run(None, {"x": x, "bound": np.array(99, np.float32)})
    ((program, _),) = session._network.programs.values()
    assert len(program.bodies) == 1
    session.run(None, {"x": x, "bound": np.array(-99, np.float32)})
    assert len(program.bodies) == 2
    # Packed weights of branches stay while their program does.
    packed = set(session._network.shared.packed)
    session.run(None, {"x": x[:, :, :5], "bound": np.array(99, np.float32)})
    assert packed <= set(session._network.shared.packed)


def test_sizes_are_bounded(rng):
    """Programs for the sizes behind a cut are dropped, the least recently used first."""
    session = InferenceSession(model_of(FLOWS["behind a loop"], rng), threads=1)
    x = rng.standard_normal((1, 2, 5, 5)).astype(np.float32)
    for turns in range(2 * InferenceSession.programs_kept):
        session.run(None, {"x": x, "trips": np.array(turns)})
    ((program, _),) = session._network.programs.values()
    assert len(program.rest.programs) == InferenceSession.programs_kept


@needs_onnxruntime
def test_outputs_are_the_callers(rng):
    """No output shares memory with an input."""
    case = FLOWS["if in an if"]
    model = model_of(case, rng)
    session = InferenceSession(model, threads=1)
    feed = {"x": rng.standard_normal((1, 2, 6, 6)).astype(np.float32), **case.feeds[0]}
    (y,) = session.run(None, feed)
    np.testing.assert_array_equal(y, feed["x"])
    assert not np.may_share_memory(y, feed["x"])
    y[...] = 7
    agree(session.run(None, feed), by_onnxruntime(model, feed))


def test_given_arrays(rng):
    """Results go into the caller's arrays; where one does not fit, none is written."""
    session = InferenceSession(model_of(SIZES["shape of a result"], rng), threads=1)
    x = np.zeros((1, 2, 4, 4), np.float32)
    x[0, 1, 2, 3] = x[0, 0, 0, 0] = 1
    y, n = np.full((2, 8), 5, np.float32), np.full(2, 5)
    got = session.run(None, {"x": x}, out=[y, n])
    assert got[0] is y and got[1] is n
    np.testing.assert_array_equal(n, [2, 4])
    np.testing.assert_array_equal(y, np.zeros((2, 8)))
    y[...], n[...] = 5, 5
    x[0, 0, 0, 0] = 0
    with pytest.raises(ValueError, match=r"out: 'y' must have shape \(1, 8\)"):
        session.run(None, {"x": x}, out=[y, n])
    assert (y == 5).all() and (n == 5).all()


def test_plans_and_profiles(rng):
    """Nodes at a cut are steps of plans and profiles, and say what they are."""
    case = FLOWS["if"]
    session = InferenceSession(model_of(case, rng), threads=1)
    feed = {"x": rng.standard_normal((1, 2, 6, 6)).astype(np.float32), **case.feeds[0]}
    for plan in (session.plan_for(feed), session.profile(feed, repeats=1)):
        assert [step.kind for step in plan.steps if step.host][-1] == "If"
        assert "in Python, at a cut" in str(plan)
    profile = session.profile(feed, repeats=2)
    assert all(step.seconds is not None and step.seconds >= 0 for step in profile.steps)
    assert profile.run_seconds > 0
    profile.show(width=80)


@pytest.mark.parametrize("fallback", ["error", "silent"])
def test_operators_of_branches_are_checked_at_once(fallback, rng):
    model = model_of(FLOWS["if"], rng)
    model.graph.node[-1].attribute[0].g.node[0].domain = "mine"
    model.opset_import.add(domain="mine", version=1)
    with pytest.raises(ValueError, match=r"cannot run \(mine\.Conv, 1 of them"):
        InferenceSession(model, fallback=fallback)


def _without_branch(node):
    del node.attribute[1]


def _renamed_body(node):
    node.attribute[0].name = "corpse"


def _one_state_more(node):
    node.input.append("x")


def _one_result_less(node):
    del node.output[1]


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("if", _without_branch, "no else_branch at"),
        ("loop", _renamed_body, "no body at"),
        ("loop", _one_state_more, "a body with 3 inputs and 3 outputs at .* has 4 inputs"),
        ("loop", _one_result_less, "which has 3 inputs and 1 outputs"),
        ("scan", _one_result_less, "a body with 2 inputs and 2 outputs"),
    ],
)
def test_subgraphs_fit_their_node(name, change, message, rng):
    model = model_of(FLOWS[name], rng)
    (node,) = (node for node in model.graph.node if node.op_type in ("If", "Loop", "Scan"))
    change(node)
    del model.graph.output[1:]
    with pytest.raises(ValueError, match=message):
        InferenceSession(model)


_LOOP = """<ir_version: 10, opset_import: ["" : 21]>
g (float[n] x, {types}) => (float[] y) {{
    y = Loop ({operands}, x) <body = turn (int64 i, bool c, float[] state)
        => (bool on, float[] next) {{
            {condition}
            next = Concat<axis=0> (state, x)
        }}>
}}"""


@pytest.mark.parametrize(
    ("types", "operands", "condition", "fed", "message"),
    [
        ("int64 z", '"", ""', "on = Identity (c)", np.int64(0), "a condition that is always true"),
        (
            "bool z", '"", z', "b = Identity (c)\n on = Identity (b)", np.True_,
            "a condition that is always true",
        ),
        (
            "int64 z", '"", ""', "on = Constant<value = bool {1}> ()", np.int64(0),
            "a condition that is always true",
        ),
        ("uint16 z", 'z, ""', "on = Identity (c)", np.uint16(3), "turns is uint16 of shape"),
        ("int64 z", '"", z', "on = Not (c)", np.int64(3), "the condition is int64 of shape"),
    ],
)  # fmt: skip
def test_loops_without_an_end_are_refused(types, operands, condition, fed, message):
    text = _LOOP.format(types=types, operands=operands, condition=condition)
    session = InferenceSession(onnx.parser.parse_model(text), threads=1)
    with pytest.raises(ValueError, match=rf"cannot run Loop of 'y': .*{message}"):
        session.run(None, {"x": np.ones(2, np.float32), "z": np.asarray(fed)})


@pytest.mark.parametrize(
    ("operands", "condition", "fed", "turns"),
    [
        ('"", z', "on = Identity (c)", np.False_, 0),
        ('"", z', "on = Not (c)", np.True_, 1),
        ('"", ""', "on = Constant<value = bool {0}> ()", np.True_, 1),
    ],
)
def test_loops_that_end_by_their_condition(operands, condition, fed, turns):
    text = _LOOP.format(types="bool z", operands=operands, condition=condition)
    session = InferenceSession(onnx.parser.parse_model(text), threads=1)
    (y,) = session.run(None, {"x": np.ones(2, np.float32), "z": np.asarray(fed)})
    np.testing.assert_array_equal(y, np.ones(2 + 2 * turns, np.float32))


def test_errors_name_the_node(rng):
    session = InferenceSession(model_of(SIZES["largest"], rng), threads=1)
    x = np.full((1, 1, 1, 1), 3, np.float32)
    with pytest.raises(ValueError, match="must have shape"):
        session.run(None, {"x": x})
    x = np.zeros((1, 2, 1, 1), np.float32)
    x[0, 0] = 6
    with pytest.raises(ValueError, match=r"cannot run TopK of 'y'"):
        session.run(None, {"x": x})


def test_branches_are_made_by_one_thread_at_a_time(rng):
    """Calls that take both branches at once, the first time, all get their own branch's answer."""
    session = InferenceSession(model_of(FLOWS["if"], rng), threads=1)
    x = rng.standard_normal((1, 2, 6, 6)).astype(np.float32)
    feeds = [{"x": x, "bound": np.array(bound, np.float32)} for bound in (-99, 99)] * 4
    session.plan_for(feeds[0])
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda feed: session.run(None, feed)[0], feeds))
    for feed, y in zip(feeds, found, strict=True):
        np.testing.assert_array_equal(y, session.run(None, feed)[0])
    assert len({y.tobytes() for y in found}) == 2


@needs_onnxruntime
@pytest.mark.parametrize("turns", [0, 1, 3])
def test_a_result_of_a_body_may_stand_twice(turns, rng):
    """State and scan output are one value of the body, and arrays of their own outside."""
    case = Case("float y, float z", """
        y, z = Loop(trips, , x) <
            body = turn (int64 i, bool c, float state) => (bool on, float next, float next) {
                on = Identity(c)
                next = Mul(state, half)
            }
        >
        """, "int64 trips")  # fmt: skip
    model = model_of(case, rng)
    x = rng.standard_normal((1, 2, 3, 3)).astype(np.float32)
    y, z = InferenceSession(model, threads=1).run(None, {"x": x, "trips": np.array(turns)})
    np.testing.assert_array_equal(y, x / 2**turns)
    np.testing.assert_array_equal(
        z, [x / 2**n for n in range(1, turns + 1)] or np.empty((0, *x.shape))
    )
    assert not np.may_share_memory(y, z)


def test_types_of_subgraphs_are_checked(rng):
    """State of another type than the body declares is refused by name, not reinterpreted."""
    model = model_of(FLOWS["loop that grows"], rng)
    body = model.graph.node[0].attribute[0].g
    for value in (body.input[2], body.output[1]):
        value.type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
    x = rng.standard_normal((1, 2, 3, 3)).astype(np.float32)
    with pytest.raises(ValueError, match="is float32, expected float64"):
        InferenceSession(model).run(None, {"x": x, "trips": np.array(2)})
