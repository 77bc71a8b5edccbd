"""Text regions from the probability map of a DB text detector.

DB ("differentiable binarization", Liao et al., AAAI 2020) is trained to mark text that was shrunk
towards its middle line, so that neighbouring lines stay apart.  A region is therefore found in four
steps: a threshold, connected components, the smallest rectangle around each of them, and that
rectangle grown by what the training had taken off.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import ndimage
from scipy.spatial import ConvexHull

__all__ = ["Region", "find_regions", "smallest_rectangle"]


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """A piece of text, usually a line of it.

    Parameters
    ----------
    corners : ndarray of shape (4, 2)
        Corners x, y of a rectangle, in turn, in pixels of the picture from its top left corner.
    score : float
        Mean probability of text over the pixels that were marked, 0 to 1.
    """

    corners: np.ndarray
    score: float


def find_regions(
    probability: np.ndarray,
    picture_size: tuple[int, int],
    *,
    threshold: float = 0.3,
    least_score: float = 0.5,
    growth: float = 1.6,
    least_side: float = 3.0,
) -> list[Region]:
    """Find the text regions that a probability map marks.

    Parameters
    ----------
    probability : ndarray of shape (H, W)
        Probability of (shrunk) text at each pixel of the network's input.
    picture_size : tuple of int
        Width and height of the picture that the regions are wanted for, in pixels.
    threshold : float, optional
        Probability from which a pixel counts as text.
    least_score : float, optional
        Regions with a lower score are left out.
    growth : float, optional
        How far regions are grown: by `growth` times area over perimeter, on all sides.
    least_side : float, optional
        Regions with a shorter side than this, in pixels of the map, are left out as specks.

    Returns
    -------
    list of Region
        From top to bottom.
    """
    # Two by two closes the one-pixel gaps that upsampling leaves inside a line.
    text = ndimage.binary_dilation(probability > threshold, np.ones((2, 2), dtype=bool))
    labels, _ = ndimage.label(text, np.ones((3, 3), dtype=bool))
    scale = np.array(picture_size) / probability.shape[::-1]
    limit = np.array(picture_size, dtype=np.float64)
    regions = []
    for label, box in enumerate(ndimage.find_objects(labels), start=1):
        inside = labels[box] == label
        # Over the component, not over its rectangle: of a curved line the rectangle is half paper.
        score = float(probability[box][inside].mean())
        rows, columns = np.nonzero(inside)
        centre, axes, half = smallest_rectangle(
            np.stack([columns + box[1].start, rows + box[0].start], axis=1)
        )
        if score < least_score or 2 * half.min() < least_side:
            continue
        width, height = 2 * half
        grown = half + growth * (width * height) / (2 * (width + height))
        signs = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]])
        corners = centre + (signs * grown) @ axes
        regions.append(Region(np.clip(corners * scale, 0, limit), score))
    return sorted(regions, key=lambda region: float(region.corners[:, 1].mean()))


def smallest_rectangle(pixels: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Find the rectangle of least area, at any angle, that holds all pixels.

    Parameters
    ----------
    pixels : ndarray of shape (n, 2), integer
        Columns and rows of at least one pixel, each covering a unit square from there on.

    Returns
    -------
    centre : ndarray of shape (2,)
        Middle of the rectangle, x and y.
    axes : ndarray of shape (2, 2)
        Unit vectors along its sides, as rows.
    half : ndarray of shape (2,)
        Half of its sides, along the two axes.
    """
    # With the squares' corners a single pixel, or a row of them, has an area too.
    points = np.concatenate([pixels + corner for corner in ([0, 0], [1, 0], [0, 1], [1, 1])])
    hull = points[ConvexHull(points).vertices].astype(np.float64)
    # One side of the smallest rectangle lies on a side of the hull (Freeman and Shapira, 1975).
    edges = np.roll(hull, -1, axis=0) - hull
    directions = edges / np.hypot(edges[:, :1], edges[:, 1:])
    normals = np.stack([-directions[:, 1], directions[:, 0]], axis=1)
    along, across = directions @ hull.T, normals @ hull.T
    area = np.ptp(along, axis=1) * np.ptp(across, axis=1)
    best = int(np.argmin(area))
    axes = np.stack([directions[best], normals[best]])
    low = np.array([along[best].min(), across[best].min()])
    high = np.array([along[best].max(), across[best].max()])
    return ((low + high) / 2) @ axes, axes, (high - low) / 2
