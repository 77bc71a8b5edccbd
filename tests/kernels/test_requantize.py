"""Sums to quantized arrays: all kernels give the bits of stepwise float32 arithmetic."""

from __future__ import annotations

import numpy as np
import pytest

from asm.contract import FLAGS
from asm.contract.records import QUANTIZATION
from tests.kernels.kernel_table import DTYPES, every_row, symbol
from tests.kernels.rows_call import Call

every_kernel = pytest.mark.parametrize("row", every_row("requantize"), ids=symbol)
BYTES = [row for row in every_row("requantize") if row["dtype"] in ("u8", "s8")]
WITH_PRODUCT = [row for row in every_row("requantize") if row["dtype"] != "s32"]
ROW, COLUMN, RESIDUAL = FLAGS["BIAS_ROW"], FLAGS["BIAS_COLUMN"], FLAGS["RESIDUAL"]
ENDS = [-(1 << 31), -(1 << 31) + 1, -1, 0, 1, (1 << 31) - 1]
PARAMETERS = np.dtype(
    [
        ("table", "u8"),
        ("gate", "i8"),
        ("low", "f4"),
        ("high", "f4"),
        ("residual_scale", "f4"),
        ("slope", "f4"),
        ("middle", "f4"),
        ("shift", "f4"),
        ("residual_zero", "i4"),
        ("zero", "i4"),
    ]
)


def parameters(low=-np.inf, high=np.inf, residual_scale=1.0, residual_zero=0, zero=0, gate=None):
    """Give a ``struct pplconv_quantization``, without a table."""
    through = (0, 0, 0) if gate is None else gate
    numbers = (low, high, residual_scale, *through, residual_zero, zero)
    return np.array([[(0, gate is not None, *numbers)]], PARAMETERS)


def model(dtype, sums, offset, scale, residual, q, table=None):
    """Requantize step by step; each float32 operation of NumPy is one rounding."""
    total = sums + offset
    if dtype == "s32":
        return total
    q = q[0, 0]
    x = total.astype(np.float32) * scale
    if residual is not None and dtype == "f32":
        x = x + residual
    elif residual is not None:
        distance = residual.astype(np.int32) - q["residual_zero"]
        x = x + distance.astype(np.float32) * q["residual_scale"]
    if q["gate"]:
        opened = np.minimum(np.maximum(x * q["slope"] + q["middle"], np.float32(0)), np.float32(1))
        x = x * opened + q["shift"]
    assert x.dtype == np.float32
    x = np.minimum(np.maximum(x, q["low"]), q["high"])
    if dtype == "f32":
        return x
    info = np.iinfo(DTYPES[dtype])
    near = np.clip(np.rint(x).astype(np.float64), -(2.0**31), 2.0**31) + q["zero"]
    stored = np.clip(near, info.min, info.max).astype(DTYPES[dtype])
    return stored if table is None else table[stored.view(np.uint8)].view(DTYPES[dtype])


def check(checker, row, rng, sums, offset, scale, q, flags, table=None):
    """Call the kernel on `sums`, with random gaps between rows or none; compare every bit."""
    gaps = [int(gap) for gap in rng.integers(0, 9, 3) * rng.integers(0, 2)]
    dtype = row["dtype"]
    stored = DTYPES[dtype]
    rows, columns = sums.shape
    call = Call(checker, row, rng)
    residual = None
    if flags & RESIDUAL:
        residual = draw_residual(rng, stored, sums.shape)
        call.put("residual", residual, stored.itemsize * (columns + gaps[0]))
    call.put("src", sums, 4 * (columns + gaps[1]))
    if table is not None:
        call.put("table", table.reshape(1, -1), 0)
        q = q.copy()
        q["table"] = call.values.pop("table")
    for name, values in (("offset", offset), ("scale", scale), ("parameters", q)):
        if name == "offset" or dtype != "s32":
            call.put(name, values.reshape(1, -1), 0)
    ones = np.full(sums.shape, 0xA5, np.uint8).repeat(stored.itemsize, 1).view(stored)
    call.put("dst", ones, stored.itemsize * (columns + gaps[2]), writable=True)
    got = call.run(rows=rows, columns=columns, flags=flags)
    if flags & ROW:
        offset, scale = offset[:, np.newaxis], scale[:, np.newaxis]
    want = model(dtype, sums, offset, scale, residual, q, table)
    wrong = np.argwhere(got != want)
    where = tuple(wrong[0]) if wrong.size else ()
    assert not wrong.size, (len(wrong), where, sums[where], got[where], want[where], q, flags)
    assert got.tobytes() == want.tobytes()


def draw_residual(rng, stored, shape):
    """Draw a residual of the array's type."""
    if stored.kind == "f":
        return (100 * rng.standard_normal(shape)).astype(stored)
    info = np.iinfo(stored)
    return rng.integers(info.min, info.max, shape, stored, endpoint=True)


def draw_parameters(rng, row):
    """Draw bounds and zero points, often at the ends of the type."""
    stored = DTYPES[row["dtype"]]
    if stored.kind == "f":
        return parameters(*(np.sort(rng.standard_normal(2) * 200) if rng.integers(2) else ()))
    info = np.iinfo(stored)
    zero, residual_zero = (
        int(rng.choice([info.min, info.max, 0, rng.integers(info.min, info.max)])) for _ in "zr"
    )
    low, high = float(info.min - zero), float(info.max - zero)
    kind = int(rng.integers(4))
    if kind == 0:
        low, high = -np.inf, np.inf
    elif kind == 1:
        low, high = 0.0, 60.5  # a clip between integers
    elif kind == 2:
        low, high = high, low  # the last bound decides
    return parameters(low, high, rng.uniform(0.001, 3), residual_zero, zero)


def flags_of(row):
    """Yield the sets of flags of a row: both orientations, with and without residual."""
    for orientation in (ROW, COLUMN):
        yield orientation
        if row["dtype"] != "s32":
            yield orientation | RESIDUAL


def columns_of(row):
    """Every tail up to two vectors, and around four to six, and nine vectors."""
    lanes = row["vector_bytes"] // 4
    return (*range(1, 2 * lanes + 2), *range(4 * lanes - 1, 6 * lanes + 2), 9 * lanes)


def judge_tails(checker, row, rng, flags, draw) -> None:
    """Check every tail, with parameters from `draw`."""
    for columns in columns_of(row):
        rows = int(rng.integers(1, 10))
        sums = rng.integers(-40000, 40000, (rows, columns), np.int32)
        count = rows if flags & ROW else columns
        offset = rng.integers(-5000, 5000, count, np.int32)
        scale = rng.uniform(1e-4, 2e-2, count).astype(np.float32)
        check(checker, row, rng, sums, offset, scale, draw(), flags)


@every_kernel
def test_every_tail(checker, row, rng):
    for flags in flags_of(row):
        judge_tails(checker, row, rng, flags, lambda: draw_parameters(rng, row))


def draw_gate(rng, zero=0):
    """Draw a gate like HardSwish's, with a scale that may be negative, and a shift."""
    scale = rng.uniform(0.01, 0.5) * rng.choice([1, 1, -1])
    return parameters(
        *(rng.choice([-np.inf, -20.25]), rng.choice([np.inf, 90.5])), zero=zero,
        gate=(scale / 6, rng.choice([0.5, 0.25]), rng.choice([0, 3.7, -60.2])),
    )  # fmt: skip


@pytest.mark.parametrize("row", WITH_PRODUCT, ids=symbol)
def test_gates(checker, row, rng):
    """Every tail; sums below, on and above the slope of the gate."""
    low, high = (-100, 100) if row["dtype"] == "s8" else (0, 200)
    for flags in (ROW, COLUMN):
        judge_tails(checker, row, rng, flags, lambda: draw_gate(rng, int(rng.integers(low, high))))


@pytest.mark.parametrize("row", BYTES, ids=symbol)
@pytest.mark.parametrize("scale", [0.25, 0.4999, 1.0, 2.0], ids=str)
@pytest.mark.parametrize("shift", [0, 1e6, 3e6, -3e9], ids=str)
def test_gated_numbers_beyond_every_integer(checker, row, scale, shift, rng):
    """Numbers beyond int32 before rounding, by one scale of many or by the shift."""
    for flags in (ROW, COLUMN):
        for slope in (1 / 6, -1 / 6, 1e-9):
            sums = rng.choice(ENDS, (3, row["vector_bytes"] + 3)).astype(np.int32)
            count = 3 if flags & ROW else sums.shape[1]
            scales = np.full(count, 0.25, np.float32)
            scales[rng.integers(count)] = scale
            q = parameters(zero=5, gate=(slope, 0.5, shift))
            check(checker, row, rng, sums, np.zeros(count, np.int32), scales, q, flags)


@pytest.mark.parametrize("row", BYTES, ids=symbol)
@pytest.mark.parametrize("kind", ["plain", "residual", "gate"])
def test_tables(checker, row, kind, rng):
    """Every byte, in every tail, by random tables."""
    zero = 0 if row["dtype"] == "s8" else 128
    for flags in (ROW, COLUMN):
        for columns in (*columns_of(row), 600):
            rows = int(rng.integers(1, 6))
            sums = rng.integers(-140, 140, (rows, columns), np.int32)
            count = rows if flags & ROW else columns
            table = rng.permutation(256).astype(np.uint8)
            plain = parameters(residual_scale=0.5, zero=zero)
            q = draw_gate(rng, zero) if kind == "gate" else plain
            check(
                checker, row, rng, sums, np.zeros(count, np.int32), np.ones(count, np.float32), q,
                flags | (RESIDUAL if kind == "residual" else 0), table,
            )  # fmt: skip


@every_kernel
def test_sums_of_every_size(checker, row, rng):
    """Sums up to the largest int32, beyond float's exact integers; offsets wrap around."""
    for flags in flags_of(row):
        for _ in range(20):
            sums = rng.integers(-(1 << 31), (1 << 31) - 1, (3, 100), np.int32, endpoint=True)
            sums >>= rng.integers(0, 32, sums.shape, np.int32)
            count = 3 if flags & ROW else 100
            offset = rng.integers(-(1 << 31), (1 << 31) - 1, count, np.int32, endpoint=True)
            offset >>= rng.integers(0, 32, count, np.int32)
            scale = np.exp2(rng.uniform(-40, 10, count)).astype(np.float32)
            check(checker, row, rng, sums, offset, scale, draw_parameters(rng, row), flags)


@pytest.mark.parametrize("row", BYTES, ids=symbol)
@pytest.mark.parametrize("scale", [0.4999, 0.5, 1.0, 1.5, 2.0, 1e25], ids=str)
@pytest.mark.parametrize("residual_scale", [0.5, 1e6, 2e6, -3e8, 3e8, 1e30], ids=str)
def test_numbers_beyond_every_integer(checker, row, scale, residual_scale, rng):
    """One scale of many, and residuals, make numbers of 2^31 and more."""
    lanes = row["vector_bytes"] // 4
    for flags in flags_of(row):
        for rows in (1, 2, 3, 5):
            sums = rng.choice(ENDS, (rows, 7 * lanes + 3)).astype(np.int32)
            count = rows if flags & ROW else sums.shape[1]
            scales = np.full(count, 0.25, np.float32)
            scales[rng.integers(count)] = scale
            q = parameters(residual_scale=residual_scale, residual_zero=3, zero=5)
            check(checker, row, rng, sums, np.zeros(count, np.int32), scales, q, flags)


@pytest.mark.parametrize("row", BYTES, ids=symbol)
@pytest.mark.parametrize("zero", [0, 1, 5])
def test_ties_go_to_even(checker, row, zero, rng):
    """Rounding comes before the zero point: halves of odd numbers, and the floats next to them."""
    sums = np.arange(-600, 600, dtype=np.int32).reshape(1, -1)
    offset = np.zeros(sums.size, np.int32)
    half = np.float32(0.5)
    for scale in (half, np.nextafter(half, np.float32(1)), np.nextafter(half, np.float32(0))):
        scales = np.full(sums.size, scale, np.float32)
        check(checker, row, rng, sums, offset, scales, parameters(zero=zero), COLUMN)


@pytest.mark.parametrize("row", WITH_PRODUCT, ids=symbol)
def test_product_and_residual_are_two_roundings(checker, row, rng):
    """Sums for some of which a fused product would give other bits."""
    sums = rng.integers(-(1 << 24), 1 << 24, (1, 4096), np.int32)
    scale = rng.uniform(1e-6, 8e-6, 4096).astype(np.float32)
    q = parameters(residual_scale=np.float32(0.1), residual_zero=3)
    offset = np.zeros(4096, np.int32)
    if row["dtype"] == "f32":
        residual = np.float32(1) * np.ones(4096, np.float32)
        exact = sums * scale.astype(np.float64) + residual
        stepwise = sums.astype(np.float32) * scale + residual
        assert (exact.astype(np.float32) != stepwise).any()
    check(checker, row, rng, sums, offset, scale, q, COLUMN | RESIDUAL)


@every_kernel
@pytest.mark.parametrize("shape", [(0, 5), (3, 0)], ids=str)
def test_nothing_to_do(checker, row, shape, rng):
    """No element is touched; parameters may be read."""
    q = parameters(0, 1)
    call = Call(checker, row, rng)
    call.put("parameters", q, 0)
    values = {"src_rs": 0, "dst_rs": 0, "residual_rs": 0, "rows": shape[0], "columns": shape[1]}
    for flags in (COLUMN,) if shape[0] else (ROW, COLUMN):
        checker.call(row, call.values | values | {"flags": flags}, shape)


def test_the_struct_is_that_of_the_contract():
    types = {"float": "f4", "int32_t": "i4", "int64_t": "i8", "const void *": "u8"}
    members = [(name, np.dtype(types[ctype])) for ctype, name in QUANTIZATION.declared()]
    assert [(name, PARAMETERS[name]) for name in PARAMETERS.names] == members
    assert PARAMETERS.itemsize == QUANTIZATION.size
