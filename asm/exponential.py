"""The exponential inside sigmoid and SiLU: its constants, computed and not looked up.

``exp(y) = 2**n * p(r)`` with ``n = round(y / ln 2)`` and ``r = y - n * ln 2``. ``ln 2`` comes in
two parts, the first so short that ``n`` times it is exact (Cody and Waite, "Software Manual for
the Elementary Functions", 1980). ``p(r) = 1 + r + r**2 * q(r)``, where ``q`` minimises the
largest *relative* error of ``p`` on the interval that ``r`` can lie in; the exchange algorithm
of Remez finds it, here in decimal arithmetic of 50 digits on a dense set of Chebyshev points.
The largest error over these points is kept beside the coefficients, and the kernel tests
measure it again between them, with the coefficients as the kernels have them.

Kernels and C template take every constant from here, so that they compute the same numbers.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import cache

from asm.remez import chebyshev, fit

_DIGITS = 50
# n itself may be rounded the wrong way near a half, so r may leave its interval by a little.
_SLACK = Decimal(2) ** -10


@dataclass(frozen=True)
class Exponential:
    """Constants for one element type; floats are exact in that type.

    Parameters
    ----------
    coefficients : tuple of float
        Coefficients of r**2, r**3 and so on; the coefficients of 1 and r are 1.
    error : float
        Largest relative error of the polynomial before its coefficients were rounded.
    half_range : float
        Largest abs(r) that `error` covers.
    log2e, ln2_high, ln2_low : float
        1 / ln 2, and ln 2 in two parts.
    magic : float
        Added to a number below 2**(mantissa - 2), it leaves that number's nearest integer in
        the low bits of the sum.
    limit : float
        From this value on, exp(-limit) and limit * exp(-limit) round to zero.
    mantissa, bias : int
        Mantissa bits and exponent bias of the floating-point format.
    """

    coefficients: tuple[float, ...]
    error: float
    half_range: float
    log2e: float
    ln2_high: float
    ln2_low: float
    magic: float
    limit: float
    mantissa: int
    bias: int


def _minimax(degree: int, half: Decimal) -> tuple[list[Decimal], Decimal]:
    """Coefficients of r**2 to r**degree, and the largest relative error they leave."""
    # The error at zero is zero whatever q is.
    points = [point for point in chebyshev(-half, half) if abs(point) > Decimal("1e-9")]
    exact = [point.exp() for point in points]
    values = [
        (value - 1 - point) / (point * point) for point, value in zip(points, exact, strict=True)
    ]
    weights = [point * point / value for point, value in zip(points, exact, strict=True)]
    return fit(points, values, weights, degree - 1)


@cache
def exponential(dtype: str) -> Exponential:
    """Constants for ``"f32"`` or ``"f64"``.

    The degrees are the lowest whose error is at most a tenth of a rounding error. At the limits, n
    reaches 160 in f32 and 1097 in f64, which 8 and 11 bits hold.
    """
    degree, mantissa, bias, limit, n_bits, code = {
        "f32": (6, 23, 127, 110.0, 8, "<f"),
        "f64": (11, 52, 1023, 760.0, 11, "<d"),
    }[dtype]

    def rounded(value: Decimal) -> float:
        return float(struct.unpack(code, struct.pack(code, float(value)))[0])

    with localcontext() as context:
        context.prec = _DIGITS
        ln2 = Decimal(2).ln()
        half = ln2 / 2 * (1 + _SLACK)
        coefficients, error = _minimax(degree, half)
        unit = Decimal(2) ** (mantissa + 1 - n_bits)
        high = (ln2 * unit).to_integral_value() / unit
        return Exponential(
            coefficients=tuple(rounded(c) for c in coefficients),
            error=float(error),
            half_range=float(half),
            log2e=rounded(1 / ln2),
            ln2_high=rounded(high),
            ln2_low=rounded(ln2 - high),
            magic=1.5 * 2.0**mantissa,
            limit=limit,
            mantissa=mantissa,
            bias=bias,
        )


def c_macros(dtype: str) -> dict[str, str]:
    """The constants as C text, for the template that needs them."""
    e = exponential(dtype)
    suffix = "f" if dtype == "f32" else ""
    coefficients = ", ".join(f"{c.hex()}{suffix}" for c in e.coefficients)
    values = {"LOG2E": e.log2e, "LN2_HIGH": e.ln2_high, "LN2_LOW": e.ln2_low, "MAGIC": e.magic}
    return {
        "EXP_COEFFICIENTS": f"{{{coefficients}}}",
        "EXP_TERMS": str(len(e.coefficients)),
        **{f"EXP_{name}": f"{value.hex()}{suffix}" for name, value in values.items()},
        "EXP_LIMIT": f"{e.limit.hex()}{suffix}",
        "EXP_MANTISSA": str(e.mantissa),
        "EXP_BIAS": str(e.bias),
    }
