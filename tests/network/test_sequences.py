"""Networks of sequences: one spatial axis, computed as images of one row by the loops of images."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from pplconv.network.operators.table import EXPRESSIONS
from pplconv.network.session import InferenceSession
from tests.network.graphs import Graph, operators, stages
from tests.network.quantizing import FEW, Quantized
from tests.network.running import (
    ALLOWED,
    agree,
    by_onnxruntime,
    compare_models,
    needs_onnxruntime,
    on_host,
    referred,
    step_kinds,
)
from tests.network.test_truths import COMPARISONS, LOGIC

pytestmark = needs_onnxruntime


def compare(graph: Graph, *outputs: str) -> InferenceSession:
    """Compare with onnxruntime, in double precision with the reference; no step is in Python."""
    model = graph.model(*outputs)
    if graph.dtype == np.float64:  # onnxruntime has no such convolutions
        session = InferenceSession(model, threads=1)
        agree(session.run(None, graph.feed), referred(model, graph.feed))
    else:
        session = compare_models(model, graph.feed)
    assert not on_host(session)
    return session


CONVOLUTIONS = {
    "plain": {}, "stride": {"strides": [3], "pads": [2, 1]}, "dilation": {"dilations": [3]},
    "groups": {"group": 3}, "depthwise": {"group": 6}, "upper": {"auto_pad": "SAME_UPPER"},
    "lower": {"auto_pad": "SAME_LOWER", "strides": [2]}, "valid": {"auto_pad": "VALID"},
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("free", [False, True], ids=["fixed", "free"])
@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_convolutions(case, free, dtype):
    g = Graph(dtype=dtype)
    attributes = CONVOLUTIONS[case]
    x = g.input(2, 6, 29, free=free)
    y = g.conv(x, 12, (6 // attributes.get("group", 1), 4), **attributes)
    compare(g, g.Relu(g.batch_norm(y, 12)))


TRANSPOSED = {
    "plain": {}, "stride": {"strides": [3], "pads": [2, 1]}, "dilation": {"dilations": [2]},
    "groups": {"group": 3}, "more": {"strides": [3], "output_padding": [2]},
    "shape": {"strides": [2], "output_shape": [40]},
}  # fmt: skip


@pytest.mark.parametrize("free", [False, True], ids=["fixed", "free"])
@pytest.mark.parametrize("case", TRANSPOSED)
def test_transposed_convolutions(case, free):
    g = Graph()
    attributes = TRANSPOSED[case]
    x = g.input(2, 6, 19, free=free)
    w = g.random(6, 9 // attributes.get("group", 1), 4)
    compare(g, g.LeakyRelu(g.ConvTranspose(x, w, g.random(9), **attributes), alpha=0.1))


POOLS = {
    "MaxPool": [
        {}, {"strides": [2], "pads": [1, 1]}, {"dilations": [2]}, {"ceil_mode": 1, "strides": [2]},
    ],
    "AveragePool": [
        {}, {"strides": [2], "pads": [1, 1], "count_include_pad": 1},
        {"pads": [1, 2]}, {"ceil_mode": 1, "strides": [2]},
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("operator", "attributes"), [(name, case) for name, cases in POOLS.items() for case in cases]
)
def test_pools(operator, attributes):
    g = Graph()
    x = g.input(2, 5, 22)
    compare(g, getattr(g, operator)(x, kernel_shape=[3], **attributes))


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("numbers", ["scales", "sizes", "axes"])
def test_resized(numbers, mode):
    g = Graph()
    y = g.conv(g.input(2, 4, 17), 6, (4, 1))
    more: dict = {}
    if numbers == "sizes":
        operands = ["", "", g.constant([2, 6, 40], np.int64)]
    elif numbers == "scales":
        operands = ["", g.constant([1, 1, 1.7], np.float32)]
    else:
        operands, more = ["", g.constant([2.5], np.float32)], {"axes": [-1]}
    session = compare(g, g.conv(g.Resize(y, *operands, mode=mode, **more), 3, (6, 3)))
    assert "Resize" in step_kinds(session, g.feed)


def test_cubic_resize():
    """As onnxruntime computes it for images of one row: it has none of sequences."""
    g, images = Graph(), Graph()
    x = g.input(2, 6, 17)
    model = g.model(g.Resize(x, "", g.constant([1, 1, 1.7]), mode="cubic"))
    z = images.input(2, 6, 1, 17)
    z = images.Resize(z, "", images.constant([1, 1, 1, 1.7]), mode="cubic")
    (want,) = by_onnxruntime(images.model(z), images.feed)
    session = InferenceSession(model, threads=1)
    agree(session.run(None, g.feed), [want[:, :, 0]])
    assert not on_host(session)


@pytest.mark.parametrize("operator", ["GlobalAveragePool", "GlobalMaxPool"])
def test_pools_of_whole_sequences(operator):
    g = Graph()
    y = g.conv(g.input(2, 4, 17, free=True), 6, (4, 3))
    compare(g, g.Flatten(getattr(g, operator)(y)))


def test_indices_of_maxima():
    """A second output keeps the node as it is; it counts within the sequence."""
    g = Graph()
    y, at = g.MaxPool(g.input(1, 3, 12), kernel_shape=[3], outputs=2)
    model = g.model(y)
    model.graph.output.add(name=at)
    model.graph.output[1].type.tensor_type.elem_type = 7
    compare_models(model, g.feed)


@pytest.mark.parametrize(
    "shape", [(), (1,), (14,), (6, 1), (6, 14), (2, 1, 1), (1, 6, 1), (2, 6, 14)]
)
@pytest.mark.parametrize("constant", [True, False], ids=["constant", "computed"])
@pytest.mark.parametrize("operator", ["Add", "Mul", "PRelu"])
def test_operands_that_broadcast(operator, constant, shape):
    """Between two convolutions, which are to meet without a copy in between."""
    g = Graph()
    x = g.conv(g.input(2, 6, 16), 6, (6, 3))
    other = g.random(*shape) if constant else g.input(*shape)
    y = getattr(g, operator)(x, other)
    compare(g, g.conv(y, 4, (6, 5), pads=[2, 2]))


def test_a_residual_is_added_by_its_convolution():
    g = Graph()
    x = g.conv(g.input(1, 8, 40, free=True), 8, (8, 3), pads=[1, 1])
    y = g.Relu(g.Add(g.conv(g.Relu(x), 8, (8, 3), pads=[1, 1]), x))
    out = g.conv(y, 4, (8, 1))
    compare(g, out)
    _, special = stages(g, out)
    assert operators(special) == {"Unsqueeze": 1, "pplconv::Conv": 3, "Relu": 1, "Squeeze": 1}


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2])
def test_joined(axis):
    g = Graph()
    x = g.input(2, 6, 16)
    y = g.Concat(g.conv(x, 6, (6, 1)), x, g.random(2, 6, 16), axis=axis)
    channels = 18 if axis % 3 == 1 else 6
    compare(g, g.conv(y, 5, (channels, 3)))


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge"])
@pytest.mark.parametrize("axes", [None, [2], [-1, 1]])
def test_padded(axes, mode):
    g = Graph()
    y = g.Tanh(g.conv(g.input(2, 6, 16), 6, (6, 1)))
    amounts = {None: [0, 0, 3, 0, 0, 2], (2,): [2, 3], (-1, 1): [2, 1, 0, 1]}
    pads = g.constant(amounts[axes if axes is None else tuple(axes)], np.int64)
    more = () if axes is None else ("", g.constant(axes, np.int64))
    y = g.Pad(y, pads, *more, mode=mode)
    channels = 8 if axes == [-1, 1] else 6
    compare(g, g.conv(y, 5, (channels, 3)))


def test_transposes_around_are_views():
    """Rows of features, as transformers have them, are pixels of an image of one row."""
    g = Graph()
    x = g.Transpose(g.input(2, 20, 8), perm=[0, 2, 1])
    y = g.Gelu(g.conv(x, 16, (8, 3), pads=[1, 1]))
    y = g.LayerNormalization(g.Transpose(y, perm=[0, 2, 1]), g.random(16), axis=-1)
    session = compare(g, g.MatMul(y, g.random(16, 5)))
    assert "Copy" not in step_kinds(session, g.feed)


def test_weights_are_packed_once_for_all_lengths():
    g = Graph()
    x = g.input(1, 8, 64, free=True)
    y = g.conv(x, 16, (8, 3))
    model = g.model(y)
    session = InferenceSession(model, threads=1)
    for length in (64, 65, 80):
        feed = {x: g.rng.standard_normal((1, 8, length)).astype(np.float32)}
        (got,) = session.run(None, feed)
        (want,) = by_onnxruntime(model, feed)
        np.testing.assert_allclose(got, want, rtol=0, atol=ALLOWED[got.dtype] * np.abs(want).max())


def applied(g: Graph, operator: str, x: str) -> str:
    """An element-wise operator of a value, and of numbers for its channels if it takes two."""
    if operator == "Where":
        return str(g.Where(g.Less(x, g.positive(4, 1)), x, g.Neg(x)))
    binary = {
        *COMPARISONS, *LOGIC, "Add", "Div", "Max", "Mean", "Min", "Mod", "Mul", "PRelu", "Pow",
        "Sub", "Sum",
    }  # fmt: skip
    given = [x, g.positive(4, 1)] if operator in binary else [x]
    if operator == "Not" or (operator in LOGIC and operator not in COMPARISONS):
        given = [g.Less(value, g.positive(4, 1)) for value in given]
    attributes = {"Cast": {"to": onnx.TensorProto.BOOL}, "Mod": {"fmod": 1}}.get(operator, {})
    y = getattr(g, operator)(*given, **attributes)
    truths = {*COMPARISONS, *LOGIC, "Cast", "IsInf", "IsNaN", "Not"}
    return str(g.Cast(y, to=onnx.TensorProto.FLOAT) if operator in truths else y)


@pytest.mark.parametrize("operator", sorted(EXPRESSIONS))
def test_every_element_wise_operator_moves_on(operator):
    """Its convolutions meet, with no change of shape between them."""
    g = Graph()
    y = applied(g, operator, g.Abs(g.conv(g.input(1, 4, 9), 4, (4, 1))))
    compare(g, g.conv(g.Sqrt(g.Abs(y)), 3, (4, 3)))
    _, special = stages(g, y)
    assert operators(special)["Squeeze"] <= 1


def small_quantized_network(rank: int) -> tuple[Quantized, str]:
    """Convolutions of integers, a residual and a pool, of sequences or of images of one row."""
    g = Quantized(3)

    def spatial(number: int, row: int = 1) -> list[int]:
        return [number] if rank == 3 else [row, number]

    def conv(x: str, channels: int, inner: int) -> str:
        pads = [1, 1] if rank == 3 else [0, 1, 0, 1]
        return g.qconv(x, channels, (inner, *spatial(3)), pads=pads)

    x = g.pair(g.input(2, 8, *spatial(33)), 0.03, 10)
    a = g.pair(g.Relu(conv(x, 16, 8)), 0.05, 0)
    b = g.pair(g.Add(a, g.pair(conv(a, 16, 16), 0.08, 120)), 0.09, 100)
    b = g.MaxPool(b, kernel_shape=spatial(3), strides=spatial(2))
    return g, g.pair(conv(b, 8, 16), 0.1, 128)


def test_quantized_networks_compute_as_those_of_images_do():
    """The same integers, and the same steps."""
    (sequences, y), (images, z) = small_quantized_network(3), small_quantized_network(4)
    sessions, results = [], []
    for g, out in ((sequences, y), (images, z)):
        model = g.model(out)
        session = InferenceSession(model, threads=1)
        (got,) = session.run(None, g.feed)
        (want,) = by_onnxruntime(model, g.feed)
        assert np.mean(got != want) <= FEW and np.abs(got - want).max() < 0.11
        sessions.append([kind for kind in step_kinds(session, g.feed) if kind != "Copy"])
        results.append(got)
    np.testing.assert_array_equal(results[0], results[1][:, :, 0])
    assert sessions[0] == sessions[1] and sessions[0].count("QuantizedConv") == 3


@pytest.mark.parametrize("where", ["constant", "computed"])
def test_weights_that_are_computed(where):
    """By Python, as those of images are; the results are right."""
    g = Graph()
    w = g.random(5, 6, 3) if where == "constant" else g.Tanh(g.input(5, 6, 3))
    model = g.model(g.Conv(g.input(2, 6, 16), w))
    compare_models(model, g.feed)


def test_half_precision():
    g = Graph(dtype="float16")
    x = g.input(2, 8, 40)
    y = g.conv(g.Relu(g.conv(x, 16, (8, 3), pads=[1, 1])), 4, (16, 5))
    model = g.model(y)
    (got,) = InferenceSession(model, threads=1).run(None, g.feed)
    assert got.dtype == np.float16
    agree([got], referred(model, g.feed), allowed=4e-3)


@pytest.mark.parametrize("zero", [False, True])
def test_convolutions_of_integers(zero):
    """As dynamic quantization writes them."""
    g = Graph()
    x, scale, at = g.DynamicQuantizeLinear(g.input(2, 6, 21, free=True), outputs=3)
    w = g.constant(g.rng.integers(-128, 128, (9, 6, 4)), np.int8)
    points = [at, g.constant(3, np.int8)] if zero else [at]
    sums = g.ConvInteger(x, w, *points, pads=[2, 1], strides=[2])
    y = g.Mul(g.Cast(sums, to=1), g.Mul(scale, g.constant(0.01)))
    compare_models(g.model(g.Relu(g.Add(y, g.random(9, 1)))), g.feed)
