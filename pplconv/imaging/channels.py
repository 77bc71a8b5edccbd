"""Filters of channels one by one: a kernel for each, or channels on another axis than the last."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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
    masks = _masks(mask, len(kernels), 2)
    planes = (
        run(kernel, np.ascontiguousarray(pixels[..., channel]), mask=one)
        for channel, (kernel, one) in enumerate(zip(kernels, masks, strict=True))
    )
    return _joined(planes, len(kernels), 2, out, image=pixels, kernel=kernels)


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
    if missing is not None and missing.ndim == 3 and missing.shape != pixels.shape:
        raise ValueError(f"mask must have shape {pixels.shape}, got {missing.shape}")
    planes = np.moveaxis(pixels, axis, 0)
    masks = _masks(missing, len(planes), axis)
    filtered = (run(plane, mask=one, out=None) for plane, one in zip(planes, masks, strict=True))
    return as_given(image, _joined(filtered, len(planes), axis % 3, out, image=pixels), out)


def _masks(mask: Array | None, count: int, axis: int) -> Sequence[Array | None]:
    """Give the mask of each channel: all have the same one if it has no axis for them."""
    if mask is None or mask.ndim != 3:
        return [mask] * count
    return list(np.moveaxis(mask, axis, 0))


def _joined(
    planes: Iterator[Array], count: int, axis: int, out: object, **operands: object
) -> Array:
    """Put filtered channels together along an axis, in `out` if it is given."""
    found: Array | None = None
    for channel, plane in enumerate(planes):
        if found is None:
            shape = (*plane.shape[:axis], count, *plane.shape[axis:])
            if out is None:
                found = np.empty(shape, plane.dtype)
            else:
                found = check_out(out, shape, plane.dtype, **operands)
        np.moveaxis(found, axis, 0)[channel] = plane
    assert found is not None
    return found
