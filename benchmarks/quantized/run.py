"""Measure int8 or bfloat16 beside the peers, layer by layer: one run, all engines in turn."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from benchmarks import options
from benchmarks.engines import ENGINES
from benchmarks.engines import bf16 as narrow_bf16
from benchmarks.engines import quantized as narrow_int8
from benchmarks.engines.base import Availability, Engine
from benchmarks.engines.quantized.base import QuantizedEngine
from benchmarks.names import pick
from benchmarks.peak import PeakUnavailable
from benchmarks.problems import Problem, load_nets, select
from benchmarks.quantized import page
from benchmarks.quantized.ceilings import Ceilings
from benchmarks.quantized.layers import make_quantized_case, make_rounded_case
from benchmarks.recorded import record
from benchmarks.report import conditions, group, remarks, tables
from benchmarks.results import LayerResult
from benchmarks.run import teams_and_layers
from benchmarks.runner import run_layer
from benchmarks.tables import Table
from benchmarks.tool import Run, command, new_parser

# A network that nothing was tuned on, beside those of every run.
SHAPES = Path(__file__).resolve().parent / "shapes"
# pplconv in float32, to see the gain of narrow types.
PLAIN = ("pplconv_nhwc",)
_MAKERS = {"int8": make_quantized_case, "bf16": make_rounded_case}
_METHODS = {
    "int8": "inputs uint8 or int8, weights int8 with a scale for each channel, int32 bias, outputs "
    "of the type of the inputs; every result is held against exact sums and one rounding before "
    "and after it is timed: ours must be exact, peers' at most one unit off",
    "bf16": "operands are bfloat16 numbers; results are held against float64 before and after they "
    f"are timed: outputs in bfloat16 within {narrow_bf16.OUTPUT_TOLERANCE:.2g} of the largest one, "
    f"outputs in float32 within {narrow_bf16.SUM_TOLERANCE:g}",
}


def engines_of(precision: str) -> dict[str, Engine]:
    """All engines of a precision, in the order of the tables; float32's own last."""
    own: Sequence[Engine] = narrow_int8.ENGINES if precision == "int8" else narrow_bf16.ENGINES
    return {engine.name: engine for engine in (*own, *(ENGINES[name] for name in PLAIN))}


def nets_of() -> dict[str, list[Problem]]:
    """The shipped networks, and the one that is only here."""
    return load_nets() | load_nets(SHAPES)


def _parser() -> argparse.ArgumentParser:
    parser = new_parser("benchmarks.quantized", __doc__)
    parser.add_argument("--precision", choices=list(_MAKERS), default="int8")
    options.add_selection(parser)
    parser.add_argument(
        "--engines",
        type=options.words,
        default=[],
        help="; ".join(f"{name}: some of {','.join(engines_of(name))}" for name in _MAKERS),
    )
    options.add_threads(parser)
    options.add_search(parser)
    options.add_batch(parser)
    options.add_timing(parser)
    options.add_output(parser)
    return parser


def _find(
    precision: str, names: Sequence[str], searches: Sequence[str]
) -> list[tuple[Engine, Availability]]:
    known = pick("engine", names, engines_of(precision)).values()
    return options.availability(one for engine in known for one in engine.variants(searches, ()))


@command(_parser)
def main(run: Run) -> int:
    """Measure, and give the exit status."""
    chosen = run.chosen
    with run.refusing():
        nets = select(nets_of(), chosen.nets, chosen.layers)
        found = _find(chosen.precision, chosen.engines, chosen.search)
    engines = options.installed(run.parser, found)
    ceilings: dict[int, Ceilings] = {}
    try:
        ceilings = {threads: Ceilings(chosen.precision, threads) for threads in chosen.threads}
    except PeakUnavailable as reason:
        run.notes.append(f"no ceiling was measured: {reason}")
    steps = teams_and_layers(chosen, nets)
    layers: list[LayerResult] = []
    readings: list[dict[str, float]] = []
    make = _MAKERS[chosen.precision]
    with run.steps(len(steps)) as progress:
        for threads, problem in steps:
            team = conditions(problem.mb, threads)
            progress.begin(f"{problem.name}, {problem.flops / 1e6:.1f} Mop, {team}")
            ceiling = ceilings.get(threads)
            settings = options.settings_of(chosen, threads)
            layer = run_layer(problem, engines, threads, settings, ceiling, progress, make=make)
            layers.append(layer)
            readings.append(ceiling.take() if ceiling is not None else {})
    head = run.head(
        f"{options.method(options.settings_of(chosen, 1))}; {_METHODS[chosen.precision]}",
        found,
        remarks(layers, _NAMES, _roles(engines).exact),
    )
    best = {threads: one.best() for threads, one in ceilings.items()}
    made = report(chosen.precision, layers, readings, engines, best)
    plain = record(head, layers, best)
    plain |= {"precision": chosen.precision, "readings": readings}
    return run.publish(head, made, plain)


# Of the fastest loop of each layer, in the notes.
_NAMES = ("ceiling (fastest loop)", "Gop/s")


def _roles(engines: Sequence[Engine]) -> page.Roles:
    kinds = {one.name: one.kind for one in engines if isinstance(one, QuantizedEngine)}
    plain = [one.name for one in engines if one.name.partition("@")[0] in PLAIN]
    return page.Roles.of([one.identity for one in engines], plain, kinds)


def report(
    precision: str,
    layers: Sequence[LayerResult],
    readings: page.Readings,
    engines: Sequence[Engine],
    best: dict[int, dict[str, float]],
) -> list[Table]:
    """Make all tables of a run, in the order of the page."""
    if not layers:
        return []
    roles = _roles(engines)
    made = [page.ceilings_table(best)] if best else []
    made += [page.networks_table(layers, roles)]
    made += [page.figures_table(precision, layers, readings, roles)]
    if roles.exact:
        made.append(page.units_table(layers, roles))
    first = 0
    for (net, batch, threads), some in group(layers).items():
        # Layers of a group are neighbours: the run goes over them in this order.
        title = f"{net}, {conditions(batch, threads)}: best layout, best peer"
        made.append(page.layers_table(title, some, readings[first : first + len(some)], roles))
        made += tables(net, some, engines, "op")
        first += len(some)
    return made
