"""Shared by tests of bfloat16 arrays: numbers, caps, and how near a result has to be."""

from __future__ import annotations

import numpy as np
import pytest

from tests.levels import allowed_isas

ml_dtypes = pytest.importorskip("ml_dtypes")

BF16 = np.dtype(ml_dtypes.bfloat16)
ROUNDING = 2.0**-8  # half a unit in the last place
CAPS = allowed_isas()
every_cap = pytest.mark.parametrize("cap", CAPS)


def draw(rng, *shape, dtype=BF16):
    return rng.standard_normal(shape, np.float32).astype(BF16).astype(dtype)


def team(cap):
    """Give each cap its own team, as functions keep plans and do not ask for the cap again."""
    return CAPS.index(cap) + 1


def wide(*arrays):
    return [None if array is None else array.astype(np.float64) for array in arrays]


def activated(y, activation):
    if activation == "relu":
        return np.maximum(y, 0)
    if activation == "silu":
        return y / (1 + np.exp(-y))
    if activation is None:
        return y
    if activation[0] == "clip":
        return np.clip(y, *activation[1:])
    return np.where(y < 0, activation[1] * y, y)


def assert_near(y, plan, sums, added=0.0, activation=None):
    """Hold a result to float32 sums and a float32 epilogue, rounded once to bfloat16."""
    assert y.dtype == BF16 and y.shape == sums.shape
    y, exact = y.astype(np.float64), activated(sums + added, activation)
    if activation is None and not np.any(added):
        assert np.abs(y - exact).max() <= plan.error_bound * np.abs(exact).max()
    scale = np.abs(sums).max()
    before = 2 * (plan.error_bound - ROUNDING) * scale
    before += 2.0**-21 * (scale + np.abs(added).max())
    limit = ROUNDING * np.abs(exact) + before
    assert (np.abs(y - exact) <= limit).all(), (np.abs(y - exact) / limit).max()
