"""What the kernels are fed: ordinary, extreme and special numbers."""

from __future__ import annotations

import numpy as np

KINDS = ("random", "extreme", "special")


def draw(
    rng: np.random.Generator, kind: str, shape: tuple[int, ...], dtype: np.dtype
) -> np.ndarray:
    """Draw numbers of one kind.

    Parameters
    ----------
    kind : {"random", "extreme", "special"}
        Normally distributed; largest, smallest, subnormal and of all magnitudes; normally
        distributed with NaN, infinities and both zeros strewn in. Integers are any of the type,
        whatever the kind.
    """
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    if kind == "random":
        return rng.standard_normal(shape).astype(dtype)
    if kind == "special":
        x = rng.standard_normal(shape).astype(dtype)
        # Rarely enough that most sums stay finite: a wrong NaN must not hide among others.
        strange = rng.random(shape) < 0.02
        x[strange] = rng.choice([np.nan, np.inf, -np.inf, -0.0, 0.0], np.count_nonzero(strange))
        return x
    if kind != "extreme":
        raise ValueError(f"no kind {kind!r}")
    info = np.finfo(dtype)
    edges = [info.max, info.tiny, info.smallest_subnormal, info.tiny / 2, info.eps, 1, 0]
    x = rng.choice(np.array(edges, dtype), shape)
    # Half of them anywhere between the smallest and the largest, on a logarithmic scale.
    low, high = np.log2(float(info.smallest_subnormal)), np.log2(float(info.max))
    spread = np.exp2(rng.uniform(low, high - 1, shape)).astype(dtype)
    x = np.where(rng.random(shape) < 0.5, spread, x)
    return np.where(rng.random(shape) < 0.5, -x, x)
