"""Models that wait until a test lets them go on, so that no test depends on time."""

from __future__ import annotations

import threading
from collections.abc import Callable

PATIENCE = 60.0
"""Seconds after which something hangs, on the slowest machine."""


class Gate:
    """A model that says when it runs, and answers once it is opened."""

    def __init__(self) -> None:
        self.entered = threading.Semaphore(0)
        self.opened = threading.Event()

    def __call__(self, value: object = None) -> object:
        self.entered.release()
        assert self.opened.wait(PATIENCE)
        return value

    def wait_entered(self, count: int = 1) -> None:
        for _ in range(count):
            assert self.entered.acquire(timeout=PATIENCE)


def eventually(condition: Callable[[], bool]) -> bool:
    """Whether `condition` becomes true before patience ends."""
    pause = threading.Event()
    for _ in range(int(PATIENCE / 0.005)):
        if condition():
            return True
        pause.wait(0.005)
    return False
