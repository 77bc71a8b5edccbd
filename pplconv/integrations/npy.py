"""Arrays as ``.npy`` files in memory, from whoever sends them."""

from __future__ import annotations

import io
import math

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

__all__ = ["MAGIC", "MEDIA_TYPE", "parts", "read", "write"]

MEDIA_TYPE = "application/x-npy"
MAGIC = npy_format.MAGIC_PREFIX
"""The bytes that each file begins with, and no JSON."""
_MOST = 1 << 62


def read(body: bytes | bytearray | memoryview) -> NDArray[np.generic]:
    """Read an array in place.

    Parameters
    ----------
    body : bytes-like
        The whole file.

    Returns
    -------
    ndarray
        An array on the memory of `body`, or a copy if its numbers would not be aligned there.

    Raises
    ------
    ValueError
        If it is no such file, has more or fewer bytes than its header says, or holds Python
        objects.
    """
    stream = io.BytesIO(memoryview(body)[: 1 << 16])  # a header is at most that long
    try:
        version = npy_format.read_magic(stream)
        if version == (1, 0):
            shape, in_columns, dtype = npy_format.read_array_header_1_0(stream)
        elif version == (2, 0):
            shape, in_columns, dtype = npy_format.read_array_header_2_0(stream)
        else:
            raise ValueError(f"version {version} is unknown")
    except Exception as error:  # a header is a Python literal, and may be wrong in any way
        raise ValueError(f"not a .npy file: {error}") from None
    if dtype.hasobject:
        raise ValueError(f"the .npy file holds Python objects ({dtype}), which are refused")
    # In Python True equals 1, and integers may be larger than any dimension of an array.
    if any(type(size) is not int or not 0 <= size < _MOST for size in shape):
        raise ValueError("not a .npy file: its shape is none")
    size, begin = math.prod(shape) * dtype.itemsize, stream.tell()
    if len(body) - begin != size:
        raise ValueError(
            f"the .npy file is of {shape} {dtype}, {size} bytes, and has {len(body) - begin}"
        )
    flat = np.frombuffer(body, dtype, math.prod(shape), begin) if size else np.empty(0, dtype)
    try:
        array = flat.reshape(shape, order="F" if in_columns else "C")
    except ValueError as error:  # NumPy has bounds even where there is no element
        raise ValueError(f"not a .npy file: {error}") from None
    return array if array.flags.aligned else array.copy()


def write(array: NDArray[np.generic]) -> bytes:
    """Give the file of an array."""
    return b"".join(parts(array))


def parts(array: NDArray[np.generic]) -> tuple[bytes, memoryview]:
    """Give the file of an array in two parts; the second one is the array's own memory.

    Parameters
    ----------
    array : ndarray
        An array of numbers; copied if it is not contiguous.

    Raises
    ------
    ValueError
        If it holds Python objects.
    """
    kept = np.asarray(array)
    if kept.dtype.hasobject:
        raise ValueError("Object arrays are not written")
    if not (kept.flags.c_contiguous or kept.flags.f_contiguous):
        kept = np.ascontiguousarray(kept)
    stream = io.BytesIO()
    npy_format.write_array_header_1_0(stream, npy_format.header_data_from_array_1_0(kept))
    flat = kept.reshape(-1, order="C" if kept.flags.c_contiguous else "F")
    return stream.getvalue(), flat.view(np.uint8).data
