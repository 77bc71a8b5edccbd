"""GridSample."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from ..storage import Array, Shape
from .types import Attributes, Operands

__all__ = ["grid_sample"]

# Coefficient of the cubic weights, as in PyTorch and onnxruntime.
_SHARPNESS = -0.75


def grid_sample(attributes: Attributes, operands: Operands, shapes: Sequence[Shape]) -> list[Array]:
    """GridSample: each output is a weighted sum of elements around its coordinates."""
    x, grid = operands
    assert x is not None and grid is not None
    rank = x.ndim - 2
    mode, padding = attributes.get("mode", "linear"), attributes.get("padding_mode", "zeros")
    aligned = bool(attributes.get("align_corners", 0))
    taps = []
    for axis, size in enumerate(x.shape[2:]):
        # Coordinates name the last dimension first, from -1 to 1.
        place = grid[..., rank - 1 - axis].astype(np.float64) + 1
        at = place / 2 * (size - 1) if aligned else (place * size - 1) / 2
        if mode != "cubic":
            at = _inside(at, size, padding, aligned)
        index, weights = _weights(at, mode)
        index = _inside(index, size, padding, aligned)
        seen = (index >= 0) & (index <= size - 1)
        index = np.where(seen, index, 0).astype(np.int64)
        taps.append((index, np.where(seen, weights, 0)))
    images = np.moveaxis(x, 1, -1)
    numbers = np.arange(len(x)).reshape(-1, *[1] * rank)
    total = np.zeros((*grid.shape[:-1], x.shape[1]))
    for chosen in itertools.product(*(range(index.shape[-1]) for index, _ in taps)):
        both = list(zip(taps, chosen, strict=True))
        places = tuple(index[..., tap] for (index, _), tap in both)
        weight = np.prod([weights[..., tap] for (_, weights), tap in both], axis=0)
        total += weight[..., None] * images[(numbers, *places)]
    return [np.moveaxis(total, -1, 1).astype(x.dtype)]


def _inside(at: Array, size: int, padding: str, aligned: bool) -> Array:
    """Map coordinates outside of one dimension inside, by the padding mode."""
    if padding == "reflection":
        first, length = (0.0, size - 1.0) if aligned else (-0.5, float(size))
        if length == 0:
            return np.zeros_like(at)
        turned = np.mod(at - first, 2 * length)
        at = np.minimum(turned, 2 * length - turned) + first
    if padding != "zeros":
        at = np.clip(at, 0, size - 1)
    return at


def _weights(at: Array, mode: str) -> tuple[Array, Array]:
    """Give the neighbours of coordinates in one dimension, and their weights, along a last axis."""
    if mode == "nearest":
        near = np.rint(at)[..., None]
        return near, np.ones_like(near)
    first = np.floor(at)[..., None]
    r = at[..., None] - first
    if mode == "linear":
        return first + np.arange(2), np.concatenate([1 - r, r], -1)
    a, d = _SHARPNESS, np.abs(r - np.arange(-1, 3))
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return first + np.arange(-1, 3), np.where(d <= 1, near, far)
