"""Weights most of which are zero, and the arguments that tell layers of them."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

from pplconv.ops.sparse.sparse_weights import sparsity_of
from pplconv.sparsity import BLOCKS, Sparsity
from tests.api.pruned import prune

_DENSITIES = (0.0, 0.02, 0.1, 0.25, 0.25, 0.5, 0.8, 1.1)


@dataclass(frozen=True)
class Zeros:
    """How weights are pruned, and the arguments of a layer.

    Parameters
    ----------
    block : int
        Output channels that are pruned together.
    density : float
        Share of the blocks that is left; beyond 1 all of them.
    sparse : bool or str
        As the layer takes it.
    asked : (int, int) or None
        The block that the layer is told of.
    """

    block: int
    density: float
    sparse: Any = "auto"
    asked: tuple[int, int] | None = None

    def prune(self, weight: np.ndarray, groups: int, seed: int) -> np.ndarray:
        """Give weights with zeros in them."""
        return prune(weight, groups, self.block, self.density, seed)

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments of a layer about its zeros."""
        return {"sparse": self.sparse, "block": self.asked}

    def sparsity(self, weight: np.ndarray, groups: int) -> Sparsity | None:
        """The sparsity that the planner is told."""
        return sparsity_of(weight, groups, self.sparse, self.asked and self.asked[1])


def draw_zeros(r: Random, *, layer: bool, forced: bool, special: bool) -> Zeros | None:
    """Give zeros for a third of all cases.

    Parameters
    ----------
    r : Random
        Where they are drawn from.
    layer : bool
        Whether it is a layer that is called, which may leave them out.
    forced : bool
        Whether it may have to.
    special : bool
        Whether numbers are not finite: zeros that are left out have no part in such a sum, and the
        reference knows nothing of that.
    """
    if r.random() > 0.35:
        return None
    block, density = r.choice(BLOCKS), r.choice(_DENSITIES)
    if special or not layer:
        return Zeros(block, density, False)
    sparse = True if forced and r.random() < 0.5 else "auto"
    asked = (1, r.choice((block, r.choice(BLOCKS)))) if r.random() < 0.4 else None
    return Zeros(block, density, sparse, asked)
