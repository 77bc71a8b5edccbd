"""Reading small kernel files, of which any may be missing, unreadable or malformed."""

from __future__ import annotations

import os

# Ids above this are garbage, not CPUs (Linux stops at 8192); a list such as "0-4294967295" would
# otherwise be expanded.
_MAX_ID = 65536
_MAX_INT = 1 << 63


def under(root: str, path: str) -> str:
    """Place the absolute `path` below `root`."""
    return os.path.join(root, path.lstrip("/"))


def read_bytes(path: str) -> bytes:
    """Content of a file; b"" if it cannot be read."""
    try:
        with open(path, "rb", buffering=0) as file:
            return file.readall()
    except (OSError, ValueError):
        return b""


def read_text(path: str) -> str:
    """Content of a file without the blanks around it; "" if it cannot be read."""
    return read_bytes(path).decode("utf-8", "replace").strip()


def read_int(path: str) -> int | None:
    """Content of a file as a decimal integer; None if it is not one."""
    return to_int(read_text(path))


def to_int(text: str) -> int | None:
    """Decimal integer in `text`; None if it is not one, or is beyond 64 bits."""
    try:
        number = int(text)
    except ValueError:
        return None
    return number if -_MAX_INT <= number < _MAX_INT else None


def parse_list(text: str) -> tuple[int, ...]:
    """Expand a kernel id list such as ``0-3,8``; () if it is malformed.

    Returns
    -------
    tuple of int
        Sorted, without repetitions.
    """
    ids: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        low = to_int(first)
        high = to_int(last) if dash else low
        if low is None or high is None or not 0 <= low <= high <= _MAX_ID:
            return ()
        ids.update(range(low, high + 1))
    return tuple(sorted(ids))


def read_list(path: str) -> tuple[int, ...]:
    """Content of a file as an id list, () if it cannot be read or is malformed."""
    return parse_list(read_text(path))
