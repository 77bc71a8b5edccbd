"""Sums of integers as results: rounded half to even, saturated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .rounding import Exact, rounded
from .windows import Windows

__all__ = ["Saturate"]

Array = npt.NDArray[Any]
Index = npt.NDArray[np.int64]


class Saturate:
    """Rounds sums, and limits them to what a type of integers holds.

    Parameters
    ----------
    kernels : sequence of Exact
        One for each plane of the sums.
    computed, dtype : dtype
        Of the sums, and of the results.
    """

    def __init__(
        self, kernels: Sequence[Exact], computed: np.dtype[Any], dtype: np.dtype[Any]
    ) -> None:
        info = np.iinfo(dtype)
        self._kernels = kernels
        # In float32 the largest int32 would be rounded up; such sums are in float64.
        self._limits = computed.type(info.min), computed.type(info.max)
        self._errors = [_rounded_up(kernel.error(computed.name), computed) for kernel in kernels]
        # The loops round to integers of 8 and 16 bits.
        self.limits: Array | None = None
        self.fine: Array | None = None
        if info.bits <= 16:
            if computed == np.float32:
                fine = np.stack([kernel.fine for kernel in kernels])
                limits = np.broadcast_to((float(info.min), float(info.max)), (len(kernels), 2))
                self.fine = np.concatenate([fine[:, :1], limits, fine[:, 1:]], axis=1)
            self.limits = np.array([(e, info.min, info.max) for e in self._errors], computed)

    def settle(self, missing: Index, windows: Windows, results: Array) -> None:
        """Compute exactly what the errors leave open."""
        planes, rows, columns, channels = np.unravel_index(missing, results.shape)
        for plane in np.unique(planes):
            some = planes == plane
            at = rows[some], columns[some], channels[some]
            results[plane][at] = self._exactly(self._kernels[plane], at, windows)

    def store(self, sums: Array, windows: Windows, results: Array) -> None:
        """Round and store; `sums` are overwritten."""
        for kernel, error, some, result in zip(
            self._kernels, self._errors, sums, results, strict=True
        ):
            if error == 0:
                np.rint(some, out=some)
                np.clip(some, *self._limits, out=some)
            else:
                self._decide(kernel, error, some, windows)
            np.copyto(result, some, casting="unsafe")

    def _decide(self, kernel: Exact, error: float, sums: Array, windows: Windows) -> None:
        """Round sums with an error; those that it leaves open are computed exactly."""
        with np.errstate(all="ignore"):
            low = np.clip(np.rint(sums - sums.dtype.type(error)), *self._limits)
            high = np.add(sums, sums.dtype.type(error), out=sums)
        np.rint(high, out=high)
        np.clip(high, *self._limits, out=high)
        at = np.nonzero(low != high)
        if len(at[0]):
            sums[at] = self._exactly(kernel, at, windows)

    def _exactly(self, kernel: Exact, at: tuple[Index, ...], windows: Windows) -> Array:
        """Round and limit the sums of some rows, columns and channels, from exact parts."""
        found = np.empty(len(at[0]))
        for some, pixels in windows.of(*at):
            found[some] = rounded(kernel, pixels)
        return np.clip(found, *self._limits)


def _rounded_up(error: float, computed: np.dtype[Any]) -> float:
    """Give the error as a number of a type, no less than it is."""
    with np.errstate(over="ignore"):
        near = computed.type(error)
    return float(near if near >= error else np.nextafter(near, computed.type(np.inf)))
