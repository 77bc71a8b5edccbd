"""Half precision to float and back: every half, every rounding, every tail, between guard pages.

NumPy's own conversion is the reference; a test holds it to arithmetic on integers, which has no
flush-to-zero to be wrong about.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from asm.contract import FLAGS
from tests.kernels.kernel_table import every_row, symbol
from tests.kernels.rows_call import Call

IN, OUT = (
    [row for row in every_row(op) if row["dtype"] in ("f16", "f32")]
    for op in ("convert_in", "convert_out")
)
# What a row has in its own type, and in arrays: halves that are computed in float, or the reverse.
FLOAT = "f32"
WIDENING = [r for r in IN if r["dtype"] == FLOAT] + [r for r in OUT if r["dtype"] != FLOAT]
NARROWING = [r for r in OUT if r["dtype"] == FLOAT] + [r for r in IN if r["dtype"] != FLOAT]
EVERY_HALF = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
QUIET = np.uint16(0x200)


def quiet(halves: np.ndarray) -> np.ndarray:
    """Give the bits of halves, each NaN a quiet one."""
    bits = halves.view(np.uint16)
    return np.where(np.isnan(halves), bits | QUIET, bits)


def widened_nan(halves: np.ndarray) -> np.ndarray:
    """Give floats whose NaNs have sign and payload of the halves'."""
    bits = quiet(halves).astype(np.uint32)
    floats = (bits & 0x8000) << 16 | 0x7F800000 | (bits & 0x3FF) << 13
    with np.errstate(invalid="ignore"):  # some CPUs convert themselves, and signal such a NaN
        right = halves.astype(np.float32).view(np.uint32)
    return np.where(np.isnan(halves), floats, right)


# NEON of 32-bit Arm gives the default NaN, whatever NaN it is given.
DEFAULT_NAN = {"half32": (np.uint16(0x7E00), np.uint32(0x7FC00000))}


def as_given(row, right: np.ndarray) -> np.ndarray:
    """Give the bits that a row's instruction set has for these."""
    if row["isa"] not in DEFAULT_NAN:
        return right
    default = DEFAULT_NAN[row["isa"]][right.itemsize // 4]
    numbers = right.view(np.float16 if right.itemsize == 2 else np.float32)
    return np.where(np.isnan(numbers), default, right)


def types(row):
    """Give the compute type and the storage type."""
    pair = np.dtype(np.float32), np.dtype(np.float16)
    return pair if row["dtype"] == FLOAT else pair[::-1]


def shapes(row, rng):
    """Yield rows, columns and gaps: every tail, and none at all."""
    lanes = row["vector_bytes"] // types(row)[0].itemsize
    for columns in (*range(1, 2 * lanes + 2), 3 * lanes, 5 * lanes - 1):
        count = int(rng.integers(1, 5))
        yield count, columns, int(rng.integers(0, 20)), int(rng.integers(0, 20))


def floats_around_halves(rng) -> np.ndarray:
    """Give every half as a float, what lies midway between two, and the floats beside them."""
    ordered = np.sort(EVERY_HALF[np.isfinite(EVERY_HALF)].astype(np.float32))
    ordered = np.concatenate([ordered, [np.float32(65536), np.float32(-65536)]])
    middle = ((np.sort(ordered)[1:].astype(np.float64) + np.sort(ordered)[:-1]) / 2).astype("f4")
    exact = np.concatenate([ordered, middle])
    beside = [np.nextafter(exact, np.float32(np.inf)), np.nextafter(exact, np.float32(-np.inf))]
    other = rng.integers(0, 1 << 32, 20000, np.uint32).view(np.float32)
    special = np.array([np.inf, -np.inf, np.nan, -np.nan, 0.0, -0.0, 3.4e38, 1e-45], np.float32)
    payload = np.array([0x7F800001, 0xFFC12345, 0x7FA00000], np.uint32).view(np.float32)
    return np.concatenate([exact, *beside, other, special, payload])


def narrowed(floats: np.ndarray) -> np.ndarray:
    """Give the bits of floats rounded to half precision; NaN keeps sign and upper payload."""
    bits = floats.view(np.uint32)
    with np.errstate(over="ignore", invalid="ignore"):
        right = floats.astype(np.float16).view(np.uint16)
    nan = (bits >> 16 & 0x8000 | 0x7E00 | bits >> 13 & 0x3FF).astype(np.uint16)
    return np.where(np.isnan(floats), nan, right)


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


@pytest.mark.parametrize("row", WIDENING, ids=symbol)
def test_every_half_widens_exactly(checker, row, rng):
    call = Call(checker, row, rng)
    halves = EVERY_HALF.reshape(64, 1024)
    call.put("src", halves, 2048)
    call.put("dst", np.full(halves.shape, np.nan, np.float32), 4096, writable=True)
    got = call.run(rows=64, columns=1024, fill=0, flags=0)
    np.testing.assert_array_equal(got.view(np.uint32), as_given(row, widened_nan(halves)))


@pytest.mark.parametrize("row", NARROWING, ids=symbol)
def test_every_rounding(checker, row, rng):
    """Ties, subnormal halves, what overflows, NaN with a payload."""
    call = Call(checker, row, rng)
    floats = floats_around_halves(rng)[np.newaxis]
    call.put("src", floats, 0)
    call.put("dst", np.full(floats.shape, np.nan, np.float16), 0, writable=True)
    got = call.run(rows=1, columns=floats.size, fill=0, flags=0).view(np.uint16)
    right = as_given(row, narrowed(floats))
    wrong = np.nonzero(got != right)[1]
    assert not wrong.size, [(floats[0, i], hex(got[0, i]), hex(right[0, i])) for i in wrong[:5]]


@pytest.mark.parametrize("row", IN, ids=symbol)
def test_tails_on_the_way_in(checker, row, rng):
    compute, storage = types(row)
    for count, columns, gap, other in shapes(row, rng):
        call = Call(checker, row, rng)
        numbers = (100 * rng.standard_normal((count, columns))).astype(storage)
        held = rng.standard_normal((count, columns)).astype(compute)
        call.put("src", numbers, storage.itemsize * (columns + gap))
        call.put("dst", held, compute.itemsize * (columns + other), writable=True)
        got = call.run(rows=count, columns=columns, flags=0)
        np.testing.assert_array_equal(got, numbers.astype(compute))
        got = call.run(flags=FLAGS["ACCUMULATE"])
        np.testing.assert_array_equal(got, held + numbers.astype(compute))


@pytest.mark.parametrize("row", OUT, ids=symbol)
def test_tails_and_epilogues_on_the_way_out(checker, row, rng):
    compute, storage = types(row)
    for count, columns, gap, other in shapes(row, rng):
        call = Call(checker, row, rng)
        fill = columns + int(rng.integers(-1, 40))
        sums = (100 * rng.standard_normal((count, columns))).astype(compute)
        residual = rng.standard_normal((count, columns)).astype(storage)
        bounds = np.array([[-2.5, 40.0]], compute)
        call.put("src", sums, compute.itemsize * (columns + gap))
        call.put("residual", residual, storage.itemsize * (columns + gap))
        call.put("clip", bounds, 0)
        del call.values["clip_rs"]
        written = max(fill, columns)
        empty = np.full((count, written), np.nan, storage)
        call.put("dst", empty, storage.itemsize * (written + other), writable=True)
        for flags in (0, FLAGS["RESIDUAL"], FLAGS["CLIP"], FLAGS["RESIDUAL"] | FLAGS["CLIP"]):
            right = sums
            if flags & FLAGS["RESIDUAL"]:
                right = right + residual.astype(compute)
            if flags & FLAGS["CLIP"]:
                right = np.clip(right, *bounds[0])
            got = call.run(rows=count, columns=columns, fill=fill, flags=flags)
            np.testing.assert_array_equal(got[:, :columns], right.astype(storage))
            assert not got[:, columns:].tobytes().strip(b"\0")


@pytest.mark.parametrize("row", OUT, ids=symbol)
def test_pointers_without_a_flag_are_not_followed(checker, row, rng):
    compute, storage = types(row)
    call = Call(checker, row, rng)
    sums = np.array([[1.0, np.nan, -np.inf]], compute)
    call.put("src", sums, 0)
    call.put("dst", np.zeros((1, 3), storage), 0, writable=True)
    got = call.run(rows=1, columns=3, fill=0, flags=0)
    np.testing.assert_array_equal(got, sums.astype(storage))


@pytest.mark.parametrize("row", [*IN, *OUT], ids=symbol)
@pytest.mark.parametrize("shape", [(0, 5), (3, 0)], ids=str)
def test_nothing_is_touched_where_there_is_nothing(checker, row, shape):
    """No memory, be it mapped or not; vector registers may be left as they were found."""
    values = {field: 8 for field in ("src", "dst", "src_rs", "dst_rs", "fill", "residual_rs")}
    values |= {"rows": shape[0], "columns": shape[1], "flags": 0, "fill": 0}
    arguments = checker.arguments(row["op"], values)
    found = checker.problems(row["address"], arguments, row["vector_bytes"])
    assert all("upper halves" in text for text in found), found


@pytest.mark.parametrize("row", OUT, ids=symbol)
def test_nan_passes_through_a_clip(checker, row, rng):
    compute, storage = types(row)
    call = Call(checker, row, rng)
    call.put("src", np.array([[np.nan, np.inf, -np.inf]], compute), 0)
    call.put("clip", np.array([[0, 6]], compute), 0)
    del call.values["clip_rs"]
    call.put("dst", np.zeros((1, 3), storage), 0, writable=True)
    got = call.run(rows=1, columns=3, fill=0, flags=FLAGS["CLIP"])
    np.testing.assert_array_equal(got, [[np.nan, 6, 0]])
