"""Threads in tests: begun, and awaited within `PATIENCE`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence

from tests.patience import PATIENCE


def begun(targets: Iterable[Callable[[], object]]) -> list[threading.Thread]:
    """Start a thread for each function; threads that hang do not keep the process alive."""
    threads = [threading.Thread(target=target, daemon=True) for target in targets]
    for thread in threads:
        thread.start()
    return threads


def ended(threads: Sequence[threading.Thread]) -> None:
    """Wait for the end of threads."""
    for thread in threads:
        thread.join(PATIENCE)
    assert not any(thread.is_alive() for thread in threads)


def at_once(count: int, function: Callable[[int], object]) -> None:
    """Call ``function(index)`` in threads that start together; raise what they raise."""
    barrier = threading.Barrier(count)
    errors: list[BaseException] = []

    def work(index: int) -> None:
        try:
            barrier.wait(timeout=PATIENCE)
            function(index)
        except BaseException as error:
            errors.append(error)

    ended(begun(lambda index=index: work(index) for index in range(count)))
    if errors:
        raise errors[0]
