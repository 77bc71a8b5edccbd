"""Conversions of narrow types: every value, every tail, with flush-to-zero on and off."""

from __future__ import annotations

import numpy as np
import pytest

from asm.contract import FLAGS
from asm.registry import BYTE_CONVERSIONS
from tests.kernels.kernel_table import DTYPES, every_row, symbol
from tests.kernels.rows_call import Call

MOVING = [row for row in every_row("convert_in") if row["dtype"] in BYTE_CONVERSIONS]
INTEGERS = [row for row in MOVING if row["dtype"] != "f32bf16"]
IN_PLACE = [row for row in INTEGERS if row["dtype"] in ("u8s8", "s8u8")]
WIDENING = [row for row in every_row("convert_in") if row["dtype"] == "bf16f32"]
OUT = [row for row in every_row("convert_out") if row["dtype"] == "bf16f32"]
NARROWING = [row for row in MOVING if row["dtype"] == "f32bf16"] + OUT
EVERY_BFLOAT = np.arange(1 << 16, dtype=np.uint16)


def widened(bfloats: np.ndarray) -> np.ndarray:
    """Give bfloat16 as float32: the upper half of its bits."""
    return (bfloats.astype(np.uint32) << 16).view(np.float32)


def narrowed(floats: np.ndarray) -> np.ndarray:
    """Give the bfloat16 nearest to each float, of two the even one, by comparing distances."""
    bits = floats.view(np.uint32)
    lower, upper = bits >> 16, (bits >> 16) + 1
    # Distances of the magnitudes, in units of the last digit of a float, are exact.
    down, up = bits & 0xFFFF, 0x10000 - (bits & 0xFFFF)
    nearest = np.where((down < up) | ((down == up) & (lower % 2 == 0)), lower, upper)
    return np.where(np.isnan(floats), lower | 0x40, nearest).astype(np.uint16)


def types(row):
    """Give the type of the array and that of the arithmetic."""
    return next((DTYPES[a], DTYPES[b]) for a in DTYPES for b in DTYPES if a + b == row["dtype"])


def converted(row, values: np.ndarray) -> np.ndarray:
    """Convert between integers, or float to bfloat16."""
    if row["dtype"] == "f32bf16":
        return narrowed(values)
    shift = {"u8s8": -128, "s8u8": 128}.get(row["dtype"], 0)
    return (values.astype(np.int64) + shift).astype(types(row)[1])


def draw(rng, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    """Draw any bits of a type."""
    return rng.integers(0, 256, (*shape, dtype.itemsize), np.uint8).view(dtype)[..., 0]


def columns_of(row):
    """Every tail around one, two and four vectors of bytes."""
    size = row["vector_bytes"]
    return (*range(1, size + 2), 2 * size - 1, 2 * size + 1, 4 * size + 1, 5 * size - 1)


@pytest.mark.parametrize("row", MOVING, ids=symbol)
def test_tails_on_the_way_in(checker, row, rng):
    source, destination = types(row)
    for columns in columns_of(row):
        for gaps in ((0, 0), (int(rng.integers(1, 9)), 0), (3, int(rng.integers(0, 9)))):
            call = Call(checker, row, rng)
            values = draw(rng, source, (int(rng.integers(1, 4)), columns))
            call.put("src", values, source.itemsize * (columns + gaps[0]))
            empty = draw(rng, destination, values.shape)
            call.put("dst", empty, destination.itemsize * (columns + gaps[1]), writable=True)
            got = call.run(rows=len(values), columns=columns, flags=0)
            assert got.tobytes() == converted(row, values).tobytes()


@pytest.mark.parametrize("row", IN_PLACE, ids=symbol)
def test_tails_in_their_place(checker, row, rng):
    source, destination = types(row)
    for columns in columns_of(row):
        call = Call(checker, row, rng)
        values = draw(rng, source, (3, columns))
        call.put("dst", values.view(destination), columns + 5, writable=True)
        call.values |= {"src": call.values["dst"], "src_rs": columns + 5}
        got = call.run(rows=3, columns=columns, flags=0)
        assert got.tobytes() == converted(row, values).tobytes()


@pytest.mark.parametrize("row", INTEGERS, ids=symbol)
def test_every_byte(checker, row, rng):
    source, destination = types(row)
    call = Call(checker, row, rng)
    values = np.arange(256, dtype=np.uint8).view(source).reshape(1, 256)
    call.put("src", values, 0)
    call.put("dst", np.zeros((1, 256), destination), 0, writable=True)
    np.testing.assert_array_equal(call.run(rows=1, columns=256, flags=0), converted(row, values))


def floats_around_bfloats(rng) -> np.ndarray:
    """Give every bfloat16, what lies midway between two, their neighbours, and any other bits."""
    exact = EVERY_BFLOAT.astype(np.uint32) << 16
    beside = [exact + offset for offset in (0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF)]
    return np.concatenate([*beside, rng.integers(0, 1 << 32, 20000, np.uint32)]).view(np.float32)


@pytest.mark.parametrize("row", NARROWING, ids=symbol)
@pytest.mark.parametrize("flush", [False, True])
def test_every_rounding(checker, row, rng, flush):
    """Ties, subnormal numbers, what overflows, NaN with a payload; flush-to-zero changes none."""
    call = Call(checker, row, rng)
    floats = floats_around_bfloats(rng)[np.newaxis]
    call.put("src", floats, 0)
    call.put("dst", np.full(floats.shape, 0x1234, np.uint16), 0, writable=True)
    values = {"rows": 1, "columns": floats.size, "fill": 0, "flags": 0}
    with checker.flushing(flush):
        got = call.run(**values)
    right = narrowed(floats)
    wrong = np.nonzero(got != right)[1]
    assert not wrong.size, [(floats[0, i], hex(got[0, i]), hex(right[0, i])) for i in wrong[:5]]


@pytest.mark.parametrize("row", WIDENING, ids=symbol)
@pytest.mark.parametrize("flush", [False, True])
def test_every_bfloat_widens_exactly(checker, row, rng, flush):
    call = Call(checker, row, rng)
    bfloats = EVERY_BFLOAT.reshape(64, 1024)
    call.put("src", bfloats, 2048)
    call.put("dst", np.full(bfloats.shape, np.nan, np.float32), 4096, writable=True)
    with checker.flushing(flush):
        got = call.run(rows=64, columns=1024, flags=0)
    assert got.tobytes() == widened(bfloats).tobytes()


@pytest.mark.parametrize("row", WIDENING, ids=symbol)
def test_tails_of_bfloats_on_the_way_in(checker, row, rng):
    for columns in columns_of(row):
        count = int(rng.integers(1, 4))
        call = Call(checker, row, rng)
        numbers = narrowed(rng.standard_normal((count, columns)).astype(np.float32))
        held = rng.standard_normal((count, columns)).astype(np.float32)
        call.put("src", numbers, 2 * (columns + int(rng.integers(0, 9))))
        call.put("dst", held, 4 * (columns + int(rng.integers(0, 9))), writable=True)
        got = call.run(rows=count, columns=columns, flags=0)
        np.testing.assert_array_equal(got, widened(numbers))
        got = call.run(flags=FLAGS["ACCUMULATE"])
        np.testing.assert_array_equal(got, held + widened(numbers))


@pytest.mark.parametrize("row", OUT, ids=symbol)
def test_tails_and_epilogues_on_the_way_out(checker, row, rng):
    for columns in columns_of(row):
        call = Call(checker, row, rng)
        count, fill = int(rng.integers(1, 4)), columns + int(rng.integers(-1, 40))
        sums = (100 * rng.standard_normal((count, columns))).astype(np.float32)
        residual = narrowed(rng.standard_normal((count, columns)).astype(np.float32))
        bounds = np.array([[-2.5, 40.0]], np.float32)
        gap, written = int(rng.integers(0, 20)), max(fill, columns)
        call.put("src", sums, 4 * (columns + gap))
        call.put("residual", residual, 2 * (columns + gap))
        call.put("clip", bounds, 0)
        del call.values["clip_rs"]
        empty = np.full((count, written), 0x7FFF, np.uint16)
        call.put("dst", empty, 2 * (written + int(rng.integers(0, 9))), writable=True)
        for flags in (0, FLAGS["RESIDUAL"], FLAGS["CLIP"], FLAGS["RESIDUAL"] | FLAGS["CLIP"]):
            right = sums
            if flags & FLAGS["RESIDUAL"]:
                right = right + widened(residual)
            if flags & FLAGS["CLIP"]:
                right = np.clip(right, *bounds[0])
            got = call.run(rows=count, columns=columns, fill=fill, flags=flags)
            np.testing.assert_array_equal(got[:, :columns], narrowed(right))
            assert not got[:, columns:].any()


@pytest.mark.parametrize("row", [*MOVING, *WIDENING, *OUT], ids=symbol)
@pytest.mark.parametrize("shape", [(0, 5), (3, 0)], ids=str)
def test_nothing_is_touched_where_there_is_nothing(checker, row, shape):
    """No memory, be it mapped or not; vector registers may be left as they were found."""
    values = {field: 8 for field in ("src", "dst", "src_rs", "dst_rs", "fill", "residual_rs")}
    values |= {"rows": shape[0], "columns": shape[1], "flags": 0, "fill": 0}
    arguments = checker.arguments(row["op"], values)
    found = checker.problems(row["address"], arguments, row["vector_bytes"])
    assert all("upper halves" in text for text in found), found
