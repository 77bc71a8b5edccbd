"""The error function of float32: its constants, computed and not looked up.

Below `BEND`, ``erf(x) = x + x * p(x**2)``; from there on, ``erf(x) = 1 - exp(-q(x))``, where the
polynomial q is near ``-log(1 - erf(x))``. A rounding error of q counts little: it is multiplied by
``1 - erf(x)``. From `END` on the function is 1. Both polynomials minimise the largest relative
error of the function (`remez`). float64 kernels call the C library's function instead.

Gelu, ``x * (1 + erf(x / sqrt(2))) / 2``, is ``x * (1 / 2 + x * g(s))``. With the bound `GELU_END`,
s is ``2 * (x / GELU_END)**2 - 1``, between -1 and 1; around zero the coefficients of g are small,
so that little is rounded off. Outside the bounds Gelu is x or 0. Its error is relative to x: below
zero the difference is as rough as that of ONNX's formula, at half its instructions.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import cache

from asm import remez

BEND = 0.8125
END = 4.0
_DIGITS = 50
_POINTS = 200
# The smallest numbers of terms whose error is at most a tenth of a rounding error.
_NEAR_TERMS = 6
_FAR_TERMS = 7

GELU_END = 5.5
# Its error is a fifth of a rounding error of the factor of x, and one term more gains nothing.
_GELU_TERMS = 16


@dataclass(frozen=True)
class ErrorFunction:
    """Constants, exact in float32.

    Parameters
    ----------
    near : tuple of float
        Coefficients of p, the constant term first.
    far : tuple of float
        Coefficients of -q, in the same order.
    errors : tuple of float
        Largest relative errors of both parts, before coefficients were rounded.
    """

    near: tuple[float, ...]
    far: tuple[float, ...]
    errors: tuple[float, float]


def erf(x: Decimal) -> Decimal:
    """Compute the error function in the precision of the context, for x up to about `END`.

    All terms of this series have the same sign: ``2 x / sqrt(pi) exp(-x**2)`` times the sum of
    ``(2 x**2)**n / (1 * 3 * ... * (2 n + 1))``.
    """
    square, n = x * x, 0
    term = total = Decimal(1)
    while term > total * Decimal(10) ** -_DIGITS:
        n += 1
        term *= 2 * square / (2 * n + 1)
        total += term
    return 2 * x / pi().sqrt() * (-square).exp() * total


@cache
def pi() -> Decimal:
    """Compute pi by Machin's formula."""

    def arctangent_of_one_over(n: int) -> Decimal:
        power = total = 1 / Decimal(n)
        divisor, sign = 1, 1
        while power > Decimal(10) ** -(_DIGITS + 2):
            power /= n * n
            divisor, sign = divisor + 2, -sign
            total += sign * power / divisor
        return total

    return 4 * (4 * arctangent_of_one_over(5) - arctangent_of_one_over(239))


@cache
def error_function() -> ErrorFunction:
    """Compute the constants."""
    with localcontext() as context:
        context.prec = _DIGITS
        squares = remez.chebyshev(Decimal("1e-9"), Decimal(BEND) ** 2, _POINTS)
        ratios = [erf(square.sqrt()) / square.sqrt() for square in squares]
        near, near_error = remez.fit(
            squares,
            [ratio - 1 for ratio in ratios],
            [1 / ratio for ratio in ratios],
            _NEAR_TERMS,
        )
        points = remez.chebyshev(Decimal(BEND), Decimal(END), _POINTS)
        values = [erf(point) for point in points]
        far, far_error = remez.fit(
            points,
            [(1 - value).ln() for value in values],
            [(1 - value) / value for value in values],
            _FAR_TERMS,
        )
    return ErrorFunction(rounded(near), rounded(far), (float(near_error), float(far_error)))


@dataclass(frozen=True)
class Gelu:
    """Constants, exact in float32.

    Parameters
    ----------
    terms : tuple of float
        Coefficients of g, the constant term first.
    error : float
        Largest error of the factor of x, before coefficients were rounded.
    """

    terms: tuple[float, ...]
    error: float


@cache
def gelu() -> Gelu:
    """Compute the constants."""
    with localcontext() as context:
        context.prec = _DIGITS
        end, root = Decimal(GELU_END), Decimal(2).sqrt()
        points = remez.chebyshev(Decimal(-1) + Decimal("1e-9"), Decimal(1), _POINTS)
        arguments = [end * ((s + 1) / 2).sqrt() for s in points]
        terms, error = remez.fit(
            points, [erf(x / root) / (2 * x) for x in arguments], arguments, _GELU_TERMS
        )
    return Gelu(rounded(terms), float(error))


def rounded(coefficients: Sequence[Decimal]) -> tuple[float, ...]:
    """Round numbers to float32."""
    return tuple(struct.unpack("<f", struct.pack("<f", float(c)))[0] for c in coefficients)


def c_macros() -> dict[str, str]:
    """The constants as C text, for the template that needs them."""
    e, g = error_function(), gelu()
    return {
        "ERF_BEND": f"{BEND.hex()}f",
        "ERF_END": f"{END.hex()}f",
        **{
            name: "{" + ", ".join(f"{c.hex()}f" for c in coefficients) + "}"
            for name, coefficients in (
                ("ERF_NEAR", e.near),
                ("ERF_FAR", e.far),
                ("GELU_COEFFICIENTS", g.terms),
            )
        },
        "ERF_NEAR_TERMS": str(len(e.near)),
        "ERF_FAR_TERMS": str(len(e.far)),
        "GELU_END": f"{GELU_END.hex()}f",
        "GELU_TERMS": str(len(g.terms)),
    }
