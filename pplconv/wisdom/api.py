"""The functions of wisdom, on the store that the environment names."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from typing import Any

from .. import config
from . import wisdom_files
from .document import FILE_NAME, MAX_BYTES, Unusable, as_dict, dump, from_dict, parse
from .entries import Division, Entry, Key, Scalar, check_team
from .store import Store, read_file, warn

_guard = threading.Lock()
# There is one store at a time: a change of the environment gives another file and an empty memory.
_current: tuple[str | None, Store] | None = None


def export(path: str | os.PathLike[str] | None = None) -> dict[str, Any]:
    """Give all wisdom of this process: the file's first content, and later findings.

    Parameters
    ----------
    path : str or path-like, optional
        A file to write it to, too, in full or not at all; an existing one is replaced.

    Returns
    -------
    dict
        Of strings, numbers, booleans, lists and dicts only; `load` accepts it, and the file. It
        contains other CPUs' entries if they were loaded here.

    Raises
    ------
    TypeError
        If `path` is not a path.
    OSError
        If the file cannot be written.
    """
    entries = _store().entries()
    if path is not None:
        wisdom_files.replace(os.path.realpath(_path(path, "path")), dump(entries), 0o666)
    return as_dict(entries)


def load(source: str | os.PathLike[str] | Mapping[str, Any]) -> int:
    """Add the findings of another process or machine.

    They replace entries of the same problems, and are kept in the wisdom file, too. Existing plans
    do not change.

    Parameters
    ----------
    source : str, path-like or dict
        A file written by `export`, a wisdom file of any user, or the result of `export`.

    Returns
    -------
    int
        Number of entries added; 0 if `source` is damaged, of a newer version, or not wisdom.

    Raises
    ------
    TypeError
        If `source` is neither a path nor a dict.
    OSError
        If the file cannot be read.

    Warns
    -----
    WisdomWarning
        Once, if `source` is ignored or some of its entries are.
    """
    name = "source"
    try:
        if isinstance(source, Mapping):
            entries, dropped = from_dict(source)
        else:
            name = _path(source, "source")
            entries, dropped = parse(wisdom_files.read(name, MAX_BYTES)[0])
    except wisdom_files.TooLarge:
        warn(f"{name} is larger than {MAX_BYTES} bytes: it is ignored")
        return 0
    except Unusable as trouble:
        warn(f"{name} {trouble.reason}: it is ignored")
        return 0
    _store().add(entries)
    if dropped:
        warn(f"{name} has {dropped} invalid entries: they are ignored")
    return len(entries)


def clear(*, disk: bool = False) -> None:
    """Forget the wisdom of this process.

    Existing plans do not change; later plans are made without wisdom.

    Parameters
    ----------
    disk : bool, optional
        Remove the wisdom file, too. By default it stays: this process does not read it again
        (`load` does), and adds later findings to it.

    Raises
    ------
    TypeError
        If `disk` is not a bool, for example a path: it does not name the file to remove.
    OSError
        If the file cannot be removed.

    Warns
    -----
    WisdomWarning
        If the file is not wisdom of this version; it is not removed.
    """
    if not isinstance(disk, bool):
        raise TypeError(f"disk must be True or False, got {disk!r}")
    _store().clear(disk)


def lookup(key: Key) -> Entry | None:
    """Look up a problem.

    Parameters
    ----------
    key : Key

    Returns
    -------
    Entry or None
        Plain data, perhaps from a file: a hint that the planner follows only if it can build the
        plan itself. ``entry.teams.get(team)`` is None for a team that was not measured; its plan
        has the same ``entry.choice``.
    """
    return _store().entries().get(key)


def is_empty() -> bool:
    """Tell whether nothing is remembered, here or in the file: no `lookup` would find anything.

    Returns
    -------
    bool
    """
    return not _store().entries()


def remember(
    key: Key,
    choice: Mapping[str, Scalar],
    team: int,
    blocks: Mapping[str, Scalar],
    seconds: float,
    *,
    search: str = "measure",
) -> None:
    """Add the finding of a search, here and in the file.

    If the choice equals the known one, the team joins its measured teams; a different choice drops
    them. So a search for another team looks up the choice and keeps it.

    Parameters
    ----------
    key : Key
        The problem.
    choice : mapping of str to bool, int or str
        Algorithm and variant, which decide the bits.
    team : int
        Size of the team that was measured, 1 to 65536.
    blocks : mapping of str to bool, int or str
        Division of the work; integers from 0 to 2**53.
    seconds : float
        Best time of a run.
    search : {"measure", "exhaustive"}, optional
        Thoroughness of the search.

    Raises
    ------
    TypeError, ValueError
        If an argument has another type or is out of range; the message names it.

    Warns
    -----
    WisdomWarning
        When the file first cannot be used or written; wisdom then stays in memory.
    """
    entry = Entry(choice, {check_team(team): Division(blocks, seconds, search)})
    _store().add({key: entry})


def describe() -> dict[str, Any]:
    """Describe the wisdom file.

    Returns
    -------
    dict
        ``"path"``: str, or None if wisdom is kept in memory only; ``"entries"``: int;
        ``"bytes"``: int, size of the file; ``"trouble"``: str or None, the reason why the file or
        some of its entries are not used.
    """
    path = _path_of(config.current())
    if path is None:
        return {"path": None, "entries": 0, "bytes": 0, "trouble": None}
    path = os.path.abspath(path)
    found = read_file(path)
    return {
        "path": path,
        "entries": len(found.entries),
        "bytes": found.stamp.size if found.stamp else 0,
        "trouble": found.complaint,
    }


def _path(value: object, name: str) -> str:
    if not isinstance(value, str | os.PathLike):
        raise TypeError(f"{name} is of type {type(value).__name__}: expected a path")
    return os.fsdecode(value)


def _path_of(settings: config.Settings) -> str | None:
    if settings.wisdom is not None:
        return settings.wisdom or None
    if settings.cache_folder is None:
        return None
    return os.path.join(settings.cache_folder, FILE_NAME)


def _store() -> Store:
    global _current
    path = _path_of(config.current())
    found = _current
    if found is None or found[0] != path:
        with _guard:
            found = _current
            if found is None or found[0] != path:
                found = _current = (path, Store(path))
    return found[1]


def _in_child() -> None:
    global _guard
    _guard = threading.Lock()
    wisdom_files.close_inherited_locks()
    if _current is not None:
        _current[1].renew_locks()


# Systems without fork have no such function, and no such problem.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
