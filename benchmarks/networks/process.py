"""The workers as the driver sees them, and the CPUs that they run on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from benchmarks.networks.engines import Engine

ROOT = Path(__file__).resolve().parents[2]
_TOPOLOGY = Path("/sys/devices/system/cpu")
# So much of a worker's output is quoted when it ends without an answer.
_TAIL = 300
_PATIENCE_SECONDS = 10.0


class WorkerError(RuntimeError):
    """A worker could not do what it was asked; the text says why."""


def usable_cpus() -> list[int]:
    """List the CPUs that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def choose_cpus(
    threads: int, usable: Sequence[int] | None = None, topology: Path = _TOPOLOGY
) -> list[int]:
    """Choose a CPU for each thread: of cores with two, the second one only if need be.

    Parameters
    ----------
    threads : int
    usable : sequence of int, optional
        Those to choose from; what this process may run on if not given.
    topology : Path

    Raises
    ------
    ValueError
        If there are not so many.
    """
    usable = usable_cpus() if usable is None else usable
    if threads > len(usable):
        raise ValueError(f"{threads} threads on {len(usable)} usable CPUs would share them")
    taken: set[str] = set()
    ranked = []
    for cpu in usable:
        try:
            core = (topology / f"cpu{cpu}/topology/thread_siblings_list").read_text().strip()
        except OSError:
            core = str(cpu)
        ranked.append((core in taken, cpu))
        taken.add(core)
    return sorted(cpu for _, cpu in sorted(ranked)[:threads])


class Client:
    """A worker process, from its start to its end.

    Parameters
    ----------
    engine : type of Engine
    cpus : sequence of int
        Those that it may run on.
    """

    def __init__(self, engine: type[Engine], cpus: Sequence[int]) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        pinned = ["--cpus", ",".join(map(str, cpus))] if hasattr(os, "sched_setaffinity") else []
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.networks.worker", engine.reference(), *pinned],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            encoding="utf-8",
            cwd=ROOT,
            # Ctrl-C is for the driver, which ends its workers itself.
            start_new_session=True,
        )

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            # It may be in the middle of a long run.
            self._process.kill()
        try:
            self._process.communicate(timeout=_PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
        self._errors.close()

    def ask(self, do: str, **command: object) -> dict[str, Any]:
        """Send a command, and give the answer.

        Raises
        ------
        WorkerError
            If it could not be done, or the worker has ended.
        """
        assert self._process.stdin is not None and self._process.stdout is not None
        line = ""
        try:
            self._process.stdin.write(json.dumps({"do": do, **command}) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            pass
        if not line:
            raise WorkerError(self._end())
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise WorkerError(answer["error"])
        return answer

    def _end(self) -> str:
        status = self._process.wait()
        if status < 0:
            how = f"was ended by {signal.Signals(-status).name}"
        else:
            how = f"ended with status {status}"
        self._errors.seek(0)
        said = self._errors.read().decode(errors="replace").strip()[-_TAIL:]
        return f"the process {how}" + (f": {said}" if said else "")
