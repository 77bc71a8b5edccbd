"""Products, sums and bounds on the way to bytes: every tail, every kind of operand."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from asm.contract import FLAGS
from asm.contract.constants import OPERANDS
from pplconv.network.operators.elementwise_steps import numbers_of
from tests.kernels.kernel_table import DTYPES, every_row, symbol
from tests.kernels.rows_call import Call
from tests.kernels.test_quantize import columns_of, dequantized, draw_zero, quantized

ROWS = every_row("rescale")
every_kernel = pytest.mark.parametrize("row", ROWS, ids=symbol)
NONE, ONE, COLUMNS, BYTES = (OPERANDS[name] for name in ("NONE", "ONE", "COLUMNS", "BYTES"))
KINDS = [
    case
    for case in itertools.product((COLUMNS, BYTES), OPERANDS.values(), OPERANDS.values())
    if any(case[1:])
]


def put_operand(call, name, kind, shape, rng, repeats=False, gap=0):
    """Place an operand, and give its numbers in float32."""
    call.values |= {f"{name}_kind": kind, f"{name}_rs": 0}
    if kind == NONE:
        return None
    rows, columns = (1 if repeats else shape[0]), (1 if kind == ONE else shape[1])
    if kind != BYTES:
        x = rng.standard_normal((rows, columns)).astype(np.float32) * 3
        call.put(name, x, 0 if repeats else 4 * (columns + gap))
        return x
    info = np.iinfo(DTYPES[call.row["dtype"]])
    x = rng.integers(info.min, info.max, shape, info.dtype, endpoint=True)
    call.put(name, x, columns + gap)
    scale, zero = np.float32(rng.uniform(0.01, 0.1)), int(draw_zero(rng, call.row["dtype"], 1)[0])
    call.put(f"{name}_numbers", numbers_of(scale, zero).buffer.array.reshape(1, -1), 0)
    return dequantized(x, scale, zero)


def check(checker, row, rng, shape, kinds, *, clips=False, repeats=False, gaps=True, scale=None):
    """Call the kernel, and compare with one step after the other."""
    call = Call(checker, row, rng)
    gap = [int(rng.integers(0, 9)) * gaps for _ in range(4)]
    src = put_operand(call, "src", kinds[0], shape, rng, repeats == "all", gap[0])
    factor = put_operand(call, "factor", kinds[1], shape, rng, repeats, gap[1])
    addend = put_operand(call, "addend", kinds[2], shape, rng, repeats, gap[2])
    scale = np.float32(rng.uniform(0.01, 0.2) if scale is None else scale)
    zero = draw_zero(rng, row["dtype"], 1)
    call.put("scale", np.full((1, 1), scale, np.float32), 0)
    call.put("zero", zero.reshape(1, 1), 0)
    want = src if factor is None else src * factor
    want = want if addend is None else want + addend
    if clips:
        low, high = np.float32([-1.5, 2.25])
        call.put("low", np.full((1, 1), low), 0)
        call.put("high", np.full((1, 1), high), 0)
        want = np.minimum(np.maximum(want, low), high)
    empty = np.full(shape, 0x55, DTYPES[row["dtype"]])
    call.put("dst", empty, shape[1] + gap[3], writable=True)
    got = call.run(rows=shape[0], columns=shape[1], flags=FLAGS["CLIP"] if clips else 0)
    np.testing.assert_array_equal(got, quantized(row["dtype"], want, scale, zero), f"{kinds}")


@every_kernel
@pytest.mark.parametrize("kinds", KINDS, ids=str)
def test_every_kind_of_operand(checker, row, kinds, rng):
    lanes = row["vector_bytes"] // 4
    for columns in (1, lanes + 3, 4 * lanes, 5 * lanes - 1):
        shape = int(rng.integers(1, 4)), columns
        check(checker, row, rng, shape, kinds, clips=bool(rng.integers(2)))


@every_kernel
def test_every_tail(checker, row, rng):
    for columns in columns_of(row):
        for kinds in ((BYTES, COLUMNS, NONE), (COLUMNS, COLUMNS, COLUMNS), (BYTES, NONE, BYTES)):
            check(checker, row, rng, (2, columns), kinds, clips=True)


@every_kernel
@pytest.mark.parametrize("columns", [1, 3, 24, 40, 64, 100, 600])
def test_rows_that_follow_one_another(checker, row, columns, rng):
    """Rows without gaps, with operands that repeat: rows that are joined, and those left over."""
    for rows in (2, 7, 64, 131):
        kinds = [(BYTES, COLUMNS, BYTES), (COLUMNS, COLUMNS, COLUMNS), (BYTES, ONE, NONE)]
        for kind in [*kinds, (BYTES, NONE, BYTES)]:
            check(checker, row, rng, (rows, columns), kind, repeats=True, gaps=False)
        check(checker, row, rng, (rows, columns), (BYTES, ONE, NONE), gaps=False)
        for kind in ((COLUMNS, BYTES, NONE), (COLUMNS, COLUMNS, BYTES)):
            check(checker, row, rng, (rows, columns), kind, repeats="all", gaps=False)


@every_kernel
def test_scales_of_any_size(checker, row, rng):
    """Quotients by division where they are not moderate, and far beyond the type's range."""
    for scale in (1e-30, 2.0**-60, 1e-4, 1.0, 2.0**60, 1e30):
        check(checker, row, rng, (2, 4 * row["vector_bytes"] + 3), (COLUMNS,) * 3, scale=scale)


@every_kernel
def test_numbers_that_are_none(checker, row, rng):
    """NaN and infinities, with bounds and without, as `quantize` stores them."""
    special = np.array([np.nan, -np.nan, np.inf, -np.inf, 3e38, -3e38, 0.0, -0.0], np.float32)
    x = np.tile(special, 40)[np.newaxis]
    scale, zero = np.float32(0.1), np.array([7], np.int32)
    call = Call(checker, row, rng)
    for name, array in (("src", x), ("factor", np.full((1, 1), 1, np.float32))):
        call.put(name, array, 0)
    call.put("scale", np.full((1, 1), scale), 0)
    call.put("zero", zero.reshape(1, 1), 0)
    call.put("dst", np.zeros(x.shape, DTYPES[row["dtype"]]), x.size, writable=True)
    call.values |= {"src_kind": COLUMNS, "factor_kind": ONE, "addend_kind": NONE, "addend_rs": 0}
    got = call.run(rows=1, columns=x.size, flags=0)
    np.testing.assert_array_equal(got, quantized(row["dtype"], x, scale, zero))
