"""Filters of bytes whose sums are exact in integers of 16 bits: boxes, binomials, derivatives.

Only the last sum has to fit: additions and products modulo 2**16 do not depend on their order.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from .banded import SUMS, Short
from .digits import unit_of
from .rounding import Way

__all__ = ["MadeAtOnce", "short_sums"]

Array = npt.NDArray[Any]

_LARGEST = 255
_BITS = 16
# Rows of a kernel: each thread keeps so many rows of the image.
_MOST_ROWS = 64
# What `filter_squares` takes; with weights, 5x5 would have as many products, and take no less time.
_SQUARES = ((3, 3), (5, 5))
_WEIGHED = 3


class MadeAtOnce:
    """The operator of `Short` and `Means`: their loops make sums and results at once."""

    row_sums = block_sums = None
    convolutions = ()

    def __init__(self, extent: tuple[int, int], dtype: np.dtype[Any], products: int) -> None:
        self.extent, self.dtype, self.products = extent, dtype, products

    def rounded_sums(self, *, exact: bool, paired: bool) -> None:
        """Nothing: there are no sums to round."""


def short_sums(
    way: Way, extent: tuple[int, int], pixel: np.dtype[Any], result: np.dtype[Any]
) -> Short | None:
    """Return how a filter runs in integers of 16 bits, if these show each result.

    Parameters
    ----------
    way : Way
        How sums are made and rounded.
    extent : (int, int)
        Rows and columns of the kernel.
    pixel, result : dtype
        Of the image and of the results.
    """
    if pixel != np.uint8 or result.itemsize > 2 or way.error or way.again is not None:
        return None
    if extent[0] > _MOST_ROWS:
        return None
    factors, exponent = [], 0
    for factor in way.factors:
        if not factor.any():
            return None
        unit = 0 if way.divisor else unit_of(factor)
        exponent += unit
        factors.append(np.ldexp(factor, -unit))
    total = math.prod(float(np.abs(factor).sum()) for factor in factors)
    if not total * 2.0 ** max(exponent, 0) * _LARGEST < 2.0**_BITS:
        return None
    factors[0] = factors[0] * 2.0 ** max(exponent, 0)
    whole = [np.array(factor, np.int64) for factor in factors]
    product = whole[0] if len(whole) == 1 else np.outer(*whole)
    positive = _LARGEST * int(product[product > 0].sum())
    negative = -_LARGEST * int(product[product < 0].sum())
    made = (
        _divided(way, positive) if way.divisor else _shifted(-min(exponent, 0), positive, negative)
    )
    if made is None or (way.divisor and negative):
        return None
    if len(whole) == 1 and min(extent) > 1:
        whole = _factored(product.reshape(extent)) or whole
    # The row comes first.
    taps = whole[::-1]
    info = np.iinfo(result)
    high = min(int(info.max), 0x7FFF if made[0] == SUMS["signed"] else 0xFFFF)
    passes = tuple(bool((one != 1).any()) for one in taps)
    return Short(
        passes, np.concatenate(taps).astype(np.uint16), *made, int(info.min), high,
        result.itemsize == 1 and extent in _SQUARES and len(passes) == 2
        and not (any(passes) and extent[0] > _WEIGHED) and not negative
        and _largest(positive, *made) <= high,
    )  # fmt: skip


def _largest(positive: int, mode: int, add: int, factor: int, shift: int) -> int:
    """Give a bound of the results, which are not signed."""
    most = positive + add + 1 if mode != SUMS["divided"] else (positive + add) * factor >> _BITS
    return most >> shift


def _shifted(shift: int, positive: int, negative: int) -> tuple[int, int, int, int] | None:
    """Give mode, addend, factor and shift for multiples of a power of two."""
    if shift >= _BITS:
        return None
    add = (1 << shift >> 1) - 1 if shift else 0
    if not negative and positive + add + 1 < 1 << _BITS:
        return SUMS["unsigned"], add, 0, shift
    if negative <= 1 << _BITS - 1 and positive + add + 1 < 1 << _BITS - 1:
        return SUMS["signed"], add, 0, shift
    return None


def _divided(way: Way, positive: int) -> tuple[int, int, int, int] | None:
    """Give the same for a divisor; each quotient is compared with the exact one."""
    divisor = way.divisor
    if abs(way.direction) != 1:
        return None
    add = (divisor - 1) // 2 if divisor % 2 or way.direction < 0 else divisor // 2
    if positive + add >= 1 << _BITS:
        return None
    numbers = np.arange(positive + add + 1)
    for shift in range(_BITS):
        factor = -(-(1 << _BITS + shift) // divisor)
        if factor >= 1 << _BITS:
            break
        if np.array_equal(numbers * factor >> _BITS + shift, numbers // divisor):
            return SUMS["divided"], add, factor, shift
    return None


def _factored(kernel: Array) -> list[Array] | None:
    """Give a column and a row of integers whose product is a kernel of integers, if there are."""
    row = kernel[kernel.any(axis=1)][0]
    across = row // np.gcd.reduce(row)
    at = np.flatnonzero(across)[0]
    down = kernel[:, at] // across[at]
    return [down, across] if np.array_equal(np.outer(down, across), kernel) else None
