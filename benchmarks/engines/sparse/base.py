"""Sizes of the blocks of sparse weights, from the names of engines."""

from __future__ import annotations

import re

from benchmarks.engines.base import Engine

# Engines of a block are named after it: ``mnn_b4``.
_BLOCK = re.compile(r"_b(\d+)(?:@|$)")


def block_in(name: str) -> int:
    """Output channels of a block, by the name of an engine; 0 where it has no block of its own."""
    match = _BLOCK.search(name)
    return int(match[1]) if match else 0


def block_of(engine: Engine) -> int:
    """Size of the blocks that an engine's weights are pruned in; one by one where it has none."""
    return block_in(engine.name) or 1
