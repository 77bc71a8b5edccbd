"""Operators of detectors: regions of images, and boxes that overlap."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ... import planner
from ..._records import NamedTuple
from ...schedules.box_loops import suppress
from ..storage import Array, Shape
from .types import Attributes, Operands

__all__ = ["non_max_suppression", "roi_align"]

# Sampling points of a region, each of them once a channel in memory.
_MOST_POINTS = 1 << 23


class _Samples(NamedTuple):
    """Sampling points along one axis of a region.

    Parameters
    ----------
    low, high : ndarray of int
        The pixels around each of them.
    near, far : ndarray of float32
        Weights of `low` and `high`; zero where the point is outside of the image.
    """

    low: Array
    high: Array
    near: Array
    far: Array


def _sampled(start: float, size: float, bins: int, points: int, pixels: int) -> _Samples:
    """Place the points of all bins, in single precision, as onnxruntime does."""
    each = np.float32(size) / np.float32(bins)
    grid = (np.arange(points, dtype=np.float32) + np.float32(0.5)) * each / np.float32(points)
    places = np.float32(start) + np.arange(bins, dtype=np.float32)[:, None] * each
    places = (places + grid).reshape(-1)
    inside = (places >= -1) & (places <= pixels)
    places = np.clip(places, 0, pixels - 1)
    low = np.minimum(places.astype(np.int64), max(pixels - 2, 0))
    far = np.where(inside, places - low.astype(np.float32), np.float32(0))
    high = np.minimum(low + 1, pixels - 1)
    return _Samples(low, high, np.where(inside, 1 - far, np.float32(0)), far)


def roi_align(attributes: Attributes, operands: Operands, shapes: Sequence[Shape]) -> list[Array]:
    """RoiAlign: averages, or maxima, of points between pixels.

    As in onnxruntime, a maximum is that of the pixels around the points, each times its weight.
    """
    x, regions, images = operands
    assert x is not None and regions is not None and images is not None
    if len(images) != len(regions):
        raise ValueError(f"batch_indices has {len(images)} for {len(regions)} regions")
    outside = (images < 0) | (images >= len(x))
    if outside.any():
        raise ValueError(f"batch_indices has {images[outside][0]}, there are {len(x)} images")
    bins = attributes.get("output_height", 1), attributes.get("output_width", 1)
    half = attributes.get("coordinate_transformation_mode", "half_pixel") == "half_pixel"
    scale, offset = np.float32(attributes.get("spatial_scale", 1.0)), np.float32(0.5 * half)
    corners = regions.astype(np.float32) * scale - offset
    # Columns are x, y of two corners; axes are y, x.
    starts, sizes = corners[:, 1::-1], corners[:, 3:1:-1] - corners[:, 1::-1]
    if not half:
        sizes = np.maximum(sizes, np.float32(1))
    ratio = attributes.get("sampling_ratio", 0)
    counts = np.ceil(sizes / np.array(bins, np.float32)).astype(np.float64)
    counts = np.maximum(np.full_like(counts, ratio) if ratio > 0 else counts, 0)
    points = (counts * bins).prod(1)
    if not (points <= _MOST_POINTS).all():
        raise ValueError(f"a region of {points.max():g} points; at most {_MOST_POINTS} can run")
    join = _maxima if attributes.get("mode", "avg") == "max" else _averages
    y = np.zeros((len(regions), x.shape[1], *bins), x.dtype)
    for number, image in enumerate(images.tolist()):
        grid = tuple(int(n) for n in counts[number])
        if 0 in (*grid, *x.shape):
            continue
        rows, columns = (
            _sampled(*which)
            for which in zip(starts[number], sizes[number], bins, grid, x.shape[2:], strict=True)
        )
        y[number] = join(x[image], rows, columns, bins, grid)
    return [y]


def _averages(
    image: Array, rows: _Samples, columns: _Samples, bins: Sequence[int], grid: Sequence[int]
) -> Array:
    """Average the points of each bin: weights of rows and of columns are two matrices."""
    wide = np.float64 if image.dtype == np.float64 else np.float32
    factors, part = [], image
    for axis, (samples, count, each) in enumerate(zip((rows, columns), bins, grid, strict=True), 1):
        first, last = int(samples.low.min()), int(samples.high.max()) + 1
        part = part[(slice(None),) * axis + (slice(first, last),)]
        matrix = np.zeros((count, last - first), wide)
        bin_of = np.arange(count).repeat(each)
        np.add.at(matrix, (bin_of, samples.low - first), samples.near)
        np.add.at(matrix, (bin_of, samples.high - first), samples.far)
        factors.append(matrix / each)
    means: Array = factors[0] @ part.astype(wide, copy=False) @ factors[1].T
    return means


def _maxima(
    image: Array, rows: _Samples, columns: _Samples, bins: Sequence[int], grid: Sequence[int]
) -> Array:
    """Take the largest weighted pixel of each bin."""
    best = np.full((len(image), len(rows.low), len(columns.low)), -np.inf, image.dtype)
    for y, above in ((rows.low, rows.near), (rows.high, rows.far)):
        for x, left in ((columns.low, columns.near), (columns.high, columns.far)):
            weighted = image[:, y[:, None], x] * (above[:, None] * left)
            np.maximum(best, weighted, out=best, casting="same_kind")
    (h, w), (rows_of, columns_of) = bins, grid
    result: Array = best.reshape(-1, h, rows_of, w, columns_of).max((2, 4))
    return result


def non_max_suppression(
    attributes: Attributes, operands: Operands, shapes: Sequence[Shape]
) -> list[Array]:
    """NonMaxSuppression: the best boxes of each class that overlap no better one too much.

    Boxes of equal scores keep their order. Rows are (image, class, box).
    """
    boxes, scores, *limits = operands
    assert boxes is not None and scores is not None
    most, overlap, least = (None if x is None or not x.size else x.reshape(-1)[0]
                            for x in [*limits, *[None] * 3][:3])  # fmt: skip
    overlap = np.float32(0 if overlap is None else overlap)
    if not 0 <= overlap <= 1:
        raise ValueError(f"iou_threshold is {overlap}, expected a number from 0 to 1")
    if boxes.shape[::2] != (scores.shape[0], 4) or boxes.shape[1] != scores.shape[2]:
        raise ValueError(f"boxes has the shape {boxes.shape}, scores {scores.shape}")
    count = 0 if most is None else max(int(most), 0)
    isa = planner.default_context("f32").isa
    found = []
    for image, corners in enumerate(_corners(boxes, attributes.get("center_point_box", 0))):
        for number, of_class in enumerate(scores[image]):
            chosen = np.arange(of_class.size) if least is None else np.flatnonzero(of_class > least)
            if not chosen.size:
                continue
            order = chosen[np.argsort(-of_class[chosen], kind="stable")]
            # Each coordinate of all boxes lies together, best box first.
            sorted_boxes = np.ascontiguousarray(corners[order].T, np.float32)
            taken = order[suppress(sorted_boxes, float(overlap), count, isa)]
            numbers = (np.full(taken.size, n) for n in (image, number))
            found.append(np.stack([*numbers, taken], 1))
    return [np.concatenate(found) if found else np.empty((0, 3), np.int64)]


def _corners(boxes: Array, centred: int) -> Array:
    """Give boxes as two corners: four coordinates."""
    if centred:
        middle, half = boxes[..., :2], boxes[..., 2:] / 2
        return np.concatenate([middle - half, middle + half], -1)
    return boxes
