"""The same numbers in memory that lies in other ways, with NaN around them."""

from __future__ import annotations

from typing import Any

import numpy as np

FORMS = (
    "offset", "unaligned", "strided", "reversed", "transposed", "swapped", "read-only", "buffer",
)  # fmt: skip
_LINE = 64


def _embedded(array: np.ndarray, offset: int) -> np.ndarray:
    """A copy that begins `offset` bytes behind a cache line, NaN before and behind it."""
    # Bytes of ones are NaN in either type.
    memory = np.full(array.nbytes + 6 * _LINE, 0xFF, np.uint8)
    start = -memory.ctypes.data % _LINE + _LINE + offset
    copy: np.ndarray = np.ndarray(array.shape, array.dtype, memory, start)
    copy[...] = array
    return copy


def dress(array: np.ndarray | None, form: str) -> Any:
    """Give an array of the same numbers that lies as `form` says."""
    if array is None:
        return None
    if form in ("plain", "offset", "unaligned"):
        return _embedded(array, {"plain": 0, "offset": array.itemsize, "unaligned": 1}[form])
    if form == "strided":
        memory = np.full((*array.shape[:-1], 2 * array.shape[-1] + 1), np.nan, array.dtype)
        memory[..., 1::2] = array
        return memory[..., 1::2]
    if form == "reversed":
        axes = (slice(None, None, -1),) * array.ndim
        return np.ascontiguousarray(array[axes])[axes]
    if form == "transposed":
        return np.asfortranarray(array)
    if form == "swapped":
        return array.astype(array.dtype.newbyteorder())
    if form == "read-only":
        array = _embedded(array, 0)
        array.flags.writeable = False
        return array
    return memoryview(_embedded(array, 0))
