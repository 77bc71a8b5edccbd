"""Numbers that are not like others: NaN, infinities, and such that a transform may overflow."""

from __future__ import annotations

from math import ceil, log2, prod
from typing import Any

import numpy as np

from problems import Problem
from reference import explicit_padding, pair

SPECIALS = ("input", "input", "input", "weight", "bias", "residual", "huge", "huge")
"""Which operand has NaN and infinities in a few places; or numbers of input or weights are huge."""

_VALUES = (np.nan, np.inf, -np.inf)
_MOST = 4


def specialize(problem: Problem, arrays: dict[str, Any], special: str) -> None:
    """Change the operands of a problem in place."""
    rng = np.random.default_rng([problem.seed, 2])
    if special == "huge":
        names = ("input", "weight") if rng.integers(2) else ("weight", "input")
        _enlarge(problem, *(arrays[name] for name in names))
        return
    array = arrays[special]
    # Whether a tap on padding gives 0 * inf is left open (docs/accuracy.md).
    if array is None or not array.size or (special == "weight" and _padded(problem)):
        return
    count = int(rng.integers(1, _MOST + 1))
    array.reshape(-1)[rng.integers(0, array.size, count)] = rng.choice(_VALUES, count)


def _padded(p: Problem) -> bool:
    pads = explicit_padding(p.padding, p.image, p.kernel, pair(p.stride), pair(p.dilation))
    return any(any(sides) for sides in pads)


def _enlarge(problem: Problem, large: np.ndarray, small: np.ndarray) -> None:
    """Let one operand be so large that sums of two of its numbers overflow; those of it do not."""
    if large.dtype == np.float16:  # computed in float32, which has room enough
        return
    terms = problem.in_channels // problem.groups * prod(problem.kernel)
    factor = large.dtype.type(2.0 ** (np.finfo(large.dtype).maxexp - 2))
    np.multiply(np.clip(large, -3.5, 3.5), factor, out=large)
    small *= small.dtype.type(2.0 ** -(3 + ceil(log2(terms))))
