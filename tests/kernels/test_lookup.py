"""Bytes by a table: every byte, every tail, in place or elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.kernel_table import every_row, symbol
from tests.kernels.rows_call import Call

every_kernel = pytest.mark.parametrize("row", every_row("lookup"), ids=symbol)


def placed(checker, row, rng, table, shape):
    """A call whose table and output are in memory of their own."""
    call = Call(checker, row, rng)
    call.put("table", table.reshape(1, -1), 0)
    gap = int(rng.integers(0, 9))
    call.put("dst", np.full(shape, 0xA5, np.uint8), shape[1] + gap, writable=True)
    return call


@every_kernel
def test_every_tail(checker, row, rng):
    step = row["vector_bytes"]
    for columns in (*range(1, 2 * step + 2), 3 * step, 5 * step + 1):
        shape = int(rng.integers(1, 5)), columns
        table = rng.permutation(256).astype(np.uint8)
        x = rng.integers(0, 256, shape, np.uint8)
        call = placed(checker, row, rng, table, shape)
        call.put("src", x, columns + int(rng.integers(0, 9)))
        got = call.run(rows=shape[0], columns=columns)
        np.testing.assert_array_equal(got, table[x], str(columns))


@every_kernel
def test_every_byte_in_every_place(checker, row, rng):
    """Each of the 256 bytes at each place of a vector; the table is a permutation of them."""
    step = row["vector_bytes"]
    x = (np.arange(256)[:, np.newaxis] + np.arange(step)).astype(np.uint8)
    table = rng.permutation(256).astype(np.uint8)
    call = placed(checker, row, rng, table, x.shape)
    call.put("src", x, step)
    np.testing.assert_array_equal(call.run(rows=256, columns=step), table[x])


@every_kernel
def test_in_place(checker, row, rng):
    table = rng.integers(0, 256, 256, np.uint8)
    x = rng.integers(0, 256, (3, 200), np.uint8)
    call = placed(checker, row, rng, table, x.shape)
    call.view[...] = x
    call.values |= {"src": call.values["dst"], "src_rs": call.values["dst_rs"]}
    np.testing.assert_array_equal(call.run(rows=3, columns=200), table[x])
