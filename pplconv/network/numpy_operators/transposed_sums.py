"""Sums of windows that overlap: Col2Im and ConvTranspose."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..storage import Array, Shape
from .types import Attributes, Operands

__all__ = ["conv_transpose", "image_of_columns"]


def conv_transpose(
    attributes: Attributes, operands: Operands, shapes: Sequence[Shape]
) -> list[Array]:
    """ConvTranspose: one product for each tap, added to its outputs.

    ``auto_pad`` and ``output_shape`` are explicit by now. ONNX's reference gives all groups the
    bias of the first one, or fails.
    """
    x, w, b = [*operands, None][:3]
    assert x is not None and w is not None
    axes = x.ndim - 2
    kernel, sizes, group = w.shape[2:], x.shape[2:], attributes.get("group") or 1
    ones, zeros = [1] * axes, [0] * 2 * axes
    steps, apart = attributes.get("strides") or ones, attributes.get("dilations") or ones
    pads, more = attributes.get("pads") or zeros, attributes.get("output_padding") or zeros[:axes]
    # Halves are summed as onnxruntime sums them, in float32.
    wide = np.float32 if x.dtype == np.float16 else x.dtype
    pixels = x.reshape(x.shape[0], group, x.shape[1] // group, math.prod(sizes))
    pixels = pixels.astype(wide, copy=False)
    grouped = w.reshape(group, w.shape[0] // group, w.shape[1], *kernel)
    grouped = grouped.astype(wide, copy=False).swapaxes(1, 2)
    full = [
        (n - 1) * s + (k - 1) * d + 1 + m
        for n, s, k, d, m in zip(sizes, steps, kernel, apart, more, strict=True)
    ]
    channels = (slice(None),) * 3
    sums = np.zeros((x.shape[0], group, w.shape[1], *full), wide)
    for tap in np.ndindex(*kernel):
        part = np.matmul(np.ascontiguousarray(grouped[(..., *tap)]), pixels)
        place = [
            slice(t * d, t * d + (n - 1) * s + 1, s)
            for t, d, n, s in zip(tap, apart, sizes, steps, strict=True)
        ]
        sums[(*channels, *place)] += part.reshape(*part.shape[:3], *sizes)
    kept = [
        slice(begin, size - end)
        for begin, end, size in zip(pads[:axes], pads[axes:], full, strict=True)
    ]
    y = sums[(*channels, *kept)]
    y = y.reshape(y.shape[0], group * w.shape[1], *y.shape[3:])
    if b is not None:
        y = y + b.reshape(-1, *ones).astype(wide, copy=False)
    return [y.astype(x.dtype, copy=False)]


def image_of_columns(
    attributes: Attributes, operands: Operands, shapes: Sequence[Shape]
) -> list[Array]:
    """Col2Im: each column is a block of the image; blocks that overlap are added."""
    x, image, block = operands
    assert x is not None and image is not None and block is not None
    sizes, kernel = image.tolist(), block.tolist()
    ones, zeros = [1] * len(sizes), [0] * 2 * len(sizes)
    steps, apart = attributes.get("strides") or ones, attributes.get("dilations") or ones
    pads = attributes.get("pads") or zeros
    before, after = pads[: len(sizes)], pads[len(sizes) :]
    full = [n + b + a for n, b, a in zip(sizes, before, after, strict=True)]
    counts = [
        (n - (k - 1) * d - 1) // s + 1
        for n, k, d, s in zip(full, kernel, apart, steps, strict=True)
    ]
    if x.shape[1] % math.prod(kernel) or math.prod(counts) != x.shape[2]:
        raise ValueError(
            f"the input has the shape {x.shape}, for blocks of {kernel} at {counts} places"
        )
    columns = x.reshape(x.shape[0], -1, *kernel, *counts)
    whole = np.zeros((*columns.shape[:2], *full), x.dtype)
    for tap in np.ndindex(*kernel):
        place: list[Any] = [
            slice(t * d, t * d + (n - 1) * s + 1, s)
            for t, d, n, s in zip(tap, apart, counts, steps, strict=True)
        ]
        whole[(..., *place)] += columns[(slice(None), slice(None), *tap)]
    kept: list[Any] = [slice(b, b + n) for b, n in zip(before, sizes, strict=True)]
    return [whole[(..., *kept)]]
