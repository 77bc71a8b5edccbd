"""If whose branches cost little: both are computed, and a Where selects; and those that stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

from pplconv.network.session import InferenceSession
from tests.network.running import agree, by_onnxruntime, needs_onnxruntime

HEADER = '<ir_version: 10, opset_import: ["" : 21]>'
SUM = "s = ReduceSum<keepdims=0>(x) c = Greater(s, zero)"
ONE = "s = ReduceSum(x, all) r = Reshape(s, one) c = Greater(r, zero)"


def network(text: str, *, size: str = "2, 3", outputs: str = "float y") -> Any:
    """A network of ``x``."""
    return onnx.parser.parse_model(f"""{HEADER}
        g (float[{size}] x) => ({outputs})
        <float zero = {{0}}, int64[2] all = {{0, 1}}, int64[1] one = {{1}}> {{ {text} }}""")


def branches(then: str, other: str, condition: str = SUM, kind: str = "float") -> str:
    """An If of two lists of nodes, which give ``t`` and ``e``."""
    return f"""{condition}
        z = If(c) <
            then_branch = yes () => ({kind} t) {{ {then} }},
            else_branch = no () => ({kind} e) {{ {other} }}
        >"""


def parts(session: InferenceSession) -> list[Any]:
    """The networks of branches; none if there is no cut."""
    return [
        body
        for program, _ in session._network.programs.values()
        for body in getattr(program, "bodies", [])
    ]


def compare(model: onnx.ModelProto, shape: tuple[int, ...] = (2, 3)) -> InferenceSession:
    """Run a model for conditions of both kinds, beside onnxruntime."""
    session = InferenceSession(model, threads=1)
    for sign in (1, -1, 1):
        x = sign * np.linspace(0.5, 2, int(np.prod(shape)), dtype=np.float32).reshape(shape)
        x.flat[1:2] = np.inf * sign
        feed = {"x": x}
        agree(session.run(None, feed), by_onnxruntime(model, feed), least=1)
    return session


SELECTED = {
    "element-wise": branches("t = Mul(x, x)", "a = Neg(x) e = Exp(a)"),
    "a condition of one axis": branches("t = Mul(x, x)", "e = Neg(x)", ONE),
    "NaN where the other is chosen": branches("t = Sqrt(x)", "a = Neg(x) e = Log(a)"),
    "values from outside": branches("t = Identity(x)", "e = Identity(w)", f"w = Abs(x) {SUM}"),
    "constants": branches(
        "t = Constant<value = float[2, 3] {1, 2, 3, 4, 5, 6}>()",
        "k = Constant<value = float {3}>() e = Mul(x, k)",
    ),
    "the same names": branches(
        "k = Constant<value = float {3}>() m = Mul(x, k) t = Add(m, x)",
        "k = Constant<value = float {5}>() m = Mul(x, k) e = Sub(m, x)",
    ),
    "reshapes": branches(
        "k = Constant<value = int64[2] {3, 2}>() t = Reshape(x, k)",
        """k = Constant<value = int64[2] {3, 2}>() f = Reshape(x, k) e = Neg(f)""",
    ),
    "quotients": branches("t = Div(x, x)", "e = Identity(x)"),
    "casts": branches("a = Cast<to=7>(x) t = Cast<to=1>(a)", "b = Cast<to=9>(x) e = Cast<to=1>(b)"),
    "axes of one element that nobody sees": branches(
        "t = Constant<value = float {1}>()",
        "k = Constant<value = float[1] {2}>() n = Neg(s) e = Add(n, k)",
    ).replace("z =", "u =")
    + "a = Neg(u) b = Abs(a) z = Add(x, b)",
}


@needs_onnxruntime
@pytest.mark.parametrize("name", SELECTED)
def test_both_are_computed(name):
    assert parts(compare(network(f"{SELECTED[name]} y = Add(z, z)"))) == []


@needs_onnxruntime
def test_names_that_others_have():
    """Each value of a branch gets a name of its own; a result that nobody reads is no node."""
    model = network(
        f"""{SUM} a_chosen = Neg(x) z_Where = Abs(x)
        z, unread = If(c) <
            then_branch = yes () => (float t, float u) {{ a = Exp(x) t = Add(a, a) u = Neg(x) }},
            else_branch = no () => (float e, float f) {{ a = Tanh(x) e = Mul(a, a) f = Abs(x) }}
        >
        p = Mul(a_chosen, z_Where) y = Sub(z, p)"""
    )
    assert parts(compare(model)) == []


@needs_onnxruntime
def test_results_of_a_network():
    model = network(
        f"""{SUM}
        y, z = If(c) <
            then_branch = yes () => (float a, bool b) {{ a = Neg(x) b = Not(c) }},
            else_branch = no () => (float d, bool f) {{ d = Abs(x) f = Identity(c) }}
        >""",
        outputs="float y, bool z",
    )
    assert parts(compare(model)) == []


@needs_onnxruntime
@pytest.mark.parametrize("kind", [9, 6, 7, 11])
def test_types(kind):
    """Truths, integers and double precision."""
    name = {9: "bool", 6: "int32", 7: "int64", 11: "double"}[kind]
    casts = f"r = Round(x) n = Cast<to={kind}>(r) a = Abs(x) m = Cast<to={kind}>(a)"
    text = branches("t = Identity(n)", "e = Identity(m)", f"{SUM} {casts}", name)
    model = network(f"{text} y = Identity(z)", outputs=f"{name} y")
    session = InferenceSession(model, threads=1)
    for sign in (1, -1):
        feed = {"x": sign * np.array([[1, 2, 3], [4, 0, 6]], np.float32)}
        agree(session.run(None, feed), by_onnxruntime(model, feed))
    assert parts(session) == []


STAYING = {
    "integer quotients, by zero": (
        branches("a = Div(n, m) t = Cast<to=1>(a)", "e = Cast<to=1>(n)", f"""
            {SUM} n = Cast<to=7>(x) p = Max(s, zero) m = Cast<to=7>(p)"""), (2, 3)),
    "remainders, by zero": (
        branches("a = Mod(n, m) t = Cast<to=1>(a)", "e = Cast<to=1>(n)", f"""
            {SUM} n = Cast<to=7>(x) p = Max(s, zero) m = Cast<to=7>(p)"""), (2, 3)),
    "indices that the condition keeps out": (
        branches("t = Gather(x, i)", "e = Gather(x, one)", f"""
            {SUM} far = Constant<value = int64[1] {{99}}>()
            n = Where(c, one, far) i = Identity(n)"""), (2, 3)),
    "many elements": (branches("t = Neg(x)", "e = Abs(x)"), (20, 20)),
    "sums": (branches("t = ReduceSum(x, all)", "e = ReduceMax(x, all)"), (2, 3)),
    "other shapes": (
        branches("t = Neg(s)", "e = Neg(x)"), (2, 3)),
    "an If in an If": (
        branches("t = Neg(x)", """
            d = Less(s, zero)
            e = If(d) <
                then_branch = a () => (float p) { p = Exp(x) },
                else_branch = b () => (float q) { q = Identity(x) }
            >""", kind="float[2, 3]"), (2, 3)),
}  # fmt: skip


@needs_onnxruntime
@pytest.mark.parametrize("name", STAYING)
def test_others_stay(name):
    text, shape = STAYING[name]
    model = network(f"{text} y = Identity(z)", size=", ".join(map(str, shape)))
    session = InferenceSession(model, threads=1)
    for sign in (1, -1, 1):
        x = sign * np.linspace(1, 9, int(np.prod(shape)), dtype=np.float32).reshape(shape)
        agree(session.run(None, {"x": x}), by_onnxruntime(model, {"x": x}), least=1)
    assert len(parts(session)) == 2


@needs_onnxruntime
@pytest.mark.parametrize(
    "behind",
    [
        "y = Identity(z)",
        "a = Neg(z) y = Mul(a, a)",
        "h = Shape(z) f = Cast<to=1>(h) y = ReduceSum<keepdims=0>(f)",
        "a = Concat<axis=-1>(z, z) y = Identity(a)",
        """a = Neg(z)
           y = If(c) <
               then_branch = p () => (float o) { o = Abs(a) },
               else_branch = q () => (float r) { r = Identity(a) }
           >""",
    ],
)
def test_an_axis_that_somebody_sees(behind):
    """Results are of shape () or (1,): nodes that read them can tell."""
    then = "k = Constant<value = float[1] {2}>() t = Add(s, k)"
    other = "e = Neg(s)" if "Concat" not in behind else "e = Constant<value = float[1, 1] {2}>()"
    model = network(f"{branches(then, other)} {behind}")
    session = InferenceSession(model, threads=1)
    for sign in (1, -1):
        feed = {"x": np.full((2, 3), sign, np.float32)}
        agree(session.run(None, feed), by_onnxruntime(model, feed))
    assert len(parts(session)) >= 2


def test_a_condition_of_two_elements_is_refused():
    condition = "f = ReduceSum<keepdims=0>(x, one) c = Cast<to=9>(f)"
    text = branches("t = Neg(x)", "e = Abs(x)", condition)
    session = InferenceSession(network(f"{text} y = Identity(z)"), threads=1)
    with pytest.raises(ValueError, match="the condition is bool of shape"):
        session.run(None, {"x": np.ones((2, 3), np.float32)})
