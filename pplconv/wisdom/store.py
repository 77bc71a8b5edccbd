"""One wisdom file and its cache in memory, safe for threads, forks and processes.

There are two locks, taken in this order: ``_writing`` while a file is written, and ``_lock`` for
moments. The cache is never modified, only replaced, so a lookup takes no lock, and a fork at any
instant leaves the child a consistent cache.
"""

from __future__ import annotations

import os
import sys
import threading
import warnings
from collections.abc import Mapping
from types import FrameType

from .._records import record
from . import wisdom_files
from .document import MAX_BYTES, Unusable, dump, parse
from .entries import Entry, Key, merge, overlay


class WisdomWarning(RuntimeWarning):
    """A wisdom file cannot be used or written; plans are made without it."""


def warn(text: str | None) -> None:
    """Warn, if there is a text, at the calling line outside pplconv; never under a lock.

    A filter may turn the warning into an exception, and a hook may do anything.
    """
    if text:
        warnings.warn(text, WisdomWarning, stacklevel=_levels_to_caller())


def _levels_to_caller() -> int:
    """Give the ``stacklevel`` of the nearest caller outside pplconv."""
    frame, levels = sys._getframe(1), 1
    while frame.f_back and _is_own(frame):
        frame, levels = frame.f_back, levels + 1
    return levels


def _is_own(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] == "pplconv"


@record(frozen=True)
class Contents:
    """The content of a file.

    Parameters
    ----------
    entries : mapping of Key to Entry
        The valid ones, oldest first; none if the file is unusable or missing.
    stamp : Stamp or None
        None if the file is missing or cannot be read.
    trouble : Unusable or None
        Reason for missing entries.
    dropped : int
        Entries that were invalid.
    """

    entries: Mapping[Key, Entry]
    stamp: wisdom_files.Stamp | None = None
    trouble: Unusable | None = None
    dropped: int = 0

    @property
    def complaint(self) -> str | None:
        """The end of a sentence that begins with the file's name, or None."""
        if self.trouble is not None:
            return self.trouble.reason
        if self.dropped:
            return f"has {self.dropped} invalid entries"
        return None


def read_file(path: str) -> Contents:
    """Read a file of any content; a missing one is empty. Raises nothing but MemoryError."""
    try:
        data, stamp = wisdom_files.read(path, MAX_BYTES)
    except FileNotFoundError:
        return Contents({})
    except OSError as error:
        return Contents({}, trouble=Unusable(f"cannot be read ({error.strerror or error})"))
    try:
        entries, dropped = parse(data)
    except Unusable as trouble:
        return Contents({}, stamp, trouble)
    return Contents(entries, stamp, dropped=dropped)


class Store:
    """Wisdom in memory, kept in a file if there is a path.

    Parameters
    ----------
    path : str or None
        The file; None keeps wisdom in memory only.
    """

    def __init__(self, path: str | None) -> None:
        self.path = None if path is None else os.path.abspath(path)
        self._memory: Mapping[Key, Entry] | None = None  # None: the file was not read yet
        self._pending: Mapping[Key, Entry] = {}  # findings that are not in the file yet
        self._on_disk: Contents | None = None  # last known content, to avoid reading it again
        self._warned: set[str] = set()
        self._tidied = False
        self._patient = True
        self.renew_locks()

    def renew_locks(self) -> None:
        """Make new locks, as a forked child must: no thread exists to release the old ones."""
        self._lock = threading.Lock()
        self._writing = threading.Lock()

    def entries(self) -> Mapping[Key, Entry]:
        """All wisdom of this process; must not be modified. Reads the file at the first call."""
        memory = self._memory
        if memory is not None:
            return memory
        found = None
        with self._lock:
            if self._memory is None:
                found = Contents({}) if self.path is None else read_file(self.path)
                self._on_disk = found
                self._memory = dict(found.entries)
            memory = self._memory
        if found is not None:
            warn(self._complaint(found))
        return memory

    def add(self, new: Mapping[Key, Entry]) -> None:
        """Add entries, and write them to the file if it lacks them."""
        self.entries()
        with self._lock:
            memory = self._memory or {}
            changed = {
                key: entry
                for key, entry in new.items()
                if merge(memory.get(key), entry) != memory.get(key)
            }
            self._memory = overlay(memory, changed)
            self._pending = overlay(self._pending, changed)
        warn(self._save())

    def clear(self, disk: bool) -> None:
        """Forget all wisdom of this process, and remove the file if `disk` is true.

        Raises
        ------
        OSError
            If the file cannot be removed.
        """
        complaint = None
        with self._writing:
            with self._lock:
                self._memory = {}
                self._pending = {}
            if disk and self.path is not None and os.path.lexists(self.path):
                path = os.path.realpath(self.path)
                with wisdom_files.locked(f"{path}.lock", wisdom_files.LOCK_SECONDS):
                    found = read_file(path)
                    if found.trouble is not None and not found.trouble.ours:
                        complaint = f"{self.path} {found.trouble.reason}: it is not removed"
                    elif found.stamp is not None:
                        os.unlink(path)
                    self._on_disk = None
        warn(complaint)

    def _save(self) -> str | None:
        """Merge pending entries into the file; return the text of a warning, if any."""
        if self.path is None:
            with self._lock:
                self._pending = {}
            return None
        with self._writing:
            with self._lock:
                batch, self._pending = self._pending, {}
            if not batch:  # another thread wrote it along with its own
                return None
            kept = False
            try:
                found = self._merge_into_file(os.path.realpath(self.path), batch)
                kept = found.trouble is None
                return self._complaint(found)
            except OSError as error:
                # A process that holds the lock this long is stuck; waiting on would only cost time.
                self._patient = not isinstance(error, TimeoutError)
                reason = f"cannot be written ({error.strerror or error})"
                return self._once("memory only", f"{reason}: wisdom is kept in memory only")
            finally:
                if not kept:
                    with self._lock:
                        self._pending = overlay(batch, self._pending)

    def _merge_into_file(self, path: str, batch: Mapping[Key, Entry]) -> Contents:
        """Write the file, and give its new content; with trouble if it was left alone."""
        folder = os.path.dirname(path)
        wisdom_files.make_folder(folder)
        with wisdom_files.locked(
            f"{path}.lock", wisdom_files.LOCK_SECONDS if self._patient else 0.0
        ):
            self._patient = True
            found = self._on_disk
            if found is None or found.stamp is None or found.stamp != wisdom_files.stamp_of(path):
                found = read_file(path)
            self._on_disk = found
            if found.trouble is not None:
                if not found.trouble.ours:
                    return found
                os.replace(path, f"{path}.bak")
            if not self._tidied:
                self._tidied = True
                wisdom_files.remove_stale(folder)
            merged = overlay(found.entries, self._complete(batch, found.entries))
            if merged != found.entries or found.complaint is not None:
                self._on_disk = Contents(merged, wisdom_files.replace(path, dump(merged), 0o600))
        return Contents(merged, dropped=found.dropped)

    def _complete(
        self, batch: Mapping[Key, Entry], on_disk: Mapping[Key, Entry]
    ) -> dict[Key, Entry]:
        """Add this process's teams to new choices that will replace the file's entries."""
        known = self._memory or {}
        return {
            key: merge(known.get(key), entry)
            if key in on_disk and on_disk[key].choice != entry.choice
            else entry
            for key, entry in batch.items()
        }

    def _complaint(self, found: Contents) -> str | None:
        if found.complaint is None:
            return None
        if found.trouble is None:
            return self._once("content", f"{found.complaint}: they are ignored")
        if found.trouble.ours:
            return self._once("content", f"{found.complaint}: it is ignored")
        what = "it is ignored and left as it is, and wisdom is kept in memory only"
        return self._once("memory only", f"{found.complaint}: {what}")

    def _once(self, kind: str, text: str) -> str | None:
        with self._lock:
            if kind in self._warned:
                return None
            self._warned.add(kind)
        return f"{self.path} {text}"
