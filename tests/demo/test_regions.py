"""Text regions from made-up probability maps, where the right answer is known."""

from __future__ import annotations

import numpy as np
import pytest

from examples.demo.regions import find_regions, smallest_rectangle


def bar(shape, centre, length, thickness, degrees, value=0.9):
    """Draw a filled rectangle at an angle on an empty map."""
    rows, columns = np.indices(shape) + 0.5
    angle = np.radians(degrees)
    x, y = columns - centre[0], rows - centre[1]
    along, across = (
        x * np.cos(angle) + y * np.sin(angle),
        y * np.cos(angle) - x * np.sin(angle),
    )
    inside = (np.abs(along) <= length / 2) & (np.abs(across) <= thickness / 2)
    return np.where(inside, value, 0.0).astype(np.float32)


def sides(corners):
    """Lengths of a rectangle's sides, the longer one first."""
    lengths = np.hypot(*(corners - np.roll(corners, 1, axis=0)).T)
    assert lengths[:2] == pytest.approx(lengths[2:])
    return sorted(lengths[:2].tolist(), reverse=True)


def test_two_lines_are_two_regions_from_top_to_bottom():
    shape = (96, 160)
    lower, upper = bar(shape, (90, 70), 100, 8, 0), bar(shape, (60, 20), 80, 10, 0)
    regions = find_regions(np.maximum(lower, upper), (160, 96))
    assert len(regions) == 2
    first, second = (region.corners for region in regions)
    # The map is dilated by a pixel to the right and below or to the left and above.
    np.testing.assert_allclose(first.mean(axis=0), (60, 20), atol=0.6)
    np.testing.assert_allclose(second.mean(axis=0), (90, 70), atol=0.6)


def test_regions_grow_by_area_over_perimeter():
    probability = np.zeros((100, 200), dtype=np.float32)
    probability[40:49, 50:149] = 1.0  # with the dilation 10 by 100
    (region,) = find_regions(probability, (200, 100), growth=1.6, least_score=0.0)
    grown = 2 * 1.6 * 100 * 10 / (2 * (100 + 10))
    assert sides(region.corners) == pytest.approx([100 + grown, 10 + grown])
    (tight,) = find_regions(probability, (200, 100), growth=0.0, least_score=0.0)
    assert sides(tight.corners) == pytest.approx([100, 10])


@pytest.mark.parametrize("degrees", [-30, 12, 45, 80])
def test_tilted_lines_have_tilted_regions(degrees):
    probability = bar((300, 300), (150, 140), 180, 14, degrees)
    (region,) = find_regions(probability, (300, 300), growth=0.0)
    long, short = sides(region.corners)
    # Stair-stepped edges and the dilation change sides by up to three pixels.
    assert 180 - 3 <= long <= 180 + 3
    assert 14 - 3 <= short <= 14 + 3
    edges = region.corners - np.roll(region.corners, 1, axis=0)
    edge = max(edges.tolist(), key=lambda vector: np.hypot(*vector))
    found = np.degrees(np.arctan2(edge[1], edge[0]))
    assert abs((found - degrees + 90) % 180 - 90) < 1.5


def test_curved_lines_are_scored_by_their_pixels():
    rows, columns = np.indices((120, 400))
    middle = 60 + 25 * np.cos(columns / 400 * 2 * np.pi)
    line = (np.abs(rows - middle) < 6) & (columns > 20) & (columns < 380)
    # The rectangle of such a line is mostly paper: its mean is far below the threshold.
    (region,) = find_regions(np.where(line, 0.95, 0.0), (400, 120), least_score=0.7)
    assert 0.7 < region.score <= 0.95


def test_regions_are_in_the_pictures_pixels():
    probability = np.zeros((64, 128), dtype=np.float32)
    probability[16:31, 32:95] = 1.0
    (region,) = find_regions(probability, (64, 16), growth=0.0, least_score=0.0)
    low, high = region.corners.min(axis=0), region.corners.max(axis=0)
    # The map is twice as wide and four times as high as the picture.
    np.testing.assert_allclose(low, (16, 4), atol=0.5)
    np.testing.assert_allclose(high, (48, 8), atol=0.5)


def test_regions_stay_inside_the_picture():
    probability = np.ones((32, 64), dtype=np.float32)
    (region,) = find_regions(probability, (640, 320))
    assert region.corners.min() == 0
    np.testing.assert_array_equal(region.corners.max(axis=0), (640, 320))
    assert region.score == pytest.approx(1.0)


def test_faint_and_tiny_marks_are_left_out():
    probability = np.zeros((64, 64), dtype=np.float32)
    probability[5:15, 5:55] = 0.45  # above the threshold, below the least score
    probability[30, 30] = 1.0  # a speck
    assert find_regions(probability, (64, 64)) == []
    assert len(find_regions(probability, (64, 64), least_score=0.1)) == 1
    assert len(find_regions(probability, (64, 64), least_score=0.1, least_side=1.0)) == 2


def test_nothing_is_found_on_an_empty_page():
    assert find_regions(np.zeros((32, 32), dtype=np.float32), (32, 32)) == []


def test_smallest_rectangle_of_one_pixel():
    centre, axes, half = smallest_rectangle(np.array([[4, 7]]))
    np.testing.assert_allclose(centre, (4.5, 7.5))
    np.testing.assert_allclose(half, (0.5, 0.5))
    np.testing.assert_allclose(axes @ axes.T, np.eye(2), atol=1e-12)


def test_smallest_rectangle_holds_all_pixels(rng):
    pixels = rng.integers(0, 40, (30, 2))
    centre, axes, half = smallest_rectangle(pixels)
    corners = np.concatenate([pixels + corner for corner in ([0, 0], [1, 0], [0, 1], [1, 1])])
    assert np.all(np.abs((corners - centre) @ axes.T) <= half + 1e-9)
    upright = np.prod(np.ptp(corners, axis=0))
    assert np.prod(2 * half) <= upright + 1e-9
