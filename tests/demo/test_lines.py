"""Lines are cut out of pictures in which their position is known."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from examples.demo.lines import (
    HEIGHT,
    WIDTHS,
    crop,
    line_input,
    reading_order,
    upright,
    width_of,
)
from examples.demo.regions import Region

BOX = np.array([[10, 20], [110, 20], [110, 40], [10, 40]], dtype=float)


def turned(corners, degrees, centre=(100, 100)):
    """Turn points around a centre; as y points down, positive angles turn clockwise."""
    angle = np.radians(degrees)
    matrix = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    return (corners - centre) @ matrix + centre


@pytest.mark.parametrize("first", range(4))
@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("degrees", [0, 30, -40])
def test_corners_begin_at_the_top_left(first, backwards, degrees):
    wanted = turned(BOX, degrees)
    given = np.roll(wanted, first, axis=0)
    np.testing.assert_allclose(upright(given[::-1] if backwards else given), wanted)


def test_corners_of_a_point():
    assert upright(np.zeros((4, 2))).shape == (4, 2)


def gradient(width=200, height=200):
    """A picture whose red grows to the right and whose green grows downward."""
    rows, columns = np.indices((height, width))
    return Image.fromarray(np.stack([columns, rows, 0 * rows], axis=2).astype(np.uint8))


def test_an_upright_line_is_the_part_of_the_picture():
    image = gradient()
    line = crop(image, np.roll(BOX, 2, axis=0))
    assert line.size == (100, 20)
    expected = np.asarray(image)[20:40, 10:110].astype(int)
    assert np.abs(np.asarray(line).astype(int) - expected).max() <= 1


@pytest.mark.parametrize("degrees", [15, -25, 44])
def test_a_tilted_line_lies_after_it_is_cut(degrees):
    corners = turned(BOX + 50, degrees)
    line = crop(gradient(), corners)
    assert line.size == (100, 20)
    found = np.asarray(line).astype(float)[2:-2, 2:-2, :2]
    across = (np.arange(100) + 0.5) / 100
    down = (np.arange(20) + 0.5) / 20
    top_left, top_right, _, bottom_left = corners
    places = (
        top_left
        + across[None, :, None] * (top_right - top_left)
        + down[:, None, None] * (bottom_left - top_left)
        - 0.5
    )
    assert np.abs(found - places[2:-2, 2:-2]).max() <= 1.6


def test_a_sideways_line_is_turned_against_the_clock():
    line = crop(gradient(), np.array([[50, 20], [70, 20], [70, 120], [50, 120]], dtype=float))
    assert line.size == (100, 20)
    pixels = np.asarray(line).astype(int)
    # The former right border is on top, the former top at the left.
    assert pixels[0, 0, 0] > pixels[-1, 0, 0]
    assert pixels[0, 0, 1] < pixels[0, -1, 1]
    assert abs(pixels[0, 0, 1] - 20) <= 1


def test_a_line_of_no_size_is_a_pixel():
    assert crop(gradient(), np.full((4, 2), 30.0)).size == (1, 1)


@pytest.mark.parametrize(
    ("size", "width"),
    [((10, 100), 160), ((320, 48), 320), ((321, 48), 480), ((640, 12), 1920), ((9000, 10), 1920)],
)
def test_there_are_few_widths(size, width):
    assert width_of(Image.new("RGB", size)) == width
    assert len(WIDTHS) < 8  # a session keeps a program for each
    assert list(WIDTHS) == sorted(WIDTHS)


def test_a_line_is_scaled_and_filled_up_with_grey():
    x = line_input(Image.new("RGB", (40, 24), (255, 0, 127)), 160)
    assert x.shape == (1, 3, HEIGHT, 160)
    assert x.dtype == np.float32
    # Channels are blue, green, red; 40 by 24 pixels become 80 by 48.
    np.testing.assert_allclose(x[0, :, 0, 0], [127 / 127.5 - 1, -1, 1], atol=1e-6)
    assert np.all(x[:, :, :, :80] != 0)
    assert not x[:, :, :, 80:].any()


def test_a_long_line_is_squeezed():
    x = line_input(Image.new("RGB", (9000, 10), "white"), 1920)
    assert x.shape[3] == 1920
    np.testing.assert_allclose(x, 1)


def region(x, y, height=20, width=60):
    corners = np.array([[0, 0], [width, 0], [width, height], [0, height]], dtype=float)
    return Region(corners + np.array([x, y]), 1.0)


def test_rows_are_read_from_left_to_right():
    right, left = region(200, 10), region(10, 14)
    below = region(100, 40)
    assert reading_order([below, right, left]) == [left, right, below]


def test_rows_that_sink_are_one_row_up_to_half_a_height():
    first, second = region(10, 10), region(200, 19)
    assert reading_order([second, first]) == [first, second]
    lower = region(5, 21)
    assert reading_order([lower, first]) == [first, lower]


def test_no_regions():
    assert reading_order([]) == []
