"""Quantized arithmetic in NumPy, by the contract of rounding: exact sums, one rounding a step.

A sum of products of integers is exact in int32. It becomes a number of the output's scale by one
multiplication in float32. A residual takes one more multiplication and an addition. The result is
clamped and rounded to the nearest integer, ties to even. The zero point is added last, and numbers
beyond the type saturate.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .._records import record

__all__ = [
    "RANGES",
    "Store",
    "average",
    "dequantize",
    "quantize",
    "windows",
]

Array = npt.NDArray[Any]
RANGES = {np.dtype(np.uint8): (0, 255), np.dtype(np.int8): (-128, 127)}
_SINGLE = np.dtype(np.float32)


def quantize(x: Array, scale: Any, zero: Any, dtype: np.dtype[Any]) -> Array:
    """Divide by the scale, round, add the zero point, saturate.

    Parameters
    ----------
    x : ndarray of float32
        Numbers; NaN becomes the least integer.
    scale, zero : ndarray or number
        Broadcast with `x`.
    dtype : numpy.dtype
        Of the result.
    """
    limits = np.iinfo(dtype)
    with np.errstate(all="ignore"):
        rounded = np.rint(x / np.asarray(scale, x.dtype)).astype(np.float64) + zero
    known = np.nan_to_num(rounded, nan=limits.min)
    return np.asarray(np.clip(known, limits.min, limits.max).astype(dtype))


def dequantize(x: Array, scale: Any, zero: Any) -> Array:
    """Subtract the zero point, which is exact, and multiply by the scale in its type."""
    scale = np.asarray(scale)
    return np.asarray((x.astype(np.int64) - zero).astype(scale.dtype) * scale)


@record(frozen=True, eq=False)
class Store:
    """The steps after a sum of integers.

    Parameters
    ----------
    dtype : numpy.dtype
        Of the output: uint8, int8, int32 or float32.
    offset : ndarray of int32
        Added to the sums; one for each channel, or one for all.
    multiplier : ndarray of float32 or None
        Likewise; None for int32.
    zero : int
        Zero point of the output.
    low, high : float
        Bounds, in units of the output's scale, zero point not counted.
    residual_scale, residual_zero : float, int
        Factor of a residual, and the zero point subtracted before.
    gate : (float, float, float), optional
        Slope, middle and shift: x becomes ``x * clip(x * slope + middle, 0, 1) + shift``. There is
        no residual then.
    table : ndarray of 256 bytes, optional
        Byte to store in place of each byte.
    """

    dtype: np.dtype[Any]
    offset: Any
    multiplier: Any
    zero: int = 0
    low: float = -np.inf
    high: float = np.inf
    residual_scale: float = 1.0
    residual_zero: int = 0
    gate: tuple[float, float, float] | None = None
    table: Array | None = None

    def __call__(self, sums: Array, residual: Array | None = None) -> Array:
        """Store sums whose channels are the last dimension.

        Parameters
        ----------
        sums : ndarray
            Integers, of any type that holds them.
        residual : ndarray, optional
            Of the same shape.
        """
        exact = sums + self.offset
        if self.dtype == np.int32:
            return np.asarray(exact.astype(np.int64).astype(np.int32))
        assert self.multiplier is not None
        y = exact.astype(_SINGLE) * self.multiplier
        if residual is not None:
            y += (residual.astype(_SINGLE) - self.residual_zero) * np.float32(self.residual_scale)
        if self.gate is not None:
            slope, middle, shift = map(np.float32, self.gate)
            y = y * np.clip(y * slope + middle, np.float32(0), np.float32(1)) + shift
        y = np.asarray(np.clip(y, np.float32(self.low), np.float32(self.high)))
        if self.dtype == _SINGLE:
            return y
        stored = np.asarray(np.clip(np.rint(y) + self.zero, *RANGES[self.dtype]).astype(self.dtype))
        if self.table is None:
            return stored
        return np.asarray(self.table.view(self.dtype)[stored.view(np.uint8)])


def windows(
    x: Array,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    pads: Sequence[int],
    fill: int,
    sizes: Sequence[int],
) -> list[Array]:
    """Give the inputs of each tap of a window, for all outputs.

    Parameters
    ----------
    x : ndarray
        (n, h, w, c).
    kernel, strides, dilations : sequence of int
        Of height and width.
    pads : sequence of int
        Top, left, bottom, right.
    fill : int
        Value of the padding.
    sizes : sequence of int
        Height and width of the output.
    """
    top, left, bottom, right = pads
    # Rounding up, the last windows may reach beyond the padding.
    reach = [
        (size - 1) * stride + (k - 1) * dilation + 1
        for size, stride, k, dilation in zip(sizes, strides, kernel, dilations, strict=True)
    ]
    below = max(bottom, reach[0] - x.shape[1] - top)
    beside = max(right, reach[1] - x.shape[2] - left)
    padded = np.pad(
        x, ((0, 0), (top, below), (left, beside), (0, 0)), constant_values=x.dtype.type(fill)
    )
    taps = []
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            rows = slice(i * dilations[0], i * dilations[0] + (sizes[0] - 1) * strides[0] + 1,
                         strides[0])  # fmt: skip
            columns = slice(j * dilations[1], j * dilations[1] + (sizes[1] - 1) * strides[1] + 1,
                            strides[1])  # fmt: skip
            taps.append(padded[:, rows, columns])
    return taps


def average(taps: Sequence[Array]) -> Array:
    """Sum the inputs of windows exactly."""
    return np.asarray(np.sum([tap.astype(np.float64) for tap in taps], 0))
