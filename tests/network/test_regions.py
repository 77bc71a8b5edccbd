"""Operators of detectors beside onnxruntime: regions of images, boxes, best elements."""

from __future__ import annotations

import numpy as np
import pytest

from pplconv.network.operators.table import COMPUTED
from pplconv.network.session import InferenceSession
from tests.network.drawing_cases import Case
from tests.network.running import agree, by_onnxruntime, compare_models, needs_onnxruntime, on_host

I64 = np.int64


def regions(rng, count, reach):
    """Corners around an image of some pixels; some regions are turned, empty or outside."""
    corner = rng.uniform(-reach / 2, reach, (count, 2))
    return np.concatenate([corner, corner + rng.uniform(-2, reach, (count, 2))], 1)


@needs_onnxruntime
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("coordinates", ["half_pixel", "output_half_pixel"])
def test_regions_of_any_size(dtype, mode, coordinates, rng):
    """Tails of channels, images of one pixel, more points than pixels; in loops."""
    for channels in (1, 3, 16, 17, 70, 130):
        for ratio in (0, 1, 3):
            height, width = (int(n) for n in rng.integers(1, 24, 2))
            corners = regions(rng, 7, 20).astype(dtype)
            case = Case(
                [
                    rng.standard_normal((2, channels, height, width)).astype(dtype),
                    corners,
                    rng.integers(0, 2, 7),
                ],
                {
                    "mode": mode, "sampling_ratio": ratio, "output_height": int(rng.integers(1, 8)),
                    "output_width": int(rng.integers(1, 8)),
                    "spatial_scale": float(rng.uniform(0.2, 1.5)),
                    "coordinate_transformation_mode": coordinates,
                },
            )  # fmt: skip
            session = compare_models(case.model("RoiAlign"), case.feed())
            assert not on_host(session)


@pytest.mark.parametrize("mode", ["avg", "max"])
def test_regions_of_half_precision(mode, g, rng):
    """Sums are in float; corners are rounded to halves before."""
    x = rng.standard_normal((2, 20, 9, 11)).astype(np.float16)
    corners, images = regions(rng, 5, 9).astype(np.float16), rng.integers(0, 2, 5)
    how = {"mode": mode, "output_height": 3, "output_width": 2}
    (expected,) = COMPUTED["RoiAlign"](
        how, [x.astype(np.float32), corners.astype(np.float32), images], ()
    )
    model = Case([x, corners, images], how).model("RoiAlign")
    (y,) = InferenceSession(model, threads=1).run(None, {"x0": x, "x1": corners, "x2": images})
    assert y.dtype == np.float16
    np.testing.assert_allclose(y, expected, rtol=2e-3, atol=2e-3)


def test_teams_give_the_same_regions(rng):
    case = Case(
        [rng.standard_normal((1, 33, 30, 31)).astype(np.float32),
         regions(rng, 50, 30).astype(np.float32), np.zeros(50, I64)],
        {"output_height": 7, "output_width": 7},
    )  # fmt: skip
    model = case.model("RoiAlign")
    one, two = (InferenceSession(model, threads=n).run(None, case.feed())[0] for n in (1, 2))
    assert one.tobytes() == two.tobytes()


def test_regions_that_are_no_numbers(rng):
    """Without a number of points NaN has too many; else all its points are outside."""
    x, corners = rng.random((1, 4, 5, 5), np.float32), np.float32([[0, np.nan, 3, 2]])
    image = np.zeros(1, I64)
    for ratio in (0, 2):
        model = Case([x, corners, image], {"sampling_ratio": ratio}).model("RoiAlign")
        session = InferenceSession(model, threads=1)
        feed = {"x0": x, "x1": corners, "x2": image}
        if ratio:
            assert not session.run(None, feed)[0].any()
        else:
            with pytest.raises(ValueError, match=r"RoiAlign of 'y0'.*points"):
                session.run(None, feed)


@pytest.mark.parametrize("image", [-1, 2, 1 << 40])
def test_regions_of_images_that_are_not_there(image, rng):
    case = Case([rng.random((2, 3, 5, 5), np.float32), np.zeros((1, 4), np.float32), I64([image])])
    session = InferenceSession(case.model("RoiAlign"), threads=1)
    with pytest.raises(ValueError, match=r"RoiAlign of 'y0'.*out of range"):
        session.run(None, case.feed())


@needs_onnxruntime
@pytest.mark.parametrize("centred", [0, 1])
def test_many_boxes(centred, rng):
    """More boxes taken than vectors have lanes; ties, boxes without an area, and limits."""
    for count in (1, 17, 300):
        boxes = rng.uniform(0, 30, (2, count, 4)).astype(np.float32)
        boxes[..., 2:] = rng.uniform(0, 9, (2, count, 2)) + (0 if centred else boxes[..., :2])
        boxes[:, rng.random(count) < 0.1, 2:] = 0 if centred else boxes[0, 0, :2]
        scores = rng.random((2, 3, count)).round(2).astype(np.float32)
        for limit in (0, 3, count + 9):
            limits = [I64([limit]), np.float32([rng.random()]), np.float32([0.2])]
            case = Case([boxes, scores, *limits], {"center_point_box": centred})
            compare_models(case.model("NonMaxSuppression"), case.feed())


def test_boxes_and_scores_of_other_numbers():
    boxes, scores = np.zeros((1, 3, 4), np.float32), np.zeros((1, 2, 4), np.float32)
    with pytest.raises(ValueError, match="boxes has the shape"):
        COMPUTED["NonMaxSuppression"]({}, [boxes, scores, I64([2])], ())


@needs_onnxruntime
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, I64])
@pytest.mark.parametrize("largest", [0, 1])
def test_best_elements(dtype, largest, rng):
    """All numbers of them, ties, any axis, with and without an order."""
    x = rng.integers(-30, 30, (3, 50, 4)).astype(dtype)
    for axis in (0, 1, -1):
        for count in sorted({0, 1, x.shape[axis] // 2, x.shape[axis]}):
            given = {"axis": axis, "largest": largest}
            model = Case([x, I64([count])], given, (1,), outputs=2).model("TopK")
            expected = by_onnxruntime(model, {"x0": x})
            agree(COMPUTED["TopK"](given, [x, I64([count])], ()), expected)


def test_best_elements_with_nan():
    x = np.float32([3, np.nan, 5, np.nan, -np.inf])
    values, places = COMPUTED["TopK"]({}, [x, I64([4])], ())
    np.testing.assert_array_equal(values, [np.nan, np.nan, 5, 3])
    assert places.tolist() == [1, 3, 2, 0]
    _, places = COMPUTED["TopK"]({"largest": 0}, [x, I64([5])], ())
    assert places.tolist() == [4, 0, 2, 1, 3]
