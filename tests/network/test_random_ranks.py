"""Random networks of sequences and of volumes, with branches and loops, beside onnxruntime."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from tests.emulation import is_emulated
from tests.network.graphs import Graph
from tests.network.running import compare_models, needs_onnxruntime

pytestmark = needs_onnxruntime
EXAMPLES = 2 if is_emulated() else max(settings.default.max_examples // 2, 10)


class Chosen:
    """What `Drawn` asks of a generator of random numbers, chosen by Hypothesis."""

    def __init__(self, draw: Callable[[Any], Any]) -> None:
        self.draw = draw

    def integers(self, low: int, high: int | None = None, count: int | None = None) -> Any:
        low, high = (0, low) if high is None else (low, high)
        numbers = st.integers(low, high - 1)
        return self.draw(
            numbers if count is None else st.lists(numbers, min_size=count, max_size=count)
        )

    def choice(self, among: list[Any]) -> Any:
        return self.draw(st.sampled_from(among))

    def random(self) -> float:
        return 0.25 if self.draw(st.booleans()) else 0.75


class Drawn:
    """A random network with `axes` spatial axes: a value, its shape, and earlier values."""

    def __init__(self, seed: int, axes: int, rng: Any = None) -> None:
        self.g, self.axes = Graph(seed), axes
        self.rng = np.random.default_rng(seed) if rng is None else rng
        size = (int(self.rng.integers(6, 25)),) if axes == 1 else (5, 7, 6)
        self.shape: tuple[int, ...] = (int(self.rng.integers(1, 3)), 6, *size)
        self.x = self.g.input(*self.shape, free=bool(seed % 2))
        self.earlier = [(self.x, self.shape)]
        # Outputs besides.
        self.more: list[str] = []

    def few(self, low: int, high: int, count: int = 0) -> list[int]:
        """Draw a small number for each axis, or `count` of them."""
        return [int(n) for n in self.rng.integers(low, high + 1, count or self.axes)]

    def conv(self) -> None:
        n, c, *size = self.shape
        kernel = [min(k, s) for k, s in zip(self.few(1, 3), size, strict=True)]
        pads, strides = self.few(0, 1, 2 * self.axes), self.few(1, 2)
        apart = [
            n if (k - 1) * n < s else 1
            for n, k, s in zip(self.few(1, 2), kernel, size, strict=True)
        ]
        group = int(self.rng.choice([1, c, 2 if c % 2 == 0 else 1]))
        outer = group * int(self.rng.integers(1, 3))
        out = [
            (s + a + b - (k - 1) * d - 1) // t + 1
            for s, a, b, k, t, d in zip(
                size, pads[: self.axes], pads[self.axes :], kernel, strides, apart, strict=True
            )
        ]
        weights = (c // group, *kernel)
        self.x = self.g.conv(
            self.x, outer, weights, pads=pads, strides=strides, group=group, dilations=apart
        )
        self.shape = (n, outer, *out)

    def transposed(self) -> None:
        n, c, *size = self.shape
        kernel, strides = self.few(1, 3), self.few(1, 2)
        w = self.g.random(c, 4, *kernel)
        self.x = self.g.ConvTranspose(self.x, w, self.g.random(4), strides=strides)
        out = [(s - 1) * t + k for s, t, k in zip(size, strides, kernel, strict=True)]
        self.shape = (n, 4, *out)

    def activate(self) -> None:
        name = str(self.rng.choice(["Relu", "Sigmoid", "Tanh", "HardSwish", "Softplus", "Elu"]))
        self.x = getattr(self.g, name)(self.x)

    def normalise(self) -> None:
        self.x = self.g.batch_norm(self.x, self.shape[1])

    def scale(self) -> None:
        shapes = [(), (1,), (self.shape[1], *[1] * self.axes), self.shape[1:], self.shape]
        other = self.g.random(*shapes[int(self.rng.integers(len(shapes)))])
        self.x = getattr(self.g, str(self.rng.choice(["Add", "Mul", "Sub"])))(self.x, other)

    def pool(self) -> None:
        if min(self.shape[2:]) < 3:
            return
        name = str(self.rng.choice(["MaxPool", "AveragePool"]))
        more: dict[str, Any] = {"pads": [1] * (2 * self.axes)} if self.rng.random() < 0.5 else {}
        added = 2 * bool(more)
        strides = self.few(1, 2)
        self.x = getattr(self.g, name)(
            self.x, kernel_shape=[2] * self.axes, strides=strides, **more
        )
        sizes = zip(self.shape[2:], strides, strict=True)
        self.shape = (*self.shape[:2], *((s + added - 2) // t + 1 for s, t in sizes))

    def join(self) -> None:
        alike = [x for x, shape in self.earlier if shape == self.shape]
        other = alike[int(self.rng.integers(len(alike)))] if alike else self.x
        if self.rng.random() < 0.5:
            self.x = self.g.Add(self.x, other)
        else:
            self.x = self.g.Concat(other, self.x, axis=1)
            self.shape = (self.shape[0], 2 * self.shape[1], *self.shape[2:])

    def pad(self) -> None:
        before, after = self.few(0, 2), self.few(0, 2)
        pads = self.g.constant([0, 0, *before, 0, 0, *after], np.int64)
        self.x = self.g.Pad(self.x, pads)
        sizes = zip(self.shape[2:], before, after, strict=True)
        self.shape = (*self.shape[:2], *(sum(size) for size in sizes))

    def turn(self) -> None:
        """Rows of channels for a normalization, as transformers have them."""
        order = [0, *range(2, self.axes + 2), 1]
        y = self.g.Transpose(self.x, perm=order)
        # Rows that hardly differ would be blown up, errors and all.
        y = self.g.LayerNormalization(y, self.g.random(self.shape[1]), axis=-1, epsilon=0.1)
        self.x = self.g.Transpose(y, perm=[0, self.axes + 1, *range(1, self.axes + 1)])

    def mix(self) -> None:
        """A convolution that keeps the shape, within bounds."""
        channels = self.shape[1]
        w = self.g.constant(
            self.g.rng.standard_normal((channels, channels, *[3] * self.axes))
            / (channels * 3**self.axes) ** 0.5
        )
        self.x = self.g.Tanh(self.g.Conv(self.x, w, pads=[1] * (2 * self.axes)))

    def inside(self, x: str) -> tuple[list[onnx.NodeProto], str]:
        """Nodes of a subgraph that keep the shape of `x`, and their result."""
        outer, before = self.x, len(self.g.nodes)
        self.x = x
        kinds = (self.mix, self.activate, self.scale, self.normalise)
        for _ in range(self.few(1, 3, 1)[0]):
            kinds[int(self.rng.integers(len(kinds)))]()
        # A turn after the other keeps its size.
        result = self.g.Tanh(self.x)
        self.x = outer
        nodes = self.g.nodes[before:]
        del self.g.nodes[before:]
        return nodes, result

    def branch(self) -> None:
        """An If by a mean of the data."""
        bound = self.g.constant(float(self.rng.choice([-9.0, 0.0, 9.0])))
        condition = self.g.Greater(self.g.ReduceMean(self.x, keepdims=0), bound)
        branches = {
            name: helper.make_graph(nodes, name, [], [_value(result)])
            for name in ("then_branch", "else_branch")
            for nodes, result in [self.inside(self.x)]
        }
        self.x = self.g.If(condition, **branches)

    def turns(self) -> None:
        """A Loop whose state keeps its shape, and a result of each turn."""
        number = self.g.constant(self.few(0, 3, 1)[0], np.int64)
        state = f"{self.x}_state_{len(self.g.nodes)}"
        nodes, result = self.inside(state)
        names = [f"{state}_{what}" for what in ("turn", "goes", "on", "sums")]
        nodes.append(helper.make_node("Identity", names[1:2], names[2:3]))
        nodes.append(helper.make_node("ReduceSum", [result], names[3:], keepdims=0))
        body = helper.make_graph(
            nodes, "body",
            [_value(names[0], TensorProto.INT64, []), _value(names[1], TensorProto.BOOL, []),
             _value(state)],
            [_value(names[2], TensorProto.BOOL, []), _value(result), _value(names[3])],
        )  # fmt: skip
        self.x, sums = self.g.Loop(number, "", self.x, body=body, outputs=2)
        self.more.append(sums)

    def draw(self, steps: int) -> list[str]:
        """Add steps, and give the outputs."""
        kinds = (
            self.conv, self.conv, self.conv, self.activate, self.normalise, self.scale, self.pool,
            self.join, self.join, self.pad, self.transposed, self.turn, self.branch, self.turns,
        )  # fmt: skip
        for _ in range(steps):
            if np.prod(self.shape) > 20_000 or self.shape[1] > 40:
                break
            kinds[int(self.rng.integers(len(kinds)))]()
            self.earlier.append((self.x, self.shape))
        self.conv()
        middle = self.earlier[int(self.rng.integers(1, len(self.earlier)))][0]
        outputs = [self.x] if middle in (self.x, *self.g.inputs) else [self.x, middle]
        return [*outputs, *self.more]


def _value(name: str, kind: int = TensorProto.FLOAT, shape: Any = None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


@pytest.mark.sampled(24)
@pytest.mark.parametrize("seed", range(150))
@pytest.mark.parametrize("axes", [1, 3])
def test_random_networks(axes, seed):
    network = Drawn(seed, axes)
    outputs = network.draw(9)
    compare_models(network.g.model(*outputs), network.g.feed)


@pytest.mark.sampled(1)
@settings(max_examples=EXAMPLES)
@given(data=st.data())
@pytest.mark.parametrize("axes", [1, 3])
def test_any_networks(axes, data):
    """Of Hypothesis, which finds the smallest one that is wrong."""
    network = Drawn(data.draw(st.integers(0, 1 << 16)), axes, Chosen(data.draw))
    outputs = network.draw(data.draw(st.integers(1, 9)))
    compare_models(network.g.model(*outputs), network.g.feed)
