"""Borders of images: which pixel stands for one that lies outside."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .._checks import shown

__all__ = ["BORDERS", "check_border", "source_index"]

BORDERS = ("reflect101", "reflect", "replicate", "wrap", "constant")
"""What ``border=`` may be; docs/imaging.md has the names that other libraries give to them."""


def check_border(border: object) -> str:
    """Return `border` if it is one.

    Raises
    ------
    ValueError
        Otherwise.
    """
    if not isinstance(border, str) or border not in BORDERS:
        raise ValueError(f"border must be one of {', '.join(BORDERS)}, got {shown(border)}")
    return border


def source_index(border: str, first: int, count: int, size: int) -> npt.NDArray[np.intp]:
    """Say which of an axis' `size` pixels stand at `first`, `first` + 1 and so on.

    Parameters
    ----------
    border : str
        One of `BORDERS`.
    first, count : int
        Places, which may lie outside of the image by any number of pixels.
    size : int
        Pixels of the axis, at least one.

    Returns
    -------
    ndarray of intp, shape (count,)
        -1 where the constant stands.
    """
    at = np.arange(first, first + count, dtype=np.intp)
    if border == "constant":
        return np.where((at >= 0) & (at < size), at, -1)
    if border == "replicate":
        return np.clip(at, 0, size - 1)
    if border == "wrap":
        return at % size
    # Reflections repeat themselves: there and back, the pixels of the edge once or twice.
    twice = border == "reflect"
    period = 2 * size if twice else max(2 * size - 2, 1)
    at %= period
    return np.minimum(at, period - twice - at)
