"""Tensors in messages: JSON numbers, little-endian bytes, ``.npy`` files.

Sizes in a message are not trusted: bytes are counted before an array is made of them, and products
of dimensions are Python's integers, which do not overflow. Arrays are made of numbers only: from
strings, NumPy would make an array whose every element is as long as the longest.
"""

from __future__ import annotations

import json
import math
import reprlib
from collections.abc import Iterator
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .. import npy
from .http_errors import Refused

__all__ = [
    "DATATYPES",
    "Tensor",
    "from_bytes",
    "from_json",
    "from_npy",
    "shape_of",
    "shown",
    "to_json",
]

Array = npt.NDArray[Any]

DATATYPES = {
    "BOOL": np.dtype(np.bool_),
    "UINT8": np.dtype("u1"), "UINT16": np.dtype("<u2"), "UINT32": np.dtype("<u4"),
    "UINT64": np.dtype("<u8"),
    "INT8": np.dtype("i1"), "INT16": np.dtype("<i2"), "INT32": np.dtype("<i4"),
    "INT64": np.dtype("<i8"),
    "FP16": np.dtype("<f2"), "FP32": np.dtype("<f4"), "FP64": np.dtype("<f8"),
}  # fmt: skip
"""Types by their names in the protocol, in the byte order of messages."""

_ONNX_TYPES = {
    "tensor(bool)": "BOOL", "tensor(uint8)": "UINT8", "tensor(uint16)": "UINT16",
    "tensor(uint32)": "UINT32", "tensor(uint64)": "UINT64", "tensor(int8)": "INT8",
    "tensor(int16)": "INT16", "tensor(int32)": "INT32", "tensor(int64)": "INT64",
    "tensor(float16)": "FP16", "tensor(float)": "FP32", "tensor(double)": "FP64",
}  # fmt: skip
_MOST_DIMENSIONS = 32
_MOST = 1 << 62
# Largest product of the other dimensions if one is 0. A network may pad an empty array, and would
# then allocate memory for them.
_MOST_BESIDE_ZERO = 1 << 16
# Numbers converted before other threads of Python may run: some milliseconds.
_AT_ONCE = 1 << 14
_PYTHON: dict[str, set[type]] = {"b": {bool}, "i": {int}, "u": {int}, "f": {int, float}}


class Tensor(NamedTuple):
    """An input or an output of the model as the protocol describes it.

    Attributes
    ----------
    name : str
        Its name.
    datatype : str
        One of `DATATYPES`.
    shape : list of int
        Its dimensions, -1 where any size will do; [] of an output whose shape is not known.
    """

    name: str
    datatype: str
    shape: list[int]

    @classmethod
    def of(cls, value: Any) -> Tensor:
        """Describe an input or output that a session lists.

        Raises
        ------
        ValueError
            If the protocol has no name for its type.
        """
        if value.type not in _ONNX_TYPES:
            raise ValueError(f"make_model: {value.name!r} is a {value.type}, which no message has")
        shape = [n if isinstance(n, int) else -1 for n in value.shape]
        return cls(value.name, _ONNX_TYPES[value.type], shape)

    def configured(self) -> dict[str, Any]:
        """Describe it as a model's configuration does."""
        return {"name": self.name, "data_type": f"TYPE_{self.datatype}", "dims": self.shape}

    def check(self, datatype: object, shape: tuple[int, ...], where: str) -> None:
        """Refuse an array that the model does not take."""
        if datatype != self.datatype:
            raise Refused(
                422,
                f"{where}.datatype: input {self.name!r} is {self.datatype}, got {shown(datatype)}",
            )
        fits = len(shape) == len(self.shape) and all(
            wanted in (-1, got) for wanted, got in zip(self.shape, shape, strict=True)
        )
        if not fits:
            raise Refused(
                422,
                f"{where}.shape: input {self.name!r} has shape {self.shape}, got {shown(shape)}",
            )


def shape_of(given: object, where: str) -> tuple[int, ...]:
    """Check the shape of a message."""
    if not isinstance(given, (list, tuple)) or len(given) > _MOST_DIMENSIONS:
        raise Refused(422, f"{where}.shape must be a list of dimensions, got {shown(given)}")
    for n in given:
        if isinstance(n, bool) or not isinstance(n, int) or not 0 <= n < _MOST:
            raise Refused(422, f"{where}.shape must have integers of 0 or more, got {shown(n)}")
    if 0 in given and math.prod(n for n in given if n) > _MOST_BESIDE_ZERO:
        raise Refused(
            422, f"{where}.shape: beside a 0 other dimensions may make {_MOST_BESIDE_ZERO}, "
            f"got {shown(given)}",
        )  # fmt: skip
    return tuple(given)


def from_bytes(data: memoryview, datatype: str, shape: tuple[int, ...], where: str) -> Array:
    """Make an array of little-endian bytes, in place where this machine can."""
    dtype = DATATYPES[datatype]
    _check_size(data, datatype, dtype, shape, where)
    if dtype.kind == "b" and np.frombuffer(data, np.uint8).max(initial=0) > 1:
        raise Refused(422, f"{where}: BOOL has bytes other than 0 and 1")
    array = np.frombuffer(data, dtype).reshape(shape)
    return array if dtype.isnative else array.astype(dtype.newbyteorder("="))


def _check_size(
    data: memoryview, name: str, dtype: np.dtype[Any], shape: tuple[int, ...], where: str
) -> None:
    wanted = math.prod(shape) * dtype.itemsize
    if data.nbytes != wanted:
        told = f"{name} of shape {shown(shape)} is {wanted} bytes"
        raise Refused(422, f"{where}: {told}, got {data.nbytes}")


def from_json(data: object, datatype: str, shape: tuple[int, ...], where: str) -> Array:
    """Make an array of JSON numbers, flat or nested like the shape."""
    if not isinstance(data, list):
        raise Refused(422, f"{where}.data must be a list of numbers, got {shown(data)}")
    if data and isinstance(data[0], list):
        data = _unnested(data, shape, where)
    if len(data) != math.prod(shape):
        raise Refused(422, f"{where}.data has shape [{len(data)}], where shape says {shown(shape)}")
    dtype = DATATYPES[datatype].newbyteorder("=")
    array = np.empty(len(data), dtype)
    for begin in range(0, len(data), _AT_ONCE):
        part = data[begin : begin + _AT_ONCE]
        array[begin : begin + len(part)] = _numbers(part, datatype, dtype, where)
    return array.reshape(shape)


def _unnested(data: list[Any], shape: tuple[int, ...], where: str) -> list[Any]:
    """Give the elements of nested lists, which must be nested like the shape."""
    flat: list[Any] = [data]
    for depth, n in enumerate(shape):
        for item in flat:
            if not isinstance(item, list) or len(item) != n:
                got = f"{len(item)} elements" if isinstance(item, list) else shown(item)
                raise Refused(
                    422, f"{where}.data is not nested as shape says, {shown(shape)}: {got} "
                    f"at depth {depth}",
                )  # fmt: skip
        flat = list(chain.from_iterable(flat))
    return flat


def _numbers(part: list[Any], datatype: str, dtype: np.dtype[Any], where: str) -> Array:
    """Make an array of a part of the numbers."""
    wrong = Refused(422, f"{where}.data: not all of its elements are {datatype}")
    if not set(map(type, part)) <= _PYTHON[dtype.kind]:
        raise wrong
    if dtype.kind in "iu":
        # Without this test, NumPy would make floats of integers that fit none of its integer types.
        bounds: Any = np.iinfo(dtype.name)
        if min(part) < bounds.min or max(part) > bounds.max:
            raise wrong
        return np.array(part, dtype)
    try:
        array = np.array(part)
        if array.dtype.kind == "O":  # integers beyond 64 bits
            array = np.array(part, np.float64)
    except (ValueError, TypeError, OverflowError):
        raise wrong from None
    with np.errstate(over="ignore"):
        array = array.astype(dtype)
    if dtype.kind == "f" and not np.isfinite(array).all():
        raise Refused(422, f"{where}.data has numbers beyond {datatype}")
    return array


def to_json(array: Array, where: str) -> Iterator[bytes]:
    """Write the elements as a flat list, in parts.

    Raises
    ------
    Refused
        If some are NaN or infinite, for which JSON has no words.
    """
    flat = array.reshape(-1)
    yield b"["
    for begin in range(0, flat.size, _AT_ONCE):
        part = flat[begin : begin + _AT_ONCE]
        if part.dtype.kind == "f" and not np.isfinite(part).all():
            raise Refused(
                422,
                f"{where} has NaN or infinities, which JSON has not: ask for binary data, or .npy",
            )
        text = json.dumps(part.tolist(), separators=(",", ":"))[1:-1]
        yield (f",{text}" if begin else text).encode()
    yield b"]"


def from_npy(body: memoryview, where: str) -> Array:
    """Read a ``.npy`` file of numbers."""
    try:
        array = npy.read(body)
    except ValueError as error:
        raise Refused(422, f"{where}: {shown(error)}") from None
    if array.dtype.kind not in "biuf" or array.dtype.itemsize not in (1, 2, 4, 8):
        raise Refused(422, f"{where}: no tensor is of {shown(array.dtype)}")
    shape_of(array.shape, where)
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def shown(value: object) -> str:
    """A value in a message: not all of what a client may have sent."""
    if isinstance(value, tuple):
        value = list(value)
    if isinstance(value, int) and value.bit_length() > 256:
        return f"an integer of {value.bit_length()} bits"
    # It formats only the first few elements.
    text = value[:80] if isinstance(value, str) else _SHORT.repr(value)
    return text if len(text) < 80 else text[:77] + "..."


class _Short(reprlib.Repr):
    """Short forms of values from JSON and from headers of files."""

    def repr_int(self, value: int, level: int) -> str:
        """Leave out the digits of a long integer: Python refuses to write too many."""
        return repr(value) if value.bit_length() <= 256 else f"<{value.bit_length()} bits>"


_SHORT = _Short()
_SHORT.maxlist = _SHORT.maxtuple = _SHORT.maxdict = _MOST_DIMENSIONS
