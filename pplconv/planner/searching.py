"""Planning by measurement: real candidates on real data, in rounds that take turns.

The estimate prunes and is always among the candidates, and it stays the choice unless another
is clearly faster, so a search never makes a plan worse than the estimate's by more than the
clock can tell. Machines drift: a candidate's time is the best of several rounds, each of which
runs every candidate once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from .._trial import Trial
from ..problem import ConvProblem
from .estimating import Ranked, Request, rank_team

# Estimates are no further off than this, as a factor: what looks slower is not measured.
PRUNE = 1.7
MOST_MEASURED = 24
# Rounds after which slow candidates drop out, and what counts as slow.
CUTS = {1: 1.5, 2: 1.2, 4: 1.06, 8: 1.02}
LEAST_ROUNDS = 3
# What another choice must gain on the estimate's.
CLEARLY = 0.99

Progress = Callable[[float, str], None]


@dataclass(frozen=True)
class Timed:
    """A candidate with the best time of its runs, in seconds."""

    seconds: float
    ranked: Ranked


def pruned(ranked: list[Ranked], effort: str) -> list[Ranked]:
    """Keep what is worth a measurement, best estimate first."""
    if effort == "exhaustive":
        return ranked
    near = [r for r in ranked if r.total <= PRUNE * ranked[0].total][:MOST_MEASURED]
    # One of each method, should the estimate be wrong about a whole method.
    methods = {(r.candidate.algorithm, r.candidate.bits) for r in near}
    for r in ranked:
        method = (r.candidate.algorithm, r.candidate.bits)
        if method not in methods and r.total <= 3.0 * ranked[0].total:
            methods.add(method)
            near.append(r)
    return near


class Bench:
    """Data and trials of one problem.

    Parameters
    ----------
    problem : ConvProblem
        What is computed.
    isa : str
        Instruction set of the kernels.
    """

    def __init__(self, problem: ConvProblem, isa: str) -> None:
        rng = np.random.default_rng(0)
        dtype = np.float32 if problem.dtype == "f32" else np.float64
        self.problem, self.isa = problem, isa
        self.x = rng.standard_normal(problem.input_shape, np.float32).astype(dtype)
        shape = (problem.oc, problem.ic // problem.groups, problem.kh, problem.kw)
        self.weight = rng.standard_normal(shape, np.float32).astype(dtype)
        self.y = np.empty(problem.output_shape, dtype)

    def measure(
        self, ranked: Iterable[Ranked], threads: Callable[[Ranked], int], seconds: float,
        progress: Progress | None = None,
    ) -> list[Timed]:  # fmt: skip
        """Time candidates in turns for `seconds`, and return them fastest first."""
        packed: dict[str, Trial] = {}
        running: list[tuple[Ranked, Trial]] = []
        for r in ranked:
            fields = r.candidate.fields(threads(r))
            shared = packed.get(r.candidate.packing)
            trial = Trial(fields, self.problem.dtype, self.isa, self.weight, shared)
            packed.setdefault(r.candidate.packing, trial)
            running.append((r, trial))
        begin = time.perf_counter()
        best = {id(r): float("inf") for r, _ in running}
        rounds = 0
        first = running[0][0]
        while True:
            for r, trial in running:
                # A short problem runs several times a turn, so that a turn outlasts the clock.
                runs = 1 if rounds == 0 else max(1, min(16, int(2e-4 / max(best[id(r)], 1e-7))))
                best[id(r)] = min(best[id(r)], trial.seconds(self.x, self.y, runs))
            rounds += 1
            fastest = min(best.values())
            if rounds in CUTS:
                # The estimate's own choice stays to be compared with.
                limit = fastest * CUTS[rounds]
                running = [(r, t) for r, t in running if best[id(r)] <= limit or r is first]
            spent = time.perf_counter() - begin
            if progress is not None:
                progress(min(spent / seconds, 1.0), f"{len(running)} candidates")
            if rounds >= LEAST_ROUNDS and (spent >= seconds or len(running) == 1):
                break
        timed = [Timed(best[id(r)], r) for r, _ in running]
        return sorted(timed, key=lambda t: t.seconds)


def choose(timed: list[Timed], estimated: Ranked) -> Timed:
    """Take the fastest, or the estimate's own choice where that is as fast."""
    own = next(t for t in timed if t.ranked is estimated)
    return timed[0] if timed[0].seconds < CLEARLY * own.seconds else own


def search_plan(
    request: Request,
    single: list[Ranked],
    effort: str,
    seconds: float,
    bits: str | None = None,
    progress: Progress | None = None,
) -> tuple[Timed, list[Timed]]:
    """Measure candidates: first what decides the bits, on one thread, then the team's blocks.

    Parameters
    ----------
    request : Request
        What is to be planned.
    single : list of Ranked
        The candidates as one thread's estimate ranks them.
    effort : str
        ``"measure"`` or ``"exhaustive"``.
    seconds : float
        Time to spend on measurements.
    bits : str, optional
        What was chosen before, for another team: only candidates of these bits are measured.
    progress : callable, optional
        Called with the share that is done and a text.

    Returns
    -------
    best : Timed
        The choice.
    timed : list of Timed
        What was measured last, fastest first.
    """
    around = request.surroundings()
    bench = Bench(request.problem, around.isa)
    phases = 1 if around.threads == 1 or bits is not None else 2
    if bits is not None:
        single = [r for r in single if r.candidate.bits == bits]
    if around.threads == 1 or bits is None:
        timed = bench.measure(
            pruned(single, effort), lambda r: 1, seconds / phases,
            progress and _part(progress, 0.0, 1.0 / phases),
        )  # fmt: skip
        best = choose(timed, single[0])
        if around.threads == 1:
            return best, timed
        chosen = best.ranked.candidate
    else:
        chosen = single[0].candidate
    teamed = rank_team(request, chosen, single)
    timed = bench.measure(
        pruned(teamed, effort), lambda r: request.team_for(r.candidate, around.threads),
        seconds / phases, progress and _part(progress, 1.0 - 1.0 / phases, 1.0),
    )  # fmt: skip
    return choose(timed, teamed[0]), timed


def _part(progress: Progress, begin: float, end: float) -> Progress:
    return lambda share, text: progress(begin + share * (end - begin), text)
