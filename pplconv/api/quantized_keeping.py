"""Arguments of quantized operators as they are kept and shown."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ops.quantized import quantization
from ..ops.quantized.quantization import Array

__all__ = ["array_text", "kept_scale", "kept_zeros", "number_text", "plain_copy", "read_only"]


def read_only(array: Array) -> Array:
    """Return a view of an array that cannot be written to, nor made writeable again."""
    array.flags.writeable = False
    return array.view()


def plain_copy(array: Array) -> Array:
    """Return a contiguous, native, read-only copy."""
    return read_only(np.array(array, array.dtype.newbyteorder("="), order="C", copy=True))


def kept_scale(name: str, value: Any, *shapes: tuple[int, ...]) -> np.float32 | Array | None:
    """Return scales as layers keep them: one number, or a read-only array with one per channel."""
    if value is None:
        return None
    array = quantization.scales(name, value, *shapes)
    return read_only(np.array(array)) if array.ndim else np.float32(array)


def kept_zeros(value: Any, weight: Array) -> int | Array:
    """Return zero points of weights likewise."""
    kind = quantization.integer_name(weight, "weight")
    array = quantization.zero_points("w_zero_point", value, kind, weight.shape[:1])
    return read_only(array) if array.ndim else int(array)


def array_text(array: Array) -> str:
    """Show an array by its type and shape."""
    return f"<{array.dtype} array of shape {array.shape}>"


def number_text(value: Any) -> str:
    """A scale or zero point, in as few digits as tell it from all others."""
    if isinstance(value, np.ndarray):
        return array_text(value)
    return str(value)
