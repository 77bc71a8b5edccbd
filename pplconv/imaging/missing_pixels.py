"""Filters of images with missing pixels: a mask, NaN, and sums divided by the weights present."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from .._checks import shown
from ..memory.array_like import array_of, refuse_mask
from ..memory.arrays import check_out
from .filter_arguments import FLOATS, INTEGERS, check_dtype, check_value

__all__ = ["check_mask", "filter_present"]

Array = npt.NDArray[Any]

# The least part of a kernel's magnitudes that its sum may be, where sums are divided by it.
_LEAST_SHARE = 1e-9


def check_mask(mask: object, shape: tuple[int, ...]) -> Array | None:
    """Return ``mask=`` as an array of bool, (H, W) or the shape of the image, or None."""
    if mask is None:
        return None
    array = array_of(mask, "mask")
    refuse_mask(array, "mask")
    if array.dtype != np.bool_:
        raise TypeError(f"mask must be of bool, True where a pixel is missing, got {array.dtype}")
    if array.shape not in (shape, shape[:2]):
        raise ValueError(f"mask must have shape {shape[:2]} or {shape}, got {array.shape}")
    return array


def filter_present(
    run: Callable[..., Array],
    pixels: Array,
    kernels: tuple[Array, ...],
    mask: Array | None,
    *,
    normalize: bool,
    border: object,
    value: object,
    dtype: object,
    out: object,
) -> Array:
    """Filter an image without the pixels that are missing.

    Parameters
    ----------
    run : callable
        Filters an image, with arguments ``border``, ``value``, ``dtype``, ``out`` and ``mode``.
    pixels : ndarray, shape (H, W) or (H, W, C)
        The image.
    kernels : tuple of ndarray
        One kernel or a bank of them, or two vectors.
    mask : ndarray of bool, optional
        Where pixels are missing.
    normalize : bool
        Whether to divide by the sums of the weights of pixels that are present. NaN is missing
        then.
    border, value, dtype, out : object
        As in `filter2d`.
    """
    missing = mask
    if missing is not None and missing.ndim < pixels.ndim:
        missing = missing[..., None]
    if not normalize:
        filled = pixels if missing is None else np.where(missing, pixels.dtype.type(0), pixels)
        return run(filled, border=border, value=value, dtype=dtype, out=out)
    result = _dtype_of(dtype, pixels.dtype)
    computed = np.dtype(np.float64 if result.itemsize == 8 else np.float32)
    if pixels.dtype.newbyteorder("=") not in (*INTEGERS, np.dtype(bool)):
        computed = np.result_type(computed, pixels.dtype).newbyteorder("=")
    for kernel in kernels:
        axes = (-1,) if kernel.ndim == 1 else (-2, -1)
        size, total = np.abs(kernel).sum(axes), np.abs(kernel.sum(axes))
        if not (total > _LEAST_SHARE * size).all() or not np.isfinite(size).all():
            raise ValueError(
                "kernel must have a finite sum other than zero for normalize=True, got "
                f"{shown(kernel.tolist())}"
            )
    around = 1
    if border == "constant" and np.isnan(check_value(value, _ANY)):
        around = value = 0
    if pixels.dtype.kind == "f":
        unknown = np.isnan(pixels)
        if unknown.any():
            missing = unknown if missing is None else missing | unknown
    if missing is not None and not missing.any():
        missing = None
    if missing is None and around:
        sums = run(pixels, border=border, value=value, dtype=computed)
        one = np.ones((1, 1), computed)
        weights = run(one, border="replicate", mode="same", anchor=None)
    else:
        filled = pixels if missing is None else np.where(missing, pixels.dtype.type(0), pixels)
        sums = run(filled, border=border, value=value, dtype=computed)
        present = np.ones(pixels.shape[:2], computed)
        if missing is not None:
            present = np.where(missing, computed.type(0), computed.type(1))
        weights = run(present, border=border, value=around)
    planes = sums.ndim - pixels.ndim
    if weights.ndim == planes + 2 < sums.ndim:
        weights = weights[..., None]
    if out is None:
        target = sums if result == computed else np.empty(sums.shape, result)
    else:
        target = check_out(out, sums.shape, result, image=pixels)
    with np.errstate(all="ignore"):
        np.divide(sums, weights, out=sums)
        if target is not sums:
            np.copyto(target, sums, casting="unsafe")
    return target


_ANY = np.dtype(np.float64)


def _dtype_of(dtype: object, image: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type of quotients, which is one of floating point."""
    if dtype is None:
        if image.kind == "f":
            return image.newbyteorder("=")
        return np.dtype(np.float32 if image.itemsize <= 2 else np.float64)
    found = check_dtype(dtype, image)
    if found not in FLOATS:
        raise TypeError(
            "dtype must be float16, float32 or float64 for normalize=True, whose results without "
            f"any pixel are NaN, got {found}"
        )
    return found
