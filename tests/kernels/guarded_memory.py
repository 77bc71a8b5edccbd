"""Buffers between guard pages.

An arena is memory that is mapped twice. Kernels get the address of the *guarded* mapping, which
lies between two inaccessible pages; the test reads and writes the *open* mapping through NumPy.
The guarded mapping of an input is read-only. So a kernel faults if it reads or writes one byte
outside its buffer, or writes into an input, while the test sets up and inspects the same bytes
freely.
"""

from __future__ import annotations

import ctypes
import mmap
import os

import numpy as np

PAGE = mmap.PAGESIZE
# Bytes around an output that are watched where no guard page is near.
MARGIN = 256
# Bytes of outputs before the call, except those that the kernel may read: finite in both types, so
# that arithmetic on them shows in the bits.
CANARY = 0x5A
# Bytes around inputs: NaN in both types, so that arithmetic on them shows in the result.
POISON = 0xFF
PLACES = ("start", "end")

_PROT_NONE, _PROT_READ, _PROT_WRITE = 0, 1, 2
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_long,
)
_MAP_FIXED = 0x10
_MAP_FAILED = ctypes.c_void_p(-1).value


def _mmap(address: int | None, length: int, protection: int, flags: int, fd: int) -> int:
    result = _libc.mmap(address, length, protection, flags, fd, 0)
    if result == _MAP_FAILED:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result


class Arena:
    """Memory of `pages` pages between two guard pages.

    Parameters
    ----------
    name : str
        Name of its contents, for reports of faults.
    pages : int
        Size in pages.
    writable : bool
        Whether a kernel may write into it.
    """

    def __init__(self, name: str, pages: int, *, writable: bool) -> None:
        self.name = name
        self.size = pages * PAGE
        fd = os.memfd_create(name)
        os.ftruncate(fd, self.size)
        # The first and the last page of the reservation stay as guards. Never unmapped: an arena
        # lives as long as the test process.
        reserved = _mmap(
            None, self.size + 2 * PAGE, _PROT_NONE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1
        )
        protection = _PROT_READ | _PROT_WRITE if writable else _PROT_READ
        self.base = _mmap(reserved + PAGE, self.size, protection, mmap.MAP_SHARED | _MAP_FIXED, fd)
        self.open = mmap.mmap(fd, self.size)
        os.close(fd)
        self.bytes = np.frombuffer(self.open, np.uint8)

    def buffer(self, extent: int, place: str, offset: int = 0) -> Buffer:
        """Place a buffer of `extent` bytes.

        Parameters
        ----------
        extent : int
            Bytes that the kernel may touch.
        place : {"start", "end", "middle"}
            Next to the first guard page, next to the last one, or `offset` bytes past `MARGIN`.
        offset : int
            Only for "middle".
        """
        if extent + offset + 2 * MARGIN > self.size:
            raise ValueError(f"{extent} bytes do not fit into arena {self.name!r}")
        first = {"start": 0, "end": self.size - extent, "middle": MARGIN + offset}[place]
        return Buffer(self, first, extent)

    def describe(self, address: int) -> str | None:
        """Say where `address` is, if it is in this arena or one of its guards."""
        where = address - self.base
        if not -PAGE <= where < self.size + PAGE:
            return None
        if where < 0:
            return f"{-where} bytes before the arena of {self.name!r}"
        if where >= self.size:
            return f"{where - self.size} bytes past the end of the arena of {self.name!r}"
        return f"inside the arena of {self.name!r}, at {where} of {self.size}"


class Buffer:
    """`extent` bytes of an arena; the filled margins around an output are watched."""

    def __init__(self, arena: Arena, first: int, extent: int) -> None:
        self.arena = arena
        self.first = first
        self.extent = extent
        self.address = arena.base + first
        self._low = max(first - MARGIN, 0)
        self._high = min(first + extent + MARGIN, arena.size)

    @property
    def surroundings(self) -> np.ndarray:
        """The bytes of the buffer and of its margins, on the open side."""
        return self.arena.bytes[self._low : self._high]

    def fill(self, value: int) -> None:
        """Set every byte of the buffer and of its margins."""
        self.surroundings[:] = value

    def array(
        self, shape: tuple[int, ...], dtype: np.dtype, strides: tuple[int, ...], offset: int = 0
    ) -> np.ndarray:
        """View it on the open side as an array that begins `offset` bytes into the buffer."""
        return np.ndarray(shape, dtype, self.arena.open, self.first + offset, strides)


def extent_of(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> int:
    """Bytes from the first to the last element; 0 if there is none."""
    if 0 in shape:
        return 0
    return sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) + itemsize
