"""Networks in ONNX's text format whose branches, turns or sizes depend on data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnx.parser
from onnx import numpy_helper


class Case(NamedTuple):
    """A network of images ``x``, and values of its other inputs for one run each."""

    outputs: str
    text: str
    scalars: str = ""
    feeds: Sequence[dict[str, Any]] = ({},)


def _each(name: str, *numbers: float) -> list[dict[str, Any]]:
    """Give one scalar after the other: float32 or int64."""
    return [{name: np.array(n, np.float32 if isinstance(n, float) else np.int64)} for n in numbers]


FLOWS = {
    "if": Case("float y", """
        c = Conv<auto_pad="SAME_UPPER">(x, w)
        largest = ReduceMax<keepdims=0>(c)
        positive = Greater(largest, bound)
        y = If(positive) <
            then_branch = yes () => (float t) { t = Conv<auto_pad="SAME_UPPER">(c, v) },
            else_branch = no () => (float e) { r = Relu(c) e = Neg(r) }
        >
        """, "float bound", _each("bound", -9.0, 99.0)),
    "if in an if": Case("float y", """
        s = ReduceSum<keepdims=0>(x)
        first = Greater(s, low)
        y = If(first) <
            then_branch = yes () => (float t) {
                second = Greater(s, high)
                t = If(second) <
                    then_branch = a () => (float p) { p = Identity(x) },
                    else_branch = b () => (float q) { q = Conv(x, w) }
                >
            },
            else_branch = no () => (float e) { e = Add(x, s) }
        >
        """, "float low, float high", [
            {"low": np.array(low, np.float32), "high": np.array(high, np.float32)}
            for low, high in ((-99, -99), (-99, 99), (99, 99))
        ]),
    "loop": Case("float y, float trace", """
        go = Constant<value = bool {1}>()
        y, trace = Loop(trips, go, x) <
            body = turn (int64 i, bool c, float state) => (bool on, float next, float scanned) {
                moved = Conv<auto_pad="SAME_UPPER">(state, v2)
                next = Tanh(moved)
                scanned = ReduceSum<keepdims=0>(next)
                f = Cast<to=1>(i)
                on = Less(f, bound)
            }
        >
        """, "float bound, int64 trips", [
            {"bound": np.array(2.5, np.float32), "trips": np.array(9)},
            {"bound": np.array(2.5, np.float32), "trips": np.array(2)},
            {"bound": np.array(99, np.float32), "trips": np.array(7)},
        ]),
    "loop by index": Case("float y, float rows", """
        h = Shape<start=2, end=3>(x)
        turns = Squeeze(h)
        zero = Constant<value = float {0}>()
        y, rows = Loop(turns, , zero) <
            body = turn (int64 i, bool c, float total) => (bool on, float sum, float row) {
                on = Identity(c)
                begin = Reshape(i, axis1)
                end = Add(begin, axis1)
                row = Slice(x, begin, end, axis2)
                part = ReduceSum<keepdims=0>(row)
                sum = Add(total, part)
            }
        >
        """),
    "loop that grows": Case("float y", """
        y = Loop(trips, , x) <
            body = turn (int64 i, bool c, float state) => (bool on, float next) {
                on = Identity(c)
                next = Concat<axis=3>(state, x)
            }
        >
        """, "int64 trips", _each("trips", 0, 1, 3)),
    "loop until": Case("float y", """
        y = Loop( , yes, x) <
            body = turn (int64 i, bool c, float state) => (bool on, float next) {
                next = Mul(state, half)
                a = Abs(next)
                m = ReduceMax<keepdims=0>(a)
                on = Greater(m, bound)
            }
        >
        """, "float bound, bool yes", [
            {"bound": np.array(0.01, np.float32), "yes": np.array(True)},
            {"bound": np.array(0.01, np.float32), "yes": np.array(False)},
        ]),
    "unchanged product": Case("float y", """
        pixels = Transpose<perm = [0, 2, 3, 1]>(x)
        start = ReduceSum<keepdims=0>(x)
        y = Loop(trips, , pixels) <
            body = turn (int64 i, bool c, float state) => (bool on, float next) {
                on = Identity(c)
                weighted = MatMul(pixels, square)
                hidden = Add(weighted, start)
                f = Cast<to=1>(i)
                part = Mul(hidden, f)
                next = Sub(part, state)
            }
        >
        """, "int64 trips", _each("trips", 3, 0, 1)),
    "scan": Case("float last, float y", """
        start = ReduceSum<keepdims=0>(x, axis1)
        last, y = Scan(start, x) <
            num_scan_inputs = 1, scan_input_axes = [1], scan_input_directions = [1],
            scan_output_axes = [2], scan_output_directions = [1],
            body = turn (float state, float part) => (float next, float out) {
                next = Sub(state, part)
                out = Mul(next, part)
            }
        >
        """),
    "behind a loop": Case("float y", """
        grown = Loop(trips, , x) <
            body = turn (int64 i, bool c, float state) => (bool on, float next) {
                on = Identity(c)
                next = Concat<axis=2>(state, x)
            }
        >
        c = Conv(grown, w)
        y = GlobalAveragePool(c)
        """, "int64 trips", _each("trips", 2, 0, 2)),
}  # fmt: skip
"""Networks with subgraphs."""

SIZES = {
    "non-zero": Case("int64 y", """
        c = Conv(x, w)
        r = Relu(c)
        y = NonZero(r)
        """),
    "chosen images": Case("float y", """
        best = ReduceMax<keepdims=0>(x, spatial)
        flat = Reshape(best, all)
        kept = Greater(flat, bound)
        h = Shape<start=2>(x)
        planes = Concat<axis=0>(all, one, h)
        images = Reshape(x, planes)
        some = Compress<axis=0>(images, kept)
        y = Conv(some, w1)
        """, "float bound", _each("bound", -9.0, 1.5, 1.9, 1.5)),
    "computed bounds": Case("float y", """
        places = ArgMax<axis=3, keepdims=0>(x)
        place = ReduceMin<keepdims=0>(places)
        begin = Unsqueeze(place, axis0)
        end = Shape<start=3, end=4>(x)
        part = Slice(x, begin, end, axis3)
        y = Conv(part, narrow)
        """),
    "range": Case("float y", """
        s = ReduceSum<keepdims=0>(x)
        a = Abs(s)
        zero = Constant<value = float {0}>()
        step = Constant<value = float {0.5}>()
        r = Range(zero, a, step)
        y = Mul(r, s)
        """),
    "shape of a result": Case("float y, int64 n", """
        found = NonZero(x)
        t = Transpose(found)
        n = Shape(t)
        like = ConstantOfShape(n)
        y = Concat<axis=1>(like, like)
        """),
    "largest": Case("float y, int64 i, float z", """
        s = ReduceSum<keepdims=0>(x)
        a = Abs(s)
        n = Cast<to=7>(a)
        flat = Reshape(x, all)
        k = Min(n, seven)
        k1 = Reshape(k, one)
        y, i = TopK(flat, k1)
        z = Sqrt(y)
        """),
    "suppressed boxes": Case("int64 y, float kept", """
        corners = Reshape(x, boxes)
        s = Slice(corners, axis0, axis1, axis2)
        scores = Transpose<perm=[0, 2, 1]>(s)
        y = NonMaxSuppression(corners, scores, most, overlap)
        number = Gather<axis=1>(y, axis2)
        flat = Squeeze(number, axis1)
        first = Squeeze(corners, axis0)
        kept = Gather(first, flat)
        """),
}  # fmt: skip
"""Networks with results whose shapes depend on data."""


def model_of(case: Case, rng: np.random.Generator) -> onnx.ModelProto:
    """Parse a network, and give it weights and indices by the names that it reads."""
    scalars = f", {case.scalars}" if case.scalars else ""
    header = '<ir_version: 10, opset_import: ["" : 21]>'
    signature = f"g (float[n, 2, h, w_] x{scalars}) => ({case.outputs})"
    model = onnx.parser.parse_model(f"{header} {signature} {{ {case.text} }}")
    _forget_shapes(model.graph, inputs=False)
    shapes = {
        "w": (3, 2, 3, 3), "v": (2, 3, 3, 3), "v2": (2, 2, 3, 3), "w1": (4, 1, 2, 2),
        "narrow": (3, 2, 2, 1), "square": (2, 2),
    }  # fmt: skip
    constants = {n: rng.standard_normal(s).astype(np.float32) / 2 for n, s in shapes.items()}
    constants |= {f"axis{n}": np.array([n]) for n in range(4)}
    constants |= {
        "spatial": np.array([2, 3]), "all": np.array([-1]), "one": np.array([1]),
        "half": np.array(0.5, np.float32), "seven": np.array(7), "boxes": np.array([1, -1, 4]),
        "most": np.array([4]), "overlap": np.array([0.3], np.float32),
    }  # fmt: skip
    used = _read(model.graph)
    for name, array in constants.items():
        if name in used:
            model.graph.initializer.append(numpy_helper.from_array(np.asarray(array), name))
    return model


def _forget_shapes(graph: onnx.GraphProto, *, inputs: bool) -> None:
    """Drop the shapes of numbers: the text format has no tensors of unknown rank."""
    for value in (*graph.output, *(graph.input if inputs else ())):
        if not inputs or value.type.tensor_type.elem_type == onnx.TensorProto.FLOAT:
            value.type.tensor_type.ClearField("shape")
    for node in graph.node:
        for attribute in node.attribute:
            _forget_shapes(attribute.g, inputs=True)


def _read(graph: onnx.GraphProto) -> set[str]:
    """Names that a graph and its subgraphs read."""
    names = {name for node in graph.node for name in node.input}
    inner = (attribute.g for node in graph.node for attribute in node.attribute)
    return names.union(*map(_read, inner))
