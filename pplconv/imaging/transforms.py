"""Large filters by Fourier transforms in float64: overlap-save, by ``scipy.fft`` if it is there.

An image is transformed in square tiles that overlap by the kernel; what a tile computes beyond the
kernel's reach is saved. Results of integers are exact: the error of a transform has a bound, and
sums are multiples of a unit that is larger than twice this bound, or else no transform is used.
"""

from __future__ import annotations

import math
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from .._checks import one_of
from .._literals import FilterMethod
from ..ops.edges import source_index
from .bands import Region
from .filter_arguments import INTEGERS, pixel_limit
from .operators import Bank
from .rounding import Exact

__all__ = ["METHODS", "Transformed", "check_method"]

Array = npt.NDArray[Any]

METHODS = ("direct", "auto", "fft")
# Kernels of fewer taps are never tried.
_FEWEST_TAPS = 200
# Sides of tiles, powers of two, whose transforms have the error bound below.
_SIDES = (128, 256, 512, 1024, 2048, 4096)
# Cycles of both transforms, the product and copies, for an element of a tile and each halving:
# SciPy's loops have vectors of two numbers on every CPU of one architecture.
_CYCLES = 1.8
# Errors of an element in units of 2**-53 and of both norms, for each halving: C. Percival, "Rapid
# multiplication modulo the sum and difference of highly composite numbers", 2003, theorem 5.1, has
# (1 + e)**(3n) * (1 + e * sqrt(5))**(3n + 1) * (1 + b)**(3n) - 1. This is more than twice as much.
_ERRORS = 32.0
# Where transforms of float64 are far from infinity.
_LARGEST_SUM = 1e300


def check_method(method: object) -> FilterMethod:
    """Return ``method=``."""
    found = one_of("method", method, METHODS)
    return "direct" if found == "direct" else "auto" if found == "auto" else "fft"


class Transformed:
    """A filter by transforms.

    Parameters
    ----------
    image : ndarray, shape (H, W, C)
        Of integers of at most 16 bits or floating point.
    bank : ndarray of float64, shape (n, kh, kw)
        Kernels.
    region : Region
        Outputs to compute.
    """

    def __init__(self, image: Array, bank: Array, region: Region) -> None:
        self._image, self._bank, self._region = image, bank, region
        self._side, self._cycles = min(
            (
                (side, self._cycles_of(side))
                for side in _SIDES
                if side >= 2 * max(bank.shape[1:])
            ),
            key=lambda pair: pair[1],
            default=(0, math.inf),
        )  # fmt: skip
        # Exponents of units of exact sums.
        self._units: list[int] | None = None

    def _cycles_of(self, side: int) -> float:
        """Estimate the cycles of tiles of some size."""
        (kh, kw), (height, width) = self._bank.shape[1:], self._region.shape
        tiles = -(-height // (side - kh + 1)) * -(-width // (side - kw + 1)) * self._image.shape[2]
        halvings = 2 * math.log2(side)
        # One transform of the pixels, and one of each kernel's products.
        return float(_CYCLES * tiles * side**2 * halvings * (1 + len(self._bank)) / 2)

    def refusal(self) -> str | None:
        """Say why transforms would not do; None if they would."""
        if not self._side:
            return f"kernel must have at most {_SIDES[-1] // 2} rows and columns"
        native = self._image.dtype.newbyteorder("=")
        if native in INTEGERS:
            largest = max(pixel_limit(native), 1)
            norm = largest * self._side * _ERRORS * 2.0**-53 * 2 * math.log2(self._side)
            exacts = [Exact((one.ravel(),), largest) for one in self._bank]
            self._units = [exact.unit for exact in exacts]
            for exact, one in zip(exacts, self._bank, strict=True):
                error = norm * float(np.sqrt(np.square(one).sum()))
                if not exact.is_exact("float64") or error >= 2.0 ** (exact.unit - 2):
                    return (
                        "kernel must have integers or short fractions of powers of two, for whose "
                        "sums the result of a transform is proved exact, as the image has integers"
                    )
        elif native.kind != "f":
            return f"image must not be {native}"
        elif not self._stays_finite():
            return "image, kernel and value must be finite, and no sum near the largest float64"
        try:
            import_module("scipy.fft")
        except ImportError:
            return "the package scipy must be installed"
        return None

    def _stays_finite(self) -> bool:
        """Whether no sum of a tile overflows; one that did would reach all results of the tile."""
        pixels = float(np.abs(self._image).max(initial=0))
        if self._region.border == "constant":
            pixels += abs(float(self._region.value))
        with np.errstate(all="ignore"):
            kernel = float(np.abs(self._bank).max(initial=0)) * math.prod(self._bank.shape[1:])
        # Comparisons with NaN are false.
        return pixels * self._side**2 * kernel < _LARGEST_SUM

    def wins(self, team: int) -> bool:
        """Whether transforms, on one thread, are estimated to take less time than direct sums."""
        if math.prod(self._bank.shape[1:]) < _FEWEST_TAPS or self._image.dtype.kind not in "uif":
            return False
        computed = np.result_type(self._image.dtype, np.float32)
        bank = Bank(np.ascontiguousarray(self._bank, computed), self._image.shape[2])
        (kh, kw), (height, width) = self._bank.shape[1:], self._region.shape
        shape = (1, 1, height + kh - 1, (width + kw - 1) * self._image.shape[2])
        direct = sum(bank.convolutions[0].plan_for(shape).cost.values())
        return self._cycles * team < direct

    def run(self, out: Array) -> None:
        """Filter the image.

        Parameters
        ----------
        out : ndarray, shape (n, rows, columns, C)
            Written.
        """
        fft: Any = import_module("scipy.fft")
        (kh, kw), side, (height, width) = self._bank.shape[1:], self._side, self._region.shape
        down, across = side - kh + 1, side - kw + 1
        kernels = np.conj(fft.rfft2(self._bank, s=(side, side), workers=1))
        for channel, plane in enumerate(np.moveaxis(self._around(), -1, 0)):
            for y in range(0, height, down):
                for x in range(0, width, across):
                    tile = plane[y : y + side, x : x + side].astype(np.float64)
                    seen = fft.rfft2(tile, s=(side, side), workers=1)
                    for k, (kernel, results) in enumerate(zip(kernels, out, strict=True)):
                        sums = fft.irfft2(seen * kernel, s=(side, side), workers=1)
                        part = results[y : y + down, x : x + across, channel]
                        self._store(sums[: part.shape[0], : part.shape[1]], part, k)

    def _around(self) -> Array:
        """Copy the image with the pixels around it."""
        region, (kh, kw) = self._region, self._bank.shape[1:]
        (top, left), (height, width) = region.origin, region.shape
        rows = source_index(region.border, top, height + kh - 1, self._image.shape[0])
        columns = source_index(region.border, left, width + kw - 1, self._image.shape[1])
        found = self._image.take(rows, 0).take(columns, 1)
        found[rows < 0] = region.value
        found[:, columns < 0] = region.value
        return found

    def _store(self, sums: Array, results: Array, kernel: int) -> None:
        with np.errstate(all="ignore"):
            if self._units is not None:
                unit = self._units[kernel]
                sums = np.ldexp(np.rint(np.ldexp(sums, -unit)), unit)
            if results.dtype.kind != "f":
                limits = np.iinfo(results.dtype)
                sums = np.clip(np.rint(sums), limits.min, limits.max)
            np.copyto(results, sums, casting="unsafe")
