"""Sums of bytes over rows: every tail, gaps between rows, whole and partial blocks of rows."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.kernel_table import DTYPES, every_row, symbol
from tests.kernels.rows_call import Call
from tests.kernels.test_quantize import columns_of

every_kernel = pytest.mark.parametrize("row", every_row("sum_bytes"), ids=symbol)


def sums_of(checker, row, rng, x):
    """Call the kernel; the result was full of something else."""
    call = Call(checker, row, rng)
    call.put("src", x, x.shape[1] + int(rng.integers(0, 9)))
    call.put("dst", np.full((1, x.shape[1]), 0x5A5A5A5A, np.int32), 0, writable=True)
    return call.run(rows=x.shape[0], columns=x.shape[1])[0]


@every_kernel
def test_every_tail(checker, row, rng):
    info = np.iinfo(DTYPES[row["dtype"]])
    for columns in columns_of(row):
        rows = int(rng.choice([1, 2, 63, 64, 65, 130]))
        x = rng.integers(info.min, info.max, (rows, columns), info.dtype, endpoint=True)
        np.testing.assert_array_equal(sums_of(checker, row, rng, x), x.sum(axis=0, dtype=np.int64))


@every_kernel
def test_the_largest_sums(checker, row, rng):
    """As many rows of the ends of the type as float32 holds exactly."""
    info = np.iinfo(DTYPES[row["dtype"]])
    for end in (info.min, info.max):
        x = np.full((65000, 3), end, info.dtype)
        got = sums_of(checker, row, rng, x)
        np.testing.assert_array_equal(got, np.full(3, 65000 * int(end)))
