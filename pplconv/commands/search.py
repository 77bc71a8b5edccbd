"""``python -m pplconv search``: measure the plans of whole networks, and remember them."""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from .. import planner, wisdom
from ..activations import COST_CLASSES, passes
from ..arguments import checks
from ..drawing.progress_bar import Progress
from ..memory.dtypes import NAMES
from ..problem import LAYOUTS, ConvProblem, Problem
from .ending import complain
from .inputs import add_shapes, random_feed
from .layer_texts import read_layers

_T = TypeVar("_T")

DESCRIPTION = """\
Time ways to compute each layer, and remember the best for every later plan.

A layer is written as oneDNN's benchdnn writes it: mb1ic64ih56oc64oh56kh3ph1, maybe with a name
behind it, n"net:layer". A fully connected layer (Linear) is written m64n512k256: 64 rows of 256
elements, 512 features out. Behind either, sb4sd250 says that weights are sparse: stored in blocks
of 4 output channels, 250 thousandths of them. SHAPES are such layers, or files with one in each
line, blank lines and lines that begin with # left out; or ONNX files: all plans that the network
makes for one run, in its layouts, with its epilogues, and with weights that are in no cache. Sizes
that it leaves open are said with --shape. What was found before is kept unless --again is given, so
a search that was interrupted goes on where it was."""


@dataclass(frozen=True)
class _Job:
    """One search: a layer in one layout for one team."""

    name: str
    problem: Problem
    threads: int
    epilogue: str
    cold: bool
    algorithm: str = "auto"
    tolerance: float | None = None

    def __str__(self) -> str:
        team = "1 thread" if self.threads == 1 else f"{self.threads} threads"
        return f"{self.name}, {self.problem.layout_text}, {team}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command line of the search to `parser`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = DESCRIPTION
    parser.add_argument(
        "shapes", nargs="+", metavar="SHAPES", help="layers, files of layers, or ONNX files"
    )
    add_shapes(parser)
    parser.add_argument(
        "--layout",
        type=_layouts,
        default=["NCHW"],
        metavar="L,..",
        help=f"of {','.join(LAYOUTS)}, NCHWc in blocks of a vector (default NCHW)",
    )
    parser.add_argument("--dtype", choices=tuple(NAMES.values()), default="f32", help="default f32")
    parser.add_argument(
        "--threads",
        type=_teams,
        metavar="N,..",
        help="teams; methods are compared on one thread, which a team only divides "
        "(default: what a call without threads= uses)",
    )
    parser.add_argument(
        "--tolerance",
        type=_checked(checks.check_tolerance),
        metavar="T",
        help="largest error that may be spent on speed, as in Conv2d "
        "(default: what a call without tolerance= may spend)",
    )
    parser.add_argument(
        "--search",
        choices=[name for name in planner.SEARCHES if name != "estimate"],
        default="measure",
        help="time what the estimate thinks near the best (default), or all there is",
    )
    parser.add_argument(
        "--cold",
        action="store_true",
        help="take weights and arrays out of the caches before each run, as in a large network; "
        "what is found is kept apart, and serves calls that find nothing else",
    )
    parser.add_argument(
        "--seconds",
        type=_checked(checks.check_search_seconds),
        default=planner.SEARCH_SECONDS,
        metavar="S",
        help=f"for each search (default {planner.SEARCH_SECONDS})",
    )
    parser.add_argument(
        "--epilogue",
        choices=COST_CLASSES,
        default=COST_CLASSES[0],
        help="what follows the sums: none (also bias, residual, relu, clips; the default), "
        + ", ".join(f"{cost} ({', '.join(names)})" for cost, names in passes().items()),
    )
    parser.add_argument(
        "--again", action="store_true", help="search as if nothing were known of these layers"
    )


def run(options: argparse.Namespace) -> int:
    """Run the searches of the command line.

    Parameters
    ----------
    options : Namespace
        As `add_arguments` describes them.

    Returns
    -------
    int
        Exit status: 0, 2 if something could not be read, searched or remembered, 130 if
        interrupted.
    """
    # A wrong name, line or setting, or a missing extra: the user can correct it.
    try:
        jobs = _jobs(options)
    except (ImportError, OSError, TypeError, ValueError) as error:
        complain("search", error)
        return 2
    progress = Progress(sys.stderr)
    done = failed = 0
    begin = time.monotonic()
    table = _Table(jobs)
    with warnings.catch_warnings():
        warnings.simplefilter("always", wisdom.WisdomWarning)
        warnings.showwarning = lambda message, *_args, **_more: _say(progress, message)
        try:
            for job in jobs:
                try:
                    planned = _search(job, options, done, len(jobs), progress)
                except (MemoryError, ValueError) as error:
                    _say(progress, f"{job}: {str(error) or 'not enough memory'}")
                    failed += 1
                    continue
                done += 1
                progress.clear()
                table.add(job, planned)
        except KeyboardInterrupt:
            _say(progress, f"interrupted: {done} of {len(jobs)} searches are finished and kept")
            return 130
        progress.clear()
        table.end(time.monotonic() - begin)
        kept = wisdom.describe()
    if kept["path"] is None:
        complain("search", "PPLCONV_WISDOM names no file: what was found is forgotten now")
    elif done and not kept["entries"]:
        complain("search", f"what was found could not be written to {kept['path']}")
        failed += 1
    elif done:
        print(f"remembered in {kept['path']}")
    return 2 if failed else 0


def _search(
    job: _Job, options: argparse.Namespace, done: int, total: int, progress: Progress
) -> planner.Planned:
    """Run one search, and show its progress."""
    progress.step(done / total, f"{done + 1}/{total} {job}")
    tolerance = options.tolerance if job.tolerance is None else job.tolerance
    if tolerance is None:
        tolerance = planner.default_tolerance()
    if not isinstance(job.problem, ConvProblem):
        tolerance = 0.0  # as a `Linear` asks
    request = planner.Request(
        job.problem, algorithm=job.algorithm, tolerance=tolerance, threads=job.threads
    )
    return planner.plan_problem(
        request,
        search=options.search,
        search_seconds=options.seconds,
        search_context="cold" if job.cold else "hot",
        epilogue=job.epilogue,
        again=options.again,
        progress=lambda share, text: progress.update(
            (done + share) / total, f"{done + 1}/{total} {job}: {text}"
        ),
    )


class _Table:
    """Table of the results; each line is printed as soon as it is known."""

    def __init__(self, jobs: list[_Job]) -> None:
        self._widths = [
            max(len("layer"), *(len(job.name) for job in jobs)),
            max(len("layout"), *(len(job.problem.layout_text) for job in jobs)),
            len("threads"),
        ]
        self._measured: list[tuple[float, float]] = []
        self._changed = 0
        self._line(
            ("layer", "layout", "threads"), "estimate's choice", "ms", "choice", "ms", "gain"
        )

    def add(self, job: _Job, planned: planner.Planned) -> None:
        """Print the line of one search."""
        plan, own = planned.plan, planned.own
        after = "?" if plan.seconds is None else f"{1e3 * plan.seconds:.4g}"
        job_cells = (job.name, job.problem.layout_text, str(job.threads))
        if own is None or own.seconds is None or plan.seconds is None:
            self._line(job_cells, "", "", f"{_name(plan)} (known)", after, "")
            return
        self._measured.append((own.seconds, plan.seconds))
        self._changed += own != plan
        text = _name(plan)
        if own != plan and text == _name(own):
            other = (f"{k} {v}" for k, v in plan.blocks.items() if own.blocks.get(k) != v)
            text = ", ".join([text, *other])
        gain = f"{own.seconds / plan.seconds:.2f}x"
        self._line(job_cells, _name(own), f"{1e3 * own.seconds:.4g}", text, after, gain)

    def end(self, seconds: float) -> None:
        """Print the summary."""
        if self._measured:
            before, after = (sum(column) for column in zip(*self._measured, strict=True))
            print(
                f"\n{len(self._measured)} searches in {seconds:.1f} s, {self._changed} of them "
                f"with another choice than the estimate's: {1e3 * before:.4g} ms became "
                f"{1e3 * after:.4g} ms"
            )

    def _line(
        self, job: Sequence[str], own: str, before: str, choice: str, after: str, gain: str
    ) -> None:
        name, layout, threads = (f"{c:<{w}}" for c, w in zip(job, self._widths, strict=True))
        line = f"{name}  {layout}  {threads}  {own:<34}  {before:>8}  {choice:<34}  {after:>8}"
        print(f"{line}  {gain}".rstrip(), flush=True)


def _name(plan: planner.Plan) -> str:
    """A plan in a few words."""
    tile = f" {plan.blocks['mr']}x{plan.blocks['nr']}" if "mr" in plan.blocks else ""
    return f"{plan.algorithm}{tile}, {plan.bits}"


def _jobs(options: argparse.Namespace) -> list[_Job]:
    """Everything that is to be searched, in the order of the command line."""
    around = planner.default_context(options.dtype)
    teams = options.threads or [around.threads]
    jobs: list[_Job] = []
    for text in options.shapes:
        if text.lower().endswith(".onnx"):
            jobs += _of_network(text, options, teams)
            continue
        for name, problem in read_layers([text], options.dtype):
            for full in _in_layouts(problem, options.layout, around.lanes):
                jobs += [_Job(name, full, n, options.epilogue, options.cold) for n in teams]
    if not jobs:
        raise ValueError("no layer in any of the files")
    return jobs


def _in_layouts(problem: Problem, layouts: list[str], lanes: int) -> Iterator[Problem]:
    if not isinstance(problem, ConvProblem):
        yield problem
        return
    for layout in layouts:
        full = replace(problem, layout=layout, block=lanes if layout == "NCHWc" else 0)
        checks.check_sizes(full)
        yield full


def _of_network(path: str, options: argparse.Namespace, teams: list[int]) -> list[_Job]:
    """All searches of a network, for each team."""
    from ..network.session import InferenceSession
    from ..network.tuning import searches

    if options.dtype != "f32" or options.layout != ["NCHW"]:
        raise ValueError(f"{path}: types and layouts are the network's own, not options")
    tolerance = {} if options.tolerance is None else {"tolerance": options.tolerance}
    jobs = []
    for threads in teams:
        session = InferenceSession(path, threads=threads, **tolerance)
        inputs = random_feed(session.get_inputs(), dict(options.shape))
        for found in searches(session, inputs):
            jobs.append(_Job(
                str(found.problem), found.problem, found.threads or threads, found.epilogue, True,
                found.algorithm, session._network.settings.tolerance,
            ))  # fmt: skip
    # Small steps may have the same team for every requested size.
    return list(dict.fromkeys(jobs))


def _say(progress: Progress, message: object) -> None:
    progress.clear()
    complain("search", message)


def _layouts(text: str) -> list[str]:
    names = text.split(",")
    if not set(names) <= set(LAYOUTS):
        raise argparse.ArgumentTypeError(f"{text!r}: expected some of {','.join(LAYOUTS)}")
    return list(dict.fromkeys(names))


def _teams(text: str) -> list[int]:
    numbers = [int(word) if word.isascii() and word.isdigit() else 0 for word in text.split(",")]
    if not all(1 <= number <= 65536 for number in numbers):
        raise argparse.ArgumentTypeError(f"{text!r}: expected numbers of threads, such as 1,2")
    return list(dict.fromkeys(numbers))


def _checked(check: Callable[[Any], _T]) -> Callable[[str], _T]:
    """Turn a check of an argument into a type for argparse."""

    def number(text: str) -> _T:
        try:
            return check(float(text))
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return number
