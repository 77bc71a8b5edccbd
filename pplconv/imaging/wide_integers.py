"""Exact filters of bool, int32 and int64 images: sums in float64, in halves, or once more.

The loops read integers of 16 bits at most. Wider ones are summed up as float64, which is exact if
all sums are short enough. Longer sums are made of two halves of the pixels, and added as integers
of 64 bits. Where a kernel's values are no short fractions, the error of the sums has a bound, and
sums nearer to half way than this bound are made once more, of integers of any length.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from .._records import record
from ..memory.arrays import check_out
from ..ops.edges import source_index
from .bands import Region, Store, prepared
from .operators import Operator
from .rounding import Exact

__all__ = ["Wide", "filter_truth"]

Array = npt.NDArray[Any]

# Sums below it, and what is added to round them, fit int64.
_LONGEST = 2.0**62
# Of a number of float64.
_BITS = 53
# Largest error of float64 sums: twice the error is the share of sums that are made once more.
_LARGEST_ERROR = 0.01
# Products of sums that are made once more at a time.
_AT_A_TIME = 1 << 20


def filter_truth(
    run: Callable[..., Array], pixels: Array, dtype: np.dtype[Any], out: object, value: object
) -> Array:
    """Filter an image of bool, whose pixels count as 0 and 1.

    Parameters
    ----------
    run : callable
        Filters an image, with arguments ``dtype``, ``out`` and ``value``.
    pixels : ndarray of bool
        The image.
    dtype : dtype
        Of the result: of bool are the sums that round to 1 or more.
    out, value : object
        As in `filter2d`.
    """
    counts = pixels.view(np.uint8)
    if dtype != np.bool_:
        return run(counts, dtype=dtype, out=out, value=value)
    if out is None:
        found = run(counts, dtype=np.uint8, value=value)
    else:
        shape = getattr(out, "shape", ())
        found = check_out(out, shape, dtype, image=pixels).view(np.uint8)
        run(counts, dtype=np.uint8, out=found, value=value)
    np.minimum(found, 1, out=found)
    return found.view(np.bool_)


@record(frozen=True)
class Wide:
    """A filter of int32 or int64 images into integers, or floating point.

    Parameters
    ----------
    image : ndarray, shape (H, W, C)
        Of integers.
    operator_of : callable
        Makes an operator of the factors of a kernel.
    region : Region
        Outputs to compute.
    extent : (int, int)
        Rows and columns of the kernel.
    team : int
        Threads, at most.
    """

    image: Array
    operator_of: Callable[[tuple[Array, ...]], Operator]
    region: Region
    extent: tuple[int, int]
    team: int

    def run(self, kernels: list[tuple[Array, ...]], out: Array) -> None:
        """Filter the image by kernels.

        Parameters
        ----------
        kernels : list of tuple of ndarray of float64
            Of each kernel all values (kh * kw), or a column and a row.
        out : ndarray, shape (n, rows, columns, C)
            Written.

        Raises
        ------
        ValueError
            If integers could not be exact; nothing is written then.
        """
        if out.dtype.kind == "f":
            for kernel, plane in zip(kernels, out, strict=True):
                self._sum(Exact(kernel, 1), self.image, plane[None])
            return
        around = abs(self.region.value) if self.region.border == "constant" else 0
        largest = max(abs(int(self.image.min())), abs(int(self.image.max())), int(around), 1)
        exacts = [Exact(kernel, largest) for kernel in kernels]
        found = [self._way_of(exact) for exact in exacts]
        for exact, way, plane in zip(exacts, found, out, strict=True):
            way(exact, plane[None])

    def _way_of(self, exact: Exact) -> Callable[[Exact, Array], None]:
        """Choose how sums are made."""
        if exact.total < _LONGEST:
            if exact.is_exact("float64"):
                return self._in_one
            if -62 < exact.unit < 62 and exact.total < 2.0 ** (62 + exact.unit):
                half = Exact(exact.factors, (1 << _half_bits(exact)) + 1)
                if half.is_exact("float64"):
                    return self._in_halves
            # Pixels are exact in float64, too.
            if exact.largest < 1 << _BITS and exact.error("float64") <= _LARGEST_ERROR:
                return self._with_open_sums
        raise ValueError(
            f"image and kernel: sums of pixels up to {exact.largest} cannot be exact here, with 64 "
            "bits: convert the image to float64"
        )

    def _sum(
        self, exact: Exact, image: Array, out: Array, region: Region | None = None,
        store: Store | None = None,
    ) -> None:  # fmt: skip
        """Make sums in float64; `store` makes results of them."""
        operator = self.operator_of(exact.scaled)
        made = prepared(image, operator, region or self.region, out, None, self.team, store)
        made(image, out)

    def _in_one(self, exact: Exact, out: Array) -> None:
        """Round sums that are exact in float64."""
        self._sum(exact, self.image, out, store=_round)

    def _in_halves(self, exact: Exact, out: Array) -> None:
        """Add the sums of upper and lower halves of the pixels, in units of the kernel's values."""
        bits, value = _half_bits(exact), int(self.region.value)
        sums = np.zeros(out.shape, np.int64)
        image = self.image.astype(np.int64)
        below = (1 << bits) - 1
        for pixels, around, shift in (
            (image >> bits, value >> bits, bits),
            (image & below, value & below, 0),
        ):
            part = np.empty(out.shape, np.float64)
            self._sum(exact, pixels, part, replace(self.region, value=float(around)))
            # The units of all sums are those of the kernel: this scales them to integers.
            sums += np.ldexp(part, -exact.unit).astype(np.int64) << shift
        np.copyto(out, _saturated(_shifted(sums, -exact.unit), out.dtype), casting="unsafe")

    def _with_open_sums(self, exact: Exact, out: Array) -> None:
        """Round sums in float64, and make those near half way once more of exact integers."""
        sums = np.empty(out.shape, np.float64)
        self._sum(exact, self.image, sums)
        results = np.rint(sums)
        # Half a unit of the rounding of sums is in the bound.
        is_open = abs(abs(sums - results) - 0.5) <= 1.01 * exact.error("float64")
        places = np.nonzero(is_open[0])
        sums = results.astype(np.int64)
        for first in range(0, len(places[0]), max(_AT_A_TIME // exact.count, 1)):
            some = tuple(at[first : first + max(_AT_A_TIME // exact.count, 1)] for at in places)
            sums[0][some] = self._exactly(exact, some)
        np.copyto(out, _saturated(sums, out.dtype), casting="unsafe")

    def _exactly(self, exact: Exact, places: tuple[Array, ...]) -> Array:
        """Give some sums, rounded half to even."""
        rows, columns, channels = places
        (h, w), (kh, kw) = self.image.shape[:2], self.extent
        (first, left), (height, width) = self.region.origin, self.region.shape
        down = source_index(self.region.border, first, height + kh - 1, h)
        across = source_index(self.region.border, left, width + kw - 1, w)
        y = down[rows[:, None] + np.arange(kh)][:, :, None]
        x = across[columns[:, None] + np.arange(kw)][:, None]
        seen = self.image[y, x, channels[:, None, None]].astype(np.int64)
        seen[np.broadcast_to((y < 0) | (x < 0), seen.shape)] = int(self.region.value)
        taps = [[Fraction(tap) for tap in factor.tolist()] for factor in exact.factors]
        below = [math.lcm(*(tap.denominator for tap in factor)) for factor in taps]
        whole = [
            np.array([int(tap * unit) for tap in factor], object)
            for factor, unit in zip(taps, below, strict=True)
        ]
        kernel = whole[0] if len(whole) == 1 else np.multiply.outer(*whole).ravel()
        sums = seen.reshape(len(seen), -1).astype(object) @ kernel
        unit = math.prod(below)
        return np.array([round(Fraction(one, unit)) for one in sums], np.int64)


def _half_bits(exact: Exact) -> int:
    """Bits of the lower half of a pixel."""
    return (exact.largest.bit_length() + 1) // 2


def _round(sums: Array, results: Array) -> None:
    """Store the integers nearest to sums below 2**62, saturated."""
    np.copyto(results, _saturated(np.rint(sums, out=sums), results.dtype), casting="unsafe")


def _saturated(sums: Array, dtype: np.dtype[Any]) -> Array:
    """Clip sums, which int64 holds."""
    limits = np.iinfo(dtype)
    return sums if limits.bits == 64 else np.clip(sums, limits.min, limits.max, out=sums)


def _shifted(sums: Array, bits: int) -> Array:
    """Divide integers by a power of two, half to even; or multiply them by one."""
    if bits <= 0:
        return sums << -bits
    found = sums >> bits
    rest, half = sums - (found << bits), 1 << (bits - 1)
    found += (rest > half) | ((rest == half) & (found & 1 == 1))
    return found
