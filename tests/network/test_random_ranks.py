"""Random networks of sequences and of volumes, beside onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.network.graphs import Graph
from tests.network.running import compare_models, needs_onnxruntime

pytestmark = needs_onnxruntime


class Drawn:
    """A random network with `axes` spatial axes: a value, its shape, and earlier values."""

    def __init__(self, seed: int, axes: int) -> None:
        self.g, self.axes = Graph(seed), axes
        self.rng = np.random.default_rng(seed)
        size = (int(self.rng.integers(6, 25)),) if axes == 1 else (5, 7, 6)
        self.shape: tuple[int, ...] = (int(self.rng.integers(1, 3)), 6, *size)
        self.x = self.g.input(*self.shape, free=bool(seed % 2))
        self.earlier = [(self.x, self.shape)]

    def few(self, low: int, high: int, count: int = 0) -> list[int]:
        """Draw a small number for each axis, or `count` of them."""
        return [int(n) for n in self.rng.integers(low, high + 1, count or self.axes)]

    def conv(self) -> None:
        n, c, *size = self.shape
        kernel = [min(k, s) for k, s in zip(self.few(1, 3), size, strict=True)]
        pads, strides = self.few(0, 1, 2 * self.axes), self.few(1, 2)
        group = int(self.rng.choice([1, c, 2 if c % 2 == 0 else 1]))
        outer = group * int(self.rng.integers(1, 3))
        out = [
            (s + a + b - k) // t + 1
            for s, a, b, k, t in zip(
                size, pads[: self.axes], pads[self.axes :], kernel, strides, strict=True
            )
        ]
        weights = (c // group, *kernel)
        self.x = self.g.conv(self.x, outer, weights, pads=pads, strides=strides, group=group)
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
        self.x = getattr(self.g, name)(self.x, kernel_shape=[2] * self.axes, **more)
        self.shape = (*self.shape[:2], *(s + added - 1 for s in self.shape[2:]))

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

    def draw(self, steps: int) -> list[str]:
        """Add steps, and give the outputs."""
        kinds = (
            self.conv, self.conv, self.conv, self.activate, self.normalise, self.scale, self.pool,
            self.join, self.join, self.pad, self.transposed, self.turn,
        )  # fmt: skip
        for _ in range(steps):
            if np.prod(self.shape) > 20_000 or self.shape[1] > 40:
                break
            kinds[int(self.rng.integers(len(kinds)))]()
            self.earlier.append((self.x, self.shape))
        self.conv()
        middle = self.earlier[int(self.rng.integers(1, len(self.earlier)))][0]
        return [self.x] if middle in (self.x, *self.g.inputs) else [self.x, middle]


@pytest.mark.sampled(24)
@pytest.mark.parametrize("seed", range(150))
@pytest.mark.parametrize("axes", [1, 3])
def test_random_networks(axes, seed):
    network = Drawn(seed, axes)
    outputs = network.draw(9)
    compare_models(network.g.model(*outputs), network.g.feed)
