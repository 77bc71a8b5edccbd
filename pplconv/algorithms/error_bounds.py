"""Stated bounds of the algorithms' errors, relative to the output's largest magnitude.

Rounding errors of a sum wander: they grow with the square root of its length. The constants
were fitted to the largest errors on normal, all-positive and image-like data over 1 to 2048
channels (``tests/api/test_error_bounds.py``), with a margin; they count unit roundoffs.
"""

from __future__ import annotations

from math import sqrt

UNIT_ROUNDOFF = {"f32": 2.0**-24, "f64": 2.0**-53}

# (n, r): what the transforms cost whatever the channels are, and for each root of a channel.
WINOGRAD = {
    (2, 3): (5.0, 2.0),
    (4, 3): (16.0, 4.6),
    (6, 3): (170.0, 29.0),
    (2, 5): (24.0, 2.8),
    (4, 5): (120.0, 14.0),
}


def direct_error_bound(k: int, dtype: str) -> float:
    """Bound for one chain of `k` FMAs, with bias and residual."""
    return (3.0 + 2.0 * sqrt(k)) * UNIT_ROUNDOFF[dtype]


def winograd_error_bound(n: int, r: int, channels: int, dtype: str) -> float:
    """Bound of F(n x n, r x r) over `channels` input channels."""
    constant, growing = WINOGRAD[n, r]
    return (constant + growing * sqrt(channels)) * UNIT_ROUNDOFF[dtype]
