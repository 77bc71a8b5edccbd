"""Timing candidates in turns: which ones, for how long, and which one wins.

It knows nothing of convolutions: the caller hands in the runs and the clock.

Machines drift, so a candidate's time is the best of several rounds, each of which runs every
candidate once. The estimate's own choice is in every round, and it stays the choice unless
another is clearly faster, so a search never makes a plan worse than the estimate's by more than
the clock can tell.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence

from .._records import record
from .estimating import PRUNE_METHODS, Ranked

# Estimates are rarely off by more than this factor; candidates that look slower are not measured.
PRUNE = 1.7
MOST_MEASURED = 24
# Rounds after which slow candidates drop out, and what counts as slow.
CUTS = {1: 1.5, 2: 1.2, 4: 1.06, 8: 1.02}
LEAST_ROUNDS = 3
MOST_ROUNDS = 200  # more teach nothing
# Share of the time for the first round, so that its leaders are timed again.
FIRST_SHARE = 0.6
# A first run this short is repeated at once: it may have paid for cold caches and fresh pages.
SHORT_SECONDS = 5e-3
# A short problem runs several times a turn, so that a turn outlasts the clock.
TURN_SECONDS = 2e-4
MOST_RUNS = 16
# Another choice must take less than this share of the time of the estimate's choice; and less than
# the second share after fewer than `LEAST_ROUNDS` rounds.
CLEARLY = 0.99
CLEARLY_AT_ONCE = 0.95

Progress = Callable[[float, str], None]
# Runs a candidate so many times, and returns the seconds of the shortest run.
Runs = Callable[[int], float]


@record(frozen=True)
class Timed:
    """A candidate with the best time of its runs, in seconds, and the rounds that it was in."""

    seconds: float
    ranked: Ranked
    rounds: int = LEAST_ROUNDS


def pruned(ranked: list[Ranked], effort: str) -> list[Ranked]:
    """Keep the candidates worth a measurement, best estimate first; all of them if exhaustive.

    The best candidate that leaves zeros out and the best one that does not are both kept, so that
    the gain is known.
    """
    if effort == "exhaustive":
        return ranked
    near = [r for r in ranked if r.total <= PRUNE * ranked[0].total][:MOST_MEASURED]
    # Keep one of each method, in case the estimate is wrong about a whole method.
    methods = {(r.candidate.algorithm, r.candidate.bits) for r in near}
    for r in ranked:
        method = (r.candidate.algorithm, r.candidate.bits)
        if method not in methods and r.total <= PRUNE_METHODS * ranked[0].total:
            methods.add(method)
            near.append(r)
    for leaves_out in (False, True):
        kind = [r for r in ranked if r.candidate.leaves_zeros_out is leaves_out]
        if kind and not any(r is kind[0] for r in near):
            near.insert(1, kind[0])
    return near


def choose(timed: Sequence[Timed], estimated: Ranked) -> Timed:
    """Take the fastest, or the estimate's own choice where that is as fast.

    Parameters
    ----------
    timed : sequence of Timed
        Fastest first, `estimated` among them.
    estimated : Ranked
        The estimate's choice.
    """
    own = next(t for t in timed if t.ranked is estimated)
    least = min(own.rounds, timed[0].rounds)
    limit = CLEARLY if least >= LEAST_ROUNDS else CLEARLY_AT_ONCE
    return timed[0] if timed[0].seconds < limit * own.seconds else own


class _Runner:
    """A candidate in the race."""

    def __init__(self, ranked: Ranked, runs: Runs) -> None:
        self.ranked, self.runs = ranked, runs
        self.best = runs(1)
        if self.best < SHORT_SECONDS:
            self.best = min(self.best, runs(1))
        self.rounds = 1

    def turn(self) -> None:
        count = max(1, min(MOST_RUNS, int(TURN_SECONDS / max(self.best, 1e-7))))
        self.best = min(self.best, self.runs(count))
        self.rounds += 1


def race(
    ranked: Sequence[Ranked],
    prepare: Callable[[Ranked], Runs],
    seconds: float,
    *,
    keep: Collection[int] = (0,),
    clock: Callable[[], float] = time.perf_counter,
    progress: Progress | None = None,
) -> list[Timed]:
    """Time candidates in turns.

    It ends when the time is up, or when nothing is left to compare. The candidate in progress may
    exceed the time. So may the candidates of `keep`, at least two: they are timed once, however
    long that takes.

    Parameters
    ----------
    ranked : sequence of Ranked
        The candidates, most promising first.
    prepare : callable
        Prepares a candidate (allocates, packs), and returns its `Runs`.
    seconds : float
        Time for the race, preparation included.
    keep : collection of int
        Indices of candidates that stay in every round.
    clock : callable
        Returns the time in seconds.
    progress : callable, optional
        Called with the share that is done and a text.

    Returns
    -------
    list of Timed
        All that were timed, fastest first.
    """
    begin = clock()
    kept = [ranked[i] for i in sorted(keep)]
    # These come first, so that they are timed even if time is short.
    order = kept + [r for r in ranked if not any(r is k for k in kept)]
    running: list[_Runner] = []
    slow: list[_Runner] = []

    def told(text: str) -> None:
        if progress is not None:
            progress(min((clock() - begin) / seconds, 1.0), text)

    def cut(limit: float) -> None:
        # Slow candidates free their memory at once.
        nonlocal running
        limit *= min(runner.best for runner in running)
        for runner in running:
            if runner.best > limit and not any(runner.ranked is k for k in kept):
                runner.runs = _gone
                slow.append(runner)
        running = [runner for runner in running if runner.runs is not _gone]

    for count, r in enumerate(order):
        if count >= max(2, len(kept)) and clock() - begin >= FIRST_SHARE * seconds:
            break
        running.append(_Runner(r, prepare(r)))
        cut(CUTS[1])
        told(f"{count + 1} of {len(order)} candidates")
    rounds = 1
    while rounds < (LEAST_ROUNDS if len(running) == 1 else MOST_ROUNDS):
        for runner in running:
            if clock() - begin >= seconds:
                break
            runner.turn()
        else:
            rounds += 1
            if rounds in CUTS:
                cut(CUTS[rounds])
            told(f"{len(running)} of {len(order)} candidates left")
            continue
        break
    timed = [Timed(runner.best, runner.ranked, runner.rounds) for runner in running + slow]
    return sorted(timed, key=lambda t: t.seconds)


def _gone(count: int) -> float:
    raise AssertionError(f"asked for {count} runs of a candidate that has dropped out")
