"""Error of Winograd convolution in float32 by its points: run with ``--help``.

A simulation of the kernels, rounding by rounding: the generated transforms, weights
rounded once from double precision, products summed by fused multiply-adds over ascending
channels. It takes any points, and with ``--segment`` it cuts the sum over channels into chains
that are added up. The points of ``asm/winograd.py`` were chosen by this table; what the kernels
themselves lose with them is in ``benchmarks/error_bounds.py``, on the same data.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from asm.winograd import POINTS, matrices_of, symmetric
from asm.winograd_code import columns_in_pairs, rows_in_pairs
from benchmarks import options
from benchmarks.error_bounds import KINDS, Array, draw, exact, square_problem
from benchmarks.tables import Table
from benchmarks.tool import new_parser
from pplconv.problem import ConvProblem

Points = tuple[Fraction, ...]
Transform = Callable[[Sequence[Array], list[Any]], None]

SETS: dict[tuple[int, int], dict[str, Points]] = {
    (2, 3): {"0 ±1": symmetric(1)},
    (4, 3): {
        "0 ±√½ ±√2": symmetric(Fraction(1, 2), 2),
        "0 ±⅔ ±3/2": symmetric(Fraction(4, 9), Fraction(9, 4)),
        "0 ±11/16 ±16/11": symmetric(Fraction(121, 256), Fraction(256, 121)),
        "0 ±¾ ±4/3": symmetric(Fraction(9, 16), Fraction(16, 9)),
        "0 ±1 ±2": symmetric(1, 4),
    },
    (3, 4): {"0 ±√½ ±√2": symmetric(Fraction(1, 2), 2)},
    (6, 3): {
        "0 ±1 ±2 ±½": symmetric(1, 4, Fraction(1, 4)),
        "0 ±1 ±11/6 ±6/11": symmetric(1, Fraction(121, 36), Fraction(36, 121)),
        "0 ±1 ±7/4 ±4/7": symmetric(1, Fraction(49, 16), Fraction(16, 49)),
        "0 ±1 ±3/2 ±⅔": symmetric(1, Fraction(9, 4), Fraction(4, 9)),
    },
    (2, 5): {
        "0 ±√½ ±√2": symmetric(Fraction(1, 2), 2),
        "0 ±⅔ ±3/2": symmetric(Fraction(4, 9), Fraction(9, 4)),
        "0 ±1 ±2": symmetric(1, 4),
    },
    (4, 5): {
        "0 ±1 ±2 ±½": symmetric(1, 4, Fraction(1, 4)),
        "0 ±1 ±11/6 ±6/11": symmetric(1, Fraction(121, 36), Fraction(36, 121)),
        "0 ±1 ±7/4 ±4/7": symmetric(1, Fraction(49, 16), Fraction(16, 49)),
    },
}


def fused(c: Array, a: Array | np.float32, b: Array) -> Array:
    """Compute c + a * b of float32 in one rounding (but for ties of the sum in float64)."""
    product = np.asarray(a, np.float64) * b
    return np.asarray(c + product, np.float32)


def _compiled(lines: list[str]) -> Transform:
    """Turn the generated C into a function of arrays; its expressions are Python's too."""
    body = "".join(f"    {line.removeprefix('const value ').rstrip(';')}\n" for line in lines)
    scope: dict[str, Any] = {
        "splat": np.float32,
        "add_product": fused,
        "multiply_subtract": lambda c, a, b: fused(c, -a, b),
    }
    exec(f"def transform(x, y):\n{body}", scope)
    function: Transform = scope["transform"]
    return function


def _nested(transform: Transform, x: Array, outputs: int, rows_first: bool) -> Array:
    """Transform the first two axes, as the kernels do: input by columns, output by rows first."""
    x = x if not rows_first else x.swapaxes(0, 1)
    for _ in range(2):
        y: list[Any] = [None] * outputs
        transform(list(x), y)
        x = np.stack(y).swapaxes(0, 1)
    return x if not rows_first else x.swapaxes(0, 1)


def _chain(u: Array, v: Array, segment: int) -> Array:
    """Sum u[..., k, :, None] * v[..., k, None, :] over k, in chains of `segment` from zero."""
    total: Array | None = None
    for begin in range(0, u.shape[-2], segment):
        part = np.zeros((*u.shape[:-2], u.shape[-1], v.shape[-1]), np.float32)
        for k in range(begin, min(begin + segment, u.shape[-2])):
            part = fused(part, u[..., k, :, None], v[..., k, None, :])
        total = part if total is None else total + part
    assert total is not None
    return total


def simulate(
    points: Points, n: int, problem: ConvProblem, x: Array, w: Array, segment: int | None = None
) -> Array:
    """Convolve one image in float32 by F(n x n, r x r), rounding as the kernels do.

    Parameters
    ----------
    points : tuple of Fraction
        All but infinity.
    n : int
        Outputs of a tile; divides the image's sides.
    problem : ConvProblem
        One group, stride 1.
    x, w : ndarray
        (1, C, H, W) and (oc, C, r, r), float32.
    segment : int, optional
        Channels of one chain of fused multiply-adds; all by default.

    Returns
    -------
    ndarray, float32, (1, oc, oh, ow)
    """
    p, r = problem, problem.kh
    t, m = n + r - 1, matrices_of(points, n, r)
    padded = np.pad(x[0], ((0, 0), *p.padding))
    patches = np.lib.stride_tricks.sliding_window_view(padded, (t, t), (1, 2))[:, ::n, ::n]
    down, across = patches.shape[1:3]
    d = patches.reshape(p.ic, down * across, t, t).transpose(2, 3, 0, 1)
    g = np.array(m.weights, np.float64)
    u = np.einsum("ai,ocij,bj->abco", g, w.astype(np.float64), g, optimize=True)
    v = _nested(_compiled(rows_in_pairs(m.input)), d, t, rows_first=False)
    products = _chain(u.astype(np.float32), v, segment or p.ic)
    y = _nested(_compiled(columns_in_pairs(m.output)), products, n, rows_first=True)
    y = y.reshape(n, n, p.oc, down, across).transpose(2, 3, 0, 4, 1)
    return y.reshape(1, p.oc, p.oh, p.ow)


def error(
    points: Points, n: int, r: int, channels: int, kind: str, seed: int, segment: int | None
) -> float:
    """Give the largest error of one draw, relative to the largest output."""
    problem = square_problem(channels, 8, r, 12)
    x, w = draw(problem, kind, seed)
    y = exact(problem, x, w)
    return float(np.abs(simulate(points, n, problem, x, w, segment) - y).max() / np.abs(y).max())


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = new_parser("benchmarks.winograd_points", __doc__)
    parser.add_argument("--channels", type=int, nargs="+", default=[16, 128, 512])
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--variant", help="only this one: 4,3")
    parser.add_argument("--chosen", action="store_true", help="only the points that are in use")
    parser.add_argument("--segment", type=options.positive, help="channels of a chain (all)")
    parser.add_argument("--seeds", type=options.positive, default=8, help="draws a figure")
    chosen = parser.parse_args(arguments)
    heads = [f"{kind} {channels}" for kind in chosen.kinds for channels in chosen.channels]
    title = f"median and largest of {chosen.seeds} draws; * in use; unit 1e-6"
    table = Table(title, ["points, and ∞", *heads])
    for (n, r), sets in SETS.items():
        if chosen.variant not in (None, f"{n},{r}"):
            continue
        for name, points in sets.items():
            used = points == POINTS[n, r]
            if chosen.chosen and not used:
                continue
            cells = []
            for kind in chosen.kinds:
                for channels in chosen.channels:
                    found = [
                        1e6 * error(points, n, r, channels, kind, seed, chosen.segment)
                        for seed in range(chosen.seeds)
                    ]
                    cells.append(f"{np.median(found):.2f} {max(found):.2f}")
            table.add([f"F({n},{r}) {name}{' *' if used else ''}", *cells])
    print(table.text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
