"""Axes of volumes that become one, as their kernel has a single tap there.

If a kernel is one pixel wide and high, a volume is an image whose rows are depths, and whose
columns are the pixels of a depth: it lies in memory like that, so nothing is copied. Likewise, if
it has one tap in depth and one vertically, the rows of all depths are those of one image.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

__all__ = ["PLAIN", "Fold", "fold_of", "folded", "folded_shape"]

Fold = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
"""For each axis of the volume that is computed, the axes that it is made of."""

PLAIN: Fold = ((0,), (1,), (2,))


def fold_of(kernel: Sequence[int], stride: Sequence[int], padding: Any) -> Fold:
    """Choose the axes that become one.

    Parameters
    ----------
    kernel, stride : sequence of int
        In depth, vertical and horizontal.
    padding : tuple of (int, int) or str
        Likewise, or a word, by which one tap at stride 1 has no padding.
    """
    sides = ((0, 0),) * 3 if isinstance(padding, str) else padding
    axes = zip(kernel, stride, sides, strict=True)
    depth, vertical, horizontal = (axis == (1, 1, (0, 0)) for axis in axes)
    if vertical and horizontal:
        return (), (0,), (1, 2)
    return ((), (0, 1), (2,)) if depth and vertical else PLAIN


def folded(fold: Fold, values: Sequence[Any], absent: Any) -> tuple[Any, ...]:
    """Give stride, padding or dilation of the axes that are computed; `absent` of an axis of one.

    Axes that become one have the same stride and padding, and their dilation has no effect.
    """
    return tuple(values[axes[0]] if axes else absent for axes in fold)


def folded_shape(fold: Fold, shape: Sequence[int], layout: str = "NCDHW") -> tuple[int, ...]:
    """Give the shape of an array (N, C, D, H, W) or (N, D, H, W, C), or of weights."""
    first = 2 if layout == "NCDHW" else 1
    sizes = [math.prod(shape[first + axis] for axis in axes) for axes in fold]
    return (*shape[:first], *sizes, *shape[first + 3 :])
