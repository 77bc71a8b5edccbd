"""Planning by estimate: deterministic, and quick enough for a first call."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from .. import _kernels, config
from ..algorithms import ALGORITHMS, Nest, Surroundings
from ..machine import Machine
from ..machine import current as current_machine
from ..problem import DTYPES, ConvProblem
from ..runtime import default_threads
from .cost import Rates, estimate
from .plan import Plan

# Below so many floating-point operations for each further thread a team does not pay: an
# empty parallel region costs a microsecond or two, in which one core does some 0.2 MFLOP.
FLOPS_PER_THREAD = 400_000
# The OpenMP runtime ends the process if it cannot start a thread, so no wish goes further.
LARGEST_TEAM = 1024

RUNNERS_UP = 3


def check_algorithm(algorithm: object) -> str:
    """Return `algorithm` if it is the name of one, or ``"auto"``.

    Raises
    ------
    ValueError
        Otherwise.
    """
    if not isinstance(algorithm, str) or algorithm not in ("auto", *ALGORITHMS):
        names = ", ".join(("auto", *ALGORITHMS))
        raise ValueError(f"algorithm must be one of {names}, got {algorithm!r}")
    return algorithm


def check_search(search: object) -> str:
    """Return `search` if it is a way to plan.

    Raises
    ------
    ValueError
        Otherwise.
    """
    if not isinstance(search, str) or search != "estimate":
        raise ValueError(f'search must be "estimate", got {search!r}')
    return search


@lru_cache(maxsize=16)
def tiles(dtype: str, isa: str) -> tuple[int, dict[int, int]]:
    """Lanes of a vector, and NR to the largest MR, of the GEMM kernels that are there."""
    found: dict[int, int] = {}
    lanes = 0
    for row in _kernels.rows():
        if (row["op"], row["dtype"], row["isa"]) == ("gemm", dtype, isa):
            found[row["nr"]] = max(found.get(row["nr"], 0), row["mr"])
            lanes = row["vector_bytes"] // DTYPES[dtype]
    return lanes, found


def choose_isa(machine: Machine, settings: config.Settings) -> str:
    """The highest instruction set that CPU, system, build and ``PPLCONV_MAX_ISA`` allow."""
    built = {row["isa"] for row in _kernels.rows()}
    return next(isa for isa in reversed(machine.usable_isas(settings.max_isa)) if isa in built)


@lru_cache(maxsize=64)
def _surroundings(dtype: str, threads: int | None, settings: config.Settings) -> Surroundings:
    machine = current_machine()
    isa = choose_isa(machine, settings)
    lanes, found = tiles(dtype, isa)
    if threads is None:
        threads = default_threads(settings, machine)
    return Surroundings(machine, isa, found, lanes, threads)


def team(problem: ConvProblem, threads: int) -> int:
    """Cut a team down to what the work justifies."""
    return max(1, min(threads, LARGEST_TEAM, problem.flops // FLOPS_PER_THREAD))


def make_plan(
    problem: ConvProblem,
    *,
    algorithm: str = "auto",
    tolerance: float = 1e-5,
    threads: int | None = None,
    search: str = "estimate",
) -> tuple[Plan, dict[str, Any]]:
    """Plan one problem.

    Parameters
    ----------
    problem : ConvProblem
        What is to be computed.
    algorithm : str
        A name, or ``"auto"``.
    tolerance : float
        Error that may be spent; the direct sums of today spend none of it.
    threads : int, optional
        Size of the team; the default team if None.
    search : str
        ``"estimate"``.

    Returns
    -------
    plan : Plan
        For people.
    fields : dict
        For ``_schedule.Schedule``.

    Raises
    ------
    ValueError
        If the forced algorithm cannot serve the problem; the message says why.
    """
    around = _surroundings(problem.dtype, threads, config.current())
    size = team(problem, around.threads)
    if size != around.threads:
        around = Surroundings(around.machine, around.isa, around.tiles, around.lanes, size)
    rates = Rates.of(around.machine, around.isa)
    names = list(ALGORITHMS) if algorithm == "auto" else [algorithm]
    ranked: list[tuple[float, Nest, dict[str, float]]] = []
    reasons = []
    for name in names:
        reason = ALGORITHMS[name].supports(problem)
        if reason is not None:
            reasons.append(f'algorithm="{name}" cannot serve {problem}: {reason}')
            continue
        for nest in ALGORITHMS[name].candidates(problem, around):
            cost = estimate(nest, rates, size)
            ranked.append((sum(cost.values()), nest, cost))
    if not ranked:
        raise ValueError("; ".join(reasons))
    ranked.sort(key=lambda item: item[0])
    best = ranked[0]
    runners_up = tuple(
        f"{nest.algorithm}/{nest.orientation} {nest.mr}x{nest.nr} x{total / max(best[0], 1.0):.2f}"
        for total, nest, _ in ranked[1 : 1 + RUNNERS_UP]
    )
    return _plan_of(best[1], around.isa, size, best[2], runners_up)


def _plan_of(
    nest: Nest,
    isa: str,
    threads: int,
    cost: dict[str, float],
    runners_up: tuple[str, ...] = (),
) -> tuple[Plan, dict[str, Any]]:
    """Make a candidate into a plan and into what the loops take."""
    threads = max(1, min(threads, nest.tasks))
    fields = nest.fields(threads)
    plan = Plan(
        problem=str(nest.problem),
        dtype=nest.problem.dtype,
        layout=nest.problem.layout,
        algorithm=nest.algorithm,
        isa=isa,
        kernel=f"pplconv_gemm_{nest.problem.dtype}_{nest.mr}x{nest.nr}_{isa}",
        orientation=nest.orientation,
        mr=nest.mr,
        nr=nest.nr,
        k_block=nest.k_block,
        oc_segment=nest.oc_segment,
        hw_segment=nest.hw_segment,
        group_segment=nest.group_segment,
        pixels_inner=nest.pixels_inner,
        tasks=nest.tasks,
        threads=threads,
        packing=nest.packing,
        packed_weight_bytes=nest.packed_weight_bytes,
        scratch_bytes=threads * fields["scratch_bytes"],
        cost=cost,
        runners_up=runners_up,
    )
    return plan, fields
