"""Folders that are made once, and again only when what they are made of has changed."""

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
    """Whether `folder` is there and was made of what `key` is the hash of."""
    try:
        return (folder / _KEY).read_text() == key
    except OSError:
        return False


def keep(folder: Path, key: str, what: str, make: Callable[[Path], None]) -> bool:
    """Make a folder, unless it is there and its `key` is the same.

    Parameters
    ----------
    folder : Path
        The folder. It is there in full or not at all: what an interrupted run has left lies beside
        it and is thrown away by the next one.
    key : str
        Hash of all that the folder is made of.
    what : str
        Its content, to say what is being done.
    make : callable
        Fills the empty folder that it is given.

    Returns
    -------
    bool
        Whether it was made now.
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
    """Keep other runs out of `folder`; the lock goes with the process that holds it."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for the run that has {folder}")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def say(text: str) -> None:
    """Write a line about what is being done."""
    print(f"arm: {text}", file=sys.stderr, flush=True)
