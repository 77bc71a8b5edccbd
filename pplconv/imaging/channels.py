"""Filters of channels one by one: a kernel for each, or channels on another axis than the last."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from .._checks import integer
from ..memory.array_like import array_of
from ..memory.arrays import check_out
from ..memory.namespaces import as_given
from .filter_arguments import check_image

__all__ = ["filter_each", "on_axis"]

Array = npt.NDArray[Any]


def filter_each(
    run: Callable[..., Array], pixels: Array, kernels: Array, mask: Array | None, out: object
) -> Array:
    """Filter each channel with its own kernel.

    Parameters
    ----------
    run : callable
        Filters an image (H, W), its second argument, with a kernel, its first; also with ``mask``.
    pixels : ndarray, shape (H, W, C)
        The image.
    kernels : ndarray, shape (C, kh, kw)
        One a channel.
    mask : ndarray of bool, optional
        (H, W) or (H, W, C).
    out : object
        As in `filter2d`.
    """
    if pixels.ndim != 3 or kernels.ndim != 3 or len(kernels) != pixels.shape[2]:
        raise ValueError(
            "kernel must have one kernel (kh, kw) for each channel with per_channel=True, got "
            f"shape {kernels.shape} for an image of shape {pixels.shape}"
        )
    found = out
    for channel, kernel in enumerate(kernels):
        one = mask[..., channel] if mask is not None and mask.ndim == 3 else mask
        plane = run(kernel, np.ascontiguousarray(pixels[..., channel]), mask=one)
        if channel == 0:
            shape = (*plane.shape, len(kernels))
            if out is None:
                found = np.empty(shape, plane.dtype)
            else:
                found = check_out(out, shape, plane.dtype, image=pixels, kernel=kernels)
        found[..., channel] = plane  # type: ignore[index]
    return found  # type: ignore[return-value]


def on_axis(
    run: Callable[..., Array], image: npt.ArrayLike, axis: object, mask: object, out: Any
) -> Array:
    """Filter an image whose channels lie on some axis.

    Parameters
    ----------
    run : callable
        Filters an image (H, W) or (H, W, C), with arguments ``mask`` and ``out``.
    image : array_like
        The caller's image.
    axis : int
        ``channel_axis=`` of an image of three dimensions.
    mask, out : object
        As in `filter2d`; of the axes of the image.
    """
    axis = integer("channel_axis", axis, -3, 2)
    if axis in (-1, 2):
        return run(image, mask=mask, out=out)
    pixels = check_image(image)
    if pixels.ndim == 2:
        return run(image, mask=mask, out=out)
    missing = None if mask is None else array_of(mask, "mask")
    planes, found = np.moveaxis(pixels, axis, 0), None
    for channel, plane in enumerate(planes):
        one = missing
        if missing is not None and missing.ndim == 3:
            if missing.shape != pixels.shape:
                raise ValueError(f"mask must have shape {pixels.shape}, got {missing.shape}")
            one = np.moveaxis(missing, axis, 0)[channel]
        result = run(plane, mask=one, out=None)
        if found is None:
            shape = list(result.shape)
            shape.insert(axis % 3, len(planes))
            if out is None:
                found = np.empty(shape, result.dtype)
            else:
                found = check_out(out, tuple(shape), result.dtype, image=pixels)
        np.moveaxis(found, axis, 0)[channel] = result
    assert found is not None
    return as_given(image, found, out)
