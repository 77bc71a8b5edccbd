"""Measure pplconv and its peers, layer by layer: ``python -m benchmarks.run --help``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from benchmarks import machine, options
from benchmarks.engines import ENGINES
from benchmarks.engines.base import Availability, Engine
from benchmarks.peak import Peak, PeakUnavailable, open_peak
from benchmarks.problems import Problem, ProblemError, load_nets, select
from benchmarks.report import Head, publish, remarks, tables
from benchmarks.results import LayerResult, to_json
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
    options.add_timing(parser)
    options.add_output(parser)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; give the exit status."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    parser = _parser()
    chosen = parser.parse_args(arguments)
    try:
        nets = select(load_nets(), chosen.nets, chosen.layers)
        found = options.find_engines(chosen.engines)
    except (ProblemError, ValueError) as error:
        parser.error(str(error))
    engines = [engine for engine, availability in found if availability.ok]
    if not engines:
        parser.error("none of the engines is installed")
    peaks, notes = _peaks(chosen.threads)
    steps = [
        (threads, net, problem)
        for threads in chosen.threads
        for net, problems in nets.items()
        for problem in problems
    ]
    results: dict[tuple[str, int], list[LayerResult]] = {}
    progress = Progress(len(steps))
    interrupted = False
    try:
        for threads, net, problem in steps:
            result = _step(problem, engines, threads, chosen, peaks, progress)
            results.setdefault((net, threads), []).append(result)
    except KeyboardInterrupt:
        interrupted = True
        notes.append(f"interrupted in step {progress.step} of {len(steps)}: figures are partial")
    finally:
        progress.end()
    every = [layer for layers in results.values() for layer in layers]
    head = Head(
        date=options.now(),
        command=options.command_line("benchmarks.run", arguments),
        machine=machine.describe(),
        engines=found,
        method=options.method(options.settings_of(chosen, 1)),
        notes=notes + remarks(every),
    )
    made = [table for (net, _), layers in results.items() for table in tables(net, layers, engines)]
    publish(head, made, _plain(head, results), chosen.markdown, chosen.json)
    return _INTERRUPTED if interrupted else 0


def _peaks(team_sizes: Sequence[int]) -> tuple[dict[int, Peak], list[str]]:
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
) -> LayerResult:
    team = f"{threads} thread" + ("s" if threads > 1 else "")
    progress.begin(f"{problem.name}, {problem.flops / 1e6:.1f} MFLOP, {team}")
    settings = options.settings_of(chosen, threads)
    return run_layer(problem, engines, threads, settings, peaks.get(threads), progress)


def _plain(head: Head, results: dict[tuple[str, int], list[LayerResult]]) -> dict[str, object]:
    return {
        "date": head.date,
        "command": head.command,
        "machine": dict(head.machine),
        "engines": {engine.name: _availability(found) for engine, found in head.engines},
        "notes": list(head.notes),
        "layers": [to_json(layer) for layers in results.values() for layer in layers],
    }


def _availability(found: Availability) -> dict[str, object]:
    return {"installed": found.ok, "version": found.version, "reason": found.reason}


if __name__ == "__main__":
    sys.exit(main())
