"""What the tests of the Winograd transforms share: the matrices in float64, and shapes."""

from __future__ import annotations

from functools import cache

import numpy as np

from asm.registry import DTYPES
from asm.winograd import matrices

EPSILON = {"f32": 2.0**-24, "f64": 2.0**-53}


@cache
def transforms(n: int, r: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Give A^T, G and B^T in float64."""
    m = matrices(n, r)
    return tuple(np.array(x, dtype=np.float64) for x in (m.output, m.weights, m.input))


def both_sides(matrix: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Compute M x M^T of the last two axes."""
    return matrix @ x @ matrix.T


def rounding(matrix: np.ndarray, x: np.ndarray, dtype: str) -> np.ndarray:
    """Bound the error of `both_sides` when it is computed in `dtype`.

    Each pass is a chain of at most as many roundings as a row has coefficients, and the
    coefficients are rounded too; pairs of rows add two more.
    """
    steps = 2 * (np.count_nonzero(matrix, axis=1).max() + 4)
    return steps * EPSILON[dtype] * both_sides(np.abs(matrix), np.abs(x))


def spaced(rng: np.random.Generator, dtype: str, *counts: int) -> tuple[int, ...]:
    """Draw strides for an array of these counts, innermost contiguous, with gaps or without."""
    size = DTYPES[dtype]
    strides = [size]
    for count in reversed(counts[1:]):
        gap = int(rng.integers(0, 9) * rng.integers(0, 2))
        strides.insert(0, strides[0] * count + gap * size)
    return tuple(strides)
