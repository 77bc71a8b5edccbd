"""Winograd convolution: point sets, and the transform matrices that follow from them.

F(n, r) computes n outputs of a correlation with r taps from t = n + r - 1 inputs by t products:
``y = A^T [(G g) * (B^T d)]``. Nested with itself it computes n x n outputs. The matrices come
from t - 1 points and infinity by the transposed Toom-Cook algorithm (S. Winograd, *Arithmetic
Complexity of Computations*, 1980; B. Barabasz et al., *Error Analysis and Improving the Accuracy
of Winograd Convolution for Deep Neural Networks*, 2020): interpolation of a polynomial product.

All arithmetic here is exact. The identity holds for any distinct rational points, so an irrational
square root is replaced by a rational number that agrees with it to 60 digits.

The choice of points decides the error of a variant. The scale of a position does not: it cancels
between weights and input, rounding included.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

Matrix = tuple[tuple[Fraction, ...], ...]

_DIGITS = 10**60


def root(square: Fraction) -> Fraction:
    """Square root, exact where it is rational and to 60 digits where it is not."""
    exact = Fraction(math.isqrt(square.numerator), math.isqrt(square.denominator))
    if exact * exact == square:
        return exact
    return Fraction(math.isqrt(square.numerator * _DIGITS**2 // square.denominator), _DIGITS)


def symmetric(*squares: Fraction | int) -> tuple[Fraction, ...]:
    """Zero and, for each of `squares`, both of its roots; infinity is implied."""
    points = [Fraction(0)]
    for square in squares:
        point = root(Fraction(square))
        points += [point, -point]
    return tuple(points)


# In sets that are symmetric about zero, rows share half of their work; if a set also has the
# reciprocals of its points, some coefficients are one. Neither costs accuracy: descent from random
# starts over all real sets lowers the noise that the worst output takes over from the sums of
# products by less than 1 %. The table compares sets by the median of the largest errors of 48 draws
# of 512 normally distributed channels (benchmarks/winograd_points.py), in units of 1e-6:
#
#   F(4,3)  0 +-sqrt(1/2) +-sqrt(2)  3.3    F(6,3)  0 +-1 +-11/6 +-6/11  16
#           0 +-2/3 +-3/2            3.1            0 +-1 +-7/4 +-4/7    18
#           0 +-3/4 +-4/3            3.3            0 +-1 +-2 +-1/2      20
#           0 +-1 +-2                11             0 +-1 +-3/2 +-2/3    25
#
# F(4,3) is flat from 2/3 to 3/4, where sqrt(1/2) has the exact constants 1/2, 2 and 5/2. F(6,3)
# and F(4,5) have shorter tails with 11/6 than with 2: 95 % of 80 draws lie below 17 against 24.
_FOUR = symmetric(Fraction(1, 2), 2)
_SIX = symmetric(1, Fraction(121, 36), Fraction(36, 121))
POINTS = {
    (2, 3): symmetric(1),
    (4, 3): _FOUR,
    (6, 3): _SIX,
    (3, 4): _FOUR,
    (2, 5): _FOUR,
    (4, 5): _SIX,
}


@dataclass(frozen=True)
class Matrices:
    """The transforms of F(n, r): rows and columns in the order of the points, infinity last.

    Parameters
    ----------
    output : tuple of tuple of Fraction
        A^T, n x t.
    weights : tuple of tuple of Fraction
        G, t x r.
    input : tuple of tuple of Fraction
        B^T, t x t.
    """

    output: Matrix
    weights: Matrix
    input: Matrix


def _times_root(polynomial: list[Fraction], point: Fraction) -> list[Fraction]:
    """Multiply a polynomial, lowest power first, by (x - point)."""
    raised = [Fraction(0), *polynomial]
    return [
        high - point * low for high, low in zip(raised, [*polynomial, Fraction(0)], strict=True)
    ]


def matrices_of(points: tuple[Fraction, ...], n: int, r: int) -> Matrices:
    """Make the matrices of F(n, r) from n + r - 2 points and infinity.

    Each point p has a scale that may be split freely among its entries of the three matrices. Here
    the polynomials of B^T have a highest coefficient of one, and the powers of p in A^T are centred
    about zero: middle rows are then plain sums, and constants stay near one. G takes the remaining
    factor, as it is applied in double precision.

    Raises
    ------
    ValueError
        If there are not n + r - 2 points, or if two are equal.
    """
    t = n + r - 1
    if len(points) != t - 1:
        raise ValueError(f"F({n}, {r}) takes {t - 1} points besides infinity, not {len(points)}")
    if len(set(points)) != len(points):
        raise ValueError(f"points must be distinct: {points}")
    scales = [point ** -(n // 2) if point else Fraction(1) for point in points]
    output = [[scale * p**i for p, scale in zip(points, scales, strict=True)] for i in range(n)]
    weights, input_ = [], []
    for p, scale in zip(points, scales, strict=True):
        polynomial, norm = [Fraction(1)], scale
        for q in points:
            if q != p:
                polynomial = _times_root(polynomial, q)
                norm *= p - q
        weights.append(tuple(p**j / norm for j in range(r)))
        input_.append((*polynomial, Fraction(0)))
    last = [Fraction(1)]
    for p in points:
        last = _times_root(last, p)
    return Matrices(
        tuple((*row, Fraction(i == n - 1)) for i, row in enumerate(output)),
        (*weights, tuple(Fraction(j == r - 1) for j in range(r))),
        (*input_, tuple(last)),
    )


@cache
def matrices(n: int, r: int) -> Matrices:
    """Give the matrices of a variant that kernels exist for."""
    return matrices_of(POINTS[n, r], n, r)


def integer_matrices(n: int, r: int) -> tuple[Matrices, int]:
    """Give matrices of integers, and by how many bits they enlarge the results.

    For small points, A^T and B^T have no fractions. G, which is applied on both sides of the
    weights, is multiplied by its common denominator.

    Raises
    ------
    ValueError
        If other fractions remain.
    """
    found = matrices(n, r)
    scale = math.lcm(*(x.denominator for row in found.weights for x in row))
    whole = all(x.denominator == 1 for m in (found.output, found.input) for row in m for x in row)
    if not whole or scale & (scale - 1):
        raise ValueError(f"F({n}, {r}) has fractions that no shift takes off")
    weights = tuple(tuple(scale * x for x in row) for row in found.weights)
    return Matrices(found.output, weights, found.input), 2 * (scale.bit_length() - 1)
