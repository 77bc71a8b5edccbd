"""Kernels of bytes whose rows and columns are mirrored: pixels of one weight are added up first."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .fixed_point import two_digits

__all__ = ["mirrored_digits"]

Array = npt.NDArray[Any]

# Distances of the taps of one weight from the middle, in the order of `filter_mirrored`. Of 5x5, a
# weight is also that of the distances the other way round.
_ORDER = {
    (3, 3): ((0, 0), (0, 1), (1, 0), (1, 1)),
    (5, 5): ((0, 0), (0, 1), (1, 1), (0, 2), (1, 2), (2, 2)),
}
# Bits of both digits behind the binary point, and of the low one.
_BITS = 31
_LOW_BITS = 15
# Sums that are certainly not rounded beyond a byte.
_MOST = 255.49 / 255


def mirrored_digits(taps: Array, extent: tuple[int, int], *, separable: bool) -> Array | None:
    """Return the weights of a kernel as ``filter_mirrored`` has them, if it takes the kernel.

    Parameters
    ----------
    taps : ndarray of float64
        Of the kernel; with `separable`, of a column and a row.
    extent : (int, int)
        Rows and columns of the kernel.
    separable : bool
        Whether the kernel is the product of a column and a row.

    Returns
    -------
    ndarray of int16, optional
        High digits, then low ones.
    """
    order = _ORDER.get(extent)
    if order is None:
        return None
    rows = extent[0]
    kernel = np.outer(taps[:rows], taps[rows:]) if separable else taps.reshape(extent)
    if not np.array_equal(kernel, kernel[::-1]) or not np.array_equal(kernel, kernel[:, ::-1]):
        return None
    if extent == (5, 5) and not np.array_equal(kernel, kernel.T):
        return None
    if not (kernel.min() >= 0 and kernel.max() < 0.5 and kernel.sum() < _MOST):
        return None
    middle = extent[0] // 2
    weights = np.array([kernel[middle + y, middle + x] for y, x in order])
    # A sum of pixels times the errors of weights is less than half of the low digit's 2**15.
    numbers = np.rint(np.ldexp(weights, _BITS)).astype(np.int64)
    high, low = two_digits(numbers, _LOW_BITS)
    if high.max() >= 1 << _LOW_BITS:
        return None
    return np.concatenate([high, low]).astype(np.int16)
