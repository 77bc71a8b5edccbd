"""Large weights in place: a protobuf parsed without the data of its large tensors.

The parser of protobufs copies weights, and each reader copies them again. So this module walks the
wire format down to the tensors of the graph, and replaces each large tensor by an empty one with a
reference. It leaves anything unexpected to the parser, and to the checks of its result.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir

from .._records import NamedTuple

__all__ = ["Lifted", "lift_data", "put_back"]

# Smaller tensors are copied: this is the size of a page.
_LEAST_BYTES = 4096
_MOST_AXES = 32

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

# Field numbers that hold messages of each kind: GRAPH is a model's field 7, and so on.
_MODEL, _GRAPH, _NODE, _ATTRIBUTE, _TENSOR = range(5)
_INSIDE: dict[int, dict[int, int]] = {
    _MODEL: {7: _GRAPH},
    _GRAPH: {1: _NODE, 5: _TENSOR},
    _NODE: {5: _ATTRIBUTE},
    _ATTRIBUTE: {5: _TENSOR},
}

# Fields of a tensor.
_DIMS, _TYPE, _FLOAT_DATA, _DOC_STRING, _RAW_DATA = 1, 2, 4, 12, 9
# Segments, data of other types, and data elsewhere.
_OTHER_DATA = frozenset((3, 5, 6, 7, 10, 11, 13, 14))

# Types whose raw data are arrays without conversion.
_PLAIN = {
    kind: np.dtype(kind.numpy())
    for kind in (
        ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.DOUBLE,
        ir.DataType.INT8, ir.DataType.INT16, ir.DataType.INT32, ir.DataType.INT64,
        ir.DataType.UINT8, ir.DataType.UINT16, ir.DataType.UINT32, ir.DataType.UINT64,
    )
}  # fmt: skip


class _Unexpected(Exception):
    """Content that is left to the parser."""


class Lifted(NamedTuple):
    """A model parsed without the data of its large tensors.

    Parameters
    ----------
    proto : onnx.ModelProto
        The model; large tensors are empty there.
    token : str
        Prefix of the references in those tensors; their number follows.
    arrays : list of ndarray
        Their data, in the file's memory; not aligned.
    """

    proto: onnx.ModelProto
    token: str
    arrays: list[npt.NDArray[Any]]


class _Field(NamedTuple):
    number: int
    wire: int
    begin: int  # of the tag
    data: int  # of the content after the tag, and after the length if there is one
    end: int


def lift_data(content: npt.NDArray[np.uint8]) -> Lifted:
    """Parse a model without copying the data of large tensors.

    Parameters
    ----------
    content : ndarray of uint8
        A serialised ``ModelProto``.

    Returns
    -------
    Lifted

    Raises
    ------
    google.protobuf.message.DecodeError
        If it is not a model.
    """
    walk = _Walk(content)
    proto = onnx.ModelProto()
    try:
        if sys.byteorder != "little":
            raise _Unexpected
        short = walk.without_data(0, len(content), _MODEL)
    except _Unexpected:
        proto.ParseFromString(content.tobytes())
        return Lifted(proto, walk.token, [])
    proto.ParseFromString(bytes(short))
    return Lifted(proto, walk.token, walk.arrays)


def put_back(model: ir.Model, lifted: Lifted) -> None:
    """Give the empty tensors of a model their data.

    Parameters
    ----------
    model : ir.Model
        A model made of ``lifted.proto``; changed in place.
    lifted : Lifted
        What `lift_data` gave.
    """
    for value in model.graph.initializers.values():
        tensor = _whole(value.const_value, lifted)
        if tensor is not None:
            value.const_value = tensor
            value.shape = ir.Shape(tensor.shape)
    for node in model.graph:
        for name, attribute in list(node.attributes.items()):
            if attribute.type == ir.AttributeType.TENSOR:
                tensor = _whole(attribute.value, lifted)
                if tensor is not None:
                    node.attributes[name] = ir.AttrTensor(name, tensor)


def _whole(tensor: Any, lifted: Lifted) -> ir.Tensor | None:
    text = None if tensor is None else tensor.doc_string
    if not text or not text.startswith(lifted.token):
        return None
    array = lifted.arrays[int(text[len(lifted.token) :])]
    return ir.Tensor(array, name=tensor.name)


class _Walk:
    """One walk through a serialised model."""

    def __init__(self, content: npt.NDArray[np.uint8]) -> None:
        self.content = content
        self.bytes = content.data
        self.arrays: list[npt.NDArray[Any]] = []
        # No file can guess the token, so a text with it is a reference.
        self.token = f"{os.urandom(16).hex()} "

    def without_data(self, begin: int, end: int, kind: int) -> bytearray:
        """Give a message without the data of its large tensors."""
        inside = _INSIDE[kind]
        found = bytearray()
        copied = begin
        tensors = 0
        for field in self.fields(begin, end):
            below = inside.get(field.number)
            if kind == _ATTRIBUTE and below == _TENSOR:
                tensors += 1
                if tensors > 1:
                    raise _Unexpected  # parsers make one of several
            if below is None or field.wire != _BYTES or field.end - field.data < _LEAST_BYTES:
                continue
            if below == _TENSOR:
                short = self.reference(field.data, field.end)
            else:
                short = self.without_data(field.data, field.end, below)
            if short is None:
                continue
            found += self.bytes[copied : field.begin]
            found += _tag(field.number, _BYTES) + _varint(len(short)) + short
            copied = field.end
        found += self.bytes[copied:end]
        return found

    def reference(self, begin: int, end: int) -> bytearray | None:
        """Give an empty tensor in place of a large one; None if the tensor has to stay."""
        dims: list[int] = []
        types: list[int] = []
        data: list[_Field] = []
        short = bytearray()
        for field in self.fields(begin, end):
            if field.number in _OTHER_DATA:
                return None
            if field.number == _DIMS:
                dims += self.numbers(field)
            elif field.number in (_FLOAT_DATA, _RAW_DATA):
                data.append(field)
            elif field.number != _DOC_STRING:
                if field.number == _TYPE:
                    types += self.numbers(field)
                short += self.bytes[field.begin : field.end]
        if len(data) != 1 or data[0].wire != _BYTES or len(types) != 1:
            return None
        (place,) = data
        dtype = _PLAIN.get(types[0])
        if dtype is None or (place.number == _FLOAT_DATA and dtype != np.float32):
            return None
        size = place.end - place.data
        if size < _LEAST_BYTES or len(dims) > _MOST_AXES:
            return None
        if size != math.prod(dims) * dtype.itemsize:
            return None
        array = np.frombuffer(self.content, dtype, size // dtype.itemsize, place.data)
        text = f"{self.token}{len(self.arrays)}".encode()
        self.arrays.append(array.reshape(dims))
        short += _tag(_DIMS, _VARINT) + b"\0"
        return short + _tag(_DOC_STRING, _BYTES) + _varint(len(text)) + text

    def fields(self, begin: int, end: int) -> Iterator[_Field]:
        """Give the fields of a message, one after the other."""
        at = begin
        while at < end:
            tag, data = self.varint(at, end)
            number, wire = tag >> 3, tag & 7
            if wire == _BYTES:
                length, data = self.varint(data, end)
                stop = data + length
            elif wire == _VARINT:
                _, stop = self.varint(data, end)
            elif wire in (_FIXED64, _FIXED32):
                stop = data + (8 if wire == _FIXED64 else 4)
            else:
                raise _Unexpected
            if not number or stop > end:
                raise _Unexpected
            yield _Field(number, wire, at, data, stop)
            at = stop

    def numbers(self, field: _Field) -> list[int]:
        """Give the integers of a field, packed or not; negative ones appear as large ones."""
        if field.wire not in (_VARINT, _BYTES):
            raise _Unexpected
        found = []
        at = field.data
        while at < field.end:
            number, at = self.varint(at, field.end)
            found.append(number)
        return found

    def varint(self, at: int, end: int) -> tuple[int, int]:
        """Read an integer, and say where it ends."""
        number = 0
        for place in range(at, min(at + 10, end)):
            byte = self.bytes[place]
            number |= (byte & 127) << (7 * (place - at))
            if byte < 128:
                return number, place + 1
        raise _Unexpected


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    found.append(number)
    return bytes(found)


def _tag(number: int, wire: int) -> bytes:
    return _varint(number << 3 | wire)
