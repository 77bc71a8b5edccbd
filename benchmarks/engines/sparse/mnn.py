"""MNN's sparse convolutions: its converter marks a layer, and its kernels follow the mark."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.engines.base import Array32, Engine, Unsupported
from benchmarks.engines.mnn import Mnn

# Share of zeros above which its converter marks a layer, by size of block (AddSparseInfo.cpp).
_ONE_BY_ONE, _BLOCKS = 0.6, 0.3


class MnnSparse(Mnn):
    """MNN's CPU backend on a model converted with ``--detectSparseSpeedUp``.

    Blocks are asked for by a file of compression parameters, as its pruner writes it. AVX-512 has
    kernels for blocks of 1, 4 and 8 channels: larger ones go by eights.

    Parameters
    ----------
    block : int
        Output channels of a block.
    """

    # No Winograd in it.
    tolerance = Engine.tolerance

    def __init__(self, block: int) -> None:
        self.block = block
        self.name = f"mnn_b{block}"
        kind = f"pruned by SIMD_OC, oc_blocks {block}" if block > 1 else "pruned at random"
        self.note = f"converted with --detectSparseSpeedUp, {kind}; precision high"

    def options(self, w: Array32, directory: Path) -> Sequence[str]:
        """Ask for sparse weights in these blocks.

        Raises
        ------
        Unsupported
            If its converter would leave such weights dense.
        """
        zeros = 1.0 - stored(w, self.block) / w.size
        needed = _BLOCKS if self.block > 1 else _ONE_BY_ONE
        if zeros <= needed:
            raise Unsupported(f"its converter takes no less than {100 * needed:.0f} % of zeros")
        if self.block == 1:
            return ("--detectSparseSpeedUp",)
        pruner = {"type": "SIMD_OC", "simdOcPrunerParams": {"ocBlocks": [self.block]}}
        parameters = directory / "pruned.json"
        parameters.write_text(
            json.dumps({"version": "0.0.0", "algo": [{"type": "PRUNE", "pruneParams": pruner}]}),
            encoding="utf-8",
        )
        return ("--detectSparseSpeedUp", "--compressionParamsFile", str(parameters))


def stored(w: Array32, block: int) -> int:
    """Count the weights that are stored in whole blocks; channels that are left, one by one."""
    rows = w.reshape(len(w), -1)
    whole = len(rows) - len(rows) % block
    blocks = rows[:whole].reshape(-1, block, rows.shape[1]).any(axis=1)
    return int(blocks.sum()) * block + int(np.count_nonzero(rows[whole:]))
