"""Means of squares of pixels of 16 bits or 8, whose sums are exact as integers of 32 bits.

A mean is the sum times a float, or a double, rounded once. The factor is not 1 / n, but so near to
it that no product is on another side of half way than the quotient.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import planner
from ..numerics import numerics_of
from ..schedules.band_loops import MEANS_BESIDE, has_means
from .banded import Means
from .rounding import Way
from .short_sums import MadeAtOnce

__all__ = ["means_of"]

Array = npt.NDArray[Any]

_PIXELS = (np.dtype(np.uint16), np.dtype(np.int16), np.dtype(np.uint8))
_SIDES = range(3, 33)
# Squares of bytes whose sums of 16 bits stay in registers.
_SMALL = 5
# Up to so many rows of a square of bytes, sums of 16 bits, which are made row by row, are faster in
# images whose rows have more than so many bytes. With AVX-512 they are in all images.
_SHORT_ROWS = {"avx2": (9, 512)}
_MOST_SHORT_ROWS = (16, 0)
# All integers up to this one are floats.
_FLOATS = 1 << 24


def means_of(
    way: Way, extent: tuple[int, int], pixel: np.dtype[Any], result: np.dtype[Any],
    width: int, channels: int,
) -> tuple[MadeAtOnce, Means] | None:  # fmt: skip
    """Return how a filter runs as means of squares, if it is one and there are kernels.

    Parameters
    ----------
    way : Way
        How sums are made and rounded.
    extent : (int, int)
        Rows and columns of the kernel.
    pixel, result : dtype
        Of the image and of the results.
    width, channels : int
        Pixels of a row of results, and their channels.
    """
    pixel = pixel.newbyteorder("=")
    side = extent[0]
    if pixel not in _PIXELS or result.newbyteorder("=") != pixel or extent[1] != side:
        return None
    step = channels * pixel.itemsize
    isa = planner.best_isa(numerics_of("f32", "f32"))
    if isa is None or not has_means(isa):
        return None
    if pixel.itemsize == 1 and side <= _SMALL:
        return None
    short_rows, narrow = _SHORT_ROWS.get(isa, _MOST_SHORT_ROWS)
    if pixel.itemsize == 1 and side <= short_rows and width * step > narrow:
        return None
    if side not in _SIDES or (side - 1) * channels > MEANS_BESIDE:
        return None
    if way.error or way.again is not None or any(np.ptp(factor) for factor in way.factors):
        return None
    tap = math.prod(float(factor[0]) for factor in way.factors)
    if way.divisor and (abs(way.direction) != 1 or way.divisor != side**2):
        return None
    if tap != (1.0 if way.divisor else side**-2.0):
        return None
    factor = _factor_of(side**2, way.direction, pixel)
    if factor is None:
        return None
    return MadeAtOnce(extent, pixel, sum(extent)), Means(np.array([factor]))


@lru_cache(maxsize=64)
def _factor_of(count: int, direction: int, pixel: np.dtype[Any]) -> float | None:
    """Return a factor by which sums of some pixels become means rounded as their quotients are.

    With r = (1 + d) / n, a product is off its quotient by d times this, so by at most d times the
    largest pixel. A quotient s / n that is not half way is no nearer to it than 1 / 2n for odd n,
    as 2s is not a multiple of n there, and than 1 / n for even n. Exactly half way is only a
    quotient of an even n: its product is on the side that the sign of d tells. Without a direction,
    1 / n is a power of two, and r has to be that.
    """
    # Pixels, and means, as the kernels count: signed ones from the least one on.
    largest = (1 << 8 * pixel.itemsize) - 1
    real = np.float32 if count * largest < _FLOATS else np.float64
    near = real(1 / count)
    for factor in (near, np.nextafter(near, real(0)), np.nextafter(near, real(1))):
        off = Fraction(float(factor)) * count - 1
        if direction == 0:
            if off == 0:
                return float(factor)
        elif count % 2:
            if abs(off) * largest < Fraction(1, 2 * count):
                return float(factor)
        elif (
            off * direction > 0 and abs(off) * largest < Fraction(1, count) and (pixel != np.int16)
        ):
            # Signed sums that are half way would be moved up or down, not from zero or to it.
            return float(factor)
    return None
