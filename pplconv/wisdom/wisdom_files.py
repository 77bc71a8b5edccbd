"""Reading, replacing and locking files of any content."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

from .._records import NamedTuple

try:
    import fcntl

    _LOCKS = True
except ImportError:  # without this system call, writers may lose each other's entries, no more
    _LOCKS = False

LOCK_SECONDS = 5.0
"""How long to wait for another process to write its entries, a matter of milliseconds."""
_POLL_SECONDS = 0.005
_TEMPORARY = ".pplconv-wisdom-"
_STALE_SECONDS = 3600.0
# Errors of file systems without locks.
_NO_LOCKS = {errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK, errno.EINVAL}

# Open lock files, so that a forked child can release inherited ones.
_held: set[int] = set()


class Stamp(NamedTuple):
    """Attributes of a file that change when it is written or replaced."""

    mtime_ns: int
    size: int
    inode: int

    @classmethod
    def of(cls, status: os.stat_result) -> Stamp:
        """Make it from a result of stat."""
        return cls(status.st_mtime_ns, status.st_size, status.st_ino)


class NotAFile(OSError):
    """The path is a folder, a device, a pipe or the like."""

    def __init__(self, path: str) -> None:
        super().__init__(errno.EINVAL, "not a regular file", path)


class TooLarge(OSError):
    """The file exceeds the permitted size."""

    def __init__(self, path: str, most: int) -> None:
        super().__init__(errno.EFBIG, f"larger than {most} bytes", path)


def stamp_of(path: str) -> Stamp | None:
    """The stamp of the file at `path`; None if there is none.

    Raises
    ------
    OSError
        If the system refuses, except for a missing file.
    """
    try:
        return Stamp.of(os.stat(path))
    except FileNotFoundError:
        return None


def read(path: str, most: int) -> tuple[bytes, Stamp]:
    """Read a regular file of at most `most` bytes.

    Raises
    ------
    OSError
        If it is missing, unreadable, not a regular file, or too large.
    """
    # O_NONBLOCK: opening a pipe would wait for a writer.
    fd = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0))
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise NotAFile(path)
        parts = []
        room = most + 1
        while room and (part := os.read(fd, room)):
            parts.append(part)
            room -= len(part)
    finally:
        os.close(fd)
    if not room:
        raise TooLarge(path, most)
    return b"".join(parts), Stamp.of(status)


def replace(path: str, data: bytes | Iterable[bytes | memoryview], mode: int) -> Stamp:
    """Replace the file at `path` by `data`, in full or not at all.

    Parameters
    ----------
    path : str
        Must not end in a symbolic link: the link itself would be replaced.
    data : bytes, or iterable of bytes
        The file's new content, or its parts.
    mode : int
        Permissions of a new file; an existing file keeps its own.

    Returns
    -------
    Stamp
        Of the new file.

    Raises
    ------
    OSError
        If the path is anything but a regular file, or the system refuses.
    """
    kept = None
    with suppress(FileNotFoundError):
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            raise NotAFile(path)
        kept = stat.S_IMODE(status.st_mode)
    name = f"{_TEMPORARY}{os.getpid()}-{os.urandom(6).hex()}.tmp"
    temporary = os.path.join(os.path.dirname(path), name)
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        try:
            if kept is not None and hasattr(os, "fchmod"):
                os.fchmod(fd, kept)
            for part in (data,) if isinstance(data, bytes) else data:
                rest = memoryview(part)
                while rest:
                    rest = rest[os.write(fd, rest) :]
            # The content must be on disk before the name.
            os.fsync(fd)
            stamp = Stamp.of(os.fstat(fd))
        finally:
            os.close(fd)
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    return stamp


def make_folder(folder: str) -> None:
    """Make a folder and its parents; new ones are for this user only.

    Raises
    ------
    OSError
        If the system refuses.
    """
    if os.path.isdir(folder):
        return
    above = os.path.dirname(folder)
    if above != folder:
        make_folder(above)
    with suppress(FileExistsError):  # another process may have made it meanwhile
        os.mkdir(folder, 0o700)


def remove_stale(folder: str) -> None:
    """Remove files that killed writers left in `folder` an hour ago or earlier."""
    oldest = time.time() - _STALE_SECONDS
    with suppress(OSError), os.scandir(folder) as found:
        for item in found:
            if item.name.startswith(_TEMPORARY) and item.name.endswith(".tmp"):
                with suppress(OSError):
                    if item.stat(follow_symlinks=False).st_mtime < oldest:
                        os.unlink(item.path)


@contextmanager
def locked(path: str, seconds: float) -> Iterator[None]:
    """Lock a file against other processes.

    The lock is advisory and ends with its process. On systems or file systems without locks it has
    no effect.

    Parameters
    ----------
    path : str
        A lock file beside the protected file. It is created if missing, and never removed: after a
        removal, two processes could hold a lock each.
    seconds : float
        Longest time to wait.

    Raises
    ------
    TimeoutError
        If another process held it all the time.
    OSError
        If the file cannot be created.
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    _held.add(fd)
    try:
        _acquire(fd, path, seconds)
        yield
    finally:
        if fd in _held:
            _held.discard(fd)
            if _LOCKS:
                # Closing is not enough if a forked child has the file open, too.
                with suppress(OSError):
                    fcntl.flock(fd, fcntl.LOCK_UN)
            os.close(fd)


def close_inherited_locks() -> None:
    """In a forked child: close the parent's lock files, whose locks the parent keeps."""
    while _held:
        with suppress(OSError):
            os.close(_held.pop())


def _acquire(fd: int, path: str, seconds: float) -> None:
    if not _LOCKS:
        return
    end = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= end:
                message = "another process holds the lock"
                raise TimeoutError(errno.ETIMEDOUT, message, path) from None
            time.sleep(_POLL_SECONDS)
        except OSError as error:
            if error.errno in _NO_LOCKS:
                return
            raise
        else:
            return
