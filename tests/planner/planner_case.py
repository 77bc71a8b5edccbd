"""Problems to plan, and measurements whose outcome is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import pplconv
from pplconv.algorithms import Candidate
from pplconv.planner import Request, searching
from pplconv.planner.estimating import Ranked
from pplconv.problem import ConvProblem

# Large enough for a team, with methods of several bits within the default tolerance.
LAYER = ConvProblem.parse("mb1ic32ih20oc32kh3ph1")


def request(threads: int = 1, **changes: Any) -> Request:
    return Request(**{"problem": LAYER, "threads": threads, **changes})


class Fake:
    """A candidate as the race sees one."""

    leaves_zeros_out = False

    def __init__(self, name: str, bits: str = "a", algorithm: str = "direct") -> None:
        self.name, self.bits, self.algorithm = name, bits, algorithm

    def __repr__(self) -> str:
        return self.name


def ranked(name: str, total: float = 1.0, bits: str = "a") -> Ranked:
    return Ranked(total, Fake(name, bits), {})


class Clock:
    """A clock that stands still until something advances `now`."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Bench:
    """Runs whose times are known, instead of convolutions.

    Parameters
    ----------
    seconds : callable
        The time of a run, given a candidate and its team.
    """

    def __init__(self, seconds: Callable[[Candidate, int], float]) -> None:
        self._seconds = seconds
        self.whole = True
        self.prepared: list[tuple[Candidate, int]] = []

    def install(self, monkeypatch: pytest.MonkeyPatch) -> Bench:
        monkeypatch.setattr(searching, "Bench", lambda *_arguments: self)
        return self

    def prepare(self, candidate: Candidate, threads: int) -> Callable[[int], float]:
        self.prepared.append((candidate, threads))
        return lambda count: self._seconds(candidate, threads)


def entries() -> list[dict[str, Any]]:
    """Return the entries of this process's wisdom."""
    found: list[dict[str, Any]] = pplconv.wisdom.export()["entries"]
    return found
