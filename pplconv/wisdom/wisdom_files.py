"""Reading, replacing and locking files, whatever is in them."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

try:
    import fcntl

    _LOCKS = True
except ImportError:  # no such system call here: writers may lose each other's entries, no more
    _LOCKS = False

LOCK_SECONDS = 5.0
"""How long to wait for another process to write its entries, a matter of milliseconds."""
_POLL_SECONDS = 0.005
_TEMPORARY = ".pplconv-wisdom-"
_STALE_SECONDS = 3600.0
# Where a file system knows no locks.
_NO_LOCKS = {errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK, errno.EINVAL}

# Open lock files, so that a forked child can let go of those that it inherited.
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
    """The path leads to a folder, a device, a pipe or the like."""

    def __init__(self, path: str) -> None:
        super().__init__(errno.EINVAL, "not a regular file", path)


class TooLarge(OSError):
    """The file is larger than it may be."""

    def __init__(self, path: str, most: int) -> None:
        super().__init__(errno.EFBIG, f"larger than {most} bytes", path)


def stamp_of(path: str) -> Stamp | None:
    """The stamp of the file at `path`; None if there is none.

    Raises
    ------
    OSError
        If the path leads nowhere else than to a missing file.
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
        If there is none, it cannot be read, or it is something else or larger.
    """
    # O_NONBLOCK: opening a pipe would wait for somebody to write to it.
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


def replace(path: str, data: bytes, mode: int) -> Stamp:
    """Put `data` at `path`, whole or not at all.

    Parameters
    ----------
    path : str
        Must not end in a symbolic link: the link itself would be replaced.
    data : bytes
        Everything that the file is to hold.
    mode : int
        Permissions of a new file; those of an old one stay.

    Returns
    -------
    Stamp
        Of the file now there.

    Raises
    ------
    OSError
        If the path leads to anything but a regular file, or the system refuses.
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
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(fd, rest) :]
            # The name must not be there before the content is.
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
    """Make a folder and those above it, for this user alone where they are new.

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
    with suppress(FileExistsError):  # another process may be as far as this one
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
    """Keep out other processes that lock the same file.

    The lock is advisory and goes with the process that holds it. Where the system or the file
    system knows no locks, nobody is kept out.

    Parameters
    ----------
    path : str
        A file beside the one that is meant, made if missing and never removed: whoever removed
        it might leave two processes with a lock each.
    seconds : float
        How long to wait.

    Raises
    ------
    TimeoutError
        If somebody else held it all the time.
    OSError
        If the file cannot be made.
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
                # Closing is not enough if a child forked meanwhile has the file open too.
                with suppress(OSError):
                    fcntl.flock(fd, fcntl.LOCK_UN)
            os.close(fd)


def close_inherited_locks() -> None:
    """In a forked child: close the locks of its parent, which the parent still holds."""
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
