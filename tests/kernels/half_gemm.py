"""GEMM in half precision, bit for bit as ``contract.HALF_CHAIN`` says, in NumPy.

A fused multiply-add of halves is done in float64: the product is exact there, and the sum is
rounded to odd, so that rounding it once more, to half precision, gives what one rounding would
have given (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008).
"""

from __future__ import annotations

import numpy as np

from asm.contract import HALF_CHAIN


def sum_to_odd(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Compute x + y in float64, rounded to odd."""
    total = np.asarray(x + y)
    # The error of the sum (Knuth's TwoSum); NaN where the sum is not finite.
    added = total - x
    lost = (x - (total - added)) + (y - added)
    bits = total.view(np.int64)
    away = (lost > 0) == (total > 0)
    inexact = np.isfinite(lost) & (lost != 0) & (bits & 1 == 0)
    odd = np.where(inexact, np.where(away, bits + 1, bits - 1), bits)
    return odd.view(np.float64)


def fused(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Compute a * b + c of halves, rounded to half precision once."""
    a, b, c = (x.astype(np.float64) for x in (a, b, c))
    return sum_to_odd(a * b, c).astype(np.float16)


def ordered_sum(a: np.ndarray, b: np.ndarray, start: np.ndarray, segments: int) -> np.ndarray:
    """Sum of products in the contract's order.

    Parameters
    ----------
    a, b : ndarray of float16
        All segments side by side: (MR, segments * k) and (segments * k, n).
    start : ndarray of float16
        Start of the first chain, (MR, n).
    segments : int
        Number of segments, >= 1.
    """
    depth = a.shape[1] // segments
    chain, length, total = start, 0, np.zeros(start.shape, np.float32)
    for segment in range(segments):
        for begin in range(0, depth, HALF_CHAIN):
            piece = min(HALF_CHAIN, depth - begin)
            if length + piece > HALF_CHAIN:
                total = total + chain.astype(np.float32)
                chain, length = np.zeros_like(start), 0
            length += piece
            for k in range(segment * depth + begin, segment * depth + begin + piece):
                chain = fused(a[:, k, np.newaxis], b[np.newaxis, k], chain)
    if depth * segments <= HALF_CHAIN:
        return chain
    return (total + chain.astype(np.float32)).astype(np.float16)
