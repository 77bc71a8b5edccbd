"""Small whole networks of the operators that models are made of, with inputs for them.

Between them they have every operator that a loop of ours computes, and many that run in Python;
they are what fuzzers mutate, and what is run where a large network would take too long.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.network.graphs import Graph
from tests.network.models import graph_of, model_of
from tests.network.old_graphs import OldGraph


class Small(NamedTuple):
    """A network and inputs for it."""

    model: onnx.ModelProto
    feed: dict[str, np.ndarray]


def _small(g: Graph, *outputs: str) -> Small:
    return Small(g.model(*outputs), dict(g.feed))


def detector() -> Small:
    """Convolutions of all kinds, pools, a branch that joins, and an enlarged map."""
    g = Graph(1)
    x = g.conv(g.input(1, 3, 10, 12, free=True), 8, (3, 3, 3), strides=[2, 2], pads=[1] * 4)
    norm = [g.positive(8), g.random(8), g.random(8), g.positive(8)]
    x = g.HardSwish(g.BatchNormalization(x, *norm))
    y = g.Relu(g.conv(x, 8, (1, 3, 3), group=8, pads=[1] * 4))
    y = g.Add(x, g.conv(y, 8, (8, 1, 1)))
    gate = g.Sigmoid(g.conv(g.GlobalAveragePool(y), 8, (8, 1, 1)))
    y = g.Mul(y, gate)
    low = g.MaxPool(y, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)
    low = g.AveragePool(low, kernel_shape=[3, 3], pads=[1] * 4)
    low = g.Resize(low, "", g.constant([1, 1, 2, 2]), mode="linear")
    high = g.Pad(y, g.constant([0, 0, 0, 0, 0, 0, 1, 0], np.int64))
    joined = g.Concat(low, high, axis=1)
    w = g.random(16, 2, 2, 2)
    return _small(g, g.Sigmoid(g.ConvTranspose(joined, w, g.random(2), strides=[2, 2])))


def classifier() -> Small:
    """A stem, a flat product, a softmax."""
    g = Graph(2, opset=13)
    x = g.MaxPool(
        g.Relu(g.conv(g.input(2, 3, 8, 8), 4, (3, 3, 3))), kernel_shape=[2, 2], strides=[2, 2]
    )
    x = g.Gemm(g.Flatten(x), g.random(5, 36), g.random(5), transB=1, alpha=0.5)
    return _small(g, g.Softmax(x, axis=1))


def attention() -> Small:
    """Queries, keys and values of one product; layer normalization; a block behind it."""
    g = Graph(3)
    x = g.input(2, 5, 6, free=True)
    y = g.LayerNormalization(x, g.positive(6), g.random(6))
    y = g.Add(g.MatMul(y, g.random(6, 18)), g.random(18))
    y = g.Transpose(g.Reshape(y, g.constant([0, -1, 3, 2, 3], np.int64)), perm=[2, 0, 3, 1, 4])
    q, k, v = (
        g.Squeeze(part, g.constant([0], np.int64))
        for part in g.Split(y, axis=0, num_outputs=3, outputs=3)
    )
    scores = g.Mul(g.MatMul(q, g.Transpose(k, perm=[0, 1, 3, 2])), g.constant(0.577))
    y = g.MatMul(g.Softmax(scores), v)
    y = g.Reshape(g.Transpose(y, perm=[0, 2, 1, 3]), g.constant([0, 0, 6], np.int64))
    y = g.Add(x, y)
    return _small(g, g.Add(y, g.MatMul(g.Gelu(g.MatMul(y, g.random(6, 7))), g.random(7, 6))))


def recurrent() -> Small:
    """A convolution whose columns are times; LSTM both ways, then GRU."""
    g = Graph(4)
    x = g.Relu(g.conv(g.input(1, 1, 4, 6), 3, (1, 4, 3), pads=[0, 1, 0, 1]))
    x = g.Transpose(g.Squeeze(x, g.constant([2], np.int64)), perm=[2, 0, 1])
    weights = g.random(2, 16, 3), g.random(2, 16, 4), g.random(2, 32)
    y, h, _ = g.LSTM(x, *weights, hidden_size=4, direction="bidirectional", outputs=3)
    y = g.Reshape(g.Transpose(y, perm=[0, 2, 1, 3]), g.constant([0, 0, -1], np.int64))
    initial = g.Slice(h, *(g.constant(n, np.int64) for n in ([0], [1], [0])))
    weights = g.random(1, 12, 8), g.random(1, 12, 4), g.random(1, 24)
    y, _ = g.GRU(
        y, *weights, "", initial, hidden_size=4, linear_before_reset=1, outputs=2,
    )  # fmt: skip
    return _small(g, g.LogSoftmax(g.Squeeze(y, g.constant([1], np.int64)), axis=-1))


def arithmetic() -> Small:
    """Element-wise operators, reductions, comparisons, and what runs in Python."""
    g = Graph(5)
    x, y = g.input(2, 3, 4), g.input(3, 1)
    a = g.Add(g.Mul(x, y), g.Sub(g.Max(x, y), g.Min(x, g.constant(0.5))))
    a = g.Div(a, g.Add(g.Exp(g.Neg(g.Abs(a))), g.constant(1)))
    b = g.Clip(g.Tanh(g.Sqrt(g.Abs(a))), g.constant(0.1), g.constant(0.9))
    b = g.LeakyRelu(g.PRelu(g.Erf(g.Pow(b, g.constant(2))), g.random(4)), alpha=0.2)
    c = g.ReduceMean(a, g.constant([-1], np.int64), keepdims=1)
    d = g.ReduceMax(g.ReduceSum(b, g.constant([1], np.int64), keepdims=0), keepdims=0)
    e = g.Where(g.Greater(a, c), b, g.Cast(g.Cast(a, to=TensorProto.INT32), to=TensorProto.FLOAT))
    f = g.Gather(e, g.constant([1, 0, 1], np.int64), axis=1)
    best, _ = g.TopK(f, g.constant([2], np.int64), outputs=2)
    g.Mul(best, d)
    return _small(g, g.nodes[-1].output[0], g.Expand(c, g.constant([2, 3, 2], np.int64)))


def old() -> Small:
    """Of an early opset: attributes that became inputs, and a shape computed when it runs."""
    g = Graph(6, opset=9)
    x = g.input(1, 2, 4, 4, free=True)
    y = g.Slice(x, axes=[2], starts=[0], ends=[3])
    y = g.Pad(g.Clip(y, min=-1.0, max=1.0), pads=[0, 0, 1, 0, 0, 0, 0, 0])
    y = g.Upsample(y, g.constant([1, 1, 2, 2]), mode="nearest")
    rows = g.Gather(g.Shape(y), g.constant(0, np.int64), axis=0)
    shape = g.Concat(g.Unsqueeze(rows, axes=[0]), g.constant([-1], np.int64), axis=0)
    return _small(g, g.Softmax(g.Reshape(g.ReduceMean(y, axes=[3]), shape), axis=1))


def functions() -> Small:
    """A local function called twice, weights as nodes, and a branch on a shape."""
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    inner = [
        helper.make_node("Relu", ["a"], ["r"]),
        helper.make_node("Add", ["r", "b"], ["y"]),
    ]
    function = helper.make_function("own", "f", ["a", "b"], ["y"], inner, opsets)
    branches = [
        graph_of([helper.make_node(op, ["v"], [f"of_{op}"])], {}, {f"of_{op}": np.float32})
        for op in ("Tanh", "Neg")
    ]
    weight = numpy_helper.from_array(np.arange(6, dtype=np.float32).reshape(2, 3), "weight")
    nodes = [
        helper.make_node("Constant", [], ["w"], value=weight),
        helper.make_node("Constant", [], ["two"], value_int=2),
        helper.make_node("f", ["x", "w"], ["u"], domain="own"),
        helper.make_node("f", ["u", "x"], ["v"], domain="own"),
        helper.make_node("Size", ["x"], ["size"]),
        helper.make_node("Greater", ["size", "two"], ["many"]),
        helper.make_node("If", ["many"], ["z"], then_branch=branches[0], else_branch=branches[1]),
    ]
    feed = {"x": np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)}
    own = {"opset_imports": opsets, "functions": [function]}
    return Small(model_of(nodes, feed, outputs=("z",), **own), feed)


def grouped() -> Small:
    """Convolutions in groups and pools of one, two and three dimensions, and normalizations.

    ONNX's reference, with which the others are compared, errs at groups of a ConvTranspose.
    """
    g = Graph(8, opset=17)
    outputs = []
    for axes in (1, 2, 3):
        kernel = (3, 2, 2)[:axes]
        how = {"group": 2, "kernel_shape": kernel, "dilations": [1] * axes}
        x = g.conv(g.input(1, 4, *(6, 5, 4)[:axes]), 4, (2, *kernel), pads=[1] * 2 * axes, **how)
        x = g.BatchNormalization(x, g.positive(4), g.random(4), g.random(4), g.positive(4))
        w = g.random(4, 2, *kernel)
        more = {"strides": [2] * axes, "output_padding": [1] * axes, "pads": [1, 0] * axes}
        x = g.ConvTranspose(x, w, g.random(4), **how, **more)
        x = g.InstanceNormalization(x, g.positive(4), g.random(4))
        pool = {"kernel_shape": [2] * axes, "strides": [2] * axes, "pads": [0] * 2 * axes}
        outputs.append(g.AveragePool(g.MaxPool(x, **pool), **pool))
    return _small(g, *outputs)


def older(opset: int) -> Small:
    """Of any opset before 18, with what changed until then; ONNX's reference knows few of them."""
    g = OldGraph(opset, opset=opset)
    x = g.conv(g.input(1, 3, 6, 7), 4, (3, 3, 3), pads=[1] * 4)
    x = g.BatchNormalization(x, g.positive(4), g.random(4), g.random(4), g.positive(4))
    x = g.Clip(x, g.constant(-1.5), g.constant(2.0))
    x = g.Dropout(x, g.constant(0.25))
    x = g.Pad(x, g.constant([0, 0, 1, 2, 0, 0, 0, 1], np.int64), mode="reflect")
    x = g.Slice(x, *(g.constant(n, np.int64) for n in ([1, 0], [99, -1], [2, 3])))
    a, b = g.Split(x, g.constant([1, 3], np.int64), axis=1, outputs=2)
    rows = g.Softmax(b, axis=2)
    region = () if opset == 10 else (g.constant([]),)
    x = g.Concat(a, rows, axis=1)
    for mode in ("nearest", "linear"):
        # Of halves of pixels, which are ties.
        scales = g.constant([1, 1, 1.5, 2])
        x = (
            g.Upsample(x, scales, mode=mode)
            if opset < 10
            else g.Resize(x, *region, scales, mode=mode)
        )
    means = g.ReduceMean(x, g.constant([3], np.int64), keepdims=1)
    sums = g.ReduceSum(g.Squeeze(means, g.constant([3], np.int64)), g.constant([2], np.int64))
    best, _ = g.TopK(sums, g.constant([2], np.int64), axis=1, outputs=2)
    best = g.Flatten(g.Unsqueeze(best, g.constant([0], np.int64)), axis=2)
    return _small(g, x, best, g.LogSoftmax(x, axis=1))


SMALL: dict[str, Callable[[], Small]] = {
    make.__name__: make
    for make in (detector, classifier, attention, recurrent, arithmetic, old, functions)
}
