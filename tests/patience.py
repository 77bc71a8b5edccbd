"""Waiting in tests: for events, with one limit; no test measures how long something takes.

How long a thread, a process or a server needs depends on whatever else the machine does, so a test
that judges time fails now and then without a fault. A test waits until something has happened
instead, and says what; the limit here is for what never happens.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")

PATIENCE = 300.0
"""Seconds; the one limit of every test that waits for a process, a thread or a server.

Far more than any needs, so that only what hangs meets it. Where the package is built, or a cluster
is started, a multiple of it is the limit; what runs inside a process that has a limit has none of
its own or a part of it, so that the inner one is met first and says more.
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
        What is waited for, as the error names it.

    Returns
    -------
    Found
        What the condition gave when it was true.

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
