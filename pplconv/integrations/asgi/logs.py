"""Logs that do not grow by what strangers do."""

from __future__ import annotations

import logging
import time

__all__ = ["Rarely"]

_MOST_KINDS = 256


class Rarely(logging.Filter):
    """Lets a few records of each kind through per period, and says how many it suppressed.

    Parameters
    ----------
    most : int, optional
        Records of each kind that pass; a kind is a message before its arguments are inserted.
    seconds : float, optional
        Length of the period.
    """

    def __init__(self, most: int = 10, seconds: float = 10.0) -> None:
        super().__init__()
        self._most = most
        self._seconds = seconds
        self._kinds: dict[tuple[str, str], list[float]] = {}  # since when, how many

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is written."""
        kind, now = (record.name, str(record.msg)[:200]), time.monotonic()
        if kind not in self._kinds and len(self._kinds) >= _MOST_KINDS:
            self._kinds.clear()
        seen = self._kinds.setdefault(kind, [now, 0])
        if now - seen[0] > self._seconds:
            others = int(seen[1]) - self._most
            if others > 0:
                record.msg = f"{record.msg} ({others} more like it were not shown)"
            seen[:] = now, 0
        seen[1] += 1
        return seen[1] <= self._most
