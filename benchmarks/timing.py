"""The timing core, used by every benchmark here.

Machines are shared and drift, so a figure counts only as a ratio inside one run: the candidates
are visited in turn (A B C, A B C, …), one visit gives the median of enough calls to fill some
milliseconds, and a candidate's figure is its best visit.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

Call = Callable[[], object]

# A clock read costs some 50 ns: in a sample of 50 µs it is a thousandth.
MIN_SAMPLE_SECONDS = 50e-6
MIN_SAMPLES = 3

# A cold call is a sample of its own, and the caches are filled before it for milliseconds.
COLD_SAMPLES = 5
# After `COLD_SAMPLES` calls, a visit of cold calls lasts at most so many times `min_seconds`.
_COLD_SHARE = 5.0

# How quiet is looked for: no more than a fifth of one core over some milliseconds.
_QUIET_STEP_SECONDS = 0.004
_QUIET_SHARE = 0.2


@dataclass(frozen=True)
class Clock:
    """Time as the runner sees it; tests put a fake one in its place."""

    now: Callable[[], float] = time.perf_counter
    sleep: Callable[[float], None] = time.sleep
    cpu: Callable[[], float] = time.process_time


@dataclass(frozen=True)
class Settings:
    """How long and how often to measure.

    Attributes
    ----------
    rounds : int
        Visits of each candidate.
    min_seconds : float
        Least sum of the timed calls of one visit (seconds).
    warm_seconds : float
        Untimed calls before them (seconds); one call at least.
    settle_seconds : float
        Longest wait, before a visit, for this process to fall quiet (seconds); 0 to not wait.
    """

    rounds: int = 5
    min_seconds: float = 0.02
    warm_seconds: float = 0.002
    settle_seconds: float = 0.0


@dataclass(frozen=True)
class Timing:
    """The measured times of one candidate.

    Attributes
    ----------
    rounds : tuple of float
        Median time of a call in each visit (seconds).
    cold : tuple of float
        The same of cold calls; empty where none were asked for.
    """

    rounds: tuple[float, ...]
    cold: tuple[float, ...] = ()

    @property
    def best(self) -> float:
        """Time of a call in the best visit (seconds)."""
        return min(self.rounds)

    @property
    def spread(self) -> float:
        """How much slower the worst visit was than the best one: 0.1 is 10 %."""
        return max(self.rounds) / self.best - 1.0


def settle(settings: Settings, clock: Clock) -> None:
    """Wait until no thread of this process computes any more.

    The workers of most libraries spin for a while after a call, waiting for the next one: some
    milliseconds with OpenMP, 40 with onnxruntime, over 100 with OpenBLAS. Meanwhile they take a
    core away from the next candidate.
    """
    end = clock.now() + settings.settle_seconds
    while clock.now() < end:
        before = clock.cpu()
        clock.sleep(_QUIET_STEP_SECONDS)
        if clock.cpu() - before <= _QUIET_SHARE * _QUIET_STEP_SECONDS:
            return


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Keep the collector out of a measurement; restore its state afterwards."""
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def time_calls(call: Call, number: int, clock: Clock) -> float:
    """Time `number` calls in a row (seconds for all of them)."""
    repeat = range(number)
    start = clock.now()
    for _ in repeat:
        call()
    return clock.now() - start


def warm(call: Call, seconds: float, clock: Clock) -> None:
    """Call, untimed, until `seconds` have passed, and once at least."""
    end = clock.now() + seconds
    call()
    while clock.now() < end:
        call()


def calls_per_sample(call: Call, clock: Clock, sample_seconds: float = MIN_SAMPLE_SECONDS) -> int:
    """Find how many calls in a row last at least `sample_seconds`: 1 for all but tiny calls."""
    number = 1
    while True:
        taken = time_calls(call, number, clock)
        if taken >= sample_seconds:
            return number
        number = max(2 * number, min(10 * number, int(number * sample_seconds / max(taken, 1e-9))))


def visit(call: Call, number: int, settings: Settings, clock: Clock) -> float:
    """Measure one visit: the median time of a call (seconds).

    Parameters
    ----------
    call : callable
        The call to time.
    number : int
        Calls in one sample, from `calls_per_sample`.
    settings : Settings
    clock : Clock
    """
    settle(settings, clock)
    warm(call, settings.warm_seconds, clock)
    samples: list[float] = []
    total = 0.0
    while total < settings.min_seconds or len(samples) < MIN_SAMPLES:
        taken = time_calls(call, number, clock)
        samples.append(taken / number)
        total += taken
    return statistics.median(samples)


def visit_cold(call: Call, before: Call, settings: Settings, clock: Clock) -> float:
    """Measure one visit of cold calls: the median time of a call (seconds).

    Parameters
    ----------
    call : callable
        The call to time, one a sample.
    before : callable
        Called before each of them, untimed; its result is kept while `call` runs.
    settings : Settings
        With several threads the process falls quiet between the two: some libraries start threads
        for each instance, and those of another one would spin on.
    clock : Clock
    """
    samples: list[float] = []
    total = 0.0
    end = clock.now() + _COLD_SHARE * settings.min_seconds
    while len(samples) < COLD_SAMPLES or (total < settings.min_seconds and clock.now() < end):
        kept = before()
        settle(settings, clock)
        taken = time_calls(call, 1, clock)
        del kept
        samples.append(taken)
        total += taken
    return statistics.median(samples)


def interleave(
    calls: Mapping[str, Call],
    settings: Settings,
    clock: Clock | None = None,
    on_round: Callable[[int], None] | None = None,
    cold: Mapping[str, Call] | None = None,
) -> dict[str, Timing]:
    """Measure candidates in turn: A B C, A B C, ….

    Parameters
    ----------
    calls : mapping of str to callable
        The candidates, each already prepared.
    settings : Settings
    clock : Clock, optional
        Where time comes from; the real one if not given.
    on_round : callable, optional
        Called with the number of each round (from 1) before it starts, in a quiet process: for
        progress, and for readings of the peak.
    cold : mapping of str to callable, optional
        Called before each cold call of a candidate (see `visit_cold`). In each round, the cold
        visit of a candidate that is named here follows its other visit.

    Returns
    -------
    dict of str to Timing
        In the order of `calls`.

    Raises
    ------
    ValueError
        If `settings.rounds` is less than 1.
    """
    if settings.rounds < 1:
        raise ValueError(f"rounds is {settings.rounds}, expected at least 1")
    clock = clock or Clock()
    cold = cold or {}
    medians: dict[str, list[float]] = {name: [] for name in calls}
    colds: dict[str, list[float]] = {name: [] for name in calls}
    with no_garbage_collection():
        numbers = {}
        for name, call in calls.items():
            call()
            numbers[name] = calls_per_sample(call, clock)
        for turn in range(1, settings.rounds + 1):
            if on_round is not None:
                settle(settings, clock)
                on_round(turn)
            for name, call in calls.items():
                medians[name].append(visit(call, numbers[name], settings, clock))
                if name in cold:
                    colds[name].append(visit_cold(call, cold[name], settings, clock))
    return {name: Timing(tuple(medians[name]), tuple(colds[name])) for name in calls}
