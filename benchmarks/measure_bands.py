"""Times chains of layers, layer by layer and in bands of several heights: run with ``--help``.

All sides of a chain give the same bits, which is checked. They are visited in turns, in an order
that is drawn for each round; the median of the CPU time counts, so that neighbours on the same
cores disturb less. Two programs layer by layer show how far apart equal sides are. The file,
``measured/bands/<vendor>-<family>-<model>-<isa>.json``, is begun anew.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from statistics import median

import numpy as np

import pplconv
from benchmarks import machine, options
from benchmarks.chains import CHAINS, INPUT, model_of
from benchmarks.corpus import Recording, rounded
from benchmarks.forced_bands import forced, layer_by_layer
from benchmarks.recorded_bands import MEASURED_BANDS, Chain, Chains, Height, save
from benchmarks.timing import no_garbage_collection
from benchmarks.tool import INTERRUPTED, Run, command, new_parser
from pplconv.machine import current as current_machine
from pplconv.network.report import NetworkPlan
from pplconv.planner import Request, default_tolerance
from pplconv.problem import ConvProblem

ROUNDS, VISIT_SECONDS = 11, 0.01
LEAST_RUNS = 2
# Heights of bands, in the fewest whole rows.
UNITS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
_POINTWISE = "mb1ic16ih28oc16oh28kh1"


def measure(name: str, rounds: int, seconds: float, say: Callable[[str], None]) -> Chain:
    """Measure one chain, on one thread."""
    model, x = model_of(name)
    plans: list[NetworkPlan] = []
    calls: list[Callable[[], object]] = []

    def add(around: AbstractContextManager[None]) -> NetworkPlan:
        session = pplconv.InferenceSession(model, threads=1)
        with around:
            plan = session.plan_for({INPUT: x})
        if len(plans) < 2 or plan.groups:
            plans.append(plan)
            calls.append(lambda: session.run(None, {INPUT: x}))
        return plan

    for around in (layer_by_layer(), layer_by_layer(), nullcontext()):
        add(around)
    chosen = len(plans) > 2
    for unit in UNITS:
        say(f"bands of {unit} units")
        add(forced(unit))
    first, *others = (call() for call in calls)
    for other in others:
        np.testing.assert_array_equal(first, other)
    times: list[list[float]] = [[] for _ in calls]
    with no_garbage_collection():
        for turn in range(rounds):
            say(f"round {turn + 1}/{rounds} of {len(calls)} sides")
            for at in random.sample(range(len(calls)), len(calls)):
                times[at].append(_visit(calls[at], seconds))
    middle = [rounded(1e6 * median(own)) for own in times]
    heights = [
        Height(
            [(len(g.shapes), g.bands, g.rows) for g in plan.groups], us,
            rounded(1e6 * sum(g.saved_seconds for g in plan.groups)) if chosen and not at else None,
        )
        for at, (plan, us) in enumerate(zip(plans[2:], middle[2:], strict=True))
    ]  # fmt: skip
    whole = rounded(1e6 * median(times[0] + times[1]))
    return Chain(name, 1, 0, rounds, whole, rounded(abs(middle[0] / middle[1] - 1)), heights)


def _visit(call: Callable[[], object], seconds: float) -> float:
    """CPU time of a call in the middle of others; one that is not timed brings its data."""
    call()
    begin, count = time.thread_time(), 0
    while count < LEAST_RUNS or time.thread_time() - begin < seconds:
        call()
        count += 1
    return (time.thread_time() - begin) / count


def _parser() -> argparse.ArgumentParser:
    parser = new_parser("benchmarks.measure_bands", __doc__)
    parser.add_argument("--chains", metavar="TEXT", default="", help="those whose names have it")
    options.add_timing(parser, ROUNDS, VISIT_SECONDS)
    parser.add_argument("--out", type=Path, metavar="FILE", help="default: named after the machine")
    parser.add_argument("--remark", default="", help="what a reader must know of the machine")
    return parser


@command(_parser)
def main(run: Run) -> int:
    """Measure, and give the exit status."""
    chosen = run.chosen
    request = Request(ConvProblem.parse(_POINTWISE), tolerance=default_tolerance(), threads=1)
    of = Recording(current_machine(), request.context().isa, request.tolerance)
    path = chosen.out or MEASURED_BANDS / f"{of.name}.json"
    method = (
        f"CPU time, the median of {chosen.rounds} visits in a drawn order, each of runs that last "
        f"{1e3 * chosen.min_ms:g} ms together, {LEAST_RUNS} at least, after one that is not timed"
    )  # fmt: skip
    chains = Chains(of, [{
        "date": options.now(), "command": run.command,
        "versions": {"pplconv": pplconv.__version__, "system": machine.describe()["system"]},
        "method": method, "remark": chosen.remark,
    }])  # fmt: skip
    names = [name for name in CHAINS if chosen.chains in name]
    with run.steps(len(names)) as progress:
        for name in names:
            progress.begin(name)
            chains.cases.append(measure(name, chosen.rounds, chosen.min_ms, progress.say))
            save(chains, path)
    print(f"{len(chains.cases)} chains in {path}")
    return INTERRUPTED if run.interrupted else 0


if __name__ == "__main__":
    sys.exit(main())
