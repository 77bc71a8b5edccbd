"""Stated bounds of the algorithms' errors.

An error is ``max|y - exact| / max|exact|`` over an output, before its epilogue, and a bound is in
units of the roundoff u of the element type (2**-24, 2**-53). The bounds are of a statistical
kind: they hold for normally distributed, for all-positive and for image-like data, with a margin
of 1.2 to 1.5 over the largest error in hundreds of draws (``docs/accuracy.md``), in outputs of a
thousand elements and more. Smaller ones may lack a large element to be relative to. No bound of
this size holds for all data: where weights cancel what is common to all inputs, the largest
output is small and the error is not. Direct sums then still obey the classic bound, of k u times
the sum of the magnitudes of the products.

The law behind all of them is that of one long chain of fused multiply-adds: its partial sums grow
like k (all-positive) or like sqrt(k) (random signs), each adds a rounding of its own of random
sign, and so the error grows like sqrt(k) relative to the sum. Winograd's chains run over the
channels only, position by position, and its output transform amplifies their error by a factor
that the points decide; roundings of the transforms do not depend on the number of channels. The
two are independent, so their squares add.
"""

from __future__ import annotations

import math

ROUNDOFF = {"f16": 2.0**-11, "f32": 2.0**-24, "f64": 2.0**-53}

# What conversion costs where the arrays are of another type than what is computed in. Of halves:
# half an ulp, the one rounding of the result; relative to the largest output, it holds for all
# others, be they subnormal, and results beyond 65504 are infinite. Of floats computed in half
# precision: the roundings of input and weights.
CONVERSION_ROUNDOFF = {"f16f32": 2.0**-11, "f32f16": 2 * 2.0**-11}

# Error of a sum of k products: u * (start + growth * sqrt(k)). The largest ones are of
# all-positive data: 1.0 to 1.15 sqrt(k) u over 2000 outputs, up to 1.3 over 200 000.
DIRECT_START = 1.0
DIRECT_GROWTH = 1.6

# (transforms, growth) of F(n x n, r x r), by (n, r): u * hypot(transforms, growth * sqrt(c)) for
# c channels of a group. The largest errors are of normally distributed data, but for F(2,3),
# whose output transform amplifies little, of all-positive data.
WINOGRAD = {
    (2, 3): (5.5, 1.5),
    (4, 3): (24.0, 5.1),
    (6, 3): (170.0, 30.0),
    (2, 5): (24.0, 3.6),
    (4, 5): (115.0, 23.0),
}


# Products that kernels of half precision add up in it; such sums are added in float.
HALF_CHAIN = 64


def split_type(dtype: str) -> tuple[str, float]:
    """What is computed in, and the error of conversions where the arrays are of another type.

    Parameters
    ----------
    dtype : str
        As `ConvProblem.dtype_text` gives it, such as ``"f32"`` or ``"f16f32"``.
    """
    if len(dtype) == 3:
        return dtype, 0.0
    return dtype[3:], CONVERSION_ROUNDOFF[dtype]


def direct_error_bound(k: int, dtype: str) -> float:
    """Bound the error of one chain of fused multiply-adds.

    Parameters
    ----------
    k : int
        Products of one output: (ic / groups) * kh * kw.
    dtype : str
        ``"f16"``, ``"f32"``, ``"f64"``; ``"f16f32"``, arrays of halves computed in float; or
        ``"f32f16"``, the other way round.

    Returns
    -------
    float
        Error, relative to the output's largest magnitude.
    """
    dtype, stored = split_type(dtype)
    if dtype == "f16":  # the same law for each chain, and the rounding of the total
        chain = DIRECT_START + DIRECT_GROWTH * math.sqrt(min(k, HALF_CHAIN))
        return stored + ROUNDOFF["f16"] * (1.0 + chain) + direct_error_bound(k, "f32")
    return stored + (1.0 + stored) * ROUNDOFF[dtype] * (DIRECT_START + DIRECT_GROWTH * math.sqrt(k))


def winograd_error_bound(n: int, r: int, channels: int, dtype: str) -> float:
    """Bound the error of F(n x n, r x r) with one chain over the channels.

    Parameters
    ----------
    n, r : int
        Outputs and taps of a side.
    channels : int
        Input channels of a group.
    dtype : str
        ``"f16"``, ``"f32"``, ``"f64"`` or ``"f16f32"``, arrays of halves computed in float.

    Returns
    -------
    float
        Error, relative to the output's largest magnitude.
    """
    transforms, growth = WINOGRAD[n, r]
    dtype, stored = split_type(dtype)
    return stored + (1.0 + stored) * ROUNDOFF[dtype] * math.hypot(
        transforms, growth * math.sqrt(channels)
    )
