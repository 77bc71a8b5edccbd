"""Many convolutions at once, each result compared byte for byte with that of one thread alone.

Not a test module: ``make tsan`` runs it as a script under ThreadSanitizer, and anybody may run it
without. Python threads, the callers, share convolutions, plans, packed weights and the pool of
scratch; most calls lead a team of their own besides. Prints what was tried, in numbers; exits
with 1 if a byte differed.
"""

from __future__ import annotations

import argparse
import ctypes
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

# The helpers beside the tests.
_TESTS = Path(__file__).resolve().parents[1]
sys.path += [str(_TESTS), str(_TESTS / "api")]

import pplconv  # noqa: E402
from blocks import in_blocks  # noqa: E402
from candidates import TINY, conv_problem, every_candidate, surroundings  # noqa: E402
from pplconv import config  # noqa: E402
from pplconv._trial import Trial  # noqa: E402
from pplconv.planner import target  # noqa: E402
from problems import Problem  # noqa: E402

# batch, groups, ic, oc, image, kernel, stride, padding, dilation: between them they are served by
# every algorithm, and TINY caches cut them into many tasks.
SHAPES = {
    "3x3": (2, 1, 21, 35, (13, 11), (3, 3), 1, 1, 1),
    "5x5": (1, 1, 18, 20, (12, 9), (5, 5), 1, (2, 1), 1),
    "1x1": (3, 1, 37, 70, (7, 9), (1, 1), 1, 0, 1),
    "stem": (1, 1, 3, 32, (23, 21), (7, 7), (2, 3), 3, 1),
    "groups of blocks": (1, 2, 64, 32, (9, 8), (3, 3), 1, 1, 1),
    "depthwise": (2, 37, 37, 37, (12, 13), (3, 3), 1, 1, 1),
}
LAYOUTS = {"NCHW": 0, "NHWC": 0, "NCHW16c": 16}
TEAMS = (1, 2, 3)


@dataclass(frozen=True)
class Case:
    """Something to call again and again, and what it must give."""

    kind: str
    algorithm: str
    layout: str
    dtype: str
    team: int
    call: Callable[[], bytes]
    expected: bytes


def numbers(problem: Problem, block: int) -> tuple[np.ndarray, np.ndarray, tuple[int, ...]]:
    """Give input and weight, and the shape of the output."""
    arrays = problem.arrays()
    shape = problem.output_shape
    if block:
        blocks = -(-problem.out_channels // block)
        return in_blocks(arrays["input"], block), arrays["weight"], (
            shape[0], blocks, *shape[2:], block
        )  # fmt: skip
    return arrays["input"], arrays["weight"], shape


def candidate_cases(problem: Problem, layout: str, block: int, isa: str) -> Iterator[Case]:
    """Yield the first and the last candidate of each way to compute it, with teams that differ."""
    described = conv_problem(problem, block)
    x, weight, shape = numbers(problem, block)
    ways: dict[tuple[str, str, str], list[Any]] = {}
    around = surroundings(described.dtype, max(TEAMS), isa, **TINY)
    for candidate in every_candidate(described, around):
        orientation = str(candidate.blocks.get("orientation"))
        ways.setdefault((candidate.algorithm, candidate.bits, orientation), []).append(candidate)

    def runner(trial: Trial) -> Callable[[], bytes]:
        def run() -> bytes:
            y = np.full(shape, np.nan, x.dtype)
            trial.seconds(x, y)
            return y.tobytes()

        return run

    for found in ways.values():
        for candidate, team in zip((found[0], found[-1]), TEAMS[:0:-1], strict=True):
            alone = Trial(candidate.fields(1), described.dtype, around.isa, weight)
            together = Trial(
                candidate.fields(team) | {"threads": team}, described.dtype, around.isa, weight
            )
            yield Case(
                "candidate", candidate.algorithm, layout, problem.dtype, team,
                runner(together), runner(alone)(),
            )  # fmt: skip


def prepared_cases(dtype: str, layout: str, rng: np.random.Generator) -> Iterator[Case]:
    """Yield calls of a few `Conv2d` that all callers share, with several shapes each."""
    weight = rng.standard_normal((32, 24, 3, 3)).astype(dtype)
    bias = rng.standard_normal(32).astype(dtype)
    options: dict[str, Any] = {"padding": 1, "activation": "silu", "layout": layout}
    for team in TEAMS:
        conv = pplconv.Conv2d(weight, bias, threads=team, **options)
        for side in range(6, 42, 3):
            shape = (24, side, side + 1) if layout == "NCHW" else (side, side + 1, 24)
            x = rng.standard_normal((1, *shape)).astype(dtype)
            plan = pplconv.Conv2d(weight, bias, threads=team, **options).plan_for(x.shape)
            expected = pplconv.Conv2d(weight, bias, threads=1, **options)(x).tobytes()
            yield Case(
                "Conv2d", plan.algorithm, layout, dtype, plan.threads,
                lambda conv=conv, x=x: conv(x).tobytes(), expected,
            )  # fmt: skip
            yield Case(
                "conv2d", plan.algorithm, layout, dtype, plan.threads,
                lambda x=x, team=team: pplconv.conv2d(
                    x, weight, bias, threads=team, **options
                ).tobytes(), expected,
            )  # fmt: skip


def relayout_cases(dtype: str, rng: np.random.Generator) -> Iterator[Case]:
    """Yield changes of layout that are large enough for a team."""
    x = rng.standard_normal((1, 72, 96, 96)).astype(dtype)
    blocked = in_blocks(x, 16)
    there = (lambda: pplconv.to_blocked(x, 16).tobytes(), blocked.tobytes())
    back = (lambda: pplconv.from_blocked(blocked, channels=72).tobytes(), x.tobytes())
    for call, expected in (there, back):
        yield Case("relayout", "none", "NCHW16c", dtype, max(TEAMS), call, expected)


def every_case(seed: int, isa: str) -> list[Case]:
    """Make all cases; the numbers in them follow from the seed."""
    rng = np.random.default_rng(seed)
    cases: list[Case] = []
    for dtype in ("float32", "float64"):
        for layout, block in LAYOUTS.items():
            for number, shape in enumerate(SHAPES.values()):
                name = "NCHW" if block else layout
                problem = Problem(dtype, name, *shape, seed=seed + number)
                cases += candidate_cases(problem, layout, block, isa)
            if not block:
                cases += prepared_cases(dtype, layout, rng)
        cases += relayout_cases(dtype, rng)
    return cases


class Callers:
    """Python threads that make calls until there were enough of them."""

    def __init__(self, cases: list[Case], calls: int, count: int, seed: int) -> None:
        self.cases, self.calls, self.count, self.seed = cases, calls, count, seed
        self.tried: Counter[tuple[str, str]] = Counter()
        self.wrong: list[str] = []
        self.most = 0
        self._lock = threading.Lock()
        self._begun = self._running = 0

    def run(self) -> None:
        """Make all calls; what a call raises counts as wrong."""
        threads = [
            threading.Thread(target=self._work, args=(number,)) for number in range(self.count)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _work(self, number: int) -> None:
        order = np.random.default_rng([self.seed, number])
        while True:
            case = self.cases[int(order.integers(len(self.cases)))]
            with self._lock:
                if self._begun == self.calls:
                    return
                self._begun += 1
                self._running += 1
                self.most = max(self.most, self._running)
            try:
                fault = None if case.call() == case.expected else "other bytes"
            except Exception as error:
                fault = repr(error)
            with self._lock:
                self._running -= 1
                for name in ("kind", "algorithm", "layout", "dtype", "team"):
                    self.tried[name, str(getattr(case, name))] += 1
                if fault:
                    self.wrong.append(
                        f"{case.kind} {case.algorithm} {case.layout} {case.dtype} "
                        f"team of {case.team}: {fault}"
                    )


def shim_counts() -> tuple[int, int] | None:
    """Regions and threads that ``openmp_on_pthreads.c`` has counted, if it stands for OpenMP."""
    try:
        ask = ctypes.CDLL(None).openmp_on_pthreads_counts
    except AttributeError:
        return None
    counts = (ctypes.c_int64 * 2)()
    ask(counts)
    return counts[0], counts[1]


def main() -> int:
    """Run and report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--callers", type=int, default=4, help="Python threads (default 4)")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    # What PPLCONV_MAX_ISA allows, as for everybody else.
    asked = config.current().max_isa
    isas = target.here().isas("f32")
    isa = asked if asked in isas else isas[-1]

    begin = time.monotonic()
    cases = every_case(options.seed, isa)
    made = time.monotonic()
    print(f"{len(cases)} cases on {isa}, made in {made - begin:.1f} s", flush=True)
    callers = Callers(cases, options.calls, options.callers, options.seed)
    callers.run()
    print(
        f"{sum(n for (name, _), n in callers.tried.items() if name == 'kind')} calls from "
        f"{options.callers} Python threads, at most {callers.most} at once, in "
        f"{time.monotonic() - made:.1f} s; seed {options.seed}"
    )
    for name in ("kind", "algorithm", "layout", "dtype", "team"):
        parts = [f"{what} {n}" for (of, what), n in sorted(callers.tried.items()) if of == name]
        print(f"  by {name}: {', '.join(parts)}")
    if counts := shim_counts():
        print(f"  OpenMP on pthreads: {counts[0]} regions, {counts[1]} threads started")
    print(f"{len(callers.wrong)} results wrong")
    for line in callers.wrong[:20]:
        print(f"  {line}")
    return 1 if callers.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
