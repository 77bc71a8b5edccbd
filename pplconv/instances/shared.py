"""Memory that two processes share: files without a name, and the layout of objects in them.

A segment has no name that could be left behind: it is freed with its last mapping and descriptor,
however its processes end. An object in a segment is stored as the buffers of its arrays, each at
the start of a cache line and unchanged, followed by its pickle (protocol 5).
"""

from __future__ import annotations

import errno
import fcntl
import io
import mmap
import os
import pickle
import pickletools
import struct
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..memory.mapping import memory_errors
from ..sharing import PreparedPickler

__all__ = ["FLAT", "Laid", "Parcel", "create", "map_segment", "seal", "unpack"]

FLAT = -1

_LINE = 64

Bytes = NDArray[np.uint8]


def create(name: str, size: int) -> int:
    """Make a segment, with all its memory.

    Parameters
    ----------
    name : str
        Shown in a process's list of mappings; it need not be unique.
    size : int
        Bytes.

    Returns
    -------
    int
        A descriptor that the caller has to close.

    Raises
    ------
    MemoryError
        If there is not enough memory.
    """
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    else:
        with tempfile.TemporaryFile(prefix=name) as file:  # has no name from the start
            fd = os.dup(file.fileno())
    try:
        # Without memory, a later write would be a bus error.
        os.posix_fallocate(fd, 0, size)
    except OSError as error:
        os.close(fd)
        if error.errno in (errno.ENOMEM, errno.ENOSPC, errno.EFBIG):
            raise MemoryError(f"cannot share {size} bytes: {error.strerror}") from error
        raise
    return fd


def map_segment(fd: int, size: int, access: int = mmap.ACCESS_WRITE) -> Bytes:
    """Map a segment; the mapping lives as long as any array on it, the descriptor is not kept.

    Parameters
    ----------
    fd : int
        From `create`, in this or another process.
    size : int
        Bytes.
    access : int
        ``mmap.ACCESS_WRITE``: all is shared; ``mmap.ACCESS_COPY``: pages that this process writes
        to become its own, all others are shared.

    Returns
    -------
    ndarray
        One-dimensional, of bytes.
    """
    with memory_errors():
        mapping = mmap.mmap(fd, size, access=access)
    if hasattr(mmap, "MADV_HUGEPAGE") and size >= 1 << 22:
        with suppress(OSError):
            mapping.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(mapping, np.uint8)


def seal(fd: int) -> None:
    """Forbid writes to a segment and changes of its size, where the system can do that."""
    seals = [getattr(fcntl, f"F_SEAL_{what}", 0) for what in ("SHRINK", "GROW", "WRITE", "SEAL")]
    with suppress(OSError, AttributeError):
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, sum(seals))


class Laid(NamedTuple):
    """Location of an object in a segment: all that its reader needs.

    Attributes
    ----------
    at, length : int
        Place and size of the pickle, in bytes; the table of the buffers follows it.
    buffers : int
        Number of buffers; `FLAT` if `pplconv.instances._flat` has written the object, not pickle.
    """

    at: int
    length: int
    buffers: int


class Parcel:
    """An object taken apart and ready to be written, before there is a place for it.

    Parameters
    ----------
    obj : object
        Anything that can be pickled.
    inline : int
        Buffers of fewer bytes are stored inside the pickle.
    threads : int, optional
        Team size of the process that keeps the object for good. If given, everything that the
        object has prepared goes with it (`Conv2d.__reduce_prepared__`).

    Raises
    ------
    Exception
        Any exception of pickling `obj`.
    """

    def __init__(self, obj: object, inline: int = 1, threads: int | None = None) -> None:
        self._parts: list[memoryview] = []
        self._table: list[int] = []
        self._end = 0
        self._inline = inline
        stream = io.BytesIO()
        PreparedPickler(stream, self._keep, threads).dump(obj)
        self._stream = stream.getbuffer()
        self._tail = struct.pack(f"={len(self._table)}q", *self._table)
        self.laid = Laid(self._end, self._stream.nbytes, len(self._parts))
        self.size = max(1, self._end + self._stream.nbytes + len(self._tail))

    def _keep(self, buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < self._inline:
            return True
        self._parts.append(raw)
        self._table += [self._end, raw.nbytes, raw.readonly]
        self._end += -(-raw.nbytes // _LINE) * _LINE
        return False

    def modules(self, package: str) -> list[str]:
        """List modules of a package that the pickle names, which are loaded here."""
        texts = {
            argument
            for opcode, argument, _ in pickletools.genops(bytes(self._stream))
            if isinstance(argument, str) and opcode.name.endswith("UNICODE")
        }
        return sorted(
            name
            for name in texts
            if name in sys.modules and (name == package or name.startswith(f"{package}."))
        )

    def write(self, room: Bytes) -> None:
        """Write everything into a segment of at least `size` bytes."""
        for (at, length, _), part in zip(_rows(self._table), self._parts, strict=True):
            # NumPy copies without the GIL.
            np.copyto(room[at : at + length], np.frombuffer(part, np.uint8))
        at = self._end
        memory = room.data
        for rest in (self._stream, self._tail):
            memory[at : at + len(rest)] = rest
            at += len(rest)


def _rows(table: Sequence[int]) -> list[tuple[int, int, int]]:
    return list(zip(table[0::3], table[1::3], table[2::3], strict=True))


def unpack(block: Bytes, laid: Laid, place: Callable[[Bytes], Bytes] | None = None) -> object:
    """Put an object together again.

    Parameters
    ----------
    block : ndarray
        The segment; the object keeps the parts of it that it uses.
    laid : Laid
        Location of the object in the segment.
    place : callable, optional
        Gives each buffer another place, for an object that is to own its memory.

    Returns
    -------
    object
        The object, with its arrays in the segment or where `place` has put them; read-only arrays
        stay read-only.
    """
    end = laid.at + laid.length
    table = struct.unpack_from(f"={3 * laid.buffers}q", block.data, end)
    buffers = []
    for at, length, readonly in _rows(table):
        part = block[at : at + length]
        if place is not None:
            part = place(part)
        part.flags.writeable = not readonly
        buffers.append(part)
    return pickle.loads(block[laid.at : end].data, buffers=buffers)
