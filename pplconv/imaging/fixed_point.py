"""Weights as integers of two digits: products of integers of 16 bits, and their error."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["pair_weights", "two_digits"]

Array = npt.NDArray[Any]

# Fractions of results, and bits of low digits, in the order in which they are tried.
_FRACTIONS = range(16, 7, -1)
_SHIFTS = range(16, 1, -1)
# Digits, and pixels of 16 bits less half of their range, are at most this in magnitude.
MOST = 1 << 15
_MOST_PIXEL = (1 << 16) - 1
# Sums of low digits times numbers, with half of what is shifted out, are at most this.
MOST_LOW_SUM = (1 << 31) - 1 - MOST
# Fractions of longer weights at most, so that weights are integers without error in float64; bits
# of their sums.
_FINE_BITS = 46
_FINE_SUM_BITS = 61
# Share of the results that are made again of longer weights, at most; below the first one, shifts
# are fewer.
_RARE = 2.0**-10
_MOST_AGAIN = 2.0**-6
# Sums of multiples of a larger power of two than this one would be half way too often.
TIES = 14
# Sums of weights are rounded; their factors' products, too.
MARGIN = 1 + 1e-9
ROUNDED = 2.0**-48


def two_digits(numbers: Array, low_bits: int) -> tuple[Array, Array]:
    """Return high and low digits of integers.

    Parameters
    ----------
    numbers : ndarray of int64
        Integers.
    low_bits : int
        Bits of the low digit: ``numbers == high * 2**low_bits + low``, where ``low`` is at least
        ``-2**(low_bits - 1)`` and less than ``2**(low_bits - 1)``.
    """
    high = numbers + (1 << low_bits - 1) >> low_bits
    return high, numbers - (high << low_bits)


def pair_weights(
    taps: Array, extent: tuple[int, int], dtype: np.dtype[Any], *, separable: bool
) -> Array | None:
    """Return the weights of a kernel as ``pair_sums`` has them, if it takes the kernel.

    Parameters
    ----------
    taps : ndarray of float64
        Of the kernel; with `separable`, of a column and a row.
    extent : (int, int)
        Rows and columns of the kernel.
    dtype : dtype
        Of pixels and results: uint8, uint16 or int16.
    separable : bool
        Whether the kernel is the product of a column and a row.

    Returns
    -------
    ndarray of int64, optional
        The nine parameters, the fine weights, and the weights of two digits.

    Notes
    -----
    A pixel x is an integer of 16 bits; of uint16, x is the pixel less 2**15, and so is a result.
    The sum of w * x is ``total + start``, where `start` makes up for what was subtracted, and has
    half a unit to round to the nearest. The most that abs(x) can be is `most`: 2**15, and 255 of
    uint8. Pairs are neighbours of a row; of uint8, of a column.

    Weights times ``2**(fraction + shift)`` are rounded to integers ``high * 2**shift + low``. Sums
    of low * x over `together` rows of pairs, with half of ``2**shift``, at most 2**15, are below
    2**31 in magnitude, as the sum of abs(low) is at most ``(2**31 - 1 - 2**15) // most``. Of uint8
    that is 256 times 2**15, the largest low digit: the sums of up to 256 taps are made together.
    Shifted to the right, each errs by at most half a unit.

    They, the sum of high * x and `start` are added modulo 2**32. The total is right nevertheless,
    as its true value is in the range of int32: with P, the sum of positive weights, and N, that of
    negative ones, sums of pixels of uint8 are from 255 * N to 255 * P, those of uint16 from
    65535 * N to 65535 * P, and those of int16 from -32768 * P + 32767 * N to 32767 * P - 32768 * N.
    Their products with ``2**fraction`` and the bound of the error are checked.

    The error of the total in units of ``2**-fraction`` is at most that of the weights times `most`,
    divided by ``2**shift``, plus half a unit for each shifted sum, plus half a unit for `start`. It
    is below `near`, which is added to the total: its fraction is at most ``2 * near`` where the
    exact sum may be on the other side of half way.

    Sums of fine weights are exact integers of 64 bits; only the weights are rounded, and `start`.
    """
    rows = extent[0]
    kernel = np.outer(taps[:rows], taps[rows:]) if separable else taps.reshape(extent)
    weight = float(np.abs(kernel).sum()) * MARGIN
    if not 0 < weight < 1 << 8 or not (np.ldexp(kernel, TIES) % 1).any():
        return None
    offset = MOST if dtype == np.uint16 else 0
    total = math.fsum(kernel.ravel().tolist())
    rest = weight * ROUNDED * _MOST_PIXEL
    numbers = _coarse(kernel, weight, offset * (total - 1), dtype, rest)
    if numbers is None:
        return None
    coarse, high, low = numbers
    of_fine, fine = fine_weights(kernel, dtype)
    parameters = np.array([*coarse, *of_fine, offset], np.int64)
    fine, high, low = (in_pairs(weights, down=dtype == np.uint8) for weights in (fine, high, low))
    digits = np.stack([high, low], 2).astype(np.int16)
    return np.concatenate([parameters, fine.ravel(), digits.ravel().view(np.int64)])


def _coarse(
    kernel: Array, weight: float, start: float, dtype: np.dtype[Any], rest: float
) -> tuple[tuple[int, ...], Array, Array] | None:
    """Choose fraction and shift; returns the first five parameters, and both digits."""
    most, least = range_of_sums(kernel, dtype)
    reach = _reach(dtype)
    rows = len(kernel)
    for fraction in _FRACTIONS:
        # Few shifts are fast, short ones are precise.
        for together in (rows, (rows + 1) // 2, 1):
            shift = _shift(kernel, fraction, together, reach)
            scaled = np.ldexp(kernel, fraction + shift)
            numbers = np.rint(scaled)
            high, low = two_digits(numbers.astype(np.int64), shift)
            error = math.ldexp(float(np.abs(scaled - numbers).sum()) * reach * MARGIN, -shift)
            error += math.ldexp(rest, fraction) + -(-rows // together) / 2 + 1
            near = math.ceil(error)
            if (2 * near + 1) * 2.0**-fraction <= _RARE:
                break
        half = 1 << fraction - 1
        low_end = math.ldexp(least, fraction) + half
        high_end = math.ldexp(most, fraction) + half + 2 * near
        fits = low_end > -(2.0**31) and high_end < 2.0**31 - 1
        if fits and high.min() >= -MOST and high.max() < MOST:
            if (2 * near + 1) * 2.0**-fraction > _MOST_AGAIN:
                return None
            begin = round(math.ldexp(start, fraction)) + half + near
            return (fraction, shift, begin, near, together), high, low
    return None


def fine_weights(kernel: Array, dtype: np.dtype[Any]) -> tuple[tuple[int, int, int], Array]:
    """Return longer weights, and the fraction, the start and the greatest error of their sums."""
    weight = float(np.abs(kernel).sum()) * MARGIN
    offset = MOST if dtype == np.uint16 else 0
    moved = offset * (math.fsum(kernel.ravel().tolist()) - 1)
    scale = max(math.frexp(weight)[1], 0)
    fraction = min(_FINE_BITS, _FINE_SUM_BITS - 17 - scale)
    # The weights' rounding, that of products of factors, and that of `start`.
    fine = np.rint(np.ldexp(kernel, fraction)).astype(np.int64)
    rest = weight * ROUNDED * _MOST_PIXEL
    error = kernel.size * _reach(dtype) / 2 + math.ldexp(rest, fraction) + 2
    start = round(math.ldexp(moved, fraction)) + (1 << fraction - 1)
    return (fraction, start, math.ceil(error)), fine


def range_of_sums(kernel: Array, dtype: np.dtype[Any]) -> tuple[float, float]:
    """Return the largest and the least result, less what is subtracted of it, with a margin."""
    positive = float(kernel[kernel > 0].sum()) * MARGIN
    negative = -float(kernel[kernel < 0].sum()) * MARGIN
    limits = np.iinfo(dtype)
    offset = MOST if dtype == np.uint16 else 0
    return (
        int(limits.max) * positive - int(limits.min) * negative - offset,
        int(limits.min) * positive - int(limits.max) * negative - offset,
    )


def _reach(dtype: np.dtype[Any]) -> int:
    """Return the largest magnitude of what stands for a pixel in products."""
    return int(np.iinfo(dtype).max) if dtype == np.uint8 else MOST


def _shift(kernel: Array, fraction: int, together: int, reach: int) -> int:
    """Return the most bits of a low digit, whose sums over some rows have 32 bits."""
    for shift in _SHIFTS:
        numbers = np.rint(np.ldexp(kernel, fraction + shift)).astype(np.int64)
        low = np.abs(two_digits(numbers, shift)[1]).sum(1)
        if np.add.reduceat(low, np.arange(0, len(low), together)).max() <= MOST_LOW_SUM // reach:
            return shift
    return 1


def in_pairs(weights: Array, *, down: bool = False) -> Array:
    """Return (rows, pairs, 2, 2): weights of pairs of pixels for the first pixel and the second.

    The first pixel of a pair sees the pairs from its own one on; the second one does not see the
    first pixel of that. With `down`, pairs are of a column, and come first.
    """
    if down:
        return in_pairs(weights.T).transpose(1, 0, 2, 3)
    rows, columns = weights.shape
    pairs = columns // 2 + 1
    made = np.zeros((rows, 2, 2 * pairs), np.int64)
    made[:, 0, :columns] = weights
    made[:, 1, 1 : columns + 1] = weights
    return made.reshape(rows, 2, pairs, 2).transpose(0, 2, 1, 3)
