"""The stated error bounds hold and are not too loose: real kernels, three kinds of data.

The seeds are fixed, and differ from those that the constants were set from.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.error_bounds import KINDS, NARROW, errors, main, square_problem
from pplconv.algorithms import winograd
from pplconv.algorithms.error_bounds import (
    WINOGRAD,
    direct_error_bound,
    winograd_error_bound,
)
from pplconv.numerics import TYPES, numerics_of
from pplconv.planner.estimating import Request
from tests.levels import LADDER, serving

CHANNELS = (16, 32, 64, 128, 256, 512, 1024, 2048)
LAYOUTS = ("NCHW", "NHWC", "NCHWc")
FIRST_SEED = 10_000
# Bounds more than this many times the observed error would make the planner reject fast methods.
LOOSE = 4.0

every_isa = pytest.mark.parametrize("isa", serving(LADDER, "f32"))


def worst(problems, isa, seeds=1, algorithm=None):
    """Give the largest error of each method over problems, kinds of data and draws."""
    found, bounds = {}, {}
    for problem in problems:
        for kind in KINDS:
            for seed in range(FIRST_SEED, FIRST_SEED + seeds):
                for name, (error, bound) in errors(problem, isa, kind, seed, algorithm).items():
                    found[name] = max(error, found.get(name, 0.0))
                    bounds[name] = bound
    return {name: (error, bounds[name]) for name, error in found.items()}


def check(problems, isa, expected, **options):
    """Fail unless the error of each method is at most its bound, and at least a quarter of it."""
    found = worst(problems, isa, **options)
    assert {name.partition(",")[0] for name in found} == set(expected)
    for name, (error, bound) in found.items():
        where = f"{problems[0]}: {name}: error {error:.3g}, bound {bound:.3g}"
        assert error <= bound, where
        assert bound <= LOOSE * error, where
    return found


@every_isa
@pytest.mark.parametrize("channels", [3, 64, 512])
def test_float16_is_rounded_once(isa, channels):
    """The error is half a unit in the last place; errors of the sums are much smaller."""
    problems = [square_problem(channels, 8, 3, side, "f16") for side in (12, 14)]
    for name, (error, bound) in worst(problems, isa).items():
        assert error <= bound, (name, error, bound)
        assert bound <= 2 * error, (name, error, bound)
        assert 2.0**-11 < bound < 1.2 * 2.0**-11, name


@pytest.mark.narrow
@pytest.mark.parametrize("isa", [isa for isa in LADDER if NARROW.get(isa, ("",))[0] == "bf16"])
@pytest.mark.parametrize("channels", [3, 64, 512])
def test_bfloat16(isa, channels):
    """The only errors are one rounding of bfloat16 results, or the rounding of float32 operands."""
    for dtype, expected in (("bf16", 2.0**-8), ("f32", 2.0**-7)):
        problems = [
            replace(square_problem(channels, 8, 3, side, dtype), permitted=(NARROW[isa][1],))
            for side in (12, 14)
        ]
        found = check(problems, isa, ["direct", "im2col"])
        for _, bound in found.values():
            assert expected < bound < 1.01 * expected


@pytest.mark.narrow
@every_isa
def test_bfloat16_in_float32(isa):
    problems = [
        replace(square_problem(64, 8, 3, side, "bf16"), permitted=("f32",)) for side in (12, 14)
    ]
    check(problems, isa, ["direct", "im2col", "winograd"])


@pytest.mark.sampled(8)
@every_isa
@pytest.mark.parametrize("r", [3, 4, 5, 7])
@pytest.mark.parametrize("channels", CHANNELS)
def test_float32(isa, r, channels):
    """All Winograd variants, and direct sums; images of whole and of partial tiles.

    Kernels of 5x5 and 7x7 are also cut into subkernels.
    """
    problems = [square_problem(channels, 8, r, 12), square_problem(channels, 8, r, 14)]
    seeds = 1 if channels > 512 else 3
    found = check(problems, isa, ["winograd", "im2col", "direct"], seeds=seeds)
    variants = {f"winograd, F({n}x{n},{r}x{r})" for n, taps in WINOGRAD if taps == r}
    names = {name for name in found if name.startswith("winograd")}
    assert variants == {name for name in names if name.startswith("winograd, F")}
    assert (len(names) > len(variants)) is (r > 3)


@pytest.mark.sampled(10)
@every_isa
@pytest.mark.parametrize("r", [3, 5])
@pytest.mark.parametrize("channels", [16, 128, 512])
def test_float64(isa, r, channels):
    """The same against long double, which must be longer than double."""
    assert np.finfo(np.longdouble).eps < np.finfo(np.float64).eps
    problems = [square_problem(channels, 4, r, 14, "f64")]
    check(problems, isa, ["winograd", "im2col", "direct"], seeds=4 if channels < 100 else 2)


@pytest.mark.sampled(7)
@every_isa
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("r", [1, 3])
def test_direct_sums_in_every_layout(isa, layout, r):
    """im2col, direct and pointwise, whose order of sums differs by layout."""
    names = {"im2col", "direct", "pointwise"} if r == 1 else {"im2col", "direct"}
    if layout == "NCHWc":
        names -= {"im2col"}
    for channels in (16, 256):
        problems = [square_problem(channels, 16, r, side, layout=layout) for side in (8, 13)]
        for name in names:
            check(problems, isa, [name], seeds=4, algorithm=name)


@every_isa
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("r", [3, 5])
@pytest.mark.parametrize("multiplier", [1, 2])
def test_depthwise(isa, layout, r, multiplier):
    """Sums have as many terms as a kernel has taps."""
    problems = [square_problem(1, multiplier, r, 12, layout=layout, groups=32)]
    check(problems, isa, ["depthwise"], seeds=4, algorithm="depthwise")


def test_every_variant_has_a_bound():
    """There are constants for each variant."""
    assert set(WINOGRAD) == set(winograd.VARIANTS)


@pytest.mark.parametrize("dtype", ["f16", "f32", "f64"])
@pytest.mark.parametrize(("n", "r"), WINOGRAD)
def test_bounds_grow(n, r, dtype):
    """More terms have larger bounds, and so do larger tiles."""
    counts = [1, 2, 3, 5, 16, 100, 2048]
    numerics = numerics_of(dtype, dtype)
    for bounds in (
        [direct_error_bound(k, numerics) for k in counts],
        [winograd_error_bound(n, r, c, numerics) for c in counts],
    ):
        assert bounds == sorted(set(bounds))
        assert bounds[0] > TYPES[dtype].roundoff
    larger = [m for m, taps in WINOGRAD if taps == r and m > n]
    for m in larger:
        bounds = [winograd_error_bound(size, r, 64, numerics) for size in (n, m)]
        assert bounds[0] < bounds[1]


def test_what_the_default_tolerance_allows():
    """F(4,3) up to 1024 channels; ten times the tolerance allows F(6,3) at any size."""
    single = numerics_of("f32", "f32")
    tolerance = Request(square_problem(16, 8, 3, 12)).tolerance
    assert tolerance == 1e-5
    for channels in (3, *CHANNELS):
        assert winograd_error_bound(2, 3, channels, single) <= tolerance
        assert (winograd_error_bound(4, 3, channels, single) <= tolerance) is (channels <= 1024)
        assert winograd_error_bound(2, 5, channels, single) <= tolerance
        assert tolerance < winograd_error_bound(6, 3, channels, single) <= 10 * tolerance


def test_table_is_printed(capsys):
    """The tool that set the constants runs on a small problem."""
    arguments = ["--channels", "2", "3", "--taps", "3", "--seeds", "1", "--isas", "portable"]
    assert main(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("winograd, F(") for line in lines) == 3
