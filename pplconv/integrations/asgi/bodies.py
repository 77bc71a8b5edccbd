"""Bodies of requests, counted and decompressed while they arrive."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator
from contextlib import suppress

import numpy as np
from starlette.requests import ClientDisconnect, Request

from .. import npy
from .budget import Lease
from .http_errors import Refused

__all__ = ["discard", "read_body"]

# What zlib calls the formats of RFC 1952 and RFC 1950.
_FORMATS = {"gzip": 16 + zlib.MAX_WBITS, "x-gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}
# Bytes that are decompressed at once, in less than a millisecond.
_PIECE = 1 << 18


async def read_body(
    request: Request, most: int, most_json: int, seconds: float, lease: Lease
) -> memoryview:
    """Read a body, decompressed if its header ``Content-Encoding`` says that it is compressed.

    Parameters
    ----------
    request : Request
        A request whose body was not read yet.
    most : int
        Largest size in bytes; no more are kept or decompressed, whatever its header says.
    most_json : int
        Largest size in bytes of a body that is no ``.npy`` file.
    seconds : float
        Time within which the body has to arrive.
    lease : Lease
        Counts the bytes that have arrived.

    Raises
    ------
    Refused
        413 if it is too large, 408 if it takes too long, 415 if it is compressed in another way,
        422 if that cannot be undone, 503 if requests hold too much memory.
    """
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", *_FORMATS):
        raise Refused(415, "Content-Encoding: a body is compressed by gzip or deflate, or not")
    told = request.headers.get("content-length", "")
    known = int(told[:20]) if told.isdecimal() else None
    if known is not None and known > most:
        raise _too_large(most)
    pieces: AsyncIterator[bytes] = request.stream()
    if encoding in _FORMATS:
        known, pieces = None, _decompressed(pieces, encoding, most)
    # Pages that are never written take no memory: a client that announces much and sends little
    # holds little.
    whole = None if known is None else np.empty(known, np.uint8)
    chunks: list[bytes] = []

    async def read() -> int:
        size, limit, head = 0, most, b""
        async for chunk in pieces:
            if not chunk:
                continue
            begin, size = size, size + len(chunk)
            if begin < len(npy.MAGIC):
                head = (head + chunk)[: len(npy.MAGIC)]
                limit = most if npy.MAGIC.startswith(head) else most_json
            if size > limit or (known is not None and known > limit):
                raise _too_large(limit)
            lease.add(len(chunk))
            if whole is not None and size <= whole.size:
                whole[begin:size] = np.frombuffer(chunk, np.uint8)
            else:
                chunks.append(chunk)
        return size

    try:
        size = await asyncio.wait_for(read(), seconds)
    except asyncio.TimeoutError:
        raise Refused(408, f"the body did not arrive within {seconds:g} s") from None
    if whole is not None and size <= whole.size:
        return memoryview(whole.data)[:size]
    parts = chunks if whole is None else [whole.tobytes(), *chunks]
    return memoryview(b"".join(parts) if len(parts) != 1 else parts[0])


async def _decompressed(
    chunks: AsyncIterator[bytes], encoding: str, most: int
) -> AsyncIterator[bytes]:
    """Yield a body in small pieces, so that no more is decompressed than is asked for."""
    stream, size = zlib.decompressobj(_FORMATS[encoding]), 0
    wrong = Refused(422, f"Content-Encoding: the body is not {encoding}, or not a whole one")
    async for chunk in chunks:
        size += len(chunk)
        if size > most:  # it may decompress to nothing
            raise _too_large(most)
        piece = b""
        while chunk or (len(piece) == _PIECE and not stream.eof):
            if stream.eof:
                raise wrong
            try:
                piece = stream.decompress(chunk, _PIECE)
            except zlib.error:
                raise wrong from None
            yield piece
            await asyncio.sleep(0)
            chunk = stream.unconsumed_tail or stream.unused_data
    if not stream.eof:
        raise wrong


def _too_large(most: int) -> Refused:
    return Refused(413, f"the body has more than {most} bytes")


async def discard(request: Request, most: int, seconds: float) -> None:
    """Read the rest that a refused client sends, so that it goes on to read the answer.

    A connection that is closed while its client sends is reset, and the answer is lost. No more
    than `most` bytes are waited for, nor `seconds`.
    """

    async def read() -> None:
        size = 0
        async for chunk in request.stream():
            size += len(chunk)
            if size > most:
                return

    with suppress(asyncio.TimeoutError, ClientDisconnect, RuntimeError):
        await asyncio.wait_for(read(), seconds)
