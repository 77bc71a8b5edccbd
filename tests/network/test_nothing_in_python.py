"""Convolutions, pools, Resize, Pad and normalizations run in loops: any axes, types and weights."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from onnx import helper

from pplconv.network.session import InferenceSession
from tests.network.mission import CASES, FLOATS, Mission
from tests.network.mission_bytes import BYTES_CASES
from tests.network.models import model_of
from tests.network.running import by_onnxruntime, needs_onnxruntime, on_host

pytestmark = needs_onnxruntime

# Of the largest number of a result; steps between float16 numbers are rounded on some CPUs.
ALLOWED = {"float16": 8e-3, "float32": 2e-5, "float64": 2e-6, "bfloat16": 5e-3}


def by_onnxruntime_in_float32(mission: Mission) -> np.ndarray:
    """Result of a node of float32."""
    model, feed = mission.model(np.float32, False)
    (y,) = by_onnxruntime(model, feed)
    return np.asarray(y)


def expected(mission: Mission) -> np.ndarray:
    """As `by_onnxruntime_in_float32`; what onnxruntime has for images alone, by images."""
    x = mission.operands[0]
    if mission.op == "LRN":
        image = replace(mission, operands=[x.reshape(*x.shape[:2], -1, 1)])
        return by_onnxruntime_in_float32(image).reshape(x.shape)
    if mission.op != "Resize" or x.ndim == 4 or mission.attributes.get("mode") != "cubic":
        return by_onnxruntime_in_float32(mission)
    scales = mission.operands[2]
    if x.ndim == 3:
        row = replace(mission, operands=[x[:, :, None], None, scales[[0, 1, 0, 2]]])
        return by_onnxruntime_in_float32(row)[:, :, 0]
    n, c, d, h, w = x.shape
    images = x.transpose(0, 2, 1, 3, 4).reshape(n * d, c, h, w)
    rows = replace(mission, operands=[images, None, scales[[0, 1, 3, 4]]])
    flat = by_onnxruntime_in_float32(rows)
    h, w = flat.shape[2:]
    columns = flat.reshape(n, d, c * h * w, 1).transpose(0, 2, 1, 3)
    depths = replace(mission, operands=[columns, None, scales[[0, 1, 2, 0]]])
    deep = by_onnxruntime_in_float32(depths)
    return deep.reshape(n, c, h, w, -1).transpose(0, 1, 4, 2, 3)


@pytest.mark.sampled(24)
@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("name", CASES)
def test_numbers(name, axes):
    """Each type, with known and with computed weights, beside onnxruntime's float32."""
    mission = CASES[name](axes)
    for word, dtype in FLOATS.items():
        wanted = expected(mission.rounded(dtype))
        for computed in (False, True) if mission.weights else (False,):
            model, feed = mission.model(dtype, computed)
            session = InferenceSession(model, threads=1, fallback="error")
            (y,) = session.run(None, feed)
            assert not on_host(session), (word, computed)
            assert y.dtype == dtype and y.shape == wanted.shape
            scale = max(1.0, float(np.abs(wanted).max()))
            error = np.abs(y.astype(np.float64) - wanted).max()
            assert error <= ALLOWED[word] * scale, (word, computed, error)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("name", BYTES_CASES)
def test_bytes(name, axes, dtype):
    """Pairs, operators of quantized arrays and of integers, beside onnxruntime."""
    case = BYTES_CASES[name](axes, dtype)
    session = InferenceSession(case.model, threads=1, fallback="error")
    (y,) = session.run(None, case.feed)
    (wanted,) = by_onnxruntime(case.model, case.feed)
    assert not on_host(session)
    assert y.dtype == wanted.dtype and y.shape == wanted.shape
    if y.dtype.kind == "f":
        np.testing.assert_allclose(y, wanted, rtol=0, atol=2e-5 * np.abs(wanted).max())
    else:
        # Ties of rounding: one unit.
        apart = np.abs(y.astype(np.int64) - wanted.astype(np.int64))
        assert apart.max() <= case.units and np.count_nonzero(apart) <= y.size // 50


@pytest.mark.parametrize("channels", [2, 40])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_zero_points_of_channels(axes, dtype, channels, rng):
    """ConvInteger by computed weights: onnxruntime has one zero point, so it is asked for each."""
    size, kernel = (5, 6, 4)[:axes], (3, 2, 3)[:axes]
    shapes = {"x": (2, channels, *size), "w": (6, channels // 2, *kernel), "zx": (), "zw": (6,)}
    arrays = {}
    for name, shape in shapes.items():
        kind = dtype if "x" in name else np.int8
        bounds = np.iinfo(kind)
        numbers = rng.integers(bounds.min, bounds.max, shape, endpoint=True)
        arrays[name] = np.asarray(numbers).astype(kind)
    given = {"group": 2, "pads": [1, 0, 2, 1, 1, 0][: 2 * axes], "strides": [2] * axes}
    node = helper.make_node("ConvInteger", list(arrays), ["y"], **given)
    session = InferenceSession(model_of([node], arrays, (), {"y": np.int32}), fallback="error")
    (y,) = session.run(None, arrays)
    assert not on_host(session)
    for channel, zero in enumerate(arrays["zw"]):
        feed = {**arrays, "zw": np.asarray(zero)}
        (wanted,) = by_onnxruntime(model_of([node], feed, (), {"y": np.int32}), feed)
        np.testing.assert_array_equal(y[:, channel], wanted[:, channel])


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_all_tails_of_computed_weights(axes, transposed, rng):
    """Channels around the width of vectors and panels, in groups, against float64."""
    op = "ConvTranspose" if transposed else "Conv"
    for _ in range(16):
        groups = int(rng.choice([1, 1, 2, 3]))
        ic, oc = (groups * int(rng.integers(1, 40)) for _ in "xy")
        kernel = [int(k) for k in rng.integers(1, 4, axes)]
        size = [int(n) for n in rng.integers(3, 8, axes)]
        x = rng.standard_normal((int(rng.integers(1, 3)), ic, *size)).astype(np.float32)
        shape = (ic, oc // groups, *kernel) if transposed else (oc, ic // groups, *kernel)
        w = rng.standard_normal(shape).astype(np.float32)
        b = rng.standard_normal(oc).astype(np.float32)
        strides = [int(s) for s in rng.integers(1, 3, axes)]
        node = helper.make_node(op, ["x", "w", "b"], ["y"], group=groups, strides=strides)
        feed = {"x": x, "w": w, "b": b}
        model = model_of([node], feed)
        sessions = [InferenceSession(model, threads=threads) for threads in (1, 2)]
        first, second = (session.run(None, feed)[0] for session in sessions)
        assert not any(map(on_host, sessions))
        np.testing.assert_array_equal(first, second)
        (wanted,) = by_onnxruntime(model, feed)
        np.testing.assert_allclose(first, wanted, rtol=0, atol=2e-5 * np.abs(wanted).max())


@pytest.mark.parametrize("op", ["Conv", "ConvTranspose"])
@pytest.mark.parametrize("shape", [(2, 0, 4, 4), (0, 3, 4, 4), (1, 3, 1, 1)])
def test_computed_weights_of_empty_and_single_arrays(op, shape):
    channels = shape[1]
    x = np.ones(shape, np.float32)
    w = np.full((channels, 2, 1, 1) if op == "ConvTranspose" else (2, channels, 1, 1), 3.0)
    feed = {"x": x, "w": w.astype(np.float32), "b": np.array([1, -1], np.float32)}
    model = model_of([helper.make_node(op, ["x", "w", "b"], ["y"])], feed)
    (y,) = InferenceSession(model, fallback="silent").run(None, feed)
    n, _, h, w = shape
    wanted = np.broadcast_to(3.0 * channels + feed["b"][:, None, None], (n, 2, h, w))
    np.testing.assert_array_equal(y, wanted)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_computed_weights_that_are_not_finite(bad, rng):
    """NaN appears where the direct sum has it: padding is no number that is multiplied."""
    x = rng.standard_normal((1, 5, 6, 6)).astype(np.float32)
    w = rng.standard_normal((7, 5, 3, 3)).astype(np.float32)
    w[3, 2, 0, 1] = bad
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])
    feed = {"x": x, "w": w}
    model = model_of([node], feed)
    (y,) = InferenceSession(model, threads=1).run(None, feed)
    (wanted,) = by_onnxruntime(model, feed)
    others = np.arange(7) != 3
    np.testing.assert_allclose(y[:, others], wanted[:, others], rtol=0, atol=1e-4)
    # The first row of outputs does not see the first row of the window.
    assert np.isfinite(y[0, 3, 0]).all() and not np.isfinite(y[0, 3, 1:]).any()


def test_weights_that_vary_with_the_batch(rng):
    """As many output channels as images: weights made of the batch are not cut as it is."""
    x = rng.standard_normal((3, 3, 9, 9)).astype(np.float32)
    nodes = [
        helper.make_node("Slice", ["x", "begin", "end", "axes"], ["w"]),
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1] * 4),
        helper.make_node("Relu", ["c"], ["y"]),
    ]
    constants = {
        name: np.array(value, np.int64)
        for name, value in {"begin": [0, 0], "end": [3, 3], "axes": [2, 3]}.items()
    }
    model = model_of(nodes, {"x": x}, constants)
    session = InferenceSession(model, threads=1)
    (y,) = session.run(None, {"x": x})
    (wanted,) = by_onnxruntime(model, {"x": x})
    np.testing.assert_allclose(y, wanted, rtol=0, atol=2e-5 * np.abs(wanted).max())
    assert not on_host(session)


def test_infinite_pixels_under_antialias(rng):
    """Inputs without a weight leave no NaN."""
    x = rng.standard_normal((1, 2, 16, 16)).astype(np.float32)
    x[0, 0, 3, 4], x[0, 1, 15, 15] = np.inf, -np.inf
    scales = np.array([1, 1, 0.5, 0.4], np.float32)
    for mode in ("linear", "cubic"):
        node = helper.make_node("Resize", ["x", "", "s"], ["y"], mode=mode, antialias=1)
        model = model_of([node], {"x": x}, {"s": scales})
        (y,) = InferenceSession(model, threads=1).run(None, {"x": x})
        (wanted,) = by_onnxruntime(model, {"x": x})
        np.testing.assert_array_equal(np.isfinite(y), np.isfinite(wanted))


@pytest.mark.parametrize("size", [(40, 1), (1, 700), (240, 200), (900, 900)])
def test_wide_filters(size):
    """Filters of a few hundred rows add up in single precision; wider ones in double precision."""
    x = np.random.default_rng(3).standard_normal((1, 1, *size)).astype(np.float32)
    shape = np.array([1, 1, *(max(n // 250, 1) for n in size)], np.int64)
    node = helper.make_node("Resize", ["x", "", "", "s"], ["y"], mode="linear", antialias=1)
    model = model_of([node], {"x": x}, {"s": shape})
    session = InferenceSession(model, threads=1)
    (y,) = session.run(None, {"x": x})
    (wanted,) = by_onnxruntime(model, {"x": x})
    np.testing.assert_allclose(y, wanted, rtol=0, atol=1e-5)
    assert not on_host(session)


def test_bfloat16_is_rounded_to_nearest_even(rng):
    """As ml_dtypes rounds, with NaN, infinities and subnormal numbers."""
    import ml_dtypes

    bits = rng.integers(0, 1 << 32, 100003, dtype=np.uint64).astype(np.uint32)
    x = bits.view(np.float32).copy()
    x[:4] = np.nan, np.inf, -np.inf, -0.0
    model = model_of([helper.make_node("Cast", ["x"], ["y"], to=16)], {"x": x}, (),
                     {"y": ml_dtypes.bfloat16})  # fmt: skip
    session = InferenceSession(model, threads=1)
    (y,) = session.run(None, {"x": x})
    assert not on_host(session)
    with np.errstate(all="ignore"):
        wanted = x.astype(ml_dtypes.bfloat16)
    number = ~np.isnan(x)
    # Loops flush subnormal numbers.
    normal = number & ((np.abs(x) >= np.finfo(np.float32).tiny) | (x == 0))
    assert np.isnan(y[~number].astype(np.float32)).all()
    np.testing.assert_array_equal(y[normal].view(np.uint16), wanted[normal].view(np.uint16))
    assert math.isinf(y[1]) and math.isinf(y[2])
