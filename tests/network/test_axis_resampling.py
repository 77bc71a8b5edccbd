"""Resize in loops of any axes: regions, integers, volumes, channels, and long filters."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper

from pplconv.network.antialiasing import every_tap_counts
from pplconv.network.resizing import Taps
from pplconv.network.session import InferenceSession
from tests.network.models import model_of
from tests.network.running import by_onnxruntime, needs_onnxruntime, on_host, referred

pytestmark = needs_onnxruntime

SIZES = (7, 9, 8)
INTEGERS = (np.uint8, np.int8, np.int32)
CROP = {"coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 2.5}
# Of the largest number of a result.
ALLOWED = {"float16": 8e-3, "float32": 2e-5, "float64": 2e-6, "bfloat16": 8e-3}


def resize(x: np.ndarray, constants: dict[str, np.ndarray], **attributes: Any) -> onnx.ModelProto:
    """A Resize; `constants` may be ``roi``, ``scales`` and ``sizes``."""
    names = [name if name in constants else "" for name in ("roi", "scales", "sizes")]
    node = helper.make_node("Resize", ["x", *names], ["y"], **attributes)
    return model_of([node], {"x": x}, constants, opset=19)


def by_loops(model: onnx.ModelProto, feed: dict[str, np.ndarray]) -> np.ndarray:
    """The result of teams of one and of two threads, which compute no step in Python."""
    sessions = [InferenceSession(model, threads=n, fallback="error") for n in (1, 2)]
    first, second = (session.run(None, feed)[0] for session in sessions)
    assert not any(map(on_host, sessions))
    np.testing.assert_array_equal(first, second)
    return first


def scales(axes: int, *numbers: float) -> np.ndarray:
    """One for images and channels."""
    return np.array([1, 1, *numbers[:axes]], np.float32)


def region(axes: int) -> np.ndarray:
    """Begins inside and outside, ends inside and outside."""
    return np.array([0, 0, *(0.1, -0.2, 0.3)[:axes], 1, 1, *(1.3, 0.8, 0.9)[:axes]], np.float32)


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_regions(mode, axes, rng):
    """Each type beside onnxruntime's float32, where it has that; else ONNX's reference."""
    x = rng.standard_normal((2, 3, *SIZES[:axes]))
    # The reference takes sizes of fractions where it gets scales.
    constants = {"roi": region(axes), "sizes": np.array([2, 3, *(11, 5, 17)[:axes]])}
    for word, dtype in {
        "float16": np.float16, "float32": np.float32, "float64": np.float64,
        "bfloat16": ml_dtypes.bfloat16,
    }.items():  # fmt: skip
        given = x.astype(dtype)
        y = by_loops(resize(given, constants, mode=mode, **CROP), {"x": given})
        single = given.astype(np.float32)
        model, feed = resize(single, constants, mode=mode, **CROP), {"x": single}
        (wanted,) = (referred if mode == "cubic" and axes != 2 else by_onnxruntime)(model, feed)
        assert y.dtype == dtype and y.shape == wanted.shape
        error = np.abs(y.astype(np.float64) - wanted).max()
        assert error <= ALLOWED[word] * np.abs(wanted).max(), word
        # The number itself stands where the region leaves the image.
        assert (y.astype(np.float32) == 2.5).sum() == np.isclose(wanted, 2.5, atol=1e-5).sum()


def test_a_region_of_one_pixel_and_a_region_beside_the_image(rng):
    x = rng.standard_normal((1, 2, 5, 6)).astype(np.float32)
    for roi in ([0, 0, 0.2, 0.4, 1, 1, 0.2, 0.4], [0, 0, 1.5, 0, 1, 1, 2, 1]):
        for sizes in ([1, 2, 1, 1], [1, 2, 4, 7]):
            constants = {"roi": np.array(roi, np.float32), "sizes": np.array(sizes, np.int64)}
            model = resize(x, constants, mode="linear", **CROP)
            (wanted,) = by_onnxruntime(model, {"x": x})
            np.testing.assert_allclose(by_loops(model, {"x": x}), wanted, rtol=0, atol=1e-5)


def test_a_region_that_crops_the_batch(rng):
    """As many images as before, but others: the batch is not cut into parts."""
    x = rng.standard_normal((4, 2, 3, 3)).astype(np.float32)
    roi = np.array([0.5, 0, 0, 0, 1.0, 1, 1, 1], np.float32)
    constants = {"roi": roi, "scales": np.ones(4, np.float32)}
    node = helper.make_node("Resize", ["x", "roi", "scales"], ["c"], mode="linear", **CROP)
    nodes = [node, helper.make_node("Relu", ["c"], ["y"])]
    model = model_of(nodes, {"x": x}, constants, opset=19)
    y = by_loops(model, {"x": x})
    at = 1.5 + np.arange(4) * 0.5
    low = np.minimum(np.floor(at).astype(int), 2)
    part = (at - low)[:, None, None, None]
    wanted = np.maximum(x[low] * (1 - part) + x[low + 1] * part, 0)
    np.testing.assert_allclose(y, wanted, rtol=0, atol=1e-6)


def test_a_region_of_a_feed(rng):
    """It is read when the program is made, as sizes are."""
    x = rng.standard_normal((1, 2, 5, 6)).astype(np.float32)
    node = helper.make_node("Resize", ["x", "roi", "", "sizes"], ["y"], mode="linear", **CROP)
    feed = {"x": x, "roi": region(2)}
    model = model_of([node], feed, {"sizes": np.array([1, 2, 4, 7])}, opset=19)
    for roi in (region(2), np.array([0, 0, 0, 0, 1, 1, 1, 1], np.float32)):
        feed["roi"] = roi
        (wanted,) = by_onnxruntime(model, feed)
        np.testing.assert_allclose(by_loops(model, feed), wanted, rtol=0, atol=1e-5)


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("where", ["half_pixel", "align_corners", "asymmetric", "crop"])
def test_linear_integers(where, axes, dtype, rng):
    """As onnxruntime has them, to the last bit: rounded toward zero."""
    bounds = np.iinfo(np.int16 if dtype == np.int32 else dtype)
    attributes = CROP if where == "crop" else {"coordinate_transformation_mode": where}
    for factors in ((2, 2, 2), (1.7, 0.6, 1.3), (1, 3, 1)):
        shape = (2, 3, *SIZES[:axes])
        x = rng.integers(bounds.min, bounds.max, shape, endpoint=True).astype(dtype)
        constants = {"scales": scales(axes, *factors)}
        if where == "crop":
            constants["roi"] = region(axes)
        model = resize(x, constants, mode="linear", **attributes)
        (wanted,) = by_onnxruntime(model, {"x": x})
        if where == "crop" and 1 in factors:
            # onnxruntime does not cut axes that keep their size.
            continue
        np.testing.assert_array_equal(by_loops(model, {"x": x}), wanted)


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_cubic_integers(axes, dtype, rng):
    """As ONNX's reference has them: rounded, and cut to the type; onnxruntime has none."""
    bounds = np.iinfo(np.int16 if dtype == np.int32 else dtype)
    x = rng.integers(bounds.min, bounds.max, (2, 3, *SIZES[:axes]), endpoint=True).astype(dtype)
    # Beyond the ends of the type.
    x[0] = np.where(rng.random(x[0].shape) < 0.5, bounds.min, bounds.max)
    model = resize(x, {"scales": scales(axes, 1.7, 0.6, 1.3)}, mode="cubic")
    y = by_loops(model, {"x": x})
    (wanted,) = referred(model, {"x": x})
    assert y.dtype == dtype
    apart = np.abs(y.astype(np.int64) - wanted.astype(np.int64))
    assert apart.max() <= 1 and np.count_nonzero(apart) <= max(3, y.size // 50)


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize(
    ("axes", "mode"), [(1, "linear"), (1, "cubic"), (2, "cubic"), (3, "linear")]
)
def test_antialiased_integers(mode, axes, dtype, rng):
    """Beside onnxruntime's float32; sequences are images of one row there."""
    x = rng.integers(0, 120, (2, 3, *SIZES[:axes])).astype(dtype)
    numbers = scales(axes, 0.5, 0.7, 0.4)
    y = by_loops(resize(x, {"scales": numbers}, mode=mode, antialias=1), {"x": x})
    single = x.astype(np.float32)
    if axes == 1:
        single, numbers = single[:, :, None], scales(2, 1, 0.5)
    model = resize(single, {"scales": numbers}, mode=mode, antialias=1)
    (wanted,) = by_onnxruntime(model, {"x": single})
    bounds = np.iinfo(dtype)
    rounded = np.clip(np.rint(wanted), bounds.min, bounds.max).reshape(y.shape)
    # Each axis is rounded.
    assert np.abs(y - rounded).max() <= 2


@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("dtype", [np.float32, np.uint8])
def test_volumes_that_keep_their_aspect_ratio(dtype, mode, policy, rng):
    for _ in range(4):
        x = (rng.random((1, 2, *rng.integers(2, 9, 3))) * 200).astype(dtype)
        constants = {"sizes": rng.integers(2, 16, 3)}
        model = resize(x, constants, mode=mode, keep_aspect_ratio_policy=policy, axes=[2, 3, 4])
        (wanted,) = by_onnxruntime(model, {"x": x})
        y = by_loops(model, {"x": x})
        assert y.shape == wanted.shape
        tolerance = 1e-5 * 200 if dtype == np.float32 else 0
        np.testing.assert_allclose(y, wanted, rtol=0, atol=tolerance)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint8, np.int64, np.bool_])
def test_all_axes(dtype, rng):
    """Images and channels, too; pixels of any type are repeated."""
    x = (rng.random((2, 3, 4, 5)) * 2).astype(dtype)
    constants = {"scales": np.array([1.5, 2, 0.5, 1.6], np.float32)}
    # The reference has no truths.
    numbers = x.astype(np.int32) if dtype == np.bool_ else x
    (wanted,) = referred(resize(numbers, constants), {"x": numbers})
    y = by_loops(resize(x, constants), {"x": x})
    np.testing.assert_array_equal(y, wanted)
    assert y.dtype == dtype
    if x.dtype.kind == "f":
        model = resize(x, constants, mode="linear")
        (wanted,) = referred(model, {"x": x})
        np.testing.assert_allclose(by_loops(model, {"x": x}), wanted, rtol=0, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.uint8])
@pytest.mark.parametrize("shape", [(1, 2, 3, 5000), (1, 2, 5000, 3), (1, 2, 3000)])
def test_long_filters(shape, dtype, rng):
    """Filters of thousands of pixels, along rows and columns."""
    x = (rng.random(shape) * 200).astype(dtype)
    sizes = np.array([n if n < 1000 else 3 for n in shape])
    y = by_loops(resize(x, {"sizes": sizes}, mode="linear", antialias=1), {"x": x})
    flat = x.astype(np.float64)
    axis = int(np.argmax(shape))
    # Each output is a mean of its neighbours, weighted by a triangle.
    inputs = shape[axis]
    at = (np.arange(3) + 0.5) * inputs / 3 - 0.5
    weights = np.maximum(1 - np.abs(np.arange(-inputs, 2 * inputs) - at[:, None]) * 3 / inputs, 0)
    inside = np.clip(np.arange(-inputs, 2 * inputs), 0, inputs - 1)
    matrix = np.zeros((3, inputs))
    np.add.at(matrix.T, inside, weights.T)
    matrix /= matrix.sum(1, keepdims=True)
    wanted = np.moveaxis(np.moveaxis(flat, axis, -1) @ matrix.T, -1, axis)
    tolerance = 0.51 if dtype == np.uint8 else 0.1 if dtype == np.float16 else 1e-3
    np.testing.assert_allclose(y.astype(np.float64), wanted, rtol=0, atol=tolerance)


def test_every_tap_counts(rng):
    """No weight is zero, and each input has the weight that it had; also of many zeros."""
    for taps in (1, 2, 5, 64):
        weights = rng.standard_normal((40, taps)) * (rng.random((40, taps)) < rng.random((40, 1)))
        weights[:, 0] += 3
        at = np.argsort(rng.random((40, taps)), 1)
        found = every_tap_counts(Taps(at, weights, np.zeros(40, bool)))
        assert (found.weights != 0).all()
        for row in range(40):
            before, after = np.zeros(taps), np.zeros(taps)
            np.add.at(before, at[row], weights[row])
            np.add.at(after, found.at[row], found.weights[row])
            np.testing.assert_allclose(after, before, rtol=1e-15, atol=0)
