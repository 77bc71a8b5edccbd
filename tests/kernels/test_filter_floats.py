"""Filters of floating point, against NumPy in float64."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.kernel_table import DTYPES, every_row, symbol
from tests.kernels.rows_call import Call

every_kernel = pytest.mark.parametrize("row", every_row("filter_floats"), ids=symbol)


def filtered(checker, row, rng, rows, weights, places, count, stream=0):
    """Run the kernel on rows of elements between guard pages; give its rows of results.

    Each weight has a row and a column: `places` are of the columns. Of a tuple, weights are those
    of a column and of a row.
    """
    down = None
    if isinstance(weights, tuple):
        down, weights = weights[0], np.broadcast_to(weights[1], (len(weights[0]), len(places)))
    element = DTYPES[row["dtype"]]
    call = Call(checker, row, rng)
    rows = call.put("elements", rows.astype(element), (rows.shape[1] + 3) * element.itemsize)
    addresses = rows.ctypes.data + rows.strides[0] * np.arange(len(rows))
    call.put("rows", addresses.astype(np.int64).reshape(1, -1), 0)
    call.put("places", (places * element.itemsize).astype(np.int64).reshape(1, -1), 0)
    if down is None:
        call.put("weights", weights.astype(element).reshape(1, -1), 0)
        call.values["down"] = 0
    else:
        call.put("weights", weights[:1].astype(element), 0)
        call.put("down", down.astype(element).reshape(1, -1), 0)
    lines = len(rows) - len(weights) + 1
    pitch = count + int(rng.integers(5)) if not stream else -(-count // 16) * 16
    call.put(
        "dst", np.full((lines, count), np.nan, element), pitch * element.itemsize, writable=True
    )
    return call.run(
        lines=lines, tap_rows=len(weights), across=len(places), count=count, stream=stream
    )


def windows_of(rows, weights, places, count):
    """Give what each weight sees, for each row of results: (rows, columns, lines, count)."""
    lines = len(rows) - len(weights) + 1
    return np.stack([
        np.stack([rows[r : r + lines, at : at + count] for at in places.tolist()])
        for r in range(len(weights))
    ])  # fmt: skip


@every_kernel
def test_sums(checker, row, rng):
    """Every tail of up to a vector and around many, of taps in any places; integers are exact."""
    lanes = row["lanes"]
    ends = [n * lanes + more for n in (1, 2, 7, 8, 11, 17) for more in (-1, 0, 1, lanes // 2)]
    for count in (*range(1, lanes), *ends):
        across, tap_rows = rng.integers(1, 6, 2) if rng.random() < 0.7 else [rng.choice([3, 5])] * 2
        rows = rng.integers(-500, 500, (int(rng.integers(1, 11)) + tap_rows - 1, count + 40))
        places = np.append(rng.integers(0, 41, across - 1), 40)
        weights = rng.integers(-300, 300, (tap_rows, across))
        given = weights
        if rng.random() < 0.5:
            given = rng.integers(-15, 15, tap_rows), rng.integers(-15, 15, across)
            weights = np.outer(*given)
        seen = windows_of(rows, weights, places, count)
        expected = np.einsum("rt,rtlc->lc", weights, seen)
        stream = int(rng.integers(2))
        found = filtered(checker, row, rng, rows, given, places, count, stream)
        np.testing.assert_array_equal(found, expected)


@every_kernel
@pytest.mark.parametrize("lines", range(1, 10))
def test_rows_have_the_same_bits(checker, row, rng, lines):
    """A row of results does not depend on how many are made together, or past the caches."""
    count = 9 * row["lanes"] + 5
    for tap_rows, across in (*((side, 3) for side in range(1, 7)), (5, 5)):
        places = 2 * np.arange(across)
        rows = rng.standard_normal((lines + tap_rows - 1, count + 8))
        weights = rng.standard_normal((tap_rows, across))
        together = filtered(checker, row, rng, rows, weights, places, count)
        past = filtered(checker, row, rng, rows, weights, places, count, 1)
        np.testing.assert_array_equal(past, together)
        for line in range(lines):
            seen = rows[line : line + tap_rows]
            alone = filtered(checker, row, rng, seen, weights, places, count)
            np.testing.assert_array_equal(together[line], alone[0])


@every_kernel
@pytest.mark.parametrize("side", [3, 4, 5])
def test_products_have_the_bits_of_two_passes(checker, row, rng, side):
    """Sums of rows are rounded, then those of columns; not all of them lie in whole vectors."""
    element, lines = DTYPES[row["dtype"]], 7
    places = 3 * np.arange(side)
    for count in (row["lanes"] - 1, 6 * row["lanes"] + 3):
        rows = rng.standard_normal((lines + side - 1, count + 3 * side)).astype(element)
        down, across = rng.standard_normal((2, side)).astype(element)
        found = filtered(checker, row, rng, rows, (down, across), places, count)
        sums = filtered(checker, row, rng, rows, across[None], places, count)
        expected = filtered(checker, row, rng, sums, down[:, None], places[:1], count)
        np.testing.assert_array_equal(found, expected)


@every_kernel
def test_rounding(checker, row, rng):
    """Each product and each sum is rounded at most once; NaN stays where it is seen."""
    count, places = 5 * row["lanes"] + 3, np.array([0, 3, 3, 7])
    rows, weights = rng.standard_normal((6, count + 7)), rng.standard_normal((2, 4))
    element = DTYPES[row["dtype"]]
    rows, weights = (x.astype(element).astype(np.float64) for x in (rows, weights))
    rows[2, 9], rows[3, -2] = np.nan, np.inf
    weights[1, 1:3] = 0
    found = filtered(checker, row, rng, rows, weights, places, count)
    windows = windows_of(rows, weights, places, count)
    with np.errstate(invalid="ignore"):
        expected = (weights[..., None, None] * windows).sum((0, 1))
    sizes = np.einsum("rt,rtlc->lc", abs(weights), abs(np.nan_to_num(windows, posinf=0)))
    normal = np.isfinite(expected)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    np.testing.assert_array_equal(found[np.isinf(expected)], expected[np.isinf(expected)])
    errors = abs(found[normal] - expected[normal])
    assert (errors <= 16 * np.finfo(element).eps * sizes[normal]).all()
