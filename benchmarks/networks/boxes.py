"""Whether two probability maps of a detector mark the same lines of text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from benchmarks.networks.engines import Array
from examples.demo.regions import find_regions

LEAST_OVERLAP = 0.95
"""Least intersection over union of each box and its nearest one."""

Corners = NDArray[np.float64]


def overlap(one: Corners, other: Corners) -> float:
    """Give the intersection of two convex polygons over their union.

    Parameters
    ----------
    one, other : ndarray of shape (n, 2)
        Corners in turn, either way round.
    """
    one, other = (_turned(np.asarray(corners, np.float64)) for corners in (one, other))
    inside = list(one)
    for begin, end in zip(other, np.roll(other, -1, axis=0), strict=True):
        inside = _cut(inside, begin, end)
    common = abs(_area(np.array(inside))) if len(inside) > 2 else 0.0
    both = _area(one) + _area(other) - common
    return common / both if both > 0 else 0.0


def _area(corners: Corners) -> float:
    x, y = corners.T
    return 0.5 * float(x @ np.roll(y, -1) - y @ np.roll(x, -1))


def _turned(corners: Corners) -> Corners:
    return corners if _area(corners) >= 0 else corners[::-1]


def _cut(corners: list[Corners], begin: Corners, end: Corners) -> list[Corners]:
    """Clip a polygon to the inner side of a line (Sutherland and Hodgman, 1974)."""
    normal = np.array([begin[1] - end[1], end[0] - begin[0]])
    distances = [float(normal @ (corner - begin)) for corner in corners]
    kept = []
    for i, (corner, distance) in enumerate(zip(corners, distances, strict=True)):
        before = distances[i - 1]
        if before * distance < 0:
            share = before / (before - distance)
            kept.append(corners[i - 1] + share * (corner - corners[i - 1]))
        if distance >= 0:
            kept.append(corner)
    return kept


def same_boxes(outputs: Sequence[Array], expected: Sequence[Array]) -> tuple[float | None, str]:
    """Compare a detector's output with that of the reference.

    Parameters
    ----------
    outputs, expected : sequence of ndarray
        One probability map each, of shape (1, 1, height, width).

    Returns
    -------
    float or None
        How far the worst box is from an overlap of 1.
    str
        What is wrong; empty if there are as many boxes, and each has one that it overlaps by
        `LEAST_OVERLAP`.
    """
    if [one.shape for one in outputs] != [one.shape for one in expected]:
        return None, f"outputs of {[one.shape for one in outputs]}"
    found, wanted = (
        [region.corners for region in find_regions(array[0, 0], array.shape[:-3:-1])]
        for (array,) in (outputs, expected)
    )
    if not wanted:
        return None, "the reference finds no box"
    if len(found) != len(wanted):
        return None, f"{len(found)} boxes, expected {len(wanted)}"
    least = min(max(overlap(box, other) for other in found) for box in wanted)
    wrong = f"a box overlaps by {least:.3f} alone" if least < LEAST_OVERLAP else ""
    return 1 - least, wrong
