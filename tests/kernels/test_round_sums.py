"""Sums as integers: rounded half to even, saturated, and those listed that an error leaves open."""

from __future__ import annotations

import numpy as np
import pytest

from kernel_table import DTYPES, every_row, symbol
from rows_call import Call

every_kernel = pytest.mark.parametrize("row", every_row("round_sums"), ids=symbol)
INTEGERS = [np.uint8, np.int8, np.uint16, np.int16]
every_integer = pytest.mark.parametrize("integer", INTEGERS)
UNTOUCHED = -7


def bounds(sums, error, low, high):
    """Give the least and the greatest integer within the error, each operation rounded once."""
    with np.errstate(over="ignore", invalid="ignore"):
        return [np.rint(np.clip(x, low, high)) for x in (sums - error, sums + error)]


def judge(checker, row, rng, sums, error, integer):
    """Round, and compare everything with NumPy."""
    limits, element = np.iinfo(integer), DTYPES[row["dtype"]]
    parameters = np.array([error, limits.min, limits.max], element)
    listed = np.full(max(sums.size, 1), UNTOUCHED, np.int64)
    call = Call(checker, row, rng)
    call.put("src", sums.reshape(1, -1), 0)
    call.put("parameters", parameters.reshape(1, -1), 0)
    listed = call.put("open", listed.reshape(1, -1), 0, writable=True)
    count = call.put("open_count", np.full((1, 1), UNTOUCHED, np.int64), 0, writable=True)
    call.put("dst", np.full((1, sums.size), 0x55, integer), 0, writable=True)
    got = call.run(count=sums.size, size=integer(0).itemsize)[0]
    low, high = bounds(sums, *parameters)
    is_open = low != high
    expected = np.where(is_open, limits.min, low).astype(integer)
    np.testing.assert_array_equal(got, expected)
    assert count[0, 0] == is_open.sum()
    np.testing.assert_array_equal(listed[0, : count[0, 0]], np.flatnonzero(is_open))
    assert (listed[0, count[0, 0] : sums.size] == UNTOUCHED).all()


@every_kernel
@every_integer
def test_every_tail(checker, row, integer, rng):
    """Of a vector, and of the vectors between two looks."""
    limits, lanes = np.iinfo(integer), row["lanes"]
    for count in (*range(1, 3 * lanes), *range(15 * lanes, 18 * lanes), 33 * lanes + 1):
        sums = rng.uniform(1.2 * limits.min - 40, 1.2 * limits.max, count)
        sums = np.where(rng.random(count) < 0.3, np.rint(2 * sums) / 2, sums)
        error = float(rng.choice([0.0, 1e-4, 0.01, 0.4]))
        judge(checker, row, rng, sums.astype(DTYPES[row["dtype"]]), error, integer)


@every_kernel
@every_integer
def test_ties_and_what_is_beyond_the_limits(checker, row, integer, rng):
    """Half way between all neighbours, without an error and with one; infinities; NaN."""
    limits = np.iinfo(integer)
    halves = np.arange(limits.min - 3, limits.max + 4) + 0.5
    halves = rng.choice(halves, 600, replace=False) if halves.size > 600 else halves
    edges = [limits.min - 0.5, limits.max + 0.5, 1e30, -1e30, np.inf, -np.inf, np.nan, -0.0]
    sums = np.concatenate([halves, edges]).astype(DTYPES[row["dtype"]])
    for error in (0.0, 0.01):
        judge(checker, row, rng, rng.permutation(sums), error, integer)


@every_kernel
def test_an_infinite_error_leaves_everything_open(checker, row, rng):
    sums = rng.standard_normal(100).astype(DTYPES[row["dtype"]])
    judge(checker, row, rng, sums, np.inf, np.int16)


@every_kernel
def test_no_sums(checker, row):
    values = dict.fromkeys(("src", "dst", "parameters", "open"), 8)
    count = (
        checker.arena("open_count", writable=True).buffer(8, "start", 0).array((1,), np.int64, (8,))
    )
    count[0] = UNTOUCHED
    parameters = checker.arena("parameters").buffer(24, "start", 0)
    values |= {"count": 0, "size": 1, "open_count": count.ctypes.data}
    values["parameters"] = parameters.address
    checker.call(row, values, "no sums")
    assert count[0] == 0
