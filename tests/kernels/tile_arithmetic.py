"""Products of AMX tiles in NumPy, bit for bit.

Bytes: the four products of a group are exact and their sum is added to C modulo 2**32.

bfloat16 (TDPBF16PS): as Intel's Software Developer's Manual describes it, and as silicon was found
to compute it (``test_tile_arithmetic.py`` compares the two on machines with AMX). For each element
of C two chains of fused multiply-adds begin with +0, one over the even k of the row and one over
the odd k, in ascending order. The odd chain is added to the even one, and the sum to C. Each of
these operations rounds to nearest even and reads subnormal numbers as zeros of their sign. Results
are rounded to 24 bits as if exponents were unbounded; if the rounded result is subnormal, it
becomes a zero of its sign. So a result within half a unit below the smallest normal number becomes
that number. MXCSR is neither read nor changed. NaN gives NaN, whose payload is not modelled.
"""

from __future__ import annotations

import numpy as np

from tests.kernels.half_gemm import sum_to_odd

_TINY = np.float32(np.finfo(np.float32).tiny)
# The smallest number that rounds, at 24 bits, to the smallest normal number: a tie.
_ROUNDS_TO_TINY = 2.0**-126 - 2.0**-151


def dot_bytes(c: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Add products of bytes to C.

    Parameters
    ----------
    c : ndarray, int32, shape (rows, columns)
    a : ndarray, uint8 or int8, shape (rows, 4 * groups)
    b : ndarray, int8, shape (groups, 4 * columns)
    """
    rows, columns = c.shape
    groups = a.shape[1] // 4
    left = a.astype(np.int64)
    right = b.astype(np.int64).reshape(groups, columns, 4).transpose(0, 2, 1)
    total = c.astype(np.int64) + left @ right.reshape(4 * groups, columns)
    return total.astype(np.uint64).astype(np.uint32).view(np.int32).reshape(rows, columns)


def dot_bf16(c: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Add products of bfloat16 to C.

    Parameters
    ----------
    c : ndarray, float32, shape (rows, columns)
    a : ndarray, uint16, shape (rows, 2 * groups)
        The bits of bfloat16 numbers.
    b : ndarray, uint16, shape (groups, 2 * columns)
    """
    left, right = _without_subnormal(widened(a)), _without_subnormal(widened(b))
    groups = right.shape[0]
    left = left.reshape(len(left), groups, 2)
    right = right.reshape(groups, -1, 2)
    chains = np.zeros((2, *c.shape), np.float32)
    with np.errstate(all="ignore"):
        for g in range(groups):
            for odd in range(2):
                products = left[:, g, odd, np.newaxis].astype(np.float64) * right[g, :, odd]
                chains[odd] = added(products, chains[odd])
        return added(added(chains[0], chains[1]), _without_subnormal(c))


def widened(bits: np.ndarray) -> np.ndarray:
    """Bfloat16 numbers, given as their bits, as float32."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def added(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x + y, rounded once to float32, ties to even; subnormal results become zero.

    Both are exact in float64: a product of two bfloat16 numbers has 16 bits. Their sum need not be,
    and rounding it twice could be wrong at a tie, so the first rounding is to odd (Boldo and
    Melquiond, "Emulation of a FMA and correctly rounded sums", IEEE Transactions on Computers 57,
    2008).
    """
    once = sum_to_odd(np.asarray(x, np.float64), np.asarray(y, np.float64))
    zero = np.copysign(np.float32(0), once.astype(np.float32))
    return np.where(np.abs(once) < _ROUNDS_TO_TINY, zero, once.astype(np.float32))


def _without_subnormal(x: np.ndarray) -> np.ndarray:
    """Zeros of the same sign for subnormal numbers."""
    return np.where(np.abs(x) < _TINY, np.copysign(np.float32(0), x), x)
