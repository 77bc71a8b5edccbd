"""Programs of one activation, in place: tails, special values and errors.

`elementwise` computes all activations, `curve` some of them.
"""

from __future__ import annotations

import numpy as np
import pytest

from asm.contract.constants import CURVES
from tests.kernels.elementwise_call import Call
from tests.kernels.kernel_table import BITS, DTYPES, float_rows, lanes_of, rows, symbol
from tests.kernels.kernel_values import draw
from tests.kernels.test_elementwise import compare

OPERATIONS = ("curve", "elementwise")
# Slopes of SLOPE: one for all elements, one for each row, one for each column.
SLOPED = {"slope": "", "slopes of rows": "rows", "slopes of columns": "columns"}
SMOOTH = ("HARDSWISH", "SIGMOID", "SILU", "SOFTPLUS", "MISH", "GELU")
KINDS = (*SLOPED, *SMOOTH)


def has(op: str, kind: str) -> bool:
    """Whether kernels of an operation compute an activation."""
    return op == "elementwise" or kind in (*SLOPED, *CURVES)


def every_case(kinds):
    """Each activation on each kernel that computes it."""
    cases = [
        pytest.param(row, kind, id=f"{kind}-{symbol(row)}")
        for op in OPERATIONS
        for row in float_rows(op)
        for kind in kinds
        if has(op, kind)
    ]
    return pytest.mark.parametrize(("row", "kind"), cases)


every_kernel = pytest.mark.parametrize(
    "row", [row for op in OPERATIONS for row in float_rows(op)], ids=symbol
)


def compare_curve(row: dict, got: np.ndarray, x: np.ndarray, kind: str, slope=None) -> float:
    """Compare with the exact values; give the largest error in units of eps."""
    if kind not in SLOPED:
        return compare(row, kind, got, [x])
    return compare(
        row, "SLOPE", got, [x, slope[:, np.newaxis] if SLOPED[kind] == "rows" else slope]
    )


def activate(
    checker, row: dict, rng: np.random.Generator, x: np.ndarray, kind: str, slope=None
) -> np.ndarray:
    """Run the kernel on a copy of `x` between guard pages; rows have random gaps."""
    call = Call(checker, row, rng, x.shape)
    call.change(x, 0, 0)
    if slope is not None:
        call.read_slopes(slope, 4, SLOPED[kind])
    (got,) = call.run([("SLOPE" if kind in SLOPED else kind, 0, 0, 4 * (kind in SLOPED), 0)])
    return got


def draw_slope(rng: np.random.Generator, kind: str, shape: tuple[int, int], dtype: np.dtype):
    """Draw as many slopes as the kind reads, some of them zero; None if it reads none."""
    if kind not in SLOPED:
        return None
    count = {"": 1, "rows": shape[0], "columns": shape[1]}[SLOPED[kind]]
    slope = rng.uniform(-2, 2, count).astype(dtype)
    slope[rng.random(count) < 0.2] = 0
    return slope


@every_case(KINDS)
def test_tails(checker, row, kind, rng):
    """Every number of columns up to a vector, and around multiples of it up to a loop turn."""
    dtype = DTYPES[row["dtype"]]
    lanes = lanes_of(row)
    around = [turn * lanes + i for turn in (2, 3, 4, 5, 8) for i in (-1, 0, 1)]
    for columns in (*range(1, lanes + 2), *around, 8 * lanes + lanes // 2):
        for count in (1, 2, int(rng.integers(3, 9))):
            x = 3 * draw(rng, "special", (count, columns), dtype)
            slope = draw_slope(rng, kind, x.shape, dtype)
            got = activate(checker, row, rng, x, kind, slope)
            compare_curve(row, got, x, kind, slope)


@every_case(KINDS)
def test_magnitudes(checker, row, kind, rng):
    """Largest, smallest, subnormal and of all magnitudes."""
    dtype = DTYPES[row["dtype"]]
    for _ in range(20):
        x = draw(rng, "extreme", (7, 129), dtype)
        slope = draw_slope(rng, kind, x.shape, dtype)
        compare_curve(row, activate(checker, row, rng, x, kind, slope), x, kind, slope)


@every_case(SMOOTH)
def test_error_over_the_whole_range(checker, row, kind, rng):
    """Dense where the function bends and where it underflows, and random bit patterns."""
    dtype = DTYPES[row["dtype"]]
    depth = {"f16": 20, "f32": 120, "f64": 770}[row["dtype"]]
    shape = (40, 250)
    worst = 0.0
    for low, high in ((-1, 1), (-9, 9), (-20, 0), (-depth, depth), (-depth, -0.8 * depth)):
        for _ in range(3):
            x = rng.uniform(low, high, shape).astype(dtype)
            worst = max(worst, compare_curve(row, activate(checker, row, rng, x, kind), x, kind))
    bits = rng.integers(0, np.iinfo(BITS[row["dtype"]]).max, shape, BITS[row["dtype"]])
    x = np.nan_to_num(bits.view(dtype))
    compare_curve(row, activate(checker, row, rng, x, kind), x, kind)
    assert worst > 0.4, "an error that no rounding explains"


@every_kernel
def test_special_values(checker, row, rng):
    """NaN passes; infinities give the limits."""
    dtype = DTYPES[row["dtype"]]
    x = np.array([[np.nan, np.inf, -np.inf, -0.0, 0.0, -np.nan]], dtype).repeat(9, axis=1)
    limits = {
        ("slope", 0.25): (np.inf, -np.inf),
        ("slope", 0.0): (np.inf, 0),
        ("slope", -2.0): (np.inf, np.inf),
        ("HARDSWISH", None): (np.inf, 0),
        ("SIGMOID", None): (1, 0),
        ("SILU", None): (np.inf, 0),
        ("SOFTPLUS", None): (np.inf, 0),
        ("MISH", None): (np.inf, 0),
        ("GELU", None): (np.inf, 0),
    }
    for (kind, slope), (above, below) in limits.items():
        if not has(row["op"], kind):
            continue
        slopes = None if slope is None else np.array([slope], dtype)
        zero = {"SIGMOID": 0.5, "SOFTPLUS": np.log(2)}.get(kind, 0)
        expected = np.array([[np.nan, above, below, zero, zero, np.nan]], dtype).repeat(9, axis=1)
        got = activate(checker, row, rng, x, kind, slopes)
        np.testing.assert_array_max_ulp(got, expected, 2 if kind == "SOFTPLUS" else 0)
        if kind not in ("SIGMOID", "SOFTPLUS"):  # a zero keeps its sign
            zeros = x == 0
            np.testing.assert_array_equal(np.signbit(got[zeros]), np.signbit(x[zeros]))


@pytest.mark.parametrize("dtype", sorted({row["dtype"] for row in float_rows("curve")}))
@pytest.mark.parametrize("kind", KINDS)
def test_levels_with_fused_products_give_the_same_bits(checker, dtype, kind, rng):
    """The bits depend neither on the vector's width nor on how powers of two are multiplied in."""
    kernels = [
        row
        for op in OPERATIONS
        for row in rows(op)
        if row["dtype"] == dtype and row["isa"] != "portable" and has(op, kind)
    ]
    if len(kernels) < 2:
        pytest.skip("the CPU has one level of them, or none")
    shape = (30, 211)
    wide = rng.uniform(-130, 130, shape) if dtype == "f32" else rng.uniform(-800, 800, shape)
    for x in (wide.astype(DTYPES[dtype]), draw(rng, "random", shape, DTYPES[dtype])):
        slope = draw_slope(rng, kind, shape, DTYPES[dtype])
        first, *others = (activate(checker, row, rng, x, kind, slope) for row in kernels)
        for other in others:
            np.testing.assert_array_equal(other.view(BITS[dtype]), first.view(BITS[dtype]))
