"""Numbers that are not like others: NaN, infinities, and such that a transform may overflow."""

from __future__ import annotations

from math import ceil, log2, prod
from typing import Any

import numpy as np

from problems import Problem
from reference import explicit_padding, pair

SPECIALS = ("input", "input", "input", "weight", "bias", "residual", "huge", "huge")
"""Which operand has NaN and infinities in a few places; or the input's numbers are huge."""

_VALUES = (np.nan, np.inf, -np.inf)
_MOST = 4


def specialize(problem: Problem, arrays: dict[str, Any], special: str) -> None:
    """Change the operands of a problem in place."""
    rng = np.random.default_rng([problem.seed, 2])
    if special == "huge":
        _enlarge(problem, arrays["input"])
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


def _enlarge(problem: Problem, x: np.ndarray) -> None:
    """Let sums of a few times the usual size just not overflow."""
    if x.dtype == np.float16:  # computed in float32, which has room enough
        return
    terms = problem.in_channels // problem.groups * prod(problem.kernel)
    x *= x.dtype.type(2.0 ** (np.finfo(x.dtype).maxexp - 4 - ceil(log2(terms))))
