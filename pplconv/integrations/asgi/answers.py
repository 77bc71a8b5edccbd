"""Answers: sent in pieces, as fast as the client reads, and held no longer."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Sequence

from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

__all__ = ["Answer", "error"]

_LOGGER = logging.getLogger("pplconv.serve")
_CHUNK = 1 << 18
# A smaller answer fits into the connection's buffers at once.
_SMALL = 1 << 14


class Answer(Response):
    """Results for a client.

    Parameters
    ----------
    parts : sequence of bytes-like
        The body; nothing of it is copied before it is sent.
    media_type : str
        Media type of the body.
    headers : dict
        Further headers.
    seconds : float
        Time within which the client has to read the body.
    when_sent : callable
        Called when the answer is sent or given up.

    Attributes
    ----------
    size : int
        Bytes of the body.
    """

    def __init__(
        self,
        parts: Sequence[bytes | memoryview],
        media_type: str,
        headers: dict[str, str],
        seconds: float,
        when_sent: Callable[[], None],
    ) -> None:
        self.size = sum(memoryview(part).nbytes for part in parts)
        super().__init__(
            None, headers={**headers, "content-length": str(self.size)}, media_type=media_type
        )
        self._parts = list(parts)
        self._seconds = seconds
        self._when_sent = when_sent

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        head = {
            "type": "http.response.start", "status": self.status_code, "headers": self.raw_headers,
        }  # fmt: skip
        try:
            if self.size <= _SMALL:
                await send(head)
                await send({"type": "http.response.body", "body": b"".join(self._parts)})
            else:
                await asyncio.wait_for(self._send(head, send), self._seconds)
        except asyncio.TimeoutError:
            _LOGGER.warning("an answer was given up: its client does not read it")
        finally:
            self._parts.clear()
            self._when_sent()

    async def _send(self, head: dict[str, object], send: Send) -> None:
        await send(head)
        for part in self._parts:
            view = memoryview(part).cast("B")
            for begin in range(0, view.nbytes, _CHUNK):
                body = bytes(view[begin : begin + _CHUNK])
                await send({"type": "http.response.body", "body": body, "more_body": True})
        # A server takes a message when the client has read most of those before.
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def error(status: int, message: str, retry_after: float | None = None) -> Response:
    """Answer with an error."""
    headers = {} if retry_after is None else {"retry-after": str(math.ceil(retry_after))}
    if status in (408, 413):  # the rest of the request is not read
        headers["connection"] = "close"
    if status == 415:
        headers["accept-encoding"] = "gzip, deflate"
    # JSON can hold half a character (a lone surrogate), which UTF-8 cannot.
    text = message.encode("utf-8", "backslashreplace").decode()
    return JSONResponse({"error": text}, status, headers)
