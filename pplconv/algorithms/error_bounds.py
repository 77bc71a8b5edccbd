"""Stated bounds of the algorithms' errors."""

from __future__ import annotations


def direct_error_bound(k: int, dtype: str) -> float:
    """Bound for one chain of `k` FMAs."""
    return 1e-6 if dtype == "f32" else 1e-15
