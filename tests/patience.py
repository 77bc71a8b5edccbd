"""Waiting in tests: for events, with one limit; no test measures how long something takes.

The time that a thread, a process or a server needs depends on the machine's other load, so a test
that judges time fails now and then without a fault. A test waits for a named event instead; the
limit here ends the wait for an event that never happens.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")

PATIENCE = 300.0
"""Seconds; the one limit of every test that waits for a process, a thread or a server.

Far more than any needs, so that only a hang reaches it. Tests that build the package or start a
cluster wait for a multiple of it. Code inside a process that has a limit has no limit of its own,
or a part of it: the inner limit is then reached first, and its message says more.
"""

PAUSE = 0.003
"""Seconds between two looks."""


def eventually(condition: Callable[[], Found], what: str = "a condition") -> Found:
    """Wait until a condition is true.

    Parameters
    ----------
    condition
        Asked every few milliseconds, at least once.
    what
        Name of the event, for the error message.

    Returns
    -------
    Found
        The true value that the condition returned.

    Raises
    ------
    AssertionError
        If it did not become true within `PATIENCE`.
    """
    pause = threading.Event()  # a test may replace `time.sleep`
    end = time.monotonic() + PATIENCE
    while not (found := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"in {PATIENCE:g} s this never came: {what}")
        pause.wait(PAUSE)
    return found
