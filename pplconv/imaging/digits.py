"""Low digits of taps: they tell on which side of half way a nearby exact sum lies.

The distance of such a sum from half way is known up to a small error. So the remainder of the sum
modulo some power of two is enough to decide, and it follows from the remainders of the taps.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["digits_of", "unit_of"]

Array = npt.NDArray[Any]

# Bits of a digit at most, and digits.
_MOST_BITS = 28
_MOST_DIGITS = 6
# The least unit (an exponent): smaller numbers may be flushed to zero.
_LEAST_UNIT = -900


def unit_of(values: Array) -> int:
    """Exponent of the largest power of two that divides all values; 0 if all are zero."""
    numbers, exponents = np.frexp(values[values != 0])
    if not len(numbers):
        return 0
    whole = np.ldexp(numbers, 53).astype(np.int64)
    # The lowest bit of each is a power of two.
    lowest = np.frexp((whole & -whole).astype(np.float64))[1] - 1
    return int((exponents + lowest).min()) - 53


def digits_of(factors: tuple[Array, ...], error: float, largest: int) -> Array | None:
    """Return digits that tell on which side of half way sums lie.

    Parameters
    ----------
    factors : tuple of ndarray of float64
        One flat kernel; or a column and a row, with exact products.
    error : float
        How far sums are from half way, at most.
    largest : int
        Magnitude of the largest pixel.

    Returns
    -------
    ndarray, shape (m, 1 + number of taps), optional
        For each digit, the lowest first, its modulus and its taps: their sums are exact in float64.
    """
    unit = sum(map(unit_of, factors))
    count = math.prod(map(len, factors))
    room = min(52 - largest.bit_length() - count.bit_length(), _MOST_BITS)
    if not 0 < error < 0.1 or not _LEAST_UNIT <= unit < 0 or room < 1:
        return None
    # The distance of sums from half way is less than half of the modulus of all digits.
    bits = max(math.frexp(4 * error)[1] - unit, 1)
    number = -(-bits // room)
    size = -(-bits // number)
    # Half way is a multiple of it.
    if number > _MOST_DIGITS or number * size + unit >= 0:
        return None
    parts = [_parts(factor, size, number) for factor in factors]
    found = parts[0]
    if len(parts) > 1:
        found = np.zeros((number, count), np.int64)
        for i, down in enumerate(parts[0]):
            for j, across in enumerate(parts[1][: number - i]):
                found[i + j] += np.outer(down, across).ravel()
    scale, carried = np.arange(number) * size + unit, np.zeros(count, np.int64)
    for k in range(number):
        sums = found[k] + carried
        carried = (sums + (1 << (size - 1))) >> size
        found[k] = sums - (carried << size)
    taps = np.ldexp(found.astype(np.float64), scale[:, None])
    return np.column_stack([np.ldexp(1.0, scale + size), taps])


def _parts(values: Array, size: int, number: int) -> Array:
    """Digits of values in units of `unit_of`, the lowest first; higher digits are left out."""
    numbers, exponents = np.frexp(values)
    exponents = np.where(values == 0, 0, exponents - unit_of(values))
    left = np.ldexp(numbers, np.minimum(exponents, 900))
    # Larger values have no low digits.
    left[exponents > 900] = 0.0
    found = np.empty((number, len(values)), np.int64)
    for k in range(number):
        higher = np.floor(np.ldexp(left, -size))
        found[k] = left - np.ldexp(higher, size)
        left = higher
    return found
