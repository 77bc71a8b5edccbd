"""Which type each value is stored in, and where conversions stand."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pplconv.network.formats import with_formats
from pplconv.network.loading import load
from pplconv.network.nodes import graph_of, plain_name
from pplconv.network.plan_settings import Settings
from pplconv.network.preparing import prepare, specialize
from tests.network.graphs import Graph, stages
from tests.network.random_networks import Network

pytestmark = pytest.mark.unemulated("decides about graphs, for CPUs that are named")

# A level that computes in half precision, and none.
HALF, NONE = "fp16", None
SINGLES = np.dtype(np.float32)
HALVES = np.dtype(np.float16)
BOTH = (HALVES, SINGLES)


def specialised(g: Graph, *outputs: str):
    return graph_of(stages(g, *outputs)[1].model)


def decided(g: Graph, *outputs: str, level: str | None = NONE, precision: str = "auto"):
    graph = with_formats(specialised(g, *outputs), Settings(precision=precision), level)
    consistent(graph)
    return graph


def conversions(graph) -> list[tuple[str, str]]:
    """Values that are converted, in order, and the types that they become."""
    return [
        (plain_name(node.inputs[0]), str(graph.dtypes[node.outputs[0]]))
        for node in graph.nodes if node.op == "pplconv.Reformat"
    ]  # fmt: skip


def type_of(graph, op: str) -> list[str]:
    """Types of the results of an operator."""
    return [str(graph.dtypes[node.outputs[0]]) for node in graph.nodes if node.op == op]


def consistent(graph) -> None:
    """Types fit, each value is converted to a type once, and no conversion follows another."""
    made = {name: node for node in graph.nodes for name in node.outputs}
    seen: Counter[tuple[str, str]] = Counter()
    known = {*graph.inputs, *graph.constants}
    for node in graph.nodes:
        assert all(name in known for name in node.inputs if name), "in an order that runs"
        known |= set(node.outputs)
        types = {graph.dtypes[name] for name in (*node.inputs, *node.outputs) if name}
        if node.op == "pplconv.Reformat":
            (source,), (result,) = node.inputs, node.outputs
            assert graph.dtypes[source] != graph.dtypes[result]
            assert source not in made or made[source].op != "pplconv.Reformat"
            assert plain_name(source) == plain_name(result)
            assert source not in graph.constants
            seen[plain_name(source), str(graph.dtypes[result])] += 1
        elif node.op != "Resize":
            assert len(types & set(BOTH)) <= 1, node
    assert all(count == 1 for count in seen.values())
    assert set(graph.outputs) <= known


def chain(dtype=np.float16) -> tuple[Graph, str]:
    g = Graph(1, dtype=dtype)
    y = g.Relu(g.conv(g.input(1, 3, 8, 8), 4, (3, 3, 3)))
    y = g.Tanh(g.conv(y, 4, (4, 1, 1)))
    return g, g.conv(y, 5, (4, 3, 3))


def test_where_nothing_computes_in_half_precision_only_borders_convert():
    g, y = chain()
    graph = decided(g, y)
    (x,) = g.inputs
    assert conversions(graph) == [(x, "float32"), (y, "float16")]
    assert set(type_of(graph, "pplconv.Conv") + type_of(graph, "Tanh")) == {"float32"}
    assert str(graph.dtypes[graph.inputs[0]]) == str(graph.dtypes[graph.outputs[0]]) == "float16"


def test_where_the_cpu_computes_in_half_precision_nothing_is_converted():
    g, y = chain()
    graph = decided(g, y, level=HALF)
    assert conversions(graph) == []
    assert graph.dtypes[y] == HALVES


def test_fp32_keeps_half_precision_out():
    g, y = chain()
    assert conversions(decided(g, y, level=HALF, precision="fp32")) == [
        (next(iter(g.inputs)), "float32"), (y, "float16")
    ]  # fmt: skip


@pytest.mark.parametrize(("level", "precision"), [(HALF, "auto"), (HALF, "fp32"), (NONE, "fp16")])
def test_a_graph_of_float32_stays_itself(level, precision):
    g, y = chain(np.float32)
    graph = specialised(g, y)
    assert with_formats(graph, Settings(precision=precision), level) is graph


def test_float32_in_half_precision_is_converted_at_its_borders():
    g, y = chain(np.float32)
    graph = decided(g, y, level=HALF, precision="fp16")
    assert conversions(graph) == [(next(iter(g.inputs)), "float16"), (y, "float32")]
    assert set(type_of(graph, "pplconv.Conv") + type_of(graph, "Tanh")) == {"float16"}


def test_before_a_convolution_float32_stays(g):
    """Nothing is converted for operators that do not compute in half precision."""
    x = g.input(1, 4, 6, 6)
    y = g.Softmax(g.conv(g.Tanh(x), 4, (4, 1, 1)), axis=1)
    graph = decided(g, y, level=HALF, precision="fp16")
    assert type_of(graph, "Tanh") == ["float32"]
    assert type_of(graph, "Softmax") == ["float16"]
    assert len(conversions(graph)) == 2


def test_sums_are_float32_between_two_convolutions():
    g = Graph(1, dtype=np.float16)
    y = g.conv(g.input(1, 4, 6, 6), 4, (4, 1, 1))
    mean = g.GlobalAveragePool(y)
    gate = g.Sigmoid(g.conv(mean, 4, (4, 1, 1)))
    out = g.Mul(y, gate)
    graph = decided(g, out, level=HALF)
    assert conversions(graph) == [(y, "float32"), (mean, "float16")]


def test_a_value_with_several_readers_is_converted_once():
    g = Graph(1, dtype=np.float16)
    x = g.input(1, 4, 6, 6)
    y = g.Relu(x)
    # Operators that run in Python take the types that ONNX says.
    first, second = g.Trilu(y), g.Hardmax(y)
    z = g.Add(g.Tanh(x), g.Sigmoid(x))
    graph = decided(g, first, second, z)
    assert conversions(graph) == [(x, "float32"), (y, "float16"), (z, "float16")]


def test_an_output_that_is_read_again_is_converted_once():
    g, y = chain()
    z = g.conv(y, 3, (5, 1, 1))
    graph = decided(g, y, z)
    assert [name for name, _ in conversions(graph)] == [next(iter(g.inputs)), y, z]
    assert set(type_of(graph, "pplconv.Conv")) == {"float32"}


def test_constants_are_no_steps():
    g = Graph(1, dtype=np.float16)
    x = g.input(2, 5)
    y = g.Add(g.Mul(x, g.random(5)), g.random(2, 1))
    graph = decided(g, y)
    assert len(conversions(graph)) == 2
    for node in graph.nodes:
        for name in node.inputs:
            if name in graph.constants:
                assert graph.constants[name].dtype == graph.dtypes[name] == SINGLES


def test_weights_are_the_same_object_in_every_program():
    """Programs share packed weights by the object that stands for a constant."""
    g, y = chain()
    model = prepare(load(g.model(y))).model
    shapes = {name: x.shape for name, x in g.feed.items()}
    origins = []
    for _ in range(2):
        graph = with_formats(graph_of(specialize(model, shapes).model), Settings(), NONE)
        convolutions = [node for node in graph.nodes if node.op.endswith("Conv")]
        origins.append([graph.constants.origin(node.inputs[1]) for node in convolutions])
    assert len(origins[0]) == 3
    assert all(a is b for a, b in zip(*origins, strict=True))


@pytest.mark.parametrize("number", [1e-12, 1e6])
def test_a_number_that_half_precision_lacks_keeps_a_node_in_float32(number, g):
    y = g.conv(g.input(1, 4, 6, 6), 4, (4, 1, 1))
    tanh = g.Tanh(y)
    lost, kept = g.Mul(tanh, g.constant(number)), g.Mul(tanh, g.constant(0.3))
    graph = decided(g, lost, kept, level=HALF, precision="fp16")
    assert type_of(graph, "Tanh") == ["float16"]
    assert type_of(graph, "Mul") == ["float32", "float16"]


def test_so_does_one_that_follows_a_convolution(g):
    y = g.Add(g.Sigmoid(g.conv(g.input(1, 4, 6, 6), 4, (4, 1, 1))), g.constant(1e6))
    # Padding keeps the offset out of the bias behind it.
    graph = decided(g, g.conv(y, 4, (4, 3, 3), pads=[1] * 4), level=HALF, precision="fp16")
    assert type_of(graph, "pplconv.Conv") == ["float32", "float16"]


def test_scales_of_a_resize_stay_as_they_are(g):
    y = g.conv(g.input(1, 4, 6, 6), 4, (4, 1, 1))
    scales = np.array([1, 1, 1 / 3, 7 / 3], np.float32)
    z = g.Resize(y, "", g.constant(scales), mode="linear")
    graph = decided(g, z, level=HALF, precision="fp16")
    (node,) = (node for node in graph.nodes if node.op == "Resize")
    assert graph.dtypes[node.outputs[0]] == HALVES
    np.testing.assert_array_equal(graph.constants[node.inputs[2]], scales)


def test_a_cast_of_the_model_is_a_conversion_or_nothing():
    g = Graph(1, dtype=np.float16)
    x = g.input(1, 4)
    wide = g.Cast(g.Tanh(x), to=1)
    y = g.Cast(g.Exp(wide), to=10)
    graph = with_formats(specialised(g, y), Settings(), NONE)
    types = [
        (str(graph.dtypes[node.inputs[0]]), str(graph.dtypes[node.outputs[0]]))
        for node in graph.nodes if node.op == "pplconv.Reformat"
    ]  # fmt: skip
    # What comes in, the first Cast, for which Tanh is float32 already, and the second one.
    assert types == [
        ("float16", "float32"), ("float32", "float32"), ("float32", "float16")
    ]  # fmt: skip


@pytest.mark.sampled(2)
@pytest.mark.parametrize("level", [NONE, HALF])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@settings(max_examples=25)
@given(data=st.data())
def test_random_networks(dtype, level, data):
    network = Network(data.draw, free=False, dtype=dtype)
    graph = specialised(network.g, *network.outputs)
    again = with_formats(graph, Settings(precision="fp16"), level)
    consistent(again)
    assert again.inputs == graph.inputs and again.outputs == graph.outputs
    for name in (*graph.inputs, *graph.outputs):
        assert again.dtypes[name] == graph.dtypes[name]
    others = [node.op for node in again.nodes if node.op != "pplconv.Reformat"]
    assert others == [node.op for node in graph.nodes]
