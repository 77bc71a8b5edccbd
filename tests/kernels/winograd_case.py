"""Helpers of the tests of Winograd transforms: matrices in float64, random numbers, strides.

float64 is exact for the integer transforms, whose results are sums of a few 32-bit numbers.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from asm.contract import FLAGS
from asm.registry import ELEMENT_BYTES
from asm.winograd import integer_matrices, matrices

EPSILON = {"f32": 2.0**-24, "f64": 2.0**-53}
# Largest magnitudes: weights are int8 less a zero point of int8.
LARGEST = {"s16": 255}


def is_exact(row: dict) -> bool:
    """Whether a kernel transforms integers."""
    return row["dtype"] not in EPSILON


def lanes_of(row: dict) -> int:
    """Channels in a vector; bytes are transformed as 16-bit words."""
    size = {"f64": 8, "f32": 4, "s32": 4}.get(row["dtype"], 2)
    return row["vector_bytes"] // size


def drawn(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """Draw numbers of a type; integers of its whole range, and often its ends."""
    if dtype in EPSILON:
        return rng.standard_normal(shape)
    signed, bits = dtype[0] == "s", 8 * ELEMENT_BYTES[dtype]
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    if most := LARGEST.get(dtype):
        low, high = -most, most
    numbers = rng.integers(low, high + 1, shape)
    return np.where(rng.random(shape) < 0.2, rng.choice([low, high], shape), numbers)


@cache
def transforms(tile: tuple[int, int], exact: bool) -> tuple[np.ndarray, ...]:
    """Give A^T, G and B^T in float64."""
    m = integer_matrices(*tile)[0] if exact else matrices(*tile)
    return tuple(np.array(x, dtype=np.float64) for x in (m.output, m.weights, m.input))


def both_sides(matrix: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Compute M x M^T of the last two axes."""
    return matrix @ x @ matrix.T


def rounding(matrix: np.ndarray, x: np.ndarray, dtype: str) -> np.ndarray:
    """Bound the error of `both_sides` when it is computed in `dtype`.

    Each pass is a chain of at most as many roundings as a row has coefficients, and the
    coefficients are rounded too; pairs of rows add two more. Integers are not rounded.
    """
    if dtype not in EPSILON:
        return np.zeros(())
    steps = 2 * (np.count_nonzero(matrix, axis=1).max() + 4)
    return steps * EPSILON[dtype] * both_sides(np.abs(matrix), np.abs(x))


def spaced(rng: np.random.Generator, dtype: str, *counts: int) -> tuple[int, ...]:
    """Draw strides for an array of these counts, innermost contiguous, with gaps or without."""
    size = ELEMENT_BYTES[dtype]
    strides = [size]
    for count in reversed(counts[1:]):
        gap = int(rng.integers(0, 9) * rng.integers(0, 2))
        strides.insert(0, strides[0] * count + gap * size)
    return tuple(strides)


def place_epilogue(
    call, shape: tuple[int, int, int], flags: int, clip: tuple[float, float]
) -> list:
    """Place bias, residual and clip for (rows, columns, channels), by flag; else None."""
    rng, size, dtype = call.rng, call.dtype.itemsize, call.row["dtype"]
    call.values |= {"residual_rs": 0, "residual_ps": 0, "flags": flags}
    placed: list[np.ndarray | None] = [None, None, None]
    if flags & FLAGS["BIAS_COLUMN"]:
        placed[0] = call.place_input("bias", shape[2:], (size,))
        placed[0][...] = rng.standard_normal(shape[2])
    if flags & FLAGS["RESIDUAL"]:
        strides = spaced(rng, dtype, *shape)
        placed[1] = call.place_input("residual", shape, strides)
        placed[1][...] = rng.standard_normal(shape)
        call.values |= {"residual_rs": strides[0], "residual_ps": strides[1]}
    if flags & FLAGS["CLIP"]:
        placed[2] = call.place_input("clip", (2,), (size,))
        placed[2][...] = clip
    return placed
