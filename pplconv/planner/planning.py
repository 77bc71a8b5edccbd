"""`plan_problem`: wisdom first, else the estimate, else measurement."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .. import wisdom
from .._checks import one_of
from .._records import record
from ..activations import COST_CLASSES
from ..algorithms.gemm import packing_cycles
from ..matrix_problem import MatrixProblem
from ..problem import Problem
from ..schedules.team import largest_team
from .defaults import default_tolerance
from .describing import plan_of, summary
from .estimating import (
    PRUNE_METHODS,
    Ranked,
    Request,
    estimate_plan,
    rank_team,
)
from .plan import Plan
from .sparsity_gains import predicted_gain

if TYPE_CHECKING:
    from .racing import Progress

RUNNERS_UP = 3
SEARCH_SECONDS = 0.5
# Where operands are when a run of a search begins: in the caches, as in repeated calls, or outside
# them, as in the layers of a network.
SEARCH_CONTEXTS = ("hot", "cold")


def check_search_context(context: object) -> str:
    """Return `context` if it is one of `SEARCH_CONTEXTS`.

    Raises
    ------
    ValueError
        Otherwise.
    """
    return one_of("search_context", context, SEARCH_CONTEXTS)


@record(frozen=True)
class Planned:
    """A plan; after a search, also the estimate's plan with its measured time.

    Parameters
    ----------
    plan : Plan
        For people.
    fields : dict
        For ``schedules.compile_plan``.
    own : Plan or None
        The plan that the estimate would have chosen, with its time; None unless a search has run.
    """

    plan: Plan
    fields: dict[str, Any]
    own: Plan | None = None


@record(frozen=True)
class _Known:
    """An entry of wisdom, found among the candidates."""

    bits: str
    best: Ranked | None = None  # None: the choice is known, the team's blocks are not
    seconds: float | None = None


def make_plan(
    problem: Problem,
    *,
    algorithm: str = "auto",
    tolerance: float | None = None,
    threads: int | None = None,
    search: str = "estimate",
    search_seconds: float = SEARCH_SECONDS,
    search_context: str = "hot",
    max_workspace: int | None = None,
    epilogue: str = "none",
    like: tuple[str, str] | None = None,
    progress: Progress | None = None,
) -> tuple[Plan, dict[str, Any]]:
    """Plan one problem: `plan_problem` for callers that only want the plan.

    Parameters
    ----------
    problem : Problem
        The problem to compute.
    algorithm, threads, max_workspace, like
        See `Request`.
    tolerance : float or None
        See `Request`; None: the default tolerance of a call.
    search, search_seconds, search_context, epilogue, progress
        See `plan_problem`.

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
    if tolerance is None:
        tolerance = default_tolerance()
    request = Request(problem, algorithm, tolerance, threads, max_workspace, like=like)
    planned = plan_problem(
        request, search=search, search_seconds=search_seconds, search_context=search_context,
        epilogue=epilogue, progress=progress,
    )  # fmt: skip
    return planned.plan, planned.fields


def make_cheapest_plan(
    problems: Sequence[MatrixProblem], *, threads: int | None = None, epilogue: str = "none"
) -> tuple[int, Plan, dict[str, Any]]:
    """Plan the cheapest of several problems with the same result, packing included.

    A single thread is tried as well as a team: packed weights then stay in the core's cache.

    Parameters
    ----------
    problems : sequence of MatrixProblem
        Different formulations of one product, with the same bits.
    threads : int or None
        See `Request`.
    epilogue : str
        See `plan_problem`.

    Returns
    -------
    index : int
        Of the chosen problem.
    plan, fields
        As from `make_plan`.
    """
    best: tuple[float, int, Planned] | None = None
    for index, problem in enumerate(problems):
        for team in (threads, 1):
            request = Request(problem, tolerance=0.0, threads=team)
            planned = plan_problem(request, epilogue=epilogue)
            cycles = sum(planned.plan.cost.values())
            cycles += packing_cycles(problem, request.context(), planned.plan.threads)
            if best is None or cycles < best[0]:
                best = cycles, index, planned
            if planned.plan.threads == 1:
                break
    assert best is not None
    return best[1], best[2].plan, best[2].fields


def plan_problem(
    request: Request,
    *,
    search: str = "estimate",
    search_seconds: float = SEARCH_SECONDS,
    search_context: str = "hot",
    epilogue: str = "none",
    again: bool = False,
    progress: Progress | None = None,
) -> Planned:
    """Plan one problem.

    The result of a search is remembered only when the search has ended.

    Parameters
    ----------
    request : Request
        The request to plan.
    search : str
        ``"estimate"``; ``"measure"``: time the candidates that the estimate puts near the best,
        unless the choice is known already; ``"exhaustive"``: time all, unless all were timed
        before.
    search_seconds : float
        Time that a search may spend.
    search_context : str
        ``"hot"``: a search times runs in a row; ``"cold"``: runs whose arrays and packed weights
        have left the caches. Remembered results are marked with it; an estimate uses a result of
        the other context if there is none of this one.
    epilogue : str
        One of `COST_CLASSES`.
    again : bool
        Search as if nothing were known.
    progress : callable, optional
        Called by a search with the share that is done and a text.

    Returns
    -------
    Planned

    Raises
    ------
    ValueError
        If nothing can serve the problem as asked, or if a search is asked for on another machine;
        the message says why.
    """
    if request.target is not None and search != "estimate":
        raise ValueError(f"search is {search!r}: expected 'estimate' for another machine's plan")
    request = replace(request, cold=search_context == "cold")
    if not request.problem.batch:  # nothing to time
        search = "estimate"
    # Keys take a twentieth of a plan's time, and most processes have nothing to look up.
    looks_up = search != "estimate" or not wisdom.is_empty()
    keys = _keys(request, epilogue, search_context) if looks_up else []
    entries: list[tuple[wisdom.Key, wisdom.Entry]] = []
    if not (again and search != "estimate"):
        # A search needs an entry for exactly this case; an estimate takes any hint.
        asked = keys if search == "estimate" else keys[:1]
        entries = [(key, entry) for key in asked if (entry := wisdom.lookup(key)) is not None]
    # The estimate must not leave out a candidate that was measured. For sparse weights all are
    # kept, as the estimate may be wrong by a factor of several between dense and sparse ones.
    far = search == "exhaustive" or request.problem.sparsity is not None
    slack = math.inf if far else PRUNE_METHODS
    if search == "estimate" and not entries:
        slack = 1.0
    single, teamed = estimate_plan(request, slack)
    gains = predicted_gain(request, single), None
    known = None
    for key, entry in entries:
        known = _find(request, entry, single, search)
        if known is not None:
            # A time measured in the other context does not apply to this call.
            if key in keys[len(keys) // 2 :]:
                known = replace(known, seconds=None)
            break
    if known is not None and known.best is not None:
        others = _runners_up(single, known.best)
        return Planned(*plan_of(request, known.best, "wisdom", others, known.seconds, gains))
    if search != "estimate":
        bits = known.bits if known is not None else None
        return _measured(
            request, keys[0], single, teamed, search, search_seconds, epilogue, search_context,
            bits, progress, gains[0],
        )  # fmt: skip
    if known is None:
        others = _runners_up(single, teamed[0])
        return Planned(*plan_of(request, teamed[0], "estimate", others, None, gains))
    # Another team has measured the method; the estimate divides the work for this team.
    method = next(r.candidate for r in single if r.candidate.bits == known.bits)
    divisions = rank_team(request, method, single)
    others = _runners_up(single, divisions[0])
    return Planned(*plan_of(request, divisions[0], "wisdom", others, None, gains))


def _measured(
    request: Request, key: wisdom.Key, single: list[Ranked], teamed: list[Ranked],
    search: str, seconds: float, epilogue: str, context: str, bits: str | None,
    progress: Progress | None, predicted: float | None,
) -> Planned:  # fmt: skip
    """Search, and remember the result."""
    from .searching import search_plan

    found = search_plan(
        request, single, teamed, search, seconds, epilogue=epilogue, context=context, bits=bits,
        progress=progress,
    )  # fmt: skip
    best, candidate = found.best, found.best.ranked.candidate
    threads = request.context().threads
    # A run with fewer threads than planned (under a pin or a limit, beside other calls)
    # has timed something else.
    if found.whole and largest_team(threads) == threads:
        # Algorithms may share their bits, and teams may then differ in the algorithm.
        choice, blocks = {"bits": candidate.bits}, _flat(candidate.blocks, candidate.algorithm)
        wisdom.remember(key, choice, threads, blocks, max(best.seconds, 1e-9), search=search)
    names: dict[str, float] = {}
    for t in found.timed:
        names.setdefault(summary(t.ranked.candidate), t.seconds / best.seconds)
    names.pop(summary(candidate), None)
    runners_up = tuple(f"{name} x{ratio:.2f}" for name, ratio in names.items())
    gains = predicted, found.gain
    own, _ = plan_of(request, found.own.ranked, "estimate", (), found.own.seconds, gains)
    plan, fields = plan_of(
        request, best.ranked, search, runners_up[:RUNNERS_UP], best.seconds, gains
    )
    return Planned(plan, fields, own)


def _keys(request: Request, epilogue: str, context: str) -> list[wisdom.Key]:
    """Keys to look up, exactly this case first; a search stores its result under the first key.

    The first half are those of `context`, the second half the same ones of the other context.
    """
    problem = request.problem
    asked = ""
    if request.algorithm != "auto":
        asked += f" algorithm={request.algorithm}"
    if request.max_workspace is not None:
        asked += f" max_workspace={request.max_workspace}"
    # A result without restrictions may serve a restricted request, and a result without an epilogue
    # is a good guess for a request with an epilogue.
    classes = dict.fromkeys((epilogue + asked, epilogue, COST_CLASSES[0]))
    # Hot results have no mark, as in files that are older than contexts, whose results are hot.
    marks = {name: f" search_context={name}" for name in SEARCH_CONTEXTS} | {"hot": ""}
    contexts = sorted(SEARCH_CONTEXTS, key=lambda name: name != context)
    cpu, around = wisdom.cpu_model(request.machine), request.context()
    tolerance = float(min(request.tolerance, 1e30))
    types, isa, layout = around.numerics.name, around.isa, problem.layout_text
    return [
        wisdom.Key(str(problem), types, layout, name + marks[where], tolerance, cpu, isa)
        for where in contexts
        for name in classes
    ]


def _flat(blocks: dict[str, int | str], algorithm: str) -> dict[str, int | str]:
    return {"algorithm": algorithm, **blocks}


def _find(
    request: Request, entry: wisdom.Entry, single: list[Ranked], search: str
) -> _Known | None:
    """Find what wisdom remembers among the candidates; None if it is not among them.

    Wisdom may come from an untrusted file, so it can only select a candidate that the planner has
    made itself.
    """
    if search == "exhaustive" and all(d.search != search for d in entry.teams.values()):
        return None
    bits = entry.choice.get("bits")
    same = [r for r in single if r.candidate.bits == bits]
    if not same or not isinstance(bits, str):
        return None
    division = entry.teams.get(request.context().threads)
    if division is None or (search == "exhaustive" and division.search != search):
        return _Known(bits)
    wanted = dict(division.blocks)
    for r in rank_team(request, same[0].candidate, single):
        if _flat(r.candidate.blocks, r.candidate.algorithm) == wanted:
            return _Known(bits, r, division.seconds)
    return _Known(bits)


def _runners_up(ranked: list[Ranked], chosen: Ranked) -> tuple[str, ...]:
    """Name the best other methods and tiles of an estimate for one thread."""
    own, total = summary(chosen.candidate), None
    seen: dict[str, float] = {}
    for r in ranked:
        name = summary(r.candidate)
        if name == own:
            total = r.total if total is None else total
        elif len(seen) < RUNNERS_UP:
            seen.setdefault(name, r.total)
        if total is not None and len(seen) == RUNNERS_UP:
            break
    # A team's choice may have no counterpart among the candidates for one thread.
    total = max(ranked[0].total if total is None else total, 1.0)
    return tuple(f"{name} x{other / total:.2f}" for name, other in seen.items())
