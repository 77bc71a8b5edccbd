"""Logarithms of sums."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..storage import Array, Shape
from .types import Attributes, Operands

__all__ = ["log_sum", "log_sum_exp"]


def log_sum(attributes: Attributes, operands: Operands, shapes: Sequence[Shape]) -> list[Array]:
    """ReduceLogSum."""
    x, axes, keep = _read(attributes, operands)
    if axes == ():
        return [np.log(x.astype(np.float64)).astype(x.dtype)]
    return [np.log(x.astype(np.float64).sum(axes, keepdims=keep)).astype(x.dtype)]


def log_sum_exp(attributes: Attributes, operands: Operands, shapes: Sequence[Shape]) -> list[Array]:
    """ReduceLogSumExp, of powers of which the largest is one."""
    x, axes, keep = _read(attributes, operands)
    wide = x.astype(np.float64)
    largest = wide.max(axes, keepdims=True, initial=-np.inf)
    # Infinities are no numbers to subtract.
    base = np.where(np.isfinite(largest), largest, 0)
    total = np.log(np.exp(wide - base).sum(axes, keepdims=True)) + base
    return [(total if keep else total.squeeze(axes)).astype(x.dtype)]


def _read(attributes: Attributes, operands: Operands) -> tuple[Array, tuple[int, ...], bool]:
    x, given = [*operands, None][:2]
    assert x is not None
    axes = () if given is None else tuple(int(axis) % x.ndim for axis in given.reshape(-1))
    if not axes and not attributes.get("noop_with_empty_axes", 0):
        axes = tuple(range(x.ndim))
    return x, axes, bool(attributes.get("keepdims", 1))
