"""Workers for tests, and facts about their processes from /proc."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path

from pplconv.instances.process import ProcessWorkers, make_process_workers
from pplconv.instances.worker_placement import Placement
from tests.patience import PATIENCE

LINUX = sys.platform == "linux"
ANYWHERE = Placement(None, ())


@contextmanager
def workers(
    factory: Callable, count: int = 1, threads: int = 1, placements=None
) -> Iterator[ProcessWorkers]:
    """Make workers, and close them at the end."""
    made = make_process_workers(factory, placements or [ANYWHERE] * count, threads)
    try:
        yield made
    finally:
        made.close()


@contextmanager
def worker(factory: Callable, **settings):
    """Make one worker, and close it at the end."""
    with workers(factory, **settings) as make:
        one = make(0)
        try:
            yield one
        finally:
            one.close(PATIENCE)


def lives(pid: int) -> bool:
    """Return whether the process exists and is no zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def outcome(call: Callable[[], object]) -> object:
    """Return or raise the result of a call, which must end within `PATIENCE`.

    Parameters
    ----------
    call
        Run in its own thread. Its own time limits are longer than `PATIENCE`, so that a call that
        waits for one of them counts as hanging.
    """
    found: Future = Future()

    def run() -> None:
        try:
            found.set_result(call())
        except BaseException as error:
            found.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return found.result(PATIENCE)


def mappings(pid: int, name: str) -> list[dict[str, int]]:
    """Return the smaps values, in KiB, of mappings whose file name contains `name`."""
    found, wanted = [], False
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        key, _, rest = line.partition(":")
        if "-" in key.split(" ")[0]:
            wanted = name in line
            if wanted:
                found.append({})
        elif wanted and rest.endswith("kB"):
            found[-1][key] = int(rest.split()[0])
    return found


def own_descriptors() -> set[tuple[str, str]]:
    """Number and target of each open descriptor; the one that lists them is left out."""
    found = set()
    for number in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):
            found.add((number, os.readlink(f"/proc/self/fd/{number}")))
    return found


def own_resources() -> tuple[int, int]:
    """Count the descriptors and threads of this process."""
    return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))
