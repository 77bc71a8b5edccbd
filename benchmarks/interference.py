"""What another library's work loses while pplconv computes in the same process.

``python -m benchmarks.interference --help``. A second thread multiplies matrices with NumPy, on one
thread of its BLAS. Any work on as many cores as pplconv uses takes some of the cores' time from it,
and some clock, cache and memory speed besides. So pplconv's calls are compared with those of a loop
that does nothing but multiply-adds in registers, with as many threads and pauses. If the matrices
lose more beside pplconv than beside that loop, the difference is pplconv's doing.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import threadpoolctl

from benchmarks import options
from benchmarks.candidates import OK, Candidate, Case, check_again, make_case, prepare_checked
from benchmarks.engines import ENGINES
from benchmarks.peak import Peak, PeakUnavailable, open_peak
from benchmarks.problems import load_nets, parse
from benchmarks.report import conditions
from benchmarks.runner import Progress
from benchmarks.tables import NONE, Table
from benchmarks.tool import Run, command, new_parser

# A ResNet layer of 231 MFLOP whose arrays lie in L2.
LAYER = 'mb1ic256ih14oc256oh14kh3ph1n"resnet_50:res4a_branch2b*1"'
# Square; a product of some 300 µs, in L2 as well.
SIDE = 256
# A program that convolves now and then: calls for so long, then a pause as long.
BURST_SECONDS = 0.005


class Neighbour:
    """The other library's work: products of matrices, counted, in a thread of its own."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self._a, self._b = rng.standard_normal((2, SIDE, SIDE), dtype=np.float32)
        self._c = np.empty_like(self._a)
        self._count = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)

    def __enter__(self) -> Neighbour:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _work(self) -> None:
        while not self._ended.is_set():
            np.matmul(self._a, self._b, out=self._c)
            self._count += 1

    def rate(self, seconds: float, beside: Callable[[], object] | None) -> float:
        """Products a second while `beside` is called again and again (None: while nothing is)."""
        start, before = time.perf_counter(), self._count
        if beside is None:
            time.sleep(seconds)
        else:
            while time.perf_counter() - start < seconds:
                beside()
        return (self._count - before) / (time.perf_counter() - start)


def in_bursts(call: Callable[[], object], pause: Callable[[float], None] = time.sleep) -> None:
    """Call for some milliseconds, then pause for as long."""
    start = time.perf_counter()
    while (took := time.perf_counter() - start) < BURST_SECONDS:
        call()
    pause(took)


@dataclass(frozen=True)
class Loss:
    """One way of working beside the neighbour.

    Attributes
    ----------
    alone, loop, engine : float
        Products a second with nothing, with the loop and with pplconv beside: the median of all
        rounds.
    beyond : float or None
        Median over the rounds of ``1 - engine / loop``; None if no product ended beside the loop.
    """

    what: str
    alone: float
    loop: float
    engine: float
    beyond: float | None


def measure(
    neighbour: Neighbour,
    call: Callable[[], object],
    peak: Peak,
    what: str,
    chosen: argparse.Namespace,
    progress: Progress,
) -> Loss:
    """Let the neighbour work alone, beside the loop and beside `call`, in turn."""

    def loop() -> None:
        peak.read(bursts=1)

    bursts = what.endswith("bursts")
    ways: list[Callable[[], object] | None] = [None, loop, call]
    if bursts:
        ways = [None, lambda: in_bursts(loop), lambda: in_bursts(call)]
    rates: list[list[float]] = [[], [], []]
    for turn in range(chosen.rounds):
        progress.say(f"round {turn + 1}/{chosen.rounds}")
        # Forwards and backwards, so that drift favours nobody.
        for index in (0, 1, 2) if turn % 2 else (2, 1, 0):
            time.sleep(chosen.window / 10)  # until workers have stopped spinning
            rates[index].append(neighbour.rate(chosen.window, ways[index]))
    alone, beside_loop, beside_engine = (statistics.median(each) for each in rates)
    each_round = [1 - mine / other for other, mine in zip(rates[1], rates[2], strict=True) if other]
    beyond = statistics.median(each_round) if each_round else None
    return Loss(what, alone, beside_loop, beside_engine, beyond)


def table(losses: Sequence[Loss]) -> Table:
    """Make the table: a row for each way."""
    made = Table(
        "NumPy's products a second, on one thread, with something beside",
        ["beside", "nothing", "FMA loop", "pplconv", "lost beyond the loop's part %"],
    )
    for loss in losses:
        rates = [f"{rate:.0f}" for rate in (loss.alone, loss.loop, loss.engine)]
        made.add([loss.what, *rates, NONE if loss.beyond is None else f"{100 * loss.beyond:.1f}"])
    return made


def _parser() -> argparse.ArgumentParser:
    parser = new_parser("benchmarks.interference", __doc__)
    parser.add_argument("--layer", default="", metavar="NET:LAYER", help="default: 3x3 of ResNet")
    parser.add_argument("--engine", default="pplconv", help=f"one of {','.join(ENGINES)}")
    parser.add_argument("--threads", type=options.positive, default=2, help="the larger team")
    parser.add_argument("--rounds", type=options.positive, default=15, help="turns of each")
    parser.add_argument(
        "--window", type=options.milliseconds, default=0.3, metavar="MS", help="of a turn (300)"
    )
    options.add_output(parser)
    return parser


def _case(name: str) -> Case:
    if not name:
        return make_case(parse(LAYER))
    for problems in load_nets().values():
        for problem in problems:
            if f"{problem.net}:{problem.layer}" == name:
                return make_case(problem)
    raise ValueError(f"--layer: there is no {name}")


@command(_parser)
def main(run: Run) -> int:
    """Measure, and give the exit status."""
    chosen = run.chosen
    try:
        case = _case(chosen.layer)
        ((engine, found),) = options.find_engines([chosen.engine])
        peaks = {team: open_peak(team) for team in {1, chosen.threads}}
    except (ValueError, PeakUnavailable) as error:
        run.parser.error(str(error))
    if not found.ok:
        run.parser.error(f"--engine: {chosen.engine} is not installed: {found.reason}")
    run.notes.append(f"pplconv computes {case.problem.sizes}")
    ways = [conditions(1, team) for team in peaks]
    ways.append(f"{ways[-1]}, bursts")
    losses: list[Loss] = []
    # The neighbour's BLAS is limited to one thread; an engine that uses the same BLAS is, too.
    with (
        run.steps(len(ways)) as progress,
        threadpoolctl.threadpool_limits(1, user_api="blas"),
        Neighbour() as neighbour,
    ):
        for what in ways:
            progress.begin(what)
            team = int(what.split()[0])
            candidate: Candidate = prepare_checked(engine, case, team)
            if candidate.prepared is None:
                run.parser.error(f"{chosen.engine}: {candidate.status}: {candidate.detail}")
            call = candidate.prepared.call
            loss = measure(neighbour, call, peaks[team], what, chosen, progress)
            after = check_again(candidate, case)
            if after.status != OK:
                run.notes.append(f"{what}: {after.status}: {after.detail}")
            else:
                losses.append(loss)
    head = run.head(
        f"in turn, {chosen.rounds} rounds of {chosen.window * 1e3:g} ms; medians",
        [(engine, found)],
    )
    status = run.publish(head, [table(losses)], {"losses": [vars(loss) for loss in losses]})
    return status or int(len(losses) != len(ways))


if __name__ == "__main__":
    sys.exit(main())
