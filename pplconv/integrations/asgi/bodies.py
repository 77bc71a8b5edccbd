"""Bodies of requests, counted while they arrive."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from starlette.requests import ClientDisconnect, Request

from .errors import Refused

__all__ = ["discard", "read_body"]


async def read_body(request: Request, most: int, seconds: float) -> bytes:
    """Read a body.

    Parameters
    ----------
    request : Request
        Whose body was not read yet.
    most : int
        Bytes that it may have: no more are kept, whatever its header says.
    seconds : float
        How long it may take to arrive.

    Raises
    ------
    Refused
        413 if it is too large, 408 if it takes too long.
    """
    told = request.headers.get("content-length", "")
    if told.isdecimal() and int(told[:20]) > most:
        raise _too_large(most)
    chunks: list[bytes] = []

    async def read() -> None:
        size = 0
        async for chunk in request.stream():
            size += len(chunk)
            if size > most:
                raise _too_large(most)
            chunks.append(chunk)

    try:
        await asyncio.wait_for(read(), seconds)
    except asyncio.TimeoutError:
        raise Refused(408, f"the body did not arrive within {seconds:g} s") from None
    return b"".join(chunks) if len(chunks) != 1 else chunks[0]


def _too_large(most: int) -> Refused:
    return Refused(413, f"the body has more than {most} bytes")


async def discard(request: Request, most: int, seconds: float) -> None:
    """Read what a refused client still sends, so that it comes to read the answer.

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
