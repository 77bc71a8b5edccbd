"""Runs one layer: data, check, the interleaved rounds with the peak between them, check again."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TextIO

from benchmarks.candidates import (
    Candidate,
    Case,
    check_again,
    make_case,
    prepare_checked,
    prepare_second,
)
from benchmarks.cold import Evictor
from benchmarks.engines.base import Engine
from benchmarks.problems import Problem
from benchmarks.results import Entry, LayerResult
from benchmarks.timing import Call, Settings, Timing, interleave


class Ceiling(Protocol):
    """A rate that is read between the rounds, such as the FMA peak."""

    def read(self) -> float:
        """Measure it once (operations a second)."""


class Progress:
    """One line on a terminal, rewritten; a line a layer elsewhere.

    Parameters
    ----------
    total : int
        Steps in all.
    stream : text stream, optional
        Standard error if not given.
    """

    def __init__(self, total: int, stream: TextIO | None = None) -> None:
        self.total = total
        self.stream = stream if stream is not None else sys.stderr
        self.step = 0
        self.started = time.monotonic()
        self._label = ""
        self._width = 0

    def begin(self, label: str) -> None:
        """Begin the next step."""
        self.step += 1
        self._label = label
        if not self.stream.isatty():
            self.stream.write(f"{self._head()} {label}\n")
            self.stream.flush()

    def say(self, text: str) -> None:
        """Tell what the step does now; only a terminal shows it."""
        if self.stream.isatty():
            line = f"{self._head()} {self._label} · {text}"
            self.stream.write("\r" + line.ljust(self._width))
            self.stream.flush()
            self._width = len(line)

    def end(self) -> None:
        """Clear the line."""
        if self.stream.isatty():
            self.stream.write("\r" + " " * self._width + "\r")
            self.stream.flush()

    def _head(self) -> str:
        elapsed = time.monotonic() - self.started
        left = ""
        if self.step > 1:
            seconds = elapsed / (self.step - 1) * (self.total - self.step + 1)
            left = f", {seconds:.0f} s left"
        return f"[{self.step}/{self.total}{left}]"


def run_layer(
    problem: Problem,
    engines: Sequence[Engine],
    threads: int,
    settings: Settings,
    peak: Ceiling | None,
    progress: Progress,
    evict: Evictor | None = None,
    make: Callable[[Problem], Case] = make_case,
) -> LayerResult:
    """Measure every engine on `problem`; only right results are timed.

    Parameters
    ----------
    problem : Problem
    engines : sequence of Engine
        Installed ones.
    threads : int
    settings : Settings
    peak : Ceiling or None
        Read before each round; None where it cannot be measured.
    progress : Progress
    evict : Evictor, optional
        If given, cold calls are timed as well, in the same rounds.
    make : callable, optional
        Makes the data and the expected result of a problem.

    Returns
    -------
    LayerResult
    """
    progress.say("reference")
    case = make(problem)
    candidates: dict[str, Candidate] = {}
    before: dict[str, Call] = {}
    for engine in engines:
        progress.say(f"checking {engine.name}")
        candidate = prepare_checked(engine, case, threads)
        if evict is not None:
            candidate, second = prepare_second(candidate, case, threads)
            if second is not None:
                before[engine.name] = evict.before(second)
        candidates[engine.name] = candidate
    readings: list[float] = []

    def read() -> None:
        if peak is not None:
            readings.append(peak.read())

    entries = {}
    for name, (checked, timed) in time_checked(
        candidates, case, settings, progress, read, before
    ).items():
        isa = checked.prepared.isa if checked.prepared is not None else ""
        entries[name] = Entry(
            checked.status, checked.detail, checked.error, timed.rounds, timed.cold, isa
        )
    return LayerResult(problem, threads, max(readings, default=None), entries)


def time_checked(
    candidates: Mapping[str, Candidate],
    case: Case,
    settings: Settings,
    progress: Progress,
    read: Callable[[], object] | None = None,
    before: Mapping[str, Call] | None = None,
) -> dict[str, tuple[Candidate, Timing]]:
    """Time the candidates that are right, in turn, and check all of them again.

    Parameters
    ----------
    candidates : mapping of str to Candidate
        Checked ones.
    case : Case
    settings : Settings
    progress : Progress
        Told of each round.
    read : callable, optional
        Called before each round, for readings of the peak.
    before : mapping of str to callable, optional
        Called before each cold call: `cold` of `benchmarks.timing.interleave`.

    Returns
    -------
    dict of str to (Candidate, Timing)
        In the order of `candidates`; one that is wrong has no rounds.
    """

    def on_round(turn: int) -> None:
        progress.say(f"round {turn}/{settings.rounds}")
        if read is not None:
            read()

    calls = {
        name: candidate.prepared.call
        for name, candidate in candidates.items()
        if candidate.prepared is not None
    }
    timings = interleave(calls, settings, on_round=on_round, cold=before)
    found = {}
    for name, candidate in candidates.items():
        checked = check_again(candidate, case)
        found[name] = checked, timings[name] if checked.prepared is not None else Timing(())
    return found
