"""Models that wait until a test lets them go on, so that no test depends on time."""

from __future__ import annotations

import threading
from typing import Any

import pplconv
from tests.patience import PATIENCE


def pool_of(model: object, **settings: Any) -> pplconv.InstancePool:
    """Make a pool of a model: of two instances of a thread each, unless told otherwise."""
    return pplconv.InstancePool(lambda: model, **{"instances": 2, "threads": 1, **settings})


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
