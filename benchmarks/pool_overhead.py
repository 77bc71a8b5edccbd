"""What a request through `pplconv.InstancePool` costs besides its model: one at a time, and many.

``python -m benchmarks.pool_overhead --help``. The models do next to nothing; the time of their own
calls, in this thread, is subtracted. One model returns its input, the other the first numbers of
its input.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

import pplconv
from benchmarks import options
from benchmarks.runner import Progress
from benchmarks.tables import NONE, Table
from benchmarks.timing import Clock, Settings, no_garbage_collection, settle, time_calls
from benchmarks.tool import Run, command, new_parser

MODES = ("thread", "process")
# Fields of a case that are too long to be written down.
_SERIES = ("requests", "streams")
# Requests that wait in the pool's queue while others run.
_STREAM = 32

Array = NDArray[np.float32]


def head(x: Array) -> Array:
    """A model with a small answer, as of a classifier."""
    return x[:4]


def echo(x: Array) -> Array:
    """A model whose answer is as large as its request."""
    return x


def make_head() -> Callable[[Array], Array]:
    """A factory, which worker processes import."""
    return head


def make_echo() -> Callable[[Array], Array]:
    """A factory, which worker processes import."""
    return echo


FACTORIES = {"head": make_head, "echo": make_echo}


@dataclass
class Case:
    """Requests of one size to one pool, and their times.

    Attributes
    ----------
    mode : str
        Of the pool.
    model : str
        A key of `FACTORIES`.
    request, answer : int
        Bytes of the arrays.
    model_seconds : float
        The shortest call of the model itself.
    requests : list of float
        Seconds of each request, the next one submitted when it was answered.
    streams : list of float
        Seconds a request, in each round, while other requests always wait.
    detail : str
        What was wrong with an answer; then nothing is timed.
    """

    mode: str
    model: str
    request: int
    answer: int
    model_seconds: float = 0.0
    requests: list[float] = field(default_factory=list)
    streams: list[float] = field(default_factory=list)
    detail: str = ""

    def over(self) -> dict[str, float]:
        """Seconds that the pool adds to a call: shortest, median and p95 of single requests."""
        ordered = sorted(self.requests)
        found = {
            "best": ordered[0],
            "median": statistics.median(ordered),
            "p95": ordered[-(-95 * len(ordered) // 100) - 1],
            "stream": min(self.streams),
        }
        return {name: seconds - self.model_seconds for name, seconds in found.items()}


def _parser() -> argparse.ArgumentParser:
    parser = new_parser("benchmarks.pool_overhead", __doc__)
    parser.add_argument(
        "--bytes", type=options.integers("bytes, such as 16,65536"), default=[16, 1 << 20],
        help="of a request, such as 16,65536",
    )  # fmt: skip
    parser.add_argument(
        "--modes",
        type=options.some_of(MODES),
        default=list(MODES),
        help=f"some of {','.join(MODES)}",
    )
    options.add_timing(parser, rounds=10)
    options.add_output(parser)
    return parser


def check(pool: pplconv.InstancePool[Any], case: Case, x: Array) -> None:
    """Compare an answer with that of the model itself, and note a difference."""
    expected, got = FACTORIES[case.model]()(x), pool.submit(x).result()
    if type(got) is not np.ndarray or (got.dtype, got.shape) != (expected.dtype, expected.shape):
        case.detail = f"answer is {got!r:.80}"
    elif got.tobytes() != expected.tobytes():
        case.detail = f"{np.count_nonzero(got != expected)} of {got.size} numbers are wrong"


def visit(
    pool: pplconv.InstancePool[Any], case: Case, x: Array, settings: Settings, clock: Clock
) -> None:
    """Add the requests of a round: single ones for `min_seconds`, then a stream as long."""
    model = FACTORIES[case.model]()
    settle(settings, clock)
    for _ in range(20):
        pool.submit(x).result()
    number = 100
    seconds = min(time_calls(lambda: model(x), number, clock) for _ in range(5)) / number
    case.model_seconds = min(case.model_seconds or seconds, seconds)
    begin = clock.now()
    before = begin
    while before - begin < settings.min_seconds:
        pool.submit(x).result()
        now = clock.now()
        case.requests.append(now - before)
        before = now
    count = 0
    begin = clock.now()
    while clock.now() - begin < settings.min_seconds or not count:
        for future in [pool.submit(x) for _ in range(_STREAM)]:
            future.result()
        count += _STREAM
    case.streams.append((clock.now() - begin) / count)


def measure(
    cases: list[Case], modes: Sequence[str], sizes: Sequence[int], settings: Settings,
    progress: Progress,
) -> None:  # fmt: skip
    """Measure pools of one instance of one thread, in turn, round by round, into `cases`."""
    clock = Clock()
    with ExitStack() as stack:
        pools: Mapping[tuple[str, str], pplconv.InstancePool[Any]] = {
            (mode, name): stack.enter_context(
                pplconv.InstancePool(factory, instances=1, threads=1, mode=mode, pin=False)  # type: ignore[arg-type]
            )
            for mode in modes
            for name, factory in FACTORIES.items()
        }
        for mode, name in pools:
            for size in sizes:
                x = _numbers(size)
                case = Case(mode, name, x.nbytes, FACTORIES[name]()(x).nbytes)
                check(pools[mode, name], case, x)
                cases.append(case)
        with no_garbage_collection():
            for turn in range(settings.rounds):
                progress.say(f"round {turn + 1}/{settings.rounds}")
                for case in cases:
                    if not case.detail:
                        pool = pools[case.mode, case.model]
                        visit(pool, case, _numbers(case.request), settings, clock)
        for case in cases:
            if not case.detail:
                check(pools[case.mode, case.model], case, _numbers(case.request))


def _numbers(size: int) -> Array:
    return np.random.default_rng(size).standard_normal(max(1, size // 4)).astype(np.float32)


def table(cases: Sequence[Case]) -> Table:
    """Make the table: µs that the pool adds to a call."""
    columns = ("best", "median", "p95", "stream")
    made = Table(
        "What a request costs besides its model's call, 1 instance of 1 thread: µs",
        ["mode", "request bytes", "answer bytes", "model", *columns],
    )
    for case in cases:
        sizes = [f"{case.request}", f"{case.answer}"]
        if case.detail:
            made.add([case.mode, *sizes, *[NONE] * 5])
            continue
        over = case.over()
        figures = [case.model_seconds, *(over[name] for name in columns)]
        made.add([case.mode, *sizes, *(f"{1e6 * seconds:.1f}" for seconds in figures)])
    return made


@command(_parser)
def main(run: Run) -> int:
    """Measure, and give the exit status."""
    chosen = run.chosen
    settings = options.settings_of(chosen, 1)
    cases: list[Case] = []
    with run.steps(1) as progress:
        progress.begin("requests")
        measure(cases, chosen.modes, chosen.bytes, settings, progress)
    # An interrupt in the first round leaves cases without a figure.
    cases = [case for case in cases if case.detail or case.streams]
    wrong = [case for case in cases if case.detail]
    top = run.head(
        f"pools in turn, {settings.rounds} rounds; a round is single requests for "
        f"{1e3 * settings.min_seconds:g} ms and then, as long, {_STREAM} at once; best, median "
        "and p95 are of all single requests, stream is the best round's time a request; the "
        "shortest call of the model is subtracted",
        notes=[f"{case.mode}, {case.request} bytes: {case.detail}" for case in wrong],
    )
    kept = []
    for case in cases:
        figures = {key: value for key, value in asdict(case).items() if key not in _SERIES}
        kept.append({**figures, "over_seconds": None if case.detail else case.over()})
    status = run.publish(top, [table(cases)], {"cases": kept})
    return status or int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
