"""Arrays as ``.npy`` files in memory, from whoever sends them."""

from __future__ import annotations

import io
import math

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

__all__ = ["MEDIA_TYPE", "read", "write"]

MEDIA_TYPE = "application/x-npy"


def read(body: bytes | bytearray | memoryview) -> NDArray[np.generic]:
    """Read an array where it lies.

    Parameters
    ----------
    body : bytes-like
        The whole file.

    Returns
    -------
    ndarray
        On the memory of `body`, unless its numbers would not be aligned there.

    Raises
    ------
    ValueError
        If it is no such file, has more or less than its header says, or holds Python objects.
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
    if any(size < 0 for size in shape):
        raise ValueError(f"not a .npy file: its shape is {shape}")
    size, begin = math.prod(shape) * dtype.itemsize, stream.tell()
    if len(body) - begin != size:
        raise ValueError(
            f"the .npy file is of {shape} {dtype}, {size} bytes, and has {len(body) - begin}"
        )
    flat = np.frombuffer(body, dtype, math.prod(shape), begin) if size else np.empty(0, dtype)
    array = flat.reshape(shape, order="F" if in_columns else "C")
    return array if array.flags.aligned else array.copy()


def write(array: NDArray[np.generic]) -> bytes:
    """Give the file of an array."""
    stream = io.BytesIO()
    npy_format.write_array(stream, np.asarray(array), allow_pickle=False)
    return stream.getvalue()
