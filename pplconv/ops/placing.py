"""Plans for arrays with gaps, such as parts of larger arrays: equal loops, other strides."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

__all__ = ["Images", "pixel_bytes", "placed", "runs_on", "with_blocks", "with_places"]


class Images(Protocol):
    """Images of N, C, H, W with strides, as NumPy describes arrays."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes."""

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes from one index of each dimension to the next."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements."""


def runs_on(value: Images) -> bool:
    """Whether the pixels of all images follow one another at one distance."""
    n, _, h, w = value.shape
    sn, _, sh, sw = value.strides
    pixel = sw if w > 1 else sh if h > 1 else sn
    row = sh if h > 1 else pixel * w
    return (
        (w == 1 or sw == pixel)
        and (h == 1 or sh == w * pixel)
        and (n == 1 or h * w == 1 or sn == (h * row if h > 1 else w * pixel))
    )


def pixel_bytes(value: Images) -> int:
    """Bytes from one pixel to the next, of NHWC images."""
    n, c, h, w = value.shape
    sn, _, sh, sw = value.strides
    if w > 1:
        return sw
    if h > 1:
        return sh
    return sn if n > 1 else c * value.dtype.itemsize


def placed(memory: tuple[int, ...], value: Images) -> tuple[int, ...] | None:
    """Give images' strides to loops that were planned for images without gaps.

    Parameters
    ----------
    memory : tuple of int
        Strides of image, block, row and pixel as they were planned, and the width. Rows may be
        several of the image's, or all.
    value : Images
        Images in NHWC.

    Returns
    -------
    tuple of int or None
        The same for the value; None if the loops cannot walk it.
    """
    image, block, row, pixel, width = memory
    n, _, h, w = value.shape
    if runs_on(value):
        step = pixel_bytes(value)
        return image // pixel * step, block, row // pixel * step, step, width
    if row != w * pixel:
        return None
    sn, _, sh, sw = value.strides
    if image == h * row:
        return sn, block, sh, sw if w > 1 else pixel, width
    if n > 1 and sn != h * sh:
        return None  # rows run on from image to image
    return image // row * sh, block, sh, sw if w > 1 else pixel, width


def with_places(fields: dict[str, Any], x: Images, y: Images) -> dict[str, Any] | None:
    """Give a plan's fields for the strides of `x` and `y`; None if its loops cannot."""
    mine, theirs = placed(fields["x"], x), placed(fields["y"], y)
    if mine is None or theirs is None:
        return None
    if fields["pixels_run_on"] and not (runs_on(x) and runs_on(y)):
        return None
    # Such loops may treat an image as a plane without gaps, or convert several rows at once.
    plain = fields["numerics"].converts or 1 in (x.shape[1], y.shape[1])
    if not fields["takes_gaps"] and plain:
        return fields if (mine, theirs) == (tuple(fields["x"]), tuple(fields["y"])) else None
    changed = {**fields, "x": mine, "y": theirs}
    # Taps are contiguous only if there are no gaps between pixels.
    if fields.get("taps_touch") and mine != tuple(fields["x"]):
        changed["taps_touch"] = False
    return changed


def with_blocks(fields: dict[str, Any], x: Images, y: Images) -> dict[str, Any] | None:
    """Do the same for arrays with blocks of channels: N, blocks, H, W, channels of a block.

    Only for loops that walk the rows of images one by one.
    """
    if not fields["walks_rows"]:
        return None
    changed = dict(fields)
    for name, value in (("x", x), ("y", y)):
        (_, blocks, h, w, block), e = value.shape, value.dtype.itemsize
        pixel = block * e
        if tuple(fields[name]) != (blocks * h * w * pixel, h * w * pixel, w * pixel, pixel, block):
            return None
        changed[name] = (*value.strides[:4], block)
        if name == "x" and changed[name] != tuple(fields[name]):
            changed["taps_touch"] = False
    return changed
