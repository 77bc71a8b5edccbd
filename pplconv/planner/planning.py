"""`make_plan`: wisdom first, else the estimate, else measurement."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from .. import wisdom
from ..machine import current as current_machine
from ..problem import ConvProblem
from .estimating import Ranked, Request, estimate_plan, plan_of, rank_team, summary
from .plan import Plan

RUNNERS_UP = 3
SEARCH_SECONDS = 0.5


@dataclass(frozen=True)
class _Known:
    """What wisdom says, found again among the candidates."""

    best: Ranked | None  # None: the choice is known, the team's blocks are not
    bits: str


def make_plan(
    problem: ConvProblem,
    *,
    algorithm: str = "auto",
    tolerance: float = 1e-5,
    threads: int | None = None,
    search: str = "estimate",
    search_seconds: float = SEARCH_SECONDS,
    max_workspace: int | None = None,
    epilogue: str = "none",
    progress: Any = None,
) -> tuple[Plan, dict[str, Any]]:
    """Plan one problem.

    Parameters
    ----------
    problem : ConvProblem
        What is to be computed.
    algorithm : str
        A name, or ``"auto"``.
    tolerance : float
        Error that may be spent, relative to the output's largest magnitude; direct sums are
        always allowed.
    threads : int, optional
        Size of the team; the default team if None.
    search : str
        ``"estimate"``, ``"measure"`` or ``"exhaustive"``.
    search_seconds : float
        Time that a search may spend on measurements.
    max_workspace : int, optional
        Bound of the team's scratch, in bytes.
    epilogue : str
        Class of the epilogue, for wisdom.
    progress : callable, optional
        Called by a search with the share that is done and a text.

    Returns
    -------
    plan : Plan
        For people.
    fields : dict
        For ``schedules.compile_plan``.

    Raises
    ------
    ValueError
        If nothing can serve the problem as asked; the message says why.
    """
    request = Request(problem, algorithm, tolerance, threads, max_workspace)
    around = request.surroundings()
    key = wisdom.Key(
        str(problem), problem.dtype, problem.layout_text, epilogue, float(min(tolerance, 1e30)),
        wisdom.cpu_model(current_machine()), around.isa,
    )  # fmt: skip
    single, teamed = estimate_plan(request)
    entry = wisdom.lookup(key)
    known = _find(request, entry, single, search) if entry is not None else None
    if known is not None and known.best is not None:
        return plan_of(request, known.best, "wisdom", _runners_up(single))
    if search == "estimate" or not problem.batch:
        if known is not None:
            # Another team has measured the method; the estimate divides the work for this one.
            best = next(r for r in single if r.candidate.bits == known.bits)
            teamed = rank_team(request, best.candidate, single)
            return plan_of(request, teamed[0], "wisdom", _runners_up(single))
        return plan_of(request, teamed[0], "estimate", _runners_up(single))
    from .searching import search_plan

    bits = known.bits if known is not None else None
    best, timed = search_plan(request, single, search, search_seconds, bits, progress)
    candidate = best.ranked.candidate
    choice = {"algorithm": candidate.algorithm, "bits": candidate.bits}
    if algorithm == "auto" and max_workspace is None:
        wisdom.remember(
            key, choice, around.threads, _flat(candidate.blocks, candidate.algorithm),
            best.seconds, search=search,
        )  # fmt: skip
    runners_up = tuple(
        f"{summary(t.ranked.candidate)} x{t.seconds / best.seconds:.2f}"
        for t in timed
        if t is not best
    )
    return plan_of(request, best.ranked, search, runners_up[:RUNNERS_UP])


def _flat(blocks: dict[str, int | str], algorithm: str) -> dict[str, int | str]:
    return {"algorithm": algorithm, **blocks}


def _find(
    request: Request, entry: wisdom.Entry, single: list[Ranked], search: str
) -> _Known | None:
    """Find what wisdom remembers among the candidates; None if it is not among them.

    Wisdom may come from a stranger's file: it only ever points at a candidate that the planner
    has made itself.
    """
    bits = entry.choice.get("bits")
    same = [r for r in single if r.candidate.bits == bits]
    if not same or not isinstance(bits, str):
        return None
    around = request.surroundings()
    division = entry.teams.get(around.threads)
    if division is None or (search == "exhaustive" and division.search != "exhaustive"):
        return _Known(None, bits)
    wanted = dict(division.blocks)
    for r in rank_team(request, same[0].candidate, single):
        if _flat(r.candidate.blocks, r.candidate.algorithm) == wanted:
            return _Known(replace(r), bits)
    return _Known(None, bits)


def _runners_up(ranked: list[Ranked]) -> tuple[str, ...]:
    """Name the next best methods and tiles of an estimate."""
    seen: dict[str, Ranked] = {}
    for r in ranked:
        seen.setdefault(summary(r.candidate), r)
    least = max(ranked[0].total, 1.0)
    names = [f"{name} x{r.total / least:.2f}" for name, r in seen.items()]
    return tuple(names[1 : 1 + RUNNERS_UP])
