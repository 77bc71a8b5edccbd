"""Loops at powers of two: each at n - 8, n and n + 8, and those that dip at n.

Rows that lie a power of two apart share few sets of a cache. A loop that reads or writes many such
rows at once is slower there than with rows that are a little shorter or longer; its figure is the
rate at n as a part of the lower one of its neighbours.

``python -m benchmarks.strides --help``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import pplconv
from benchmarks import options
from benchmarks.report import conditions
from benchmarks.runner import Progress
from benchmarks.tables import NONE, Table
from benchmarks.timing import interleave
from benchmarks.tool import Run, command, new_parser

Call = Callable[[], Any]
Make = Callable[[int, int], Call]

SIZES = tuple(1 << power for power in range(5, 13))
BESIDE = 8
DIP = 0.9  # of the slower neighbour: below, a loop is named


def _random(*shape: int) -> NDArray[np.float32]:
    return np.random.default_rng(sum(shape)).standard_normal(shape, np.float32)


def _bytes(*shape: int) -> NDArray[np.uint8]:
    return np.random.default_rng(sum(shape)).integers(0, 256, shape, np.uint8)


def _product(a: NDArray[np.float32], b: NDArray[np.float32], threads: int) -> Call:
    out = np.empty((a.shape[0], b.shape[1]), np.float32)
    return lambda: pplconv.matmul(a, b, out=out, threads=threads)


def _linear(n: int, threads: int) -> Call:
    layer, x = pplconv.Linear(_random(256, n), threads=threads), _random(192, n)
    return lambda: layer(x)


def _layer(channels: int, rows: int, weights: tuple[int, ...], **settings: Any) -> Make:
    def make(n: int, threads: int) -> Call:
        w = _random(*weights)
        if settings.get("sparse"):
            w[np.random.default_rng(1).random(w.shape) < 0.75] = 0
        layer = pplconv.Conv2d(w, threads=threads, **settings)
        x = _random(1, channels, rows, n)
        return lambda: layer(x)

    return make


def _integers(n: int, threads: int) -> Call:
    x, w = _bytes(1, 32, 16, n), _bytes(32, 32, 3, 3).view(np.int8)
    return lambda: pplconv.conv2d_integer(x, w, padding=1, threads=threads)


def _turned(n: int, threads: int) -> Call:
    x, w = _random(1, 32, 16, n), _random(32, 32, 2, 2)
    layer = pplconv.ConvTranspose2d(w, stride=2, threads=threads)
    return lambda: layer(x)


def _blocked(n: int, threads: int) -> Call:
    x = _random(1, 64, 16, n)
    return lambda: pplconv.to_blocked(x)


def _planes(n: int, threads: int) -> Call:
    x = pplconv.to_blocked(_random(1, 64, 16, n))
    return lambda: pplconv.from_blocked(x)


# Each works on rows of n elements, in a time that is nearly proportional to n.
LOOPS: Mapping[str, Make] = {
    "matmul, b (k, n)": lambda n, team: _product(_random(192, 512), _random(512, n), team),
    "matmul, b (n, k).T": lambda n, team: _product(_random(192, n), _random(256, n).T, team),
    "matmul, a (k, n).T": lambda n, team: _product(_random(512, n).T, _random(512, 192), team),
    "Linear, rows of n": _linear,
    "1x1": _layer(64, 16, (64, 64, 1, 1)),
    "3x3, 16 channels": _layer(16, 32, (16, 16, 3, 3), padding=1),
    "3x3, 64 channels": _layer(64, 16, (64, 64, 3, 3), padding=1),
    "3x3 by Winograd": _layer(64, 16, (64, 64, 3, 3), padding=1, algorithm="winograd"),
    "3x3 by im2col": _layer(32, 16, (32, 32, 3, 3), padding=1, algorithm="im2col"),
    "depthwise 3x3": _layer(32, 16, (32, 1, 3, 3), padding=1, groups=32),
    "sparse 1x1": _layer(64, 16, (64, 64, 1, 1), sparse=True),
    "3x3 of bytes": _integers,
    "transposed 2x2": _turned,
    "to_blocked": _blocked,
    "from_blocked": _planes,
}


def figures(rates: Sequence[float]) -> tuple[float, bool]:
    """The rate at n as a part of the slower neighbour's, and whether that is a dip.

    Parameters
    ----------
    rates : sequence of float
        At n - 8, n and n + 8.
    """
    before, at, after = rates
    part = at / min(before, after)
    return part, part < DIP


def measure(
    names: Sequence[str], sizes: Sequence[int], threads: int, chosen: argparse.Namespace,
    progress: Progress,
) -> Iterator[tuple[str, int, list[float]]]:  # fmt: skip
    """Time each loop around each size in one interleaved run: elements of a row a second."""
    for name in names:
        for n in sizes:
            progress.begin(f"{name}, {n}, {threads} threads")
            around = (n - BESIDE, n, n + BESIDE)
            calls = {str(size): LOOPS[name](size, threads) for size in around}
            timings = interleave(calls, options.settings_of(chosen, threads))
            yield name, n, [size / timings[str(size)].best for size in around]


def _parser() -> argparse.ArgumentParser:
    parser = new_parser("benchmarks.strides", __doc__)
    parser.add_argument(
        "--loops", type=options.words, default=[], metavar="WORDS",
        help="those whose names have one of these in them; default all",
    )  # fmt: skip
    parser.add_argument("--sizes", type=options.counts, default=list(SIZES), help="n, above 8")
    options.add_threads(parser)
    options.add_timing(parser, rounds=5, min_seconds=0.01)
    options.add_output(parser)
    return parser


@command(_parser)
def main(run: Run) -> int:
    """Measure, and give the exit status."""
    chosen = run.chosen
    names = [
        name for name in LOOPS if not chosen.loops or any(word in name for word in chosen.loops)
    ]
    if not names:
        run.parser.error(f"--loops: expected words of {'; '.join(LOOPS)}")
    if min(chosen.sizes) <= BESIDE:
        run.parser.error(f"--sizes: expected numbers above {BESIDE}")
    found: dict[tuple[int, str, int], list[float]] = {}
    with run.steps(len(names) * len(chosen.sizes) * len(chosen.threads)) as progress:
        for threads in chosen.threads:
            for name, n, rates in measure(names, chosen.sizes, threads, chosen, progress):
                found[threads, name, n] = rates
    made: list[Table] = []
    dips: list[str] = []
    for threads in dict.fromkeys(threads for threads, _, _ in found):
        workers = conditions(1, threads)
        table = Table(
            f"{workers}: rate at n, as a part of the slower of n - {BESIDE} and n + {BESIDE}",
            ["loop", *map(str, chosen.sizes)],
        )
        for name in names:
            cells = []
            for n in chosen.sizes:
                if (threads, name, n) not in found:
                    cells.append(NONE)
                    continue
                part, dips_here = figures(found[threads, name, n])
                cells.append(f"{part:.2f}" + " dips" * dips_here)
                if dips_here:
                    dips.append(f"{name} at {n}, {workers}: {part:.2f}")
            table.add([name, *cells])
        made.append(table)
    plain = [
        {"loop": name, "n": n, "threads": threads, "rates": rates}
        for (threads, name, n), rates in found.items()
    ]
    head = run.head(notes=dips or [f"no loop is below {DIP} of its neighbours"])
    return run.publish(head, made, {"runs": plain})


if __name__ == "__main__":
    sys.exit(main())
