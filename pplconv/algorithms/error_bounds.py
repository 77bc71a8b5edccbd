"""Stated bounds of the algorithms' errors."""

from __future__ import annotations


def direct_error_bound(k: int, dtype: str) -> float:
    """Bound for one chain of `k` FMAs."""
    return 1e-6 if dtype == "f32" else 1e-15


def winograd_error_bound(n: int, r: int, channels: int, dtype: str) -> float:
    """Bound of F(n x n, r x r)."""
    table = {(2, 3): 1e-6, (4, 3): 5e-6, (6, 3): 2.5e-5, (2, 5): 5e-6, (4, 5): 2.5e-5}
    return table[n, r] * (1.0 if dtype == "f32" else 1e-8)
