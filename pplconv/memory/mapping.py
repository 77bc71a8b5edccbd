"""Files as arrays: pages are read when they are touched, and leave memory when they are released.

The system reads pages of a mapped file again if they are touched after they were released or
evicted.
"""

from __future__ import annotations

import contextlib
import errno
import math
import mmap
import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = [
    "blocks",
    "discard",
    "fresh_pages",
    "is_still_at",
    "map_file",
    "memory_errors",
    "plain",
    "release",
    "release_all",
    "unchanged",
]

Array = np.ndarray[tuple[Any, ...], np.dtype[Any]]

# Bytes of the rows that are worked on at once.
_BLOCK_BYTES = 1 << 20
# Bytes of a cache line.
_LINE = 64
# A large page of most systems, which is filled and mapped in one go.
_LARGE_PAGE = 1 << 21


class _Mapping(mmap.mmap):
    """A mapping made by this module; pages of other mappings are never released.

    Attributes
    ----------
    path : str
        The file, from the root.
    state : tuple of int
        Device, inode, size and time of the last change, when it was mapped.
    """

    path: str
    state: tuple[int, ...]


class _Pages(mmap.mmap):
    """Memory of `fresh_pages`."""


@contextlib.contextmanager
def memory_errors() -> Iterator[None]:
    """Raise MemoryError instead of OSError if the system is out of memory, as Python itself does.

    Yields
    ------
    None
    """
    try:
        yield
    except OSError as error:
        if error.errno != errno.ENOMEM:
            raise
        raise MemoryError(str(error)) from error


def map_file(path: str | os.PathLike[str]) -> npt.NDArray[np.uint8]:
    """Map a file into memory.

    Parameters
    ----------
    path : str or os.PathLike
        A file; it should be replaced as a whole and not written to while its array is in use.

    Returns
    -------
    ndarray of uint8
        Its bytes, read-only. A file that cannot be mapped, such as a pipe, is read.

    Raises
    ------
    OSError
        If there is no such file, or it cannot be read.
    MemoryError
        If there is no room for it.
    """
    with memory_errors(), open(path, "rb") as file:
        try:
            mapping = _Mapping(file.fileno(), 0, access=mmap.ACCESS_READ)
        # An empty file, or one that cannot be mapped.
        except (OSError, ValueError) as error:
            if isinstance(error, OSError) and error.errno == errno.ENOMEM:
                raise
            return np.frombuffer(file.read(), np.uint8)
        # What `Path.absolute` gives; `pathlib` takes milliseconds to import.
        mapping.path = os.path.join(os.getcwd(), path)
        mapping.state = _state(os.fstat(file.fileno()))
    return np.frombuffer(mapping, np.uint8)


def release(array: Array) -> None:
    """Release the pages of an array in a mapped file; other arrays stay as they are.

    Parameters
    ----------
    array : ndarray
        Any array. Its elements can be read as before, from the file.
    """
    mapping = _owner_of(array)
    if isinstance(mapping, _Mapping) and array.size:
        begin, end = _places(array, mapping)
        begin = begin // mmap.PAGESIZE * mmap.PAGESIZE
        _let_go(mapping, begin, end)


def release_all(arrays: Iterable[Array]) -> None:
    """Release the pages of all files that some arrays lie in; see `release`.

    Parameters
    ----------
    arrays : iterable of ndarray
        Any arrays.
    """
    owners = {id(owner): owner for owner in map(_owner_of, arrays)}
    for mapping in owners.values():
        if isinstance(mapping, _Mapping):
            _let_go(mapping, 0, len(mapping))


def discard(array: Array) -> None:
    """Give back the memory of an array of `fresh_pages` whose elements are no longer needed.

    Parameters
    ----------
    array : ndarray
        Such an array, or a part of one; other arrays stay as they are. Some elements become zero.
    """
    pages = _owner_of(array)
    if isinstance(pages, _Pages) and array.size:
        begin, end = _places(array, pages)
        begin = -(-begin // mmap.PAGESIZE) * mmap.PAGESIZE
        _let_go(pages, begin, end // mmap.PAGESIZE * mmap.PAGESIZE)


def fresh_pages(shape: tuple[int, ...], dtype: npt.DTypeLike) -> Array:
    """Make an array of zeros whose memory goes back to the system with it.

    Otherwise, large short-lived arrays leave gaps in the memory of the process, which it does not
    give back.

    Parameters
    ----------
    shape : tuple of int
        Its dimensions.
    dtype : dtype
        Type of its elements.

    Returns
    -------
    ndarray

    Raises
    ------
    MemoryError
        If there is no room for it.
    """
    kind = np.dtype(dtype)
    size = math.prod(shape) * kind.itemsize
    if size < mmap.PAGESIZE:
        return np.zeros(shape, kind)
    with memory_errors():
        # Memory of whole large pages begins at one.
        mapped = -(-size // _LARGE_PAGE) * _LARGE_PAGE if size >= _LARGE_PAGE else size
        pages = _Pages(-1, mapped, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if size >= _LARGE_PAGE and hasattr(mmap, "MADV_HUGEPAGE"):
        # Kernels without large pages refuse.
        with contextlib.suppress(OSError):
            pages.madvise(mmap.MADV_HUGEPAGE, 0, size // _LARGE_PAGE * _LARGE_PAGE)
    return np.frombuffer(pages, kind, size // kind.itemsize).reshape(shape)


def blocks(array: Array) -> Iterator[slice]:
    """Divide the rows of an array into blocks that caches hold.

    Parameters
    ----------
    array : ndarray
        Of one dimension or more.

    Yields
    ------
    slice
        Rows: indices of the first dimension.
    """
    rows = len(array)
    step = max(1, _BLOCK_BYTES * rows // max(array.nbytes, 1))
    for begin in range(0, rows, step):
        yield slice(begin, min(begin + step, rows))


def plain(array: Array) -> Array:
    """Return an array that is C-contiguous and aligned for its type.

    Parameters
    ----------
    array : ndarray
        Any array.

    Returns
    -------
    ndarray
        The same, or a copy. Pages of a file are released as they are copied.
    """
    if array.flags.c_contiguous and array.flags.aligned:
        return array
    if not array.ndim or array.nbytes < _BLOCK_BYTES:
        # `reshape`, as NumPy would turn no dimensions into one.
        return np.require(array, requirements=("A", "C")).reshape(array.shape)
    copy = fresh_pages(array.shape, array.dtype)
    # Copy in the order of memory, so that each page is read once.
    # An axis of one element may have any stride.
    outermost = max(
        range(array.ndim), key=lambda axis: (array.shape[axis] > 1, abs(array.strides[axis]))
    )
    source, destination = (np.moveaxis(each, outermost, 0) for each in (array, copy))
    # Of a transposed array, a few rows at a time fill whole lines of the copy, which stay in L2.
    few = len(source) if outermost == 0 else max(_LINE // array.itemsize, 1)
    for rows in blocks(source):
        for first in range(rows.start, rows.stop, few):
            part = slice(first, min(first + few, rows.stop))
            destination[part] = source[part]
        release(source[rows])
    return copy


def unchanged(array: Array) -> None:
    """Refuse an array whose file is not what it was when it was mapped.

    Parameters
    ----------
    array : ndarray
        Any array; arrays that are not in a mapped file are never refused.

    Raises
    ------
    RuntimeError
        If the file was written to or truncated. A new file in its place is no error: the mapped
        file is unchanged.
    """
    mapping = _owner_of(array)
    if not isinstance(mapping, _Mapping):
        return
    try:
        now = _state(os.stat(mapping.path))
    except OSError:
        now = ()
    same_file = now[:2] == mapping.state[:2]
    if mapping.size() < len(mapping) or (same_file and now != mapping.state):
        raise RuntimeError(f"the file {mapping.path} was changed while it was in use")


def is_still_at(array: Array) -> bool:
    """Tell whether the path of a mapped file still leads to that file.

    Parameters
    ----------
    array : ndarray
        Any array; of one that is not in a mapped file it is False.
    """
    mapping = _owner_of(array)
    if not isinstance(mapping, _Mapping):
        return False
    try:
        return _state(os.stat(mapping.path)) == mapping.state
    except OSError:
        return False


def _state(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _owner_of(array: Array) -> Any:
    """Find the object that owns the memory of an array."""
    owner: Any = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    return owner.obj if isinstance(owner, memoryview) else owner


def _places(array: Array, mapping: mmap.mmap) -> tuple[int, int]:
    """Offsets in a mapping of the first byte of an array, and of the first byte after it."""
    origin: int = np.frombuffer(mapping, np.uint8).__array_interface__["data"][0]
    start: int = array.__array_interface__["data"][0] - origin
    steps = [(n - 1) * step for n, step in zip(array.shape, array.strides, strict=True)]
    first = start + sum(min(step, 0) for step in steps)
    return first, start + sum(max(step, 0) for step in steps) + array.itemsize


def _let_go(mapping: mmap.mmap, begin: int, end: int) -> None:
    # Systems without MADV_DONTNEED keep the pages, which does no harm.
    if end > begin and hasattr(mmap, "MADV_DONTNEED"):
        mapping.madvise(mmap.MADV_DONTNEED, begin, end - begin)
