"""Inputs of kernels: ordinary, extreme and special numbers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TypeVar

import numpy as np

T = TypeVar("T")

KINDS = ("random", "extreme", "special")
STRANGE = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0])


def pick(rng: np.random.Generator, options: Sequence[T]) -> T:
    """Draw one of a few options unchanged: ``rng.choice`` would convert them to an array."""
    return options[int(rng.integers(len(options)))]


def pick_each(
    rng: np.random.Generator, options: np.ndarray, shape: int | tuple[int, ...]
) -> np.ndarray:
    """Draw one of a few options for each element, much faster than ``rng.choice``."""
    return options[rng.integers(0, len(options), shape)]


@cache
def edges_of(dtype: np.dtype) -> tuple[np.ndarray, float, float]:
    """Numbers at the ends of a type's range, and log2 of the smallest and of the largest."""
    info = np.finfo(dtype)
    edges = [info.max, info.tiny, info.smallest_subnormal, info.tiny / 2, info.eps, 1, 0]
    low, high = np.log2(float(info.smallest_subnormal)), np.log2(float(info.max))
    return np.array(edges, dtype), float(low), float(high)


def draw(
    rng: np.random.Generator, kind: str, shape: tuple[int, ...], dtype: np.dtype
) -> np.ndarray:
    """Draw numbers of one kind.

    Parameters
    ----------
    kind : {"random", "extreme", "special"}
        Normally distributed; largest, smallest, subnormal and of all magnitudes; normally
        distributed with some NaN, infinities and zeros of both signs. Integers ignore the kind:
        they are uniform over the type.
    """
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    if kind == "random":
        return rng.standard_normal(shape).astype(dtype)
    if kind == "special":
        x = rng.standard_normal(shape).astype(dtype)
        # So rare that most sums stay finite: a wrong NaN must not hide among others.
        strange = rng.random(shape) < 0.02
        x[strange] = pick_each(rng, STRANGE, int(np.count_nonzero(strange)))
        return x
    if kind != "extreme":
        raise ValueError(f"no kind {kind!r}")
    edges, low, high = edges_of(dtype)
    x = pick_each(rng, edges, shape)
    # Half of them are log-uniform between the smallest and the largest number.
    spread = np.exp2(rng.uniform(low, high - 1, shape)).astype(dtype)
    x = np.where(rng.random(shape) < 0.5, spread, x)
    return np.where(rng.random(shape) < 0.5, -x, x)
