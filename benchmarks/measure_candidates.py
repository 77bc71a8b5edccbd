"""Times the candidates for each layer, to judge cost models by: run with ``--help``.

For every layer, layout and team, the candidates with the best estimates of each algorithm are
checked, and then run in turns. The file, ``measured/<vendor>-<family>-<model>-<isa>.json.xz``, is
written whenever a layer is done; Ctrl-C loses no more than the layer at hand, and ``--resume`` goes
on. ``PPLCONV_MAX_ISA`` measures a lower instruction set, in a file of its own.
"""

from __future__ import annotations

import argparse
import math
import platform
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import pplconv
from benchmarks import machine, options
from benchmarks.corpus import (
    MEASURED,
    SUFFIX,
    Case,
    CorpusError,
    Measured,
    Recording,
    load,
    measured,
    rounded,
    save,
)
from benchmarks.peak import Peak
from benchmarks.problems import load_nets, select
from benchmarks.run import open_peaks
from benchmarks.runner import Progress
from benchmarks.timing import no_garbage_collection
from benchmarks.tool import INTERRUPTED, Run, command, new_parser
from pplconv import config
from pplconv._trial import Trial
from pplconv.algorithms import Candidate
from pplconv.machine import current as current_machine
from pplconv.numerics import Numerics
from pplconv.planner import Request, default_tolerance
from pplconv.planner.estimating import Ranked
from pplconv.problem import ConvProblem

LAYOUTS = ("NCHW", "NHWC")
COUNT = 24
# So many of each method are timed, whatever their estimates: the model may misjudge a method.
LEAST_OF_METHOD = 2
ROUNDS = 6
LEAST_ROUNDS = 2
# A candidate this many times slower than the best is not visited again.
FAR = 3.0
VISIT_SECONDS = 0.003
LEAST_RUNS, MOST_RUNS = 2, 2000
# Added to a problem's share of a limited time: its work besides the candidates' runs.
OVERHEAD_FLOPS = 3e7


Array = NDArray[Any]
Runs = Callable[[int], float]


class Wrong(RuntimeError):
    """A candidate gave a wrong result, or did not get its team."""


def method(candidate: Candidate) -> tuple[object, ...]:
    """The group that the model may be wrong about as a whole: algorithm, sums, orientation."""
    return candidate.algorithm, candidate.bits, candidate.blocks.get("orientation")


def worth_timing(ranked: Sequence[Ranked], count: int) -> list[Ranked]:
    """Choose the candidates to time, best estimate first.

    Some of every method; then one of each tile width of a method; then those with the best
    estimates, up to `count`.
    """
    chosen: dict[object, Ranked] = {}
    methods: dict[object, int] = {}
    widths = set()

    def take(one: Ranked) -> None:
        c = one.candidate
        key = (c.algorithm, c.numerics, c.bits, frozenset(c.blocks.items()))
        if key not in chosen:
            chosen[key] = one
            methods[method(c)] = methods.get(method(c), 0) + 1
            widths.add((method(c), c.kernel.nr))

    for one in ranked:
        if methods.get(method(one.candidate), 0) < LEAST_OF_METHOD:
            take(one)
    for one in ranked:
        new = (method(one.candidate), one.candidate.kernel.nr) not in widths
        if new and len(chosen) < count:
            take(one)
    for one in ranked:
        if len(chosen) < count:
            take(one)
    return sorted(chosen.values(), key=lambda one: one.total)


class Bench:
    """Random data of one problem, and candidates made ready to run on it.

    Parameters
    ----------
    problem : ConvProblem
    isas : mapping of Numerics to str
        Instruction set of the kernels, by the types that are computed with.
    """

    def __init__(self, problem: ConvProblem, isas: Mapping[Numerics, str]) -> None:
        rng = np.random.default_rng()
        self.isas = isas
        self.x: Array = pplconv.empty_aligned(problem.input_shape, np.float32)
        self.x[...] = rng.random(problem.input_shape, np.float32) - np.float32(0.5)
        self.weight = rng.random(problem.weight_shape, np.float32) - np.float32(0.5)
        self.y: Array = pplconv.empty_aligned(problem.output_shape, np.float32)
        self._packed: dict[tuple[str, str], Trial] = {}

    def prepare(self, candidate: Candidate, threads: int) -> Runs:
        """Prepare a candidate; the result runs it so many times, and gives the shortest (seconds).

        Raises
        ------
        Wrong
            By the result, if the candidate does not get its team.
        """
        packing = candidate.numerics.weights, candidate.packing
        trial = Trial(
            candidate.fields(threads), self.isas[candidate.numerics], self.weight,
            packed=self._packed.get(packing),
        )  # fmt: skip
        self._packed.setdefault(packing, trial)

        def run(count: int) -> float:
            seconds = trial.seconds(self.x, self.y, count)
            if not trial.whole:
                raise Wrong(f"got no team of {threads}")
            return seconds

        return run

    def result(self, run: Runs) -> Array:
        """Run once, and give a copy of the result."""
        self.y.fill(np.nan)  # an output that is not written shows
        run(1)
        return self.y.copy()


@dataclass
class Shares:
    """Divides a limited time among problems.

    Attributes
    ----------
    seconds : float
        For all problems; infinity if there is no limit.
    flops : float
        Weights of the problems that are still to be measured.
    now : callable
        The time in seconds.
    """

    seconds: float
    flops: float
    now: Callable[[], float] = time.monotonic
    begin: float = field(init=False)

    def __post_init__(self) -> None:
        self.begin = self.now()

    def end_of(self, flops: float) -> float:
        """When the rounds of the next problem should end."""
        now = self.now()
        left = max(self.seconds - (now - self.begin), 0.0)
        share = left * flops / max(self.flops, flops)
        self.flops -= flops
        return now + share


def weight_of(problem: ConvProblem, threads: int) -> float:
    """Weight of a problem when time is divided, in floating-point operations."""
    return problem.flops / threads + OVERHEAD_FLOPS


def reference_of(ranked: Sequence[Ranked]) -> Ranked:
    """The direct sum that the others are compared with: im2col where there is one, else direct."""
    for name in ("im2col", "direct"):
        for one in ranked:
            if one.candidate.algorithm == name:
                return one
    return ranked[0]


def check(result: Array, expected: Array, bound: float) -> None:
    """Refuse to time a wrong result.

    Raises
    ------
    Wrong
        If one is off by more than `bound` of the largest output.
    """
    scale = float(np.abs(expected).max(initial=0.0)) or 1.0
    error = float(np.abs(result - expected).max(initial=0.0)) / scale
    if not error <= bound:
        raise Wrong(f"is off by {error:.1e} of the largest output, {bound:.1e} is allowed")


def time_in_turns(
    runs: Sequence[Runs],
    rounds: int,
    visit_seconds: float,
    on_round: Callable[[int], None],
    late: Callable[[], bool],
) -> tuple[list[float], int]:
    """Visit each candidate once a round.

    Returns
    -------
    seconds : list of float
        The shortest run of each.
    visits : int
        Number of rounds.
    """
    best = []
    for run in runs:
        run(1)
        best.append(run(1))
    counts = [max(LEAST_RUNS, min(MOST_RUNS, int(visit_seconds / max(t, 1e-7)))) for t in best]
    running, turn = list(range(len(runs))), 0
    with no_garbage_collection():
        while turn < rounds and not (turn >= LEAST_ROUNDS and late()):
            turn += 1
            on_round(turn)
            for index in running:
                runs[index](1)  # brings its own data back into the caches
                best[index] = min(best[index], runs[index](counts[index]))
            limit = FAR * min(best)
            running = [index for index in running if best[index] <= limit]
    return best, turn


def measure(
    request: Request,
    chosen: argparse.Namespace,
    peak: Peak | None,
    progress: Progress,
    end: float,
    now: Callable[[], float] = time.monotonic,
) -> tuple[Case | None, list[str]]:
    """Measure one problem.

    Returns
    -------
    case : Case or None
        None if a team of this size does not pay: one thread has its own case.
    remarks : list of str
        What was left out, and why.
    """
    problem, asked = request.problem, request.threads or 1
    assert isinstance(problem, ConvProblem)
    contexts = request.contexts()
    if contexts[0].threads < asked:
        return None, []
    ranked = request.ranked(asked, slack=math.inf)
    bench = Bench(problem, {around.numerics: around.isa for around in contexts})
    base = reference_of(ranked)
    progress.say("reference")
    expected = bench.result(bench.prepare(base.candidate, request.team_for(base.candidate, asked)))
    timed: list[tuple[Ranked, Runs]] = []
    remarks = []
    some = worth_timing(ranked, chosen.count)
    for number, one in enumerate(some, start=1):
        progress.say(f"checking {number}/{len(some)}")
        candidate = one.candidate
        run = bench.prepare(candidate, request.team_for(candidate, asked))
        try:
            bound = candidate.error_bound + base.candidate.error_bound
            check(bench.result(run), expected, bound)
        except Wrong as reason:
            remarks.append(f"{problem} {problem.layout_text}, {candidate.algorithm} "
                           f"{dict(candidate.blocks)}: {reason}")  # fmt: skip
            continue
        timed.append((one, run))
    if not timed:
        return None, remarks
    readings: list[float] = []

    def on_round(turn: int) -> None:
        progress.say(f"round {turn}/{chosen.rounds} of {len(timed)} candidates")
        if peak is not None:
            readings.append(peak.read())

    seconds, visits = time_in_turns(
        [run for _, run in timed], chosen.rounds, chosen.min_ms, on_round, lambda: now() >= end
    )
    found: list[Measured] = [
        measured(one.candidate, one.cost, taken)
        for (one, _), taken in zip(timed, seconds, strict=True)
    ]
    found.sort(key=lambda one: one.us)
    gflops = rounded(max(readings) / 1e9) if readings else None
    case = Case(str(problem), problem.layout_text, asked, found, visits=visits, peak=gflops)
    return case, remarks


def _parser() -> argparse.ArgumentParser:
    parser = new_parser("benchmarks.measure_candidates", __doc__)
    options.add_selection(parser)
    parser.add_argument(
        "--layouts", type=options.some_of(LAYOUTS), default=list(LAYOUTS), help="default both"
    )
    options.add_threads(parser)
    parser.add_argument(
        "--count", type=options.positive, default=COUNT,
        help=f"candidates of a layer (default {COUNT}), but {LEAST_OF_METHOD} of each method",
    )  # fmt: skip
    options.add_timing(parser, ROUNDS, VISIT_SECONDS)
    parser.add_argument(
        "--minutes", type=float, default=math.inf,
        help=f"spend about so long: rounds beyond {LEAST_ROUNDS} are left out for it",
    )  # fmt: skip
    parser.add_argument("--out", type=Path, metavar="FILE", help="default: named after the machine")
    begin = parser.add_mutually_exclusive_group()
    begin.add_argument("--resume", action="store_true", help="measure what the file lacks")
    begin.add_argument("--replace", action="store_true", help="begin the file anew")
    return parser


@command(_parser)
def main(run: Run) -> int:
    """Measure, and give the exit status."""
    chosen = run.chosen
    if not chosen.minutes > 0:
        run.parser.error("--minutes: expected more than 0")
    with run.refusing():
        nets = select(load_nets(), chosen.nets, chosen.layers)
        sizes = dict.fromkeys(one.sizes for layers in nets.values() for one in layers)
        requests = [
            Request(
                ConvProblem.parse(text, layout=layout), tolerance=default_tolerance(),
                threads=threads,
            )
            for threads in chosen.threads for text in sizes for layout in chosen.layouts
        ]  # fmt: skip
        path, recording = _begin(chosen, requests[0])
    return _measure_all(run, path, recording, requests)


def _begin(chosen: argparse.Namespace, request: Request) -> tuple[Path, Recording]:
    """Open the file that the run goes on with, or begin a new one."""
    fresh = Recording(current_machine(), request.context().isa, request.tolerance)
    path = chosen.out or MEASURED / f"{fresh.name}{SUFFIX}"
    if not path.exists() or chosen.replace:
        return path, fresh
    if not chosen.resume:
        raise CorpusError(f"{path} is there: --resume measures what it lacks, --replace all of it")
    found = load(path)
    if found.whose() != fresh.whose():
        raise CorpusError(f"{path} is of another machine: {found.whose()}, here {fresh.whose()}")
    return path, found


def _measure_all(run: Run, path: Path, recording: Recording, requests: Sequence[Request]) -> int:
    chosen = run.chosen
    there = {case.key for case in recording.cases}
    todo = [one for one in requests if _key(one) not in there]
    peaks, about = open_peaks(chosen.threads)
    run.notes += about
    if max(chosen.threads) > 1 and recording.team_start is None:
        recording.team_start = config.current().team_start_us
    recording.runs.append(_described(run))
    weights = [weight_of(_conv(one), one.threads or 1) for one in todo]
    shares = Shares(60.0 * chosen.minutes, sum(weights))
    added, status = 0, 0
    with run.steps(len(todo), "--resume goes on") as progress:
        for request, weight in zip(todo, weights, strict=True):
            problem, team = _conv(request), request.threads or 1
            progress.begin(f"{problem} {problem.layout_text}, {team} threads")
            case, remarks = measure(request, chosen, peaks.get(team), progress,
                                    shares.end_of(weight))  # fmt: skip
            run.notes += remarks
            status = 1 if remarks else status
            if case is not None:
                recording.cases.append(replace(case, run=len(recording.runs) - 1))
                save(recording, path)
                added += 1
    print(f"{added} cases measured, {len(recording.cases)} in {path}")
    for note in run.notes:
        print(f"note: {note}")
    return INTERRUPTED if run.interrupted else status


def _conv(request: Request) -> ConvProblem:
    assert isinstance(request.problem, ConvProblem)
    return request.problem


def _key(request: Request) -> tuple[str, str, str, int]:
    problem = _conv(request)
    return str(problem), problem.layout_text, problem.dtype, request.threads or 1


def _described(run: Run) -> dict[str, Any]:
    """Describe a run for its recording."""
    rounds, lasting = run.chosen.rounds, 1e3 * run.chosen.min_ms
    return {
        "date": options.now(),
        "command": run.command,
        "versions": {
            "pplconv": pplconv.__version__,
            "NumPy": np.__version__,
            "Python": platform.python_version(),
            "system": machine.describe()["system"],
        },
        "method": f"the shortest run of {rounds} visits in turns, each of runs that last "
        f"{lasting:g} ms together, {LEAST_RUNS} at least, after one that is not timed",
    }


if __name__ == "__main__":
    sys.exit(main())
