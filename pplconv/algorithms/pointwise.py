"""1x1 convolution as a matrix product on the user's array as it lies: nothing is packed."""

from __future__ import annotations

from collections.abc import Iterator

from ..problem import ConvProblem
from .nest import Nest
from .surroundings import Surroundings
from .tiled import candidates as tiled_candidates

NAME = "pointwise"


def supports(problem: ConvProblem) -> str | None:
    """Say why `problem` cannot be served; None if it can."""
    if problem.is_pointwise:
        return None
    return "it needs a 1x1 kernel, stride 1 and no padding"


def candidates(problem: ConvProblem, around: Surroundings) -> Iterator[Nest]:
    """Yield the nests worth an estimate."""
    return tiled_candidates(problem, around, NAME, packed=False)
