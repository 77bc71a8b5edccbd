"""Measure pplconv and its peers, layer by layer: ``python -m benchmarks.run --help``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from benchmarks import ceilings, options
from benchmarks.cold import Evictor
from benchmarks.engines import ENGINES
from benchmarks.peak import Peak, PeakUnavailable, open_peak
from benchmarks.problems import Problem, batched, load_nets, select
from benchmarks.recorded import record
from benchmarks.report import conditions, group, remarks, standings, tables
from benchmarks.results import LayerResult
from benchmarks.runner import run_layer
from benchmarks.tool import Run, command, new_parser


def _parser() -> argparse.ArgumentParser:
    parser = new_parser("benchmarks.run", __doc__)
    options.add_selection(parser)
    options.add_engines(parser, ENGINES)
    options.add_threads(parser)
    options.add_batch(parser)
    options.add_variants(parser)
    options.add_timing(parser)
    parser.add_argument(
        "--cold",
        action="store_true",
        help="time calls as well that find neither weights nor arrays in the caches",
    )
    parser.add_argument(
        "--figures",
        action="store_true",
        help="add a table of the figures that pplconv is built to reach",
    )
    options.add_output(parser)
    return parser


@command(_parser)
def main(run: Run) -> int:
    """Measure, and give the exit status."""
    chosen, notes = run.chosen, run.notes
    shipped = load_nets()
    with run.refusing():
        nets = select(shipped, chosen.nets, chosen.layers)
        found = options.find_engines(chosen.engines, chosen.search, chosen.tolerance)
    engines = options.installed(run.parser, found)
    peaks, about = open_peaks(chosen.threads)
    notes += about
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
    steps = teams_and_layers(chosen, nets)
    layers: list[LayerResult] = []
    with run.steps(len(steps)) as progress:
        for threads, problem in steps:
            team = conditions(problem.mb, threads)
            progress.begin(f"{problem.name}, {problem.flops / 1e6:.1f} MFLOP, {team}")
            settings, peak = options.settings_of(chosen, threads), peaks.get(threads)
            cold = evictors.get(threads)
            layers.append(run_layer(problem, engines, threads, settings, peak, progress, cold))
    head = run.head(engines=found, notes=remarks(layers))
    made = [
        table for (net, _, _), some in group(layers).items() for table in tables(net, some, engines)
    ]
    identities = [engine.identity for engine in engines]
    made += standings(layers, identities, shipped if chosen.figures else None)
    return run.publish(head, made, record(head, layers, roofs))


def teams_and_layers(
    chosen: argparse.Namespace, nets: dict[str, list[Problem]]
) -> list[tuple[int, Problem]]:
    """List the steps of a run: every layer at every size of batch, by every team."""
    return [
        (threads, problem)
        for threads in chosen.threads
        for batch in chosen.batch
        for problems in batched(nets, batch).values()
        for problem in problems
    ]


def open_peaks(team_sizes: Sequence[int]) -> tuple[dict[int, Peak], list[str]]:
    """Open the FMA peak for each size of team, with a note; none where it cannot be measured."""
    try:
        peaks = {threads: open_peak(threads) for threads in team_sizes}
    except PeakUnavailable as reason:
        return {}, [f"the FMA peak could not be measured: {reason}"]
    isa = next(iter(peaks.values())).isa
    return peaks, [f"pplconv and the FMA peak use {isa}"]


if __name__ == "__main__":
    sys.exit(main())
