"""Conversions between types: every value, every rounding, every tail, between guard pages.

References round by arithmetic on integers. For half precision NumPy's conversion is the reference,
and a test compares it with exact fractions; so no flush-to-zero mode can change them.
"""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from asm.contract import FLAGS
from asm.registry import BYTE_CONVERSIONS, FLUSHING_CONVERSIONS
from pplconv._kernels import PIXELS
from tests.kernels.kernel_table import DTYPES, every_row, symbol
from tests.kernels.rows_call import Call

IN, OUT = every_row("convert_in"), every_row("convert_out")
IN_PLACE = [row for row in IN if row["dtype"] in ("u8s8", "s8u8")]
# Storage and compute type of kernels of half precision, which are named by the compute type.
HALVES = {"f32": ("f16", "f32"), "f16": ("f32", "f16")}
EVERY_HALF = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
EVERY_BFLOAT = np.arange(1 << 16, dtype=np.uint16)
QUIET = np.uint16(0x200)
# NEON of 32-bit Arm returns the default NaN for any NaN.
DEFAULT_NAN = {"half32": {"f16": np.uint16(0x7E00), "f32": np.uint32(0x7FC00000)}}


def types(row) -> tuple[str, str]:
    """Give the types of src and dst by name."""
    kind = row["dtype"]
    pair = HALVES.get(kind) or next((a, b) for a in DTYPES for b in DTYPES if a + b == kind)
    return pair if row["op"] == "convert_in" else pair[::-1]


def half_to_float(halves: np.ndarray) -> np.ndarray:
    """Widen halves; NaN keeps its sign and payload and becomes quiet."""
    bits = halves.view(np.uint16)
    bits = np.where(np.isnan(halves), bits | QUIET, bits).astype(np.uint32)
    floats = (bits & 0x8000) << 16 | 0x7F800000 | (bits & 0x3FF) << 13
    with np.errstate(invalid="ignore"):  # NumPy's conversion may signal a NaN
        right = halves.astype(np.float32).view(np.uint32)
    return np.where(np.isnan(halves), floats, right).view(np.float32)


def float_to_half(floats: np.ndarray) -> np.ndarray:
    """Round floats to half precision; NaN keeps its sign and upper payload and becomes quiet."""
    bits = floats.view(np.uint32)
    with np.errstate(over="ignore", invalid="ignore"):
        right = floats.astype(np.float16).view(np.uint16)
    nan = (bits >> 16 & 0x8000 | 0x7E00 | bits >> 13 & 0x3FF).astype(np.uint16)
    return np.where(np.isnan(floats), nan, right).view(np.float16)


def bfloat_to_float(bfloats: np.ndarray) -> np.ndarray:
    """Widen bfloat16: its bits are the upper half of a float's."""
    return (bfloats.astype(np.uint32) << 16).view(np.float32)


def float_to_bfloat(floats: np.ndarray) -> np.ndarray:
    """Give the nearest bfloat16, ties to even, by comparing distances; NaN becomes quiet."""
    bits = floats.view(np.uint32)
    lower, upper = bits >> 16, (bits >> 16) + 1
    # Distances of the magnitudes, in units of the last digit of a float, are exact.
    down, up = bits & 0xFFFF, 0x10000 - (bits & 0xFFFF)
    nearest = np.where((down < up) | ((down == up) & (lower % 2 == 0)), lower, upper)
    return np.where(np.isnan(floats), lower | 0x40, nearest).astype(np.uint16)


FLOATS = {
    ("f16", "f32"): half_to_float,
    ("f32", "f16"): float_to_half,
    ("bf16", "f32"): bfloat_to_float,
    ("f32", "bf16"): float_to_bfloat,
}


def converted(x: np.ndarray, source: str, target: str) -> np.ndarray:
    """Convert from one type to another, named as in the registry."""
    if source == target:
        return x
    if (source, target) in FLOATS:
        return FLOATS[source, target](x)
    shift = {("u8", "s8"): -128, ("s8", "u8"): 128}.get((source, target), 0)
    return (x.astype(np.int64) + shift).astype(DTYPES[target])


def expected(row, x: np.ndarray) -> np.ndarray:
    """Convert as a row does: where x86's instruction rounds to bfloat16, it flushes to zero."""
    right = converted(x, *types(row))
    if row["isa"] in FLUSHING_CONVERSIONS:
        # Intel's manual: VCVTNEPS2BF16 takes subnormal numbers as zeros of their sign.
        tiny = np.abs(x) < np.finfo(np.float32).tiny
        right = np.where(tiny, right & np.uint16(0x8000), right)
    return right


def assert_same(row, got: np.ndarray, right: np.ndarray, x: np.ndarray) -> None:
    """Compare all bits; NaN is the one that the row's instruction set gives."""
    name = types(row)[1]
    if default := DEFAULT_NAN.get(row["isa"], {}).get(name):
        right = np.where(np.isnan(right), default, right.view(default.dtype))
    bits = np.dtype(f"u{got.itemsize}")
    got, right = (np.ascontiguousarray(y).view(bits) for y in (got, right))
    wrong = np.argwhere(got != right)
    shown = [(x[tuple(i)], hex(got[tuple(i)]), hex(right[tuple(i)])) for i in wrong[:5]]
    assert not wrong.size, f"{row['symbol']}: {len(wrong)} of {got.size}: {shown}"


def floats_around_halves(rng) -> np.ndarray:
    """Give every half as a float, the ties between halves, the floats next to both, and others."""
    ordered = np.sort(EVERY_HALF[np.isfinite(EVERY_HALF)].astype(np.float32))
    ordered = np.concatenate([ordered, [np.float32(65536), np.float32(-65536)]])
    middle = ((np.sort(ordered)[1:].astype(np.float64) + np.sort(ordered)[:-1]) / 2).astype("f4")
    exact = np.concatenate([ordered, middle])
    beside = [np.nextafter(exact, np.float32(np.inf)), np.nextafter(exact, np.float32(-np.inf))]
    other = rng.integers(0, 1 << 32, 20000, np.uint32).view(np.float32)
    special = np.array([np.inf, -np.inf, np.nan, -np.nan, 0.0, -0.0, 3.4e38, 1e-45], np.float32)
    payload = np.array([0x7F800001, 0xFFC12345, 0x7FA00000], np.uint32).view(np.float32)
    return np.concatenate([exact, *beside, other, special, payload])


def floats_around_bfloats(rng) -> np.ndarray:
    """Give every bfloat16, the ties between two, the floats next to both, and random bits."""
    exact = EVERY_BFLOAT.astype(np.uint32) << 16
    beside = [exact + offset for offset in (0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF)]
    return np.concatenate([*beside, rng.integers(0, 1 << 32, 20000, np.uint32)]).view(np.float32)


def every_value(rng, source: str, target: str) -> np.ndarray:
    """Give every value of the source type, or of float32 all that matter for rounding."""
    if source == "f32":
        return (floats_around_halves if target == "f16" else floats_around_bfloats)(rng)
    if source in ("u8", "s8"):
        return np.arange(256, dtype=np.uint8).view(DTYPES[source])
    return EVERY_HALF if source == "f16" else EVERY_BFLOAT


def any_bits(rng, name: str, shape: tuple[int, int]) -> np.ndarray:
    """Draw any bits of a type."""
    dtype = DTYPES[name]
    return rng.integers(0, 256, (*shape, dtype.itemsize), np.uint8).view(dtype)[..., 0]


def drawn(rng, name: str, shape: tuple[int, int]) -> np.ndarray:
    """Draw normally distributed floats, or any integers."""
    numbers = (100 * rng.standard_normal(shape)).astype(np.float32)
    if name == "bf16":
        return float_to_bfloat(numbers)
    dtype = DTYPES[name]
    return numbers.astype(dtype) if dtype.kind == "f" else any_bits(rng, name, shape)


def columns_of(row):
    """Every tail around one, two and four vectors of bytes."""
    size = row["vector_bytes"]
    return (*range(1, size + 2), 2 * size - 1, 2 * size + 1, 4 * size + 1, 5 * size - 1)


def test_the_reference_rounds_to_the_nearest_even(rng):
    """NumPy's conversion against exact fractions."""
    finite = EVERY_HALF[np.isfinite(EVERY_HALF) & (EVERY_HALF >= 0)]
    for x in rng.choice(floats_around_halves(rng), 300):
        if not np.isfinite(x) or abs(x) >= 65504:
            continue
        got = abs(float(x.astype(np.float16)))
        distance = abs(Fraction(got) - Fraction(abs(float(x))))
        at = int(np.searchsorted(finite, np.float16(got)))
        for other in (at - 1, at + 1):
            if 0 <= other < finite.size:
                away = abs(Fraction(float(finite[other])) - Fraction(abs(float(x))))
                assert distance < away or (distance == away and at % 2 == 0)


@pytest.mark.parametrize(
    ("row", "flush"),
    [
        pytest.param(row, flush, id=f"{symbol(row)}-{flush}")
        for row in IN + OUT
        for flush in ((False, True) if "bf16" in row["dtype"] else (False,))
        if len(set(types(row))) == 2
    ],
)
def test_every_value(checker, row, flush, rng):
    """Ties, subnormal numbers, overflow, NaN with a payload; bfloat16 with flush-to-zero, too."""
    source, target = types(row)
    x = every_value(rng, source, target)[np.newaxis]
    call = Call(checker, row, rng)
    call.put("src", x, 0)
    call.put("dst", drawn(rng, target, x.shape), 0, writable=True)
    fill = {"fill": 0} if row["op"] == "convert_out" else {}
    with checker.flushing(flush):
        got = call.run(rows=1, columns=x.size, flags=0, **fill)
    assert_same(row, got, expected(row, x), x)


ROUNDING = [row for row in IN + OUT if types(row) == ("f32", "bf16")]
# Lower halves of floats: exact, next to it, around a tie, and the largest.
LOWER_HALVES = np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32)


def with_every_upper_half(lower: np.ndarray) -> np.ndarray:
    """Give floats of all upper halves with each of some lower ones."""
    return (EVERY_BFLOAT.astype(np.uint32)[:, None] << 16 | lower).view(np.float32)


@pytest.mark.parametrize("flush", [False, True])
@pytest.mark.parametrize("row", ROUNDING, ids=symbol)
def test_roundings_are_those_of_ml_dtypes(checker, row, flush):
    """All upper halves, and few: Arm's level switches flush-to-zero off only for many."""
    x = with_every_upper_half(LOWER_HALVES).reshape(-1, 48)
    with np.errstate(all="ignore"):
        right = x.astype(ml_dtypes.bfloat16).view(np.uint16)
    # ml_dtypes makes one NaN of all.
    right = np.where(np.isnan(x), float_to_bfloat(x), right)
    if row["isa"] in FLUSHING_CONVERSIONS:
        right = np.where(np.abs(x) < np.finfo(np.float32).tiny, right & np.uint16(0x8000), right)
    fill = {"fill": 0} if row["op"] == "convert_out" else {}
    for rows in (len(x), 4):
        call = Call(checker, row, np.random.default_rng(0))
        call.put("src", x[:rows], x.strides[0])
        call.put("dst", np.zeros((rows, 48), np.uint16), 2 * 48, writable=True)
        with checker.flushing(flush):
            got = call.run(rows=rows, columns=48, flags=0, **fill)
        assert_same(row, got, right[:rows], x[:rows])


@pytest.mark.parametrize("row", IN, ids=symbol)
def test_tails_on_the_way_in(checker, row, rng):
    source, target = types(row)
    draw = any_bits if row["dtype"] in BYTE_CONVERSIONS else drawn
    for columns in columns_of(row):
        for gaps in ((0, 0), (int(rng.integers(1, 20)), 0), (3, int(rng.integers(0, 20)))):
            call = Call(checker, row, rng)
            x = draw(rng, source, (int(rng.integers(1, 5)), columns))
            held = drawn(rng, target, x.shape)
            call.put("src", x, x.itemsize * (columns + gaps[0]))
            call.put("dst", held, held.itemsize * (columns + gaps[1]), writable=True)
            got = call.run(rows=len(x), columns=columns, flags=0)
            assert_same(row, got, expected(row, x), x)
            if row["dtype"] not in BYTE_CONVERSIONS:
                got = call.run(flags=FLAGS["ACCUMULATE"])
                assert_same(row, got, held + converted(x, source, target), x)


@pytest.mark.parametrize("row", IN_PLACE, ids=symbol)
def test_tails_in_place(checker, row, rng):
    source, target = types(row)
    for columns in columns_of(row):
        call = Call(checker, row, rng)
        x = drawn(rng, source, (3, columns))
        call.put("dst", x.view(DTYPES[target]), columns + 5, writable=True)
        call.values |= {"src": call.values["dst"], "src_rs": columns + 5}
        got = call.run(rows=3, columns=columns, flags=0)
        assert_same(row, got, expected(row, x), x)


@pytest.mark.parametrize("row", OUT, ids=symbol)
def test_tails_and_epilogues_on_the_way_out(checker, row, rng):
    compute, storage = types(row)
    for columns in columns_of(row):
        call = Call(checker, row, rng)
        count, fill = int(rng.integers(1, 5)), columns + int(rng.integers(-1, 40))
        sums, residual = (
            drawn(rng, compute, (count, columns)),
            drawn(rng, storage, (count, columns)),
        )
        bounds = np.array([[-2.5, 40.0]], DTYPES[compute])
        gap, written = int(rng.integers(0, 20)), max(fill, columns)
        call.put("src", sums, sums.itemsize * (columns + gap))
        call.put("residual", residual, residual.itemsize * (columns + gap))
        call.put("clip", bounds, 0)
        empty = np.full((count, written), 0x7FFF, np.uint16)
        empty = empty if storage == "bf16" else empty.astype(DTYPES[storage])
        stride = empty.itemsize * (written + int(rng.integers(0, 20)))
        call.put("dst", empty, stride, writable=True)
        for flags in (0, FLAGS["RESIDUAL"], FLAGS["CLIP"], FLAGS["RESIDUAL"] | FLAGS["CLIP"]):
            right = sums
            if flags & FLAGS["RESIDUAL"]:
                right = right + converted(residual, storage, compute)
            if flags & FLAGS["CLIP"]:
                right = np.clip(right, *bounds[0])
            got = call.run(rows=count, columns=columns, fill=fill, flags=flags)
            assert_same(row, got[:, :columns], converted(right, compute, storage), sums)
            assert not got[:, columns:].tobytes().strip(b"\0")


@pytest.mark.parametrize("row", OUT, ids=symbol)
@pytest.mark.parametrize("clipped", [False, True])
def test_nan_and_infinities_on_the_way_out(checker, row, clipped, rng):
    """NaN passes through a clip; pointers without a flag are not followed."""
    compute, storage = types(row)
    call = Call(checker, row, rng)
    sums = np.array([[1.0, np.nan, np.inf, -np.inf]], DTYPES[compute])
    call.put("src", sums, 0)
    call.put("dst", np.zeros((1, 4), DTYPES[storage]), 0, writable=True)
    right = sums
    if clipped:
        call.put("clip", np.array([[0, 6]], DTYPES[compute]), 0)
        right = np.array([[1.0, np.nan, 6, 0]], DTYPES[compute])
    got = call.run(rows=1, columns=4, fill=0, flags=FLAGS["CLIP"] if clipped else 0)
    assert_same(row, got, converted(right, compute, storage), sums)


@pytest.mark.parametrize("row", IN + OUT, ids=symbol)
@pytest.mark.parametrize("shape", [(0, 5), (3, 0)], ids=str)
def test_nothing_is_touched_where_there_is_nothing(checker, row, shape):
    """No memory is read or written; vector registers may keep their dirty upper halves."""
    values = {field: 8 for field in ("src", "dst", "src_rs", "dst_rs", "residual_rs")}
    values |= {"rows": shape[0], "columns": shape[1], "flags": 0, "fill": 0}
    arguments = checker.arguments(row["op"], values)
    found = checker.problems(row["address"], arguments, row["vector_bytes"])
    assert all("upper halves" in text for text in found), found


PIXEL_TYPES = {
    "u8": np.uint8,
    "s8": np.int8,
    "u16": np.uint16,
    "s16": np.int16,
    "f32": np.float32,
    "f64": np.float64,
}


def test_every_type_of_pixels_has_a_number():
    assert set(PIXELS) == set(PIXEL_TYPES)


@pytest.mark.parametrize("row", every_row("read_pixels"), ids=symbol)
@pytest.mark.parametrize("kind", PIXELS)
def test_pixels(checker, row, kind, rng):
    """Values equal NumPy's conversion; integers include the type's smallest and largest."""
    pixel, element = np.dtype(PIXEL_TYPES[kind]), DTYPES[row["dtype"]]
    for count in (*range(1, 4 * row["lanes"] + 2), 16 * row["lanes"] + 5):
        if pixel.kind == "f":
            pixels = rng.standard_normal(count).astype(pixel)
        else:
            info = np.iinfo(pixel)
            pixels = rng.integers(info.min, info.max, count, pixel, endpoint=True)
            pixels[rng.integers(count)] = info.min
            pixels[rng.integers(count)] = info.max
        call = Call(checker, row, rng)
        call.put("src", pixels.reshape(1, -1), 0)
        call.put("dst", np.full((1, count), np.nan, element), 0, writable=True)
        got = call.run(count=count, kind=PIXELS[kind])[0]
        np.testing.assert_array_equal(got, pixels.astype(element))
