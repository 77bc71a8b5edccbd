"""GEMM of narrow types: the largest products, wrapped sums, and the reference models.

Tests of all types are in ``test_product_kernels.py``.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import cycle
from itertools import product as cartesian

import numpy as np
import pytest

from asm.contract import FLAGS
from asm.registry import PRODUCTS, ROUNDING_TILES
from pplconv import numerics
from tests.kernels.gemm_case import (
    A_LAYOUTS,
    ROUNDING_FLAGS,
    STORE_BF16,
    Call,
    draw_case,
)
from tests.kernels.kernel_table import DTYPES, every_row, symbol
from tests.kernels.kernel_values import KINDS
from tests.kernels.narrow_gemm import (
    dot_products,
    is_integer,
    known_sum,
    narrowed,
    rounded,
    rounded_steps,
    widened,
)
from tests.kernels.product_case import judge_each

pytestmark = pytest.mark.narrow

ROWS = [row for row in every_row("gemm") if row["kr"] > 1 and not row["dtype"].endswith("t")]
INTEGERS = [row for row in ROWS if is_integer(row)]
BFLOATS = [row for row in ROWS if not is_integer(row)]
ROUNDING = [row for row in BFLOATS if (row["isa"], row["dtype"]) in ROUNDING_TILES]


def ends(name: str) -> tuple[int, int]:
    """Smallest and largest number of a type."""
    info = np.iinfo(DTYPES[name])
    return int(info.min), int(info.max)


def refill(call: Call, a: np.ndarray, b: np.ndarray, start: np.ndarray) -> None:
    """Replace a call's operands, of one segment; the last axis of A and B has kr neighbours."""
    product, case, row = call.product, call.case, call.row
    b_strides = (case.b_ks, row["kr"] * DTYPES[product.b].itemsize)
    for name, values, strides in (("a", a, (case.a_rs, case.a_ks)), ("b", b, b_strides)):
        dtype, arena = DTYPES[getattr(product, name)], call.checker.arena(name)
        first = call.values[name] - arena.base
        strides = (*strides, dtype.itemsize)
        np.ndarray(values.shape, dtype, arena.open, first, strides)[...] = values
    call.a = widened(a, product.a).reshape(row["mr"], -1)
    call.b = widened(b, product.b).transpose(0, 2, 1).reshape(-1, case.n)
    call.c.write(start)


@pytest.mark.parametrize("row", INTEGERS, ids=symbol)
def test_largest_products_and_wrapped_sums(checker, row, rng):
    """Each pair of the types' ends, with sums that overflow 32 bits on either side."""
    product, kr = PRODUCTS[row["dtype"]], row["kr"]
    for a, b in cartesian(ends(product.a), ends(product.b)):
        for start in (-(1 << 31), (1 << 31) - 1, 0):
            case = draw_case(rng, row, k=3 * kr, flags=FLAGS["ACCUMULATE"], segment_count=0)
            call = Call(checker, row, case, rng)
            of_a = np.full((row["mr"], 3, kr), a, DTYPES[product.a])
            of_b = np.full((3, case.n, kr), b, DTYPES[product.b])
            refill(call, of_a, of_b, np.full((row["mr"], case.n), start, np.int32))
            one = of_a[:1, 0].astype(int), of_b[0, :1].T.astype(int)
            step = int(known_sum(checker.native, row, *one, 0)[0, 0])
            expected = (start + step * 3 + (1 << 31)) % (1 << 32) - (1 << 31)
            assert call.ordered().tolist() == np.full((row["mr"], case.n), expected).tolist()
            call.same_bits(call.run(), call.ordered())


@pytest.mark.sampled(91)
@pytest.mark.parametrize("row", ROWS, ids=symbol)
def test_last_group_is_whole(checker, row, rng):
    """Every remainder of k by kr, with zeros beyond k in A or in B."""
    depths = range(1, 2 * row["kr"] + 1)
    judge_each(checker, row, rng, k=depths, zeros=("a", "b"), a_layout=A_LAYOUTS)


@pytest.mark.parametrize("row", BFLOATS, ids=symbol)
def test_bfloat16_near_the_smallest_normal_number(checker, row, rng):
    """Products and sums that are subnormal, or nearly: bits where they are known, else bounds."""
    for _ in range(8):
        case = draw_case(
            rng, row, kind="random", k=3 * row["kr"], flags=FLAGS["ACCUMULATE"], segment_count=0
        )
        call = Call(checker, row, case, rng)

        def small(shape: tuple[int, ...], scale: float) -> np.ndarray:
            return (rng.standard_normal(shape) * scale).astype(np.float32)

        refill(
            call,
            narrowed(small((row["mr"], 3, row["kr"]), 2.0**-63)),
            narrowed(small((3, case.n, row["kr"]), 2.0**-63)),
            small((row["mr"], case.n), 2.0**-127),
        )
        exact, known = call.exact(), call.ordered()
        assert (np.abs(exact[0]) < 2.0**-118).all()  # products of normal variables have long tails
        got = call.run()
        call.near(got, *exact)
        if known is not None:
            call.same_bits(got, known)


@pytest.mark.sampled(20)
@pytest.mark.parametrize("row", ROUNDING, ids=symbol)
def test_stores_the_sums_that_it_would_store_rounded(checker, row, rng):
    """Every tail with every epilogue and every kind of number, next to guard pages: same bits."""
    flags = cycle(flags for flags in ROUNDING_FLAGS if flags & STORE_BF16)
    for n in range(1, row["nr"] + 1):
        for kind in KINDS:
            with np.errstate(all="ignore"):
                call = Call(
                    checker, row, draw_case(rng, row, n=n, kind=kind, flags=next(flags)), rng
                )
                expected = widened(rounded(call.run_unrounded()), "bf16")
            call.same_bits(call.run(), expected)


def test_the_rounding_of_the_reference():
    """To the nearest, ties to even, up to infinity; subnormal numbers are zeros."""
    one, step = 1.0, 2.0**-7
    cases = {
        one + step / 2: one,
        one + step * 1.5: one + 2 * step,
        one + step * 0.51: one + step,
        -(one + step * 0.49): -one,
        3.4e38: np.inf,
        2.0**-126: 2.0**-126,
        2.0**-127: 0.0,
        -np.inf: -np.inf,
    }
    x = np.array(list(cases), np.float32)
    assert widened(rounded(x), "bf16").tolist() == list(cases.values())
    assert np.isnan(widened(rounded(np.array([np.nan], np.float32)), "bf16")).all()


@pytest.mark.parametrize("row", [row for row in INTEGERS if row["dtype"] == "u8p"], ids=symbol)
def test_pairs_of_products_at_the_bound(checker, row, rng):
    """Pairs of weights up to the bound give exact sums; one more overflows with the largest A."""
    for _ in range(4):
        case = draw_case(rng, row, k=24, flags=FLAGS["ACCUMULATE"], segment_count=0)
        call = Call(checker, row, case, rng)
        first = rng.integers(1, 128, (6, case.n, 2))
        pairs = np.stack([first, 128 - first], axis=-1) * rng.choice([-1, 1], (6, case.n, 2, 1))
        pairs[rng.random((6, case.n, 2)) < 0.2] = -128, 0
        of_a = rng.choice(np.array([0, 1, 254, 255], np.uint8), (row["mr"], 6, 4))
        start = rng.integers(-(1 << 30), 1 << 30, (row["mr"], case.n)).astype(np.int32)
        refill(call, of_a, pairs.reshape(6, case.n, 4).astype(np.int8), start)
        assert (call.ordered() == call.a @ call.b + start).all()
        call.same_bits(call.run(), call.ordered())
        over = np.tile(np.array([64, 65, 0, 0]), (6, case.n, 1)) * int(rng.choice([-1, 1]))
        refill(call, np.full_like(of_a, 255), over.astype(np.int8), start)
        assert (call.ordered() != call.a @ call.b + start).all()
        call.same_bits(call.run(), call.ordered())


def bfloats(*numbers: float) -> np.ndarray:
    return widened(narrowed(np.array(numbers, np.float32)), "bf16")


def test_the_model_of_integers(checker):
    row = {"dtype": "u8", "isa": "portable"}
    a, b = np.array([[255, 255, 1]]), np.array([[-128], [127], [-7]])
    start = np.array([[-(1 << 31)]], np.int32)
    # The sum wraps around.
    exact = 255 * -1 - 7 - (1 << 31) + (1 << 32)
    assert known_sum(checker.native, row, a, b, start).tolist() == [[exact]]


def test_the_model_of_bfloat16_adds_the_second_product_first(checker):
    one, big = bfloats(1.0, 1.0)[np.newaxis], np.float32(2.0**24)
    b = bfloats(1.0, -(2.0**24))[:, np.newaxis]
    start = np.array([[big]], np.float32)
    # 2^24 + 1 rounds to 2^24, so the result shows which product was added first.
    assert dot_products(checker.native, one, b, start).tolist() == [[1.0]]
    assert rounded_steps(one, b, start).tolist() == [[0.0]]


def one_step(checker, a: float, b: float, c: float) -> float:
    """Add one product to a sum; the other one of the pair is zero."""
    left, right = (bfloats(x, 0.0)[np.newaxis] for x in (a, b))
    return float(dot_products(checker.native, left, right.T, np.array([[c]], np.float32))[0, 0])


def test_the_model_of_bfloat16_knows_no_subnormal_numbers(checker):
    small = np.array([[2.0**-130]], np.float32)
    zeros = np.zeros((1, 2), np.float32)
    assert dot_products(checker.native, zeros, zeros.T, -small).tolist() == [[0.0]]
    assert one_step(checker, 2.0**-64, 2.0**-64, 0.0) == 0.0
    halves = bfloats(2.0**-64, 0.0)[np.newaxis]
    assert rounded_steps(halves, halves.T, np.zeros((1, 1), np.float32)).tolist() == [[2.0**-128]]
    # Only with the spacing of subnormal numbers would it round to the smallest normal number.
    assert one_step(checker, 2.0**-100, -(2.0**-50), 2.0**-126) == 0.0


def test_the_model_of_arm_s_bfloat16_rounds_to_odd(checker):
    """Both steps round to odd, in either order of the pair; overflow, underflow and signs."""

    def products(a, b, start):
        return dot_products(checker.native, a, b, start, "arm")

    zero = np.zeros((1, 1), np.float32)
    one = bfloats(1.0, 1.0)[np.newaxis]
    tiny = bfloats(1.0, 2.0**-30)[:, np.newaxis]
    odd = 1 + 2.0**-23  # 1 is even
    assert products(one, tiny, zero).tolist() == [[odd]]
    assert products(one, tiny[::-1], zero).tolist() == [[odd]]
    # The sum of a pair is rounded before it is added: 2^-30 is lost.
    assert products(one, -tiny, zero + np.float32(2)).tolist() == [[1 - 2.0**-23]]
    far = np.array([[-1.0]], np.float32)
    assert products(one, tiny, far).tolist() == [[2.0**-23]]
    large = bfloats(2.0**127, 0.0)[np.newaxis]
    assert products(large, 2 * one.T, zero).tolist() == [[np.inf]]
    small = bfloats(2.0**-64, 0.0)[np.newaxis]
    below = products(-small, small.T, -zero)
    assert below.tolist() == [[0.0]] and np.signbit(below).tolist() == [[True]]
    subnormal = np.array([[2.0**-130]], np.float32)
    assert products(0 * one, one.T, subnormal).tolist() == [[0.0]]


def test_a_fused_step_is_rounded_once(checker, rng):
    exact = (1 + 2.0**-7) ** 2 + 2.0**-30
    assert one_step(checker, 1 + 2.0**-7, 1 + 2.0**-7, 2.0**-30) == float(np.float32(exact))
    assert one_step(checker, 1.0, 1.0, 2.0**-24) == 1.0
    # The start is float32, with more bits than bfloat16.
    assert one_step(checker, 1.0, 1.0, 2.0**-24 + 2.0**-40) == 1 + 2.0**-23
    # Random sums, by arithmetic on integers.
    for _ in range(300):
        a, b = bfloats(*rng.normal(size=2))
        c = np.float32(rng.normal() * 2.0 ** int(rng.integers(-30, 8)))
        whole = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
        assert one_step(checker, a, b, c) == nearest(whole)


def nearest(exact: Fraction) -> float:
    """Give the nearest number of 24 bits, the even one of two."""
    exponent = 24 - int(np.frexp(float(exact))[1])
    scaled = exact * Fraction(2) ** exponent
    return float(round(scaled) / Fraction(2) ** exponent)


def test_the_package_knows_the_kinds_of_products_as_they_are_built():
    """The registry is not installed, so `numerics` has its own copy."""
    known = {
        name: (kind.operand, kind.weights, kind.accumulator, kind.kr)
        for name, kind in numerics.PRODUCTS.items()
        if not name.endswith("d")  # depthwise kernels, which no GEMM multiplies with
    }
    assert known == {name: (p.a, p.b, p.sum, p.kr) for name, p in PRODUCTS.items()}
    rounding = [(isa, n) for n, kind in numerics.PRODUCTS.items() for isa in kind.rounding]
    assert rounding == list(ROUNDING_TILES)
