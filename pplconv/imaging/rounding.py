"""Sums of integers times a kernel, rounded as if they were exact.

Sums are first computed in floating point. Where all of them are multiples of one power of two, and
few enough bits long, they are exact. Elsewhere their error has a bound, and the few pixels whose
rounding it leaves open are computed again, from exact parts: see `rounded`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Exact", "rounded"]

Array = npt.NDArray[Any]

# Kernels that are kept, as filters are called with the same ones.
KEPT = 64
# Bits of a number, counted from its first one, and roundoff.
_BITS = {"float32": 24, "float64": 53}
# Bound of the error in float32 beyond which float64 is taken. Twice the error is the share of
# pixels that are computed again, each of which takes as long as some thirty pixels did.
_LARGEST_ERROR = 0.01
# Exponents of factors up to which no sum of a row is infinite, or lost, before the next factor.
_SPREAD = {"float32": 40, "float64": 400}
# What a product may lack that is so small that it is taken for zero.
_TINY = {"float32": 2.0**-80, "float64": 2.0**-500}
# Exponents of what floating point can add up: beyond, fractions do.
_RANGE = 1000


@dataclass(frozen=True)
class Exact:
    """One kernel by its exact values, and how large the pixels are that it meets.

    Parameters
    ----------
    values : tuple of Fraction
        Of all taps.
    largest : int
        Magnitude of the largest pixel.
    roundings : float
        How often each product is rounded on its way into the sum, in the mean of their magnitudes:
        at most once for its weight, once for itself, and once for each addition.
    share : float
        Of the products of all taps, how many are computed: fewer by two vectors.
    spread : int
        Largest exponent, up or down, of the factors of values that are products.
    """

    values: tuple[Fraction, ...]
    largest: int
    roundings: float
    share: float = 1.0
    spread: int = 0

    @classmethod
    @lru_cache(KEPT)
    def _of(cls, kernel: bytes, largest: int) -> Exact:
        taps = np.frombuffer(kernel)
        return cls(tuple(map(Fraction, taps.tolist())), largest, 2 + _additions(taps))

    @classmethod
    def of(cls, kernel: Array, largest: int) -> Exact:
        """Take the kernel as float64 has it; it is finite."""
        return cls._of(kernel.tobytes(), largest)

    @classmethod
    def product(cls, down: Array, across: Array, largest: int) -> Exact:
        """Take the outer product of two vectors of float64, whose products are not rounded."""
        return cls._product(down.tobytes(), across.tobytes(), largest)

    @classmethod
    @lru_cache(KEPT)
    def _product(cls, column: bytes, row: bytes, largest: int) -> Exact:
        down, across = np.frombuffer(column), np.frombuffer(row)
        vertical, horizontal = (tuple(map(Fraction, each.tolist())) for each in (down, across))
        values = tuple(a * b for a in vertical for b in horizontal)
        factors = np.concatenate([down, across])
        exponents = np.frexp(factors[factors != 0])[1]
        spread = int(abs(exponents).max(initial=0))
        roundings = len(down) + len(across) + 2
        return cls(values, largest, roundings, roundings / (len(values) + 1), spread)

    @cached_property
    def total(self) -> Fraction:
        """Largest magnitude that a sum can have."""
        return sum((abs(value) for value in self.values), Fraction(0)) * self.largest

    @cached_property
    def unit(self) -> int:
        """Exponent of the largest power of two that divides all values."""
        denominator = max((value.denominator for value in self.values), default=1)
        if denominator > 1:
            return 1 - denominator.bit_length()
        divisor = math.gcd(*(value.numerator for value in self.values))
        return (divisor & -divisor).bit_length() - 1 if divisor else 0

    def is_exact(self, dtype: str) -> bool:
        """Whether sums in `dtype` are exact, in whatever order and with or without FMA."""
        bits, unit = _BITS[dtype], self.unit
        # Beyond these exponents numbers are subnormal, or infinite.
        small = self.spread < _SPREAD[dtype] and -100 < unit < 64
        return small and self.total < Fraction(2) ** (unit + bits)

    def error(self, dtype: str) -> float:
        """Bound of the error of sums in `dtype`, and of what is compared with them."""
        if self.is_exact(dtype):
            return 0.0
        if self.spread >= _SPREAD[dtype]:
            return math.inf
        steps = self.roundings + 4
        relative = 1.01 * steps * 2.0 ** -_BITS[dtype]
        return relative * self._float_total + len(self.values) * _TINY[dtype]

    @cached_property
    def _float_total(self) -> float:
        try:
            return math.nextafter(float(self.total), math.inf)
        except OverflowError:
            return math.inf

    @cached_property
    def dtype(self) -> str:
        """Type to sum in: float32 if few pixels at most need to be computed again."""
        return "float32" if self.error("float32") <= _LARGEST_ERROR * self.share else "float64"

    @cached_property
    def fine(self) -> npt.NDArray[np.float64]:
        """How to compute a pixel again in float64: the error of its sum, and the taps."""
        if self.is_extreme:  # nothing is decided by what float64 cannot have
            return np.array([math.inf] + [0.0] * len(self.values))
        relative = 1.01 * (len(self.values) + 6) * 2.0 ** -_BITS["float64"]
        error = relative * self._float_total + len(self.values) * _TINY["float64"]
        return np.array([error, *map(float, self.values)])

    @property
    def is_extreme(self) -> bool:
        """Whether the parts would be beyond the range of floating point."""
        return self.unit < -_RANGE or self.total >= Fraction(2) ** _RANGE

    @cached_property
    def parts(self) -> Array:
        """The kernel as the sum of parts whose sums of pixels are exact, the largest first."""
        if not any(self.values):
            return np.zeros((1, len(self.values)))
        scale = Fraction(2) ** -self.unit
        left = [int(value * scale) for value in self.values]
        exponent = self.unit
        bits = _BITS["float64"] - (len(left) * max(self.largest, 1)).bit_length()
        found = []
        while any(left):
            # The low bits of each, with its sign.
            low = [math.copysign(abs(n) & ((1 << bits) - 1), n) for n in left]
            found.append(np.ldexp(np.array(low, np.float64), exponent))
            left = [(abs(n) >> bits) * (1 if n > 0 else -1) for n in left]
            exponent += bits
        return np.stack(found[::-1])

    def sums(self, windows: Array) -> tuple[Array, Array]:
        """Sum up windows of pixels: (m, taps) give the sums, and the sign of what they lack."""
        terms = list(self.parts @ windows.astype(np.float64).T)
        # Each pass hands the rounding errors down; after as many passes as there are terms, each
        # is less than half a unit of the one before.
        for _ in terms:
            for i in range(len(terms) - 1, 0, -1):
                terms[i - 1], terms[i] = _two_sum(terms[i - 1], terms[i])
        lacking = np.zeros(len(windows))
        for term in reversed(terms[1:]):
            lacking = np.where(term != 0, np.sign(term), lacking)
        return terms[0], lacking


def _additions(taps: Array) -> float:
    """How often a product is rounded by additions, in the mean of their magnitudes.

    In whatever order they are added, no product is part of more sums than there are products, and
    if one is, others are part of fewer; most is lost if the largest ones come first.
    """
    sizes = np.sort(np.abs(taps))
    with np.errstate(over="ignore", invalid="ignore"):
        mean = float(sizes @ np.arange(1.0, len(sizes) + 1) / sizes.sum()) if sizes.any() else 0.0
    return mean if math.isfinite(mean) else float(len(sizes))


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """Add numbers, and give the rounding errors as well (Knuth's TwoSum)."""
    total = a + b
    second = total - a
    return total, (a - (total - second)) + (b - second)


def rounded(exact: Exact, windows: Array) -> Array:
    """Round sums half to even, as if they were exact.

    Parameters
    ----------
    exact : Exact
        The kernel.
    windows : ndarray of integers, shape (m, taps)
        Pixels of each sum.

    Returns
    -------
    ndarray of float64, shape (m,)
    """
    if exact.is_extreme:
        return np.array([_rounded_fraction(exact, window) for window in windows.tolist()])
    sums, lacking = exact.sums(windows)
    found: Array = np.rint(sums)
    # A sum is nearer to one side than it looks if something is lacking at half way.
    half = (np.abs(sums - np.trunc(sums)) == 0.5) & (lacking != 0)
    found[half] = sums[half] + 0.5 * lacking[half]
    return found


def _rounded_fraction(exact: Exact, window: list[int]) -> float:
    total = sum((v * int(p) for v, p in zip(exact.values, window, strict=True)), Fraction(0))
    # No result type holds more; a float does.
    return float(max(-(2**62), min(2**62, round(total))))
