"""Functions of one byte: tables, alone and in stores of products, with the bits of the chain."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest

from pplconv.network import bytewise, compiling
from pplconv.network.fusion import chains
from pplconv.network.nodes import graph_of
from pplconv.network.session import InferenceSession
from tests.levels import allowed_isas
from tests.network import running
from tests.network.quantizing import S8, U8, Quantized, exact, folded

FIRST = {U8: (0.05, 128, U8), S8: (0.05, 7, S8)}
SECOND = {U8: (0.021, 30, U8), S8: (0.021, -50, S8)}
FUNCTIONS = {
    "HardSwish": lambda g, x: g.HardSwish(x),
    "HardSigmoid": lambda g, x: g.HardSigmoid(x),
    "Sigmoid": lambda g, x: g.Sigmoid(x),
    "LeakyRelu": lambda g, x: g.LeakyRelu(x, alpha=0.2),
    "Clip": lambda g, x: g.Clip(x, g.constant(-0.33), g.constant(0.71)),
    "SiLU": lambda g, x: g.Mul(x, g.Sigmoid(x)),
    "affine": lambda g, x: g.Add(g.Mul(g.constant(-1.7), x), g.constant(0.4)),
    "Tanh": lambda g, x: g.Mul(g.Tanh(x), g.constant(2.0)),
    "nothing": lambda g, x: x,
}
every_function = pytest.mark.parametrize("function", FUNCTIONS)
every_type = pytest.mark.parametrize("dtype", [U8, S8], ids=str)


@pytest.fixture
def g() -> Quantized:
    return Quantized()


def image(g: Quantized, dtype, channels: int = 19) -> str:
    """What a convolution stores, dequantized."""
    return g.pair(g.qconv(g.image(), channels, (8, 3, 3)), *FIRST[dtype])


def run(g: Quantized, *outputs: str):
    """Steps of a model, and its results: those of tables, and those of chains without them."""
    model = g.model(*outputs)
    session = InferenceSession(model, threads=1)
    got = session.run(None, g.feed)
    steps = list(session.plan_for(g.feed).by_operators().steps)
    with (
        mock.patch.object(compiling, "with_tables", lambda items, *_: items),
        mock.patch.object(compiling, "table_of", lambda *_: None),
    ):
        plain = InferenceSession(model, threads=1)
        expected = plain.run(None, g.feed)
        assert not any("a table" in step.detail for step in plain.plan_for(g.feed).steps)
    running.same(got, expected)
    assert all(len(np.unique(y)) > 5 or y.shape[1] == 3 for y in expected)
    return steps


def tables(steps) -> list[str]:
    return [step.kind for step in steps if "a table" in step.detail]


@pytest.mark.sampled(26)
@every_function
@every_type
@pytest.mark.parametrize("channels", [3, 16, 37])
def test_behind_a_convolution(function, dtype, channels, g):
    y = g.pair(FUNCTIONS[function](g, image(g, dtype, channels)), *SECOND[dtype])
    steps = run(g, y)
    assert tables(steps) == ["QuantizedConv"]
    (step,) = (step for step in steps if "a table" in step.detail)
    assert "Dequantize" in step.detail and "Quantize by a table" in step.detail


@every_function
@pytest.mark.parametrize("first", [U8, S8], ids=str)
@pytest.mark.parametrize("second", [U8, S8], ids=str)
def test_alone(function, first, second, g):
    """Behind what moves bytes, and where types differ."""
    x = g.MaxPool(image(g, first), kernel_shape=[2, 2])
    y = g.pair(FUNCTIONS[function](g, x), *SECOND[second])
    (kind,) = tables(run(g, y))
    assert kind.startswith("Dequantize") and kind.endswith("Quantize")


@every_type
def test_pairs_within_a_function(dtype, g):
    """As onnxruntime quantizes SiLU and Mish: a pair behind each operator."""
    x = image(g, dtype)
    y = g.pair(g.Mul(x, g.pair(g.Sigmoid(x), 0.004, 0, U8)), *SECOND[dtype])
    z = g.pair(g.Softplus(g.pair(g.qconv(y, 24, (19, 1, 1)), *FIRST[dtype])), 0.03, 3, U8)
    z = g.pair(g.Tanh(z), 0.008, 128, U8)
    found = tables(run(g, g.pair(g.Mul(y, y), *SECOND[dtype]), g.pair(z, *FIRST[U8])))
    assert found.count("QuantizedConv") == (2 if dtype == U8 else 1)
    assert len(found) == 3


def test_a_part_that_others_read_is_a_table_of_its_own(g):
    """The sigmoid is read outside, too, and so is the image of another function."""
    x = image(g, U8)
    part = g.pair(g.Sigmoid(x), 0.004, 0, U8)
    y = g.pair(g.Mul(x, part), *SECOND[U8])
    other = g.qconv(part, 4, (19, 1, 1))
    assert tables(run(g, y, other)) == ["Dequantize+Sigmoid+Quantize"]


def test_parts_of_two_images_are_tables_of_their_own(g):
    x = image(g, U8)
    y = g.pair(g.MaxPool(g.pair(g.input(1, 19, 14, 10)), kernel_shape=[2, 2], strides=[2, 2]))
    both = g.Mul(g.pair(g.Sigmoid(x), 0.004, 0, U8), g.pair(g.Tanh(y), 0.008, 128, U8))
    found = tables(run(g, g.pair(both, *SECOND[U8])))
    assert sorted(found) == ["Dequantize+Tanh+Quantize", "QuantizedConv"]


def test_readers_of_bytes_convert_them(g):
    """No array of numbers, though several chains read the dequantized image."""
    x = image(g, U8)
    first = g.pair(g.Mul(x, g.pair(g.input(1, 19, 7, 5))), *SECOND[U8])
    second = g.pair(g.Add(x, g.pair(g.input(1, 19, 7, 5))), *SECOND[U8])
    kinds = [step.kind for step in run(g, first, second)]
    assert "Dequantize+Dequantize+Mul+Quantize" in kinds or "Dequantize+Mul+Quantize" in kinds
    assert kinds.count("Dequantize") == 2


def test_types_that_differ_behind_a_convolution(g):
    y = g.pair(g.HardSwish(image(g, U8)), *SECOND[S8])
    assert tables(run(g, y)) == ["Dequantize+HardSwish+Quantize"]


@every_type
def test_a_product_of_matrices(dtype, g):
    x = g.pair(g.input(9, 24))
    y = g.pair(g.Gemm(x, g.kernel(24, 37, axis=1), g.random(37)), *FIRST[dtype])
    assert tables(run(g, g.pair(g.Sigmoid(y), 0.004, 0, dtype))) == ["QuantizedLinear"]


def test_others_read_what_the_product_stores(g):
    x = image(g, U8)
    other = g.qconv(x, 4, (19, 1, 1))
    steps = run(g, g.pair(g.HardSwish(x), *SECOND[U8]), other)
    assert tables(steps) == ["Dequantize+HardSwish+Quantize"]


def test_an_output_of_the_network_is_what_the_product_stores(g):
    stored = g.q(g.qconv(g.image(), 19, (8, 3, 3)), *FIRST[U8])
    y = g.pair(g.HardSwish(g.dq(stored, *FIRST[U8])), *SECOND[U8])
    assert "QuantizedConv" not in tables(run(g, stored, y))


@pytest.mark.parametrize("how", ["channels", "two", "float", "broadcast"])
def test_what_is_no_function_of_a_byte(how, g):
    x = image(g, U8)
    if how == "channels":
        y = g.Mul(g.HardSwish(x), g.constant(g.rng.uniform(0.5, 1, (19, 1, 1))))
    elif how == "two":
        y = g.Mul(g.HardSwish(x), g.Sigmoid(image(g, U8)))
    elif how == "broadcast":
        y = g.Add(g.HardSwish(x), g.constant(g.rng.uniform(0.5, 1, (3, 19, 1, 1))))
    else:
        y = g.HardSwish(x)
    steps = run(g, y if how == "float" else g.pair(y, *SECOND[U8]))
    assert not tables(steps)


def test_scales_of_channels(g):
    x = image(g, U8)
    scale, zero = g.constant(g.rng.uniform(0.01, 0.03, 19)), g.constant(np.full(19, 9), U8)
    integers = g.QuantizeLinear(g.HardSwish(x), scale, zero, axis=1)
    steps = run(g, g.DequantizeLinear(integers, scale, zero, axis=1))
    assert not tables(steps)


def test_a_table_where_a_join_wants_it(g):
    """A product writes straight to its part of what is joined."""
    x = g.pair(g.HardSwish(image(g, U8, 16)), *SECOND[U8])
    y = g.pair(g.Sigmoid(image(g, U8, 32)), *SECOND[U8])
    steps = run(g, g.Concat(x, y, axis=1))
    assert tables(steps) == ["QuantizedConv"] * 2


@pytest.mark.parametrize("isa", allowed_isas())
def test_every_byte(isa, g):
    """A table holds the results of the loops of each level for all bytes."""
    name = g.input(1, 256, dtype=U8)
    y = g.q(g.Mul(g.dq(name, *FIRST[U8]), g.constant(-0.6)), *SECOND[U8])
    g.feed[name] = np.arange(256, dtype=np.uint8).reshape(1, 256)
    result = folded(g, y)
    graph = graph_of(result.model)
    ((chain,), _) = chains(graph)
    found = bytewise.table_of(chain, graph, isa)
    assert found is not None and found[0] == chain.nodes[0].inputs[0]
    table = found[1]
    np.testing.assert_array_equal(table, exact(result, g.feed)[0].reshape(-1))


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_large_images(threads, g):
    x = g.image(2, 24, 90, 70)
    y = g.pair(g.HardSwish(x), *SECOND[U8])
    running.run(g.model(y), g.feed, teams=(1, threads))
