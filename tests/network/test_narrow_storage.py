"""Values between steps in bfloat16: any choice of them is right, and the choice is the cheapest."""

from __future__ import annotations

from unittest import mock

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from pplconv.memory.array_like import bfloat16_dtype
from pplconv.network import compiling, narrow_storage
from pplconv.network.fusion import chains
from pplconv.network.narrow_storage import TypePrices, brain_type, in_narrow_type, seen_as
from pplconv.network.nodes import graph_of
from tests.emulation import is_emulated
from tests.network.golden_narrow_values import GOLDEN, lines
from tests.network.graphs import Graph, stages
from tests.network.running import agree, on_host, referred, run, session_of, step_kinds

BRAIN = bfloat16_dtype()
SINGLE = np.dtype(np.float32)
# Half of the distance of two neighbours, relative to the larger one.
ULP = 2.0**-9
EXAMPLES = 2 if is_emulated() else max(settings.default.max_examples // 4, 10)


@pytest.fixture
def everywhere(monkeypatch):
    """Let every CPU store bfloat16, and say which values are stored so; gives what may be."""
    monkeypatch.setattr(compiling, "brain_type", lambda precision: BRAIN)
    monkeypatch.setattr(narrow_storage, "FEW", 0)
    open_values: list[str] = []

    def choose(picked):
        def chosen(graph, narrow, items, prices, *, demanded):
            found = in_narrow_type(
                graph, narrow, items, lambda item: free(prices(item)), demanded=True
            )
            open_values[:] = sorted(found)
            return frozenset(name for i, name in enumerate(open_values) if picked(i))

        monkeypatch.setattr(compiling, "in_narrow_type", chosen)
        return open_values

    return choose


def free(prices):
    """Either type at no price, where there is a choice."""
    return prices and type(prices)(*[0.0] * len(prices))


def rounding(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same model, one operator at a time in bfloat16: values and weights are rounded."""
    again = onnx.ModelProto()
    again.CopyFrom(model)
    graph, nodes = again.graph, []
    floats = {w.name for w in graph.initializer if w.data_type == TensorProto.FLOAT}
    for weights in graph.initializer:
        if weights.name in floats:
            array = numpy_helper.to_array(weights).astype(BRAIN).astype(np.float32)
            weights.CopyFrom(numpy_helper.from_array(array, weights.name))
    outputs = {value.name for value in graph.output}
    for node in graph.node:
        for i, name in enumerate(node.output):
            if name in outputs or node.op_type in ("Shape", "ArgMax"):
                continue
            node.output[i] = f"{name}_exact"
            nodes += [
                helper.make_node(
                    "Cast", [f"{name}_exact"], [f"{name}_low"], to=TensorProto.BFLOAT16
                ),
                helper.make_node("Cast", [f"{name}_low"], [name], to=TensorProto.FLOAT),
            ]
    order = [*graph.node]
    made = {out: node for node in nodes for out in node.output}
    del graph.node[:]
    for node in order:
        graph.node.append(node)
        for name in node.output:
            plain = name.removesuffix("_exact")
            if name != plain:
                graph.node.extend([made[f"{plain}_low"], made[plain]])
    return again


def length(array: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(array, dtype=np.float64))))


def accurate(got, model, feed) -> None:
    """Compare with exact results: errors are those of one operator at a time in bfloat16."""
    exact, rounded = referred(model, feed), referred(rounding(model), feed)
    for x, y, z in zip(got, exact, rounded, strict=True):
        assert x.shape == y.shape and x.dtype == y.dtype
        allowed = 4 * length(z - y) + 4 * ULP * length(y)
        assert length(x - y) <= allowed, (length(x - y), length(z - y), length(y))


class Images:
    """A network of images under construction, of operators that do not amplify errors."""

    def __init__(self, draw) -> None:
        self.draw = draw
        self.g = Graph(self.whole(0, 1 << 16))
        self.channels, self.size = self.pick((3, 8, 16, 24, 33)), self.pick((5, 8, 13, 20))
        self.batch = self.whole(1, 2)
        x = self.g.input(self.batch, self.channels, self.size, self.size)
        self.values = [self.conv(x)]
        for _ in range(self.whole(2, 12)):
            step = self.pick(STEPS)
            self.values.append(step(self, self.pick(self.values[-3:])))
        last = self.values[-1]
        self.output = self.pick((lambda: last, lambda: self.head(last), lambda: self.conv(last)))()

    def whole(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def pick(self, among):
        return self.draw(st.sampled_from(among))

    def weights(self, *shape: int) -> str:
        scale = 1 / np.sqrt(np.prod(shape[1:]))
        return self.g.constant(self.g.rng.standard_normal(shape) * scale)

    def activated(self, x: str) -> str:
        g = self.g
        kind = self.pick(("", "Relu", "Sigmoid", "HardSwish", "LeakyRelu", "Clip", "silu", "Tanh"))
        if kind == "silu":
            return str(g.Mul(x, g.Sigmoid(x)))
        if kind == "Clip":
            return str(g.Clip(x, g.constant(-1.0), g.constant(2.0)))
        return str(getattr(g, kind)(x)) if kind else x

    def conv(self, x: str) -> str:
        c, g = self.channels, self.g
        side = self.pick((1, 1, 3, 3, 5))
        groups = self.pick((1, 1, 1, c))
        apart = self.pick((1, 1, 2))
        padding = [side // 2 * apart] * 4
        w, bias = self.weights(c, c // groups, side, side), self.g.random(c)
        y = g.Conv(x, w, bias, pads=padding, group=groups, dilations=[apart] * 2)
        return self.activated(str(y))

    def transposed(self, x: str) -> str:
        """A ConvTranspose of all ways: phases, one product and copies; back to the size."""
        c, g, size = self.channels, self.g, self.size
        stride = self.pick((1, 2, 3, 9))
        side = self.pick((stride, stride + 1, 3))
        bias = (g.random(c),) if self.pick((True, False)) else ()
        y = str(g.ConvTranspose(x, self.weights(c, c, side, side), *bias, strides=[stride] * 2))
        begin, end = (g.constant([n, n], np.int64) for n in (0, size))
        y = self.activated(str(g.Slice(y, begin, end, g.constant([2, 3], np.int64))))
        return str(g.Add(y, x)) if self.pick((True, False)) else y

    def residual(self, x: str) -> str:
        return self.activated(str(self.g.Add(self.conv(x), self.pick(self.values))))

    def affine(self, x: str) -> str:
        g = self.g
        y = g.Mul(self.conv(x), g.positive(1, self.channels, 1, 1))
        return str(g.Add(y, self.pick(self.values)))

    def gate(self, x: str) -> str:
        g, c = self.g, self.channels
        y = g.Conv(g.GlobalAveragePool(x), self.weights(c, c, 1, 1), g.random(c))
        return str(g.Mul(x, g.Sigmoid(y)))

    def pool(self, x: str) -> str:
        op = self.pick(("MaxPool", "AveragePool"))
        return str(getattr(self.g, op)(x, kernel_shape=[3, 3], pads=[1] * 4))

    def halves(self, x: str) -> str:
        g, c = self.g, self.channels
        first = c // 2 or 1
        a, b = g.Split(x, g.constant([first, c - first], np.int64), outputs=2, axis=1)
        return str(g.Concat(self.activated(b), a, axis=1))

    def joined(self, x: str) -> str:
        g, c = self.g, self.channels
        y = g.Concat(self.conv(x), self.conv(x), axis=1)
        return self.activated(str(g.Conv(y, self.weights(c, 2 * c, 1, 1), g.random(c))))

    def zoom(self, x: str) -> str:
        g = self.g
        mode = self.pick(("nearest", "linear"))
        up = g.Resize(x, "", g.constant([1, 1, 2, 2]), mode=mode)
        return str(g.AveragePool(up, kernel_shape=[2, 2], strides=[2, 2]))

    def shifted(self, x: str) -> str:
        g = self.g
        y = g.Pad(x, g.constant([0, 0, 1, 0, 0, 0, 0, 1], np.int64))
        return str(g.Slice(y, *(g.constant(n, np.int64) for n in ([0, 1], [-1, 1 << 30], [2, 3]))))

    def rows(self, x: str) -> str:
        g, c, n = self.g, self.channels, self.size
        y = g.Transpose(g.Reshape(x, g.constant([0, c, n * n], np.int64)), perm=[0, 2, 1])
        y = g.Add(g.MatMul(y, self.weights(c, c)), g.random(c))
        if self.pick((True, False)):
            y = g.LayerNormalization(y, g.positive(c), g.random(c))
        if self.pick((True, False)):
            y = g.Mul(g.Softmax(y, axis=-1), g.constant(float(c)))
        y = g.Transpose(y, perm=[0, 2, 1])
        return str(g.Reshape(y, g.constant([0, c, n, n], np.int64)))

    def attended(self, x: str) -> str:
        """Attention of pixels, or products of two computed matrices without the softmax."""
        g, c, n = self.g, self.channels, self.size
        y = g.Transpose(g.Reshape(x, g.constant([0, c, n * n], np.int64)), perm=[0, 2, 1])
        y = g.LayerNormalization(y, g.positive(c), g.random(c))
        q, k, v = (g.MatMul(y, self.weights(c, c)) for _ in "qkv")
        k = g.Transpose(k, perm=[0, 2, 1])
        if self.pick((True, False)):
            y = g.MatMul(g.Softmax(g.Mul(g.MatMul(q, k), g.constant(c**-0.5)), axis=-1), v)
        else:
            y = g.MatMul(q, g.Mul(g.MatMul(k, v), g.constant(1 / n**2)))
        y = g.Transpose(y, perm=[0, 2, 1])
        return str(g.Reshape(y, g.constant([0, c, n, n], np.int64)))

    def bordered(self, x: str) -> str:
        g, c, n = self.g, self.channels, self.size
        row = g.random(1, c, 1, n)
        if self.batch > 1:
            row = g.Expand(row, g.constant([self.batch, 1, 1, 1], np.int64))
        y = g.Concat(row, x, axis=2)
        return str(g.Slice(y, *(g.constant(i, np.int64) for i in ([0], [n], [2]))))

    def means(self, x: str) -> str:
        g = self.g
        mean = g.ReduceMean(x, g.constant(self.pick(([1], [2, 3], [3])), np.int64), keepdims=1)
        return str(g.Sub(x, mean))

    def head(self, x: str) -> str:
        g, c = self.g, self.channels
        y = g.Flatten(g.GlobalAveragePool(x))
        return str(g.Gemm(y, self.weights(5, c), g.random(5), transB=1))


STEPS = (
    Images.conv, Images.conv, Images.residual, Images.affine, Images.gate, Images.pool,
    Images.halves, Images.joined, Images.zoom, Images.shifted, Images.rows, Images.means,
    Images.bordered, Images.transposed, Images.attended,
)  # fmt: skip


@pytest.mark.narrow
@pytest.mark.sampled(2)
@settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_choice_of_values_is_right(everywhere, data):
    """For any choice, errors are those of rounding, and bits do not depend on the team."""
    network = Images(data.draw)
    bits = data.draw(st.integers(0, (1 << 64) - 1))
    everywhere(lambda i: bits >> i % 64 & 1)
    precision = data.draw(st.sampled_from(("bf16", "low", "low_bf16")))
    g, y = network.g, network.output
    model = g.model(y)
    first = None
    for threads in (1, 2, 3):
        session = session_of(g, y, precision=precision, threads=threads)
        got = session.run(None, g.feed)
        if first is None:
            first = got
            accurate(got, model, g.feed)
            assert not on_host(session), on_host(session)
        for a, b in zip(got, first, strict=True):
            assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax", "LayerNormalization"])
def test_rows_that_the_network_returns_are_read_as_they_are_stored(op, everywhere):
    """Loops widen them: no conversion before, and no rounding behind."""
    everywhere(lambda i: True)
    g = Graph(2)
    x = g.input(5, 3, 70)
    g.feed[x] = g.feed[x].astype(BRAIN).astype(np.float32)
    more = [g.random(70), g.random(70)] if op.startswith("Layer") else []
    y = getattr(g, op)(g.Neg(x), *more, axis=-1)
    session = session_of(g, y, precision="low")
    assert step_kinds(session, g.feed) == ["Neg", op]
    got = run(g.model(y), g.feed, (1, 3), precision="low")
    agree(got, referred(g.model(y), g.feed), 2e-6)


def decided(g: Graph, y: str, prices, *, demanded: bool = False, few: int = 0) -> set[str]:
    """Operators whose results are stored as bfloat16, if they have so many numbers."""
    graph = graph_of(stages(g, y)[1].model)
    narrow = seen_as(graph, [SINGLE], BRAIN)
    with mock.patch.object(narrow_storage, "FEW", few):
        found = in_narrow_type(graph, narrow, chains(graph)[0], prices, demanded=demanded)
    return {node.op for node in graph.nodes if not found.isdisjoint(node.outputs)}


def fork() -> tuple[Graph, str]:
    """A convolution whose result a pool and another convolution read."""
    g = Graph(1)
    x = g.conv(g.input(1, 4, 8, 8), 4, (4, 3, 3))
    pooled = g.MaxPool(x, kernel_shape=[3, 3], pads=[1] * 4)
    return g, g.Concat(g.Tanh(pooled), g.conv(x, 4, (4, 1, 1)), axis=1)


def test_the_cheaper_type_is_chosen():
    """Prices of convolutions decide; where they gain nothing, fewer bytes do."""
    g, y = fork()

    def prices(gain):
        return lambda node: TypePrices(1e6, 1e6 - gain, 1e6) if "Conv" in node.op else None

    assert decided(g, y, prices(1e5)) >= {"pplconv.Conv", "MaxPool"}
    assert decided(g, y, prices(-1e5)) == set()


def test_nothing_is_narrow_where_only_float32_is_read():
    """A value that goes from a convolution to a step of float32 alone is not converted."""
    g = Graph(1)
    x = g.conv(g.input(1, 4, 8, 8), 4, (4, 3, 3))
    y = g.CumSum(x, g.constant(2, np.int64))
    assert decided(g, y, lambda node: None) == set()


def test_all_that_can_is_narrow_on_demand():
    g, y = fork()
    dear = TypePrices(1.0, 1e9, 1e9)
    found = decided(g, y, lambda node: dear if "Conv" in node.op else None, demanded=True)
    assert found >= {"pplconv.Conv", "MaxPool"}


def test_what_has_few_numbers_stays_float32():
    g, y = fork()
    dear = TypePrices(1.0, 1e9, 1e9)
    numbers = 4 * 6 * 6
    for few, narrow in ((numbers, True), (numbers + 1, False)):
        found = decided(
            g, y, lambda node: dear if "Conv" in node.op else None, demanded=True, few=few
        )
        assert ("MaxPool" in found) == narrow


@pytest.mark.parametrize("precision", ["auto", "fp32", "fp16"])
def test_words_that_leave_values_alone(precision):
    assert brain_type(precision) is None


def test_the_values_of_six_networks_are_those_of_the_golden_file():
    assert [*lines()] == GOLDEN.read_text(encoding="utf-8").splitlines()
