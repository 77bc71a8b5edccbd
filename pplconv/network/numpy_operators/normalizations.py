"""LRN and LpNormalization."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..storage import Array, Shape
from .types import Attributes, Operands

__all__ = ["by_length", "local_response"]


def local_response(
    attributes: Attributes, operands: Operands, shapes: Sequence[Shape]
) -> list[Array]:
    """LRN: divides by a power of the mean square of neighbouring channels."""
    (x,) = operands
    assert x is not None
    size, channels = int(attributes["size"]), x.shape[1]
    wide = x.astype(np.float64)
    squares = np.moveaxis(np.square(wide), 1, 0)
    before, after = (size - 1) // 2, size // 2
    sums = np.zeros_like(squares)
    for shift in range(-min(before, channels - 1), min(after, channels - 1) + 1):
        first, last = max(0, -shift), min(channels, channels - shift)
        sums[first:last] += squares[first + shift : last + shift]
    alpha, beta = attributes.get("alpha", 1e-4), attributes.get("beta", 0.75)
    base = attributes.get("bias", 1.0) + alpha / size * np.moveaxis(sums, 0, 1)
    return [(wide / base**beta).astype(x.dtype)]


def by_length(attributes: Attributes, operands: Operands, shapes: Sequence[Shape]) -> list[Array]:
    """LpNormalization: divides by the L1 or L2 norm; zeros stay zeros."""
    (x,) = operands
    assert x is not None
    axis = attributes.get("axis", -1)
    wide = x.astype(np.float64)
    if attributes.get("p", 2) == 1:
        length = np.abs(wide).sum(axis, keepdims=True)
    else:
        length = np.sqrt(np.square(wide).sum(axis, keepdims=True))
    return [np.where(length == 0, 0.0, wide / length).astype(x.dtype)]
