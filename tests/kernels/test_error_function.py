"""The constants of the error function, and the function over float32's numbers."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest

from asm import remez
from asm.error_function import BEND, END, erf, error_function

# Half the distance from 1 to the next number of float32.
UNIT = 2.0**-24


@pytest.mark.parametrize("x", [1e-9, 0.1, BEND, 1.7, END])
def test_the_series(x):
    with localcontext() as context:
        context.prec = 50
        found = erf(Decimal(x))
    assert float(found) == pytest.approx(math.erf(x), rel=4e-16)
    assert float(1 - found) == pytest.approx(math.erfc(x), rel=1e-14)


def test_polynomials_are_as_good_as_they_say():
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


def test_it_is_one_at_the_end():
    """From `END` on, erf rounds to 1."""
    assert np.float32(math.erf(END)) == 1
    assert np.float32(math.erf(np.nextafter(np.float32(END), np.float32(0)))) == 1


def test_the_fit_finds_chebyshevs_polynomial():
    """The best fit of x**3 by lower degrees is 3/4 x, with error 1/4: the difference is T3 / 4."""
    points = remez.chebyshev(Decimal(-1), Decimal(1), 240)
    values = [point**3 for point in points]
    found, error = remez.fit(points, values, [Decimal(1)] * len(points), 3)
    assert [float(c) for c in found] == pytest.approx([0, 0.75, 0], abs=1e-6)
    assert float(error) == pytest.approx(0.25, rel=1e-6)
