"""From an engine to something that may be timed: prepared, and shown to be right.

A result is compared with the float64 reference before anything is timed, and once more after it.
An engine that is wrong is reported as wrong and has no time.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.engines.base import Engine, Prepared, Unsupported
from benchmarks.memory import aligned_copy
from benchmarks.problems import Problem
from benchmarks.reference import Array32, Array64, error_of, make_data, reference

OK, WRONG, UNSUPPORTED, FAILED = "ok", "wrong", "unsupported", "failed"


@dataclass(frozen=True)
class Case:
    """A problem with its data and the result expected of it (float64, NCHW)."""

    problem: Problem
    x: Array32
    w: Array32
    expected: Array64

    def prepare(self, engine: Engine, threads: int) -> Prepared:
        """Prepare an engine on the data that it takes."""
        return engine.prepare(self.problem, self.x, self.w, threads)

    def error(self, engine: Engine, result: NDArray[np.generic]) -> float:
        """Error of a result against the result expected of that engine."""
        return error_of(result, self.expected)

    def complaint(self, engine: Engine, error: float) -> str:
        """Say by how much `error` is too large for the engine; empty if it is not."""
        limit = engine.tolerance
        if error <= limit:
            return ""
        return f"error {error:.1e} of the largest output, expected at most {limit:.0e}"


@dataclass(frozen=True)
class Candidate:
    """An engine on one problem.

    Attributes
    ----------
    engine : Engine
    status : str
        ``"ok"``, ``"wrong"``, ``"unsupported"`` (it cannot run such a problem) or ``"failed"``.
    detail : str
        Why, unless it is ok.
    error : float
        Error of its result (see `benchmarks.reference.error_of`); infinity if it has none.
    prepared : Prepared or None
        The call to time; None unless it is ok.
    """

    engine: Engine
    status: str
    detail: str = ""
    error: float = float("inf")
    prepared: Prepared | None = None


def make_case(problem: Problem) -> Case:
    """Draw the data of `problem` and compute the expected result."""
    x, w = make_data(problem)
    return Case(problem, x, w, reference(problem, x, w))


def prepare_checked(engine: Engine, case: Case, threads: int) -> Candidate:
    """Prepare `engine` and check it; every exception but an interrupt becomes a status."""
    try:
        with silenced():
            prepared = case.prepare(engine, threads)
            # Some engines take an input's memory for scratch: a second run shows it.
            prepared.call()
            error = case.error(engine, prepared.result())
    except Unsupported as reason:
        return Candidate(engine, UNSUPPORTED, str(reason))
    except Exception as reason:
        return Candidate(engine, FAILED, f"{type(reason).__name__}: {reason}")
    return _judge(Candidate(engine, OK, error=error, prepared=prepared), case)


def prepare_second(
    candidate: Candidate, case: Case, threads: int
) -> tuple[Candidate, Callable[[], Any] | None]:
    """Prepare the engine of a candidate once more, on other weights and arrays, and check it.

    Returns
    -------
    candidate : Candidate
        Ok only if the second instance is right, too.
    call : callable or None
        A call of the second instance; None unless the candidate is ok.
    """
    if candidate.prepared is None:
        return candidate, None
    engine = candidate.engine
    # The same sums with the other sign.
    x, w = aligned_copy(np.negative(case.x)), aligned_copy(case.w)
    try:
        with silenced():
            prepared = engine.prepare_second(case.problem, x, w, threads)
            prepared.call()
            error = error_of(prepared.result(), -case.expected)
    except Exception as reason:
        detail = f"a second instance: {type(reason).__name__}: {reason}"
        return Candidate(engine, FAILED, detail), None
    worst = max(error, candidate.error)
    judged = _judge(Candidate(engine, OK, error=worst, prepared=candidate.prepared), case)
    return judged, prepared.call if judged.prepared is not None else None


def check_again(candidate: Candidate, case: Case) -> Candidate:
    """Check a timed candidate once more: it stays ok only if its result is still right."""
    if candidate.prepared is None:
        return candidate
    try:
        error = case.error(candidate.engine, candidate.prepared.result())
    except Exception as reason:
        return Candidate(candidate.engine, FAILED, f"{type(reason).__name__}: {reason}")
    worst = max(error, candidate.error)
    return _judge(Candidate(candidate.engine, OK, error=worst, prepared=candidate.prepared), case)


def _judge(candidate: Candidate, case: Case) -> Candidate:
    detail = case.complaint(candidate.engine, candidate.error)
    return Candidate(candidate.engine, WRONG, detail, candidate.error) if detail else candidate


@contextlib.contextmanager
def silenced() -> Iterator[None]:
    """Keep what native libraries print while they load or prepare off both output streams."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [(number, os.dup(number)) for number in (1, 2)]
    sink = os.open(os.devnull, os.O_WRONLY)
    try:
        for number, _ in kept:
            os.dup2(sink, number)
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, copy in kept:
            os.dup2(copy, number)
            os.close(copy)
        os.close(sink)
