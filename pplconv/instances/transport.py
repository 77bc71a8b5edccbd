"""Objects from one process to another: a few bytes through a socket, the rest through memory.

Each direction has a segment that its sender makes, makes anew when an object does not fit, and
fills again with the next object; a descriptor goes with the first message that speaks of it.  One
message is under way at a time: whoever has sent waits for the answer.
"""

from __future__ import annotations

import array
import os
import select
import socket
import struct
import weakref
from contextlib import suppress

import numpy as np

from .._arrays import empty_aligned
from .shared import Bytes, Laid, Parcel, create, map_segment, unpack

__all__ = ["Channel", "Gone"]

# Where the object lies (three numbers), the size of a new segment or 0, flags.
_HEADER = struct.Struct("<5Q")
_KEPT_BY_READER = 1

# A buffer below this costs less in the pickle than apart from it.
_INLINE = 16384
_LEAST = 1 << 16
# A segment beyond this serves one message: a single large one must not hold memory for good.
_LARGEST_KEPT = 1 << 26


class Gone(Exception):
    """The other end of the channel is closed, or its process has ended."""


def _own(part: Bytes) -> Bytes:
    memory = empty_aligned(part.nbytes, np.uint8)
    np.copyto(memory, part)
    return memory


class Channel:
    """One end of a connection between two processes.

    Not for several threads at once.

    Parameters
    ----------
    sock : socket.socket
        One of a connected pair of streams, which becomes the channel's.
    process : int, optional
        A descriptor that is readable once the process at the other end has ended: what that
        process has started may keep its socket open.
    """

    def __init__(self, sock: socket.socket, process: int | None = None) -> None:
        self._sock = sock
        self._out: Bytes | None = None
        self._in: Bytes | None = None
        self._unsent: int | None = None  # descriptor of a segment that the reader knows not yet
        self._flags = 0
        self._poll: select.poll | None = None
        if process is not None:
            self._poll = select.poll()
            self._poll.register(sock, select.POLLIN)
            self._poll.register(process, select.POLLIN)

    def write(self, obj: object) -> Laid:
        """Put an object where the other end can read it; nothing is sent yet.

        Raises
        ------
        Exception
            What the pickling of `obj` raises.
        MemoryError
            If there is no memory for it.
        """
        parcel = Parcel(obj, _INLINE)
        if self._out is None or self._out.nbytes < parcel.size:
            self._new_segment(parcel.size)
        assert self._out is not None
        parcel.write(self._out)
        return parcel.laid

    def _new_segment(self, size: int) -> None:
        self._drop_out()
        size = max(size, _LEAST)
        if size <= _LARGEST_KEPT:
            size = 1 << (size - 1).bit_length()
        fd = create("pplconv-request", size)
        try:
            self._out = map_segment(fd, size)
        except BaseException:
            os.close(fd)
            raise
        self._unsent = fd

    def _drop_out(self) -> None:
        self._out = None
        if self._unsent is not None:
            os.close(self._unsent)
            self._unsent = None

    def send(self, laid: Laid) -> None:
        """Tell the other end of what was written last.

        Raises
        ------
        Gone
            If there is no other end.
        """
        assert self._out is not None
        size = self._out.nbytes if self._unsent is not None else 0
        header = _HEADER.pack(laid.at, laid.length, laid.buffers, size, self._flags)
        self._flags = 0
        try:
            if self._unsent is None:
                self._sock.sendall(header)
            else:
                # So short a message goes in one piece.
                socket.send_fds(self._sock, [header], [self._unsent])
        except OSError as error:
            raise Gone(str(error)) from error
        if self._unsent is not None:
            os.close(self._unsent)
            self._unsent = None
        if self._out.nbytes > _LARGEST_KEPT:
            self._out = None

    def receive(self) -> Laid:
        """Wait for the next message.

        Raises
        ------
        Gone
            If none will come.
        """
        header, fd = self._header()
        at, length, buffers, size, flags = _HEADER.unpack(header)
        if flags & _KEPT_BY_READER:
            self._drop_out()
        if size:
            if fd is None:
                raise Gone("a segment did not arrive: too many open files")
            try:
                self._in = map_segment(fd, size)
            finally:
                os.close(fd)
        return Laid(at, length, buffers)

    def _header(self) -> tuple[bytes, int | None]:
        header, fd = b"", None
        while len(header) < _HEADER.size:
            try:
                chunk, handles = self._some(_HEADER.size - len(header))
            except OSError as error:
                raise Gone(str(error)) from error
            if not chunk:
                raise Gone("closed")
            header += chunk
            fd = handles[0] if handles else fd
        return header, fd

    def _some(self, wanted: int) -> tuple[bytes, list[int]]:
        flags = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
        if self._poll is not None:
            ready = {fd for fd, _ in self._poll.poll()}
            if self._sock.fileno() not in ready:
                flags |= socket.MSG_DONTWAIT  # the process has ended; its last words may be there
        room = socket.CMSG_SPACE(array.array("i").itemsize)
        chunk, extras, _, _ = self._sock.recvmsg(wanted, room, flags)
        handles = array.array("i")
        for _, _, data in extras:
            handles.frombytes(data)
        return chunk, handles.tolist()

    def copy(self, laid: Laid) -> object:
        """What was received, in memory of its own: arrays begin on a cache line."""
        assert self._in is not None
        try:
            return unpack(self._in, laid, _own)
        finally:
            if self._in.nbytes > _LARGEST_KEPT:
                self._in = None

    def view(self, laid: Laid) -> tuple[object, weakref.ref[Bytes]]:
        """What was received, where it lies, and what `done_with` asks for once it is used."""
        assert self._in is not None
        # What arrays on it hold is this array, since NumPy sees no array behind it.
        block = np.frombuffer(self._in.data, np.uint8)
        return unpack(block, laid), weakref.ref(block)

    def done_with(self, block: weakref.ref[Bytes]) -> None:
        """Let the other end write again where a `view` was, unless somebody has kept part of it.

        Who keeps an array keeps the segment, and the next message comes in another one.
        """
        assert self._in is not None
        if block() is not None:
            self._flags |= _KEPT_BY_READER
            self._in = None
        elif self._in.nbytes > _LARGEST_KEPT:
            self._in = None

    def finish(self) -> None:
        """Send nothing any more: the other end comes to an end when it has answered."""
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Let go of the socket and of all memory."""
        self._drop_out()
        self._in = None
        self._sock.close()
