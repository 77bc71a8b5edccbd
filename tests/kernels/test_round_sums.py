"""Sums to integers: rounded half to even, saturated; those within the error of a tie are listed."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.kernel_table import DTYPES, every_row, symbol
from tests.kernels.rows_call import Call

every_kernel = pytest.mark.parametrize("row", every_row("round_sums"), ids=symbol)
INTEGERS = [np.uint8, np.int8, np.uint16, np.int16]
every_integer = pytest.mark.parametrize("integer", INTEGERS)
UNTOUCHED = -7


def bounds(sums, error, low, high):
    """Give the smallest and the largest integer within the error; each operation rounds once."""
    with np.errstate(over="ignore", invalid="ignore"):
        return [np.rint(np.clip(x, low, high)) for x in (sums - error, sums + error)]


NO_ROWS = {"pixels_rs": 0, "step": 1, "rows": 0, "columns": 0}


def rounded(checker, row, rng, integer, sums, parameters, **window):
    """Call the kernel; give the integers and the list of open results.

    `window`: step, pixels, shape of the taps, and `again`, as in the contract.
    """
    element, count = DTYPES[row["dtype"]], len(sums)
    call = Call(checker, row, rng)
    call.put("src", sums.astype(element).reshape(1, -1), 0)
    call.put("parameters", np.array([parameters], element), 0)
    shape = NO_ROWS
    if window:
        pixels, (rows, columns) = window["pixels"], window["shape"]
        stride = (pixels.shape[1] + int(rng.integers(0, 5))) * element.itemsize
        call.put("pixels", pixels.astype(element), stride)
        call.put("again", np.array([window["again"]], np.float64), 0)
        shape = {"step": window["step"], "rows": rows, "columns": columns}
    listed = call.put("open", np.full((1, count), UNTOUCHED), 0, writable=True)
    found = call.put("open_count", np.full((1, 1), UNTOUCHED), 0, writable=True)
    call.put("dst", np.full((1, count), 0x55, integer), 0, writable=True)
    got = call.run(count=count, size=integer(0).itemsize, **shape)[0]
    assert (listed[0, found[0, 0] :] == UNTOUCHED).all()
    return got, listed[0, : found[0, 0]]


def assert_rounded(found, expected, is_open) -> None:
    """Compare integers and list."""
    got, listed = found
    np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(listed, np.flatnonzero(is_open))


def judge(checker, row, rng, sums, error, integer):
    """Round sums, and compare results and the list with NumPy."""
    limits = np.iinfo(integer)
    parameters = np.array([error, limits.min, limits.max, 0, 0], DTYPES[row["dtype"]])
    low, high = bounds(sums, *parameters[:3])
    expected = np.where(low != high, limits.min, low).astype(integer)
    assert_rounded(rounded(checker, row, rng, integer, sums, parameters), expected, low != high)


@every_kernel
@every_integer
def test_every_tail(checker, row, integer, rng):
    """Every tail of a vector, and of the vectors between two checks for open results."""
    limits, lanes = np.iinfo(integer), row["lanes"]
    for count in (*range(1, 3 * lanes), *range(15 * lanes, 18 * lanes), 33 * lanes + 1):
        sums = rng.uniform(1.2 * limits.min - 40, 1.2 * limits.max, count)
        sums = np.where(rng.random(count) < 0.3, np.rint(2 * sums) / 2, sums)
        error = float(rng.choice([0.0, 1e-4, 0.01, 0.4]))
        judge(checker, row, rng, sums.astype(DTYPES[row["dtype"]]), error, integer)


@every_kernel
@every_integer
def test_ties_and_what_is_beyond_the_limits(checker, row, integer, rng):
    """Ties between all neighbours, without and with an error; infinities; NaN."""
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


def halved(sums, divisor):
    """Divide integers: the rounded-down quotient, and twice the remainder less the divisor."""
    below = np.floor_divide(sums, divisor)
    return below, 2 * (sums - below * divisor) - divisor


@every_kernel
@every_integer
@pytest.mark.parametrize("direction", [-1, 0, 1, 2])
def test_division(checker, row, integer, direction, rng):
    """Ties are rounded in the given direction, or listed; other sums go to the nearest."""
    limits, lanes = np.iinfo(integer), row["lanes"]
    for count in (*range(1, 2 * lanes + 2, 3), 16 * lanes + 3):
        # Divisors so large that sums just stay below 2**24.
        odd = int(rng.integers(1, min(1 << 18, (1 << 24) // (limits.max + 4))))
        divisor = int(rng.choice([1, 2, 6, 9, 10, 36, 100, odd, odd // 2 * 2 + 2]))
        sums = rng.integers(divisor * (limits.min - 2), divisor * (limits.max + 3), count)
        twice = rng.integers(limits.min - 1, limits.max + 1, count) * 2 + 1
        sums = np.where(rng.random(count) < 0.5, twice * divisor // 2, sums)
        below, side = halved(sums, divisor)
        half = {0: False, 2: below % 2 != 0}.get(direction, direction * sums > 0)
        up = (side > 0) | ((side == 0) & half)
        is_open = (direction == 0) & (side == 0) & (below >= limits.min) & (below < limits.max)
        expected = np.clip(below + up, limits.min, limits.max).astype(integer)
        parameters = 0, limits.min, limits.max, divisor, direction
        found = rounded(checker, row, rng, integer, sums, parameters)
        assert_rounded(found, expected, is_open)


def windows_of(pixels, count, columns, step):
    """Give the windows of `count` sums: (count, rows, columns)."""
    return np.stack([pixels[:, i : i + (columns - 1) * step + 1 : step] for i in range(count)])


def judge_again(checker, row, rng, *, sums, tie, pixels, taps, step, error, divided, integer):
    """Round sums, some of them ties, which are computed once more from their windows."""
    limits = np.iinfo(integer)
    windows = windows_of(pixels, len(sums), taps.shape[1], step)
    # Sums of whole numbers and halves are exact in any order.
    again = (windows * taps).sum((1, 2))
    if divided:
        sums = 2 * sums + tie
        below, _ = halved(sums, 2)
        even = (error == 0) & (again == 0)
        is_open = tie & (np.abs(again) <= error) & ~even
        up = np.where(even, below % 2 != 0, again > error)
        expected = below + (tie & ~is_open & up)
        parameters = 0, limits.min, limits.max, 2, 0
    else:
        low, high = bounds(again, error, limits.min, limits.max)
        is_open = tie & (low != high)
        expected = np.where(tie, np.where(is_open, limits.min, low), sums)
        sums = np.where(tie, sums + 0.5, sums)
        parameters = 0.125, limits.min, limits.max, 0, 0
    window = {
        "step": step,
        "pixels": pixels,
        "shape": taps.shape,
        "again": (error, 0, *taps.ravel()),
    }
    found = rounded(checker, row, rng, integer, sums, parameters, **window)
    assert_rounded(found, expected.astype(integer), is_open)


@every_kernel
@every_integer
@pytest.mark.parametrize("divided", [False, True])
def test_what_is_open_is_computed_once_more(checker, row, integer, divided, rng):
    """Windows of every size, neighbouring pixels or not; few or many open results in a vector."""
    limits = np.iinfo(integer)
    for columns in range(1, 9):
        step, rows = int(rng.choice([1, 3])), int(rng.integers(1, 4))
        count = int(rng.integers(1, 3 * row["lanes"] + 2))
        judge_again(
            checker, row, rng,
            sums=rng.integers(max(limits.min, -99), 99, count),
            tie=rng.random(count) < rng.choice([0.1, 0.8]),
            pixels=rng.integers(-2, 3, (rows, count + (columns - 1) * step)),
            taps=rng.integers(-3, 4, (rows, columns)) / 2,
            step=step, error=float(rng.choice([0.0, 0.25, 0.75])), divided=divided,
            integer=integer,
        )  # fmt: skip


@every_kernel
@every_integer
@pytest.mark.parametrize("divided", [False, True])
def test_digits_tell_the_side_of_half_way(checker, row, integer, divided, rng):
    """Taps are halves plus parts smaller than the error, which decide; or the tie goes to even."""
    limits, lanes = np.iinfo(integer), row["lanes"]
    for rows, columns in ((1, 1), (1, 3), (2, 2), (4, 9)):
        step, count = int(rng.choice([1, 3])), int(rng.integers(1, 3 * lanes + 2))
        pixels = rng.integers(-2, 3, (rows, count + (columns - 1) * step))
        halves = rng.integers(-3, 4, (rows, columns))
        tiny = rng.integers(-(2**15), 2**15, (rows, columns)) * (rng.random((rows, 1)) < 0.7)
        windows = windows_of(pixels, count, columns, step)
        # In units of 2**-50.
        rest = (windows * tiny).sum((1, 2))
        is_open = rng.random(count) < rng.choice([0.1, 0.9])
        below = rng.integers(limits.min, limits.max, count)
        if divided:
            sums, taps, parameters = 2 * below + is_open, 0 * halves, (0, limits.min, limits.max, 2)
            twice = 2 * below + 1
        else:
            sums, taps = below + 0.5 * is_open, halves / 2
            parameters = 0.125, limits.min, limits.max, 0
            twice = (windows * halves).sum((1, 2))
        lower = twice >> 1
        up = (twice % 2 == 1) & ((rest > 0) | ((rest == 0) & (lower % 2 == 1)))
        expected = np.where(is_open, np.clip(lower + up, limits.min, limits.max), below)
        low = (tiny + 128) % 256 - 128
        digits = [2.0**-42, *(low * 2.0**-50).ravel()]
        digits += [2.0**-24, *((tiny - low) * 2.0**-50).ravel()]
        window = {"step": step, "pixels": pixels, "shape": (rows, columns)}
        window["again"] = (2.0**-27, 2, *taps.ravel(), *digits)
        found = rounded(checker, row, rng, integer, sums, (*parameters, 0), **window)
        assert_rounded(found, expected.astype(integer), np.zeros(count))


@every_kernel
@pytest.mark.parametrize("divided", [False, True])
def test_windows_that_repeat_have_the_same_results(checker, row, divided, rng):
    """Patterns whose period divides a vector, disturbed in some pixels or sums."""
    for _ in range(12):
        columns, step = int(rng.integers(1, 6)), int(rng.choice([1, 3]))
        rows, count = int(rng.integers(1, 4)), int(rng.integers(1, 9 * row["lanes"] * step))
        period = int(rng.choice([1, 2, row["lanes"]])) * step
        at = np.arange(count + (columns - 1) * step)
        pixels = rng.integers(-2, 3, (rows, period))[:, at % period]
        sums = rng.integers(-9, 10, period)[at[:count] % period]
        tie = (rng.random(period) < 0.8)[at[:count] % period]
        for numbers in (*pixels, sums):
            numbers[rng.random(numbers.size) < rng.choice([0.0, 0.01, 0.1])] += 1
        taps = rng.integers(-3, 4, (rows, columns)) / 2
        # With an error some results are open; repeated windows must not copy those.
        judge_again(
            checker, row, rng, sums=sums, tie=tie, pixels=pixels, taps=taps, step=step,
            error=float(rng.choice([0.0, 0.25])), divided=divided, integer=np.int32,
        )  # fmt: skip


@pytest.mark.parametrize(
    "row", [row for row in every_row("round_sums") if row["dtype"] == "f64"], ids=symbol
)
def test_integers_of_32_bits(checker, row, rng):
    """Sums in double can hold all integers of 32 bits."""
    edges = [2.0**31 - 0.5, 2.0**31, -(2.0**31) - 0.5, -(2.0**31) - 1, 2.0**31 - 1.5, 1e30, -1e30]
    sums = np.concatenate([edges, rng.uniform(-(2.0**32), 2.0**32, 3 * row["lanes"])])
    judge(checker, row, rng, sums, 0.0, np.int32)
    judge(checker, row, rng, np.rint(sums) + 0.5, 0.01, np.int32)


@every_kernel
def test_no_sums(checker, row):
    call = Call(checker, row, np.random.default_rng(1))
    call.put("parameters", np.zeros((1, 5), DTYPES[row["dtype"]]), 0)
    call.put("open_count", np.full((1, 1), UNTOUCHED), 0, writable=True)
    assert call.run(count=0, size=1, **NO_ROWS) == 0


@every_kernel
@pytest.mark.parametrize("divisor", [3, 9, 20, 25, 28, 49, 225])
@pytest.mark.parametrize("direction", [-1, 1])
def test_every_quotient_of_16_bits(checker, row, rng, divisor, direction):
    """Up to beyond the largest result: the nearest integer, a half downwards or upwards."""
    most = divisor * 65540 if divisor < 200 else 1 << 20
    some = np.unique(rng.integers(-5 * divisor, most, 60_000))
    near = (np.arange(0, 65540, 7)[:, None] * divisor + divisor // 2 + np.arange(2)).ravel()
    sums = np.concatenate([some, near[near < most]])
    below, rest = np.divmod(np.abs(sums), divisor)
    up = 2 * rest > divisor if direction < 0 else 2 * rest >= divisor
    expected = np.clip(np.sign(sums) * (below + up), 0, 65535)
    parameters = (0, 0, 65535, divisor, direction)
    got, listed = rounded(checker, row, rng, np.uint16, sums, parameters)
    np.testing.assert_array_equal(got, expected)
    assert not len(listed)
