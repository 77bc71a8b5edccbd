"""Element-wise programs of float32 whose arrays are bfloat16: all tails, mixtures and roundings."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.elementwise_call import Call
from tests.kernels.kernel_table import DTYPES, every_row, symbol
from tests.kernels.kernel_values import draw
from tests.kernels.test_conversions import (
    EVERY_BFLOAT,
    bfloat_to_float,
    float_to_bfloat,
    floats_around_bfloats,
)
from tests.kernels.test_elementwise import EXACT, arity

ROWS = [row for row in every_row("elementwise") if row["dtype"] == "f32"]
every_kernel = pytest.mark.parametrize("row", ROWS, ids=symbol)
BITS, SINGLE = DTYPES["bf16"], DTYPES["f32"]
# Instructions of which NumPy has the same bits; the first run without chunks.
OPERATIONS = ("ADD", "SUBTRACT", "MULTIPLY", "CLIP", "DIVIDE", "MAXIMUM", "NEGATE", "WHERE")


def counts(row: dict) -> list[int]:
    """Columns: up to two vectors, and around a chunk of vectors."""
    lanes = row["vector_bytes"] // 4
    chunk = lanes * (4 if row["vector_bytes"] == 64 else 8)
    return sorted({*range(1, 2 * lanes + 4), *range(chunk - 1, chunk + 2), 3 * chunk + 3, 700})


def same(got: np.ndarray, expected: np.ndarray) -> None:
    """Compare bits of bfloat16; one NaN is as good as another."""
    wide, other = bfloat_to_float(got), bfloat_to_float(expected)
    known = ~np.isnan(other)
    np.testing.assert_array_equal(np.isnan(wide), ~known)
    np.testing.assert_array_equal(got[known], expected[known])


@every_kernel
@pytest.mark.parametrize("op", OPERATIONS)
def test_any_mixture_of_types(checker, row, op, rng):
    """Inputs that repeat along rows or columns, rows that follow one another, and in place."""
    for columns in counts(row):
        shape = (int(rng.integers(1, 5)), columns)
        call = Call(checker, row, rng, shape)
        call.gaps = bool(rng.integers(0, 2))
        operands = []
        for register in range(arity(op)):
            size = tuple(1 if rng.random() < 0.2 else n for n in shape)
            x = draw(rng, "special" if op != "CLIP" else "random", size, SINGLE)
            bits = float_to_bfloat(x)
            narrow = bool(rng.integers(0, 3))
            operands.append(bfloat_to_float(bits) if narrow else x)
            if narrow:
                call.read(bits, register, "BF16")
            else:
                call.read(x, register)
        narrow = bool(rng.integers(0, 4))
        if narrow:
            call.write_as(7, "BF16", BITS)
        else:
            call.write(7)
        (got,) = call.run([(op, 7, *[*range(len(operands)), 0, 0][:3])])
        with np.errstate(all="ignore"):
            wide = [np.broadcast_to(x, shape) for x in operands]
            expected = np.ascontiguousarray(EXACT[op](*wide), SINGLE)
        if narrow:
            same(got, float_to_bfloat(expected))
        else:
            np.testing.assert_array_equal(got, expected)


@every_kernel
def test_every_number_is_loaded(checker, row, rng):
    """Subnormal numbers and NaN, too."""
    bits = EVERY_BFLOAT.reshape(64, -1)
    call = Call(checker, row, rng, bits.shape)
    call.read(bits, 3, "BF16")
    call.write(3)
    (got,) = call.run([])
    np.testing.assert_array_equal(got.view(np.uint32), bfloat_to_float(bits).view(np.uint32))


@every_kernel
def test_every_rounding(checker, row, rng):
    """Ties, subnormal numbers, overflow, and NaN with a payload."""
    floats = floats_around_bfloats(rng)
    floats = floats[: len(floats) // 50 * 50].reshape(50, -1)
    call = Call(checker, row, rng, floats.shape)
    call.read(floats, 3)
    call.write_as(3, "BF16", BITS)
    (got,) = call.run([])
    np.testing.assert_array_equal(got, float_to_bfloat(floats))


# Numbers around zero whose sums, products and quotients are often subnormal, or the least normal.
SMALL = np.concatenate([
    np.array([0, 1, 0x8000, 0x12345, 0x7FFFFF, 0x800000, 0x800001, 0x987654, 0x1000000], np.uint32),
    np.float32([1, 0.5, 1e-19, 3e-20, 2e-38, np.inf, np.nan]).view(np.uint32),
])  # fmt: skip
SMALL = np.concatenate([SMALL, SMALL | 0x80000000]).view(np.float32)
# Arithmetic, what gives one of its operands, and what does either.
RESULTS = (
    "ADD", "SUBTRACT", "MULTIPLY", "MULTIPLY_ADD", "DIVIDE", "SIGMOID", "SILU", "HARDSWISH",
    "COPY", "SLOPE", "MINIMUM", "MAXIMUM", "CLIP", "NEGATE", "ABSOLUTE", "WHERE", "GELU",
    "HYPERBOLIC_TANGENT", "SQUARE_ROOT",
)  # fmt: skip


@pytest.mark.parametrize("flush", [False, True])
@every_kernel
def test_roundings_are_of_what_float32_stores(checker, row, flush, rng):
    """Each result that is stored twice, as float32 and as bfloat16, subnormal numbers included.

    Under flush-to-zero arithmetic gives no subnormal numbers; what only moves numbers does.
    """
    x, y, z = (np.tile(v, 3) for v in (SMALL, rng.permutation(SMALL), rng.permutation(SMALL)))
    for op in RESULTS:
        for bound in (np.float32([[0]]), np.float32([[1e-40]]), None):
            operands = [x[None], y[None] if bound is None else bound, z[None]]
            for after in ((), (("CLIP", 6, 7, 4, 5),), (("NEGATE", 6, 7, 0, 0),)):
                got = []
                for stored in (None, "BF16"):
                    call = Call(checker, row, np.random.default_rng(0), x[None].shape)
                    for register, operand in enumerate(operands):
                        call.read(operand, register)
                    call.read(np.float32([[-1e-42]]), 4)
                    call.read(np.float32([[6]]), 5)
                    result = after[0][1] if after else 7
                    if stored:
                        call.write_as(result, stored, BITS)
                    else:
                        call.write(result)
                    with checker.flushing(flush):
                        got += call.run([(op, 7, 0, 1, 2), *after])
                same(got[1], float_to_bfloat(got[0]))


@every_kernel
def test_values_between_instructions_are_not_rounded(checker, row, rng):
    """Two outputs of one program, one of each type."""
    for columns in counts(row):
        a, b = (float_to_bfloat(draw(rng, "random", (3, columns), SINGLE)) for _ in range(2))
        call = Call(checker, row, rng, (3, columns))
        call.read(a, 0, "BF16")
        call.read(b, 1, "BF16")
        call.write(2)
        call.write_as(3, "BF16", BITS)
        got = call.run([("MULTIPLY", 2, 0, 1, 0), ("SUBTRACT", 3, 2, 0, 0)])
        x, y = bfloat_to_float(a), bfloat_to_float(b)
        np.testing.assert_array_equal(got[0], x * y)
        same(got[1], float_to_bfloat(np.asarray(x * y - x, np.float32)))
