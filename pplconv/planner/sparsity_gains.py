"""The gain of leaving zeros out: the best dense candidate against the best sparse one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ..sparsity import WITHOUT_ZEROS
from .estimating import Ranked, Request
from .pricing import least_cycles_of

if TYPE_CHECKING:
    from .racing import Timed

__all__ = ["measured_gain", "predicted_gain"]


def predicted_gain(request: Request, single: Sequence[Ranked]) -> float | None:
    """Estimate the gain on one thread.

    Parameters
    ----------
    request : Request
        The request that is planned.
    single : sequence of Ranked
        Its candidates, best first.

    Returns
    -------
    float or None
        Cycles of the best dense candidate as a multiple of those of the best sparse one; None where
        weights are dense, or one of the two cannot serve.
    """
    problem = request.problem
    if problem.sparsity is None:
        return None
    alone = replace(request, threads=1)
    totals = (r.total for r in single if r.candidate.leaves_zeros_out)
    best = min(totals, default=None) or least_cycles_of(replace(alone, algorithm=WITHOUT_ZEROS))
    dense = least_cycles_of(
        replace(alone, problem=replace(problem, sparsity=None), algorithm="auto")
    )
    # If there is nothing to compute, there is no gain.
    return dense / best if dense and best else None


def measured_gain(timed: Iterable[Timed]) -> float | None:
    """Return the gain that was measured on one thread.

    Parameters
    ----------
    timed : iterable of Timed
        The candidates that have run.

    Returns
    -------
    float or None
        As of `predicted_gain`; None where not both kinds have run.
    """
    best: dict[bool, float] = {}
    for t in timed:
        kind = t.ranked.candidate.leaves_zeros_out
        best[kind] = min(t.seconds, best.get(kind, t.seconds))
    return best[False] / best[True] if len(best) == 2 and best[True] else None
