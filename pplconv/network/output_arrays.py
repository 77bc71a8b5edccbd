"""Arrays that callers give for outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .storage import Array

__all__ = ["checked_out"]


def checked_out(
    array: Any, name: str, shape: tuple[int, ...], dtype: np.dtype[Any], inputs: Sequence[Array]
) -> Array:
    """Refuse an array that the output cannot be written to."""
    if not isinstance(array, np.ndarray):
        raise TypeError(f"out: {name!r} must be an ndarray, got {type(array).__name__}")
    if array.shape != shape or array.dtype != dtype:
        raise ValueError(
            f"out: {name!r} must have shape {shape} and dtype {dtype}, "
            f"got {array.shape} and {array.dtype}"
        )
    if not (array.flags.c_contiguous and array.flags.writeable and array.flags.aligned):
        raise ValueError(f"out: {name!r} must be C-contiguous, aligned and writeable")
    if any(np.may_share_memory(array, other) for other in inputs):
        raise ValueError(f"out: {name!r} overlaps an input")
    return array
