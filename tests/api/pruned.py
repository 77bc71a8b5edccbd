"""Weights in blocks along output channels, some of which are zero, for tests."""

from __future__ import annotations

from typing import Any

import numpy as np

from pplconv.sparsity import Sparsity


def prune(weight: np.ndarray, groups: int, block: int, density: float, seed: int) -> np.ndarray:
    """Give weights of which about `density` are left, in blocks of 1 x `block`.

    Channels of a group beyond whole blocks are pruned one by one. Among zeros are negative ones.
    """
    rng = np.random.default_rng([seed, block])
    oc = weight.shape[0] // groups
    rows = np.moveaxis(weight.reshape(groups, oc, -1), 1, 2).copy()  # (groups, k, oc)
    whole = oc // block * block
    zero = np.ones(rows.shape, bool)
    blocks = rng.random((*rows.shape[:2], oc // block)) >= density
    zero[..., :whole] = np.repeat(blocks, block, axis=2)
    zero[..., whole:] = rng.random((*rows.shape[:2], oc - whole)) >= density
    rows[zero] = 0
    if weight.dtype.kind == "f":
        rows[zero & (rng.random(rows.shape) < 0.5)] = -0.0
    return np.ascontiguousarray(np.moveaxis(rows, 2, 1)).reshape(weight.shape)


def stored(weight: np.ndarray, groups: int, block: int) -> int:
    """Count the weights of blocks with any that is not zero, and those beyond whole blocks."""
    oc = weight.shape[0] // groups
    rows = weight.reshape(groups, oc, -1) != 0
    whole = oc // block * block
    k = rows.shape[2]
    blocks = rows[:, :whole].reshape(groups, oc // block, block, k).any(axis=2)
    return int(blocks.sum()) * block + int(rows[:, whole:].sum())


def sparsity_of(weight: np.ndarray, groups: int, block: int) -> Sparsity:
    """Describe them as a problem does."""
    return Sparsity.of(block, stored(weight, groups, block), weight.size)


def with_sparsity(monkeypatch: Any, sparsity: Sparsity | None) -> None:
    """Let problems of calls say how sparse weights are."""
    from pplconv.api import arguments

    make = arguments.make_problem

    def made(*args: Any, **kwargs: Any) -> Any:
        return make(*args, **{**kwargs, "sparsity": sparsity})

    monkeypatch.setattr(arguments, "make_problem", made)
