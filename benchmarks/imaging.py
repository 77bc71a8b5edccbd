"""Image filters: `pplconv.imaging` against OpenCV, IPP, Halide, SciPy and PyTorch, in one run.

Images of 256 pixels to 64 megapixels, grey and coloured, float32, uint8 and uint16; kernels from
3x3 to 31x31, products of a column and a row, boxes, Gaussians and derivatives, by the function
that an engine has for them. All pad with zeros, which every engine can. A sample of the pixels of
every result is checked before it is timed.

``python -m benchmarks.imaging --help``.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import options
from benchmarks.filters import ENGINES, ONE_THREAD, OURS, Call, Case, team
from benchmarks.report import conditions
from benchmarks.tables import Table, milli, ratio
from benchmarks.timing import Settings, interleave
from benchmarks.tool import Run, command, new_parser, versions

Array = NDArray[Any]

# Name: rows, columns, channels.
IMAGES = {
    "0.0003": (16, 16, 1),
    "0.07": (256, 256, 1),
    "1": (1000, 1000, 1),
    "1x3": (1000, 1000, 3),
    "2x3": (1080, 1920, 3),
    "3": (1500, 2000, 1),
    "64": (8000, 8000, 1),
}
KERNELS = (
    "3", "5", "7", "9", "11", "15", "21", "31", "3s", "5s", "9s", "31s",
    "3box", "5box", "15box", "31box", "3g", "5g", "9g", "sobel",
)  # fmt: skip
# What the last letters of a kernel mean.
_KINDS = {"s": "separable", "box": "box", "g": "Gaussian"}
DTYPES = ("float32", "uint8", "uint16")
# A peer that is expected to take longer (seconds) is timed by one call.
SLOW = 0.25
# Images of more pixels are visited once: their calls last so long that nothing disturbs them much.
LARGE = 10_000_000
CHECKED = 1000
# Largest error, as a part of the largest output; of integers in units: an engine that rounds or
# truncates sums of float32 is off by one.
TOLERANCE = {"float32": 1e-4, "uint8": 1.001, "uint16": 1.05}
# OpenCV rounds the weights of Gaussians of integers.
_OF_ROUNDED_WEIGHTS = 2.0
_METHOD = (
    "borders of zeros; result arrays are there before, where a call takes one; weights are "
    "positive and add up to 1, but for Sobel's; cv2 is blur, GaussianBlur, Sobel, sepFilter2D or "
    "filter2D, ipp FilterBoxBorder, FilterGaussian or FilterBorder; "
    "halide's schedules are strips of 32 rows and 64 lanes"
)


@lru_cache(maxsize=1)
def image_of(name: str, dtype: str) -> Array:
    """Draw an image, the same in every run."""
    rows, columns, channels = IMAGES[name]
    shape = (rows, columns) if channels == 1 else (rows, columns, channels)
    rng = np.random.default_rng(rows + channels)
    if dtype != "float32":
        return rng.integers(0, np.iinfo(dtype).max, shape, dtype, endpoint=True)
    return rng.standard_normal(shape, np.float32)


def case_of(image: str, kernel: str, dtype: str) -> Case:
    """Make the data of a case."""
    pixels = image_of(image, dtype)
    if kernel == "sobel":
        weights = np.outer([1.0, 2.0, 1.0], [-1.0, 0.0, 1.0])
        return Case(pixels, weights, (np.array([1.0, 2, 1]), np.array([-1.0, 0, 1])), "sobel")
    size, kind = _parts(kernel)
    if kind == "box":
        return Case(pixels, np.full((size, size), 1 / size**2), None, "box")
    if kind == "Gaussian":
        # OpenCV's, if it is given none.
        sigma = 0.3 * ((size - 1) * 0.5 - 1) + 0.8
        weights = np.exp(-0.5 * ((np.arange(size) - size // 2) / sigma) ** 2)
        weights /= weights.sum()
        return Case(pixels, np.outer(weights, weights), (weights, weights), "gaussian", sigma)
    rng = np.random.default_rng(size)
    vectors = None
    if kind == "separable":
        vectors = rng.random(size, np.float32), rng.random(size, np.float32)
        vectors = vectors[0] / vectors[0].sum(), vectors[1] / vectors[1].sum()
        weights = np.outer(*vectors)
    else:
        weights = rng.random((size, size), np.float32)
        weights /= weights.sum()
    return Case(pixels, weights, vectors)


def _parts(kernel: str) -> tuple[int, str]:
    """Give the size of a kernel, and its kind."""
    digits = "".join(each for each in kernel if each.isdigit())
    return int(digits), _KINDS.get(kernel.removeprefix(digits), "")


def wrong(case: Case, result: Array, dtype: str) -> str:
    """Compare a sample of a result with float64 sums; empty if it is right."""
    half = [n // 2 for n in case.kernel.shape]
    if result.shape != case.image.shape:
        return f"the result has shape {result.shape}"
    rng = np.random.default_rng(0)
    rows, columns = (rng.integers(0, n, CHECKED) for n in case.image.shape[:2])
    # Corners, and pixels beside them, see the border.
    for index, size in ((rows, case.image.shape[0]), (columns, case.image.shape[1])):
        index[:50] %= half[0] + 1
        index[50:100] = size - 1 - index[50:100] % (half[0] + 1)
    kernel = case.kernel.astype(np.float64)
    worst = largest = 0.0
    for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
        seen = case.image[
            max(row - half[0], 0) : row + half[0] + 1,
            max(column - half[1], 0) : column + half[1] + 1,
        ]
        top, left = max(half[0] - row, 0), max(half[1] - column, 0)
        taps = kernel[top : top + seen.shape[0], left : left + seen.shape[1]]
        exact = np.tensordot(taps, seen.astype(np.float64), 2)
        worst = max(worst, float(np.abs(result[row, column] - exact).max()))
        largest = max(largest, float(np.abs(exact).max()))
    whole = result.dtype.kind in "iu"
    limit = TOLERANCE[dtype] if whole else TOLERANCE["float32"] * largest
    if whole and case.name == "gaussian":
        limit = _OF_ROUNDED_WEIGHTS
    return "" if worst <= limit else f"a pixel is off by {worst:.3g}"


@dataclass(frozen=True)
class Row:
    """The measured seconds of a case, by engine."""

    image: str
    kernel: str
    seconds: dict[str, float]


class Runner:
    """Measures cases, and remembers the times of peers on smaller images."""

    def __init__(self, chosen: argparse.Namespace) -> None:
        self._chosen = chosen
        self._known: dict[tuple[str, str, str, int], list[tuple[int, float]]] = {}
        self.notes: dict[str, None] = {}

    def measure(self, image: str, kernel: str, dtype: str, threads: int) -> Row:
        """Check and time all engines that serve the case."""
        case, settings = case_of(image, kernel, dtype), self._settings(image, threads)
        quick: dict[str, Call] = {}
        single: dict[str, Call] = {}
        for name, make in ENGINES.items():
            if name in ONE_THREAD and threads != min(self._chosen.threads):
                continue
            expected = self._expected(name, kernel, dtype, threads, case.image.size)
            if expected > self._chosen.limit and name != OURS:
                self.notes[f"{name} is left out where a call takes more than some "
                           f"{self._chosen.limit:g} s"] = None  # fmt: skip
                continue
            call = make(case)
            if call is None:
                continue
            if complaint := wrong(case, np.asarray(call()), dtype):
                raise RuntimeError(f"{name} is wrong on {image}, {kernel}, {dtype}: {complaint}")
            (single if expected > SLOW and name != OURS else quick)[name] = call
        seconds = {name: one.best for name, one in interleave(quick, settings).items()}
        for name, call in single.items():
            start = time.perf_counter()
            call()
            seconds[name] = time.perf_counter() - start
        for name, taken in seconds.items():
            known = self._known.setdefault((name, kernel, dtype, threads), [])
            known.append((case.image.size, taken))
        return Row(image, kernel, seconds)

    def _settings(self, image: str, threads: int) -> Settings:
        settings = options.settings_of(self._chosen, threads)
        large = int(np.prod(IMAGES[image])) > LARGE
        return replace(settings, rounds=1) if large else settings

    def _expected(self, name: str, kernel: str, dtype: str, threads: int, size: int) -> float:
        """Estimate the seconds of a peer from its times on smaller images; 0 if there are none."""
        known = self._known.get((name, kernel, dtype, threads), [])
        return max((taken * size / other for other, taken in known), default=0.0)


def table_of(dtype: str, threads: int, rows: Sequence[Row]) -> Table:
    """Make the table of a type and a team, in milliseconds."""
    names = [name for name in ENGINES if any(name in row.seconds for row in rows)]
    scipy = [name for name in names if name.startswith("scipy")]
    against = {
        "OpenCV / pplconv": [name for name in names if name == "cv2"],
        "IPP / pplconv": [name for name in names if name == "ipp"],
        "Halide / pplconv": [name for name in names if name == "halide"],
        "best of SciPy / pplconv": scipy,
    }
    against = {title: some for title, some in against.items() if some}
    table = Table(
        f"filters, {dtype}, {conditions(1, threads)}: ms", ["image, MP", "kernel", *names, *against]
    )
    for index, row in enumerate(rows):
        if index and rows[index - 1].image != row.image:
            table.rule()
        cells = [row.image, _title(row.kernel)]
        cells += [milli(row.seconds.get(name)) for name in names]
        for some in against.values():
            best = min((row.seconds[name] for name in some if name in row.seconds), default=None)
            cells.append(ratio(best, row.seconds.get(OURS)))
        fastest = min(row.seconds, key=row.seconds.__getitem__)
        table.add(cells, [2 + names.index(fastest)])
    return table


def _title(kernel: str) -> str:
    if kernel == "sobel":
        return "3x3 Sobel"
    size, kind = _parts(kernel)
    return f"{size}x{size} {kind}".rstrip()


def summary_of(found: Mapping[tuple[str, int], Sequence[Row]]) -> Table:
    """Make the table of what the best peer takes, over what pplconv takes."""
    table = Table(
        "best of all peers / pplconv", ["type", "threads", "cases", "geometric mean", "least", "at"]
    )
    for (dtype, threads), rows in found.items():
        ratios = {
            f"{row.image} MP, {_title(row.kernel)}": min(
                taken for name, taken in row.seconds.items() if name != OURS
            ) / row.seconds[OURS]
            for row in rows if len(row.seconds) > 1
        }  # fmt: skip
        if ratios:
            least = min(ratios, key=ratios.__getitem__)
            mean = float(np.exp(np.mean(np.log(list(ratios.values())))))
            table.add(
                [dtype, str(threads), str(len(ratios)), f"{mean:.2f}", f"{ratios[least]:.2f}",
                 least]
            )  # fmt: skip
    return table


def parser() -> argparse.ArgumentParser:
    """Make the parser of the command."""
    made = new_parser("benchmarks.imaging", __doc__)
    made.add_argument(
        "--images", type=options.some_of(IMAGES), default=list(IMAGES),
        help=f"megapixels and channels, some of {','.join(IMAGES)}",
    )  # fmt: skip
    made.add_argument(
        "--kernels", type=options.some_of(KERNELS), default=list(KERNELS),
        help=f"sizes, s for separable ones, some of {','.join(KERNELS)}",
    )  # fmt: skip
    made.add_argument("--dtypes", type=options.some_of(DTYPES), default=list(DTYPES))
    options.add_threads(made, [1, 2])
    made.add_argument(
        "--limit", type=float, default=3.0, metavar="SECONDS",
        help="leave a peer out where a call takes longer (default 3)",
    )  # fmt: skip
    options.add_timing(made, rounds=3, min_seconds=0.01)
    options.add_output(made)
    return made


def steps_of(chosen: argparse.Namespace) -> Iterator[tuple[str, int, str, str]]:
    """List the cases: an image is drawn once for a type."""
    for dtype in chosen.dtypes:
        for image in chosen.images:
            for threads in chosen.threads:
                for kernel in chosen.kernels:
                    yield dtype, threads, image, kernel


@command(parser)
def main(run: Run) -> int:
    """Measure, and give the exit status."""
    steps, runner = list(steps_of(run.chosen)), Runner(run.chosen)
    found: dict[tuple[str, int], list[Row]] = {}
    with run.steps(len(steps)) as progress:
        for dtype, threads, image, kernel in steps:
            progress.begin(f"{dtype}, {image} MP, {kernel}, {threads} thread(s)")
            with team(threads):
                row = runner.measure(image, kernel, dtype, threads)
            found.setdefault((dtype, threads), []).append(row)
    head = run.head(
        f"{options.method(options.settings_of(run.chosen, 1))}; images of more than "
        f"{LARGE / 1e6:g} million numbers one round; peers slower than {SLOW:g} s one call; "
        f"{_METHOD}",
        notes=[*versions("cv2", "ipp", "halide", "scipy", "torch"), *runner.notes],
    )
    made = [table_of(*key, rows) for key, rows in found.items()]
    made.append(summary_of(found))
    plain = [
        {"dtype": dtype, "threads": threads, "image": row.image, "kernel": row.kernel,
         "seconds": row.seconds}
        for (dtype, threads), rows in found.items()
        for row in rows
    ]  # fmt: skip
    return run.publish(head, made, {"rows": plain})


if __name__ == "__main__":
    sys.exit(main())
