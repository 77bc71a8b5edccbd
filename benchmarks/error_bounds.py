"""Errors of every method against float64, beside its stated bound: run with ``--help``.

Each variant of Winograd and each direct sum is forced, by the planner's own candidates, over
numbers of channels and kinds of data. An error is the largest difference of an output from the
exact one, relative to the largest exact output of the same call. The constants of
``pplconv/algorithms/error_bounds.py`` were set from this table; ``docs/accuracy.md`` shows it.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from benchmarks import options
from benchmarks.tables import Table
from benchmarks.tool import new_parser
from pplconv._trial import Trial
from pplconv.algorithms import ALGORITHMS, Candidate, PlanContext
from pplconv.machine import current as current_machine
from pplconv.numerics import Numerics
from pplconv.planner.estimating import tiles
from pplconv.planner.target import here
from pplconv.problem import ConvProblem

Array = NDArray[np.floating | np.uint16]

KINDS = ("normal", "positive", "image")
# Levels with products of a narrow type: the type of arrays, and of the products of float32 arrays.
NARROW = {
    "fp16": ("f16", "f16"),
    "avx512bf16": ("bf16", "bf16"),
    "amx": ("bf16", "bf16t"),
    "bf16": ("bf16", "bf16m"),
}
ISAS = ("avx512", "avx2", "neon", "portable", *NARROW)
# NumPy's types of arrays; arrays of bfloat16 hold bits.
DTYPES = {"f16": np.float16, "bf16": np.uint16, "f32": np.float32, "f64": np.float64}
# Units of the errors in tables.
UNITS = {"f16": 1e-6, "bf16": 1e-6, "f32": 1e-6, "f64": 1e-15}
# Channels of the table: images have 3, layers of networks the others.
CHANNELS = (3, 16, 32, 64, 128, 256, 512, 1024, 2048)
# Output channels and pixels of a side: no tile fits the second.
OUTPUTS = ((8, 12), (16, 14))
SMOOTHED = 5  # pixels that image-like data is averaged over, each way


def square_problem(
    channels: int, oc: int, r: int, side: int, dtype: str = "f32", layout: str = "NHWC",
    groups: int = 1,
) -> ConvProblem:  # fmt: skip
    """Describe a convolution of one image whose padding keeps its size.

    Parameters
    ----------
    channels, oc : int
        Channels of a group.
    r, side : int
        Taps and pixels of a side.
    """
    pad, block = (r // 2, r // 2), 16 if layout == "NCHWc" else 0
    return ConvProblem(
        1, groups, channels * groups, side, side, oc * groups, side, side, r, r, (1, 1), (1, 1),
        (pad, pad), dtype, layout, block,
    )  # fmt: skip


def draw(problem: ConvProblem, kind: str, seed: int) -> tuple[Array, Array]:
    """Draw input (N, C, H, W) and weights (oc, ic / groups, kh, kw).

    Parameters
    ----------
    kind : {"normal", "positive", "image"}
        Normally distributed; all in 0 .. 1; smooth and rectified images with a mean, whose
        channels and filters are of different scales (lognormal).
    """
    p, rng = problem, np.random.default_rng(seed)
    inputs, weights = (p.batch, p.ic, p.ih, p.iw), (p.oc, p.ic // p.groups, p.kh, p.kw)
    if kind == "positive":
        x, w = rng.random(inputs), rng.random(weights)
    else:
        w = rng.standard_normal(weights)
        if kind == "normal":
            x = rng.standard_normal(inputs)
        else:
            more = SMOOTHED - 1
            noise = rng.standard_normal((p.batch, p.ic, p.ih + more, p.iw + more))
            window = np.lib.stride_tricks.sliding_window_view(noise, (SMOOTHED, SMOOTHED), (2, 3))
            x = np.maximum(window.sum((-2, -1)) / SMOOTHED + 0.5, 0)
            x *= np.exp(rng.standard_normal((1, p.ic, 1, 1)))
            w *= np.exp(rng.standard_normal((p.oc, 1, 1, 1)))
    # Results stay in the range of float16, however long the sum is.
    if "f16" in (p.dtype, p.permitted[0]):
        w *= 2.0 ** -round(math.log2(8 * math.sqrt(p.k)))
    return stored(p.dtype, x), stored(p.dtype, w)


def stored(dtype: str, numbers: Array) -> Array:
    """Round numbers to a type as arrays have it, ties to even."""
    if dtype != "bf16":
        return numbers.astype(DTYPES[dtype])
    bits = numbers.astype(np.float32).view(np.uint32)
    bits += 0x7FFF + (bits >> 16 & 1)
    halves: Array = (bits >> 16).astype(np.uint16)
    return halves


def numbers_of(dtype: str, array: Array) -> Array:
    """Give the numbers of an array that `stored` has made."""
    if dtype != "bf16":
        return array
    floats: Array = (array.astype(np.uint32) << 16).view(np.float32)
    return floats


def exact(problem: ConvProblem, x: Array, w: Array) -> Array:
    """Convolve in a wider type, tap by tap.

    Returns
    -------
    ndarray, (N, oc, oh, ow)
        float64; ``long double`` for arrays of float64.
    """
    p = problem
    x, w = numbers_of(p.dtype, x), numbers_of(p.dtype, w)
    wide: type[np.floating] = np.longdouble if p.dtype == "f64" else np.float64
    (top, bottom), (left, right) = p.padding
    x = np.pad(x.astype(wide), ((0, 0), (0, 0), (top, bottom), (left, right)))
    x = x.reshape(p.batch, p.groups, p.ic // p.groups, *x.shape[2:])
    w = w.astype(wide).reshape(p.groups, p.oc // p.groups, *w.shape[1:])
    total: Array = np.zeros((p.batch, p.groups, p.oc // p.groups, p.oh * p.ow), wide)
    for i in range(p.kh):
        for j in range(p.kw):
            seen = x[:, :, :, i :: p.stride[0], j :: p.stride[1]][..., : p.oh, : p.ow]
            total += np.matmul(w[..., i, j], seen.reshape(*seen.shape[:3], p.oh * p.ow))
    return total.reshape(p.batch, p.oc, p.oh, p.ow)


def to_layout(problem: ConvProblem, x: Array) -> Array:
    """Copy (N, C, H, W) into the problem's layout."""
    if problem.layout == "NCHW":
        return np.ascontiguousarray(x)
    if problem.layout == "NHWC":
        return np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    n, c, h, w = x.shape
    x = np.pad(x, ((0, 0), (0, -c % problem.block), (0, 0), (0, 0)))
    x = x.reshape(n, -1, problem.block, h, w)
    return np.ascontiguousarray(x.transpose(0, 1, 3, 4, 2))


def context_of(numerics: Numerics, isa: str) -> PlanContext:
    """What candidates of an instruction set depend on, for one thread."""
    lanes, found = here().tiles(numerics.product, isa, numerics.kr)
    return PlanContext(current_machine(), numerics, isa, found, lanes, 1)


def usable_isas() -> list[str]:
    """Instruction sets that there are kernels for and that this machine has."""
    usable = current_machine().usable_isas(None)
    return [isa for isa in ISAS if isa in usable and tiles("f32", isa)[1]]


def methods(problem: ConvProblem, isa: str, algorithm: str | None = None) -> dict[str, Candidate]:
    """Give one candidate for each algorithm and order of sums that can serve the problem."""
    found: dict[str, Candidate] = {}
    numerics = problem.numerics[0]
    for name, module in ALGORITHMS.items():
        if (algorithm or name) == name and module.supports(problem, numerics) is None:
            for candidate in module.candidates(problem, context_of(numerics, isa)):
                found.setdefault(f"{name}, {candidate.bits}", candidate)
    return found


def run(candidate: Candidate, problem: ConvProblem, isa: str, x: Array, w: Array) -> Array:
    """Run a candidate on one thread; arrays lie in the problem's layout."""
    y = stored(problem.dtype, np.full(problem.output_shape, np.nan))
    Trial(candidate.fields(1), isa, w).seconds(x, y)
    return numbers_of(problem.dtype, y)


def errors(
    problem: ConvProblem,
    isa: str,
    kind: str,
    seed: int,
    algorithm: str | None = None,
) -> dict[str, tuple[float, float]]:
    """Measure each method that can serve the problem, on the same data.

    Returns
    -------
    dict of str to (float, float)
        The error and the stated bound, by algorithm and order of sums.
    """
    x, w = draw(problem, kind, seed)
    y = exact(problem, x, w)
    x, scale = to_layout(problem, x), np.abs(y).max()
    y = to_layout(problem, y)
    return {
        name: (
            float(np.abs(run(candidate, problem, isa, x, w) - y).max() / scale),
            candidate.error_bound,
        )
        for name, candidate in methods(problem, isa, algorithm).items()
    }


def worst(
    r: int, channels: int, dtype: str, isa: str, kinds: Sequence[str], seeds: int
) -> dict[str, tuple[float, float]]:
    """Give the largest error of each method over kinds of data, draws and sizes, and its bound."""
    found: dict[str, tuple[float, float]] = {}
    for oc, side in OUTPUTS:
        problem = square_problem(channels, oc, r, side, dtype)
        if isa in NARROW:
            problem = replace(problem, permitted=(NARROW[isa][1],))
        elif dtype == "bf16":
            problem = replace(problem, permitted=("f32",))
        for kind in kinds:
            for seed in range(seeds):
                for name, (error, bound) in errors(problem, isa, kind, seed).items():
                    found[name] = max(error, found.get(name, (0.0, 0.0))[0]), bound
    return found


def table(
    r: int, dtype: str, isa: str, kinds: Sequence[str], channels: Sequence[int], seeds: int
) -> Table:
    """Make the table of a kernel size: a row a method, a column a number of channels."""
    unit = UNITS[dtype]
    draws = f"largest of {len(OUTPUTS) * len(kinds) * seeds} draws"
    title = f"{r}x{r}, {dtype}, {isa}, {' '.join(kinds)}: {draws} / bound, unit {unit:g}"
    made = Table(title, ["method", *map(str, channels)])
    columns = [worst(r, count, dtype, isa, kinds, seeds) for count in channels]
    for name in columns[0]:
        cells = [f"{column[name][0] / unit:.2f}/{column[name][1] / unit:.2f}" for column in columns]
        made.add([name, *cells])
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables."""
    parser = new_parser("benchmarks.error_bounds", __doc__)
    parser.add_argument("--channels", type=options.positive, nargs="+", default=CHANNELS)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS, help="of data")
    parser.add_argument(
        "--taps", type=int, nargs="+", choices=(1, 2, 3, 4, 5, 7, 9), default=(3, 5)
    )
    parser.add_argument("--dtypes", nargs="+", choices=list(DTYPES), default=["f32"])
    parser.add_argument("--isas", nargs="+", choices=ISAS, default=usable_isas())
    parser.add_argument("--seeds", type=options.positive, default=8, help="draws of each")
    parser.add_argument("--markdown", action="store_true")
    chosen = parser.parse_args(arguments)
    for isa in set(chosen.isas) & set(NARROW):
        fit = NARROW[isa][0], "f32"
        if not set(chosen.dtypes) <= set(fit):
            parser.error(f"--isas {isa} computes in {fit[0]}: expected --dtypes {' or '.join(fit)}")
    for dtype in chosen.dtypes:
        for isa in chosen.isas:
            for r in chosen.taps:
                made = table(r, dtype, isa, chosen.kinds, chosen.channels, chosen.seeds)
                print(made.markdown() if chosen.markdown else made.text(), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
