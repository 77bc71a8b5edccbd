"""Measure sparse weights beside dense ones and the peers: one run, all engines in turn."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks import options
from benchmarks.engines.base import Availability, Engine, Identity
from benchmarks.engines.sparse import ENGINES, LEFT_OUT, SLOW, block_in
from benchmarks.names import pick
from benchmarks.peak import PeakUnavailable, open_peak
from benchmarks.problems import Problem, load_nets, select
from benchmarks.quantized.ceilings import Ceilings
from benchmarks.recorded import record
from benchmarks.report import remarks
from benchmarks.runner import Progress, run_layer
from benchmarks.sparse import plot
from benchmarks.sparse.layers import PrunedCase, make_pruned_case, make_pruned_quantized_case
from benchmarks.sparse.measured import Measured, Roles, as_plain, group
from benchmarks.sparse.report import products_a_cycle, report
from benchmarks.tables import Table
from benchmarks.tool import Run, command, new_parser

# A network that nothing was tuned on, beside those of every run.
SHAPES = Path(__file__).resolve().parent / "shapes"
NETS = ("mobilenet", "resnet_50", "darknet_19")
# One or two layers of each size of image; the regular expression is searched in "net:layer".
LAYERS = (
    "mobilenet:conv(3|6|8|10)$|resnet_50:res(2a_branch2b|3a_branch2b|4a_branch2b|5a_branch2b|"
    "2b_branch2a|3a_branch2c|4b_branch2a|5a_branch2c)$|darknet_19:conv(4|6|9|10)$"
)
DENSITIES = {"fp32": (0.75, 0.5, 0.25, 0.1, 0.05), "int8": (0.5, 0.25, 0.1)}
# At higher densities only pplconv runs: they show where sparse weights begin to be faster.
PEERS_UP_TO = 0.5
_METHOD = (
    "weights pruned by magnitude over each layer, in blocks of 1, 4, 8 and 16 output channels at "
    "one place of the kernel; all engines of a block get the same ones, those without blocks the "
    "ones that were pruned one by one, as dense weights or as rows of a matrix; every result is "
    "held against float64 sums of the pruned weights (int8: exact sums, one rounding) before and "
    "after it is timed; rates of sparse weights count products with weights that are not zero"
)


_parts = options.numbers(
    float, lambda x: 0.0 < x <= 1.0, "parts of the weights that stay, such as 0.5,0.25"
)


def densities(text: str) -> list[float]:
    """Split ``0.5,0.25``; the densest first."""
    return sorted(set(_parts(text)), reverse=True)


def nets_of() -> dict[str, list[Problem]]:
    """The shipped networks, and the one that is only here."""
    return load_nets() | load_nets(SHAPES)


def parser() -> argparse.ArgumentParser:
    """Make the parser of the command."""
    made = new_parser("benchmarks.sparse", __doc__)
    made.add_argument(
        "--precision",
        type=options.some_of(ENGINES),
        default=list(ENGINES),
        help="default: fp32,int8",
    )
    made.add_argument(
        "--densities",
        type=densities,
        default=[],
        help="parts of the weights that stay, default "
        + ", ".join(
            f"{precision}: {','.join(f'{one:g}' for one in numbers)}"
            for precision, numbers in DENSITIES.items()
        )
        + f"; peers run up to {PEERS_UP_TO:g}",
    )
    options.add_selection(made)
    made.add_argument(
        "--all-layers", action="store_true", help="not only some layers of each size of image"
    )
    made.add_argument(
        "--engines",
        type=options.words,
        default=[],
        help="; ".join(
            f"{precision}: some of {','.join(one.name for one in engines)}"
            for precision, engines in ENGINES.items()
        ),
    )
    options.add_threads(made)
    options.add_search(made)
    made.add_argument(
        "--dense-search",
        type=options.searches,
        default=[],
        help="the same of pplconv with dense weights, if it is to be another one",
    )
    options.add_timing(made, rounds=3, min_seconds=0.008)
    options.add_output(made)
    made.add_argument("--plot", type=Path, metavar="FILE", help="draw speed-ups there, as SVG")
    return made


def find(
    precision: str,
    names: Sequence[str],
    searches: Sequence[str],
    dense_searches: Sequence[str] = (),
) -> list[tuple[Engine, Availability]]:
    """Look for the named engines of a precision (none: all but the slow ones)."""
    chosen = []
    for engine in ENGINES[precision]:
        if engine.name in names if names else engine.name not in SLOW:
            mine = searches if block_in(engine.name) else dense_searches or searches
            chosen += engine.variants(mine, ())
    return options.availability(chosen)


@dataclass(frozen=True)
class Step:
    """A step of a run: a layer at one density, of one precision and with one team."""

    precision: str
    threads: int
    problem: Problem
    density: float


def steps_of(chosen: argparse.Namespace, problems: Sequence[Problem]) -> Iterator[Step]:
    """List them: a layer's close in time, and all teams on the same pruned weights in turn."""
    for precision in chosen.precision:
        for problem in problems:
            for density in chosen.densities or DENSITIES[precision]:
                for threads in chosen.threads:
                    yield Step(precision, threads, problem, density)


def select_layers(chosen: argparse.Namespace) -> list[Problem]:
    """Choose the layers: those named, or some of each size; depthwise and stems stay dense.

    Raises
    ------
    ProblemError
        As `benchmarks.problems.select` does.
    """
    pattern = chosen.layers or ("" if chosen.all_layers or chosen.nets else LAYERS)
    nets = select(nets_of(), chosen.nets or NETS, pattern)
    return [
        problem
        for problems in nets.values()
        for problem in problems
        if problem.groups == 1 and problem.kind != "stem"
    ]


def ceilings_of(precision: str, threads: int) -> Ceilings:
    """Find the loops in registers of a precision.

    Raises
    ------
    PeakUnavailable
        If there is none here.
    """
    peaks = [open_peak(threads)] if precision == "fp32" else None
    return Ceilings(precision, threads, peaks)


@lru_cache(maxsize=1)
def case_of(precision: str, problem: Problem, density: float, blocks: frozenset[int]) -> PrunedCase:
    """Make the data of a step, and keep them for the next team."""
    make = make_pruned_case if precision == "fp32" else make_pruned_quantized_case
    return make(problem, density, blocks)


def measure(
    step: Step,
    engines: Sequence[Engine],
    chosen: argparse.Namespace,
    ceiling: Ceilings | None,
    progress: Progress,
) -> Measured:
    """Measure one step; peers run up to a density of `PEERS_UP_TO`."""
    if step.density > PEERS_UP_TO:
        engines = [engine for engine in engines if engine.ours]
    blocks = {block for engine in engines if (block := block_in(engine.name))}
    case = case_of(step.precision, step.problem, step.density, frozenset(blocks))
    settings = options.settings_of(chosen, step.threads)
    layer = run_layer(
        step.problem, engines, step.threads, settings, ceiling, progress, make=lambda _: case
    )
    readings = ceiling.take() if ceiling is not None else {}
    return Measured(step.precision, step.density, layer, case.kept(), readings)


@command(parser)
def main(run: Run) -> int:
    """Measure, and give the exit status."""
    chosen = run.chosen
    every = {one.name: one for precision in chosen.precision for one in ENGINES[precision]}
    with run.refusing():
        problems = select_layers(chosen)
        pick("engine", chosen.engines, every)
    if not problems:
        run.parser.error("only depthwise layers and stems are left, which are not pruned")
    found = {
        one: find(one, chosen.engines, chosen.search, chosen.dense_search)
        for one in chosen.precision
    }
    if chosen.plot is not None and find_spec("matplotlib") is None:
        run.parser.error("--plot draws by matplotlib, which is not installed")
    asked = [one for some in found.values() for one in some]
    options.installed(run.parser, asked)
    present = {
        precision: [engine for engine, availability in engines if availability.ok]
        for precision, engines in found.items()
    }
    ceilings: dict[tuple[str, int], Ceilings] = {}
    for key in ((one, threads) for one in chosen.precision for threads in chosen.threads):
        try:
            ceilings[key] = ceilings_of(*key)
        except PeakUnavailable as reason:
            run.notes.append(f"no ceiling was measured: {reason}")
    steps = [one for one in steps_of(chosen, problems) if present[one.precision]]
    measured: list[Measured] = []
    with run.steps(len(steps)) as progress:
        for step in steps:
            name = f"{step.problem.name} at {step.density:g}, {step.precision}"
            progress.begin(f"{name}, {step.threads} thread(s)")
            ceiling = ceilings.get((step.precision, step.threads))
            measured.append(measure(step, present[step.precision], chosen, ceiling, progress))
    head = run.head(
        f"{options.method(options.settings_of(chosen, 1))}; {_METHOD}",
        asked,
        [*_remarks(measured), *_left_out(found)],
    )
    identities = {
        precision: [engine.identity for engine in engines] for precision, engines in present.items()
    }
    cycles = {precision: products_a_cycle(precision) for precision in chosen.precision}
    made: list[Table] = report(measured, identities, cycles)
    plain: dict[str, Any] = record(head, [], {})
    plain |= {"layers": [as_plain(one) for one in measured], "a_cycle": cycles}
    status = run.publish(head, made, plain)
    if chosen.plot is not None and measured:
        _draw(chosen.plot, measured, identities)
    return status


def _draw(
    path: Path, measured: Sequence[Measured], identities: Mapping[str, Sequence[Identity]]
) -> None:
    """Draw the first precision and team of the run."""
    (precision, threads), some = next(iter(group(measured).items()))
    title = f"Sparse weights against dense ones, {precision}, {threads} thread(s)"
    plot.write(path, title, some, Roles.of(identities[precision]))


def _remarks(measured: Sequence[Measured]) -> list[str]:
    """What a reader must know of wrong or refused engines, by precision and density."""
    found = []
    for precision in dict.fromkeys(one.precision for one in measured):
        apart = [engine.name for engine in ENGINES[precision]] if precision == "int8" else []
        named = [
            replace(one.layer, problem=_at(one)) for one in measured if one.precision == precision
        ]
        names = ("FMA peak", "GFLOP/s") if precision == "fp32" else ("fastest loop", "Gop/s")
        found += [f"{precision}, {text}" for text in remarks(named, names, apart)]
    return found


def _at(one: Measured) -> Problem:
    """The layer, named with its density."""
    return replace(one.problem, layer=f"{one.problem.layer} at {one.density:g}")


def _left_out(found: Mapping[str, Sequence[tuple[Engine, Availability]]]) -> list[str]:
    """Say which engines are in no table, and why."""
    return [
        f"{precision}, left out: {name}: {reason}"
        for precision, engines in found.items()
        for name, reason in LEFT_OUT[precision].items()
        if name not in {engine.name for engine, _ in engines}
    ]
