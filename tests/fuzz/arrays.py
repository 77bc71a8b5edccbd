"""The same numbers in memory that lies in other ways, with NaN around them."""

from __future__ import annotations

from typing import Any

import numpy as np

FORMS = (
    "offset", "unaligned", "strided", "reversed", "transposed", "swapped", "read-only", "buffer",
    "columns", "gaps", "columns with gaps", "upwards", "between bytes",
)  # fmt: skip
# Of arrays whose numbers are the same along the first axis, or the last.
REPEATED = ("repeated", "repeated in rows")
_LINE = 64


def _filled(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Bytes of ones, which are NaN in types of floats."""
    return np.full(int(np.prod(shape)) * dtype.itemsize, 0xFF, np.uint8).view(dtype).reshape(shape)


def _embedded(array: np.ndarray, offset: int) -> np.ndarray:
    """A copy that begins `offset` bytes behind a cache line, NaN before and behind it."""
    memory = np.full(array.nbytes + 6 * _LINE, 0xFF, np.uint8)
    start = -memory.ctypes.data % _LINE + _LINE + offset
    copy: np.ndarray = np.ndarray(array.shape, array.dtype, memory, start)
    copy[...] = array
    return copy


def repeat(array: np.ndarray, form: str) -> None:
    """Give an array the numbers that it must have to lie as a form of `REPEATED` says."""
    if array.ndim:
        array[...] = array[:1] if form == "repeated" else array[..., :1]


def _with_gaps(array: np.ndarray) -> np.ndarray:
    """Rows of NaN behind the columns."""
    memory = _filled((*array.shape[:-1], array.shape[-1] + 3), array.dtype)
    memory[..., : array.shape[-1]] = array
    return memory[..., : array.shape[-1]]


def dress(array: np.ndarray | None, form: str) -> Any:
    """Give an array of the same numbers that lies as `form` says."""
    if array is None:
        return None
    if not array.ndim and form not in ("offset", "unaligned", "swapped", "read-only", "buffer"):
        form = "plain"  # there are no strides
    if form in ("plain", "offset", "unaligned"):
        return _embedded(array, {"plain": 0, "offset": array.itemsize, "unaligned": 1}[form])
    if form == "strided":
        memory = _filled((*array.shape[:-1], 2 * array.shape[-1] + 1), array.dtype)
        memory[..., 1::2] = array
        return memory[..., 1::2]
    if form == "gaps":
        return _with_gaps(array)
    if form.startswith("columns") and array.ndim > 1:
        turned = array.swapaxes(-1, -2)
        return (_embedded(turned, 0) if form == "columns" else _with_gaps(turned)).swapaxes(-1, -2)
    if form.startswith("columns"):
        return _embedded(array, 0)
    if form == "upwards":
        return _embedded(array[::-1], 0)[::-1]
    if form == "between bytes":  # strides are no multiples of an element
        memory = np.zeros(array.shape, [("before", "u1"), ("number", array.dtype)])
        memory["number"] = array
        return memory["number"]
    if form in REPEATED:
        once = array[:1] if form == "repeated" else array[..., :1]
        return np.broadcast_to(_embedded(once, 0), array.shape)
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
