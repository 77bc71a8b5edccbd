"""Numbers that are not like others: NaN, infinities, and such that a transform may overflow."""

from __future__ import annotations

from math import ceil, log2
from typing import Any

import numpy as np

SPECIALS = ("input", "input", "input", "weight", "bias", "residual", "huge", "huge")
"""Which operand has NaN and infinities in a few places; or numbers of input or weights are huge."""

_VALUES = (np.nan, np.inf, -np.inf)
_MOST = 4


def specialize(arrays: dict[str, Any], special: str, seed: int, terms: int) -> None:
    """Change the operands of a problem in place.

    Parameters
    ----------
    arrays : dict
        The two operands that are multiplied, then bias and residual.
    special : str
        One of `SPECIALS`; ``"input"`` and ``"weight"`` stand for the first two operands.
    seed : int
        Says where, and what.
    terms : int
        Products in a sum.
    """
    rng = np.random.default_rng([seed, 2])
    first, second = list(arrays)[:2]
    if special == "huge":
        names = (first, second) if rng.integers(2) else (second, first)
        _enlarge(*(arrays[name] for name in names), terms)
        return
    name = {"input": first, "weight": second}.get(special, special)
    array = arrays[name]
    if array is None or not array.size:
        return
    count = int(rng.integers(1, _MOST + 1))
    array.reshape(-1)[rng.integers(0, array.size, count)] = rng.choice(_VALUES, count)


def _enlarge(large: np.ndarray, small: np.ndarray, terms: int) -> None:
    """Let one operand be so large that sums of two of its numbers overflow; those of it do not."""
    if large.dtype == np.float16:  # computed in float32, which has room enough
        return
    factor = large.dtype.type(2.0 ** (np.finfo(large.dtype).maxexp - 2))
    np.multiply(np.clip(large, -3.5, 3.5), factor, out=large)
    small *= small.dtype.type(2.0 ** -(3 + ceil(log2(max(terms, 1)))))
