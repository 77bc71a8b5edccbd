"""Kernels that are nearly integers over one divisor: 1/6, 0.3, B-splines.

In float64 such values have an error. Sums of the integers are exact, so they show which sums lie
half way between two results; the small remainder decides only there.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from .._records import record

__all__ = ["MOST_AGAIN", "Ratio", "ratios_of"]

Array = npt.NDArray[Any]

# Most taps of kernels whose sums are made once more in float64: the array has 32 KiB.
MOST_AGAIN = 1 << 12
# The largest divisor tried, and the most different values examined.
_MOST_DIVISOR = 1 << 12
_MOST_VALUES = 64
# Largest distance of a value from its ratio: ratios rounded to float32 are within it.
_NEAR = 2.0**-22
# Values this small, compared with the largest value, count as zero.
_SMALL = 2.0**-30
# The largest integer in proportion to the remainder of a value.
_MOST_REST = 1 << 30
# The least unit of remainders (an exponent): smaller ones may be flushed to zero.
_LEAST_UNIT = -960
# Less than any of their sums.
_LEAST_LOST = 2.0**-1000
# A direction: half way goes to the even neighbour.
_EVEN = 2


@record(frozen=True)
class Ratio:
    """A kernel as integers over a divisor, and the remainder.

    Parameters
    ----------
    numerators : tuple of ndarray
        Integers in float64 in place of each factor of the kernel.
    divisor : int
        Of their product.
    total : float
        Largest magnitude of a sum of numerators.
    direction : int
        1 or -1 if all exact sums are farther from zero than the ratio, or nearer; 1 as well if none
        lies half way, as those of odd divisors; 2 if the ratio says it all; else 0.
    again : ndarray, optional
        For ``direction=0``, the error of the sums of remainders, and their taps.
    """

    numerators: tuple[Array, ...]
    divisor: int
    total: float
    direction: int
    again: Array | None

    def fits(self, bits: int) -> bool:
        """Whether sums of numerators, and their quotients, are exact in numbers of `bits` bits."""
        exact = self.total * (1 + 1e-9) + self.divisor < 2.0**bits
        # Rests are told apart that differ by a fraction of the divisor.
        return exact and self.divisor < 2.0 ** (bits - 6)


@record(frozen=True)
class _Factor:
    """One factor as integers over a divisor: values times divisor are numerators plus rests."""

    numerators: Array
    divisor: int
    rests: Array
    # Whether the rests are exact in float64, and what all values are of their ratio, if all alike.
    is_exact: bool
    share: Fraction | None
    # Integers in proportion to the rests, unless they are too large.
    whole_rests: Array | None

    @property
    def sizes(self) -> tuple[float, float]:
        """Sums of the magnitudes of numerators, and of rests."""
        return float(np.abs(self.numerators).sum()), float(np.abs(self.rests).sum())


def ratios_of(factors: tuple[Array, ...], largest: int) -> tuple[Ratio, ...]:
    """Find integers and a divisor for a kernel, or for a column and a row.

    Parameters
    ----------
    factors : tuple of ndarray of float64
        One flat kernel, or the factors of one.
    largest : int
        Magnitude of the largest pixel.

    Returns
    -------
    tuple of Ratio
        None, one, or two: the first one's sums are larger, and decide more. Sums of the
        remainders are less than half of one.
    """
    found = []
    for factor in factors:
        one = _factor_of(factor)
        if one is None:
            return ()
        found.append(one)
    (whole, rest), *other = (one.sizes for one in found)
    beside, left = other[0] if other else (1.0, 0.0)
    if (whole * left + rest * beside + rest * left) * largest > 0.49:
        return ()
    divisor = math.prod(one.divisor for one in found)
    shares = [one.share for one in found if one.share is not None]
    if divisor % 2:
        direction = 1
    elif len(shares) < len(found):
        direction = 0
    else:
        share = math.prod(shares, start=Fraction(1))
        direction = (share > 1) - (share < 1)
    again = None
    if not direction and math.prod(map(len, factors)) <= MOST_AGAIN:
        again = _again(found, largest)
    plain = Ratio(
        tuple(one.numerators for one in found), divisor, whole * beside * largest, direction,
        again,
    )  # fmt: skip
    if direction or other or found[0].whole_rests is None:
        return (plain,)
    return _joined(found[0], found[0].whole_rests, largest), plain


def _joined(one: _Factor, rests: Array, largest: int) -> Ratio:
    """Give integers whose sums are those of numerators, and of rests in their low digits.

    Where a sum of numerators is not half way, that of the rests is too small to decide anything.
    """
    base = float(np.abs(rests).sum()) * largest + 1
    joined = base * one.numerators + rests
    total = float(np.abs(joined).sum()) * largest
    return Ratio((joined,), one.divisor * int(base), total, _EVEN, None)


def _factor_of(values: Array) -> _Factor | None:
    sizes, place = np.unique(np.abs(values), return_inverse=True)
    if len(sizes) > _MOST_VALUES or not sizes[-1]:
        return None
    near = []
    # Largest first: these are the soonest to turn out not to be ratios.
    for size in sizes[::-1].tolist():
        ratio = (0, 1) if size <= _SMALL * sizes[-1] else _nearest(size)
        if ratio is None:
            return None
        near.append(ratio)
    divisor = math.lcm(*(below for _, below in near))
    if divisor > _MOST_DIVISOR:
        return None
    numerators = [above * (divisor // below) for above, below in near[::-1]]
    if max(numerators) >= 1 << 53:
        return None
    exact = [divisor * Fraction(s) - n for s, n in zip(sizes.tolist(), numerators, strict=True)]
    rests = np.array([float(rest) for rest in exact])
    signs = np.sign(values)
    place = place.ravel()
    return _Factor(
        signs * np.array(numerators, np.float64)[place],
        divisor,
        signs * rests[place],
        [Fraction(rest) for rest in rests.tolist()] == exact,
        _common(exact, numerators),
        None if (whole := _proportional(exact)) is None else signs * whole[place],
    )


def _proportional(rests: list[Fraction]) -> Array | None:
    """Return the smallest integers in proportion to some numbers, if they are small."""
    below = math.lcm(*(rest.denominator for rest in rests))
    numbers = [rest.numerator * (below // rest.denominator) for rest in rests]
    divisor = math.gcd(*numbers) or 1
    if max(map(abs, numbers)) // divisor > _MOST_REST:
        return None
    return np.array([number // divisor for number in numbers], np.float64)


def _common(rests: list[Fraction], numerators: list[int]) -> Fraction | None:
    """Return the remainders' common share of the ratios, if it is the same for all."""
    found = {rest / n for rest, n in zip(rests, numerators, strict=True) if n}
    if len(found) != 1 or any(rest for rest, n in zip(rests, numerators, strict=True) if not n):
        return None
    return 1 + found.pop()


def _nearest(size: float) -> tuple[int, int] | None:
    """Find the first convergent of a number's continued fraction that is near."""
    above, below = size.as_integer_ratio()
    last, now = (0, 1), (1, 0)
    while below:
        whole, rest = divmod(above, below)
        last, now = now, (whole * now[0] + last[0], whole * now[1] + last[1])
        if now[1] > _MOST_DIVISOR or now[0] >= 1 << 53:
            return None
        if abs(now[0] / now[1] - size) <= _NEAR * size:
            return now
        above, below = below, rest
    return None


def _again(found: list[_Factor], largest: int) -> Array | None:
    """Return taps with exact sums in float64, after their distance from the remainders."""
    first, *other = found
    if not other:
        rests, lost = first.rests, 0.0 if first.is_exact else 2.0**-53 * first.sizes[1]
    else:
        second = other[0]
        rests = np.outer(first.numerators, second.rests)
        rests += np.outer(first.rests, second.numerators)
        (whole, rest), (beside, left) = first.sizes, second.sizes
        lost = 2.0**-51 * (whole * left + rest * beside) + rest * left
    total = float(np.abs(rests).sum()) * largest
    taps = rests
    if total:
        unit = math.frexp(total)[1] - 52
        if unit < _LEAST_UNIT:
            return None
        taps = np.ldexp(np.rint(np.ldexp(rests, -unit)), unit)
    lost += float(np.abs(rests - taps).sum())
    # Not subnormal, as the loops would flush it to zero.
    return np.append(max(1.01 * lost * largest, _LEAST_LOST) if lost else 0.0, taps)
