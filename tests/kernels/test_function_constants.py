"""The constants of the exponential and of the error function keep their stated bounds."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from asm import remez, sines
from asm.error_function import BEND, END, GELU_END, erf, error_function, gelu
from asm.exponential import exponential
from tests.kernels.kernel_table import DTYPES

# Activations of half precision are computed in float32.
every_type = pytest.mark.parametrize("dtype", ["f32", "f64"])


def eps(dtype: str) -> float:
    """Distance from 1 to the next number."""
    return float(np.finfo(DTYPES[dtype]).eps)


@every_type
def test_exponential_is_as_good_as_it_says(dtype):
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


# Half the distance from 1 to the next number of float32.
UNIT = 2.0**-24


@pytest.mark.parametrize("x", [1e-9, 0.1, BEND, 1.7, END])
def test_the_series_of_the_error_function(x):
    with localcontext() as context:
        context.prec = 50
        found = erf(Decimal(x))
    assert float(found) == pytest.approx(math.erf(x), rel=4e-16)
    assert float(1 - found) == pytest.approx(math.erfc(x), rel=1e-14)


def test_error_function_is_as_good_as_it_says():
    """Measured between the points of the fit, with rounded coefficients."""
    e = error_function()
    with localcontext() as context:
        context.prec = 50
        near, far = ([Decimal(c) for c in found] for found in (e.near, e.far))
        worst = [Decimal(0), Decimal(0)]
        for i in range(1, 502):
            x = Decimal(BEND) * i / 502
            error = abs(x * (1 + remez.polynomial(near, x * x)) / erf(x) - 1)
            worst[0] = max(worst[0], error)
            x = Decimal(BEND) + (Decimal(END) - Decimal(BEND)) * i / 502
            error = abs((1 - remez.polynomial(far, x).exp()) / erf(x) - 1)
            worst[1] = max(worst[1], error)
    for found, said in zip(worst, e.errors, strict=True):
        assert said / 2 < found < UNIT / 5
        assert said < UNIT / 10


def test_the_error_function_is_one_at_the_end():
    """From `END` on, erf rounds to 1."""
    assert np.float32(math.erf(END)) == 1
    assert np.float32(math.erf(np.nextafter(np.float32(END), np.float32(0)))) == 1


def test_gelu_is_as_good_as_it_says():
    """The factor of x, between the points of the fit, with rounded coefficients."""
    found = gelu()
    with localcontext() as context:
        context.prec = 50
        terms, end = [Decimal(c) for c in found.terms], Decimal(GELU_END)
        worst = Decimal(0)
        for i in range(1, 502):
            x = end * i / 502
            factor = x * remez.polynomial(terms, 2 * (x / end) ** 2 - 1)
            worst = max(worst, abs(factor - erf(x / Decimal(2).sqrt()) / 2))
        beyond = (1 - erf(end / Decimal(2).sqrt())) / 2
    # Coefficients are rounded: at the ends that is more than the error of the fit.
    assert found.error / 2 < worst < UNIT
    assert found.error < UNIT / 5
    assert beyond < UNIT / 2


def test_sines_are_as_good_as_they_say():
    """Measured between the points of the fit, with rounded coefficients."""
    s = sines.sines()
    with localcontext() as context:
        context.prec = 50
        near, far = ([Decimal(c) for c in found] for found in (s.sine, s.cosine))
        worst = [Decimal(0), Decimal(0)]
        for i in range(1, 502):
            r = Decimal(s.half_range) * i / 502
            square = r * r
            exact = sines.sine(r), 1 - 2 * sines.sine(r / 2) ** 2
            found = (
                r * (1 + square * remez.polynomial(near, square)),
                1 - square / 2 + square**2 * remez.polynomial(far, square),
            )
            worst = [max(w, abs(f / e - 1)) for w, f, e in zip(worst, found, exact, strict=True)]
    assert float(exact[0]) == pytest.approx(math.sin(float(r)), rel=1e-15)
    for measured, said in zip(worst, s.errors, strict=True):
        assert said / 2 < measured < UNIT / 5
        assert said < UNIT / 10


def test_a_quarter_turn_in_three_parts():
    """Its first part times any count leaves an exact difference; all parts reach far enough."""
    s = sines.sines()
    with localcontext() as context:
        context.prec = 60
        # 4 * (4 * atan(1 / 5) - atan(1 / 239)), to 50 digits.
        half_pi = Decimal("1.57079632679489661923132169163975144209858469968755")
        rest = abs(half_pi - sum(map(Decimal, s.half_pi)))
        most = round(sines.LIMIT * s.two_over_pi)
        assert most * rest < Decimal(2) ** -50
    step = Fraction(1, 1 << 23)
    assert Fraction(s.half_pi[0]) % step == 0
    slip = most * abs(Fraction(s.half_pi[0]) - Fraction(math.pi) / 2)
    assert Fraction(s.half_range) + slip < 1
    assert most < 1 << 21  # as the magic sum holds


def test_the_fit_finds_chebyshevs_polynomial():
    """The best fit of x**3 by lower degrees is 3/4 x, with error 1/4: the difference is T3 / 4."""
    points = remez.chebyshev(Decimal(-1), Decimal(1), 240)
    values = [point**3 for point in points]
    found, error = remez.fit(points, values, [Decimal(1)] * len(points), 3)
    assert [float(c) for c in found] == pytest.approx([0, 0.75, 0], abs=1e-6)
    assert float(error) == pytest.approx(0.25, rel=1e-6)
