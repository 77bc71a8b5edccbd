"""The model of tile products agrees with exact arithmetic, and with silicon if there is AMX."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tests.kernels.gemm_case import ACCUMULATE, B_PADDED
from tests.kernels.kernel_table import rows
from tests.kernels.tile_arithmetic import added, dot_bf16, dot_bytes, widened
from tests.kernels.tile_case import TileCall, draw_case

TINY = 2.0**-126


def bits(x: float) -> int:
    """Bits of a bfloat16 number."""
    return int(np.float32(x).view(np.uint32)) >> 16


@pytest.mark.parametrize("types", [(np.uint8, np.int8), (np.int8, np.int8)])
def test_bytes(rng, types):
    """Element by element in Python's integers, modulo 2**32."""
    a, b = (rng.integers(np.iinfo(t).min, np.iinfo(t).max + 1, (3, 8)).astype(t) for t in types)
    a, b = a, b[:2, :8]
    c = rng.integers(-(1 << 31), 1 << 31, (3, 2)).astype(np.int32)
    got = dot_bytes(c, a, b)
    for m in range(3):
        for n in range(2):
            total = int(c[m, n])
            for g in range(2):
                total += sum(int(a[m, 4 * g + i]) * int(b[g, 4 * n + i]) for i in range(4))
            assert int(got[m, n]) & 0xFFFFFFFF == total & 0xFFFFFFFF


def test_one_rounding(rng):
    """Sums near ties, some of which would be wrong if they were rounded to float64 first."""
    mantissas = rng.integers(1 << 23, 1 << 24, 4000).astype(np.float64)
    half = np.where(rng.random(4000) < 0.5, 0.5, 1.5)
    products = half * rng.choice([-1, 1], 4000)
    nudge = rng.choice([-1, 0, 1], 4000) * 2.0**-40
    for x, y in ((products, mantissas), (mantissas + products, nudge), (mantissas + 0.5, nudge)):
        got = added(x, y)
        for i in range(0, 4000, 7):
            exact = Fraction(float(x[i])) + Fraction(float(y[i]))
            assert got[i] == nearest(exact)


def nearest(x: Fraction) -> float:
    """Round to the nearest float32 in the range of 2**23, ties to even."""
    unit = Fraction(1) if abs(x) < 1 << 24 else Fraction(2)
    unit = Fraction(1, 2) if abs(x) < 1 << 23 else unit
    return float(round(x / unit) * unit)  # of fractions, to even


# x, y and the expected TINY - x * y: a sum of two terms of the even chain.
NEAR_TINY = [
    (2.0**-80, 2.0**-80, TINY),
    (2.0**-80, 2.0**-71, TINY),  # a tie
    (1.5 * 2.0**-80, 2.0**-71, 0.0),
    (2.0**-80, 2.0**-70, 0.0),
    (2.0**-79, 2.0**-70, 0.0),
]


def near_tiny(x: float, y: float) -> tuple[np.ndarray, np.ndarray]:
    """Operands of one row and 16 columns whose sums are TINY - x * y."""
    a, b = np.zeros((1, 32), np.uint16), np.zeros((16, 32), np.uint16)
    a[0, 0], b[0, ::2] = bits(2.0**-63), bits(2.0**-63)
    a[0, 2], b[1, ::2] = bits(-x), bits(y)
    return a, b


@pytest.mark.parametrize(("x", "y", "expected"), NEAR_TINY)
def test_flush_after_rounding(x, y, expected):
    """Results are rounded to 24 bits with any exponent, and then flushed."""
    assert np.all(dot_bf16(np.zeros((1, 16), np.float32), *near_tiny(x, y)) == expected)


def test_subnormal_numbers_are_zeros_of_their_sign():
    a, b = np.zeros((1, 2), np.uint16), np.zeros((1, 2), np.uint16)
    a[0, 0], b[0, 0] = 1, bits(2.0**127)  # a subnormal number times a large one
    for c in (0.0, -0.0, 2.0**-130, -(2.0**-130), 1.0):
        held = np.full((1, 1), c, np.float32)
        expected = np.float32(c if abs(c) >= TINY else 0.0)
        assert dot_bf16(held, a, b).view(np.uint32) == (expected + np.float32(0)).view(np.uint32)
    b[0, 0] = bits(np.inf)
    assert np.isnan(dot_bf16(held, a, b))


def test_even_and_odd_are_apart():
    """2**26 in the even chain does not swallow small terms of the odd chain."""
    ones = np.zeros((1, 4), np.uint16)
    ones[:] = bits(1.0)
    b = np.array([[bits(2.0**26), bits(1.0)], [bits(-(2.0**26)), bits(1.0)]], np.uint16)
    assert dot_bf16(np.zeros((1, 1), np.float32), ones, b) == 2.0
    assert np.array_equal(widened(ones), np.ones((1, 4)))


@pytest.mark.needs_isa("amx")
def test_silicon_flushes_alike(silicon, checker, rng):
    """A kernel gives the same results."""
    (row,) = (r for r in rows("gemm", "amx") if (r["dtype"], r["mr"], r["nr"]) == ("bf16t", 1, 16))
    for x, y, expected in NEAR_TINY:
        case = draw_case(rng, row, n=16, k=32, flags=B_PADDED, segment_count=0, kind="random")
        call = TileCall(checker, row, case, rng)
        put(call, *near_tiny(x, y))
        assert np.all(call.run(silicon) == expected)


@pytest.mark.needs_isa("amx")
def test_any_bits(silicon, checker, rng):
    """Numbers of all exponents, subnormal ones, infinities and NaN, in A, B and C."""
    (row,) = (r for r in rows("gemm", "amx") if (r["dtype"], r["mr"], r["nr"]) == ("bf16t", 16, 16))
    flags = B_PADDED | ACCUMULATE
    for turn in range(300):
        case = draw_case(rng, row, n=16, k=32, flags=flags, segment_count=0, kind="extreme")
        call = TileCall(checker, row, case, rng)
        # Exponents whose products lie near the ends of the range, different each time.
        center = int(rng.integers(0, 255))
        exponents = rng.integers(max(center - 9, 0), min(center + 9, 255) + 1, (2, 16, 32))
        exponents[1] = np.clip(254 * (turn % 3) // 2 - exponents[1] + turn % 60, 0, 255)
        drawn = (
            exponents << 7
            | rng.integers(0, 128, (2, 16, 32))
            | rng.integers(0, 2, (2, 16, 32)) << 15
        )
        put(call, *drawn.astype(np.uint16))
        call.c.write(rng.integers(0, 1 << 32, (16, 16)).astype(np.uint32).view(np.float32))
        call.judge(call.run(silicon))


def put(call: TileCall, a: np.ndarray, b: np.ndarray) -> None:
    """Replace the operands of a call of one step."""
    for name, values, row_bytes in (("a", a, call.case.a_rs), ("b", b, call.case.b_ks)):
        buffer, _ = call.buffers[name]
        buffer.array(values.shape, values.dtype, (row_bytes, 2))[...] = values
    call.stored = [a], [b]
