"""Reductions of rows and of columns: tails, orders of sums, NaN, and long sums."""

from __future__ import annotations

import numpy as np
import pytest

from asm.contract import FLAGS, REDUCTIONS
from tests.kernels.kernel_table import DTYPES, computed, computed_lanes_of, float_rows, symbol
from tests.kernels.kernel_values import draw
from tests.kernels.packing_case import PackingCall

every_kind = pytest.mark.parametrize("kind", REDUCTIONS)
ROWS, COLUMNS = float_rows("reduce_rows"), float_rows("reduce_columns")
rows_kernels = pytest.mark.parametrize("row", ROWS, ids=symbol)
columns_kernels = pytest.mark.parametrize("row", COLUMNS, ids=symbol)
every_kernel = pytest.mark.parametrize("row", ROWS + COLUMNS, ids=symbol)
EXTREMES = {"MAX": np.maximum, "MIN": np.minimum}
NONE = {"SUM": 0, "SQUARES": 0, "MAX": -np.inf, "MIN": np.inf}


def added_in_order(x: np.ndarray) -> np.ndarray:
    """Sum over rows in the contract's order, in the type of the arithmetic."""
    x = x.astype(computed(x.dtype))
    total = np.zeros(x.shape[1], x.dtype)
    with np.errstate(invalid="ignore"):
        for block in (x[i : i + 64] for i in range(0, len(x), 64)):
            chains = [np.zeros(x.shape[1], x.dtype) for _ in range(4)]
            for i, row in enumerate(block):
                chains[i % 4] += row
            total += (chains[0] + chains[1]) + (chains[2] + chains[3])
    return total


def assert_reduced(got: np.ndarray, x: np.ndarray, axis: int, kind: str, held=None) -> None:
    """Compare with a wider type; extremes are exact."""
    wide = x.astype(np.longdouble)
    with np.errstate(invalid="ignore"):
        if kind in EXTREMES:
            expected = EXTREMES[kind].reduce(x, axis=axis, initial=NONE[kind])
            expected = expected if held is None else EXTREMES[kind](expected, held)
            np.testing.assert_array_equal(got, expected)
            return
        terms = wide * wide if kind == "SQUARES" else wide
        expected, size = terms.sum(axis=axis), np.abs(terms).sum(axis=axis)
        if held is not None:
            expected, size = expected + held, size + np.abs(held)
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(got[~finite], expected[~finite].astype(got.dtype))
    info, eps = np.finfo(got.dtype), np.finfo(computed(x.dtype)).eps
    # A chain has at most 16 of the 64 terms of a block; there are count / 64 blocks.
    count = x.shape[axis]
    allowed = eps * (20 + count / 64) * size[finite] + info.eps * np.abs(expected[finite])
    # A sum of halves may be a subnormal half.
    allowed = allowed + float(info.smallest_subnormal)
    assert (np.abs(got[finite] - expected[finite]) <= allowed).all()


def reduce(checker, row, rng, x: np.ndarray, kind: str, held=None) -> np.ndarray:
    """Reduce a copy of `x` along the kernel's axis, beginning with `held` if it is given."""
    call = PackingCall(checker, row, rng)
    size, (rows, columns) = call.dtype.itemsize, x.shape
    src_rs = (columns + int(rng.integers(0, 5)) * int(rng.integers(0, 2))) * size
    call.place_input("src", x.shape, (src_rs, size))[...] = x
    call.values |= {"src_rs": src_rs, "rows": rows, "columns": columns, "kind": REDUCTIONS[kind]}
    if row["op"] == "reduce_rows":
        dst = call.place_output("dst", (columns,), (size,))
        call.values["flags"] = 0 if held is None else FLAGS["ACCUMULATE"]
    else:
        call.values["dst_rs"] = int(rng.integers(1, 4)) * size
        dst = call.place_output("dst", (rows,), (call.values["dst_rs"],))
    if held is not None:
        dst[...] = held
    return call.run((kind, x.shape))


@rows_kernels
@every_kind
def test_rows_tails(checker, row, kind, rng):
    """Every number of columns; numbers of rows around the chains and blocks of the sum."""
    dtype, lanes = DTYPES[row["dtype"]], computed_lanes_of(row)
    more = [vectors * lanes + i for vectors in (3, 4, 5, 9) for i in (-1, 0, 1)]
    for columns in (*range(1, 2 * lanes + 4), *more):
        x = draw(rng, "special", (int(rng.integers(1, 12)), columns), dtype)
        assert_reduced(reduce(checker, row, rng, x, kind), x, 0, kind)
        held = draw(rng, "special", (columns,), dtype)
        assert_reduced(reduce(checker, row, rng, x, kind, held), x, 0, kind, held)
    for count in (*range(1, 10), 63, 64, 65, 66, 67, 128, 131, 300):
        x = draw(rng, "special", (count, int(rng.integers(1, 5 * lanes))), dtype)
        assert_reduced(reduce(checker, row, rng, x, kind), x, 0, kind)


@rows_kernels
def test_rows_are_added_in_the_order_of_the_contract(checker, row, rng):
    """The order depends neither on the vector's width nor on the column."""
    dtype = DTYPES[row["dtype"]]
    for count in (1, 3, 4, 7, 64, 65, 200, 1000):
        x = draw(rng, "random", (count, 5 * computed_lanes_of(row) + 3), dtype)
        expected = added_in_order(x)
        got = reduce(checker, row, rng, x, "SUM")
        np.testing.assert_array_equal(got, expected.astype(dtype))
        held = draw(rng, "random", (x.shape[1],), dtype)
        got = reduce(checker, row, rng, x, "SUM", held)
        np.testing.assert_array_equal(got, (expected + held).astype(dtype))


@rows_kernels
@every_kind
def test_of_no_rows(checker, row, kind, rng):
    dtype = DTYPES[row["dtype"]]
    nothing = np.zeros((0, 2 * computed_lanes_of(row) + 1), dtype)
    got = reduce(checker, row, rng, nothing, kind)
    np.testing.assert_array_equal(got, np.full(nothing.shape[1], NONE[kind], dtype))
    assert not np.signbit(got).any() or kind == "MAX"
    held = draw(rng, "special", (nothing.shape[1],), dtype)
    np.testing.assert_array_equal(reduce(checker, row, rng, nothing, kind, held), held)
    checker.call(
        row,
        {"src_rs": 0, "rows": 3, "columns": 0, "kind": REDUCTIONS[kind], "flags": 0},
        "no columns",
    )


@columns_kernels
@every_kind
def test_columns_tails(checker, row, kind, rng):
    """Every number of columns around the vectors of a loop turn, and around a block."""
    dtype, lanes = DTYPES[row["dtype"]], computed_lanes_of(row)
    more = [vectors * lanes + i for vectors in (*range(2, 18), 63, 64, 65, 130) for i in (-1, 0, 1)]
    for columns in (*range(1, 2 * lanes + 4), *more):
        x = draw(rng, "special", (int(rng.integers(1, 5)), columns), dtype)
        assert_reduced(reduce(checker, row, rng, x, kind), x, 1, kind)


@columns_kernels
@every_kind
def test_of_no_columns(checker, row, kind, rng):
    dtype = DTYPES[row["dtype"]]
    got = reduce(checker, row, rng, np.zeros((3, 0), dtype), kind)
    np.testing.assert_array_equal(got, np.full(3, NONE[kind], dtype))


@pytest.mark.parametrize("axis", [0, 1])
@every_kernel
def test_nan_wins_wherever_it_is(checker, row, axis, rng):
    """A single NaN, in each lane and in each turn of the loops."""
    lanes = computed_lanes_of(row)
    along = 0 if row["op"] == "reduce_rows" else 1
    shape = (12, 3) if axis == 0 else (3, 9 * lanes + 1)
    for at in range(shape[axis]):
        for kind in EXTREMES:
            x = draw(rng, "random", shape, DTYPES[row["dtype"]])
            x[(at, 1) if axis == 0 else (1, at)] = np.nan
            assert_reduced(reduce(checker, row, rng, x, kind), x, along, kind)


@every_kernel
def test_long_sums(checker, row, rng):
    """Sums of many positive numbers have errors of at most ten eps: roundings do not pile up."""
    dtype = DTYPES[row["dtype"]]
    count = 3000 if dtype == np.float16 else 30000
    x = rng.uniform(0, 1, (count, 3)).astype(dtype)
    x = x if row["op"] == "reduce_rows" else np.ascontiguousarray(x.T)
    got = reduce(checker, row, rng, x, "SUM")
    expected = x.astype(np.longdouble).sum(axis=0 if row["op"] == "reduce_rows" else 1)
    assert (np.abs(got / expected - 1) <= 10 * np.finfo(dtype).eps).all()
