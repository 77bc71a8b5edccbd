"""Matrix products: `Linear` and `matmul` against NumPy's BLAS and PyTorch, in one run.

Squares are held against the FMA peak, few rows against the rate at which the weights can merely be
read, random shapes against the better peer. Every result is checked before it is timed.

``python -m benchmarks.matmul --help``.
"""

from __future__ import annotations

import argparse
import math
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

import pplconv
from benchmarks import machine, options
from benchmarks.peak import Peak, open_peak
from benchmarks.report import conditions
from benchmarks.runner import Progress
from benchmarks.tables import Table
from benchmarks.timing import interleave
from benchmarks.tool import Run, command, new_parser

Shape = tuple[int, int, int]
Call = Callable[[], Any]
Array = NDArray[Any]

SQUARES = (64, 96, 128, 256, 384, 512, 768, 1000, 1024, 1536, 2000, 2048)
FEW_ROWS = (1, 2, 4, 8, 16)
WEIGHTS = (512, 1024, 2048, 4096)
RANDOM = 200
# Each size of a random product, drawn evenly in its logarithm.
SMALLEST, LARGEST = 8, 2048

KINDS = ("squares", "few_rows", "random")
LINEAR, MATMUL = "Linear", "matmul"


def shapes_of(kind: str, count: int, seed: int, sizes: Sequence[int] = SQUARES) -> list[Shape]:
    """The (m, n, k) of one kind."""
    if kind == "squares":
        return [(size, size, size) for size in sizes]
    if kind == "few_rows":
        return [(m, n, k) for n in WEIGHTS for k in WEIGHTS for m in FEW_ROWS]
    rng = np.random.default_rng(seed)
    drawn = np.exp2(rng.uniform(math.log2(SMALLEST), math.log2(LARGEST), (count, 3)))
    return [(int(m), int(n), int(k)) for m, n, k in drawn]


@contextmanager
def team(threads: int) -> Iterator[None]:
    """Give NumPy's BLAS and PyTorch, if it is there, as many threads as pplconv."""
    from threadpoolctl import threadpool_limits

    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(threads)
    with threadpool_limits(threads, user_api="blas"):
        yield


def calls_of(shape: Shape, dtype: str, threads: int, search: Any) -> tuple[dict[str, Call], Array]:
    """The calls to time, by engine, and the exact result. Peers get the weights in each order."""
    m, n, k = shape
    rng = np.random.default_rng(m * n + k)
    a = pplconv.empty_aligned((m, k), dtype)
    b = pplconv.empty_aligned((k, n), dtype)
    w = pplconv.empty_aligned((n, k), dtype)
    for array in (a, b):
        array[...] = rng.standard_normal(array.shape)
    w[...] = b.T
    layer = pplconv.Linear(w, threads=threads, search=search, input_shape=(m, k))
    ours, theirs = (pplconv.empty_aligned((m, n), dtype) for _ in range(2))
    calls: dict[str, Call] = {
        LINEAR: lambda: layer(a, out=ours),
        MATMUL: lambda: pplconv.matmul(a, b, out=ours, threads=threads),
        "NumPy, b (k, n)": lambda: np.matmul(a, b, out=theirs),
        "NumPy, b (n, k)": lambda: np.matmul(a, w.T, out=theirs),
    }
    if "torch" in sys.modules:
        torch = sys.modules["torch"]
        ta, tb, tw, ty = (torch.from_numpy(array) for array in (a, b, w, theirs))
        calls["PyTorch, mm"] = lambda: torch.mm(ta, tb, out=ty)
        calls["PyTorch, linear"] = lambda: torch.nn.functional.linear(ta, tw)
    return calls, a.astype(np.float64) @ b.astype(np.float64)


def check(calls: dict[str, Call], exact: Array, dtype: str, k: int) -> None:
    """Refuse to time a wrong result.

    Raises
    ------
    RuntimeError
        If one is wrong.
    """
    allowed = np.finfo(dtype).eps * (8 + k**0.5) * max(float(np.abs(exact).max()), k**0.5)
    for name, call in calls.items():
        error = float(np.abs(np.asarray(call()) - exact).max())
        if not error <= allowed:
            raise RuntimeError(f"{name} is wrong by {error:.3g}, allowed are {allowed:.3g}")


def reader(n: int, k: int, dtype: str, threads: int) -> Call:
    """A call that merely reads weights: the largest of all bytes, each thread its share."""
    memory = np.ones(n * k * np.dtype(dtype).itemsize, np.uint8)
    parts = np.array_split(memory, threads)
    if threads == 1:
        return memory.max
    start, end = threading.Barrier(threads), threading.Barrier(threads)

    def help_reading(part: Array) -> None:
        while True:
            start.wait()
            part.max()
            end.wait()

    for part in parts[1:]:
        threading.Thread(target=help_reading, args=(part,), daemon=True).start()

    def read() -> None:
        start.wait()
        parts[0].max()
        end.wait()

    return read


def time_kind(
    kind: str, dtype: str, threads: int, chosen: argparse.Namespace, peak: Peak, progress: Progress
) -> Iterator[dict[str, Any]]:
    """Time all shapes of one kind for one team."""
    shapes = shapes_of(kind, chosen.count, chosen.seed, chosen.sizes)
    for index, (m, n, k) in enumerate(shapes):
        progress.say(f"{index + 1}/{len(shapes)} m{m}n{n}k{k}")
        with team(threads):
            calls, exact = calls_of((m, n, k), dtype, threads, chosen.search)
            check(calls, exact, dtype, k)
            if kind == "few_rows":
                calls["read"] = reader(n, k, dtype, threads)
            timings = interleave(
                calls,
                options.settings_of(chosen, threads),
                on_round=(lambda turn: _read(peak)) if kind != "random" else None,
            )
        best = {name: timing.best for name, timing in timings.items()}
        peers = {name: t for name, t in best.items() if name not in (LINEAR, MATMUL, "read")}
        yield {
            "m": m, "n": n, "k": k, "seconds": best, "peak": max(peak.readings, default=0.0),
            "weights": n * k * np.dtype(dtype).itemsize,
            "peer": min(peers, key=lambda name: peers[name]),
            "linear": min(peers.values()) / best[LINEAR],
            "matmul": min(
                t for name, t in peers.items() if "(n, k)" not in name and "linear" not in name
            ) / best[MATMUL],
        }  # fmt: skip


def _read(peak: Peak) -> None:
    peak.read()


def _table(kind: str, dtype: str, threads: int, rows: Sequence[dict[str, Any]]) -> Table:
    few = kind == "few_rows"
    unit = "GB/s of weights" if few else "GFLOP/s"
    columns = ["m, n, k", *rows[0]["seconds"]]
    columns += ["% of read" if few else "% of peak"] if kind != "random" else []
    columns += ["Linear / best peer", "matmul / best peer"]
    title = f"{kind.replace('_', ' ')}, {dtype}, {conditions(1, threads)}: {unit}"
    table = Table(title, columns)
    for row in rows:
        amount = row["weights"] if few else 2 * row["m"] * row["n"] * row["k"]
        cells = [f"{row['m']}, {row['n']}, {row['k']}"]
        cells += [f"{amount / seconds / 1e9:.1f}" for seconds in row["seconds"].values()]
        if few:
            cells.append(f"{100 * row['seconds']['read'] / row['seconds'][LINEAR]:.0f}")
        elif kind == "squares":
            cells.append(f"{100 * amount / row['seconds'][LINEAR] / row['peak']:.1f}")
        cells += [f"{row['linear']:.2f}", f"{row['matmul']:.2f}"]
        table.add(cells)
    means = [math.exp(sum(math.log(row[name]) for row in rows) / len(rows))
             for name in ("linear", "matmul")]  # fmt: skip
    blank = len(columns) - 3
    table.add(["geometric mean", *[""] * blank, *(f"{mean:.3f}" for mean in means)])
    return table


def _parser() -> argparse.ArgumentParser:
    parser = new_parser("benchmarks.matmul", __doc__)
    parser.add_argument(
        "--kinds", type=options.some_of(KINDS), default=list(KINDS), help=f"of {','.join(KINDS)}"
    )
    parser.add_argument(
        "--dtypes", type=options.words, default=["float32", "float64"], help="default both"
    )
    options.add_threads(parser, [1, 2])
    parser.add_argument(
        "--sizes", type=options.counts, default=list(SQUARES), help="of the squares, such as 64,96"
    )
    parser.add_argument("--count", type=options.positive, default=RANDOM, help="random shapes")
    parser.add_argument("--seed", type=int, default=15, help="of the random shapes")
    parser.add_argument("--search", choices=options.SEARCHES, default="estimate", help="of Linear")
    options.add_timing(parser, rounds=5)
    options.add_output(parser)
    return parser


@command(_parser)
def main(run: Run) -> int:
    """Measure, and give the exit status."""
    chosen = run.chosen
    run.notes.append(f"NumPy {np.__version__} ({machine.blas()})")
    try:
        import torch

        run.notes.append(f"PyTorch {torch.__version__}")
    except ImportError:
        run.notes.append("PyTorch is not installed")
    cases = [(d, t, kind) for d in chosen.dtypes for t in chosen.threads for kind in chosen.kinds]
    found: dict[tuple[str, str, int], list[dict[str, Any]]] = {}
    with run.steps(len(cases)) as progress:
        for dtype, threads, kind in cases:
            progress.begin(f"{kind}, {dtype}, {threads} threads")
            peak = open_peak(threads)
            peak.dtype = {"float32": "f32", "float64": "f64"}[dtype]
            for row in time_kind(kind, dtype, threads, chosen, peak, progress):
                found.setdefault((kind, dtype, threads), []).append(row)
    plain = [
        {"kind": kind, "dtype": dtype, "threads": threads, "rows": rows}
        for (kind, dtype, threads), rows in found.items()
    ]
    made = [_table(*key, rows) for key, rows in found.items()]
    return run.publish(run.head(), made, {"runs": plain})


if __name__ == "__main__":
    sys.exit(main())
