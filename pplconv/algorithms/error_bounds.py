"""Stated bounds of the algorithms' errors.

An error is ``max|y - exact| / max|exact|`` over an output, before its epilogue, and a bound is in
units of the roundoff u of the element type (2**-24, 2**-53). The bounds are of a statistical kind:
they hold for normally distributed, for all-positive and for image-like data, with a margin of 1.2
to 1.5 over the largest error in hundreds of draws (``docs/accuracy.md``), in outputs of a thousand
elements and more. A smaller output may have no large element to compare with. No bound of this size
holds for all data: if weights cancel the common part of all inputs, the largest output is small but
the error is not. Direct sums then still obey the classic bound: k u times the sum of the magnitudes
of the products.

They all follow the law of one long chain of fused multiply-adds: its partial sums grow like k
(all-positive) or like sqrt(k) (random signs), each step adds a rounding of random sign, and so the
error grows like sqrt(k) relative to the sum. Winograd's chains run over the
channels only, position by position, and its output transform amplifies their error by a factor
that the points decide; roundings of the transforms do not depend on the number of channels. The
two are independent, so their squares add.
"""

from __future__ import annotations

import math

from ..numerics import TYPES, Numerics

# Error of a sum of k products: u * (start + growth * sqrt(k)). All-positive data give the largest:
# 1.0 to 1.15 sqrt(k) u over 2000 outputs, up to 1.3 over 200 000.
DIRECT_START = 1.0
DIRECT_GROWTH = 1.6

# (transforms, growth) of F(n x n, r x r), by (n, r): u * hypot(transforms, growth * sqrt(c)) for
# c channels of a group. Normally distributed data give the largest errors; for F(2,3), whose output
# transform amplifies little, all-positive data do.
WINOGRAD = {
    (2, 3): (5.5, 1.5),
    (4, 3): (24.0, 5.1),
    (6, 3): (170.0, 30.0),
    (3, 4): (24.0, 4.4),
    (2, 5): (24.0, 3.6),
    (4, 5): (115.0, 23.0),
}


def direct_error_bound(k: int, numerics: Numerics) -> float:
    """Bound the error of one chain of fused multiply-adds.

    Parameters
    ----------
    k : int
        Products of one output: (ic / groups) * kh * kw.
    numerics : Numerics
        The types that are computed with. If chains are limited, the same law holds for each chain,
        and their total is rounded once.

    Returns
    -------
    float
        Error, relative to the output's largest magnitude.
    """
    if numerics.chain is None:
        return _converted(numerics, _chain_error(k, numerics.roundoff))
    chain = _chain_error(min(k, numerics.chain), numerics.roundoff)
    total = _chain_error(k, TYPES["f32"].roundoff)
    return numerics.conversion + numerics.roundoff + chain + total


def winograd_error_bound(
    n: int, r: int, channels: int, numerics: Numerics, filled: float = 1.0
) -> float:
    """Bound the error of F(n x n, r x r) with one chain over the channels.

    Parameters
    ----------
    n, r : int
        Outputs and taps of a side.
    channels : int
        Input channels of a group, once for each subkernel.
    numerics : Numerics
        The types that are computed with.
    filled : float
        Share of the subkernels' taps that are the kernel's. The others are zeros, which make
        outputs smaller, but not the error.

    Returns
    -------
    float
        Error, relative to the output's largest magnitude.
    """
    return _converted(numerics, winograd_error(n, r, channels, numerics, filled))


def winograd_error(n: int, r: int, channels: int, numerics: Numerics, filled: float = 1.0) -> float:
    """Bound the error of F(n x n, r x r) without the error of converting arrays."""
    transforms, growth = WINOGRAD[n, r]
    error = math.hypot(transforms, growth * math.sqrt(channels)) / math.sqrt(filled)
    return numerics.roundoff * error


def _chain_error(k: int, roundoff: float) -> float:
    return roundoff * (DIRECT_START + DIRECT_GROWTH * math.sqrt(k))


def _converted(numerics: Numerics, error: float) -> float:
    """Add the error of converting arrays, which also scales the error so far."""
    return numerics.conversion + (1.0 + numerics.conversion) * error
