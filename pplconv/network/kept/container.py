"""The file of a compiled network: a header, blocks of bytes, and an index of JSON.

The header has 64 bytes, little-endian: eight of `MAGIC`, the number of the format and a zero as
uint32, offset and size of the index as uint64, and 16 bytes of BLAKE2b of the index. Blocks follow,
each at a multiple of 64 bytes, large ones at a page; the index is the end of the file. Blocks are
mapped, so processes share their pages.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._records import record
from ...memory.arrays import empty_aligned
from ...memory.mapping import map_file

try:
    # `hashlib` loads OpenSSL as well.
    from _blake2 import blake2b
except ImportError:  # a Python that has it elsewhere
    from hashlib import blake2b

__all__ = ["MAGIC", "Content", "Damaged", "begins_as_kept", "blake2b", "parts_of", "read", "write"]

MAGIC = b"pplconv\0"
FORMAT = 1
_HEADER = struct.Struct("<8sIIQQ16s16x")
_LINE, _PAGE = 64, 4096
# Blocks from this size on begin at a page.
_LARGE_BYTES = 1 << 16

Bytes = np.ndarray[tuple[Any, ...], np.dtype[np.uint8]]


class Damaged(ValueError):
    """A file that is no compiled network, or whose parts contradict each other."""


@record(frozen=True)
class Content:
    """A file that was read.

    Parameters
    ----------
    index : dict
        What it describes.
    blocks : list of ndarray of uint8
        Its blocks, read-only.
    digest : str
        Of the index, in hexadecimal.
    """

    index: dict[str, Any]
    blocks: list[Bytes]
    digest: str


def begins_as_kept(model: object) -> bool:
    """Tell whether a path, or bytes, are a compiled network and no ONNX model.

    Raises
    ------
    OSError
        If a file cannot be read.
    """
    if isinstance(model, (bytes, bytearray, memoryview)):
        return bytes(memoryview(model)[: len(MAGIC)]) == MAGIC
    if not isinstance(model, (str, os.PathLike)) or not os.path.isfile(model):
        return False
    with open(model, "rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def write(path: str, index: dict[str, Any], blocks: Sequence[Bytes], mode: int) -> None:
    """Write a file, in full or not at all.

    Parameters
    ----------
    path : str
        Where; a file that is there is replaced at once.
    index : dict
        Values of JSON.
    blocks : sequence of ndarray of uint8
        Contiguous.
    mode : int
        Permissions of a new file.

    Raises
    ------
    OSError
        If the system refuses.
    """
    from ...wisdom.wisdom_files import replace

    replace(path, parts_of(index, blocks), mode)


def parts_of(index: dict[str, Any], blocks: Sequence[Bytes]) -> list[bytes | memoryview]:
    """Give the parts of a file, one behind the other, as of `write`."""
    at, places = _HEADER.size, []
    parts: list[bytes | memoryview] = []
    for block in blocks:
        step = _PAGE if block.nbytes >= _LARGE_BYTES else _LINE
        begin = -(-at // step) * step
        parts += [bytes(begin - at), block.data]
        places.append([begin, block.nbytes])
        at = begin + block.nbytes
    text = json.dumps({**index, "blocks": places}, separators=(",", ":")).encode()
    digest = blake2b(text, digest_size=16).digest()
    header = _HEADER.pack(MAGIC, FORMAT, 0, at, len(text), digest)
    return [header, *parts, text]


def read(source: str | os.PathLike[str] | bytes) -> Content:
    """Read a file, or its bytes.

    Raises
    ------
    OSError
        If the file cannot be read.
    Damaged
        If it is no such file, was cut or changed, or is of another format.
    """
    if isinstance(source, bytes):
        data: Bytes = empty_aligned(len(source), np.uint8)
        data[:] = np.frombuffer(source, np.uint8)
        data.flags.writeable = False
    else:
        data = map_file(source)
    if data.size < _HEADER.size:
        raise Damaged(f"is {data.size} bytes long, shorter than its header")
    magic, version, _, begin, size, digest = _HEADER.unpack(data[: _HEADER.size].tobytes())
    if magic != MAGIC:
        raise Damaged("is no compiled network")
    if version != FORMAT:
        raise Damaged(f"has format {version}, this version of pplconv reads format {FORMAT}")
    if begin + size != data.size:
        raise Damaged(f"is {data.size} bytes long, and should be {begin + size}")
    text = data[begin:].tobytes()
    if blake2b(text, digest_size=16).digest() != digest:
        raise Damaged("has an index that was changed")
    try:
        index = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Damaged(f"has an index that is no JSON: {error}") from error
    places = index.get("blocks") if isinstance(index, dict) else None
    if not isinstance(places, list):
        raise Damaged("has an index without blocks")
    return Content(index, [_block(data, begin, place) for place in places], digest.hex())


def _block(data: Bytes, end: int, place: object) -> Bytes:
    if not isinstance(place, list) or [type(number) for number in place] != [int, int]:
        raise Damaged("has a block without offset and size")
    begin, size = place
    if not (_HEADER.size <= begin <= begin + size <= end) or begin % _LINE:
        raise Damaged("has a block outside the file")
    return data[begin : begin + size]
