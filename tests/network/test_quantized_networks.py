"""Quantized networks as a whole: to the bit by the contract of rounding, for any team and batch."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest

from pplconv.network import compiling
from pplconv.network.session import InferenceSession
from tests.network.quantizing import S8, U8, Quantized, exact, folded
from tests.network.running import alike, by_onnxruntime, copies, on_host, run, session_of

SEEDS = range(24)


class Random:
    """A random network of the operators of quantized image networks."""

    def __init__(self, seed: int, batch: int = 1) -> None:
        self.g = Quantized(seed)
        rng = self.rng = self.g.rng
        self.dtype = rng.choice([U8, S8])
        c, h, w = (int(n) for n in rng.integers([1, 5, 5], [20, 14, 14]))
        x = self.g.input(batch, c, h, w)
        self.values = [(self.quantized(x), (batch, c, h, w))]
        for _ in range(int(rng.integers(3, 9))):
            step = rng.choice(["conv", "conv", "depthwise", "add", "pool", "concat", "hardswish",
                               "resize", "average"])  # fmt: skip
            getattr(self, step)(*self.values[-1 - int(rng.integers(0, min(2, len(self.values))))])
        y, shape = self.values[-1]
        flat = self.g.Flatten(y)
        width = int(np.prod(shape[1:]))
        product = self.g.Gemm(flat, self.g.kernel(width, 7, axis=1), self.g.random(7))
        self.outputs = [y, self.quantized(product)]

    def quantized(self, x: str) -> str:
        low = {U8: (0, 200), S8: (-60, 60)}[np.dtype(self.dtype)]
        scale = float(self.rng.uniform(0.011, 0.041))
        return self.g.pair(x, scale, int(self.rng.integers(*low)), np.dtype(self.dtype))

    def add_value(self, y: str, shape) -> None:
        self.values.append((self.quantized(y), shape))

    def conv(self, x: str, shape) -> None:
        k, stride = int(self.rng.choice([1, 3, 5])), int(self.rng.choice([1, 1, 2]))
        oc, pad = int(self.rng.choice([3, 8, 16, 33])), k // 2
        self.windows(x, shape, oc, k, stride, pad, 1)

    def depthwise(self, x: str, shape) -> None:
        k, stride = int(self.rng.choice([3, 5])), int(self.rng.choice([1, 2]))
        self.windows(x, shape, shape[1], k, stride, k // 2, shape[1])

    def windows(self, x, shape, oc, k, stride, pad, groups) -> None:
        n, c, h, w = shape
        y = self.g.qconv(
            x, oc, (c // groups, k, k), bool(self.rng.integers(2)), strides=[stride] * 2,
            pads=[pad] * 4, group=groups,
        )  # fmt: skip
        new = (n, oc, *((m + 2 * pad - k) // stride + 1 for m in (h, w)))
        others = [value for value, other in self.values if other == new]
        if others and self.rng.integers(2):
            y = self.g.Add(y, others[-1])
        if self.rng.integers(2):
            y = self.g.Relu(y)
        self.add_value(y, new)

    def add(self, x: str, shape) -> None:
        others = [value for value, other in self.values if other == shape]
        self.add_value(self.g.Add(x, others[int(self.rng.integers(len(others)))]), shape)

    def pool(self, x: str, shape) -> None:
        n, c, h, w = shape
        if min(h, w) < 4:
            return
        y = self.g.MaxPool(x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
        self.values.append((y, (n, c, (h - 1) // 2 + 1, (w - 1) // 2 + 1)))

    def concat(self, x: str, shape) -> None:
        n, c, h, w = shape
        others = [(v, s) for v, s in self.values if s[2:] == shape[2:]]
        value, other = others[int(self.rng.integers(len(others)))]
        self.add_value(self.g.Concat(x, value, axis=1), (n, c + other[1], h, w))

    def hardswish(self, x: str, shape) -> None:
        self.add_value(self.g.HardSwish(x), shape)

    def resize(self, x: str, shape) -> None:
        n, c, h, w = shape
        if max(h, w) > 16:
            return
        y = self.g.Resize(x, "", self.g.constant([1, 1, 2, 2]), mode="nearest")
        self.values.append((y, (n, c, 2 * h, 2 * w)))

    def average(self, x: str, shape) -> None:
        y = self.g.Sigmoid(self.quantized(self.g.GlobalAveragePool(x)))
        self.add_value(self.g.Mul(x, y), shape)


@pytest.mark.sampled(11)
@pytest.mark.parametrize("seed", SEEDS)
def test_random_networks_by_the_contract(seed):
    network = Random(seed)
    g, outputs = network.g, network.outputs
    one = run(g.model(*outputs), g.feed, teams=(1, 3))
    curved = {"HardSwish", "Sigmoid"} & {node.op_type for node in g.nodes}
    for x, y in zip(one, exact(folded(g, *outputs), g.feed), strict=True):
        assert x.shape == y.shape and x.dtype == y.dtype
        if curved:
            # Loops round curves otherwise than NumPy; what is behind them follows.
            assert np.corrcoef(x.reshape(-1), y.reshape(-1))[0, 1] > 0.99
        else:
            np.testing.assert_array_equal(x, y)


def test_some_of_them_have_no_curves():
    plain = [
        seed for seed in SEEDS
        if not {"HardSwish", "Sigmoid"} & {node.op_type for node in Random(seed).g.nodes}
    ]  # fmt: skip
    assert len(plain) >= 5


@pytest.mark.unemulated("onnxruntime crashes there when it is imported")
@pytest.mark.parametrize("seed", SEEDS)
def test_random_networks_beside_onnxruntime(seed):
    """onnxruntime computes the numbers between: it rounds ties otherwise, and that goes on."""
    network = Random(seed)
    model = network.g.model(*network.outputs)
    got = InferenceSession(model, threads=1).run(None, network.g.feed)
    for x, y in zip(got, by_onnxruntime(model, network.g.feed), strict=True):
        assert x.shape == y.shape and x.dtype == y.dtype
        scale = max(float(np.abs(y).max()), 1e-3)
        # A unit of the coarsest scale, a few of them behind many layers.
        assert np.abs(x - y).max() <= 4 * 0.041
        assert np.abs(x - y).mean() <= 0.01 * scale


@pytest.mark.parametrize("batch", [2, 6])
def test_images_of_a_batch_are_apart(batch):
    """Each has the bits that it has beside copies of itself."""
    network = Random(5, batch)
    model, feed = network.g.model(*network.outputs), network.g.feed
    together = run(model, feed, teams=(2, 1))
    for image in range(batch):
        repeated = {name: np.repeat(x[image : image + 1], batch, 0) for name, x in feed.items()}
        for y, alone in zip(together, run(model, repeated, teams=(1,)), strict=True):
            assert y.shape[0] == batch
            np.testing.assert_array_equal(y[image], alone[image])


def in_parts(g: Quantized, y: str) -> list[int]:
    """Run six images at once, and two at a time: the same bits, and in so many parts."""
    sessions = []
    for images in (6, 2):
        with mock.patch.object(compiling, "images_at_once", lambda *_, n=images: n):
            sessions.append(session_of(g, y))
            sessions[-1].run(None, g.feed)
    alike(sessions, g.feed)
    return [session.plan_for(g.feed).times for session in sessions]


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("matrix", [False, True])
def test_images_of_a_batch_run_in_parts(residual, matrix):
    g = Quantized(2)
    if matrix:
        x = g.pair(g.input(6, 16))
        y = g.MatMul(x, g.kernel(16, 16, axis=1))
    else:
        x = g.image(6, 16, 9, 7)
        y = g.qconv(x, 16, (16, 3, 3), pads=[1] * 4)
    y = g.pair(g.Relu(g.Add(y, x)) if residual else y, 0.05, 100)
    assert in_parts(g, y) == [1, 3]


def test_constants_that_are_added_to_images_of_integers():
    """They have a part for each image, or one for all: neither is taken for the other."""
    for images in (1, 6):
        g = Quantized(2)
        constant = g.dq(g.constant(g.rng.integers(0, 256, (images, 16, 9, 7)), U8))
        y = g.Add(g.qconv(g.image(6, 16, 9, 7), 16, (16, 1, 1)), constant)
        in_parts(g, g.pair(y, 0.05, 100))


def image(dtype=np.float32) -> tuple[Quantized, str]:
    g = Quantized(1)
    y = g.pair(g.Relu(g.qconv(g.image(1, 3, 20, 18), 16, (3, 3, 3), pads=[1] * 4)), 0.02, 0)
    return g, g.pair(g.qconv(y, 8, (16, 1, 1)), 0.05, 128)


def test_steps():
    g, y = image()
    session = session_of(g, y)
    plan = session.plan_for(g.feed).by_operators()
    # Copies between layouts are where the planner wants them.
    kinds = [step.kind for step in plan.steps if step.kind != "Copy"]
    assert kinds == ["Quantize", "QuantizedConv", "QuantizedConv", "Dequantize"]
    first, second = (step for step in plan.steps if step.kind == "QuantizedConv")
    assert first.detail.startswith("uint8 x int8 to uint8, ") and first.layout == "NHWC"
    assert first.flops == 2 * 27 * 16 * 20 * 18 and second.method
    assert second.weight_bytes >= 8 * 16


def test_the_plan_says_what_a_store_computes():
    g = Quantized()
    y = g.Mul(g.HardSwish(g.qconv(g.image(), 16, (8, 3, 3))), g.constant(0.7))
    y = g.pair(g.Add(y, g.constant(0.31)), 0.02, 17)
    plan = session_of(g, y).plan_for(g.feed).by_operators()
    (step,) = (s for s in plan.steps if s.kind == "QuantizedConv")
    assert step.detail.startswith("uint8 x int8 to uint8, HardSwish, ")


@pytest.mark.parametrize("dtype", [U8, S8])
def test_inputs_and_outputs_of_integers(dtype):
    g = Quantized(2)
    name = g.integers(2, 8, 9, 7, dtype=dtype)
    y = g.q(g.qconv(g.dq(name, 0.03, 5, dtype), 4, (8, 3, 3)), 0.05, 7, dtype)
    g.dtype = dtype
    model = g.model(y)
    session = InferenceSession(model, threads=1)
    assert session.get_inputs()[0].type == f"tensor({dtype})" == session.get_outputs()[0].type
    (got,) = session.run(None, g.feed)
    np.testing.assert_array_equal(got, exact(folded(g, y), g.feed)[0])
    out = np.empty(got.shape, dtype)
    session.run(None, g.feed, out=[out])
    np.testing.assert_array_equal(out, got)
    with pytest.raises(TypeError, match=f"feed: input '{name}' must be {dtype}"):
        session.run(None, {name: g.feed[name].astype(np.float32)})


def test_sessions_travel():
    g, y = image()
    session = session_of(g, y)
    alike([session, *copies(session)], g.feed)


def test_weights_are_shared_between_sizes():
    g = Quantized(3)
    # So many channels that K is whole steps of every kernel, which then all take the same panels.
    x = g.input(1, 64, 9, 7, free=True)
    # Strides keep Winograd's algorithm away, which some CPUs take for one size and not the other.
    y = g.pair(g.Conv(g.pair(x), g.kernel(4, 64, 3, 3), strides=[2, 2]))
    session = session_of(g, y)
    session.run(None, g.feed)
    session.run(None, {x: np.zeros((1, 64, 12, 7), np.float32)})
    assert len(session._network.shared.packed) == 1 and len(session._network.programs) == 2


def test_half_precision():
    """Scales of float16 and arrays of float16: converted at the border, or run as they are."""
    g = Quantized(4, dtype=np.float16)
    x = g.input(1, 8, 9, 7)
    scale, zero = g.constant(0.05, np.float16), g.constant(128, U8)
    y = g.DequantizeLinear(g.QuantizeLinear(x, scale, zero), scale, zero)
    session = session_of(g, y)
    (got,) = session.run(None, g.feed)
    assert got.dtype == np.float16
    integers = np.rint(g.feed[x].astype(np.float64) / np.float64(np.float16(0.05)))
    np.testing.assert_allclose(
        got, np.clip(integers, -128, 127) * np.float64(np.float16(0.05)), atol=0.0505
    )


def test_nothing_runs_in_python():
    g, y = image()
    session = session_of(g, y)
    session.run(None, g.feed)
    assert set(on_host(session)) <= {"Copy"}
