"""A process that runs one engine on one network: ``python -m benchmarks.networks.worker``.

It reads a command a line (JSON) from standard input and answers each with a line. Between two
commands it sleeps, so that of many workers only one computes. When standard input ends, so does the
worker.

Nothing but the standard library is imported before the first session is made: the time of that
session includes the engine's imports, and NumPy's.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import resource
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from benchmarks.timing import (
    Clock,
    Settings,
    calls_per_sample,
    no_garbage_collection,
    settle,
    visit,
)

Answer = dict[str, Any]


class Worker:
    """The engine of the process, with its network.

    Parameters
    ----------
    engine : str
        ``module:class`` of a `benchmarks.networks.engines.Engine`.
    """

    def __init__(self, engine: str) -> None:
        self._name = engine
        self._clock = Clock()
        self._number = 0
        self._engine: Any = None
        self._feed: Mapping[str, Any] = {}
        self._session: Mapping[str, Any] = {}

    def _make(self) -> Any:
        module, _, name = self._name.partition(":")
        engine = getattr(importlib.import_module(module), name)()
        engine.load(self._session["path"], self._session["shapes"], self._session["threads"])
        return engine

    def load(self, path: str, shapes: Mapping[str, Any], threads: int, feed: str) -> Answer:
        """Make the first session, and run it once.

        Returns
        -------
        dict
            ``first_seconds``: imports and session; ``answer_seconds``: these and the first run, in
            which some engines do a part of their preparations; ``peak_bytes``: the most memory that
            the process has had until then.
        """
        self._session = {"path": path, "shapes": shapes, "threads": threads}
        begin = time.perf_counter()
        self._engine = self._make()
        first = time.perf_counter() - begin
        import numpy as np

        with np.load(feed) as arrays:
            # By position: the names of inputs may have slashes, which an archive reads as folders.
            self._feed = {name: arrays[f"arr_{i}"] for i, name in enumerate(shapes)}
        begin = time.perf_counter()
        self._engine.run(self._feed)
        answer = first + time.perf_counter() - begin
        return {"first_seconds": first, "answer_seconds": answer, "peak_bytes": peak_bytes()}

    def outputs(self, path: str) -> Answer:
        """Run once more, and write the outputs to a file."""
        import numpy as np

        np.savez(path, *self._engine.run(self._feed))
        return {}

    def visit(self, min_seconds: float, settle_seconds: float) -> Answer:
        """Time one visit: ``seconds`` is the median of its runs."""
        settings = Settings(1, min_seconds, settle_seconds=settle_seconds)

        def call() -> object:
            return self._engine.run(self._feed)

        with no_garbage_collection():
            self._number = self._number or calls_per_sample(call, self._clock)
            seconds = visit(call, self._number, settings, self._clock)
        # The workers of this engine must not spin on when the next one's turn has begun.
        settle(settings, self._clock)
        return {"seconds": seconds}

    def second(self) -> Answer:
        """Make another session beside the first one: ``second_seconds``."""
        begin = time.perf_counter()
        other = self._make()
        seconds = time.perf_counter() - begin
        del other
        return {"second_seconds": seconds}


def peak_bytes(status: Path = Path("/proc/self/status")) -> int:
    """Give the most memory that this program has had.

    On Linux, the figure of ``getrusage`` begins with the memory that the process had before it
    became this program: its parent's.
    """
    try:
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return 1024 * int(line.split()[1])
    except OSError:
        pass
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def serve(worker: Worker, commands: TextIO, answers: TextIO) -> None:
    """Answer commands until there are no more; an error is an answer too."""
    for line in commands:
        command = json.loads(line)
        try:
            answer = getattr(worker, command.pop("do"))(**command)
        # An engine may raise anything.
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; give the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.networks.worker")
    parser.add_argument("engine", help="module:class")
    parser.add_argument("--cpus", default="", help="CPUs that it may run on, such as 0,2")
    chosen = parser.parse_args(arguments)
    if chosen.cpus:
        # Before any library counts the CPUs.
        os.sched_setaffinity(0, {int(cpu) for cpu in chosen.cpus.split(",")})
    # Output of native libraries must not be taken for an answer.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    with answers:
        serve(Worker(chosen.engine), sys.stdin, answers)
    return 0


if __name__ == "__main__":
    sys.exit(main())
