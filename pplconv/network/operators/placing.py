"""Plans for arrays that lie in larger ones: the same loops, other strides."""

from __future__ import annotations

from typing import Any

from ..storage import Value


def runs_on(value: Value) -> bool:
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


def pixel_bytes(value: Value) -> int:
    """Bytes from one pixel to the next, of images whose channels are neighbours."""
    n, c, h, w = value.shape
    sn, _, sh, sw = value.strides
    if w > 1:
        return sw
    if h > 1:
        return sh
    return sn if n > 1 else c * value.dtype.itemsize


def placed(memory: tuple[int, ...], value: Value) -> tuple[int, ...] | None:
    """Say how images lie, to loops that were planned for images without gaps.

    Parameters
    ----------
    memory : tuple of int
        Strides of image, block, row and pixel as they were planned, and the width. Rows may be
        several of the image's, or all.
    value : Value
        Images whose channels are neighbours.

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


def with_places(fields: dict[str, Any], x: Value, y: Value) -> dict[str, Any] | None:
    """Give a plan's fields for arrays that lie as `x` and `y`; None if its loops cannot."""
    mine, theirs = placed(fields["x"], x), placed(fields["y"], y)
    if mine is None or theirs is None:
        return None
    if fields["loops"] == "gemm" and not (runs_on(x) and runs_on(y)):
        return None
    # Of one channel, most loops take pixels for neighbours, as in planes.
    apart = fields["loops"] == "gemm" or (fields["loops"] == "direct" and not fields["slab"])
    if not apart and any(
        value.shape[1] == 1 and pixel_bytes(value) != value.dtype.itemsize for value in (x, y)
    ):
        return None
    changed = {**fields, "x": mine, "y": theirs}
    # Taps touch one another only where there is nothing between pixels.
    if fields.get("taps_touch") and mine != tuple(fields["x"]):
        changed["taps_touch"] = False
    return changed
