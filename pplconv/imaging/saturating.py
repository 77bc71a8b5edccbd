"""Sums of integers as results: rounded half to even, saturated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..api.integer_sums import round_sums
from .rounding import Exact, rounded

__all__ = ["Saturate"]

Array = npt.NDArray[Any]

# Numbers of windows that are looked at together.
_TOGETHER = 1 << 18


class Saturate:
    """Rounds the sums of a band, and limits them to what a type of integers holds.

    Parameters
    ----------
    kernels : sequence of Exact
        One for each plane of the sums.
    extent : (int, int)
        Rows and columns of the kernels.
    computed, dtype : dtype
        Of the sums, and of the results.
    """

    def __init__(
        self,
        kernels: Sequence[Exact],
        extent: tuple[int, int],
        computed: np.dtype[Any],
        dtype: np.dtype[Any],
    ) -> None:
        limits = np.iinfo(dtype)
        # One pass of a kernel makes integers of 8 and 16 bits.
        self._small = limits.bits <= 16
        self._kernels, self._extent = kernels, extent
        # In float32 the largest int32 would be rounded up; such sums are in float64.
        self._limits = computed.type(limits.min), computed.type(limits.max)
        self._errors = [kernel.error(computed.name) for kernel in kernels]

    def __call__(self, sums: Array, band: Array, results: Array) -> None:
        """Round and store; `sums` are overwritten."""
        for kernel, error, some, result in zip(
            self._kernels, self._errors, sums, results, strict=True
        ):
            if self._small and error > 0 and result.flags.c_contiguous:
                self._round(kernel, error, some, band, result)
                continue
            if error == 0:
                np.rint(some, out=some)
                np.clip(some, *self._limits, out=some)
            else:
                self._decide(kernel, error, some, band)
            np.copyto(result, some.reshape(result.shape), casting="unsafe")

    def _round(self, kernel: Exact, error: float, sums: Array, band: Array, result: Array) -> None:
        """Round and store by a kernel, and compute exactly what the error leaves open."""
        missing = round_sums(sums, result, error)
        if len(missing):
            rows, columns = np.divmod(missing, sums.shape[1])
            exact = self._exactly(kernel, rows, columns, band)
            result.reshape(-1)[missing] = exact.astype(result.dtype)

    def _decide(self, kernel: Exact, error: float, sums: Array, band: Array) -> None:
        """Round sums with an error; those that it leaves open are computed exactly."""
        with np.errstate(all="ignore"):
            low = np.clip(np.rint(sums - sums.dtype.type(error)), *self._limits)
            high = np.add(sums, sums.dtype.type(error), out=sums)
        np.rint(high, out=high)
        np.clip(high, *self._limits, out=high)
        rows, columns = np.nonzero(low != high)
        if not len(rows):
            return
        sums[rows, columns] = self._exactly(kernel, rows, columns, band)

    def _exactly(self, kernel: Exact, rows: Array, columns: Array, band: Array) -> Array:
        """Round and limit the sums of some rows and columns, from exact parts."""
        plane = band.reshape(len(band), -1)
        taps_down, taps_across = self._extent
        taps = (
            np.arange(taps_down)[:, None] * plane.shape[1] + np.arange(taps_across) * band.shape[2]
        ).ravel()
        flat, found = plane.ravel(), np.empty(len(rows))
        step = max(_TOGETHER // len(taps), 1)
        for first in range(0, len(rows), step):
            some = slice(first, first + step)
            at = rows[some] * plane.shape[1] + columns[some]
            found[some] = rounded(kernel, flat[at[:, None] + taps])
        return np.clip(found, *self._limits)
