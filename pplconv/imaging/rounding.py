"""Arithmetic for sums of integers, chosen so that they are rounded as if they were exact.

Sums are exact if all of them are multiples of one power of two and short enough, or if the kernel
is nearly integers over a divisor and these integers are summed up. Otherwise a bound
of the error is known. Sums too near half way for it are computed once more, in float64 and then by
digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .banded import Rounding
from .digits import digits_of, unit_of
from .ratios import MOST_AGAIN, Ratio, ratios_of

__all__ = ["Exact", "saturated"]

Array = npt.NDArray[Any]

# Most kernels that are kept, as filters are often called with the same ones; most bytes of each.
KEPT = 64
KEPT_BYTES = 1 << 14
# Significant bits of a number.
_BITS = {"float32": 24, "float64": 53}
# Bound of the error in float32 beyond which float64 is taken. Twice the error is the share of
# pixels that are computed again, each of which takes as long as some thirty pixels did.
_LARGEST_ERROR = 0.01
# Exponent of the largest value of a column, and the error of sums whose tiny products are flushed
# to zero: sums of a row of magnitudes below one lose less.
_LARGEST = {"float32": 40, "float64": 400}
_TINY = {"float32": 2.0**-60, "float64": 2.0**-500}
# Sums that kernels round in blocks of rows are less than these.
_MOST_SUM = {"float32": 2.0**21, "float64": 2.0**30}
# Beyond this error, blocks would mostly be rounded twice.
_MOST_NEAR = 0.02
# Bounds of sums are computed in float64; this covers their rounding.
_MARGIN = 1 + 1e-9


class Again(NamedTuple):
    """How sums are made once more: in float64 with an error bound, then by digits if still open.

    Parameters
    ----------
    error : float
        Of the sums of `taps`.
    taps : ndarray
        Flat.
    digits : ndarray, shape (m, 1 + number of taps)
        As `digits_of` makes them.
    """

    error: float
    taps: Array
    digits: Array

    def numbers(self, digits: int) -> Array:
        """Return all fields as the loops read them, with room for some number of digits."""
        kept = len(self.digits)
        none = np.zeros((digits - kept) * (1 + len(self.taps)))
        return np.concatenate([(self.error, kept), self.taps, self.digits.ravel(), none])


@dataclass(frozen=True)
class Way:
    """How sums of one kernel are made and rounded, as `pplconv.imaging.banded.Rounding` has it.

    Parameters
    ----------
    factors : tuple of ndarray
        Taps to sum up: a kernel, or a column and a row.
    error : float
        Bound of the error of sums.
    divisor, direction : int
        Of sums of integers.
    again : Again, optional
        How sums are made once more.
    """

    factors: tuple[Array, ...]
    error: float = 0.0
    divisor: int = 0
    direction: int = 0
    again: Again | None = None


class Exact:
    """One kernel by its exact values, and the largest magnitude of pixels.

    Parameters
    ----------
    factors : tuple of ndarray of float64
        One flat kernel; or a column and a row, with exact products.
    largest : int
        Magnitude of the largest pixel.
    """

    def __init__(self, factors: tuple[Array, ...], largest: int) -> None:
        self.factors, self.largest = factors, largest
        self.count = math.prod(map(len, factors))
        self._ways: dict[str, Way] = {}
        # How often each product is rounded on its way into the sum, in the mean of their
        # magnitudes: at most once for its weight, once for itself, and once for each addition.
        if len(factors) == 1:
            self._roundings = 2 + _additions(factors[0])
            self._share = 1.0
        else:
            self._roundings = sum(map(len, factors)) + 2.0
            # Share of the products of all taps that are computed.
            self._share = self._roundings / (self.count + 1)

    @classmethod
    def of(cls, kernel: Array, largest: int) -> Exact:
        """Take the kernel as float64 has it; it is finite."""
        return _kept(largest, kernel)

    @classmethod
    def product(cls, down: Array, across: Array, largest: int) -> Exact:
        """Take the outer product of two vectors of float64, whose products are not rounded."""
        return _kept(largest, down, across)

    @cached_property
    def scaled(self) -> tuple[Array, ...]:
        """The factors; a row is scaled to magnitudes below one."""
        if len(self.factors) == 1:
            return self.factors
        down, across = self.factors
        exponent = int(np.frexp(np.abs(across).max())[1])
        with np.errstate(all="ignore"):
            return np.ldexp(down, exponent), np.ldexp(across, -exponent)

    @cached_property
    def total(self) -> float:
        """Upper bound of the magnitude of a sum."""
        with np.errstate(all="ignore"):
            sums = [float(np.abs(factor).sum()) for factor in self.scaled]
        total = math.prod(sums) * self.largest * _MARGIN
        return total if math.isfinite(total) else math.inf

    @cached_property
    def unit(self) -> int:
        """Exponent of the largest power of two that divides all values."""
        return sum(unit_of(factor) for factor in self.factors)

    def is_exact(self, dtype: str) -> bool:
        """Whether sums in `dtype` are exact, in any order, with or without FMA."""
        # Beyond these exponents numbers are subnormal, or infinite.
        return -100 < self.unit < 64 and self.total < 2.0 ** (self.unit + _BITS[dtype])

    def near(self, dtype: str) -> float:
        """How far a sum may be from the integer that the exact sum is certainly rounded to.

        The distance is computed exactly. If it is less than half by more than the error of the sum,
        the exact sum is on the same side of half way; an exact sum is rounded right even there. 0:
        some sums are too large for blocks of rows.
        """
        if not self.total < _MOST_SUM[dtype]:
            return 0.0
        if self.is_exact(dtype):
            return 0.5
        error = self.error(dtype)
        if not error < _MOST_NEAR:
            return 0.0
        error = min(error, self._in_turn(dtype) + self.count * _TINY[dtype])
        near = np.dtype(dtype).type(0.5 - 1.0001 * error)
        return float(np.nextafter(near, near.dtype.type(0)))

    def error(self, dtype: str) -> float:
        """Bound of the error of sums in `dtype` and of the values compared with them."""
        return self._error(dtype, self._roundings + 4)

    def _error(self, dtype: str, steps: float) -> float:
        if self.is_exact(dtype):
            return 0.0
        if float(np.abs(self.scaled[0]).max()) > 2.0 ** _LARGEST[dtype]:
            return math.inf
        relative = 1.01 * steps * 2.0 ** -_BITS[dtype] * self.total
        return min(relative, self._halves(dtype)) + self.count * _TINY[dtype]

    def _halves(self, dtype: str) -> float:
        """Bound of the error by halves of a unit in the last place, and of the values compared.

        No sum of some of the products, rounded on its way, is larger than the bound of all of them.
        So an addition errs by at most half a unit of that bound, in whatever order they come, and
        whether or not it is fused with a product. Products together err by at most their sum times
        half a unit of one; the weights, by as much as they do. Two more halves are for the values
        that sums are compared with.
        """

        def of_pass(taps: Array, total: float) -> float:
            return (len(taps) - 1) * _half(total, dtype) + total * 2.0 ** -_BITS[dtype]

        made = max(self._passes(dtype, first, of_pass) for first in range(len(self.factors)))
        return 1.01 * (made + 2 * _half(self.total, dtype))

    def _in_turn(self, dtype: str) -> float:
        """Bound of the error of sums whose taps come in turn: those of a column, then of a row.

        A sum of the first taps is no larger than these times the largest pixel, so its addition
        errs by at most half a unit of that; so does each product that is not fused.
        """

        def of_pass(taps: Array, total: float) -> float:
            with np.errstate(all="ignore"):
                sizes = np.abs(taps) / np.abs(taps).sum() * total
            sums = [_half(size, dtype) for size in np.cumsum(sizes)[1:]]
            return sum(sums) + sum(_half(size, dtype) for size in sizes)

        return 1.01 * self._passes(dtype, 0, of_pass)

    def _passes(self, dtype: str, first: int, of_pass: Callable[[Array, float], float]) -> float:
        """Bound of the error of one pass or two, `first` the first of them, with the weights'."""
        tops = [float(np.abs(factor).sum()) for factor in self.scaled]
        with np.errstate(all="ignore"):
            errs = [float(np.abs(each.astype(dtype) - each).sum()) for each in self.scaled]
        if len(tops) == 1:
            return of_pass(self.scaled[0], self.total) + errs[0] * self.largest
        last = 1 - first
        made = of_pass(self.scaled[first], tops[first] * self.largest) * tops[last]
        made += of_pass(self.scaled[last], self.total)
        return made + (tops[0] * errs[1] + tops[1] * errs[0] + errs[0] * errs[1]) * self.largest

    @cached_property
    def _ratios(self) -> tuple[Ratio, ...]:
        return ratios_of(self.factors, self.largest)

    def _ratio(self, dtype: str) -> Ratio | None:
        """Give the first ratio whose sums are exact in `dtype`."""
        return next((ratio for ratio in self._ratios if ratio.fits(_BITS[dtype])), None)

    @cached_property
    def dtype(self) -> str:
        """Type to sum in: float32 if few pixels at most need to be computed again."""
        if self.is_exact("float32"):
            return "float32"
        if self._ratio("float32") is not None:
            return "float32"
        # Many sums may lie half way.
        ratio = self._ratio("float64")
        if ratio is not None and ratio.divisor % 2 == 0:
            return "float64"
        near = self.error("float32") <= _LARGEST_ERROR * self._share
        return "float32" if near and self.count <= MOST_AGAIN else "float64"

    def way(self, dtype: str) -> Way:
        """Return how sums are made in `dtype`, which has at least the bits of `self.dtype`."""
        found = self._ways.get(dtype)
        if found is None:
            found = self._ways[dtype] = self._way(dtype)
        return found

    def _way(self, dtype: str) -> Way:
        if self.is_exact(dtype):
            return Way(self.scaled)
        ratio = self._ratio(dtype)
        if ratio is not None:
            again = None
            if ratio.again is not None:
                error = float(ratio.again[0])
                again = self._again(error, 2 * error / ratio.divisor, ratio.again[1:])
            return Way(ratio.numerators, 0.0, ratio.divisor, ratio.direction, again)
        again = None
        if dtype == "float32" and self.count <= MOST_AGAIN:
            taps = self.scaled[0]
            if len(self.factors) > 1:
                taps = np.outer(*self.scaled)
            error = self._error("float64", self.count + 6)
            again = self._again(error, 2 * error, taps)
        return Way(self.scaled, self.error(dtype), again=again)

    def _again(self, error: float, distance: float, taps: Array) -> Again:
        """Return how open sums are made once more, with digits for sums that stay open."""
        digits = digits_of(self.factors, 1.01 * distance, self.largest) if error else None
        return Again(
            error, taps.ravel(), np.empty((0, 1 + self.count)) if digits is None else digits
        )


def _half(size: float, dtype: str) -> float:
    """Half a unit in the last place of numbers up to a size, and a little beyond it."""
    return 2.0 ** (math.frexp(size * 1.001)[1] - _BITS[dtype] - 1) if size else 0.0


def _kept(largest: int, *factors: Array) -> Exact:
    if sum(factor.nbytes for factor in factors) <= KEPT_BYTES:
        return _made(largest, *(factor.tobytes() for factor in factors))
    return Exact(tuple(factor.ravel() for factor in factors), largest)


@lru_cache(KEPT)
def _made(largest: int, *factors: bytes) -> Exact:
    return Exact(tuple(map(np.frombuffer, factors)), largest)


def _additions(taps: Array) -> float:
    """How often a product is rounded by additions, averaged by magnitude.

    In any order of additions, no product is part of more sums than there are products, and if one
    is part of many, others are part of fewer. Most is lost if the largest products come first.
    """
    sizes = np.sort(np.abs(taps))
    with np.errstate(all="ignore"):
        mean = float(sizes @ np.arange(1.0, len(sizes) + 1) / sizes.sum()) if sizes.any() else 0.0
    return mean if math.isfinite(mean) else float(len(sizes))


def saturated(
    kernels: Sequence[Exact], dtype: np.dtype[Any]
) -> tuple[np.dtype[Any], list[Way], Rounding]:
    """Return how sums of kernels become integers of some type.

    Parameters
    ----------
    kernels : sequence of Exact
        One for each plane of the sums, of one extent.
    dtype : dtype
        Of the results, of at most 32 bits.

    Returns
    -------
    computed : dtype
        Of the sums.
    ways : list of Way
        How sums are made, for each plane.
    rounding : Rounding
        How the loops round these sums.
    """
    info = np.iinfo(dtype)
    # In float32 the largest int32 would be rounded up.
    short = info.bits <= 16 and all(kernel.dtype == "float32" for kernel in kernels)
    computed: np.dtype[Any] = np.dtype(np.float32 if short else np.float64)
    ways = [kernel.way(computed.name) for kernel in kernels]
    limits = np.array(
        [
            (_rounded_up(way.error, computed), info.min, info.max, way.divisor, way.direction)
            for way in ways
        ],
        computed,
    )
    again = None
    if any(way.again is not None for way in ways):
        # Where a plane has none, nothing is decided.
        count = kernels[0].count
        none = Again(math.inf, np.zeros(count), np.empty((0, 1 + count)))
        planes = [none if way.again is None else way.again for way in ways]
        most = max(len(plane.digits) for plane in planes)
        again = np.stack([plane.numbers(most) for plane in planes])
    taps = np.stack([np.concatenate(kernel.factors) for kernel in kernels])
    is_divided = len(kernels) > 1 or ways[0].divisor
    near = 0.0 if is_divided else kernels[0].near(computed.name)
    return computed, ways, Rounding(limits, taps, again, len(kernels[0].factors) > 1, near)


def _rounded_up(error: float, computed: np.dtype[Any]) -> float:
    """Return the error rounded up to a number of a type."""
    with np.errstate(all="ignore"):
        near = computed.type(error)
        return float(near if near >= error else np.nextafter(near, computed.type(np.inf)))
