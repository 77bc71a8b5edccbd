"""Polynomials of the least largest error, by the exchange algorithm of Remez.

It works in decimal arithmetic, on given points. With some hundreds of Chebyshev points, the error
between two points is hardly larger than at the points.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal

POINTS = 600
_ROUNDS = 20


def chebyshev(low: Decimal, high: Decimal, count: int = POINTS) -> list[Decimal]:
    """Give `count` + 1 points between two numbers, denser at both ends."""
    middle, half = (low + high) / 2, (high - low) / 2
    return [middle + half * Decimal(math.cos(math.pi * i / count)) for i in range(count, -1, -1)]


def polynomial(coefficients: Sequence[Decimal], x: Decimal) -> Decimal:
    """Evaluate a polynomial whose constant term comes first."""
    total = Decimal(0)
    for coefficient in reversed(coefficients):
        total = total * x + coefficient
    return total


def fit(
    points: Sequence[Decimal],
    values: Sequence[Decimal],
    weights: Sequence[Decimal],
    terms: int,
) -> tuple[list[Decimal], Decimal]:
    """Find the polynomial whose largest weighted error at the points is least.

    Parameters
    ----------
    points : sequence of Decimal
        Arguments at which the polynomial is compared with the values, in rising order.
    values, weights : sequence of Decimal
        Value to approximate at each point, and factor of the error there.
    terms : int
        Number of coefficients.

    Returns
    -------
    coefficients : list of Decimal
        The constant term first.
    error : Decimal
        The largest weighted error.

    Raises
    ------
    ArithmeticError
        If the exchange does not reach alternating errors.
    """
    last = len(points) - 1
    chosen = [round(last * i / terms) for i in range(terms + 1)]
    for _ in range(_ROUNDS):
        # The error shall alternate between +e and -e at the chosen points; e is the last unknown.
        *found, level = _solve(
            [
                [weights[i] * points[i] ** j for j in range(terms)]
                + [Decimal((-1) ** k), weights[i] * values[i]]
                for k, i in enumerate(chosen)
            ]
        )
        errors = [
            (polynomial(found, point) - value) * weight
            for point, value, weight in zip(points, values, weights, strict=True)
        ]
        worst = max(abs(error) for error in errors)
        if worst <= abs(level) * (1 + Decimal("1e-6")):
            return found, worst
        chosen = _extrema(errors)
        if len(chosen) != terms + 1:
            break
    raise ArithmeticError(f"no minimax polynomial of {terms} terms")


def _solve(matrix: list[list[Decimal]]) -> list[Decimal]:
    """Gaussian elimination with pivoting; the last column is the right-hand side."""
    n = len(matrix)
    for i in range(n):
        pivot = max(range(i, n), key=lambda row: abs(matrix[row][i]))
        matrix[i], matrix[pivot] = matrix[pivot], matrix[i]
        for row in range(i + 1, n):
            factor = matrix[row][i] / matrix[i][i]
            matrix[row] = [a - factor * b for a, b in zip(matrix[row], matrix[i], strict=True)]
    solution = [Decimal(0)] * n
    for i in reversed(range(n)):
        known = sum(matrix[i][j] * solution[j] for j in range(i + 1, n))
        solution[i] = (matrix[i][n] - known) / matrix[i][i]
    return solution


def _extrema(errors: Sequence[Decimal]) -> list[int]:
    """Where the error is largest between its changes of sign."""
    found, start = [], 0
    for i in range(1, len(errors) + 1):
        if i == len(errors) or (errors[i] > 0) != (errors[start] > 0):
            found.append(max(range(start, i), key=lambda j: abs(errors[j])))
            start = i
    return found
