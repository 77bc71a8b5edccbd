"""Drawn products of integers: any operand, and any zero point, known or computed."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.network.drawing_cases import Case, Rng, pick


def _bytes(rng: Rng, *sizes: int, dtype: Any = None) -> np.ndarray:
    dtype = dtype or pick(rng, np.uint8, np.int8)
    bounds = np.iinfo(dtype)
    return np.asarray(rng.integers(bounds.min, bounds.max, sizes, endpoint=True).astype(dtype))


def _few(rng: Rng, *sizes: int, dtype: Any = None) -> np.ndarray:
    """Bytes with which onnxruntime does not saturate on CPUs without VNNI (ORT#14642)."""
    drawn = _bytes(rng, *sizes, dtype=dtype)
    return drawn // 2 if drawn.dtype == np.int8 else drawn


def _known(rng: Rng, operands: list[Any], *places: int) -> tuple[int, ...]:
    return tuple(p for p in places if p < len(operands) and rng.random() < 0.5)


def conv_integer(rng: Rng) -> Case:
    """Windows of one to three dimensions, in groups, padded."""
    rank, groups = int(pick(rng, 1, 2, 3)), int(pick(rng, 1, 1, 2, 3))
    kernel = rng.integers(1, 4, rank)
    x = _few(rng, 2, 2 * groups, *(rng.integers(5, 8, rank)))
    w = _few(rng, 4 * groups, 2, *kernel, dtype=np.uint8 if x.dtype == np.uint8 else None)
    operands = [x, w]
    if rng.random() < 0.7:
        operands.append(_bytes(rng, dtype=x.dtype))
        if rng.random() < 0.6:
            # onnxruntime has one for all channels.
            operands.append(_bytes(rng, dtype=w.dtype))
    given = {
        "group": groups, "strides": rng.integers(1, 3, rank).tolist(),
        "pads": [int(rng.integers(0, k)) for _ in range(2) for k in kernel],
    }  # fmt: skip
    return Case(operands, given, _known(rng, operands, 1, 2, 3))


def _matrices(rng: Rng) -> tuple[np.ndarray, np.ndarray]:
    depth = int(pick(rng, 1, 5, 40, 300))
    rows, columns = (int(n) for n in rng.integers(1, 6, 2))
    before, beside = pick(rng, ((), ()), ((2,), (2,)), ((3, 2), ()), ((2,), ()))
    a = _bytes(rng, *before, rows, depth)
    # onnxruntime has no products of signed and unsigned bytes in this order.
    of_b = None if a.dtype == np.uint8 else np.int8
    return a, _few(rng, *beside, depth, columns, dtype=of_b)


def matmul_integer(rng: Rng) -> Case:
    """Matrices, and batches of them."""
    operands: list[Any] = [*_matrices(rng)]
    if rng.random() < 0.7:
        operands.append(_bytes(rng, dtype=operands[0].dtype))
        if rng.random() < 0.6:
            operands.append(_bytes(rng, dtype=operands[1].dtype))
    return Case(operands, {}, _known(rng, operands, 1, 2, 3))


def qlinear_matmul(rng: Rng) -> Case:
    """Scales and zero points are known. Scales are powers of two, and zero points even."""
    a, b = _matrices(rng)
    scales = [np.float32(2.0 ** int(rng.integers(-9, -5))) for _ in "ab"]
    zeros = [_bytes(rng, dtype=x.dtype) for x in (a, b, a)]
    zeros[2] = zeros[2] & ~np.ones((), zeros[2].dtype)
    numbers: list[Any] = [a, scales[0], zeros[0], b, scales[1], zeros[1]]
    unit = np.float32(2.0 ** int(rng.integers(-8, -2)))
    known = (1, 2, 4, 5, 6, 7, *_known(rng, numbers, 3))
    return Case([*numbers, unit, zeros[2]], {}, tuple(sorted(known)))
