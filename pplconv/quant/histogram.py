"""Histograms, for ranges that leave some numbers out."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

# Bins on each side of zero. The range of eight bits has 255 steps, each of at least 32 bins.
_BINS = 8192
# Numbers below this power of two are treated like zero.
_LEAST = -150


class Histogram:
    """Counts of numbers in bins of one width; zero is the edge between two bins.

    Bins reach to the power of two above the largest magnitude so far. When a larger number comes,
    pairs of bins are merged, so counts do not depend on the order of the numbers.
    """

    def __init__(self) -> None:
        self.low, self.high = math.inf, -math.inf
        self._exponent: int | None = None
        self._counts = np.zeros(2 * _BINS, np.int64)

    @property
    def reach(self) -> float:
        """End of the last bin."""
        return 0.0 if self._exponent is None else math.ldexp(1.0, self._exponent)

    def add(self, numbers: Array) -> None:
        """Count numbers that float32 holds."""
        if not numbers.size:
            return
        # In float64 no product below can underflow: float32 has no numbers that small.
        exact = numbers.astype(np.float32).astype(np.float64).reshape(-1)
        low, high = float(exact.min()), float(exact.max())
        self.low, self.high = min(self.low, low), max(self.high, high)
        largest = max(-low, high)
        # The power of two above the largest: a number at the end of a bin counts in the next bin.
        self._widen(max(math.frexp(largest)[1], _LEAST) if largest else _LEAST)
        places = np.floor(exact * (_BINS / self.reach)).astype(np.int64) + _BINS
        self._counts += np.bincount(places, minlength=2 * _BINS)

    def _widen(self, exponent: int) -> None:
        """Make bins reach at least 2**exponent."""
        if self._exponent is None:
            self._exponent = exponent
        while self._exponent < exponent:
            pairs = self._counts.reshape(-1, 2).sum(1)
            if exponent - self._exponent > 2 * int(math.log2(_BINS)):
                # The new range is so wide that all counts end in the two bins beside zero.
                pairs[:] = 0
                half = _BINS // 2
                pairs[half - 1] = self._counts[:_BINS].sum()
                pairs[half] = self._counts[_BINS:].sum()
                self._exponent = exponent - 1
            self._counts[:] = 0
            self._counts[_BINS // 2 : -_BINS // 2] = pairs
            self._exponent += 1

    def percentiles(self, percentile: float) -> tuple[float, float]:
        """Return ends of bins with ``100 - percentile`` per cent of the numbers beyond each."""
        total = int(self._counts.sum())
        beyond = (1 - percentile / 100) * total
        first = int(np.argmax(np.cumsum(self._counts) > beyond))
        last = 2 * _BINS - 1 - int(np.argmax(np.cumsum(self._counts[::-1]) > beyond))
        width = self.reach / _BINS
        low, high = (first - _BINS) * width, (last + 1 - _BINS) * width
        return max(low, self.low), min(high, self.high)

    def filled(self) -> tuple[Array, Array]:
        """Return the middles of the bins that are not empty, and their counts."""
        places = np.flatnonzero(self._counts)
        middles = (places - _BINS + 0.5) * (self.reach / _BINS)
        return middles, self._counts[places]
