"""Error against speed, algorithm by algorithm: ``python -m benchmarks.accuracy --help``.

pplconv is forced to each algorithm that it has, with each tolerance, and its result is compared
with a float64 convolution; a tolerance that changes no bit of the result is left out.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from benchmarks import options
from benchmarks.candidates import (
    OK,
    UNSUPPORTED,
    Candidate,
    make_case,
    prepare_checked,
)
from benchmarks.engines import ENGINES
from benchmarks.engines.base import Availability, Engine
from benchmarks.engines.pplconv import Prepacked
from benchmarks.peak import Peak
from benchmarks.problems import Problem, load_nets, select
from benchmarks.recorded import record
from benchmarks.report import conditions, group, remarks
from benchmarks.results import Entry, LayerResult
from benchmarks.run import open_peaks
from benchmarks.runner import Progress, time_checked
from benchmarks.tables import NONE, Table, giga, percent
from benchmarks.timing import Settings
from benchmarks.tool import Run, command, new_parser

TOLERANCES = [1e-6, 1e-5, 1e-4, 1e-3]


def _parser() -> argparse.ArgumentParser:
    parser = new_parser("benchmarks.accuracy", __doc__)
    options.add_selection(parser)
    parser.set_defaults(nets=["resnet_50", "vgg_19"], layers="3x3")
    parser.add_argument(
        "--engines",
        type=options.words,
        default=["pplconv"],
        help=f"some of {','.join(ENGINES)}; a prepared pplconv runs by each algorithm",
    )
    parser.add_argument(
        "--tolerance", type=options.tolerances, default=TOLERANCES, help="1e-5,1e-4"
    )
    parser.add_argument("--threads", type=options.positive, default=1, help="size of the team")
    options.add_timing(parser)
    options.add_output(parser)
    return parser


def algorithms() -> list[str]:
    """List the algorithms that this pplconv has."""
    from pplconv.algorithms import ALGORITHMS

    return list(ALGORITHMS)


def ways(
    found: Sequence[tuple[Engine, Availability]], tolerances: Sequence[float]
) -> list[tuple[Engine, Availability]]:
    """Replace a prepared pplconv by one engine per algorithm and tolerance; keep the others."""
    made: list[tuple[Engine, Availability]] = []
    for engine, availability in found:
        if not isinstance(engine, Prepacked) or not availability.ok:
            made.append((engine, availability))
            continue
        for algorithm in algorithms():
            made += [(engine.forced(algorithm, asked), availability) for asked in tolerances]
    return made


def measure(
    problem: Problem,
    engines: Sequence[Engine],
    threads: int,
    settings: Settings,
    peak: Peak | None,
    progress: Progress,
) -> LayerResult:
    """Time every engine whose result is new; `engines` are sorted by ascending tolerance.

    An engine is left out if an earlier tolerance of its algorithm gave the same bits, or if its
    algorithm has refused the problem before.
    """
    case = make_case(problem)
    candidates: dict[str, Candidate] = {}
    seen: dict[tuple[str, str], list[NDArray[np.generic]]] = {}
    refused: set[tuple[str, str]] = set()
    for engine in engines:
        progress.say(f"checking {engine.name}")
        candidate = prepare_checked(engine, case, threads)
        way = (engine.layout, engine.algorithm)
        if engine.algorithm and candidate.status == UNSUPPORTED:
            # Reported once, for the notes.
            if way in refused:
                continue
            refused.add(way)
        if engine.algorithm and candidate.prepared is not None:
            result = candidate.prepared.result().copy()
            known = seen.setdefault(way, [])
            if any(np.array_equal(result, other) for other in known):
                continue
            known.append(result)
        candidates[engine.name] = candidate
    readings: list[float] = []
    read = None if peak is None else lambda: readings.append(peak.read())
    timed = time_checked(candidates, case, settings, progress, read)
    entries = {
        name: Entry(checked.status, checked.detail, checked.error, timing.rounds)
        for name, (checked, timing) in timed.items()
    }
    return LayerResult(problem, threads, max(readings, default=None), entries)


def table(title: str, layers: Sequence[LayerResult]) -> Table:
    """Make the table of a network: a row a layer and way, with error and speed."""
    made = Table(title, ["layer", "way", "error", "GFLOP/s", "% peak"])
    for layer in layers:
        made.rule()
        for name, entry in layer.entries.items():
            if entry.status == UNSUPPORTED:
                continue
            rate = layer.problem.flops / entry.seconds if entry.seconds else None
            error = f"{entry.error:.1e}" if entry.status == OK else entry.status
            label = layer.problem.layer or layer.problem.sizes
            made.add([label, name, error, giga(rate), percent(rate, layer.peak) if rate else NONE])
    return made


@command(_parser)
def main(run: Run) -> int:
    """Measure, and give the exit status."""
    chosen = run.chosen
    with run.refusing():
        nets = select(load_nets(), chosen.nets, chosen.layers)
        found = options.find_engines(chosen.engines)
    every = ways(found, chosen.tolerance)
    engines = options.installed(run.parser, every)
    peaks, about = open_peaks([chosen.threads])
    run.notes += about
    settings, peak = options.settings_of(chosen, chosen.threads), peaks.get(chosen.threads)
    problems = [problem for some in nets.values() for problem in some]
    layers: list[LayerResult] = []
    with run.steps(len(problems), "some layers are missing") as progress:
        for problem in problems:
            progress.begin(f"{problem.name}, {problem.flops / 1e6:.1f} MFLOP")
            layers.append(measure(problem, engines, chosen.threads, settings, peak, progress))
    head = run.head(engines=found, notes=remarks(layers))
    made = [
        table(f"{net}, {conditions(batch, threads)}: error against speed", some)
        for (net, batch, threads), some in group(layers).items()
    ]
    return run.publish(head, made, record(head, layers, {}, every))


if __name__ == "__main__":
    sys.exit(main())
