"""Float to quantized arrays and back by ONNX's definition, and bytes by a table: every tail."""

from __future__ import annotations

import numpy as np
import pytest

from asm.contract import FLAGS
from tests.kernels.kernel_table import DTYPES, every_row, symbol
from tests.kernels.rows_call import Call

ROW, COLUMN = FLAGS["BIAS_ROW"], FLAGS["BIAS_COLUMN"]
QUANTIZE, DEQUANTIZE = every_row("quantize"), every_row("dequantize")
every_lookup = pytest.mark.parametrize("row", every_row("lookup"), ids=symbol)
every_flag = pytest.mark.parametrize("flags", [0, ROW, COLUMN], ids=["one", "row", "column"])


def along(values, flags):
    """Shape scales or zeros so that they broadcast along rows and columns."""
    return values.reshape((-1, 1) if flags & ROW else (1, -1))


def quantized(dtype, x, scale, zero):
    """Quantize as ONNX defines it: float32 quotient, ties to even, plus zero, saturated."""
    info = np.iinfo(DTYPES[dtype])
    with np.errstate(over="ignore", invalid="ignore"):
        quotient = x / scale
    assert quotient.dtype == np.float32
    numbers = np.where(np.isnan(quotient), -np.inf, np.rint(quotient).astype(np.float64))
    return np.clip(numbers + zero, info.min, info.max).astype(DTYPES[dtype])


def dequantized(q, scale, zero):
    """Dequantize: an exact difference, one conversion, one product."""
    return (q.astype(np.int32) - zero).astype(np.float32) * scale


def count_of(shape, flags):
    """Give the number of scales."""
    return shape[0] if flags & ROW else shape[1] if flags & COLUMN else 1


def run(checker, row, rng, source, destination, scale, zero, flags):
    """Call a kernel on rows with gaps, or without."""
    call = Call(checker, row, rng)
    call.put("src", source, source.itemsize * (source.shape[1] + int(rng.integers(0, 9))))
    call.put("scale", scale.reshape(1, -1), 0)
    call.put("zero", zero.reshape(1, -1), 0)
    stride = destination.itemsize * (source.shape[1] + int(rng.integers(0, 9)))
    call.put("dst", destination, stride, writable=True)
    return call.run(rows=len(source), columns=source.shape[1], flags=flags)


def columns_of(row):
    """Every tail up to two vectors, and around four to six."""
    lanes = row["vector_bytes"] // 4
    return (*range(1, 2 * lanes + 2), *range(4 * lanes - 1, 6 * lanes + 2))


def draw_zero(rng, dtype, count):
    """Draw zero points, often the ends of the type."""
    if dtype == "s32":
        return rng.integers(-1000, 1000, count, np.int32)
    info = np.iinfo(DTYPES[dtype])
    zero = rng.integers(info.min, info.max, count, np.int32, endpoint=True)
    ends = rng.choice(np.array([info.min, info.max], np.int32), count)
    return np.where(rng.random(count) < 0.3, ends, zero)


@every_flag
@pytest.mark.parametrize("row", QUANTIZE, ids=symbol)
def test_every_tail_of_quantize(checker, row, flags, rng):
    dtype = row["dtype"]
    for columns in columns_of(row):
        shape = int(rng.integers(1, 4)), columns
        x = (100 * rng.standard_normal(shape)).astype(np.float32)
        scale = rng.uniform(0.01, 2, count_of(shape, flags)).astype(np.float32)
        zero = draw_zero(rng, dtype, scale.size)
        got = run(checker, row, rng, x, np.full(shape, 0x55, DTYPES[dtype]), scale, zero, flags)
        want = quantized(dtype, x, along(scale, flags), along(zero, flags))
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("row", QUANTIZE, ids=symbol)
def test_what_quantize_rounds(checker, row, rng):
    """Ties and the floats next to them, infinities, NaN of either sign, the largest numbers."""
    dtype, scale = row["dtype"], np.float32(0.1)
    exact = (np.arange(-700, 700, dtype=np.float32) / 2) * scale
    beside = [np.nextafter(exact, np.float32(end)) for end in (-np.inf, np.inf)]
    special = np.array([np.inf, -np.inf, np.nan, -np.nan, 3e38, -3e38, 0.0, -0.0, 1e-45], "f4")
    any_bits = rng.integers(0, 1 << 32, 4000, np.uint32).view(np.float32)
    x = np.concatenate([exact, *beside, special, any_bits])[np.newaxis]
    info = np.iinfo(DTYPES[dtype])
    for zero in (0, 7, info.min, info.max):
        empty = np.zeros(x.shape, DTYPES[dtype])
        for divisor in (scale, np.float32(1), np.float32(0.003), np.float32(1e-30)):
            values = np.array([divisor]), np.array([zero], np.int32)
            got = run(checker, row, rng, x, empty, *values, 0)
            np.testing.assert_array_equal(got, quantized(dtype, x, *values))


@pytest.mark.parametrize("row", QUANTIZE, ids=symbol)
def test_quotients_by_any_scale(checker, row, rng):
    """Scales of any size, with ties and floats a few steps away from ties."""
    dtype = row["dtype"]
    info = np.iinfo(DTYPES[dtype])
    edges = [2.0**-60, 2.0**60, 1.0, np.nextafter(np.float32(1), np.float32(2)), 2 - 2.0**-23]
    drawn = np.exp2(rng.uniform(-70, 70, 40)) * rng.choice([1, 1e-3], 40)
    for scale in np.array([*edges, *np.exp2(rng.uniform(-8, 2, 40)), *drawn], np.float32):
        ties = (np.arange(-520, 520, dtype=np.float32) / 2) * scale
        bits = ties.view(np.int32) + rng.integers(-3, 4, ties.size, np.int32)
        x = np.concatenate([ties, bits.view(np.float32), [np.inf, -np.inf, np.nan]], dtype="f4")
        for zero in (0, info.min, info.max):
            values = np.array([scale]), np.array([zero], np.int32)
            empty = np.zeros((1, x.size), DTYPES[dtype])
            got = run(checker, row, rng, x[np.newaxis], empty, *values, 0)
            np.testing.assert_array_equal(got, quantized(dtype, x[np.newaxis], *values), str(scale))


@pytest.mark.parametrize("row", QUANTIZE, ids=symbol)
def test_the_quotient_is_no_product(checker, row, rng):
    """Numbers for some of which x * (1 / scale) would round to another integer."""
    scale = rng.uniform(0.01, 1, 4096).astype(np.float32)
    odd = rng.integers(-64, 63, 4096).astype(np.float32)
    x = ((odd + np.float32(0.5)) * scale)[np.newaxis]
    zero = np.full(4096, 0 if row["dtype"] == "s8" else 128, np.int32)
    product = np.rint(x * (np.float32(1) / scale))
    assert (product != np.rint(x / scale)).any()
    got = run(checker, row, rng, x, np.zeros(x.shape, DTYPES[row["dtype"]]), scale, zero, COLUMN)
    np.testing.assert_array_equal(got, quantized(row["dtype"], x, scale, zero))


@every_flag
@pytest.mark.parametrize("row", DEQUANTIZE, ids=symbol)
def test_every_tail_of_dequantize(checker, row, flags, rng):
    stored = DTYPES[row["dtype"]]
    info = np.iinfo(stored)
    for columns in columns_of(row):
        shape = int(rng.integers(1, 4)), columns
        q = rng.integers(info.min, info.max, shape, stored, endpoint=True)
        scale = rng.uniform(0.001, 2, count_of(shape, flags)).astype(np.float32)
        zero = draw_zero(rng, row["dtype"], scale.size)
        got = run(checker, row, rng, q, np.full(shape, np.nan, np.float32), scale, zero, flags)
        want = dequantized(q, along(scale, flags), along(zero, flags))
        assert got.tobytes() == want.tobytes()


@pytest.mark.parametrize("row", [*QUANTIZE, *DEQUANTIZE], ids=symbol)
def test_nothing_to_do(checker, row, rng):
    """No rows, or rows of no elements: rows are neither read nor written."""
    types = np.float32, DTYPES[row["dtype"]]
    source, destination = types if row["op"] == "quantize" else types[::-1]
    for shape in ((0, 5), (3, 0)):
        arrays = np.zeros(shape, source), np.zeros(shape, destination)
        one = np.ones(1, np.float32), np.zeros(1, np.int32)
        assert run(checker, row, rng, *arrays, *one, 0).shape == shape


def placed(checker, row, rng, table, shape):
    """A call whose table and output are in memory of their own."""
    call = Call(checker, row, rng)
    call.put("table", table.reshape(1, -1), 0)
    gap = int(rng.integers(0, 9))
    call.put("dst", np.full(shape, 0xA5, np.uint8), shape[1] + gap, writable=True)
    return call


@every_lookup
def test_every_tail_of_lookup(checker, row, rng):
    step = row["vector_bytes"]
    for columns in (*range(1, 2 * step + 2), 3 * step, 5 * step + 1):
        shape = int(rng.integers(1, 5)), columns
        table = rng.permutation(256).astype(np.uint8)
        x = rng.integers(0, 256, shape, np.uint8)
        call = placed(checker, row, rng, table, shape)
        call.put("src", x, columns + int(rng.integers(0, 9)))
        got = call.run(rows=shape[0], columns=columns)
        np.testing.assert_array_equal(got, table[x], str(columns))


@every_lookup
def test_every_byte_in_every_place(checker, row, rng):
    """Each of the 256 bytes at each place of a vector; the table is a permutation of them."""
    step = row["vector_bytes"]
    x = (np.arange(256)[:, np.newaxis] + np.arange(step)).astype(np.uint8)
    table = rng.permutation(256).astype(np.uint8)
    call = placed(checker, row, rng, table, x.shape)
    call.put("src", x, step)
    np.testing.assert_array_equal(call.run(rows=256, columns=step), table[x])


@every_lookup
def test_lookup_in_place(checker, row, rng):
    table = rng.integers(0, 256, 256, np.uint8)
    x = rng.integers(0, 256, (3, 200), np.uint8)
    call = placed(checker, row, rng, table, x.shape)
    call.view[...] = x
    call.values |= {"src": call.values["dst"], "src_rs": call.values["dst_rs"]}
    np.testing.assert_array_equal(call.run(rows=3, columns=200), table[x])
