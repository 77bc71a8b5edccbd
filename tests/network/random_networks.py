"""Random small networks: branches that split and join, of the operators of image networks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from hypothesis import strategies as st

from tests.network.old_graphs import OldGraph


@dataclass(frozen=True)
class Size:
    """A dimension in two feeds: where sizes are free, they are larger in the second one.

    Two of them are equal if they are in both feeds. One is less than a number if it is in either.
    """

    first: int
    second: int

    def __add__(self, n: int) -> Size:
        return Size(self.first + n, self.second + n)

    def __sub__(self, n: int) -> Size:
        return self + -n

    def __mul__(self, n: int) -> Size:
        return Size(self.first * n, self.second * n)

    def __floordiv__(self, n: int) -> Size:
        return Size(self.first // n, self.second // n)

    def __lt__(self, n: int) -> bool:
        return min(self.first, self.second) < n

    def __gt__(self, n: int) -> bool:
        return max(self.first, self.second) > n


# Batch, channels, height and width.
Shape = tuple[Size, int, Size, Size]
ACTIVATIONS = (
    "Relu", "Sigmoid", "HardSwish", "LeakyRelu", "Clip", "PRelu", "silu", "HardSigmoid", "Mish",
    "Softplus",
)  # fmt: skip
_OURS = {"silu"}
CURVES = ("Tanh", "Abs", "Neg", "Erf", "Sqrt", "Pow", "Gelu", "Exp")


class Network:
    """A network under construction, and the values that its nodes may read."""

    def __init__(self, draw: Any, *, free: bool, dtype: Any = np.float32, opset: int = 24) -> None:
        self.draw, self.free = draw, free
        self.g = OldGraph(self.whole(0, 1 << 16), dtype=dtype, opset=opset)
        batch, height, width = (
            Size(n, n + (self.whole(0, 2) if free else 0))
            for n in (self.whole(1, 2), self.whole(5, 11), self.whole(5, 11))
        )
        shape = (batch, self.whole(1, 9), height, width)
        self.values: list[tuple[str, Shape]] = []
        self.outputs: list[str] = []
        self.shared: dict[tuple[int, ...], str] = {}
        for _ in range(self.whole(1, 2)):
            sizes = (batch.first, shape[1], height.first, width.first)
            self.values.append((self.g.input(*sizes, free=free), shape))
        grown = (batch.second, shape[1], height.second, width.second)
        # Its feeds: arrays of one shape, or of two.
        self.feeds = [self.g.feed]
        if free:
            arrays = {name: self.g.rng.standard_normal(grown) for name in self.g.feed}
            self.feeds.append({name: x.astype(dtype) for name, x in arrays.items()})
        for _ in range(self.whole(3, 20)):
            name = self.pick(sorted(STEPS))
            STEPS[name](self)
        # Values that nobody reads are outputs, and perhaps one in the middle.
        read = {name for node in self.g.nodes for name in node.input}
        loose = [name for name, _ in self.values if name not in read]
        inner = [self.pick(self.values)[0]] if self.whole(0, 1) else []
        names = [node.output[0] for node in self.g.nodes]
        chosen = [name for name in (*self.outputs, *loose, *inner) if name not in self.g.inputs]
        self.outputs = list(dict.fromkeys(chosen)) or names[-1:] or [self.g.Relu(self.values[0][0])]

    def whole(self, low: int, high: int) -> int:
        """A number within bounds, both included."""
        return int(self.draw(st.integers(low, high)))

    def pick(self, among: Any) -> Any:
        """One of some things."""
        return self.draw(st.sampled_from(among))

    def known(self, *operators: str) -> list[str]:
        """Those operators that the opset has."""
        return [op for op in operators if op in _OURS or onnx.defs.has(op, self.g.opset)]

    def recent(self) -> tuple[str, Shape]:
        """A value, more often one of the last."""
        return self.values[max(len(self.values) - 1 - self.whole(0, 3), 0)]

    def add(self, name: str, shape: Shape) -> None:
        """Take a result among the values."""
        self.values.append((name, shape))

    def weights(self, *shape: int) -> str:
        """Weights that leave the size of numbers as it is; the same ones again at times."""
        if shape not in self.shared or self.whole(0, 2):
            scale = max(1, int(np.prod(shape[1:]))) ** -0.5
            self.shared[shape] = self.g.constant(scale * self.g.rng.standard_normal(shape))
        return self.shared[shape]

    def activated(self, x: str, channels: int) -> str:
        """Perhaps an activation."""
        kind = self.pick(("", *self.known(*ACTIVATIONS)))
        if kind == "silu":
            return str(self.g.Mul(x, self.g.Sigmoid(x)))
        if kind == "PRelu":
            return str(self.g.PRelu(x, self.g.random(channels, 1, 1)))
        if kind == "Clip":
            return str(self.g.Clip(x, self.g.constant(-0.5), self.g.constant(1.5)))
        if kind == "LeakyRelu":
            return str(self.g.LeakyRelu(x, alpha=0.2))
        return str(getattr(self.g, kind)(x)) if kind else x


def conv(n: Network) -> None:
    x, (b, c, h, w) = n.recent()
    k = n.pick([1, 1, 3, 3, 5])
    groups = n.pick([1, 1, c])
    channels = c if groups > 1 else n.pick([1, 3, 8, 17])
    stride, dilation = n.pick([1, 1, 2]), n.pick([1, 1, 2])
    pad = n.pick([0, (k - 1) * dilation // 2])
    size = [(m + (2 * pad - (k - 1) * dilation - 1)) // stride + 1 for m in (h, w)]
    if any(m < 1 for m in size):
        return
    bias = (n.g.random(channels),) if n.whole(0, 2) else ()
    y = n.g.Conv(
        x, n.weights(channels, c // groups, k, k), *bias, group=groups, strides=[stride] * 2,
        dilations=[dilation] * 2, pads=[pad] * 4,
    )  # fmt: skip
    shape = (b, channels, *size)
    before = [name for name, other in n.values if other == shape]
    if before and n.whole(0, 1):
        y = n.g.Add(y, n.pick(before))
    y = n.activated(y, channels)
    if n.whole(0, 3) == 0:
        y = n.g.Add(n.g.Mul(y, n.g.random(channels, 1, 1)), n.g.random(1, channels, 1, 1))
    n.add(y, shape)


def conv_transpose(n: Network) -> None:
    x, (b, c, h, w) = n.recent()
    if h > 13 or w > 13:
        return
    k, stride = n.pick([2, 3, 4]), n.pick([1, 2])
    pad = n.pick([0, 1]) if k > 2 else 0
    channels = n.pick([2, 5])
    size = [(m - 1) * stride + (k - 2 * pad) for m in (h, w)]
    if any(m < 1 for m in size):
        return
    y = n.g.ConvTranspose(x, n.weights(c, channels, k, k), strides=[stride] * 2, pads=[pad] * 4)
    n.add(n.activated(y, channels), (b, channels, *size))


def pool(n: Network) -> None:
    x, (b, c, h, w) = n.recent()
    k, stride = n.pick([2, 3]), n.pick([1, 2])
    pad = n.pick([0, 1])
    size = [(m + (2 * pad - k)) // stride + 1 for m in (h, w)]
    if any(m < 1 for m in size):
        return
    which = n.pick(["MaxPool", "AveragePool"])
    y = getattr(n.g, which)(x, kernel_shape=[k, k], strides=[stride] * 2, pads=[pad] * 4)
    n.add(y, (b, c, *size))


def resize(n: Network) -> None:
    x, (b, c, h, w) = n.recent()
    if h > 13 or w > 13:
        return
    mode, scales = n.pick(["nearest", "linear"]), n.g.constant([1.0, 1.0, 2.0, 2.0], np.float32)
    if n.g.opset < 11:
        y = (n.g.Resize if n.g.opset == 10 else n.g.Upsample)(x, scales, mode=mode)
    else:
        region = "" if n.g.opset > 12 else n.g.constant([])
        y = n.g.Resize(
            x, region, scales, mode=mode, nearest_mode="floor",
            coordinate_transformation_mode=n.pick(["half_pixel", "asymmetric"]),
        )  # fmt: skip
    n.add(y, (b, c, h * 2, w * 2))


def arithmetic(n: Network) -> None:
    x, shape = n.recent()
    op = getattr(n.g, n.pick(["Add", "Sub", "Mul", "Max", "Min"]))
    same = [name for name, other in n.values if other == shape]
    others = [n.pick(same), n.g.random(1), n.g.random(shape[1], 1, 1)]
    if not n.free:
        h, w = (m.first for m in shape[2:])
        others += [n.g.random(1, 1, h, w), n.g.random(w)]
    around = n.g.ReduceMean(n.pick(same), n.g.constant(n.pick([[1], [2, 3], [3]]), np.int64))
    other = n.pick([*others, around])
    n.add(op(x, other) if n.whole(0, 1) else op(other, x), shape)


def curve(n: Network) -> None:
    x, shape = n.recent()
    name = n.pick(n.known(*CURVES))
    if name == "Sqrt":
        x = n.g.Add(n.g.Abs(x), n.g.constant(0.5))
    if name == "Exp":
        x = n.g.Neg(n.g.Abs(x))
    more = (n.g.constant(2.0),) if name == "Pow" else ()
    n.add(getattr(n.g, name)(n.g.Tanh(x) if name == "Pow" else x, *more), shape)


def activation(n: Network) -> None:
    x, shape = n.recent()
    n.add(n.activated(x, shape[1]), shape)


def join(n: Network) -> None:
    _, (b, _, h, w) = n.recent()
    parts = [(name, s[1]) for name, s in n.values if (s[0], *s[2:]) == (b, h, w)]
    chosen = [n.pick(parts) for _ in range(n.whole(2, 3))]
    total = sum(c for _, c in chosen)
    if total <= 40:
        n.add(n.g.Concat(*(name for name, _ in chosen), axis=1), (b, total, h, w))


def split(n: Network) -> None:
    x, (b, c, h, w) = n.recent()
    if c < 2:
        return
    first = n.whole(1, c - 1)
    names = n.g.Split(x, n.g.constant([first, c - first], np.int64), axis=1, outputs=2)
    for name, count in zip(names, (first, c - first), strict=True):
        n.add(name, (b, count, h, w))


def crop(n: Network) -> None:
    x, (b, c, h, w) = n.recent()
    if h < 4:
        return
    # To the end, or one row short of it.
    end, step = n.pick([1 << 40, -1]), n.pick([1, 2]) if n.g.opset > 9 else 1
    y = n.g.Slice(x, *(n.g.constant([i], np.int64) for i in (1, end, 2, step)))
    n.add(y, (b, c, (h - (1 if end > 0 else 2) + (step - 1)) // step, w))


def pad(n: Network) -> None:
    x, (b, c, h, w) = n.recent()
    y = n.g.Pad(x, n.g.constant([0, 0, 1, 0, 0, 0, 0, 2], np.int64), n.g.constant(n.pick([0, 1.5])))
    n.add(y, (b, c, h + 1, w + 2))


def rows(n: Network) -> None:
    x, shape = n.recent()
    n.add(n.g.Softmax(x, axis=n.pick([1, 2, 3, -1])), shape)


def linear(n: Network) -> None:
    """Channels last, a product, a normalization, and back."""
    x, (b, c, h, w) = n.recent()
    channels = n.pick([4, 9])
    y = n.g.MatMul(n.g.Transpose(x, perm=[0, 2, 3, 1]), n.weights(c, channels))
    if n.whole(0, 1):
        y = n.g.Add(y, n.g.random(channels))
    if n.known("LayerNormalization") and n.whole(0, 1):
        y = n.g.LayerNormalization(y, n.g.random(channels), n.g.random(channels), epsilon=0.1)
    n.add(n.g.Transpose(y, perm=[0, 3, 1, 2]), (b, channels, h, w))


def gate(n: Network) -> None:
    """Squeeze and excite."""
    x, (b, c, h, w) = n.recent()
    y = n.g.GlobalAveragePool(x)
    y = n.g.Relu(n.g.Conv(y, n.weights(4, c, 1, 1)))
    y = n.g.Sigmoid(n.g.Conv(y, n.weights(c, 4, 1, 1)))
    n.add(n.g.Mul(x, y), (b, c, h, w))


def head(n: Network) -> None:
    """An output of another rank."""
    x, (_, c, _, _) = n.recent()
    flat = n.g.Flatten(n.g.GlobalMaxPool(x))
    n.outputs.append(n.g.Gemm(flat, n.weights(5, c), n.g.random(5), transB=1))


def attend(n: Network) -> None:
    """Products of two computed matrices; the second perhaps turned round, or another branch."""
    x, (b, c, h, w) = n.recent()
    kind = n.pick(["own", "turned", "other"])
    if kind == "own":
        # Channels by channels, whatever the sizes are.
        scores = n.g.MatMul(x, n.g.Transpose(x, perm=[0, 1, 3, 2]))
        n.add(n.g.MatMul(n.g.Softmax(scores, axis=-1), x), (b, c, h, w))
        return
    flat = n.g.Reshape(x, n.g.constant([0, c, -1], np.int64))
    if kind == "turned":
        scores = n.g.Softmax(n.g.MatMul(flat, n.g.Transpose(flat, perm=[0, 2, 1])), axis=-1)
        y = n.g.MatMul(scores, flat)
    else:
        others = [name for name, shape in n.values if shape == (b, c, h, w)]
        other = n.g.Reshape(n.g.Tanh(n.pick(others)), n.g.constant([0, c, -1], np.int64))
        scores = n.g.MatMul(n.g.Transpose(flat, perm=[0, 2, 1]), n.g.Softmax(other, axis=1))
        y = n.g.MatMul(flat, n.g.Softmax(scores, axis=1))
    n.add(n.g.Reshape(y, n.g.Shape(x)), (b, c, h, w))


def sequence(n: Network) -> None:
    """Columns as times."""
    x, (b, c, _, w) = n.recent()
    y = n.g.Transpose(n.g.ReduceMean(x, n.g.constant([2], np.int64), keepdims=0), perm=[2, 0, 1])
    width, op = n.pick([3, 8]), n.pick(["LSTM", "GRU"])
    direction = n.pick(["forward", "reverse", "bidirectional"])
    d, gates = 1 + (direction == "bidirectional"), {"LSTM": 4, "GRU": 3}[op]
    more = {"linear_before_reset": n.whole(0, 1)} if op == "GRU" else {}
    bias = (n.g.random(d, 2 * gates * width),) if n.whole(0, 1) else ()
    y, *_ = getattr(n.g, op)(
        y, n.weights(d, gates * width, c), n.weights(d, gates * width, width), *bias,
        hidden_size=width, direction=direction, outputs=2, **more,
    )  # fmt: skip
    y = n.g.Reshape(
        n.g.Transpose(y, perm=[2, 1, 3, 0]), n.g.constant([0, d * width, 1, -1], np.int64)
    )
    n.add(y, (b, d * width, Size(1, 1), w))


def reduction(n: Network) -> None:
    """An output of another rank, of any operator that makes one number of many."""
    x, _ = n.recent()
    name = n.pick(["ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceL2"])
    axes = n.g.constant(n.pick([[1], [2, 3], [-1], [0, 2], [1, 2, 3]]), np.int64)
    n.outputs.append(getattr(n.g, name)(x, axes, keepdims=n.whole(0, 1)))


STEPS: dict[str, Callable[[Network], None]] = {
    "conv": conv, "conv again": conv, "conv once more": conv, "conv_transpose": conv_transpose,
    "pool": pool, "resize": resize, "arithmetic": arithmetic, "arithmetic again": arithmetic,
    "curve": curve, "activation": activation, "join": join, "split": split, "crop": crop,
    "pad": pad, "rows": rows, "linear": linear, "gate": gate, "head": head, "attend": attend,
    "sequence": sequence, "reduction": reduction,
}  # fmt: skip
