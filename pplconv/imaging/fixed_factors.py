"""A column and a row as integers of two digits, for sums of 16-bit integers, and their error."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from .fixed_point import (
    MARGIN,
    MOST,
    MOST_LOW_SUM,
    ROUNDED,
    TIES,
    fine_weights,
    range_of_sums,
    two_digits,
)  # fmt: skip

__all__ = ["pair_factors"]

Array = npt.NDArray[Any]

# Fractions of results, and bits of a row's low digits, in the order in which they are tried; of the
# results, the share that is made again, at most.
_FRACTIONS = range(16, 10, -1)
_SHIFTS = range(16, 1, -1)
_MOST_AGAIN = 2.0**-9
# Sum of the magnitudes of a row's weights: high digits have 16 bits, and two sums 32.
_WEIGHTS = MOST - 2
# Largest sum of magnitudes of low digits.
_MOST_LOW = MOST_LOW_SUM // MOST
# Bits of the lower half of a sum, and of the lower digit of a column's weight.
_HALF = 16
# A shift of sums takes as long as such a share of the products by which a result is made again
# (AMD EPYC 26-2).
_SHIFTED = 0.025
# Scales between these leave no room for overflow, and so many taps none for sums of their digits,
# if these are short enough.
_SCALES = 2.0**-200, 2.0**200
_MOST_TAPS = 128


def pair_factors(taps: Array, extent: tuple[int, int], dtype: np.dtype[Any]) -> Array | None:
    """Return the weights of a column and a row as the loops have them, if these take both.

    Parameters
    ----------
    taps : ndarray of float64
        Of the column, then of the row.
    extent : (int, int)
        Rows and columns of the kernel.
    dtype : dtype
        Of pixels and results, uint16 or int16.

    Returns
    -------
    ndarray of int64, optional
        The three parameters of ``pair_row_sums``, the five of ``pair_column_sums``, the number of
        the column's weights, fraction, start and error of sums of longer weights; the weights of
        both kernels, and longer weights of the product of column and row.

    Notes
    -----
    A pixel x is an integer of 16 bits; of uint16, x is the pixel less 2**15, and so is a result.

    The row's taps a are multiplied by a scale S, so that the sum of their magnitudes is 2**15 - 2.
    Times ``2**shift``, they are rounded to integers A of two digits, as in `pair_weights`. A row's
    sum v is the sum of ``A * x / 2**shift``, where each sum of low digits is rounded to an integer:
    its error is at most half for each of these, and 2**15 times that of the weights. It is below
    2**30 in magnitude, and so u = v + v', of two rows of the same weight or twice the same row, is
    below 2**31: what the kernel has modulo 2**32 is u.

    A tap b of the column becomes ``beta = b * 2**fraction / S`` for u of two rows, and half of that
    for u of one row. Times 2**32, it is rounded to a multiple of ``2**cut``, which is
    ``B = w * 2**16 + d * 2**cut`` with ``d * 2**cut`` at least -2**15 and below 2**15. With
    u = high * 2**16 + low + 2**15, where high and low are of that range, too,

        B * u / 2**32 = w * high + (w * low + d * 2**cut * high) / 2**16
                        + d * 2**cut * low / 2**32 + B / 2**17.

    The kernel adds the first products modulo 2**32. It has c, that is w / 2**cut rounded to an
    integer, for the second ones: the sum of ``(c * low + d * high) / 2**(16 - cut)`` is rounded to
    an integer. It does not exceed 32 bits, as the sum of ``abs(c) + abs(d)``, times 2**15, is below
    2**31 - 2**15: `cut` is the least for which that is so. `start` has the last term, what makes up
    for the subtraction from pixels and results, half a unit of results to round, and `near`.

    The error of the total, in units of ``2**-fraction``, is below `near`, the sum of

    - abs(b) * 2**fraction / S times the error of v, over all rows;
    - abs(beta - B / 2**32) times the largest u, over all weights;
    - abs(w - c * 2**cut) * 2**15 / 2**16 and abs(d * 2**cut) * 2**15 / 2**32, over all weights;
    - half for the rounded sum, half for `start`, and what rounds products of floats here.

    As in `pair_weights`, the total is right modulo 2**32, as its true value is in the range of
    int32. Its fraction is at most ``2 * near`` where the exact sum may be on the other side of half
    way: such results are listed, and made again of longer weights, in integers of 64 bits.
    """
    if max(extent) > _MOST_TAPS:
        return None
    column, row = taps[: extent[0]], taps[extent[0] :]
    kernel = np.outer(column, row)
    weight = float(np.abs(kernel).sum()) * MARGIN
    if not 2.0**-16 < weight < 1 << 4 or not (np.ldexp(kernel, TIES) % 1).any():
        return None
    scale = _WEIGHTS / float(np.abs(row).sum())
    if not _SCALES[0] < scale < _SCALES[1]:
        return None
    offset = MOST if dtype == np.uint16 else 0
    shift, together, numbers, row_error = _row_numbers(row * scale, kernel.size)
    row_digits = two_digits(numbers, shift)
    largest = math.ldexp(float(np.abs(numbers).sum()), -shift) * MOST + len(row)
    if largest * MARGIN >= 1 << 30 or np.abs(row_digits[0]).max() >= MOST:
        return None
    weights = column / 2
    if (column == column[::-1]).all():
        # The middle row is added to itself.
        weights = column[: (len(column) + 1) // 2].copy()
        weights[len(column) // 2 :] /= 2
    most, least = range_of_sums(kernel, dtype)
    rest = (weight + 1) * ROUNDED * 4 * MOST
    for fraction in _FRACTIONS:
        beta = np.ldexp(weights / scale, fraction + 2 * _HALF)
        if np.abs(beta).max() >= 2.0**31 - 2.0**17:
            continue
        cut, high, rounded, low = _column_digits(beta)
        whole = (high << _HALF) + (low << cut)
        error = math.ldexp(float(np.abs(column).sum()) / scale * row_error, fraction)
        error += math.ldexp(float(np.abs(beta - whole).sum()) * 2 * largest, -2 * _HALF)
        error += float(np.abs(high - (rounded << cut)).sum()) / 2
        error += math.ldexp(float(np.abs(low).sum()), cut - _HALF - 1)
        near = math.ceil((error + 1 + math.ldexp(rest, fraction)) * MARGIN)
        half = 1 << fraction - 1
        if (2 * near + 1) * 2.0**-fraction > _MOST_AGAIN:
            return None
        if not (
            math.ldexp(least, fraction) + half > -(2.0**31)
            and math.ldexp(most, fraction) + half + 2 * near < 2.0**31 - 1
        ):
            continue
        moved = offset * (math.fsum(kernel.ravel().tolist()) - 1)
        start = math.ldexp(moved, fraction) + math.ldexp(float(whole.sum()), -_HALF - 1)
        start = round(start) + half + near
        of_fine, fine = fine_weights(kernel, dtype)
        of_row, of_column = [shift, together, offset], [fraction, start, near, _HALF - cut, offset]
        pairs = np.stack([_in_pairs(digits) for digits in row_digits], 1)
        columns = np.stack([np.zeros_like(high), high, rounded, low], 1)
        words = np.concatenate([pairs.ravel(), columns.ravel()]).astype(np.int16)
        parameters = np.array([*of_row, *of_column, len(high), *of_fine], np.int64)
        return np.concatenate([parameters, words.view(np.int64), fine.ravel()])
    return None


def _row_numbers(scaled: Array, products: int) -> tuple[int, int, Array, float]:
    """Choose the shift of a row's weights, and how many pairs have a sum of low digits.

    Returns both, the integers, and the error of a row's sum. Few sums are fast, and short low
    digits lead to results that are made again, of so many products.
    """
    pairs = (len(scaled) + 1) // 2
    found = []
    for together in {pairs, -(-pairs // 2), -(-pairs // 4)}:
        for shift in _SHIFTS:
            exact = np.ldexp(scaled, shift)
            numbers = np.rint(exact).astype(np.int64)
            low = np.abs(_in_pairs(two_digits(numbers, shift)[1])).sum(1)
            if np.add.reduceat(low, np.arange(0, pairs, together)).max() <= _MOST_LOW:
                break
        sums = -(-pairs // together)
        error = math.ldexp(float(np.abs(exact - numbers).sum()) * MOST, -shift) + sums / 2
        error += ROUNDED * MOST * MOST
        again = math.ldexp(4 * error, -_HALF) * products
        found.append((sums * _SHIFTED + again, shift, together, numbers, error))
    return min(found, key=lambda each: each[0])[1:]


def _in_pairs(weights: Array) -> Array:
    """Return (pairs, 2): neighbours, the last of which may be a zero."""
    return np.append(weights, [0] * (len(weights) % 2)).reshape(-1, 2)


def _column_digits(beta: Array) -> tuple[int, Array, Array, Array]:
    """Return the least cut for which sums of low digits have 32 bits, and three digits."""
    for cut in range(_HALF):
        whole = np.rint(np.ldexp(beta, -cut)).astype(np.int64) << cut
        high, low = two_digits(whole, _HALF)
        rounded = high + (1 << cut >> 1) >> cut
        low >>= cut
        if (np.abs(rounded) + np.abs(low)).sum() <= _MOST_LOW:
            break
    return cut, high, rounded, low
