"""Networks whose values are not all arrays of numbers, in ONNX's text format, and feeds for them.

Of each kind: local functions, optionals, sequences, texts, sparse initializers, and initializers
that a caller overrides.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import onnx
import onnx.parser
from onnx import helper, numpy_helper

_HEAD = '<ir_version: {ir}, opset_import: ["" : {opset}, "own" : 1, "two" : 1, "ai.onnx.ml" : 2]>'
X = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
IMAGE = np.random.default_rng(1).standard_normal((2, 3, 6, 7)).astype(np.float32)
WORDS = np.array([["ab", "c"], ["d", "äf"]], object)


class ValueCase(NamedTuple):
    """A network of such values, and feeds for it."""

    text: str
    feeds: tuple[dict[str, Any], ...]
    functions: str = ""
    opset: int = 18
    ir: int = 9
    sparse: tuple[onnx.SparseTensorProto, ...] = ()

    @property
    def model(self) -> onnx.ModelProto:
        """The model."""
        head = _HEAD.format(ir=self.ir, opset=self.opset)
        model = onnx.parser.parse_model(f"{head}\n{self.text}\n{self.functions}")
        model.graph.sparse_initializer.extend(self.sparse)
        return model


def sparse(name: str, values: Any, indices: Any, dims: Any, dtype: Any = np.float32) -> Any:
    """A sparse tensor; its indices are counted through the whole, or are lists of one an axis."""
    return helper.make_sparse_tensor(
        numpy_helper.from_array(np.array(values, dtype), name),
        numpy_helper.from_array(np.array(indices, np.int64), "indices"), dims,
    )  # fmt: skip


def _number(**named: Any) -> dict[str, np.ndarray]:
    return {name: np.array(number) for name, number in named.items()}


def _function(head: str, body: str, domain: str = "own") -> str:
    imports = '["" : 18, "own" : 1, "two" : 1]'
    return f'<domain: "{domain}", opset_import: {imports}> {head} {{ {body} }}\n'


_LEAKY = _function("leaky <alpha> (a) => (r)", "r = LeakyRelu <alpha: float = @alpha> (a)")
_USUAL = _function(
    "usual <alpha: float = 0.7> (a) => (r)", "r = LeakyRelu <alpha: float = @alpha> (a)"
)
_OUTER = _LEAKY + _function(
    "outer <slope> (a, b) => (c)",
    "t = own.leaky <alpha: float = @slope> (a) c = Add(t, b)", "two",
)  # fmt: skip
_CHOICE = _function(
    "choice <alpha> (a) => (r)",
    """
    s = ReduceSum <keepdims = 0> (a)
    zero = Constant <value = float {0}> ()
    above = Greater(s, zero)
    r = If (above) <
        then_branch = yes () => (t) { t = LeakyRelu <alpha: float = @alpha> (a) },
        else_branch = no () => (e) { e = Neg(a) }
    >
    """,
)
_TURNS = _function(
    "turns <alpha> (a, n) => (r)",
    """
    r = Loop (n, , a) <
        body = turn (int64 i, bool c, float[] state) => (bool on, float[] next) {
            on = Identity(c)
            part = LeakyRelu <alpha: float = @alpha> (state)
            next = Add(part, a)
        }
    >
    """,
)
_SHIFT = _function("shift <t> (a) => (r)", "v = Constant <value: tensor = @t> () r = Add(a, v)")

FUNCTIONS = {
    "attribute": ValueCase(
        "g (float[N,C,H] x) => (float[N,C,H] y) { y = own.leaky <alpha = 0.3> (x) }",
        ({"x": X},), _LEAKY,
    ),
    "default attribute": ValueCase(
        "g (float[N,C,H] x) => (float[N,C,H] y) { y = own.usual(x) }", ({"x": X},), _USUAL
    ),
    "default overridden": ValueCase(
        "g (float[N,C,H] x) => (float[N,C,H] y) { y = own.usual <alpha = 0.1> (x) }",
        ({"x": X},), _USUAL,
    ),
    "nested, of two domains": ValueCase(
        "g (float[N,C,H] x) => (float[N,C,H] y) { y = two.outer <slope = 0.25> (x, x) }",
        ({"x": X},), _OUTER,
    ),
    "an If inside": ValueCase(
        """g (float[N,C,H] x) => (float[N,C,H] y) {
            u = own.choice <alpha = 0.2> (x)
            y = own.choice <alpha = 0.4> (u)
        }""", ({"x": X}, {"x": -X}, {"x": abs(X)}), _CHOICE,
    ),
    "a Loop inside": ValueCase(
        """g (float[N,C,H] x, int64 n) => (float[N,C,H] y) {
            u = own.turns <alpha = 0.2> (x, n)
            y = own.turns <alpha = 0.4> (u, n)
        }""", ({"x": X, **_number(n=3)}, {"x": X, **_number(n=0)}), _TURNS,
    ),
    "a tensor": ValueCase(
        "g (float[N,C,H] x) => (float[N,C,H] y) { y = own.shift <t = float[4] {1,2,3,4}> (x) }",
        ({"x": X},), _SHIFT,
    ),
    "of sequences": ValueCase(
        "g (seq(float[]) s, float[N,C,H] x) => (seq(float[]) t, int64 n) { t, n = own.more(s, x) }",
        ({"s": [X], "x": X},),
        _function("more (s, a) => (t, n)", "t = SequenceInsert(s, a) n = SequenceLength(t)"),
    ),
}  # fmt: skip

OPTIONALS = {
    "wrapped": ValueCase(
        """g (float[N,C,H] x) => (float[] y, bool b) {
            o = Optional(x) b = OptionalHasElement(o) y = OptionalGetElement(o)
        }""", ({"x": X},),
    ),
    "of opset 15": ValueCase(
        """g (float[N,C,H] x) => (float[] y, bool b) {
            o = Optional(x) b = OptionalHasElement(o) y = OptionalGetElement(o)
        }""", ({"x": X},), opset=15, ir=8,
    ),
    "left out": ValueCase(
        "g (float[N,C,H] x) => (float[N,C,H] y, bool b) { b = OptionalHasElement() y = Relu(x) }",
        ({"x": X},),
    ),
    "of a tensor": ValueCase(
        """g (float[N,C,H] x) => (float[] y, bool b) {
            b = OptionalHasElement(x) t = OptionalGetElement(x) y = Relu(t)
        }""", ({"x": X},),
    ),
    "input": ValueCase(
        """g (optional(float[]) o) => (float[] y) {
            b = OptionalHasElement(o)
            y = If (b) <
                then_branch = yes () => (float[] t) { t = OptionalGetElement(o) },
                else_branch = no () => (float[] e) { e = Constant <value = float[2] {1, 2}> () }
            >
        }""", ({"o": X}, {"o": None}),
    ),
    "output": ValueCase(
        "g (float[N,C,H] x) => (optional(float[]) o) { r = Relu(x) o = Optional(r) }", ({"x": X},)
    ),
    "passed": ValueCase(
        "g (optional(float[]) o) => (optional(float[]) p) { p = Identity(o) }",
        ({"o": X}, {"o": None}),
    ),
    "sequence": ValueCase(
        """g (optional(seq(float[])) o) => (float[] y) {
            s = OptionalGetElement(o) y = ConcatFromSequence <axis = 0> (s)
        }""", ({"o": [X, X + 1]},),
    ),
    "sequence or none": ValueCase(
        "g (optional(seq(float[])) o) => (bool b) { b = OptionalHasElement(o) }",
        ({"o": [X]}, {"o": []}, {"o": None}),
    ),
}  # fmt: skip

_GROWING = """
    s = Loop (n, , {0}) <
        body = turn (int64 i, bool c, seq(float[]) old) => (bool on, seq(float[]) new) {{
            on = Identity(c)
            f = Cast <to = 1> (i)
            element = Add(x, f)
            new = SequenceInsert(old, element)
        }}
    >"""

SEQUENCES = {
    "construct and at": ValueCase(
        """g (float[N,C,H] x, int64 i) => (float[] y) {
            r = Relu(x) s = SequenceConstruct(x, r) t = SequenceAt(s, i) y = Neg(t)
        }""", ({"x": X, **_number(i=1)}, {"x": X, **_number(i=-2)}),
    ),
    "input": ValueCase(
        """g (seq(float[]) s) => (float[] y, int64 n) {
            n = SequenceLength(s) y = ConcatFromSequence <axis = 1> (s)
        }""", ({"s": [X, X, -X]}, {"s": [X]}),
    ),
    "output": ValueCase(
        "g (float[N,C,H] x) => (seq(float[]) s) { r = Relu(x) s = SequenceConstruct(x, r) }",
        ({"x": X},),
    ),
    "passed": ValueCase(
        "g (seq(float[]) s) => (seq(float[]) t) { t = Identity(s) }", ({"s": [X, X[0]]}, {"s": []})
    ),
    "insert and erase": ValueCase(
        """g (seq(float[]) s, float[N,C,H] x, int64 i, int64 j) =>
            (seq(float[]) u, seq(float[]) t) {
            t = SequenceInsert(s, x, i) u = SequenceErase(t, j)
        }""", ({"s": [X[0], X[1]], "x": X, **_number(i=1, j=0)},
               {"s": [X[0], X[1]], "x": X, **_number(i=-1, j=-3)},
               {"s": [], "x": X, **_number(i=0, j=0)}),
    ),
    "at the end": ValueCase(
        """g (float[N,C,H] x) => (seq(float[]) k, int64 n) {
            e = SequenceEmpty() f = SequenceInsert(e, x) h = SequenceInsert(f, x)
            k = SequenceErase(h) n = SequenceLength(h)
        }""", ({"x": X},),
    ),
    "split": ValueCase(
        """g (float[N,C,H] x) => (seq(float[]) s, seq(float[]) t, int64 n) {
            s = SplitToSequence <axis = 1> (x)
            t = SplitToSequence <axis = 2, keepdims = 0> (x)
            n = SequenceLength(s)
        }""", ({"x": X},),
    ),
    "split by a number": ValueCase(
        "g (float[N,C,H] x, int64 k) => (seq(float[]) s) { s = SplitToSequence <axis = 1> (x, k) }",
        ({"x": X, **_number(k=2)}, {"x": X, **_number(k=1)}, {"x": X, **_number(k=9)}),
    ),
    "split by sizes": ValueCase(
        """g (float[N,C,H] x, int64[2] k) => (seq(float[]) s) {
            s = SplitToSequence <axis = -1> (x, k)
        }""", ({"x": X, **_number(k=[1, 3])}, {"x": X, **_number(k=[4, 0])}),
    ),
    "split without the axis": ValueCase(
        """g (float[N,C,H] x, int64 k, int64[3] m) => (seq(float[]) s, seq(float[]) t) {
            s = SplitToSequence <axis = 1, keepdims = 0> (x, k)
            t = SplitToSequence <axis = 1, keepdims = 0> (x, m)
        }""", ({"x": X, **_number(k=1, m=[1, 1, 1])},),
    ),
    "split by known sizes": ValueCase(
        """g (float[2,3,4] x) => (float[] y, float[] z, float[] w) {
            one = Constant <value_int = 1> () two = Constant <value_ints = [1, 3]> ()
            few = Constant <value = int32[2] {1, 3}> ()
            s = SplitToSequence <axis = -1, keepdims = 0> (x, one)
            t = SplitToSequence <axis = -1, keepdims = 0> (x, two)
            u = SplitToSequence <axis = -1> (x, few)
            y = SequenceAt(s, one) z = SequenceAt(t, one) w = ConcatFromSequence <axis = -1> (u)
        }""", ({"x": X},),
    ),
    "joined on a new axis": ValueCase(
        """g (seq(float[]) s) => (float[] y) {
            y = ConcatFromSequence <axis = -1, new_axis = 1> (s)
        }""", ({"s": [X, -X]},),
    ),
    "map": ValueCase(
        """g (seq(float[]) s, float[N,C,H] x) => (seq(float[]) t, seq(float[]) u) {
            t, u = SequenceMap (s) <
                body = each (float[] e) => (float[] w, float[] q) {
                    r = Relu(e) w = Add(r, x) q = ReduceSum <keepdims = 0> (e)
                }
            >
        }""", ({"s": [X, X + 1], "x": X},), opset=17,
    ),
    "map of two": ValueCase(
        """g (seq(float[]) s, seq(float[]) p, float[N,C,H] x) => (seq(float[]) t) {
            t = SequenceMap (s, p, x) <
                body = each (float[] e, float[] f, float[] h) => (float[] w) {
                    v = Add(e, f) w = Mul(v, h)
                }
            >
        }""", ({"s": [X, X + 1], "p": [-X, X], "x": X},), opset=17,
    ),
    "grown by a Loop": ValueCase(
        "g (float[N,C,H] x, int64 n) => (float[] y) { e = SequenceEmpty()"
        + _GROWING.format("e") + " y = ConcatFromSequence <axis = 0, new_axis = 1> (s) }",
        ({"x": X, **_number(n=3)}, {"x": X, **_number(n=1)}),
    ),
    "state of a Loop": ValueCase(
        "g (float[N,C,H] x, int64 n, seq(float[]) o) => (seq(float[]) s) {"
        + _GROWING.format("o") + "}",
        ({"x": X, "o": [X], **_number(n=2)}, {"x": X, "o": [], **_number(n=0)}),
    ),
    "read by a Loop": ValueCase(
        """g (float[N,C,H] x, seq(float[]) s) => (float[] y) {
            n = SequenceLength(s)
            y = Loop (n, , x) <
                body = turn (int64 i, bool c, float[] sum) => (bool on, float[] next) {
                    on = Identity(c) element = SequenceAt(s, i) next = Add(sum, element)
                }
            >
        }""", ({"x": X, "s": [X, 2 * X]}, {"x": X, "s": []}),
    ),
    "chosen by an If": ValueCase(
        """g (float[N,C,H] x, seq(float[]) s, bool c) => (seq(float[]) u) {
            u = If (c) <
                then_branch = yes () => (seq(float[]) t) { t = SequenceInsert(s, x) },
                else_branch = no () => (seq(float[]) e) { e = Identity(s) }
            >
        }""", ({"x": X, "s": [X], **_number(c=True)}, {"x": X, "s": [X], **_number(c=False)}),
    ),
    "a convolution behind": ValueCase(
        """g (seq(float[]) s, int64 i) => (float[] y)
        <float[2,3,1,1] w = {1, -2, 3, 0.5, 0.25, -1}> {
            t = SequenceAt(s, i) c = Conv(t, w) y = Relu(c)
        }""", ({"s": [IMAGE, IMAGE + 1], **_number(i=1)}, {"s": [IMAGE[:, :, 1:]], **_number(i=0)}),
    ),
    "of integers": ValueCase(
        "g (seq(int64[]) s, int64 i) => (int64[] y) { t = SequenceAt(s, i) y = Add(t, t) }",
        ({"s": [np.arange(3), np.arange(2)], **_number(i=1)},),
    ),
    "of texts": ValueCase(
        "g (seq(string[]) s, int64 i) => (string[] t) { t = SequenceAt(s, i) }",
        ({"s": [WORDS, WORDS[0]], **_number(i=1)},),
    ),
    "of opset 11": ValueCase(
        """g (float[N,C,H] x, int64 i) => (float[] y) {
            s = SplitToSequence <axis = 1> (x) u = SequenceInsert(s, x) y = SequenceAt(u, i)
        }""", ({"x": X, **_number(i=1)}, {"x": X, **_number(i=-1)}), opset=11, ir=8,
    ),
}  # fmt: skip

TEXTS = {
    "passed": ValueCase("g (string[K,L] s) => (string[] t) { t = Identity(s) }", ({"s": WORDS},)),
    "passed beside a network": ValueCase(
        """g (string[K,L] s, float[N,C,H] x) => (string[] t, float[] y) {
            t = Identity(s) r = Relu(x) y = Neg(r)
        }""", ({"s": WORDS, "x": X},),
    ),
    "labels": ValueCase(
        """g (float[N,C,H] x) => (string[] t) <string[3] names = {"cat", "dog", "ä"}> {
            i = ArgMax <axis = 1, keepdims = 0> (x) t = Gather(names, i)
        }""", ({"x": X}, {"x": -X[:1]}),
    ),
    "moved": ValueCase(
        """g (string[K,L] s) => (string[] t)
        <int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}> {
            u = Unsqueeze(s, zero) v = Transpose(u) w = Squeeze(v, two) f = Flatten(w)
            p = Slice(f, zero, one) t = Concat <axis = 0> (p, f)
        }""", ({"s": WORDS},),
    ),
    "gathered": ValueCase(
        """g (string[K,L] s, int64[M] i) => (string[] t, string[] u, string[] v, string[] w)
        <int64[2,2] pairs = {0, 1, 1, 0}, int64[2,1] each = {0, 1}, bool[2] kept = {1, 0}> {
            t = Gather <axis = 1> (s, i) u = GatherND(s, pairs)
            v = GatherElements <axis = 1> (s, each) w = Compress <axis = 0> (s, kept)
        }""", ({"s": WORDS, "i": np.array([1, 1, 0])},),
    ),
    "scattered": ValueCase(
        """g (string[K,L] s, string[M,O] p) => (string[] t, string[] u)
        <int64[2,1] each = {0, 1}, int64[1,1] row = {1}, int64[2] shape = {1, 2}> {
            t = ScatterElements <axis = 1> (s, each, p)
            r = Reshape(p, shape) u = ScatterND(s, row, r)
        }""", ({"s": WORDS, "p": np.array([["x"], ["y"]], object)},),
    ),
    "repeated": ValueCase(
        """g (string[K,L] s) => (string[] t, string[] u, string[] v)
        <int64[3] shape = {3, 2, 2}, int64[3] times = {1, 2, 1}, int64[2] sizes = {1, 1}> {
            e = Expand(s, shape) t = Tile(e, times) u, v = Split <axis = 1> (s, sizes)
        }""", ({"s": WORDS},),
    ),
    "chosen": ValueCase(
        "g (string[K,L] s, string[K,L] p, bool[L] c) => (string[] t) { t = Where(c, s, p) }",
        ({"s": WORDS, "p": WORDS[::-1], "c": np.array([True, False])},),
    ),
    "one of two": ValueCase(
        """g (int64[M] i, string[2] s) => (string[] t) <int64[1] depth = {3}> {
            t = OneHot(i, depth, s)
        }""", ({"i": np.array([0, 2]), "s": WORDS[0]},),
    ),
    "unique": ValueCase(
        """g (string[M] s) => (string[] t, int64[] i, int64[] j, int64[] n) {
            t, i, j, n = Unique(s)
        }""",
        ({"s": np.array(["b", "a", "b", "c"], object)},),
    ),
    "sizes": ValueCase(
        "g (string[K,L] s) => (int64[2] y, int64 z) { y = Shape(s) z = Size(s) }", ({"s": WORDS},)
    ),
    "sequence": ValueCase(
        """g (string[K,L] s) => (string[] t) {
            q = SequenceConstruct(s, s) t = ConcatFromSequence <axis = 0> (q)
        }""", ({"s": WORDS},),
    ),
    "branches": ValueCase(
        """g (string[K,L] s, bool c) => (string[] t) {
            t = If (c) <
                then_branch = yes () => (string[] p) { p = Identity(s) },
                else_branch = no () => (string[] q) { q = Constant <value_strings = ["no"]> () }
            >
        }""", ({"s": WORDS, **_number(c=True)}, {"s": WORDS, **_number(c=False)}),
    ),
    "constants": ValueCase(
        """g (float[N,C,H] x) => (string[] t, string[] u, float[N,C,H] y) {
            t = Constant <value_strings = ["a", "ä"]> () u = Constant <value_string = "b"> ()
            y = Relu(x)
        }""", ({"x": X},),
    ),
    "state of a Loop": ValueCase(
        """g (string[K,L] s, int64 n) => (string[] t) {
            t = Loop (n, , s) <
                body = turn (int64 i, bool c, string[] old) => (bool on, string[] new) {
                    on = Identity(c) new = Concat <axis = 0> (old, s)
                }
            >
        }""", ({"s": WORDS, **_number(n=2)}, {"s": WORDS, **_number(n=0)}),
    ),
    "numbers written": ValueCase(
        """g (float[M] x, int64[M] i, bool[M] b, double[M] d) =>
            (string[] t, string[] u, string[] v, string[] w) {
            t = Cast <to = 8> (x) u = Cast <to = 8> (i) v = Cast <to = 8> (b) w = Cast <to = 8> (d)
        }""", ({
            "x": np.array([1.5, 2, -0.25, np.nan, np.inf, -np.inf, 1e20, 1e-7, 1 / 3, -0.0], "f"),
            "i": np.array([0, -5, 1 << 62, *range(7)]), "b": np.array([True, False] * 5),
            "d": np.array([1 / 3, 1e300, 0.1, 123456789, 2, 1e-5, 7, 8, 9, 10.0]),
        },),
    ),
    "numbers read": ValueCase(
        """g (string[M] s, string[M] i) =>
            (float[] y, double[] z, int64[] n, int8[] k, uint8[] p, bool[] b) {
            y = Cast <to = 1> (s) z = Cast <to = 11> (s) n = Cast <to = 7> (i)
            k = Cast <to = 3> (i) p = Cast <to = 2> (i) b = Cast <to = 9> (i)
        }""", ({"s": np.array(["1.5", "-2e3", "nan", "inf", "-INF", " 7"], object),
                "i": np.array(["3", "-7", "300", "0", " 2", "12345"], object)},),
    ),
    "labels of texts": ValueCase(
        """g (string[K,L] s) => (float[] y) {
            y = ai.onnx.ml.LabelEncoder
                <keys_strings = ["ab", "c", "ab"], values_floats = [1.0, 2.0, 3.0]> (s)
        }""", ({"s": WORDS},),
    ),
    "labels of numbers": ValueCase(
        """g (float[N,C,H] x) => (string[] t, float[] y) {
            i = ArgMax <axis = 1, keepdims = 0> (x)
            t = ai.onnx.ml.LabelEncoder <keys_int64s = [0, 1], values_strings = ["u", "v"]> (i)
            f = ai.onnx.ml.LabelEncoder <keys_int64s = [2, 1], values_floats = [0.5, 7.0]> (i)
            y = Sqrt(f)
        }""", ({"x": abs(X)},),
    ),
}  # fmt: skip

_PRODUCT = "g (float[N,C,4] x) => (float[] y) { y = MatMul(x, w) }"
_PAIRS = [[0, 1], [2, 0], [3, 1]]

SPARSE = {
    "counted": ValueCase(
        _PRODUCT, ({"x": X},), sparse=(sparse("w", [1, 2, 3], [1, 4, 7], [4, 2]),)
    ),
    "in any order": ValueCase(
        _PRODUCT, ({"x": X},), sparse=(sparse("w", [1, 2, 3], [7, 1, 4], [4, 2]),)
    ),
    "by axes": ValueCase(_PRODUCT, ({"x": X},), sparse=(sparse("w", [1, 2, 3], _PAIRS, [4, 2]),)),
    "of three axes": ValueCase(
        "g (float[N,C,4] x) => (float[] y) { y = Add(x, w) }", ({"x": X},),
        sparse=(sparse("w", [1, 2, 3], [[0, 1, 2], [1, 0, 0], [1, 2, 3]], [2, 3, 4]),),
    ),
    "of one axis": ValueCase(
        "g (float[N,C,4] x) => (float[] y) { y = Add(x, w) }", ({"x": X},),
        sparse=(sparse("w", [1, 2, 3], [[1], [2], [3]], [4]),),
    ),
    "empty": ValueCase(_PRODUCT, ({"x": X},), sparse=(sparse("w", [], [], [4, 2]),)),
    "a scalar": ValueCase(
        "g (float[N,C,4] x) => (float[] y) { y = Add(x, w) }", ({"x": X},),
        sparse=(sparse("w", [2], [0], []),),
    ),
    "a shape": ValueCase(
        "g (float[N,C,4] x) => (float[] y) { y = Reshape(x, w) }", ({"x": X},),
        sparse=(sparse("w", [6, 4], [0, 1], [2], np.int64),),
    ),
    "of several types": ValueCase(
        """g (float[N,C,4] x) => (float16[] a, double[] b, uint8[] c, bool[] d) {
            a = Identity(h) b = Identity(f) c = Identity(u) d = Identity(t)
        }""", ({"x": X},), sparse=tuple(
            sparse(name, [1, 2, 1], [1, 4, 7], [4, 2], dtype)
            for name, dtype in zip("hfut", ("f2", "f8", "u1", "?"), strict=True)
        ),
    ),
    "overridden": ValueCase(
        "g (float[N,C,4] x, float[4,2] w) => (float[] y) { y = MatMul(x, w) }",
        ({"x": X}, {"x": X, "w": X[0].T[:, :2]}),
        sparse=(sparse("w", [1, 2, 3], [1, 4, 7], [4, 2]),),
    ),
}  # fmt: skip

_W = np.arange(20, dtype=np.float32).reshape(4, 5) - 9
_LIST = ", ".join(map(str, _W.ravel()))

OVERRIDES = {
    "a product": ValueCase(
        f"g (float[N,C,4] x, float[4,5] w = {{{_LIST}}}) => (float[] y) {{ y = MatMul(x, w) }}",
        ({"x": X}, {"x": X, "w": -_W}, {"x": X}, {"x": X, "w": _W + 1}),
    ),
    "of opset 8": ValueCase(
        f"""g (float[N,C,4] x, float[4,5] w = {{{_LIST}}}, float[5] b = {{1, 2, 3, 4, 5}}) =>
            (float[] y) {{ p = MatMul(x, w) y = Add(p, b) }}""",
        ({"x": X}, {"x": X, "w": -_W}, {"x": X, "b": _W[0]}, {"x": X, "w": -_W, "b": _W[0]}),
        opset=8, ir=4,
    ),
    "a shape": ValueCase(
        "g (float[N,C,4] x, int64[2] k = {6, 4}) => (float[] y) { y = Reshape(x, k) }",
        ({"x": X}, {"x": X, **_number(k=[4, 6])}, {"x": X, **_number(k=[3, 8])}),
    ),
    "a convolution": ValueCase(
        """g (float[N,3,H,W] x, float[2,3,1,1] w = {1, -2, 3, 0.5, 0.25, -1}, float[2] b = {1, 2},
            float[2] m = {0, 1}, float[2] v = {1, 2}) => (float[] y) {
            c = Conv(x, w, b) y = BatchNormalization(c, m, b, m, v)
        }""",
        ({"x": IMAGE}, {"x": IMAGE, "w": np.ones((2, 3, 1, 1), "f")},
         {"x": IMAGE, "v": np.array([4, 5], "f"), "b": np.array([7, 8], "f")}),
    ),
    "an output": ValueCase(
        f"""g (float[N,C,4] x, float[4,5] w = {{{_LIST}}}) => (float[] y, float[4,5] w) {{
            y = Relu(x)
        }}""", ({"x": X}, {"x": X, "w": -_W}),
    ),
    "read by branches": ValueCase(
        f"""g (float[N,C,4] x, bool c, float[4,5] w = {{{_LIST}}}) => (float[] y) {{
            y = If (c) <
                then_branch = yes () => (float[] t) {{ t = MatMul(x, w) }},
                else_branch = no () => (float[] e) {{ e = Identity(w) }}
            >
        }}""",
        ({"x": X, **_number(c=True)}, {"x": X, "w": -_W, **_number(c=True)},
         {"x": X, "w": -_W, **_number(c=False)}),
    ),
    "a condition": ValueCase(
        """g (float[N,C,4] x, bool c = {1}) => (float[] y) {
            y = If (c) <
                then_branch = yes () => (float[] t) { t = Relu(x) },
                else_branch = no () => (float[] e) { e = Neg(x) }
            >
        }""", ({"x": X}, {"x": X, **_number(c=False)}),
    ),
    "a scale": ValueCase(
        """g (float[N,C,4] x, float s = {0.1}, uint8 z = {100}) => (float[] y) {
            q = QuantizeLinear(x, s, z) y = DequantizeLinear(q, s, z)
        }""", ({"x": X}, {"x": X, "s": np.array(0.25, "f")}, {"x": X, "z": np.array(3, "u1")}),
    ),
    "texts": ValueCase(
        """g (int64[M] i, string[3] l = {"cat", "dog", "ä"}) => (string[] t) {
            t = Gather(l, i)
        }""",
        ({"i": np.array([0, 2])}, {"i": np.array([0, 2]), "l": np.array(["u", "v", "w"], object)}),
    ),
    "all there is": ValueCase(
        "g (float[3] w = {1, 2, 3}) => (float[] y) { y = Neg(w) }",
        ({}, {"w": np.array([4, 5, 6], "f")}),
    ),
}  # fmt: skip

ALL = {
    f"{kind}: {name}": case
    for kind, cases in (
        ("function", FUNCTIONS), ("optional", OPTIONALS), ("sequence", SEQUENCES),
        ("text", TEXTS), ("sparse", SPARSE), ("override", OVERRIDES),
    )
    for name, case in cases.items()
}  # fmt: skip
