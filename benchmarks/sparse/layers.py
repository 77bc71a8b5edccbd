"""Pruned data for a problem, and the result expected of it.

Weights are drawn as for dense layers, and pruned by magnitude: of all blocks of a layer, each of
some neighbouring output channels at one place of the kernel, those of the largest mean square stay.
So rows keep as many weights as chance gives them, as in a model that was pruned layer by layer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.candidates import Case
from benchmarks.engines.base import Engine, Prepared
from benchmarks.engines.quantized.base import Quantized, QuantizedEngine
from benchmarks.engines.sparse.base import block_of
from benchmarks.memory import aligned_copy
from benchmarks.problems import Problem
from benchmarks.quantized.layers import QuantizedCase, make_quantized
from benchmarks.reference import Array32, Array64, make_data, reference

# Sizes of blocks, in output channels: a weight by itself first.
BLOCKS = (1, 4, 8, 16)


def pruned(w: NDArray[Any], density: float, block: int) -> NDArray[Any]:
    """Set all but the strongest blocks to zero.

    Parameters
    ----------
    w : ndarray, (oc, ic/groups, kh, kw)
    density : float
        Part of the blocks that stays, more than 0 and at most 1.
    block : int
        Output channels of a block; the last block of a layer has those that are left.

    Returns
    -------
    ndarray
        A copy, in aligned memory.

    Raises
    ------
    ValueError
        If `density` is no such part, or a block has no channel.
    """
    if not 0.0 < density <= 1.0:
        raise ValueError(f"density is {density}, expected more than 0 and at most 1")
    if block < 1:
        raise ValueError(f"block is {block}, expected at least 1")
    rows = w.reshape(len(w), -1)
    starts = np.arange(0, len(rows), block)
    channels = np.diff([*starts, len(rows)])
    squares = np.square(rows.astype(np.float64))
    strength = np.add.reduceat(squares, starts, axis=0) / channels[:, None]
    kept = np.zeros(strength.size, np.bool_)
    # Stable, so that equal blocks are kept in the same order everywhere.
    order = np.argsort(-strength, axis=None, kind="stable")
    kept[order[: max(1, round(density * strength.size))]] = True
    mask = np.repeat(kept.reshape(strength.shape), channels, axis=0)
    return aligned_copy((rows * mask).reshape(w.shape), w.dtype)


@dataclass(frozen=True)
class Pattern:
    """The weights of one size of block, and the result expected of them (float64, NCHW)."""

    w: Array32
    expected: Array64


@dataclass(frozen=True)
class PrunedCase(Case):
    """A problem at one density, pruned in blocks of each size.

    An engine gets the weights of its block. An engine without blocks gets the weights pruned one
    by one, which are the case's own.

    Attributes
    ----------
    patterns : mapping of int to Pattern or Quantized
        By size of block. Those in int8 have uint8 activations: exact sums, one rounding.
    """

    patterns: Mapping[int, Pattern | Quantized]

    def _of(self, engine: Engine) -> Case:
        """The case of the engine's block."""
        one = self.patterns[block_of(engine)]
        if isinstance(one, Quantized):
            return QuantizedCase(self.problem, self.x, self.w, self.expected, {one.kind: one})
        return Case(self.problem, self.x, one.w, one.expected)

    def prepare(self, engine: Engine, threads: int) -> Prepared:
        """Prepare an engine on the weights of its block."""
        return self._of(engine).prepare(engine, threads)

    def error(self, engine: Engine, result: NDArray[np.generic]) -> float:
        """Error of a result against the one expected of the weights of its block."""
        return self._of(engine).error(engine, result)

    def complaint(self, engine: Engine, error: float) -> str:
        """Say by how much `error` is too large for the case of the engine's block."""
        return self._of(engine).complaint(engine, error)

    def kept(self) -> dict[int, int]:
        """Weights that are not zero, by size of block."""
        return {block: int(np.count_nonzero(one.w)) for block, one in self.patterns.items()}


def make_pruned_case(problem: Problem, density: float, blocks: Iterable[int]) -> PrunedCase:
    """Draw a problem in float32, the same one in every run, and prune it in blocks of each size."""
    x, w = make_data(problem)
    patterns = {}
    for block in sorted({1, *blocks}):
        sparse = pruned(w, density, block)
        patterns[block] = Pattern(sparse, reference(problem, x, sparse))
    return PrunedCase(problem, x, patterns[1].w, patterns[1].expected, patterns)


def make_pruned_quantized_case(
    problem: Problem, density: float, blocks: Iterable[int]
) -> PrunedCase:
    """Draw a problem in int8 and prune it; in float32 as well, for engines that compute in it."""
    plain = make_pruned_case(problem, density, ())
    patterns = {}
    for block in sorted({1, *blocks}):
        prune = partial(pruned, density=density, block=block)
        patterns[block] = make_quantized(problem, QuantizedEngine.kind, prune)
    return replace(plain, patterns=patterns)
