"""Connections that a server holds: how many, and how long each may keep it waiting.

uvicorn ends a connection that is silent after an answer. This module also ends connections that are
silent before their first request, that send a head a byte at a time, or that do not read. If there
are too many connections, the one that has kept the server waiting longest is closed.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["BACKLOG", "guarded", "most_connections"]

_LOGGER = logging.getLogger("pplconv.serve")

BACKLOG = 128
"""Connections that the system may hand over at once, before any of them is counted."""

# Descriptors for files and libraries, and for the workers of each core, of two models while one
# replaces the other.
_OTHER_DESCRIPTORS, _DESCRIPTORS_OF_A_CORE = 64, 32


def most_connections(wanted: int) -> int:
    """Give the number of connections to hold: as wanted, or fewer if descriptors do not suffice."""
    try:
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        used = len(os.listdir("/proc/self/fd"))
    except (ImportError, OSError):
        return wanted
    if limit == resource.RLIM_INFINITY:
        return wanted
    workers = min(_DESCRIPTORS_OF_A_CORE * (os.cpu_count() or 1), limit // 4)
    return max(1, min(wanted, limit - used - BACKLOG - _OTHER_DESCRIPTORS - workers))


def guarded(most: int, head_timeout: float, read_timeout: float) -> type[asyncio.Protocol]:
    """Make a class of connections, for ``uvicorn.Config(http=...)``.

    It speaks HTTP by h11, which bounds the heads of requests.

    Parameters
    ----------
    most : int
        Largest number of open connections.
    head_timeout : float
        Seconds within which the head of a request has to arrive, from the connection's begin or
        the answer before.
    read_timeout : float
        Seconds within which a client has to read what the connection has buffered.
    """
    watch = _Watch(most, head_timeout, read_timeout)

    class Guarded(_Guarded):
        pass

    Guarded.watch = watch
    return Guarded


class _Watch:
    """All connections of a server."""

    def __init__(self, most: int, head_timeout: float, read_timeout: float) -> None:
        self._most = most
        self._limits = {"waits": head_timeout, "sends": read_timeout, "closes": read_timeout}
        self._pause = min(1.0, head_timeout / 4, read_timeout / 4)
        self._open: set[_Guarded] = set()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, new: _Guarded) -> None:
        """Begin to watch a connection; one is closed if there are too many."""
        self._open.add(new)
        if self._timer is None:
            self._timer = new.loop.call_later(self._pause, self._look, new.loop)
        if len(self._open) > self._most:
            _LOGGER.warning("too many connections: the one that waits longest is closed")
            # A connection that has sent nothing yet is closed before any that is being answered.
            # The new one is never closed: the progress of others is noticed late.
            self._end(min(self._open - {new}, key=lambda each: each.place_in_line(), default=new))

    def discard(self, ended: _Guarded) -> None:
        """Forget a connection."""
        self._open.discard(ended)

    def _end(self, connection: _Guarded) -> None:
        self._open.discard(connection)
        connection.transport.abort()

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        """Look at all connections, and again in a moment."""
        now = time.monotonic()
        for connection in list(self._open):
            kind, seconds = connection.stays(now)
            if seconds > self._limits.get(kind, float("inf")):
                self._end(connection)
        self._timer = loop.call_later(self._pause, self._look, loop) if self._open else None


class _Guarded(H11Protocol):
    """A connection of a server."""

    watch: _Watch

    _state: tuple[str, Any] = "waits", None
    _since = 0.0
    _drained = 0

    def connection_made(self, transport: Any) -> None:
        """Begin, if there is room."""
        self._since = time.monotonic()
        super().connection_made(transport)
        self.watch.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self.watch.discard(self)
        super().connection_lost(exc)

    def resume_writing(self) -> None:
        """Note that the client has read."""
        self._drained += 1
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Answer a request that is no HTTP, unless an answer has begun already."""
        try:
            super().send_400_response(msg)
        except h11.LocalProtocolError:
            self.transport.abort()

    def place_in_line(self) -> tuple[bool, float]:
        """Order connections: first those that the server waits for, the longest first."""
        self.stays(time.monotonic())
        kind, cycle = self._state
        return kind == "works" and not cycle.more_body, self._since

    def stays(self, now: float) -> tuple[str, float]:
        """State of the connection, and the seconds for which it has made no progress."""
        state = self._now()
        if state != self._state:
            self._state, self._since = state, now
        return state[0], now - self._since

    def _now(self) -> tuple[str, Any]:
        if self.transport.is_closing():
            return "closes", None
        if self.flow.write_paused:
            return "sends", self._drained
        if self.cycle is None or self.cycle.response_complete:
            return "waits", self.cycle
        return "works", self.cycle
