"""Small filters of bytes, made where images lie, against wide integers."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from pplconv.imaging import Compose, box, filter2d
from tests.imaging.image_reference import BORDERS, drawn_bytes, windows_of


def means_of(image, side, anchor, border, value=0):
    """Exact means, rounded: a half never occurs, as the area is odd."""
    sums = windows_of(image.astype(np.int64), (side, side), anchor, border, value).sum((3, 4))
    return ((2 * sums + side**2) // (2 * side**2)).astype(np.uint8)


@pytest.mark.parametrize("side", [3, 5])
@pytest.mark.parametrize("border", BORDERS)
def test_every_width(side, border, rng):
    """Widths around those of which parts are copied, in one band and in several."""
    for width in (*range(1, 12), *range(60, 72), *range(125, 140), 190, 260):
        for channels in (1, 3, 4):
            image = drawn_bytes(rng, (int(rng.integers(1, 45)), width, channels))
            anchor = tuple(rng.integers(0, side, 2).tolist())
            out = np.full(image.shape, 0x55, np.uint8)
            threads = int(rng.integers(1, 4))
            filter2d(
                image, np.full((side, side), 1 / side**2), border=border, value=9, out=out,
                anchor=anchor[::-1], threads=threads,
            )  # fmt: skip
            np.testing.assert_array_equal(out, means_of(image, side, anchor, border, 9))


@pytest.mark.parametrize("side", [3, 5])
def test_rows_apart(side, rng):
    """Images whose rows are apart; around the results nothing is written."""
    for channels in (1, 3):
        whole = drawn_bytes(rng, (90, 300, channels))
        for part in (np.s_[3:70, 5:200], np.s_[80:2:-1, 7:], np.s_[::3]):
            image = whole[part]
            around = np.full(image.size + 200, 0x55, np.uint8)
            out = around[99 : 99 + image.size].reshape(image.shape)
            box(image, side, out=out)
            np.testing.assert_array_equal(
                out, means_of(image, side, (side // 2, side // 2), "reflect101")
            )
            assert (np.append(around[:99], around[99 + image.size :]) == 0x55).all()


@pytest.mark.parametrize("side", [3, 5])
def test_inside(side, rng):
    """Results without borders are made of the image alone."""
    image = drawn_bytes(rng, (40, 150, 3))
    whole = means_of(image, side, (0, 0), "constant")
    found = filter2d(image, np.full((side, side), 1 / side**2), mode="valid")
    np.testing.assert_array_equal(found, whole[: 1 - side, : 1 - side])


def test_one_after_another(rng):
    """Bands whose rows lie in windows."""
    image = drawn_bytes(rng, (700, 900))
    expected = means_of(image[..., None], 3, (1, 1), "reflect101")
    expected = means_of(expected, 5, (2, 2), "reflect101")[..., 0]
    found = Compose([partial(box, size=3), partial(box, size=5)])(image)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("row", "column", "divisor"),
    [
        ([1, 2, 1], [1, 2, 1], 16),
        ([1, 4, 6, 4, 1], [1, 4, 6, 4, 1], 256),
        ([1, 2, 1], [1, 1, 1], 16),
        ([1, 1, 1, 1, 1], [0, 1, 2, 1, 0], 32),
        # Sums that saturate, and signs that cancel or do not.
        ([1, 2, 1], [1, 2, 1], 8),
        ([-1, -2, -1], [-1, -2, -1], 16),
        ([-1, 0, 1], [1, 2, 1], 1),
    ],
)
def test_products(row, column, divisor, rng):
    """Binomials and others, with ties to even, of any border."""
    for border, channels in zip(BORDERS, (1, 3, 4, 1, 3), strict=True):
        shape = int(rng.integers(5, 90)), int(rng.integers(64, 200)), channels
        image = drawn_bytes(rng, shape)
        kernel, anchor = np.outer(column, row), (len(column) // 2,) * 2
        windows = windows_of(image.astype(np.int64), kernel.shape, anchor, border, 9)
        expected = np.clip(np.rint((windows * kernel).sum((3, 4)) / divisor), 0, 255)
        out = np.full(shape, 0x55, np.uint8)
        filter2d(image, kernel / divisor, border=border, value=9, out=out)
        np.testing.assert_array_equal(out, expected.astype(np.uint8))


@pytest.mark.parametrize("result", ["int8", "uint16", "int16"])
def test_other_results(result, rng):
    """Results that are not bytes, or saturate, are made by other loops."""
    image = drawn_bytes(rng, (30, 100))
    means = means_of(image[..., None], 3, (1, 1), "reflect101")[..., 0]
    expected = np.minimum(means.astype(int), np.iinfo(result).max).astype(result)
    np.testing.assert_array_equal(box(image, 3, dtype=result), expected)
