"""Element-wise programs: each instruction, tails, inputs that repeat, and outputs in place."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from asm.contract.constants import INSTRUCTIONS, MOST_REGISTERS
from tests.kernels.elementwise_call import Call
from tests.kernels.kernel_table import DTYPES, float_rows, rows, symbol
from tests.kernels.kernel_values import draw

every_kernel = pytest.mark.parametrize("row", float_rows("elementwise"), ids=symbol)
every_instruction = pytest.mark.parametrize("op", INSTRUCTIONS)
# Largest errors, in units of eps times the exact value or the smallest normal number. Other
# instructions give NumPy's values exactly.
ALLOWED = {
    "MULTIPLY_ADD": 1.0,
    "POWER": 1.0,
    "EXPONENTIAL": 2.0,
    "LOGARITHM": 1.0,
    "HYPERBOLIC_TANGENT": 2.5,
    "ERROR_FUNCTION": 1.0,
    "SIGMOID": 2.0,
    "SILU": 2.0,
    "HARDSWISH": 2.0,
    "SOFTPLUS": 2.0,
    "MISH": 2.5,
    "GELU": 1.5,
    "SINE": 2.0,
    "COSINE": 2.0,
    "ARC_SINE": 1.0,
    "ARC_COSINE": 1.0,
    "ARC_TANGENT": 1.0,
    "HYPERBOLIC_SINE": 2.0,
    "HYPERBOLIC_COSINE": 2.0,
    "AREA_SINE": 2.0,
    "AREA_COSINE": 2.0,
    "AREA_TANGENT": 2.0,
}
UNARY = {
    "COPY", "NEGATE", "ABSOLUTE", "SQUARE_ROOT", "FLOOR", "CEIL", "ROUND", "EXPONENTIAL",
    "LOGARITHM", "HYPERBOLIC_TANGENT", "ERROR_FUNCTION", "SIGMOID", "SILU", "HARDSWISH", "NOT",
    "SOFTPLUS", "MISH", "GELU", "SINE", "COSINE", "ARC_SINE", "ARC_COSINE",
    "ARC_TANGENT", "HYPERBOLIC_SINE", "HYPERBOLIC_COSINE", "AREA_SINE", "AREA_COSINE",
    "AREA_TANGENT",
}  # fmt: skip
TERNARY = {"MULTIPLY_ADD", "CLIP", "WHERE"}
_erfc = np.vectorize(math.erfc, otypes=[np.float64])
_erf = np.vectorize(math.erf, otypes=[np.float64])


def sigmoid(x: np.ndarray) -> np.ndarray:
    """Sigmoid without a difference of large numbers."""
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1) / (1 + e)


def silu(x: np.ndarray) -> np.ndarray:
    """SiLU with its limits at both infinities."""
    e = np.exp(-np.abs(x))
    finite = np.where(np.isneginf(x), -1e5, x)
    return np.where(x < 0, finite * np.exp(-np.abs(finite)), x) / (1 + e)


def hardswish(x: np.ndarray) -> np.ndarray:
    """HardSwish with its limits at both infinities."""
    clipped = np.maximum(x, -3)
    return clipped * np.minimum(clipped + 3, 6) / 6


def softplus(x: np.ndarray) -> np.ndarray:
    """Softplus without an infinite exponential."""
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def mish(x: np.ndarray) -> np.ndarray:
    """Mish with its limits at both infinities."""
    return np.where(np.isneginf(x), x.dtype.type(-1e5), x) * np.tanh(softplus(x))


def gelu(x: np.ndarray) -> np.ndarray:
    """Gelu with its limits at both infinities."""
    finite = np.where(np.isneginf(x), -100, x).astype(np.float64)
    return finite * _erfc(-finite / math.sqrt(2)) / 2


EXACT: dict[str, Callable[..., np.ndarray]] = {
    "COPY": lambda a: a,
    "ADD": np.add,
    "SUBTRACT": np.subtract,
    "MULTIPLY": np.multiply,
    "DIVIDE": np.divide,
    "MULTIPLY_ADD": lambda a, b, c: a * b + c,
    "MINIMUM": np.minimum,
    "MAXIMUM": np.maximum,
    "CLIP": lambda a, b, c: np.minimum(np.maximum(a, b), c),
    "NEGATE": np.negative,
    "ABSOLUTE": np.abs,
    "SQUARE_ROOT": np.sqrt,
    "FLOOR": np.floor,
    "CEIL": np.ceil,
    "ROUND": np.rint,
    "POWER": np.power,
    "EXPONENTIAL": np.exp,
    "LOGARITHM": np.log,
    "HYPERBOLIC_TANGENT": np.tanh,
    "ERROR_FUNCTION": lambda a: _erf(a.astype(np.float64)),
    "SIGMOID": sigmoid,
    "SILU": silu,
    "HARDSWISH": hardswish,
    "SOFTPLUS": softplus,
    "MISH": mish,
    "GELU": gelu,
    "SLOPE": lambda a, b: np.where(a < 0, np.where(b == 0, 0, b * a), a),
    "LESS": np.less,
    "LESS_OR_EQUAL": np.less_equal,
    "EQUAL": np.equal,
    "NOT": lambda a: a == 0,
    "AND": np.logical_and,
    "OR": np.logical_or,
    "WHERE": lambda a, b, c: np.where(a != 0, b, c),
    "SINE": np.sin,
    "COSINE": np.cos,
    "ARC_SINE": np.arcsin,
    "ARC_COSINE": np.arccos,
    "ARC_TANGENT": np.arctan,
    "HYPERBOLIC_SINE": np.sinh,
    "HYPERBOLIC_COSINE": np.cosh,
    "AREA_SINE": np.arcsinh,
    "AREA_COSINE": np.arccosh,
    "AREA_TANGENT": np.arctanh,
    "REMAINDER": np.fmod,
}


def arity(op: str) -> int:
    """Number of operands of an instruction."""
    return 1 if op in UNARY else 3 if op in TERNARY else 2


def compare(row: dict, op: str, got: np.ndarray, operands: Sequence[np.ndarray]) -> float:
    """Compare with NumPy; give the largest error in units of eps."""
    dtype = got.dtype
    wide = np.float64 if dtype == np.float32 else np.longdouble
    with np.errstate(all="ignore"):
        if op not in ALLOWED:
            expected = np.broadcast_to(np.asarray(EXACT[op](*operands), dtype), got.shape)
            np.testing.assert_array_equal(got, expected, f"{row['symbol']} {op}")
            return 0.0
        many = [x.astype(wide) for x in operands]
        expected = np.broadcast_to(EXACT[op](*many), got.shape).astype(wide)
        rounded = expected.astype(dtype)
        size = np.abs(expected)
        if op == "MULTIPLY_ADD":
            size = np.broadcast_to(np.abs(many[0] * many[1]) + np.abs(many[2]), got.shape)
        if op == "GELU":
            size = np.broadcast_to(np.abs(many[0]), got.shape)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(rounded), f"{row['symbol']} {op}")
    # The product of MULTIPLY_ADD may overflow although the result does not.
    info = np.finfo(dtype)
    infinite = np.isinf(rounded) | (size > info.max)
    if op != "MULTIPLY_ADD":
        np.testing.assert_array_equal(got[infinite], rounded[infinite])
    finite = np.isfinite(rounded) & ~infinite
    error = np.abs(got[finite].astype(wide) - expected[finite])
    error = error / (np.maximum(size[finite], info.tiny) * info.eps)
    worst = float(error.max(initial=0))
    at = int(error.argmax()) if error.size else 0
    where = [np.broadcast_to(x, got.shape)[finite][at] for x in operands] if error.size else None
    # Of float64, the reference of gelu is in float64, too, and has an error of its own.
    allowed = ALLOWED[op] + (0.5 if op == "GELU" and dtype == np.float64 else 0.0)
    assert worst <= allowed, f"{row['symbol']} {op}: {worst} eps at {where!r}"
    return worst


def drawn(rng: np.random.Generator, op: str, shape: tuple[int, int], dtype: np.dtype, which: int):
    """Draw an operand with some special values, and with ties and zeros for `op`."""
    x = 3 * draw(rng, "special", shape, dtype)
    if op in ("EQUAL", "LESS", "LESS_OR_EQUAL", "NOT", "AND", "OR", "WHERE", "ROUND", "SLOPE"):
        x = np.where(rng.random(shape) < 0.5, np.rint(x / 2), x).astype(dtype)
    if op == "ROUND":
        x = np.where(rng.random(shape) < 0.5, x + dtype.type(0.5), x).astype(dtype)
    if op == "CLIP" and which:
        # Bounds are not NaN; the lower one may exceed the upper one.
        x = np.nan_to_num(x, nan=1.0, posinf=np.inf, neginf=-np.inf)
    if op == "SLOPE" and which:
        x = np.nan_to_num(x, nan=1.0, posinf=2.0, neginf=-2.0)
    return x


def repeated(rng: np.random.Generator, shape: tuple[int, int]) -> tuple[int, int]:
    """Draw the shape of an input: size 1 along dimensions that are repeated."""
    rows_, columns = (int(rng.integers(0, 3)) == 0 for _ in range(2))
    return (1 if rows_ else shape[0], 1 if columns else shape[1])


def computed(checker, row, rng, op: str, operands: Sequence[np.ndarray]) -> np.ndarray:
    """Run a program of one instruction; operands have the shape of the result."""
    call = Call(checker, row, rng, operands[0].shape)
    for reg, x in enumerate(operands):
        call.read(x, reg)
    call.write(0)
    (got,) = call.run([(op, 0, *[*range(len(operands)), 0, 0][:3])])
    return got


@every_kernel
@every_instruction
def test_tails(checker, row, op, rng):
    """Every number of columns up to two vectors, and around a chunk of vectors; in place or not."""
    dtype = DTYPES[row["dtype"]]
    lanes = row["vector_bytes"] // dtype.itemsize
    chunk = lanes * (4 if row["vector_bytes"] == 64 else 8)
    counts = {*range(1, 2 * lanes + 4), *range(chunk - 2, chunk + 3), 2 * chunk + 3}
    for columns in sorted(counts):
        shape = (int(rng.integers(1, 4)), columns)
        call = Call(checker, row, rng, shape)
        operands = []
        registers = [int(r) for r in rng.permutation(MOST_REGISTERS)[:4]]
        in_place = bool(rng.integers(0, 2))
        for which in range(arity(op)):
            first = in_place and not which
            x = drawn(rng, op, shape if first else repeated(rng, shape), dtype, which)
            operands.append(x)
            if first:
                call.change(x, registers[0], registers[3])
            else:
                call.read(x, registers[which])
        if not in_place:
            call.write(registers[3])
        sources = [*registers[: arity(op)], *[registers[0]] * 3][:3]
        (got,) = call.run([(op, registers[3], *sources)])
        compare(row, op, got, operands)


@every_kernel
@pytest.mark.parametrize("op", ["ADD", "CLIP", "MULTIPLY", "MULTIPLY_ADD", "SUBTRACT", "SILU"])
def test_rows_that_follow_one_another(checker, row, op, rng):
    """Short rows without gaps run as one long row, also with inputs that repeat for each row."""
    dtype = DTYPES[row["dtype"]]
    for columns in (1, 2, 7, 8, 12, 16, 24, 33, 88, 200):
        shape = (int(rng.integers(2, 40)), columns)
        call = Call(checker, row, rng, shape)
        call.gaps = False
        operands = [drawn(rng, op, shape, dtype, 0)]
        call.change(operands[0], 4, 9)
        for which in range(1, arity(op)):
            rows_, columns_ = (int(rng.integers(0, 2)) for _ in range(2))
            size = (shape[0] if rows_ else 1, shape[1] if columns_ or rows_ else 1)
            operands.append(drawn(rng, op, size, dtype, which))
            call.read(operands[-1], which)
        (got,) = call.run([(op, 9, *[4, *range(1, arity(op)), 4, 4][:3])])
        compare(row, op, got, operands)


@every_kernel
@pytest.mark.parametrize("op", sorted(ALLOWED))
def test_error_over_the_whole_range(checker, row, op, rng):
    """Dense where functions bend and where they underflow, and over all magnitudes."""
    dtype = DTYPES[row["dtype"]]
    shape = (16, 256)
    depth = 120 if dtype == np.float32 else 770
    if op in ("ERROR_FUNCTION", "GELU"):
        # Their reference is slow: a call of `math` for each number.
        shape = (4, 256)
    worst = 0.0
    for low, high in ((-0.4, 0.4), (-1, 1), (-9, 9), (-20, 0), (-depth, depth), (0, 0)):
        operands = [
            rng.uniform(low, high, shape).astype(dtype) if high > low
            else draw(rng, "extreme", shape, dtype)
            for _ in range(arity(op))
        ]  # fmt: skip
        if op == "POWER":
            operands[0] = np.abs(operands[0])
        got = computed(checker, row, rng, op, operands)
        worst = max(worst, compare(row, op, got, operands))
    # These references are float64, too short to show errors of float64 kernels.
    known = op not in ("ERROR_FUNCTION", "GELU") or dtype == np.float32
    assert worst > 0.3 or not known, "an error that no rounding explains"


@every_kernel
def test_programs(checker, row, rng):
    """Several instructions and outputs: registers keep their values; one register is reused."""
    dtype = DTYPES[row["dtype"]]
    lanes = row["vector_bytes"] // dtype.itemsize
    for columns in (1, lanes - 1, 3 * lanes + 1, 8 * lanes, 17 * lanes + 5):
        shape = (3, columns)
        a, b = (draw(rng, "special", shape, dtype) for _ in range(2))
        scalar = draw(rng, "random", (1, 1), dtype)
        each_row = draw(rng, "random", (3, 1), dtype)
        call = Call(checker, row, rng, shape)
        call.change(a, 0, 4)
        call.read(b, 1)
        call.read(scalar, 2)
        call.read(each_row, 3)
        call.write(1)
        call.write(31)
        with np.errstate(all="ignore"):
            # Halves are computed in float, and rounded where they are stored.
            wide = [x.astype(np.float32) if dtype.itemsize == 2 else x
                    for x in (a, b, scalar, each_row)]  # fmt: skip
            total = (wide[0] + wide[1]) * wide[2] - wide[3]
            expected = [x.astype(dtype) for x in (total, b, np.maximum(total, wide[1]))]
        got = call.run([
            ("ADD", 4, 0, 1, 0), ("MULTIPLY", 4, 4, 2, 0), ("SUBTRACT", 4, 4, 3, 0),
            ("MAXIMUM", 31, 4, 1, 0),
        ])  # fmt: skip
        for x, y in zip(got, expected, strict=True):
            np.testing.assert_array_equal(x, y)


@every_kernel
def test_special_values(checker, row, rng):
    """NaN passes; infinities give the limits, and zeros keep their sign."""
    dtype = DTYPES[row["dtype"]]
    x = np.array([[np.nan, np.inf, -np.inf, -0.0, 0.0]], dtype)
    limits = {
        "EXPONENTIAL": (np.nan, np.inf, 0, 1, 1),
        "LOGARITHM": (np.nan, np.inf, np.nan, -np.inf, -np.inf),
        "HYPERBOLIC_TANGENT": (np.nan, 1, -1, -0.0, 0),
        "ERROR_FUNCTION": (np.nan, 1, -1, -0.0, 0),
        "SIGMOID": (np.nan, 1, 0, 0.5, 0.5),
        "SQUARE_ROOT": (np.nan, np.inf, np.nan, -0.0, 0),
        "NEGATE": (np.nan, -np.inf, np.inf, 0, -0.0),
        "ABSOLUTE": (np.nan, np.inf, np.inf, 0, 0),
        "FLOOR": (np.nan, np.inf, -np.inf, -0.0, 0),
        "NOT": (0, 0, 0, 1, 1),
        "SINE": (np.nan, np.nan, np.nan, -0.0, 0),
        "COSINE": (np.nan, np.nan, np.nan, 1, 1),
        "ARC_TANGENT": (np.nan, np.pi / 2, -np.pi / 2, -0.0, 0),
        "HYPERBOLIC_SINE": (np.nan, np.inf, -np.inf, -0.0, 0),
        "AREA_SINE": (np.nan, np.inf, -np.inf, -0.0, 0),
        "AREA_TANGENT": (np.nan, np.nan, np.nan, -0.0, 0),
    }
    for op, expected in limits.items():
        got = computed(checker, row, rng, op, [x])
        np.testing.assert_array_equal(got[0], np.array(expected, dtype), op)
        numbers = ~np.isnan(got[0])
        signs = np.signbit(np.array(expected, dtype))
        np.testing.assert_array_equal(np.signbit(got[0])[numbers], signs[numbers], op)


@every_kernel
@pytest.mark.parametrize("op", ["SINE", "COSINE"])
def test_sines_of_large_numbers(checker, row, op, rng):
    """Near multiples of a quarter turn, and on both sides of the end of the fast reduction."""
    dtype = DTYPES[row["dtype"]]
    quarters = rng.integers(-90_000, 90_000, (8, 512)) * (np.pi / 2)
    for x in (
        quarters,
        rng.uniform(-150_000, 150_000, (8, 512)),
        10 ** rng.uniform(5, 38, (2, 64)),
    ):
        if dtype == np.float16:
            x = np.clip(x, -60_000, 60_000)
        x = x.astype(dtype)
        compare(row, op, computed(checker, row, rng, op, [x]), [x])


@every_kernel
def test_truths(checker, row, rng):
    """Bytes in and out: any byte but zero is true, and what is written is 0 or 1."""
    dtype = DTYPES[row["dtype"]]
    lanes = row["vector_bytes"] // dtype.itemsize
    chunk = lanes * (4 if row["vector_bytes"] == 64 else 8)
    for columns in {*range(1, 2 * lanes + 2), chunk - 1, chunk, chunk + 1, 2 * chunk + 3}:
        shape = (int(rng.integers(1, 5)), columns)
        x = drawn(rng, "LESS", shape, dtype, 0)
        one, two = (
            rng.integers(0, 256, size).astype(np.uint8) * (rng.random(size) < 0.6)
            for size in (shape, repeated(rng, shape))
        )
        call = Call(checker, row, rng, shape)
        call.read(x, 0)
        call.read(one.astype(np.uint8), 1)
        call.read(two.astype(np.uint8), 2)
        call.read(np.zeros((1, 1), dtype), 3)
        for register in (5, 0, 1):
            call.write_truths(register)
        call.write(6)
        above, as_truth, copied, chosen = call.run([
            ("LESS", 4, 3, 0, 0), ("AND", 5, 4, 1, 0), ("WHERE", 6, 2, 0, 1),
        ])  # fmt: skip
        with np.errstate(invalid="ignore"):
            np.testing.assert_array_equal(above, ((x > 0) & (one != 0)).astype(np.uint8))
        np.testing.assert_array_equal(as_truth, (x != 0).astype(np.uint8))
        np.testing.assert_array_equal(copied, (one != 0).astype(np.uint8))
        np.testing.assert_array_equal(chosen, np.where(two != 0, x, (one != 0).astype(dtype)))


@every_kernel
def test_one_instruction_on_truths(checker, row, rng):
    """Programs of one instruction have loops of their own, for floating point alone."""
    dtype = DTYPES[row["dtype"]]
    for columns in (1, 7, 64, 300):
        x = rng.integers(0, 2, (3, columns)).astype(np.uint8)
        numbers = draw(rng, "random", (3, columns), dtype)
        call = Call(checker, row, rng, (3, columns))
        call.read(x, 0)
        call.read(numbers, 1)
        call.write(2)
        (got,) = call.run([("MULTIPLY", 2, 0, 1, 0)])
        np.testing.assert_array_equal(got, x.astype(dtype) * numbers)
        call = Call(checker, row, rng, (3, columns))
        call.read(numbers, 1)
        call.write_truths(2)
        (got,) = call.run([("ADD", 2, 1, 1, 0)])
        np.testing.assert_array_equal(got, (numbers + numbers != 0).astype(np.uint8))


@pytest.mark.parametrize("dtype", sorted({row["dtype"] for row in float_rows("elementwise")}))
@pytest.mark.parametrize(
    "op", ["EXPONENTIAL", "HYPERBOLIC_TANGENT", "SIGMOID", "SILU", "HARDSWISH", "SINE", "COSINE"]
)
def test_levels_with_fused_products_give_the_same_bits(checker, dtype, op, rng):
    """The bits do not depend on the vector's width."""
    kernels = [r for r in rows("elementwise") if r["dtype"] == dtype and r["isa"] != "portable"]
    if len(kernels) < 2:
        pytest.skip("this machine has one level above the portable one")
    x = rng.uniform(-130, 130, (5, 211)).astype(DTYPES[dtype])
    found = [computed(checker, row, rng, op, [x]) for row in kernels]
    for other in found[1:]:
        assert other.tobytes() == found[0].tobytes()
