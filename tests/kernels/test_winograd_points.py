"""The simulation that chose the points rounds as the kernels do, and its points are the best.

So its results hold for points that no kernel uses.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from asm.registry import WINOGRAD_INTEGER_VARIANTS, WINOGRAD_VARIANTS
from asm.winograd import POINTS, integer_matrices, matrices, symmetric
from benchmarks import winograd_points
from benchmarks.error_bounds import (
    draw,
    exact,
    methods,
    run,
    square_problem,
    to_layout,
)
from benchmarks.winograd_points import SETS, simulate
from tests.levels import LADDER, serving

ROUNDOFF = 2.0**-24
FUSED = [isa for isa in serving(LADDER, "f32") if isa != "portable"]


@pytest.mark.parametrize("isa", FUSED)
@pytest.mark.parametrize("channels", [1, 3, 70])
@pytest.mark.parametrize(("n", "r"), POINTS)
def test_simulation_rounds_as_the_kernels_do(isa, channels, n, r):
    """Nearly all bits agree: the simulation rounds sums to float64 first, which seldom matters."""
    problem = square_problem(channels, 3, r, 12, layout="NCHW")
    x, w = draw(problem, "normal", channels)
    simulated = simulate(POINTS[n, r], n, problem, x, w)
    (candidate,) = (
        c for name, c in methods(problem, isa, "winograd").items() if f", F({n}x{n}" in name
    )
    y = run(candidate, problem, isa, to_layout(problem, x), w)
    assert np.mean(simulated == y) > 0.8
    largest = np.abs(exact(problem, x, w)).max()
    assert np.abs(simulated - y).max() <= 30 * ROUNDOFF * largest


def test_matrices_of_integers():
    """The identity holds up to the shift, and the largest numbers fit in 16-bit words."""
    rng = np.random.default_rng(1)
    for n, r in WINOGRAD_INTEGER_VARIANTS:
        found, shift = integer_matrices(n, r)
        a, g, b = (np.array(m, dtype=object) for m in (found.output, found.weights, found.input))
        assert all(x.denominator == 1 for m in (a, g, b) for x in m.flat)
        d = rng.integers(0, 256, (n + r - 1, n + r - 1)).astype(object)
        w = rng.integers(-255, 256, (r, r)).astype(object)
        y = a @ ((g @ w @ g.T) * (b @ d @ b.T)) @ a.T
        windows = [[(d[i : i + r, j : j + r] * w).sum() for j in range(n)] for i in range(n)]
        assert (y == np.array(windows, dtype=object) * 2**shift).all()
        gain = (abs(m).sum(1).max() ** 2 for m in (b, g))
        largest_input, largest_weight = (x * y for x, y in zip(gain, (255, 255), strict=True))
        assert max(largest_input, largest_weight) < 2**15
        # So M exceeds the sums by the shift at most.
        assert largest_input * largest_weight <= 255 * 255 * r * r * 2**shift
    for n, r in set(WINOGRAD_VARIANTS) - set(WINOGRAD_INTEGER_VARIANTS):
        with pytest.raises(ValueError, match="has fractions"):
            integer_matrices(n, r)


def test_variants_with_patches_of_one_size_share_the_transform_of_the_input():
    """The kernels of the input are named after the variants of 3x3."""
    for n, r in POINTS:
        assert matrices(n, r).input == matrices(n + r - 3, 3).input


def test_points_in_use_are_in_the_table():
    """Each chosen set of points is among the sets that are compared."""
    assert set(SETS) == set(POINTS)
    for variant, sets in SETS.items():
        assert POINTS[variant] in sets.values()
        assert len(set(sets.values())) == len(sets)


def median_error(points, n, r):
    found = [winograd_points.error(points, n, r, 128, "normal", seed, None) for seed in range(12)]
    return np.median(found)


@pytest.mark.parametrize(("n", "r"), [(4, 3), (2, 5)])
def test_square_roots_lose_far_less_than_integers(n, r):
    """The choice of points is worth a factor of three."""
    assert median_error(POINTS[n, r], n, r) * 2.5 < median_error(symmetric(1, 4), n, r)


def test_close_points_lose_more():
    """F(6,3) has its best between 3/2 and 2."""
    close = symmetric(1, Fraction(9, 4), Fraction(4, 9))
    assert median_error(POINTS[6, 3], 6, 3) * 1.2 < median_error(close, 6, 3)


def test_short_chains_lose_less():
    """Cutting the sum over channels reduces the error of many channels."""
    whole, cut = (
        winograd_points.error(POINTS[4, 3], 4, 3, 512, "normal", 0, segment)
        for segment in (None, 32)
    )
    assert cut * 2 < whole


def test_table_is_printed(capsys):
    """The tool runs on a small problem."""
    arguments = ["--channels", "2", "--kinds", "image", "--variant", "4,3", "--seeds", "1"]
    assert winograd_points.main(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = [line for line in lines if line.startswith("F(4,3)")]
    assert len(rows) == len(SETS[4, 3])
    assert sum("*" in row for row in rows) == 1
