"""Values that are not arrays of numbers: local functions, optionals, sequences and texts."""

from __future__ import annotations

import pickle
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest

from pplconv.network.session import InferenceSession
from tests.network.running import by_onnxruntime, needs_onnxruntime
from tests.network.value_cases import ALL, SEQUENCES, TEXTS, WORDS, ValueCase, X


def alike(got: Any, want: Any) -> None:
    """Compare items: lists, None, arrays."""
    if isinstance(want, list):
        assert isinstance(got, list) and len(got) == len(want)
        for x, y in zip(got, want, strict=True):
            alike(x, y)
        return
    if want is None:
        assert got is None
        return
    want = np.asarray(want)
    assert got.shape == want.shape and got.dtype == want.dtype
    if want.dtype.kind == "f":
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
    else:
        assert got.tolist() == want.tolist()


@needs_onnxruntime
@pytest.mark.parametrize("name", ALL)
def test_as_onnxruntime(name):
    """No operator is left to ONNX's reference; a pickled session is the same."""
    case = ALL[name]
    session = InferenceSession(case.model, threads=1, fallback="error")
    copy = pickle.loads(pickle.dumps(session))
    for feed in case.feeds:
        want = by_onnxruntime(case.model, feed)
        alike(session.run(None, feed), want)
        alike(copy.run(None, feed), want)
        # What it gives is its own, and what it was given is as before.
        alike(session.run(None, feed), want)


@needs_onnxruntime
@pytest.mark.parametrize("name", ALL)
def test_as_onnxruntime_says(name):
    """Names and types of inputs and outputs."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    content = ALL[name].model.SerializeToString()
    other = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    session = InferenceSession(content, threads=1)
    for ours, theirs in (
        (session.get_inputs(), other.get_inputs()),
        (session.get_outputs(), other.get_outputs()),
        (session.get_overridable_initializers(), other.get_overridable_initializers()),
    ):
        assert [(v.name, v.type) for v in ours] == [(v.name, v.type) for v in theirs]
    assert name in ("override: all there is",) or session.get_inputs()[0].name in repr(session)


@pytest.mark.parametrize("name", ["input", "grown by a Loop", "a convolution behind"])
def test_plans_and_profiles(name):
    """Nodes of sequences are steps at a cut, and plans do not depend on elements."""
    case = SEQUENCES[name]
    session = InferenceSession(case.model, threads=1)
    plan = session.plan_for(case.feeds[0])
    assert any(step.kind.startswith(("Sequence", "ConcatFrom")) for step in plan.steps)
    assert session.is_ready_for(case.feeds[0])
    profile = session.profile(case.feeds[0], repeats=1)
    assert [step.kind for step in profile.steps] == [step.kind for step in plan.steps]


def run(text: str, feed: dict[str, Any], **options: Any) -> list[Any]:
    """Run a network in text format."""
    model = ValueCase(text, ()).model
    return InferenceSession(model, threads=1, **options).run(None, feed)


POSITION = "g (seq(float[]) s, int64 i) => (float[] y) { y = SequenceAt(s, i) }"
LONG = np.array(5)
REFUSED = {
    "at": (POSITION, {"s": [X], "i": LONG}, "SequenceAt of 'y'.*position is 5, .* 1 elements"),
    "at, of none": (POSITION, {"s": [], "i": LONG - 5}, "position is 0, the sequence has 0"),
    "at, of two": (
        POSITION.replace("int64 i", "int64[] i"), {"s": [X], "i": np.array([0, 0])},
        r"position has the shape \(2,\)",
    ),
    "insert": (
        "g (seq(float[]) s, int64 i, float[] x) => (seq(float[]) t) "
        "{ t = SequenceInsert(s, x, i) }",
        {"s": [X], "i": -LONG, "x": X}, "SequenceInsert of 't'.*position is -5",
    ),
    "erase": (
        "g (seq(float[]) s) => (seq(float[]) t) { t = SequenceErase(s) }", {"s": []},
        "SequenceErase of 't'.*position is -1, the sequence has 0",
    ),
    "join": (
        "g (seq(float[]) s) => (float[] y) { y = ConcatFromSequence <axis = 0> (s) }", {"s": []},
        "ConcatFromSequence of 'y'.*no element",
    ),
    "split": (
        "g (float[] x, int64[] k) => (seq(float[]) s) { s = SplitToSequence(x, k) }",
        {"x": X, "k": np.array([1, 2])}, "SplitToSequence of 's'.*sizes .1, 2., the axis 0 has 2",
    ),
    "split by zero": (
        "g (float[] x, int64 k) => (seq(float[]) s) { s = SplitToSequence(x, k) }",
        {"x": X, "k": np.array(0)}, "split is 0",
    ),
    "map": (
        """g (seq(float[]) s, seq(float[]) p) => (seq(float[]) t) {
            t = SequenceMap (s, p) <
                body = each (float[] e, float[] f) => (float[] w) { w = Add(e, f) }
            >
        }""", {"s": [X], "p": [X, X]}, r"SequenceMap of 't'.*several lengths, \[1, 2\]",
    ),
    "get": (
        "g (optional(float[]) o) => (float[] y) { y = OptionalGetElement(o) }", {"o": None},
        "OptionalGetElement of 'y'.*without an element",
    ),
    "an array": (
        "g (optional(float[]) o) => (int64[] y) { y = ArgMax(o) }", {"o": None},
        "ArgMax of 'y'.*'o' is an optional without an element, expected an array",
    ),
    "a condition": (
        """g (float[] x, seq(bool) c) => (float[] y) {
            y = If (c) <
                then_branch = yes () => (float[] t) { t = Relu(x) },
                else_branch = no () => (float[] e) { e = Neg(x) }
            >
        }""", {"x": X, "c": [np.array(True)]}, "If of 'y'.*the condition is no array",
    ),
    "no number": (
        "g (string[] s) => (float[] y) { y = Cast <to = 1> (s) }", {"s": np.array(["1", "1.5x"])},
        "Cast of 'y'.*'1.5x' is no number",
    ),
    "no integer": (
        "g (string[] s) => (int64[] y) { y = Cast <to = 7> (s) }", {"s": np.array(["1", "1_0"])},
        "Cast of 'y'.*'1_0' is no integer",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_node_refuses(case):
    """The message names the operator, the node and the operand."""
    text, feed, said = REFUSED[case]
    with pytest.raises(ValueError, match=said):
        run(text, feed)


GIVEN = {
    "no list": ({"s": X, "i": LONG}, TypeError, "'s' must be a list of arrays, got ndarray"),
    "a type": ({"s": [X, X.astype("f8")], "i": LONG}, TypeError, r"'s'\[1\] must be float32"),
    "missing": ({"i": LONG}, ValueError, "'s' is missing"),
}


@pytest.mark.parametrize("case", GIVEN)
def test_feeds_that_are_no_sequences(case):
    feed, error, said = GIVEN[case]
    with pytest.raises(error, match=said):
        run(POSITION, feed)


def test_elements_of_declared_shapes():
    text = POSITION.replace("float[]) s", "float[N,4]) s")
    (y,) = run(text, {"s": [X[0]], "i": np.array(0)})
    np.testing.assert_array_equal(y, X[0])
    with pytest.raises(ValueError, match=r"'s'\[1\] must have shape \[\?, 4\], got \(2, 3, 4\)"):
        run(text, {"s": [X[0], X], "i": np.array(0)})


def test_an_optional_may_be_left_out():
    text = "g (optional(float[]) o) => (bool b) { b = OptionalHasElement(o) }"
    assert not run(text, {})[0]
    assert run(text, {"o": X})[0]


@pytest.mark.parametrize(
    "words", [WORDS.astype("U"), np.char.encode(WORDS.astype("U")), WORDS.tolist()]
)
def test_texts_of_any_kind_of_array(words):
    (t,) = run(TEXTS["passed"].text, {"s": words})
    alike(t, WORDS)


@pytest.mark.parametrize("words", [[["a"], ["b", "c"]], np.array([[b"\xff"]])])
def test_what_is_no_array_of_texts(words):
    with pytest.raises(ValueError, match="'s' is no array of texts"):
        run(TEXTS["passed"].text, {"s": words})


def test_what_is_no_text():
    with pytest.raises(TypeError, match="'s' must be text, has a int"):
        run(TEXTS["passed"].text, {"s": np.array([["a", 1]], object)})


def test_outputs_into_arrays():
    """Of texts; a sequence has no array to go to."""
    session = InferenceSession(TEXTS["passed beside a network"].model, threads=1)
    out = [np.empty((2, 2), object), np.empty(X.shape, np.float32)]
    got = session.run(None, {"s": WORDS, "x": X}, out=out)
    assert got[0] is out[0] and got[1] is out[1]
    alike(out[0], WORDS)
    session = InferenceSession(SEQUENCES["output"].model, threads=1)
    with pytest.raises(ValueError, match="out: 's' is no array, but a sequence"):
        session.run(None, {"x": X}, out=[X])
    assert len(session.run(None, {"x": X}, out=[None])[0]) == 2


def test_sequences_are_not_the_callers():
    session = InferenceSession(SEQUENCES["passed"].model, threads=1)
    given = X.copy()
    (t,) = session.run(None, {"s": [given]})
    assert not np.shares_memory(t[0], given)


def test_memory_of_sequences_is_bounded():
    case = SEQUENCES["state of a Loop"]
    feed = {**case.feeds[0], "n": np.array(400)}
    session = InferenceSession(case.model, threads=1, max_memory=1 << 14)
    with pytest.raises(ValueError, match="max_memory"):
        session.run(None, feed)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (
            onnx.helper.make_sequence_type_proto(
                onnx.helper.make_sequence_type_proto(onnx.helper.make_tensor_type_proto(1, None))
            ), "'s', which is neither a tensor, nor a sequence of tensors",
        ),
        (onnx.helper.make_sparse_tensor_type_proto(1, [2]), "'s', which is neither a tensor"),
        (
            onnx.helper.make_sequence_type_proto(onnx.helper.make_tensor_type_proto(16, None)),
            "of a type that ONNX has not in it",
        ),
        (
            onnx.helper.make_sequence_type_proto(onnx.helper.make_tensor_type_proto(0, None)),
            "no type for its input or output 's'",
        ),
    ],
)  # fmt: skip
def test_types_that_are_refused(kind, said):
    model = ValueCase(POSITION, ()).model
    model.graph.input[0].type.CopyFrom(kind)
    with pytest.raises(ValueError, match=said):
        InferenceSession(model)


def test_sequences_of_bfloat16_inside():
    """ONNX has none, nor has onnxruntime: here they are float32, as all bfloat16 inside."""
    text = """g (float[N,C,H] x, int64 i) => (float[] y) {
        b = Cast <to = 16> (x) s = SequenceConstruct(b, b) t = SequenceAt(s, i)
        y = Cast <to = 1> (t)
    }"""
    (y,) = run(text, {"x": X, "i": np.array(1)})
    alike(y, X.astype(ml_dtypes.bfloat16).astype(np.float32))


def test_many_parts_are_no_nodes():
    """A constant split of a large axis asks for as many parts: they are made when it runs."""
    text = """g (float[100000] x) => (int64 n) <int64 one = {1}> {
        s = SplitToSequence(x, one) n = SequenceLength(s)
    }"""
    assert run(text, {"x": np.zeros(100000, np.float32)})[0] == 100000


def function_of_opset(opset: int, body: str) -> onnx.ModelProto:
    """A model of opset 18 with a local function of another."""
    functions = f'<domain: "own", opset_import: ["" : {opset}]> f (a) => (r) {{ {body} }}'
    text = "g (float[N,C,H] x) => (float[] y) { y = own.f(x) }"
    return ValueCase(text, (), functions).model


@needs_onnxruntime
@pytest.mark.parametrize("opset", [17, 19])
def test_functions_of_other_opsets(opset):
    """They may have operators that are the same in both, as in onnxruntime."""
    model = function_of_opset(opset, "r = Relu(a)")
    alike(InferenceSession(model).run(None, {"x": X}), by_onnxruntime(model, {"x": X}))


def test_functions_of_other_operators():
    model = function_of_opset(17, "r = ReduceMean <axes = [1]> (a)")
    with pytest.raises(ValueError, match=r"'f' is of opset 17 .* 18, and ReduceMean is not the sa"):
        InferenceSession(model)


@pytest.mark.parametrize(("case", "place"), [("chosen by an If", 0), ("map of two", 1)])
def test_operands_that_cannot_be_omitted(case, place):
    model = SEQUENCES[case].model
    model.graph.node[-1].input[place] = ""
    with pytest.raises(ValueError, match=r"omitted operand at the node .*(If|SequenceMap)"):
        InferenceSession(model)


def test_labels_of_an_unknown_type():
    """ONNX's converter ended the process there."""
    text = """g (float[N,C] x) => (float[] y) {
        i = own.Unknown(x)
        y = ai.onnx.ml.LabelEncoder <keys_int64s = [0], values_floats = [1.0]> (i)
    }"""
    with pytest.raises(ValueError, match=r"own\.Unknown"):
        InferenceSession(ValueCase(text, ()).model)


def test_an_if_of_another_domain_is_no_branch():
    """It has no condition to look at."""
    text = "g (float[N,C,H] x) => (float[] y) { c = own.If() y = Relu(x) }"
    with pytest.raises(ValueError, match=r"own\.If"):
        InferenceSession(ValueCase(text.replace("y = Relu(x)", "y = Add(x, c)"), ()).model)
