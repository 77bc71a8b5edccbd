"""Folders that are built once, and again only when their sources change."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_KEY = ".made-of"


def digest(*parts: str | bytes) -> str:
    """Hash of texts and contents, in order."""
    found = hashlib.sha256()
    for part in parts:
        raw = part.encode() if isinstance(part, str) else part
        found.update(b"%d:" % len(raw) + raw)
    return found.hexdigest()


def is_kept(folder: Path, key: str) -> bool:
    """Whether `folder` exists and was built from sources with the hash `key`."""
    try:
        return (folder / _KEY).read_text() == key
    except OSError:
        return False


def keep(folder: Path, key: str, what: str, make: Callable[[Path], None]) -> bool:
    """Build a folder, unless it exists with the same `key`.

    Parameters
    ----------
    folder : Path
        The folder. It is complete or missing: an interrupted run leaves its files beside it, and
        the next run deletes them.
    key : str
        Hash of the folder's sources.
    what : str
        Its content, for progress messages.
    make : callable
        Fills the empty folder that it is given.

    Returns
    -------
    bool
        Whether it was built now.
    """
    if is_kept(folder, key):
        return False
    say(what)
    part = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    make(part)
    (part / _KEY).write_text(key)
    shutil.rmtree(folder, ignore_errors=True)
    part.rename(folder)
    return True


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Lock `folder` against other runs; the lock ends with its process."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for the run that has {folder}")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def say(text: str) -> None:
    """Write a line of progress."""
    print(f"arm: {text}", file=sys.stderr, flush=True)
