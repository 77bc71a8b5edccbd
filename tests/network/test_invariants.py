"""Products that no turn changes, before their loops: moved, and left where they change or clash.

What the loops compute is compared with onnxruntime in `test_control_flow`.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import onnx.parser
import pytest

from pplconv.network.invariants import hoist
from pplconv.network.loading import load
from pplconv.network.session import InferenceSession
from tests.network.running import agree, by_onnxruntime, needs_onnxruntime

pytestmark = pytest.mark.unemulated("reads and rewrites graphs, which no machine changes")

HEADER = '<ir_version: 10, opset_import: ["" : 21]>'


def looped(body: str, scanned: str = "", before: str = "") -> onnx.ModelProto:
    """A network whose Loop of three turns has a state of shape (2, 2), and a body."""
    return onnx.parser.parse_model(f"""{HEADER} g (float[2, 2] x, float[2, 2] w) => (float[2, 2] y)
        <int64 turns = {{3}}, float[2, 2] known = {{1, 2, 3, 4}}> {{
            {before}
            y = Loop(turns, , x) <
                body = turn (int64 i, bool c, float[2, 2] s) => (bool on, float[2, 2] t) {{
                    on = Identity(c)
                    {body}
                }}
            >
        }}""")


def moved(model: onnx.ModelProto) -> Counter[str]:
    """Operators outside the loop that were in it; the network still computes the same."""
    loaded = load(model)
    before = Counter(node.op_type for node in loaded.graph)
    hoist(loaded.graph)
    return Counter(node.op_type for node in loaded.graph) - before


def same(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    """Compare a session with onnxruntime."""
    feed = {name: rng.standard_normal((2, 2)).astype(np.float32) for name in ("x", "w")}
    agree(InferenceSession(model, threads=1).run(None, feed), by_onnxruntime(model, feed), least=1)


@needs_onnxruntime
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("p = MatMul(w, known) t = Add(s, p)", {"MatMul": 1}),
        ("v = Transpose(w) p = MatMul(v, known) t = Add(s, p)", {"Transpose": 1, "MatMul": 1}),
        ("p = MatMul(w, known) q = Tanh(p) t = Add(s, q)", {"MatMul": 1, "Tanh": 1}),
        ("v = Transpose(w) t = Add(s, v)", {}),
        ("p = MatMul(w, s) t = Add(s, p)", {}),
        ("p = MatMul(s, known) q = MatMul(w, w) r = Add(p, q) t = Identity(r)", {"MatMul": 1}),
        # A result of the body itself is the loop's.
        ("u = Abs(s) t = MatMul(w, known)", {}),
        # Gather may refuse its indices, and there may be no turn: it stays.
        (
            "k = Constant<value = int64 {5}>() r = Gather(w, k) p = MatMul(r, known) t = Add(s, p)",
            {},
        ),
    ],
)
def test_products_of_values_from_outside(body, expected, rng):
    model = looped(body)
    assert moved(model) == Counter(expected)
    if "Gather" not in body:
        same(model, rng)


@needs_onnxruntime
def test_constants_of_a_body_go_with_their_product(rng):
    model = looped("p = MatMul(w, own) t = Add(s, p)")
    (loop,) = model.graph.node
    own = onnx.numpy_helper.from_array(np.array([[1, -2], [3, 4]], np.float32), "own")
    loop.attribute[0].g.initializer.append(own)
    assert moved(model) == Counter({"MatMul": 1})
    same(model, rng)


def test_names_that_are_taken_keep_a_product(rng):
    """ONNX forbids such names, and exporters write them."""
    model = looped("p = MatMul(w, known) t = Add(s, p)")
    model.graph.node.add(op_type="Abs", input=["y"], output=["p"])
    assert moved(model) == Counter()


@needs_onnxruntime
def test_loops_in_loops(rng):
    model = looped("""
        t = Loop(turns, , s) <
            body = inner (int64 j, bool d, float[2, 2] u) => (bool again, float[2, 2] v) {
                again = Identity(d)
                p = MatMul(w, known)
                q = MatMul(s, known)
                r = Add(p, q)
                v = Sub(u, r)
            }
        >
    """)
    assert moved(model) == Counter({"MatMul": 1})
    same(model, rng)


STATES = {
    "a loop": """
        y, v = Loop(turns, , x, w) <
            body = turn (int64 i, bool c, float[2, 2] s, float[2, 2] u)
                => (bool on, float[2, 2] t, float[2, 2] kept) {
                on = Identity(c) p = MatMul(u, known) t = Add(s, p) again = Identity(u)
                kept = Identity(again)
            }
        >""",
    "a scan": """
        y, v, found = Scan(x, w, rows) <
            num_scan_inputs = 1,
            body = turn (float[2, 2] s, float[2, 2] u, float[1] r)
                => (float[2, 2] t, float[2, 2] kept, float[2, 2] shown) {
                p = MatMul(u, known) q = Mul(p, r) t = Add(s, q) kept = Identity(u)
                shown = Neg(u)
            }
        >""",
    "a loop in a loop": """
        y, v = Loop(turns, , x, w) <
            body = turn (int64 i, bool c, float[2, 2] s, float[2, 2] u)
                => (bool on, float[2, 2] t, float[2, 2] kept) {
                on = Identity(c) kept = Identity(u)
                t, inner = Loop(turns, , s, u) <
                    body = again (int64 j, bool d, float[2, 2] a, float[2, 2] b)
                        => (bool on2, float[2, 2] e, float[2, 2] f) {
                        on2 = Identity(d) p = MatMul(b, known) e = Sub(p, a) f = Identity(b)
                    }
                >
            }
        >""",
}


@needs_onnxruntime
@pytest.mark.parametrize("name", STATES)
@pytest.mark.parametrize("turns", [0, 1, 3])
def test_products_of_states_that_no_turn_changes(name, turns, rng):
    rows = ", ".join(str(row) for row in range(turns))
    model = onnx.parser.parse_model(f"""{HEADER} g (float[2, 2] x, float[2, 2] w) => (
        float[2, 2] y, float[2, 2] v)
        <int64 turns = {{{turns}}}, float[2, 2] known = {{1, 2, 3, 4}},
         float[{turns}, 1] rows = {{{rows}}}> {{ {STATES[name]} }}""")
    if turns or name != "a scan":
        same(model, rng)
    assert moved(model)["MatMul"] == 1
