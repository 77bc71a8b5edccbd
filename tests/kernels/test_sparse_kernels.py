"""Every kernel of sparse weights: all tails, all flags, terms any way apart, any stride."""

from __future__ import annotations

from itertools import cycle

import numpy as np
import pytest

from gemm_case import ANYWHERE, C_LAYOUTS, flag_combinations
from guarded_memory import PLACES
from kernel_table import every_row, symbol
from kernel_values import KINDS
from sparse_case import GROUPS, PANELS, WAYS, X_LAYOUTS, SparseCall, draw_case, judge

ROWS = [*every_row("sparse_pixels"), *every_row("sparse_channels")]
every_kernel = pytest.mark.parametrize("row", ROWS, ids=symbol)
FLOATS = [row for row in ROWS if row["kr"] == 1]
LONG = 1200


@pytest.mark.sampled(15)
@every_kernel
def test_every_tail(checker, row, rng):
    """Each number of columns, flush against the guard pages on both sides and anywhere."""
    groups = cycle(GROUPS)
    for n in range(1, row["nr"] + 1):
        for place in (*PLACES, ANYWHERE):
            for kind in KINDS:
                case = draw_case(rng, row, n=n, place=place, groups=next(groups), kind=kind)
                judge(checker, row, case, rng)


@pytest.mark.sampled(24)
@every_kernel
def test_every_combination_of_flags(checker, row, rng):
    """Whole tiles and tails; a pointer that no flag calls for leads nowhere."""
    for flags in flag_combinations(row):
        tail = int(rng.integers(1, row["nr"] + 1))
        for n in (row["nr"], tail):
            judge(checker, row, draw_case(rng, row, n=n, flags=flags), rng)


@pytest.mark.sampled(14)
@every_kernel
def test_every_number_of_terms(checker, row, rng):
    """Each with each way that terms and the input may lie; without terms neither is read."""
    for groups in GROUPS:
        for way in WAYS:
            for x_layout in X_LAYOUTS:
                case = draw_case(rng, row, groups=groups, way=way, x_layout=x_layout)
                judge(checker, row, case, rng)


@pytest.mark.sampled(50)
@every_kernel
def test_every_number_of_panels(checker, row, rng):
    """Lists of any lengths one behind the other, whole tiles and tails; none of some panels."""
    for panels in (*PANELS, 9):
        for groups in (0, 1, 9):
            for n in (row["nr"], int(rng.integers(1, row["nr"] + 1))):
                judge(checker, row, draw_case(rng, row, panels=panels, groups=groups, n=n), rng)


@pytest.mark.sampled(42)
@every_kernel
def test_every_layout_of_c(checker, row, rng):
    """Row-major and blocked, each tail; what lies between vectors of C is left alone."""
    for n in range(1, row["nr"] + 1):
        for c_layout in C_LAYOUTS:
            judge(checker, row, draw_case(rng, row, n=n, c_layout=c_layout), rng)


@pytest.mark.sampled(44)
@every_kernel
def test_many_terms(checker, row, rng):
    """More of them than a turn or a block of K has, the rows of many of which overlap."""
    for n in (row["nr"], int(rng.integers(1, row["nr"] + 1))):
        for way in WAYS:
            case = draw_case(
                rng, row, n=n, groups=LONG // row["kr"], way=way, x_layout="overlapping"
            )
            judge(checker, row, case, rng)


@pytest.mark.parametrize("row", FLOATS, ids=symbol)
def test_what_is_pruned_is_not_multiplied(checker, row, rng):
    """Infinity and NaN where no term leads change nothing; where one leads, its zeros count."""
    fixed = {"panels": 1, "kind": "random", "x_layout": "planes", "flags": 0}
    call = SparseCall(checker, row, draw_case(rng, row, groups=9, way="sparse", **fixed), rng)
    with np.errstate(all="ignore"):
        call.same_bits(call.run(), call.ordered())
        assert np.isfinite(call.ordered()).all()
    call = SparseCall(checker, row, draw_case(rng, row, groups=3, way="dense", **fixed), rng)
    for name, at, count, value in (
        ("x", int(call.at[1]), 1, np.inf),
        ("values", call.width * call.dtype.itemsize, call.width, 0),
    ):
        arena = checker.arena(name)
        first = call.values[name] + at - arena.base
        np.ndarray((count,), call.dtype, arena.open, first)[...] = value
    # What judges half precision takes the factors as they were drawn.
    call.weights[:, 1], call.pixels[1, 0] = 0, np.inf
    with np.errstate(all="ignore"):
        got = call.run()
        assert np.isnan(got).any()
        call.same_bits(got, call.ordered())
