"""Objects from one process to another, through memory.

Each direction has a segment and a mailbox. The sender makes the segment, makes it anew when an
object does not fit, and otherwise reuses it for the next object. The mailbox says where the object
lies. A socket carries descriptors of new segments, and a byte that wakes a sleeping reader. One
message is under way at a time: the sender waits for the answer.

A wake-up can take as long as copying a megabyte. So a reader whose last message came soon watches
the mailbox before it sleeps, for twice the time of a wake-up, if cores are idle (one end knows and
tells the other). At worst, it uses a processor for half a millisecond after its last message. A
sender announces a message before it copies, so that a sleeping reader is awake when the copy is
complete.
"""

from __future__ import annotations

import array
import os
import select
import socket
import time
import weakref
from contextlib import suppress

import numpy as np

from ..memory.arrays import empty_aligned
from . import _mailbox
from ._flat import Flat, flatten, read_flat
from ._mailbox import THERE
from .shared import FLAT, Bytes, Laid, Parcel, create, map_segment, unpack

__all__ = ["MAILBOXES", "Channel", "Gone"]

# Seconds for which a reader watches, at least and at most.
_SHORTEST_WATCH, _LONGEST_WATCH = 20e-6, 500e-6
# Assumed seconds of a wake-up, until one is timed.
_WAKING = 50e-6
# Seconds to wait for an announced message: copying a megabyte or two takes as long.
_WATCH_ANNOUNCED = 250e-6
# Further seconds to watch for each byte sent: the other end copies it before it answers.
_COPYING = 100e-12

MAILBOXES = 2 * _mailbox.BYTES
"""Bytes that the two ends of a channel share."""

# Flags of a message.
_KEPT_BY_READER, _WATCH = 1, 2

# Bytes that go through the socket.
_WAKE, _SEGMENT = b"\0", b"\1"

# A smaller buffer costs less inside the pickle than outside it.
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
    memory : ndarray
        `MAILBOXES` bytes that both ends see, zeros at first.
    side : int
        0 at one end, 1 at the other.
    process : int, optional
        A descriptor that is readable once the process at the other end has ended; the socket may
        stay open in processes that it has started.
    """

    def __init__(
        self,
        sock: socket.socket,
        memory: Bytes,
        side: int,
        process: int | None = None,
    ) -> None:
        boxes = memory[: _mailbox.BYTES], memory[_mailbox.BYTES :]
        self._outbox = _mailbox.Outbox(boxes[side])
        self._inbox = _mailbox.Inbox(boxes[1 - side])
        self.watches = False
        """Whether a core is idle for a reader that watches; each message tells the other end."""
        self._soon = False  # whether the last message came soon
        self._copying = 0.0  # seconds for the other end to take what was sent
        self._waking = _WAKING
        self._arrived: list[int] = []  # descriptors of segments
        self._lost = False  # whether one did not arrive
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
            Any exception of pickling `obj`.
        MemoryError
            If there is no memory for it.
        """
        if self.watches:
            self._outbox.announce()
            with suppress(OSError):  # `send` meets it again
                self._wake_reader()
        parcel: Flat | Parcel = flatten(obj) or Parcel(obj, _INLINE)
        if self._out is None or self._out.nbytes < parcel.size:
            self._new_segment(parcel.size)
        assert self._out is not None
        parcel.write(self._out)
        return Laid(parcel.at, parcel.length, FLAT) if isinstance(parcel, Flat) else parcel.laid

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
        """Tell the other end about the object written last.

        Raises
        ------
        Gone
            If the other end is closed or its process has ended.
        """
        assert self._out is not None
        size = self._out.nbytes if self._unsent is not None else 0
        try:
            if self._unsent is not None:
                # So short a message goes in one piece. It goes first, so that the reader has the
                # segment when it reads of it.
                socket.send_fds(self._sock, [_SEGMENT], [self._unsent])
            flags = self._flags | (_WATCH if self.watches else 0)
            self._outbox.post(laid.at, laid.length, laid.buffers, size, flags)
            self._wake_reader()
        except OSError as error:
            raise Gone(str(error)) from error
        self._flags = 0
        self._copying = min(_COPYING * laid.at, _WATCH_ANNOUNCED)
        if self._unsent is not None:
            os.close(self._unsent)
            self._unsent = None
        if self._out.nbytes > _LARGEST_KEPT:
            self._out = None

    def _wake_reader(self) -> None:
        nap = self._outbox.sleeper()
        if nap:
            self._sock.sendall(_WAKE)
            self._outbox.rang(nap)

    def receive(self) -> Laid:
        """Wait for the next message.

        Raises
        ------
        Gone
            If none will come.
        """
        watch = min(max(2.0 * self._waking, _SHORTEST_WATCH), _LONGEST_WATCH) + self._copying
        first = watch if self.watches and self._soon else 0.0
        then = _WATCH_ANNOUNCED if self.watches else 0.0
        begin = time.monotonic()  # one clock for all processes
        sleeps = []
        while self._inbox.look(first, then) != THERE:
            slept = time.monotonic()
            self._sleep()
            sleeps.append((slept, time.monotonic()))
            first = 0.0
        at, length, buffers, size, flags, since = self._inbox.take()
        # Without a sleep it would have come sooner.
        self._soon = since - begin < 2.0 * watch
        for slept, woke in sleeps:
            if slept < since < woke:
                self._waking += 0.25 * (woke - since - self._waking)
        self.watches = bool(flags & _WATCH)
        if flags & _KEPT_BY_READER:
            self._drop_out()
        if size:
            fd = self._segment()
            try:
                self._in = map_segment(fd, size)
            finally:
                os.close(fd)
        return Laid(at, length, buffers)

    def _sleep(self) -> None:
        """Sleep until the other end may have sent something, or has ended."""
        try:
            if not self._inbox.nap():
                return
            try:
                self._read_socket()
            except Gone:
                if self._inbox.look() != THERE:  # no last message
                    raise
        finally:
            self._inbox.wake()

    def _segment(self) -> int:
        """The descriptor that was sent before the message that has come."""
        while not self._arrived:
            if self._lost:
                raise Gone("a segment did not arrive: too many open files")
            self._read_socket()
        return self._arrived.pop(0)

    def _read_socket(self) -> None:
        flags = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
        room = socket.CMSG_SPACE(array.array("i").itemsize)
        try:
            if self._poll is not None:
                ready = {fd for fd, _ in self._poll.poll()}
                if self._sock.fileno() not in ready:
                    flags |= socket.MSG_DONTWAIT  # it has ended; more may have come in between
            chunk, extras, _, _ = self._sock.recvmsg(64, room, flags)
        except OSError as error:
            raise Gone(str(error)) from error
        if not chunk:
            raise Gone("closed")
        handles = array.array("i")
        for _, _, data in extras:
            handles.frombytes(data)
        self._arrived += handles
        self._lost |= len(handles) < chunk.count(_SEGMENT)

    def copy(self, laid: Laid) -> object:
        """The received object, in memory of its own: arrays begin on a cache line."""
        assert self._in is not None
        try:
            if laid.buffers == FLAT:
                return read_flat(self._in, laid.at, True)
            return unpack(self._in, laid, _own)
        finally:
            if self._in.nbytes > _LARGEST_KEPT:
                self._in = None

    def view(self, laid: Laid) -> tuple[object, weakref.ref[Bytes]]:
        """The received object in place, and the reference that `done_with` takes after use."""
        assert self._in is not None
        # Arrays on it hold this array, since NumPy sees no array behind it.
        block = np.frombuffer(self._in.data, np.uint8)
        if laid.buffers == FLAT:
            return read_flat(block, laid.at, False), weakref.ref(block)
        return unpack(block, laid), weakref.ref(block)

    def done_with(self, block: weakref.ref[Bytes]) -> None:
        """Let the other end reuse the memory of a `view`, unless part of it is still in use.

        An array that is kept keeps the segment; the next message then comes in another one.
        """
        assert self._in is not None
        if block() is not None:
            self._flags |= _KEPT_BY_READER
            self._in = None
        elif self._in.nbytes > _LARGEST_KEPT:
            self._in = None

    def finish(self) -> None:
        """Stop sending: the other end ends when it has answered."""
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Let go of the socket and of all memory."""
        self._drop_out()
        self._in = None
        while self._arrived:
            os.close(self._arrived.pop())
        self._sock.close()
        # Nothing is sent or received any more, so this object need not keep the memory.
        with suppress(AttributeError):  # closed before
            del self._outbox, self._inbox
