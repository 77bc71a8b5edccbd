"""From regions of a picture to the networks' inputs: upright lines of text, of a fixed height.

The shapes are PaddleOCR's: 48 pixels high, in blue, green and red from -1 to 1, with grey where a
line is shorter than its picture.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from PIL import Image

from examples.demo.picture import normalised
from examples.demo.regions import Region

__all__ = [
    "CLASSIFIER_WIDTH",
    "HEIGHT",
    "WIDTHS",
    "crop",
    "line_input",
    "reading_order",
    "width_of",
]

HEIGHT = 48
"""Height of a line in pixels, for which both networks were trained."""

CLASSIFIER_WIDTH = 192
"""Width of the classifier's input in pixels; longer lines are squeezed into it."""

WIDTHS = (160, 320, 480, 640, 960, 1280, 1920)
"""Widths of the recogniser's inputs, in pixels.

A session makes a program for each set of input shapes, so there are few widths, and each line goes
by itself: batches of 2 to 8 lines took 0.91 to 1.0 of the time of as many single ones (Granite
Rapids, two threads), and would each be a program more.
"""

TALL = 1.5
"""Height over width from which a line counts as set sideways."""


def reading_order(regions: Sequence[Region]) -> list[Region]:
    """Sort regions by rows, and each row from left to right.

    Parameters
    ----------
    regions : sequence of Region
        In any order.

    Returns
    -------
    list of Region
    """
    rest = sorted(regions, key=lambda region: float(region.corners[:, 1].mean()))
    rows: list[list[Region]] = []
    for region in rest:
        if rows and _middle(region) - _middle(rows[-1][0]) < _height(rows[-1][0]) / 2:
            rows[-1].append(region)
        else:
            rows.append([region])
    return [
        region
        for row in rows
        for region in sorted(row, key=lambda region: float(region.corners[:, 0].mean()))
    ]


def _middle(region: Region) -> float:
    return float(region.corners[:, 1].mean())


def _height(region: Region) -> float:
    top_left, _, _, bottom_left = upright(region.corners)
    return float(np.hypot(*(bottom_left - top_left)))


def upright(corners: np.ndarray) -> np.ndarray:
    """Turn the list of corners until its first side runs to the right.

    Parameters
    ----------
    corners : ndarray of shape (4, 2)
        Corners x, y of a quadrilateral, in turn.

    Returns
    -------
    ndarray of shape (4, 2)
        Top left, top right, bottom right, bottom left.
    """
    following = np.roll(corners, -1, axis=0)
    area = np.sum(corners[:, 0] * following[:, 1] - following[:, 0] * corners[:, 1])
    if area < 0:  # y points down: clockwise on the picture is positive
        corners = corners[::-1]
    sides = np.roll(corners, -1, axis=0) - corners
    lengths = np.maximum(np.hypot(sides[:, 0], sides[:, 1]), 1e-9)
    return np.roll(corners, -int(np.argmax(sides[:, 0] / lengths)), axis=0)


def crop(image: Image.Image, corners: np.ndarray) -> Image.Image:
    """Cut a line out of a picture, and turn it until it is horizontal.

    Parameters
    ----------
    image : PIL.Image.Image
        The picture, in RGB.
    corners : ndarray of shape (4, 2)
        Corners of the line, x and y in pixels.

    Returns
    -------
    PIL.Image.Image
        As large as the line is in the picture. A line set sideways is turned by 90 degrees, against
        the clock.
    """
    corners = upright(np.asarray(corners, dtype=np.float64))
    top_left, top_right, bottom_right, bottom_left = corners
    width = max(np.hypot(*(top_right - top_left)), np.hypot(*(bottom_right - bottom_left)))
    height = max(np.hypot(*(bottom_left - top_left)), np.hypot(*(bottom_right - top_right)))
    size = max(1, round(float(width))), max(1, round(float(height)))
    places = tuple(float(v) for corner in (top_left, bottom_left, bottom_right, top_right)
                   for v in corner)  # fmt: skip
    line = image.transform(size, Image.Transform.QUAD, places, Image.Resampling.BICUBIC)
    if size[1] >= TALL * size[0]:
        line = line.transpose(Image.Transpose.ROTATE_90)
    return line


def width_of(line: Image.Image) -> int:
    """Choose the width of the recogniser's input for a line.

    Parameters
    ----------
    line : PIL.Image.Image
        A line of any size.

    Returns
    -------
    int
        The least of `WIDTHS` that has room for it; the largest for longer ones.
    """
    wanted = HEIGHT * line.width / line.height
    return next((width for width in WIDTHS if width >= wanted), WIDTHS[-1])


def line_input(line: Image.Image, width: int) -> np.ndarray:
    """Scale a line to `HEIGHT`, and pad it with grey to a width.

    Parameters
    ----------
    line : PIL.Image.Image
        The line, in RGB.
    width : int
        Pixels; a longer line is squeezed.

    Returns
    -------
    ndarray of shape (1, 3, 48, width), float32
        The channels blue, green and red, between -1 and 1; 0 beside the line.
    """
    own = min(width, max(1, math.ceil(HEIGHT * line.width / line.height)))
    scaled = line.resize((own, HEIGHT), Image.Resampling.BILINEAR)
    x = np.zeros((1, 3, HEIGHT, width), np.float32)
    x[:, :, :, :own] = normalised(scaled)
    return x
