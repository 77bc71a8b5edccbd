"""Files that are written in full or not at all."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["write_whole"]


def write_whole(path: Path, content: bytes) -> None:
    """Write a file in full, or leave the old one unchanged.

    Parameters
    ----------
    path : Path
        File to write; its folder must exist.
    content : bytes
        The new contents.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    # In the same folder, because only within one file system is a rename a single step; opened
    # plainly, because the tempfile module's files cannot be read by other users.
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
