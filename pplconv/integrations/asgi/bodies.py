"""Bodies of requests, counted while they arrive."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import numpy as np
from starlette.requests import ClientDisconnect, Request

from .budget import Lease
from .http_errors import Refused

__all__ = ["discard", "read_body"]


async def read_body(request: Request, most: int, seconds: float, lease: Lease) -> memoryview:
    """Read a body.

    Parameters
    ----------
    request : Request
        A request whose body was not read yet.
    most : int
        Largest size in bytes; no more are kept, whatever its header says.
    seconds : float
        Time within which the body has to arrive.
    lease : Lease
        Counts the bytes that have arrived.

    Raises
    ------
    Refused
        413 if it is too large, 408 if it takes too long, 503 if requests hold too much memory.
    """
    told = request.headers.get("content-length", "")
    known = int(told[:20]) if told.isdecimal() else None
    if known is not None and known > most:
        raise _too_large(most)
    # Pages that are never written take no memory: a client that announces much and sends little
    # holds little.
    whole = None if known is None else np.empty(known, np.uint8)
    chunks: list[bytes] = []

    async def read() -> int:
        size = 0
        async for chunk in request.stream():
            if not chunk:
                continue
            begin, size = size, size + len(chunk)
            if size > most:
                raise _too_large(most)
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
