"""The constants of the exponential keep their stated bounds, in exact arithmetic."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from asm.exponential import exponential
from tests.kernels.kernel_table import DTYPES

# Activations of half precision are computed in float32.
every_type = pytest.mark.parametrize("dtype", ["f32", "f64"])


def eps(dtype: str) -> float:
    """Distance from 1 to the next number."""
    return float(np.finfo(DTYPES[dtype]).eps)


@every_type
def test_polynomial_is_as_good_as_it_says(dtype):
    """Measured between the points of the fit, with rounded coefficients."""
    e, unit = exponential(dtype), eps(dtype) / 2
    with localcontext() as context:
        context.prec = 40
        coefficients = [Decimal(1), Decimal(1), *(Decimal(c) for c in e.coefficients)]
        worst = Decimal(0)
        for i in filter(None, range(-1009, 1010)):
            r = Decimal(e.half_range) * i / 1009
            p = sum(c * r**power for power, c in enumerate(coefficients))
            worst = max(worst, abs(p / r.exp() - 1))
        assert Decimal(e.error) / 2 < worst < Decimal(unit) / 10


@every_type
def test_fewer_terms_would_not_do(dtype):
    e = exponential(dtype)
    degree = len(e.coefficients) + 1
    # The error of one degree less: the first omitted term, divided by Chebyshev's 2**(degree - 1).
    with localcontext() as context:
        context.prec = 40
        left_out = Decimal(e.half_range) ** degree
        for i in range(1, degree + 1):
            left_out /= i
        assert left_out / 2 ** (degree - 1) > Decimal(eps(dtype) / 2) / 10


@every_type
def test_reduction_is_exact(dtype):
    """n times the first part of ln 2 is exact; the sum of both parts is ln 2."""
    e, number = exponential(dtype), DTYPES[dtype].type
    largest = round(e.limit * e.log2e)
    for n in range(largest + 1):
        assert Fraction(float(number(n) * number(e.ln2_high))) == n * Fraction(e.ln2_high)
    with localcontext() as context:
        context.prec = 50
        ln2 = Decimal(2).ln()
        rest = abs(ln2 - Decimal(e.ln2_high) - Decimal(e.ln2_low)) * largest
        assert rest < Decimal(eps(dtype)) / 64
        assert abs(Decimal(e.log2e) * ln2 - 1) < Decimal(eps(dtype))
        assert Decimal(e.half_range) > ln2 / 2


@every_type
def test_limit_is_where_everything_is_zero(dtype):
    e, info = exponential(dtype), np.finfo(DTYPES[dtype])
    with localcontext() as context:
        context.prec = 40
        half = Decimal(float(info.smallest_subnormal)) / 2
        assert Decimal(e.limit) * Decimal(-e.limit).exp() < half
    # 2 ** (n / 2) is a normal number.
    assert round(e.limit * e.log2e) // 2 + 1 < e.bias - 1


@every_type
def test_format(dtype):
    e, info = exponential(dtype), np.finfo(DTYPES[dtype])
    assert (e.mantissa, e.bias) == (info.nmant, info.maxexp - 1)
    number = DTYPES[dtype].type
    for x in (-1000.25, -159.5, -3.7, 0.0):
        assert number(x) + number(e.magic) - number(e.magic) == np.rint(x)
    for value in (*e.coefficients, e.log2e, e.ln2_high, e.ln2_low, e.magic, e.limit):
        assert float(number(value)) == value
