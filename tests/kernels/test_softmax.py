"""Softmax and its logarithm: tails, errors, and rows without a result."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.kernel_table import DTYPES, computed_lanes_of, every_row, symbol
from tests.kernels.kernel_values import draw
from tests.kernels.packing_case import PackingCall

every_kernel = pytest.mark.parametrize("row", every_row("softmax"), ids=symbol)
logarithm_or_not = pytest.mark.parametrize("log", [0, 1])
# Largest error in units of eps times the exact value; of logarithms near zero, in units of eps.
ALLOWED = 4.0


def exact(x: np.ndarray, log: int) -> np.ndarray:
    """NumPy's formula in a wider type."""
    wide = x.astype(np.longdouble if x.dtype == np.float64 else np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        shifted = wide - wide.max(axis=1, keepdims=True)
        e = np.exp(shifted)
        total = e.sum(axis=1, keepdims=True)
        return shifted - np.log(total) if log else e / total


def assert_close(row: dict, got: np.ndarray, x: np.ndarray, log: int) -> None:
    """Fail unless NaN and infinities are at the expected places and other errors are in bounds."""
    expected = exact(x, log)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(expected))
    infinite = np.isinf(expected)
    np.testing.assert_array_equal(got[infinite], expected[infinite].astype(got.dtype))
    finite = np.isfinite(expected)
    info = np.finfo(got.dtype)
    size = np.abs(expected[finite])
    with np.errstate(invalid="ignore"):
        error = np.abs(got[finite] - expected[finite])
    # Results below the normal numbers may be off by two subnormal steps, or be flushed to zero.
    least = info.tiny if row["isa"] == "neon32" else 2 * info.smallest_subnormal
    allowed = ALLOWED * info.eps * (np.maximum(size, 1) if log else size) + float(least)
    worst = int((error - allowed).argmax()) if error.size else 0
    assert (error <= allowed).all(), (
        f"{row['symbol']}: {got[finite][worst]!r}, expected {expected[finite][worst]!r} "
        f"of {x[finite][worst]!r}"
    )


def softmax(checker, row, rng, x: np.ndarray, log: int, *, in_place: bool = False) -> np.ndarray:
    """Run the kernel on a copy of `x`."""
    call = PackingCall(checker, row, rng)
    call.place_rows(x, in_place=in_place)
    call.values["log"] = log
    return call.run((log, x.shape))


@every_kernel
@logarithm_or_not
def test_tails(checker, row, log, rng):
    """Every number of columns around a few vectors, and around a block of them."""
    dtype = DTYPES[row["dtype"]]
    lanes = computed_lanes_of(row)
    more = [vectors * lanes + i for vectors in (3, 4, 8, 64, 65) for i in (-1, 0, 1)]
    for columns in (*range(1, 2 * lanes + 4), *more):
        x = (3 * draw(rng, "random", (int(rng.integers(1, 5)), columns), dtype)).astype(dtype)
        for in_place in (False, True):
            got = softmax(checker, row, rng, x, log, in_place=in_place)
            assert_close(row, got, x, log)


@every_kernel
@logarithm_or_not
@pytest.mark.parametrize("depth", [1, 10, 60, 90, 120, 800, 1e4])
def test_errors(checker, row, log, depth, rng):
    """Ranges of up to where results underflow, with maxima far from zero, too."""
    dtype = DTYPES[row["dtype"]]
    for top in (0, 37.3, -54.4, 300):
        x = (top - rng.uniform(0, depth, (6, 500))).astype(dtype)
        assert_close(row, softmax(checker, row, rng, x, log), x, log)
    x = (-rng.uniform(0, depth, (1, 9000))).astype(dtype)
    assert_close(row, softmax(checker, row, rng, x, log), x, log)


@every_kernel
@logarithm_or_not
def test_one_stands_out(checker, row, log, rng):
    """The logarithm of the sum depends on the other elements' small exponentials."""
    dtype = DTYPES[row["dtype"]]
    for gap in (1, 5, 10, 20):
        x = np.full((1, 1000), -gap, dtype)
        x[0, int(rng.integers(0, 1000))] = 0
        assert_close(row, softmax(checker, row, rng, x, log), x, log)


@every_kernel
@logarithm_or_not
def test_equal_elements(checker, row, log, rng):
    """Probabilities are 1 / n; a single element has probability 1 and logarithm 0."""
    dtype = DTYPES[row["dtype"]]
    for columns in (1, 2, 3, 100, 4096, 5000):
        for value in (0, -7.5, np.finfo(dtype).max, -np.finfo(dtype).max):
            x = np.full((2, columns), value, dtype)
            got = softmax(checker, row, rng, x, log)
            assert_close(row, got, x, log)
            if columns == 1:
                assert (got == (0 if log else 1)).all()


@every_kernel
@logarithm_or_not
def test_rows_without_a_result(checker, row, log, rng):
    """Rows with NaN or inf, or of -inf only, become NaN; -inf among numbers has probability 0."""
    dtype = DTYPES[row["dtype"]]
    for columns in (1, 3, 40, 200):
        x = draw(rng, "random", (6, columns), dtype)
        at = int(rng.integers(0, columns))
        x[0, at], x[1, at], x[2] = np.nan, np.inf, -np.inf
        x[3, at] = -np.inf
        x[4, ::2] = -np.finfo(dtype).max
        got = softmax(checker, row, rng, x, log)
        assert np.isnan(got[:3]).all()
        assert_close(row, got, x, log)
