"""The memory that engines are given: every one of them the same, aligned for the widest vectors.

PyTorch, OpenVINO, ncnn and MNN keep tensors of their own, which begin on a cache line. NumPy's
arrays begin at any multiple of 16 bytes, and an engine that computes on those where they lie
(ONNX Runtime, NumPy, pplconv) would be slower for that alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["ALIGNMENT", "aligned", "aligned_copy"]

ALIGNMENT = 64
"""Bytes: a cache line, and the widest vector."""


def aligned(shape: tuple[int, ...], dtype: Any = np.float32) -> NDArray[Any]:
    """Make an uninitialised array that begins on a multiple of `ALIGNMENT`.

    Not by ``pplconv.empty_aligned``, as peers are compared where no pplconv is installed, too.
    """
    count = int(np.prod(shape, dtype=np.int64))
    size = count * np.dtype(dtype).itemsize
    room = np.empty(size + ALIGNMENT, np.uint8)
    offset = -room.ctypes.data % ALIGNMENT
    array: NDArray[Any] = room[offset : offset + size].view(dtype).reshape(shape)
    return array


def aligned_copy(array: NDArray[Any], dtype: Any = np.float32) -> NDArray[Any]:
    """Copy an array into such memory, C-contiguous."""
    copy = aligned(array.shape, dtype)
    copy[...] = array
    return copy
