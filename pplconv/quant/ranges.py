"""From a range of real numbers to a scale and a zero point."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..memory.dtypes import dtype_of

# The integers of each quantized type; symmetric ranges leave the lowest one out.
_RANGES = {np.dtype(np.uint8): (0, 255), np.dtype(np.int8): (-128, 127)}
_TINY = float(np.finfo(np.float32).tiny)
_LARGEST = float(np.finfo(np.float32).max)

Array = np.ndarray[Any, Any]


def range_of(dtype: Any) -> tuple[int, int]:
    """Return the smallest and largest integer of a quantized type.

    Raises
    ------
    TypeError, ValueError
        If it is no dtype, or neither uint8 nor int8.
    """
    found = _RANGES.get(asked := dtype_of("dtype", dtype))
    if found is None:
        raise ValueError(f"dtype must be uint8 or int8, got {asked}")
    return found


def scale_of(low: Array, high: Array, dtype: Any, *, symmetric: bool) -> tuple[Array, Array]:
    """Return scales and zero points for ranges of real numbers.

    Ranges are widened to include zero, as padding needs an exact zero among the quantized
    numbers.

    Parameters
    ----------
    low, high : ndarray of float64
        Of each range; finite.
    dtype : data-type
        uint8 or int8.
    symmetric : bool
        Whether the zero point is fixed: 0 for int8, 128 for uint8, with 127 steps to each side.

    Returns
    -------
    scale : ndarray of float32
        1 for ranges that hold only zero.
    zero_point : ndarray of `dtype`
    """
    first, last = range_of(dtype)
    low, high = np.minimum(low, 0.0), np.maximum(high, 0.0)
    if symmetric:
        span = np.maximum(-low, high) / 127
    else:
        span = high / (last - first) - low / (last - first)
    exact = np.where(span == 0, 1.0, np.clip(span, _TINY, _LARGEST))
    scale = exact.astype(np.float32)
    if symmetric:
        zero = np.full(scale.shape, (first + last + 1) // 2)
    else:
        zero = np.clip(np.rint(first - low / scale.astype(np.float64)), first, last)
    return scale, zero.astype(dtype)
