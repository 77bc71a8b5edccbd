"""The text of a wisdom file: JSON with a header, one entry a line, all checked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .._version import __version__
from .entries import MAX_ENTRIES, Entry, Key, from_json, to_json

FORMAT = "pplconv wisdom"
VERSION = 1
"""Raised when entries change their meaning; each version has a file name of its own."""
FILE_NAME = f"wisdom-{VERSION}.json"
MAX_BYTES = 4 << 20
"""Largest file: the oldest entries beyond it are not written, and no larger one is read."""

_HEADER = f'{{\n"format": "{FORMAT}"'
# Start of every wisdom file, also of newer versions.
_NEWER = rb'"version": ([0-9]{1,9})\b'
# Numbers longer than any valid one are not converted, as that takes long.
_LONGEST_NUMBER = 40


class Unusable(Exception):
    """A file without wisdom of this version.

    Parameters
    ----------
    reason : str
        The end of a sentence that begins with the file's name.
    ours : bool
        Whether it is a damaged wisdom file of this version, which may be set aside. Other files
        are left alone: a newer version's, or files of other programs.
    """

    def __init__(self, reason: str, *, ours: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.ours = ours


def as_dict(entries: Mapping[Key, Entry]) -> dict[str, Any]:
    """Make the document, of dicts, lists, strings and numbers only."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "pplconv": __version__,
        "entries": [to_json(key, entry) for key, entry in entries.items()],
    }


def dump(entries: Mapping[Key, Entry]) -> bytes:
    """Write the document; beyond `MAX_BYTES` only the newest entries."""
    import json

    head = f'{_HEADER},\n"version": {VERSION},\n"pplconv": "{__version__}",\n"entries": [\n'
    tail = "\n]\n}\n"
    room = MAX_BYTES - len(head) - len(tail)
    lines: list[str] = []
    for key in reversed(list(entries)):
        line = json.dumps(to_json(key, entries[key]), allow_nan=False)
        room -= len(line) + len(",\n")
        if room < 0:
            break
        lines.append(line)
    return (head + ",\n".join(reversed(lines)) + tail).encode("ascii")


def parse(data: bytes) -> tuple[dict[Key, Entry], int]:
    """Read the document.

    Parameters
    ----------
    data : bytes
        Of any content.

    Returns
    -------
    entries : dict of Key to Entry
        The valid ones.
    dropped : int
        Number of invalid ones.

    Raises
    ------
    Unusable
        If it is not wisdom of this version.
    MemoryError
        If there is not enough memory to read it.
    """
    import json

    if not data:  # created empty, by touch or mktemp
        return {}, 0
    header = _HEADER.encode("ascii")
    # After a power failure during a write, a file system may leave zeros.
    ours = data.startswith(header) or header.startswith(data) or not data.strip(b"\0")
    try:
        # Too long numbers, infinities and NaN become null, which makes the entry invalid.
        value = json.loads(
            data.decode("utf-8"),
            parse_int=lambda digits: int(digits) if len(digits) <= _LONGEST_NUMBER else None,
            parse_float=lambda digits: float(digits) if len(digits) <= _LONGEST_NUMBER else None,
            parse_constant=lambda name: None,
        )
    # MemoryError does not mean that the file is damaged: it must not be set aside.
    except (ValueError, RecursionError):
        written = re.search(_NEWER, data[: 2 * len(header)])
        if ours and written and int(written[1]) > VERSION:
            raise _newer(int(written[1])) from None
        reason = "is damaged" if ours else "is not a wisdom file"
        raise Unusable(reason, ours=ours) from None
    return from_dict(value)


def from_dict(value: object) -> tuple[dict[Key, Entry], int]:
    """Read what `as_dict` made; returns and raises as `parse` does."""
    if not isinstance(value, Mapping) or value.get("format") != FORMAT:
        raise Unusable("is not a wisdom file")
    version = value.get("version")
    if type(version) is int and version > VERSION:
        raise _newer(version)
    items = value.get("entries")
    if type(version) is not int or version != VERSION or not isinstance(items, list):
        raise Unusable("is damaged", ours=True)
    entries: dict[Key, Entry] = {}
    valid = 0
    for item in items:
        try:
            key, entry = from_json(item)
        except (TypeError, ValueError):
            continue
        valid += 1
        entries.pop(key, None)  # the later duplicate counts, at its own position
        entries[key] = entry
    dropped = len(items) - valid
    for key in list(entries)[: max(0, len(entries) - MAX_ENTRIES)]:
        del entries[key]
    return entries, dropped


def _newer(version: int) -> Unusable:
    return Unusable(f"is of format version {version}, and this pplconv reads {VERSION}")
