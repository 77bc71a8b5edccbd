"""Filters of bytes whose sums fit in 16 bits, against wide integers, on rows of many vectors."""

from __future__ import annotations

import numpy as np
import pytest

from pplconv.imaging import box, filter2d, sepfilter2d
from tests.imaging.image_reference import BORDERS, windows_of

BINOMIAL = np.array([1, 4, 6, 4, 1])
# Integers, and their divisor.
KERNELS = {
    "box 3": (np.ones((3, 3), int), 9),
    "box 5": (np.ones((5, 5), int), 25),
    "box 6": (np.ones((6, 6), int), 36),
    "box 16": (np.ones((16, 16), int), 256),
    "row": (np.ones((1, 7), int), 7),
    "column": (np.ones((4, 1), int), 4),
    "binomial": (np.outer(BINOMIAL, BINOMIAL), 256),
    "sobel": (np.outer([1, 2, 1], [-1, 0, 1]), 1),
    "laplace": (np.array([[0, 1, 0], [1, -4, 1], [0, 1, 0]]), 1),
    "sharpen": (np.array([[0, -1, 0], [-1, 8, -1], [0, -1, 0]]), 4),
    "no product": (np.array([[1, 2, 3], [4, 5, 6], [7, 8, 28]]), 64),
}


def rounded(image, integers, divisor, border, result):
    """Divide exact sums: half to even where the quotient in float64 is what was meant."""
    anchor = tuple(size // 2 for size in integers.shape)
    sums = (windows_of(image.astype(int), integers.shape, anchor, border, 7) * integers).sum((3, 4))
    below, rest = np.divmod(sums, divisor)
    tap = float(integers.flat[0]) / divisor
    exact = tap.as_integer_ratio()
    # The values of float64 may be a little larger or smaller than the fractions.
    more = exact[0] * divisor - exact[1] * int(integers.flat[0])
    up = 2 * rest > divisor
    tie = 2 * rest == divisor
    up |= tie & ((more > 0) | ((more == 0) & (below % 2 == 1)))
    limits = np.iinfo(result)
    return np.clip(below + up, limits.min, limits.max).astype(result)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("result", ["uint8", "int8", "int16", "uint16"])
def test_exact(name, result, rng):
    integers, divisor = KERNELS[name]
    for channels, border in zip((1, 3, 4, 1, 2), BORDERS, strict=True):
        shape = int(rng.integers(17, 60)), int(rng.integers(17, 200)), channels
        image = rng.choice([rng.integers(0, 256, shape), rng.integers(0, 2, shape) * 255])
        image = image.astype(np.uint8)
        expected = rounded(image, integers, divisor, border, result)
        for threads in (1, 2):
            found = filter2d(
                image, integers / divisor, border=border, value=7, dtype=result, threads=threads
            )
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("result", ["uint8", "int16"])
def test_separable(result, rng):
    image = rng.integers(0, 256, (150, 333, 3)).astype(np.uint8)
    expected = rounded(image, np.outer(BINOMIAL, BINOMIAL), 256, "reflect", result)
    found = sepfilter2d(image, BINOMIAL / 16, BINOMIAL / 16, border="reflect", dtype=result)
    np.testing.assert_array_equal(found, expected)
    derivative = np.outer(BINOMIAL, [-1, 0, 1])
    expected = rounded(image, derivative, 1, "wrap", result)
    found = sepfilter2d(image, [-1, 0, 1], BINOMIAL, border="wrap", dtype=result)
    np.testing.assert_array_equal(found, expected)


def test_rows_apart(rng):
    """Images and results whose rows, but not pixels, are apart; and pixels apart."""
    image = rng.integers(0, 256, (90, 400)).astype(np.uint8)
    for part in (image[::3, 5:260], image[::-1, 1:], image[:, ::2], image.T):
        expected = rounded(part[..., None], np.ones((3, 3), int), 9, "replicate", "uint8")
        found = filter2d(part, np.full((3, 3), 1 / 9), border="replicate")
        np.testing.assert_array_equal(found, expected[..., 0])


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int16"])
@pytest.mark.parametrize("extent", [(6, 1), (7, 7), (9, 12), (15, 3), (31, 24), (17, 31)])
def test_sums_that_are_moved_from_row_to_row(dtype, extent, rng):
    """Boxes of many rows, in bands of one thread and of three, of bytes and of wider pixels."""
    limits = np.iinfo(dtype)
    image = rng.integers(limits.min, limits.max, (120, 37, 2), dtype, endpoint=True)
    rows, columns = extent
    anchor = rows // 2, columns // 2
    sums = windows_of(image.astype(int), extent, anchor, "reflect", 0).sum((3, 4))
    for threads in (1, 3):
        found = sepfilter2d(
            image, np.ones(columns), np.full(rows, 2.0), border="reflect", dtype="int32",
            threads=threads,
        )  # fmt: skip
        np.testing.assert_array_equal(found, 2 * sums)
        mean = box(image, extent, border="reflect", threads=threads)
        # Exact quotients are far from half way, or on it.
        quotients = sums / (rows * columns)
        far = abs(quotients % 1 - 0.5) > 1e-6
        np.testing.assert_array_equal(mean[far], np.rint(quotients[far]).astype(dtype))
