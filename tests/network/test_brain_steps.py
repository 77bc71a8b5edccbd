"""Steps whose arrays are bfloat16: they compute in float32, and round once, as they store.

Graphs are typed here: float32 becomes bfloat16 in every place where `narrow_storage` may choose it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from benchmarks.networks.retyping import retyped
from pplconv import planner
from pplconv.network import compiling
from pplconv.network.fusion import is_elementwise
from pplconv.network.narrow_storage import seen_as
from pplconv.network.nodes import Graph as Typed
from pplconv.network.nodes import graph_of
from pplconv.network.operators.table import row_of
from pplconv.network.plan_settings import Settings
from tests.levels import allowed_isas
from tests.network.graphs import Graph, stages
from tests.network.running import referred

BRAIN, SINGLE = np.dtype(ml_dtypes.bfloat16), np.dtype(np.float32)
# Error of sums and curves in float32, relative to the largest result.
IN_SINGLE = 2.0**-19


class Rounded(Graph):
    """A network of float32 whose weights and inputs are numbers of bfloat16."""

    def constant(self, value: Any, dtype: Any = None) -> str:
        array = np.asarray(value, dtype or self.dtype)
        return super().constant(_rounded(array), array.dtype)

    def input(self, *shape: int, **options: Any) -> str:
        name = super().input(*shape, **options)
        self.feed[name] = _rounded(self.feed[name])
        return name

    def strange(self, *shape: int) -> str:
        """An input with NaN, infinities, zeros of both signs and subnormal numbers."""
        name = self.input(*shape)
        x = self.feed[name].reshape(-1)
        x[::7] = np.resize(np.array([np.nan, np.inf, -np.inf, 0.0, -0.0], np.float32), x[::7].shape)
        return name


def _rounded(array: np.ndarray) -> np.ndarray:
    return array.astype(BRAIN).astype(SINGLE) if array.dtype == SINGLE else array


Write = Callable[[Rounded], str]


def unary(op: str, low: float = -np.inf, **attributes: Any) -> Write:
    def write(g: Rounded) -> str:
        x = g.input(2, 5, 7, 3)
        g.feed[x] = np.maximum(g.feed[x], low).astype(SINGLE)
        return str(getattr(g, op)(x, **attributes))

    return write


def binary(op: str, *shape: int) -> Write:
    return lambda g: getattr(g, op)(g.input(2, 5, 7, 3), g.input(*shape))


def windows(op: str, shape: tuple[int, ...], **attributes: Any) -> Write:
    return lambda g: getattr(g, op)(g.input(*shape), **attributes)


def reducing(op: str, shape: tuple[int, ...], *axes: int, **attributes: Any) -> Write:
    def write(g: Rounded) -> str:
        return str(getattr(g, op)(g.input(*shape), g.constant(axes, np.int64), **attributes))

    return write


def resized(shape: tuple[int, ...], scales: tuple[float, ...], **attributes: Any) -> Write:
    def write(g: Rounded) -> str:
        return str(g.Resize(g.input(*shape), "", g.constant(scales), **attributes))

    return write


def normalized(*shape: int, axis: int = -1) -> Write:
    def write(g: Rounded) -> str:
        whole = shape[axis:]
        x = g.input(*shape)
        return str(g.LayerNormalization(x, g.random(*whole), g.random(*whole), axis=axis))

    return write


def moved(write: Callable[[Rounded, str], str], *shape: int) -> Write:
    return lambda g: write(g, g.input(*shape))


def ints(g: Rounded, *numbers: int) -> str:
    return g.constant(numbers, np.int64)


# One step each: what it computes is rounded once.
CASES: dict[str, Write] = {
    **{op: unary(op) for op in (
        "Relu", "Sigmoid", "Tanh", "Erf", "Exp", "Neg", "Abs", "Floor", "Ceil", "Round", "Sin",
        "Cos", "HardSigmoid", "HardSwish", "LeakyRelu", "Elu", "Softplus", "Softsign", "Sign",
        "Gelu", "Mish", "Celu", "Selu", "Identity",
    )},
    "Sqrt": unary("Sqrt", 0.0), "Log": unary("Log", 0.125), "Reciprocal": unary("Reciprocal", 0.25),
    **{f"{op} {shape}": binary(op, *shape) for op in ("Add", "Sub", "Mul", "Max", "Min", "PRelu")
       for shape in ((2, 5, 7, 3), (1, 5, 1, 1), (3,), (1,))},
    "Div": binary("Div", 2, 5, 7, 3),
    "Clip": lambda g: g.Clip(g.input(3, 40), g.constant(-0.5), g.constant(0.7)),
    "Where": lambda g: g.Where(
        g.Greater(g.input(3, 40), g.input(3, 40)), g.input(3, 40), g.input(40)
    ),
    "chain": lambda g: g.Mul(g.Sigmoid(g.Add(g.input(4, 300), g.random(300))), g.random(1)),
    "MaxPool": windows("MaxPool", (2, 37, 9, 11), kernel_shape=[3, 3], strides=[2, 2],
                       pads=[1, 1, 1, 1]),
    "MaxPool dilated": windows("MaxPool", (1, 70, 13, 12), kernel_shape=[3, 2], dilations=[2, 3],
                               pads=[1, 0, 2, 1]),
    "MaxPool of few channels": windows("MaxPool", (1, 3, 8, 8), kernel_shape=[2, 2]),
    "AveragePool": windows("AveragePool", (2, 37, 9, 11), kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
    "AveragePool of wide images": windows(
        "AveragePool", (1, 300, 20, 70), kernel_shape=[5, 5], strides=[1, 2]
    ),
    "GlobalAveragePool": windows("GlobalAveragePool", (2, 37, 9, 11)),
    "GlobalMaxPool": windows("GlobalMaxPool", (2, 37, 9, 11)),
    "Resize nearest": resized((2, 21, 5, 6), (1, 1, 2, 3), mode="nearest"),
    "Resize linear": resized((2, 21, 5, 6), (1, 1, 2, 1.5), mode="linear"),
    "Resize linear, smaller": resized((1, 200, 25, 60), (1, 1, 0.4, 0.5), mode="linear"),
    "Resize cubic": resized((1, 21, 8, 9), (1, 1, 2, 1.5), mode="cubic"),
    "Resize rows": resized((4, 9, 11), (1, 1, 3), mode="nearest"),
    **{f"{op} {axes}": reducing(op, (3, 40, 5, 70), *axes)
       for op in ("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceSumSquare",
                  "ReduceL2")
       for axes in ((-1,), (1,), (2, 3), (0, 1, 2, 3))},
    "ReduceMean of many": reducing("ReduceMean", (70, 300), 0, keepdims=0),
    "Softmax": windows("Softmax", (3, 5, 70), axis=-1),
    "Softmax of channels": windows("Softmax", (2, 37, 5, 6), axis=1),
    "LogSoftmax": windows("LogSoftmax", (3, 9000), axis=-1),
    "LayerNormalization": normalized(3, 5, 70),
    "LayerNormalization of two": normalized(3, 5, 70, axis=-2),
    "LayerNormalization alone": lambda g: g.LayerNormalization(
        g.input(3, 5, 64), g.constant(np.ones(64))
    ),
    "LayerNormalization by an input": lambda g: g.LayerNormalization(g.input(3, 64), g.input(64)),
    "Transpose": moved(lambda g, x: g.Transpose(x, perm=[2, 0, 1]), 3, 40, 50),
    "Concat": lambda g: g.Concat(g.input(2, 3, 5, 6), g.input(2, 4, 5, 6), axis=1),
    "Pad": moved(lambda g, x: g.Pad(x, ints(g, 0, 0, 1, 2, 0, 0, 3, 0), g.constant(1.5)),
                 2, 3, 5, 6),
    "Pad reflected": moved(lambda g, x: g.Pad(x, ints(g, 0, 0, 1, 2, 0, 0, 3, 0), mode="reflect"),
                           2, 3, 5, 6),
    "Slice": moved(lambda g, x: g.Slice(x, ints(g, 1, -1), ints(g, 5, -9), ints(g, 1, 2),
                                        ints(g, 2, -2)), 2, 7, 8),
    "Split": moved(lambda g, x: g.Split(x, ints(g, 2, 5), axis=1, outputs=2)[1], 2, 7, 8),
    "Gather": moved(lambda g, x: g.Gather(x, ints(g, 3, 1, 1), axis=1), 2, 7, 8),
    "Expand": moved(lambda g, x: g.Expand(x, ints(g, 4, 7, 8)), 7, 1),
    "Tile": moved(lambda g, x: g.Tile(x, ints(g, 2, 3)), 7, 5),
    "Reshape": moved(lambda g, x: g.Reshape(g.Transpose(x, perm=[1, 0]), ints(g, 5, -1)), 7, 15),
    "DepthToSpace": moved(lambda g, x: g.DepthToSpace(x, blocksize=2), 2, 12, 5, 6),
    "SpaceToDepth": moved(lambda g, x: g.SpaceToDepth(x, blocksize=2), 2, 3, 6, 4),
}  # fmt: skip
every_case = pytest.mark.parametrize("name", CASES)
# Nothing is fused or added in another order: each level rounds the same numbers.
SAME_BITS = ("Relu", "Neg", "Abs", "Floor", "Ceil", "Round", "LeakyRelu", "Sign", "Identity",
             "Sqrt", "Div", "Add", "Sub", "Mul", "Max", "Min", "PRelu", "Clip", "Where", "MaxPool",
             "AveragePool", "GlobalMaxPool", "Resize nearest", "Resize rows", "ReduceMax",
             "ReduceMin", "Transpose", "Concat", "Pad", "Slice", "Split", "Gather", "Expand",
             "Tile", "Reshape", "DepthToSpace", "SpaceToDepth")  # fmt: skip


def typed(g: Rounded, *outputs: str) -> Typed:
    """The specialised graph, its float32 values as bfloat16."""
    return seen_as(graph_of(stages(g, *outputs)[1].model), [SINGLE], BRAIN)


def compiled(monkeypatch, g: Rounded, *outputs: str, isa: str, graph: Typed | None = None):
    """The program of a typed graph for a level."""
    chosen = typed(g, *outputs) if graph is None else graph
    monkeypatch.setattr(compiling, "with_formats", lambda *_: chosen)
    monkeypatch.setattr(compiling, "half_level", lambda: isa)
    monkeypatch.setattr(planner, "brain_isa", lambda: isa)
    return compiling.compile_model(stages(g, *outputs)[1].model, Settings(threads=1))


def computed(program: Any, g: Rounded) -> list[np.ndarray]:
    """Run a program on the graph's inputs."""
    arrays = [np.ascontiguousarray(g.feed[name].astype(dtype)) for name, _, dtype in program.inputs]
    return list(program.compute(arrays).values())


def in_double(g: Rounded, *outputs: str) -> list[np.ndarray]:
    wide = retyped(g.model(*outputs), np.float32, np.float64)
    feed = {k: x.astype(np.float64) if x.dtype == SINGLE else x for k, x in g.feed.items()}
    return [np.asarray(y, np.float64) for y in referred(wide, feed)]


def rounds(got: np.ndarray, exact: np.ndarray) -> None:
    """Each result is within half of the last place of the exact one, but for errors of float32."""
    assert got.dtype == BRAIN and got.shape == exact.shape
    found = got.astype(np.float64)
    known = np.isfinite(exact)
    np.testing.assert_array_equal(found[~known], exact[~known])
    # The last of eight digits, of the number that may have been rounded up.
    ulp = 2.0 ** (np.frexp(np.maximum(np.abs(exact[known]), 2.0**-120))[1] - 8)
    scale = np.abs(exact[known]).max(initial=0)
    error = np.abs(found[known] - exact[known])
    assert (error <= ulp / 2 + IN_SINGLE * scale).all(), float((error / ulp).max())


@every_case
def test_steps_round_once(name, monkeypatch):
    """In loops alone, as near as numbers of bfloat16 are."""
    g = Rounded(3)
    y = CASES[name](g)
    (exact,) = in_double(g, y)
    found = {}
    for isa in allowed_isas():
        program = compiled(monkeypatch, g, y, isa=isa)
        assert [step.kind for step in program.steps if step.host] == []
        assert {dtype for *_, dtype in program.outputs} == {BRAIN}
        (found[isa],) = computed(program, g)
        rounds(found[isa], exact)
    first, *others = found.values()
    for other in others:
        if name.partition(" (")[0].partition(" of ")[0].partition(" dilated")[0] in SAME_BITS:
            assert first.tobytes() == other.tobytes()


@pytest.mark.parametrize(
    "write",
    [
        resized((1, 100, 6, 700), (1, 1, 2, 1.5), mode="linear"),
        windows("MaxPool", (1, 200, 30, 90), kernel_shape=[5, 5], pads=[2] * 4),
        windows("AveragePool", (2, 150, 40, 90), kernel_shape=[6, 3], strides=[2, 2]),
        reducing("ReduceSum", (300, 700), 0),
        reducing("ReduceMean", (3, 700, 90), 1),
        reducing("ReduceL2", (40, 5000), 1),
        windows("Softmax", (50, 3000), axis=-1),
        normalized(70, 900),
    ],
)
@pytest.mark.parametrize("isa", allowed_isas())
def test_large_arrays_are_those_of_float32_rounded(write, isa, monkeypatch):
    """Whatever parts of them are float32 at once: every bit."""
    g = Rounded(11)
    y = write(g)
    narrow, wide = (
        computed(compiled(monkeypatch, g, y, isa=isa, graph=graph), g)[0]
        for graph in (None, graph_of(stages(g, y)[1].model))
    )
    assert wide.dtype == SINGLE
    assert narrow.tobytes() == wide.astype(BRAIN).tobytes()


@every_case
def test_they_are_said_to_be_served(name):
    """`narrow_storage` asks these questions before it types a value."""
    g = Rounded(3)
    graph = typed(g, CASES[name](g))
    for node in graph.nodes:
        assert is_elementwise(node, graph) or row_of(node.op).is_served(node, graph), node.op


@pytest.mark.parametrize("isa", allowed_isas())
def test_special_numbers(isa, monkeypatch):
    """NaN, infinities and zeros are those of float32."""
    g = Rounded(5)
    x = g.strange(3, 50)
    outputs = [g.Add(x, g.input(3, 50)), g.Neg(x), g.Relu(x), g.ReduceMax(x, ints(g, 1)),
               g.Softmax(x, axis=-1), g.Transpose(x, perm=[1, 0])]  # fmt: skip
    with np.errstate(all="ignore"):
        exact = in_double(g, *outputs)
    found = computed(compiled(monkeypatch, g, *outputs, isa=isa), g)
    for name, got, want in zip(outputs, found, exact, strict=True):
        rounds(got, want)
        if not name.startswith("relu"):  # Of -0, either zero is right.
            zeros = want == 0
            signs = np.signbit(got.astype(SINGLE))
            np.testing.assert_array_equal(signs[zeros], np.signbit(want)[zeros])


@pytest.mark.parametrize("isa", allowed_isas())
@pytest.mark.parametrize("narrow", [("x",), ("y",), ("x", "b"), ("b", "y")])
def test_one_chain_reads_and_writes_both_types(isa, narrow, monkeypatch):
    """Without a step that converts."""
    g = Rounded(7)
    x, b = g.input(6, 300), g.input(300)
    y = g.Mul(g.Tanh(g.Add(x, b)), b)
    graph = graph_of(stages(g, y)[1].model)
    for name in narrow:
        graph.dtypes[{"x": x, "b": b, "y": y}[name]] = BRAIN
    program = compiled(monkeypatch, g, y, isa=isa, graph=graph)
    assert len(program.steps) == 1
    (got,), (exact,) = computed(program, g), in_double(g, y)
    if "y" in narrow:
        rounds(got, exact)
    else:
        np.testing.assert_allclose(got, exact, rtol=0, atol=2e-6 * np.abs(exact).max())


@pytest.mark.parametrize(
    "write",
    [
        lambda g: g.Resize(g.input(1, 2, 3, 4), "", g.constant([1, 2, 1, 2]), mode="linear"),
        lambda g: g.Resize(g.input(1, 2, 9, 9), "", g.constant([1, 1, 0.5, 0.4]), mode="linear",
                           antialias=1),
        lambda g: g.ArgMax(g.input(3, 5)),
        lambda g: g.CumSum(g.input(3, 5), ints(g, 1)),
    ],
)  # fmt: skip
def test_what_loops_lack_is_not_said_to_be_served(write):
    g = Rounded(9)
    graph = typed(g, write(g))
    (node,) = (node for node in graph.nodes if graph.dtypes[node.inputs[0]] == BRAIN)
    assert not is_elementwise(node, graph) and not row_of(node.op).is_served(node, graph)
