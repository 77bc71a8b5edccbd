"""`observe`: scale and zero point of activations, from samples of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from .._checks import flag, one_of, shown
from .._literals import Method
from .histogram import Histogram
from .numbers import Array, real
from .ranges import range_of, scale_of

METHODS = ("minmax", "percentile", "mse")

_LARGEST = float(np.finfo(np.float32).max)
# Ends of ranges that are tried for the least error, as parts of the whole range.
_PARTS = np.linspace(0.1, 1.0, 91)


class Observer:
    """Collects statistics of arrays, to find their scale and zero point.

    Parameters
    ----------
    method, percentile, dtype, symmetric : optional
        As in `observe`.

    Raises
    ------
    TypeError, ValueError
        If one is not as described.
    """

    def __init__(
        self,
        method: Method = "minmax",
        *,
        percentile: float = 99.99,
        dtype: Any = np.uint8,
        symmetric: bool = False,
    ) -> None:
        one_of("method", method, METHODS)
        try:
            if isinstance(percentile, (bool, str)):
                raise TypeError
            fits = bool(50 < percentile <= 100)
        except (TypeError, ValueError):
            raise TypeError(f"percentile must be a number, got {shown(percentile)}") from None
        if not fits:
            raise ValueError(f"percentile must be more than 50 and at most 100, got {percentile!r}")
        range_of(dtype)
        self.method, self.percentile = method, percentile
        self.dtype, self.symmetric = np.dtype(dtype), flag("symmetric", symmetric)
        self._low, self._high, self._seen = 0.0, 0.0, False
        self._counts = None if method == "minmax" else Histogram()

    def add(self, x: Any) -> None:
        """Add the numbers of one array.

        Raises
        ------
        TypeError, ValueError
            If it holds no real, finite numbers.
        """
        numbers = real("x", x)
        if not numbers.size:
            return
        low, high = float(numbers.min()), float(numbers.max())
        # A NaN makes both NaN, which compare false.
        if not (low >= -_LARGEST and high <= _LARGEST):
            raise ValueError("x must be finite in float32, got NaN or an infinity")
        self._low, self._high = min(self._low, low), max(self._high, high)
        self._seen = True
        if self._counts is not None:
            self._counts.add(numbers)

    def range(self) -> tuple[float, float]:
        """Return the range that integers are to cover, zero included.

        Raises
        ------
        ValueError
            If no number was seen.
        """
        if not self._seen:
            raise ValueError("x must have elements, got none")
        if self._counts is None:
            return self._low, self._high
        if self.method == "percentile":
            low, high = self._counts.percentiles(self.percentile)
            return min(low, 0.0), max(high, 0.0)
        return self._least_error(self._counts)

    def _least_error(self, counts: Histogram) -> tuple[float, float]:
        """Shrink the range from its two ends in turn, as long as the squared error decreases."""
        middles, weights = counts.filled()
        best = (self._low, self._high)
        least = self._error(best, middles, weights)
        for _ in range(2):
            for end in (1,) if self.symmetric else (0, 1):
                for part in _PARTS:
                    tried = list(best)
                    tried[end] = part * (self._low, self._high)[end]
                    if self.symmetric:
                        tried[0] = part * self._low
                    error = self._error((tried[0], tried[1]), middles, weights)
                    if error < least:
                        best, least = (tried[0], tried[1]), error
        return best

    def _error(self, ends: tuple[float, float], middles: Array, weights: Array) -> float:
        """Return the squared error of all numbers if integers cover a range."""
        first, last = range_of(self.dtype)
        low, high = map(np.asarray, ends)
        scale, zero_point = scale_of(low, high, self.dtype, symmetric=self.symmetric)
        step, zero = float(scale), int(zero_point)
        q = np.clip(np.rint(middles / step), first - zero, last - zero)
        return float((np.square(q * step - middles) * weights).sum())

    def parameters(self) -> tuple[Any, Any]:
        """Return scale and zero point as NumPy scalars.

        Raises
        ------
        ValueError
            If no number was seen.
        """
        low, high = self.range()
        scale, zero = scale_of(
            np.asarray(low), np.asarray(high), self.dtype, symmetric=self.symmetric
        )
        return scale[()], zero[()]


def observe(
    x: Any,
    method: Method = "minmax",
    *,
    percentile: float = 99.99,
    dtype: Any = np.uint8,
    symmetric: bool = False,
) -> tuple[Any, Any]:
    """Find scale and zero point for activations.

    Parameters
    ----------
    x : array_like, or iterable of array_like
        Real, finite numbers; an iterable is read once, and its arrays may differ in shape.
    method : {"minmax", "percentile", "mse"}, optional
        Range that the integers cover. ``"minmax"``: all numbers. ``"percentile"``: all but the few
        largest and smallest, which saturate. ``"mse"``: the range with the least squared error,
        rounding and saturation together.
    percentile : float, optional
        More than 50, at most 100: this percentage of all numbers is not above the range, and the
        same percentage is not below.
    dtype : {uint8, int8}, optional
        Of the integers.
    symmetric : bool, optional
        Whether the zero point is 0 (128 for uint8).

    Returns
    -------
    scale : float32
    zero_point : `dtype`

    Raises
    ------
    TypeError, ValueError
        If `x` holds no real numbers, none at all or infinite ones, or another argument is not as
        described.

    See Also
    --------
    quantize_weights : the same for weights, without samples.

    Notes
    -----
    Zero is always in the range, so that padding is exact. ``"percentile"`` and ``"mse"`` count
    numbers in 16384 bins, so a range may end a bin beyond; the order of arrays does not matter.

    Examples
    --------
    >>> import numpy as np, pplconv
    >>> scale, zero_point = pplconv.quant.observe(np.array([-0.5, 0.0, 2.05]))
    >>> scale * 100, zero_point
    (np.float32(1.0), np.uint8(50))
    """
    observer = Observer(method, percentile=percentile, dtype=dtype, symmetric=symmetric)
    for array in arrays_of(x):
        observer.add(array)
    return observer.parameters()


def arrays_of(x: Any, name: str = "x") -> Iterator[Any]:
    """Yield one array, or the arrays of an iterable.

    Raises
    ------
    TypeError
        If it is neither.
    """
    if hasattr(x, "__array__") or hasattr(x, "__dlpack__") or isinstance(x, (int, float)):
        yield x
    elif isinstance(x, Iterable):
        yield from x
    else:
        raise TypeError(f"{name} must be an array or an iterable of arrays, got {type(x).__name__}")
