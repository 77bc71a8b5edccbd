"""The data that engines are given, and the float64 result that they are held to."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.memory import aligned_copy
from benchmarks.problems import Problem

Array32 = NDArray[np.float32]
Array64 = NDArray[np.float64]


def make_data(problem: Problem) -> tuple[Array32, Array32]:
    """Draw input and weight for `problem`: the same ones in every run, in aligned memory.

    Random, finite and nowhere zero or denormal on purpose: zeros and denormals change a CPU's time
    for a product. Weights are scaled so that outputs are of the order of 1.

    Returns
    -------
    x : ndarray, float32, (N, C, H, W)
    w : ndarray, float32, (oc, ic/groups, kh, kw)
    """
    rng = np.random.default_rng(zlib.crc32(problem.sizes.encode()))
    x = rng.standard_normal(problem.input_shape, dtype=np.float32)
    w = rng.standard_normal(problem.weight_shape, dtype=np.float32)
    w /= np.float32(np.sqrt(problem.reduction))
    return aligned_copy(x), aligned_copy(w)


def reference(problem: Problem, x: NDArray[Any], w: NDArray[Any]) -> Array64:
    """Convolve in float64, tap by tap: no im2col, no transform, nothing shared with an engine.

    Of integers whose sums stay below 2^53 it is exact.

    Parameters
    ----------
    problem : Problem
    x : ndarray, (N, C, H, W)
    w : ndarray, (oc, ic/groups, kh, kw)

    Returns
    -------
    ndarray, float64, (N, oc, oh, ow)
    """
    p = problem
    groups, oc_group, ic_group = p.groups, p.oc // p.groups, p.ic // p.groups
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (p.ph, p.ph), (p.pw, p.pw)))
    weight = w.astype(np.float64).reshape(groups, oc_group, ic_group, p.kh, p.kw)
    total = np.zeros((p.mb, groups, oc_group, p.oh * p.ow))
    for row in range(p.kh):
        for column in range(p.kw):
            top, left = row * p.dh, column * p.dw
            seen = padded[
                :,
                :,
                top : top + (p.oh - 1) * p.sh + 1 : p.sh,
                left : left + (p.ow - 1) * p.sw + 1 : p.sw,
            ]
            seen = seen.reshape(p.mb, groups, ic_group, p.oh * p.ow)
            total += np.matmul(weight[:, :, :, row, column], seen)
    return total.reshape(p.output_shape)


def error_of(result: NDArray[np.generic], expected: Array64) -> float:
    """Largest absolute difference, as a fraction of the largest magnitude expected.

    Returns
    -------
    float
        Infinity where the shapes differ or `result` holds a NaN.
    """
    if result.shape != expected.shape:
        return float("inf")
    difference = np.abs(result.astype(np.float64) - expected).max(initial=0.0)
    scale = np.abs(expected).max(initial=0.0) or 1.0
    return float(difference / scale) if np.isfinite(difference) else float("inf")
