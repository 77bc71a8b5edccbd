"""Measure pplconv and its peers, layer by layer: ``python -m benchmarks.run --help``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from benchmarks import ceilings, machine, options, wisdom
from benchmarks.cold import Evictor
from benchmarks.engines import ENGINES
from benchmarks.engines.base import Engine
from benchmarks.peak import Peak, PeakUnavailable, open_peak
from benchmarks.problems import Problem, ProblemError, batched, load_nets, select
from benchmarks.recorded import record
from benchmarks.report import Head, conditions, group, publish, remarks, standings, tables
from benchmarks.results import LayerResult
from benchmarks.runner import Progress, run_layer

# What a shell reports of a command that Ctrl-C ended.
_INTERRUPTED = 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    options.add_selection(parser)
    parser.add_argument(
        "--engines", type=options.words, default=[], help=f"some of {','.join(ENGINES)}"
    )
    parser.add_argument("--threads", type=options.counts, default=[1], help="such as 1,2")
    options.add_batch(parser)
    options.add_variants(parser)
    options.add_timing(parser)
    parser.add_argument(
        "--cold",
        action="store_true",
        help="time calls as well that find neither weights nor arrays in the caches",
    )
    options.add_output(parser)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; give the exit status."""
    parser = _parser()
    chosen = parser.parse_args(arguments)
    with wisdom.private():
        return _run(arguments, parser, chosen)


def _run(
    arguments: Sequence[str] | None, parser: argparse.ArgumentParser, chosen: argparse.Namespace
) -> int:
    shipped = load_nets()
    try:
        nets = select(shipped, chosen.nets, chosen.layers)
        found = options.find_engines(chosen.engines, chosen.search, chosen.tolerance)
    except (ProblemError, ValueError) as error:
        parser.error(str(error))
    engines = options.installed(parser, found)
    peaks, notes = open_peaks(chosen.threads)
    evictors = {threads: Evictor(threads) for threads in chosen.threads if chosen.cold}
    for threads, evict in evictors.items():
        team = "one core reads" if threads == 1 else f"each of {threads} cores reads"
        notes.append(
            f"cold, {conditions(1, threads)}: before each call {team} {evict.size >> 20} MiB, "
            "then a second instance computes once"
        )
    # Only the record has room for them; reading them takes some seconds and a GiB.
    teams = chosen.threads if chosen.json is not None else []
    roofs = {threads: ceilings.measure(threads) for threads in teams}
    steps = [
        (threads, problem)
        for threads in chosen.threads
        for batch in chosen.batch
        for problems in batched(nets, batch).values()
        for problem in problems
    ]
    layers: list[LayerResult] = []
    progress = Progress(len(steps))
    interrupted = False
    try:
        for threads, problem in steps:
            cold = evictors.get(threads)
            layers.append(_step(problem, engines, threads, chosen, peaks, progress, cold))
    except KeyboardInterrupt:
        interrupted = True
        notes.append(f"interrupted in step {progress.step} of {len(steps)}: figures are partial")
    finally:
        progress.end()
    head = Head(
        date=options.now(),
        command=options.command_line("benchmarks.run", arguments),
        machine=machine.describe(),
        engines=found,
        method=options.method(options.settings_of(chosen, 1)),
        notes=notes + remarks(layers),
    )
    made = [
        table for (net, _, _), some in group(layers).items() for table in tables(net, some, engines)
    ]
    made += standings(layers, [engine.identity for engine in engines], shipped)
    publish(head, made, record(head, layers, roofs), chosen.markdown, chosen.json)
    return _INTERRUPTED if interrupted else 0


def open_peaks(team_sizes: Sequence[int]) -> tuple[dict[int, Peak], list[str]]:
    """Open the FMA peak for each size of team, with a note; none where it cannot be measured."""
    try:
        peaks = {threads: open_peak(threads) for threads in team_sizes}
    except PeakUnavailable as reason:
        return {}, [f"the FMA peak could not be measured: {reason}"]
    isa = next(iter(peaks.values())).isa
    return peaks, [f"pplconv and the FMA peak use {isa}"]


def _step(
    problem: Problem,
    engines: Sequence[Engine],
    threads: int,
    chosen: argparse.Namespace,
    peaks: dict[int, Peak],
    progress: Progress,
    evict: Evictor | None,
) -> LayerResult:
    team = conditions(problem.mb, threads)
    progress.begin(f"{problem.name}, {problem.flops / 1e6:.1f} MFLOP, {team}")
    settings = options.settings_of(chosen, threads)
    return run_layer(problem, engines, threads, settings, peaks.get(threads), progress, evict)


if __name__ == "__main__":
    sys.exit(main())
