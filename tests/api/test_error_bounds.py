"""The stated bounds hold on normal, all-positive and image-like data, from 1 to 2048 channels."""

from __future__ import annotations

import numpy as np
import pytest

from candidates import conv_problem, every_candidate, surroundings
from pplconv._trial import Trial
from problems import Problem
from reference import conv2d_reference


def draw(rng: np.random.Generator, kind: str, shape: tuple[int, ...]) -> np.ndarray:
    """Give numbers as networks have them."""
    if kind == "normal":
        return rng.standard_normal(shape)
    if kind == "positive":
        return rng.uniform(0, 1, shape)
    # Neighbours resemble one another: a walk in both directions, between 0 and 1.
    walk = rng.standard_normal(shape).cumsum(2).cumsum(3)
    walk -= walk.min()
    return walk / walk.max()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("inputs", "weights"), [
    ("normal", "normal"), ("positive", "normal"), ("positive", "positive"), ("image", "normal"),
    ("image", "positive"),
])  # fmt: skip
@pytest.mark.parametrize(("channels", "kernel"), [
    (1, 3), (4, 3), (16, 3), (64, 3), (256, 3), (1024, 3), (2048, 3), (1, 5), (16, 5), (128, 5),
    (16, 1), (2048, 1),
])  # fmt: skip
def test_bounds_hold(channels, kernel, inputs, weights, dtype, rng):
    shape = (1, 1, channels, 16, (14, 14), (kernel, kernel), 1, kernel // 2, 1)
    problem = Problem(dtype, "NHWC", *shape)
    x = draw(rng, inputs, (1, channels, 14, 14)).transpose(0, 2, 3, 1).astype(dtype).copy()
    w = draw(rng, weights, (16, channels, kernel, kernel)).astype(dtype)
    expected = conv2d_reference(x, w, padding=kernel // 2, layout="NHWC")
    largest = np.abs(expected).max()
    described = conv_problem(problem)
    around = surroundings(described.dtype, 1)
    methods = {}
    for candidate in every_candidate(described, around):
        methods.setdefault((candidate.algorithm, candidate.bits), candidate)
    assert len(methods) >= {1: 2, 3: 5, 5: 4}[kernel]
    for method, candidate in methods.items():
        y = np.full(expected.shape, np.nan, dtype)
        Trial(candidate.fields(1), described.dtype, around.isa, w).seconds(x, y)
        error = np.abs(y - expected).max() / largest
        # In float64 the reference is no better than a direct sum.
        own = 0 if dtype == "float32" else 2.0**-53 * (2 + 2 * np.sqrt(described.k))
        assert error <= candidate.error_bound + own, method
