"""MaxPool with places, and MaxUnpool: sequences, images and volumes, beside onnxruntime."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper

from pplconv.network.session import InferenceSession
from tests.network.models import model_of
from tests.network.running import by_onnxruntime, needs_onnxruntime, on_host

pytestmark = needs_onnxruntime

SIZES = (7, 9, 8)
WINDOWS: dict[str, dict[str, Any]] = {
    "plain": {}, "strides": {"strides": (2, 3, 2)},
    "pads": {"strides": (2, 2, 2), "pads": (1, 0, 1, 1, 1, 0)},
    "dilations": {"dilations": (2, 1, 2), "pads": (1,) * 6},
    "ceil": {"strides": (2, 2, 2), "ceil_mode": 1},
    "ceil pads": {"strides": (2, 3, 2), "ceil_mode": 1, "pads": (1,) * 6},
    "upper": {"strides": (2, 2, 2), "auto_pad": "SAME_UPPER"},
    "lower": {"auto_pad": "SAME_LOWER"}, "valid": {"auto_pad": "VALID"},
}  # fmt: skip


def window(axes: int, name: str, kernel: int = 3) -> dict[str, Any]:
    """Attributes of a window with so many axes."""
    found: dict[str, Any] = {"kernel_shape": [kernel] * axes}
    for word, value in WINDOWS[name].items():
        pairs = [*value[:axes], *value[3 : 3 + axes]] if isinstance(value, tuple) else value
        found[word] = pairs
    return found


def pool_of(x: np.ndarray, attributes: dict[str, Any], outputs: int = 2) -> onnx.ModelProto:
    """A MaxPool."""
    names = ["y", "places"][:outputs]
    node = helper.make_node("MaxPool", ["x"], names, **attributes)
    kinds = {"y": x.dtype, "places": np.dtype(np.int64)}
    opset = 22 if x.dtype == ml_dtypes.bfloat16 else 18
    return model_of([node], {"x": x}, (), {name: kinds[name] for name in names}, opset=opset)


def pooled(x: np.ndarray, attributes: dict[str, Any]) -> list[np.ndarray]:
    """Run it in loops, on teams of one thread and of two."""
    model = pool_of(x, attributes)
    sessions = [InferenceSession(model, threads=n, fallback="error") for n in (1, 2)]
    first, second = (session.run(None, {"x": x}) for session in sessions)
    assert not any(map(on_host, sessions))
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)
    return first


@pytest.mark.sampled(24)
@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("name", WINDOWS)
def test_places(name, axes, order, rng):
    """All types; few numbers, so that many are equal: the first one counts."""
    attributes = window(axes, name) | {"storage_order": order}
    numbers = rng.integers(-9, 9, (2, 5, *SIZES[:axes]))
    wanted = by_onnxruntime(
        pool_of(numbers.astype(np.float32), attributes), {"x": numbers.astype(np.float32)}
    )
    for dtype in (np.float16, np.float32, np.float64, ml_dtypes.bfloat16, np.int8, np.uint8):
        x = (numbers + 9 if dtype == np.uint8 else numbers).astype(dtype)
        y, places = pooled(x, attributes)
        assert y.dtype == dtype and places.dtype == np.int64
        number = y.astype(np.float32) - (9 if dtype == np.uint8 else 0)
        np.testing.assert_array_equal(number, wanted[0])
        np.testing.assert_array_equal(places, wanted[1])


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.uint8])
@pytest.mark.parametrize("channels", [1, 3, 8, 21])
def test_numbers_of_onnxruntimes_types(dtype, channels, rng):
    """Any number of channels, in the same type."""
    x = rng.integers(0, 100, (3, channels, 11, 6)).astype(dtype)
    attributes = {"kernel_shape": [2, 3], "strides": [2, 1], "pads": [0, 1, 1, 1]}
    y, places = pooled(x, attributes)
    wanted = by_onnxruntime(pool_of(x, attributes), {"x": x})
    np.testing.assert_array_equal(y, wanted[0])
    np.testing.assert_array_equal(places, wanted[1])


def test_nan_and_infinities():
    """The first NaN is the largest, as in NumPy; -inf counts as any number."""
    x = np.full((1, 1, 2, 6), -np.inf, np.float32)
    x[0, 0, 1, 2:4] = np.nan
    y, places = pooled(x, {"kernel_shape": [2, 2], "strides": [2, 2]})
    np.testing.assert_array_equal(y.reshape(-1), [-np.inf, np.nan, -np.inf])
    np.testing.assert_array_equal(places.reshape(-1), [0, 8, 4])


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.uint8])
@pytest.mark.parametrize("outputs", [1, 2])
def test_windows_of_padding_alone(dtype, outputs):
    """Both taps of the middle lie beside the image: the lowest number, and no place."""
    x = np.array([[[3, 4]]], dtype)
    attributes = {"kernel_shape": [2], "dilations": [3], "pads": [2, 2]}
    model = pool_of(x, attributes, outputs)
    session = InferenceSession(model, threads=1, fallback="error")
    y, *places = session.run(None, {"x": x})
    assert not on_host(session)
    lowest = np.finfo(dtype).min if x.dtype.kind == "f" else np.iinfo(dtype).min
    np.testing.assert_array_equal(y.reshape(-1), [4, lowest, 3])
    for found in places:
        np.testing.assert_array_equal(found.reshape(-1), [1, -1, 0])


def test_places_alone_and_places_that_are_read(rng):
    """Only the places leave the network; or both go on in loops."""
    x = rng.standard_normal((2, 4, 8, 8)).astype(np.float32)
    pool = helper.make_node("MaxPool", ["x"], ["p", "i"], kernel_shape=[2, 2], strides=[2, 2])
    alone = model_of([pool], {"x": x}, (), {"i": np.dtype(np.int64)})
    session = InferenceSession(alone, threads=1)
    (places,) = session.run(None, {"x": x})
    np.testing.assert_array_equal(places, by_onnxruntime(alone, {"x": x})[0])
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("MaxPool", ["r"], ["p", "i"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Neg", ["p"], ["n"]),
        helper.make_node("MaxUnpool", ["n", "i"], ["y"], kernel_shape=[2, 2], strides=[2, 2]),
    ]
    model = model_of(nodes, {"x": x})
    session = InferenceSession(model, threads=1, fallback="error")
    (y,) = session.run(None, {"x": x})
    assert not on_host(session)
    np.testing.assert_array_equal(y, by_onnxruntime(model, {"x": x})[0])


def unpool_of(feed: dict[str, np.ndarray], shape: Any = None, **attributes: Any) -> Any:
    """A MaxUnpool."""
    names = ["x", "i", *(["s"] if shape is not None else [])]
    constants = {} if shape is None else {"s": np.array(shape, np.int64)}
    node = helper.make_node("MaxUnpool", names, ["y"], **attributes)
    return model_of([node], feed, constants)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_unpool(axes, dtype, rng):
    """The places of a MaxPool, and back."""
    x = rng.standard_normal((2, 3, *(6, 4, 8)[:axes])).astype(np.float32)
    attributes = {"kernel_shape": [2] * axes, "strides": [2] * axes}
    y, places = pooled(x, attributes)
    feed = {"x": y.astype(dtype), "i": places}
    model = unpool_of(feed, **attributes)
    session = InferenceSession(model, threads=1, fallback="error")
    (back,) = session.run(None, feed)
    assert not on_host(session) and back.dtype == dtype
    wide = {"x": feed["x"].astype(np.float32), "i": places}
    (wanted,) = by_onnxruntime(unpool_of(wide, **attributes), wide)
    np.testing.assert_array_equal(back.astype(np.float32), wanted)


def test_unpool_into_a_larger_shape():
    """As ONNX's own test has it: places count in the usual shape."""
    feed = {
        "x": np.arange(1, 5, dtype=np.float32).reshape(1, 1, 2, 2),
        "i": np.array([5, 7, 13, 15]).reshape(1, 1, 2, 2),
    }
    model = unpool_of(feed, [1, 1, 5, 5], kernel_shape=[2, 2], strides=[2, 2])
    session = InferenceSession(model, threads=1, fallback="error")
    (y,) = session.run(None, feed)
    wanted = np.zeros((1, 1, 5, 5), np.float32)
    wanted[0, 0, [1, 1, 3, 3], [1, 3, 1, 3]] = 1, 2, 3, 4
    np.testing.assert_array_equal(y, wanted)
    assert not on_host(session)


@pytest.mark.parametrize("place", [-1, 16, 2**40])
def test_places_that_are_none_are_refused(place):
    feed = {"x": np.ones((1, 1, 2, 2), np.float32), "i": np.array([[[[0, 1], [place, 3]]]])}
    session = InferenceSession(unpool_of(feed, kernel_shape=[2, 2], strides=[2, 2]), threads=1)
    with pytest.raises(ValueError, match="of 'y"):
        session.run(None, feed)


@pytest.mark.parametrize(
    ("shape", "attributes", "words"),
    [
        ([1, 1, 3, 4], {"strides": [2, 2]}, "output_shape"),
        ([1, 1, 4], {"strides": [2, 2]}, "output_shape"),
        (None, {"strides": [2]}, "strides"),
        (None, {"strides": [2, 2], "pads": [3, 3, 3, 3]}, "-2"),
        (None, {"strides": [0, 2]}, "strides"),
    ],
)
def test_contradictions_are_refused(shape, attributes, words):
    """By operator, node and attribute."""
    feed = {"x": np.ones((1, 1, 2, 2), np.float32), "i": np.zeros((1, 1, 2, 2), np.int64)}
    model = unpool_of(feed, shape, kernel_shape=[2, 2], **attributes)
    with pytest.raises(ValueError, match=f"(?s)MaxUnpool.*{words}"):
        InferenceSession(model, threads=1).run(None, feed)
