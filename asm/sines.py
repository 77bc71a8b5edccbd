"""Sine and cosine of float32: their constants, computed and not looked up.

A magnitude x is ``n * pi / 2 + r`` with ``n = round(x / (pi / 2))``. ``pi / 2`` comes in three
parts of float32. Where products are fused, ``x - n * part`` is exact for the first part: both are
multiples of one number, and the difference is below 1. Near zero, ``sin(r) = r + r**3 * p(r**2)``
and ``cos(r) = 1 - r**2 / 2 + r**4 * q(r**2)``; both polynomials minimise the largest relative error
of the function (`remez`). Magnitudes above `LIMIT`, float64, and machines without fused products
call the C library's functions instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import cache

from asm import remez
from asm.error_function import pi, rounded

# n has 17 bits, and its product with the last part is right to 2**-56.
LIMIT = 2.0**17
# 1.5 * 2**23: the sum of it and a number below 2**22 has the nearest integer in its low bits.
MAGIC = 1.5 * 2.0**23
_DIGITS = 50
_POINTS = 200
# n may be rounded the wrong way near a half, so r may leave its interval by a little.
_SLACK = Decimal(2) ** -10
# The smallest numbers of terms whose error is at most a tenth of a rounding error.
_SINE_TERMS = 3
_COSINE_TERMS = 3


@dataclass(frozen=True)
class Sines:
    """Constants, exact in float32.

    Parameters
    ----------
    sine, cosine : tuple of float
        Coefficients of p and of q, the constant term first.
    errors : tuple of float
        Largest relative errors of both functions, before coefficients were rounded.
    half_pi : tuple of float
        Parts of pi / 2, the largest first.
    two_over_pi : float
        2 / pi.
    half_range : float
        Largest abs(r) that `errors` covers.
    """

    sine: tuple[float, ...]
    cosine: tuple[float, ...]
    errors: tuple[float, float]
    half_pi: tuple[float, ...]
    two_over_pi: float
    half_range: float


def sine(x: Decimal) -> Decimal:
    """Compute the sine in the precision of the context, by its series, for x up to about 1."""
    term = total = x
    n = 1
    while term and abs(term) > abs(total) * Decimal(10) ** -_DIGITS:
        n += 2
        term *= -x * x / (n * (n - 1))
        total += term
    return total


@cache
def sines() -> Sines:
    """Compute the constants."""
    with localcontext() as context:
        context.prec = _DIGITS
        half_pi = pi() / 2
        end = half_pi / 2 * (1 + _SLACK)
        squares = remez.chebyshev(Decimal("1e-6"), end * end, _POINTS)
        ratios = [sine(square.sqrt()) / square.sqrt() for square in squares]
        near, near_error = remez.fit(
            squares,
            [(ratio - 1) / square for ratio, square in zip(ratios, squares, strict=True)],
            [square / ratio for ratio, square in zip(ratios, squares, strict=True)],
            _SINE_TERMS,
        )
        # cos(r) = 1 - 2 * sin(r / 2)**2
        values = [1 - 2 * sine(square.sqrt() / 2) ** 2 for square in squares]
        far, far_error = remez.fit(
            squares,
            [
                (value - 1 + square / 2) / square**2
                for value, square in zip(values, squares, strict=True)
            ],
            [square**2 / value for value, square in zip(values, squares, strict=True)],
            _COSINE_TERMS,
        )
        parts: list[float] = []
        for _ in range(3):
            parts += rounded([half_pi - sum(map(Decimal, parts))])
        (two_over_pi,) = rounded([1 / half_pi])
    errors = float(near_error), float(far_error)
    return Sines(rounded(near), rounded(far), errors, tuple(parts), two_over_pi, float(end))


def c_macros() -> dict[str, str]:
    """The constants as C text, for the template that needs them."""
    e = sines()
    return {
        **{
            name: "{" + ", ".join(f"{c.hex()}f" for c in numbers) + "}"
            for name, numbers in (
                ("SINE_NEAR", e.sine),
                ("SINE_FAR", e.cosine),
                ("SINE_HALF_PI", e.half_pi),
            )
        },
        "SINE_NEAR_TERMS": str(len(e.sine)),
        "SINE_FAR_TERMS": str(len(e.cosine)),
        "SINE_TWO_OVER_PI": f"{e.two_over_pi.hex()}f",
        "SINE_MAGIC": f"{MAGIC.hex()}f",
        "SINE_LIMIT": f"{LIMIT.hex()}f",
    }
