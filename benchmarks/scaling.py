"""How pplconv scales: T threads against one, layer by layer, in turn in one run.

``python -m benchmarks.scaling --help``. A layer's ratio is the median, over the rounds, of the
ratio inside a round, with its quartiles. Where clocks and neighbours drift, the best of many rounds
flatters one thread: it needs one quiet core, and a team needs all cores quiet at the same moment.
The same ratio of the FMA peak stands beside it: the machine's own scaling in those rounds, whatever
the program.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from benchmarks import options
from benchmarks.candidates import OK, make_case, prepare_checked
from benchmarks.engines import ENGINES
from benchmarks.engines.base import Engine
from benchmarks.peak import Peak, PeakUnavailable, open_peak
from benchmarks.problems import Problem, load_nets, select
from benchmarks.runner import Progress, time_checked
from benchmarks.tables import NONE, Table, giga, ratio
from benchmarks.tool import Run, command, new_parser


@dataclass(frozen=True)
class Scaling:
    """One layer with one thread and with several.

    Attributes
    ----------
    one, many : tuple of float
        Time of a call in each round (seconds); empty where the result was wrong.
    peak_ratios : tuple of float
        FMA peak of the team over that of one thread, read at the start of each round.
    detail : str
        Why there is no time.
    """

    net: str
    layer: str
    engine: str
    flops: int
    count: int
    threads: int
    one: tuple[float, ...]
    many: tuple[float, ...]
    peak_ratios: tuple[float, ...]
    detail: str = ""

    @property
    def quartiles(self) -> tuple[float, float, float] | None:
        """How many times as fast the team is: first quartile, median and third of the rounds."""
        ratios = [one / many for one, many in zip(self.one, self.many, strict=False)]
        if not ratios:
            return None
        if len(ratios) == 1:
            return ratios[0], ratios[0], ratios[0]
        first, median, third = statistics.quantiles(ratios, n=4, method="inclusive")
        return first, median, third

    @property
    def seconds(self) -> tuple[float, float] | None:
        """Median time of a call with one thread; that time over the median ratio."""
        if not self.quartiles:
            return None
        one = statistics.median(self.one)
        return one, one / self.quartiles[1]


def _parser() -> argparse.ArgumentParser:
    parser = new_parser("benchmarks.scaling", __doc__)
    options.add_selection(parser)
    options.add_engines(parser, ENGINES, ["pplconv", "pplconv_nhwc"])
    parser.add_argument("--threads", type=options.positive, default=2, help="size of the team")
    parser.add_argument(
        "--over",
        type=float,
        default=50.0,
        metavar="MFLOP",
        help="the summary's worst ratio is over layers above this size",
    )
    options.add_timing(parser)
    options.add_output(parser)
    return parser


def measure(
    problem: Problem,
    engines: Sequence[Engine],
    threads: int,
    chosen: argparse.Namespace,
    peaks: tuple[Peak, Peak] | None,
    progress: Progress,
) -> list[Scaling]:
    """Measure `problem` with one thread and with `threads`, for each engine, in turn."""
    case = make_case(problem)
    teams = (1, threads)
    candidates = {}
    for engine in engines:
        progress.say(f"checking {engine.name}")
        for team in teams:
            candidates[f"{engine.name} {team}"] = prepare_checked(engine, case, team)
    peak_ratios: list[float] = []

    def read() -> None:
        if peaks:
            one, many = (peak.read() for peak in peaks)
            peak_ratios.append(many / one)

    timed = time_checked(candidates, case, options.settings_of(chosen, threads), progress, read)
    found = []
    for engine in engines:
        seconds: list[tuple[float, ...]] = []
        details = []
        for team in teams:
            checked, timing = timed[f"{engine.name} {team}"]
            seconds.append(timing.rounds if checked.status == OK else ())
            if checked.status != OK:
                details.append(f"{team} thread(s): {checked.status}: {checked.detail}")
        found.append(
            Scaling(
                net=problem.net,
                layer=problem.layer or problem.sizes,
                engine=engine.name,
                flops=problem.flops,
                count=problem.count,
                threads=threads,
                one=seconds[0],
                many=seconds[1],
                peak_ratios=tuple(peak_ratios),
                detail="; ".join(details),
            )
        )
    return found


def table(net: str, engine: str, rows: Sequence[Scaling], over: float) -> Table:
    """Make the table of a network: GFLOP/s with one thread and with the team, their ratio."""
    threads = rows[0].threads
    made = Table(
        f"{net}, {engine}: {threads} threads against 1",
        [
            *("layer", "count", "MFLOP", "1 thread", f"{threads} threads"),
            *("ratio", "quartiles", "peak's ratio"),
        ],
    )
    for row in rows:
        rates = [giga(row.flops / time) for time in row.seconds or ()] or [NONE, NONE]
        middle = [f"{value:.2f}" for value in row.quartiles or ()] or [NONE] * 3
        peak = statistics.median(row.peak_ratios) if row.peak_ratios else None
        made.add(
            [
                row.layer,
                str(row.count),
                f"{row.flops / 1e6:.1f}",
                *rates,
                middle[1],
                f"{middle[0]}-{middle[2]}" if row.quartiles else NONE,
                ratio(peak, 1.0),
            ]
        )
    made.rule()
    for label, kept in (
        (f"all above {over:g} MFLOP", [row for row in rows if row.flops > over * 1e6]),
        ("all", list(rows)),
    ):
        made.add(_summary(label, kept))
    return made


def _summary(label: str, rows: Sequence[Scaling]) -> list[str]:
    """Sum up by time; the worst ratio stands in the label."""
    times = [row.seconds for row in rows if row.seconds]
    if not times or len(times) < len(rows):
        return [label, "", "", *[NONE] * 5]
    ratios = [one / many for one, many in times]
    flops = sum(row.flops * row.count for row in rows)
    one, many = (
        sum(time[team] * row.count for time, row in zip(times, rows, strict=True))
        for team in (0, 1)
    )
    rates = [giga(flops / one), giga(flops / many)]
    label = f"{label} (worst {min(ratios):.2f})"
    return [label, "", f"{flops / 1e6:.1f}", *rates, ratio(one, many), "", ""]


@command(_parser)
def main(run: Run) -> int:
    """Measure, and give the exit status."""
    chosen = run.chosen
    if chosen.threads < 2:
        run.parser.error(f"--threads is {chosen.threads}, expected at least 2")
    with run.refusing():
        nets = select(load_nets(), chosen.nets, chosen.layers)
        found = options.find_engines(chosen.engines)
    engines = options.installed(run.parser, found)
    peaks = None
    try:
        peaks = (open_peak(1), open_peak(chosen.threads))
    except PeakUnavailable as reason:
        run.notes.append(f"the FMA peak could not be measured: {reason}")
    problems = [problem for some in nets.values() for problem in some]
    rows: list[Scaling] = []
    with run.steps(len(problems)) as progress:
        for problem in problems:
            progress.begin(problem.name)
            rows += measure(problem, engines, chosen.threads, chosen, peaks, progress)
    settings = options.settings_of(chosen, chosen.threads)
    head = run.head(
        options.method(settings, "the median of the rounds' ratios counts"),
        found,
        [f"{row.engine} on {row.net}:{row.layer}: {row.detail}" for row in rows if row.detail],
    )
    made = []
    for net in nets:
        for engine in engines:
            kept = [row for row in rows if row.net == net and row.engine == engine.name]
            if kept:
                made.append(table(net, engine.name, kept, chosen.over))
    return run.publish(head, made, {"layers": [asdict(row) for row in rows]})


if __name__ == "__main__":
    sys.exit(main())
