"""Planning by estimate: deterministic, and quick enough for a first call."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from operator import attrgetter
from types import ModuleType

from .. import config
from .._checks import one_of
from .._records import NamedTuple, record
from ..algorithms import (
    ALGORITHMS,
    MATRIX_ALGORITHMS,
    Candidate,
    CoreModel,
    PlanContext,
    floor_beside,
    only_for,
    serving,
)
from ..algorithms.candidate import bits_of_part
from ..algorithms.core_model import CYCLES_PER_MICROSECOND
from ..machine import Machine
from ..numerics import Numerics, default_permission, numerics_of
from ..problem import ConvProblem, Problem
from ..runtime import default_threads
from ..runtime.scope import DEFAULT_TOLERANCE
from .defaults import LARGEST_TEAM
from .target import Target, here

# One more thread pays if its share takes this many times as long as its start.
STARTS_PER_SHARE = 2

# Even the best loops are a little above their floor, so an algorithm whose floor is just below the
# best estimate would not win.
FLOOR_MARGIN = 1.06
# A depthwise convolution takes at least so many times as long as its FMAs at their peak rate.
DEPTHWISE_TIMES = 3
# Weights that are in no cache arrive at this share of the rate of a plain stream from memory.
COLD_RATE = 0.65

# A search leaves out methods whose best estimate is more than so many times the best of all.
PRUNE_METHODS = 3.0

_MODULES: dict[str, ModuleType] = {**ALGORITHMS, **MATRIX_ALGORITHMS}


def check_algorithm(algorithm: object) -> str:
    """Return `algorithm` if it is the name of one, or ``"auto"``.

    Raises
    ------
    ValueError
        Otherwise.
    """
    return one_of("algorithm", algorithm, ("auto", *ALGORITHMS))


def tiles(dtype: str, isa: str) -> tuple[int, dict[int, int]]:
    """Lanes of a vector, and NR to the largest MR, of the GEMM kernels of this process."""
    return here().tiles(dtype, isa)


@lru_cache(maxsize=64)
def _context(
    numerics: Numerics, threads: int, settings: config.Settings, target: Target
) -> PlanContext | None:
    isas = target.isas(numerics.product, settings.max_isa, numerics.kr)
    if not isas:
        return None
    lanes, found = target.tiles(numerics.product, isas[-1], numerics.kr)
    by_pixels, by_channels = (
        target.sparse_tiles(op, numerics.product, isas[-1])
        for op in ("sparse_pixels", "sparse_channels")
    )
    return PlanContext(
        target.machine, numerics, isas[-1], found, lanes, threads,
        by_pixels=by_pixels, by_channels=by_channels,
    )  # fmt: skip


def _around(around: PlanContext, threads: int, tolerance: float, start: int) -> PlanContext:
    """Give a context with another team and tolerance; a `replace` of the dataclass is slow."""
    given = (around.threads, around.tolerance, around.team_start)
    if given == (threads, tolerance, start):
        return around
    return PlanContext(
        around.machine, around.numerics, around.isa, around.tiles, around.lanes, threads,
        tolerance, start, around.by_pixels, around.by_channels,
    )  # fmt: skip


def default_context(dtype: str) -> PlanContext:
    """Kernels and team of a call that names neither, in the current environment.

    The arrays are of `dtype`; the arithmetic is of the type that every machine supports for them.
    """
    settings, target = config.current(), here()
    *_, computed = default_permission(dtype)
    found = _context(
        numerics_of(dtype, computed), default_threads(settings, target.machine), settings, target
    )
    assert found is not None  # portable kernels are always there
    return found


def best_isa(numerics: Numerics) -> str | None:
    """Instruction set of plans of these types, in the current environment.

    None if this machine, within the limits of the environment, has no kernels for them.
    """
    return _best_isa(here(), numerics, config.current().max_isa)


def brain_isa() -> str:
    """Instruction set of steps that load or store bfloat16, in the current environment.

    It is that of float32, or a level above it that rounds to the same bits by an instruction.
    """
    return _brain_isa(here(), config.current().max_isa)


@lru_cache(maxsize=64)
def _brain_isa(target: Target, cap: str | None) -> str:
    return target.brain_isa(cap)


@lru_cache(maxsize=64)
def _best_isa(target: Target, numerics: Numerics, cap: str | None) -> str | None:
    isas = target.isas(numerics.product, cap, numerics.kr)
    return isas[-1] if isas else None


def least_share(around: PlanContext, start: int) -> float:
    """Floating-point operations of a thread's share below which the thread does not pay.

    It is counted at the peak rate of one core; slower methods need fewer operations.

    Parameters
    ----------
    around : PlanContext
        Machine and kernels.
    start : int
        Microseconds that starting a team costs.
    """
    rate = around.machine.fma_rate(around.isa, around.numerics.product)
    flops_per_cycle = 2 * around.lanes * around.numerics.kr * rate
    return STARTS_PER_SHARE * start * CYCLES_PER_MICROSECOND * flops_per_cycle


def team(problem: Problem, around: PlanContext, start: int) -> int:
    """Cut a team down to what the work justifies, if its start costs `start` microseconds."""
    flops = problem.flops
    if isinstance(problem, ConvProblem) and 1 < problem.groups == problem.ic:
        flops *= DEPTHWISE_TIMES
    return max(1, min(around.threads, LARGEST_TEAM, int(flops / least_share(around, start))))


def paying_team(flops: float, threads: int) -> int:
    """Cut a team of `threads` down to the size that steps of about `flops` operations justify."""
    least = least_share(default_context("f32"), config.current().team_start_us)
    return max(1, min(threads, int(flops / least)))


class Ranked(NamedTuple):
    """A candidate with its estimate."""

    total: float
    candidate: Candidate
    cost: dict[str, float]


_total = attrgetter("total")


def rank(
    candidates: Iterable[Candidate], core: CoreModel, threads: int, cold: bool = False
) -> list[Ranked]:
    """Estimate every candidate for a team, best first; if `cold`, with the time to load weights."""
    rate, ranked = COLD_RATE * core.memory_rate * threads, []
    for candidate in candidates:
        cost = candidate.cost(core, threads)
        if cold:
            cost["cold"] = candidate.packed_weight_bytes / rate
        ranked.append(Ranked(sum(cost.values()), candidate, cost))
    ranked.sort(key=_total)
    return ranked


class _Costs:
    """The costs of a problem's candidates for one team, by algorithms and types.

    Several threads may ask for the same one at once: they find the same.
    """

    def __init__(self, problem: Problem, cold: bool) -> None:
        self._problem, self._cold = problem, cold
        self._found: dict[tuple[str, Numerics], list[Ranked]] = {}

    def of(self, name: str, around: PlanContext, core: CoreModel) -> list[Ranked]:
        """Rank the candidates of an algorithm; nobody may change the list."""
        key = name, around.numerics
        found = self._found.get(key)
        if found is None:
            candidates = _MODULES[name].candidates(self._problem, around)
            found = self._found[key] = rank(candidates, core, around.threads, self._cold)
        return found

    def least(self, name: str, around: PlanContext, core: CoreModel) -> float:
        """Give a bound of what an algorithm's candidates cost on one thread, from below."""

        def known(other: str) -> Iterator[dict[str, float]] | None:
            found = self._found.get((other, around.numerics))
            return (ranked.cost for ranked in found) if found else None

        return floor_beside(name, self._problem, around, core, known)


# A network asks for the costs of a problem when it chooses layouts, and again when it plans. A
# problem has about twenty candidates.
@lru_cache(maxsize=192)
def _costs(
    problem: Problem, tolerance: float, threads: int, cold: bool, settings: config.Settings,
    target: Target,
) -> _Costs:  # fmt: skip
    return _Costs(problem, cold)


@record(frozen=True)
class Request:
    """A caller's request for a plan.

    Parameters
    ----------
    problem : Problem
        The problem to compute.
    algorithm : str
        A name, or ``"auto"``.
    tolerance : float
        Error that may be spent, relative to the output's largest magnitude.
    threads : int or None
        Size of the team; the default team if None.
    max_workspace : int or None
        Bound of the team's scratch, in bytes.
    target : Target or None
        Another machine that the plan is for; this one if None.
    cold : bool
        Whether weights are in no cache when a call begins, as in a network that outgrows them.
    like : (str, str) or None
        Bits and packing that a candidate must have, of a problem that this one is a part of.
    """

    problem: Problem
    algorithm: str = "auto"
    tolerance: float = DEFAULT_TOLERANCE
    threads: int | None = None
    max_workspace: int | None = None
    target: Target | None = None
    cold: bool = False
    like: tuple[str, str] | None = None

    @property
    def machine(self) -> Machine:
        """The machine that the plan is for."""
        return (self.target or here()).machine

    @property
    def settings(self) -> config.Settings:
        """The settings of the machine that the plan is for."""
        return self.target.settings if self.target else config.current()

    def contexts(self, settings: config.Settings | None = None) -> list[PlanContext]:
        """The contexts that the machine gives, with the team that the work justifies.

        Parameters
        ----------
        settings : Settings, optional
            Those of `settings`, where they have been read.

        Returns
        -------
        list of PlanContext
            One for each of the problem's `numerics` that has kernels, the preferred one first.

        Raises
        ------
        ValueError
            If none has.
        """
        settings = settings or self.settings
        target, threads = self.target or here(), self.threads
        if threads is None:  # asked each time, as it may differ by thread
            threads = default_threads(settings, target.machine)
        found = [
            around
            for numerics in self.problem.numerics
            if (around := _context(numerics, threads, settings, target)) is not None
        ]
        if not found:
            types = ", ".join(self.problem.permitted)
            raise ValueError(f"no kernels here compute arrays of {self.problem.dtype} in {types}")
        # If any kind of product has vector kernels, leave out kinds with portable kernels only,
        # except those of an algorithm that has no other kernels.
        fast = [around for around in found if around.isa != "portable"]
        if fast:
            fast = [a for a in found if a in fast or only_for(a.numerics)]
        if not fast and self.problem.dtype in ("f32", "bf16"):
            # Without vector kernels for bfloat16 products, compute in float32.
            numerics = numerics_of(self.problem.dtype, "f32", self.problem.destination)
            around = _context(numerics, threads, settings, target)
            fast = [around] if around is not None else []
        found = fast or found
        start = settings.team_start_us
        threads = team(self.problem, found[0], start)
        return [_around(around, threads, self.tolerance, start) for around in found]

    def context(self) -> PlanContext:
        """The first of `contexts`, whose kernels are preferred."""
        return self.contexts()[0]

    def ranked(
        self, threads: int | None = None, names: Iterable[str] = (), slack: float = 1.0,
        settings: config.Settings | None = None, *, only_best: bool = False,
    ) -> list[Ranked]:  # fmt: skip
        """Rank the candidates that serve the problem within tolerance and workspace, best first.

        Parameters
        ----------
        threads : int, optional
            Size of the team; by default the one that the work justifies.
        names : iterable of str
            Algorithms to ask; if empty, those that the request allows.
        slack : float
            An algorithm is left out if its floor, the least that any of its candidates could
            cost, is `slack` times the best estimate or more.
        settings : Settings, optional
            Those of `settings`, where they have been read.
        only_best : bool
            Whether only the first of the list is asked for, of one thread: an algorithm is then
            left out if no candidate can be cheaper.

        Raises
        ------
        ValueError
            If nothing serves the problem; the message says why.
        """
        if not names:
            names = serving(self.problem) if self.algorithm == "auto" else [self.algorithm]
        settings, target = settings or self.settings, self.target or here()
        contexts = self.contexts(settings)
        if threads is not None:
            start = settings.team_start_us
            contexts = [_around(each, threads, self.tolerance, start) for each in contexts]
        found: list[Ranked] = []
        too_large: list[Candidate] = []
        # Why algorithms do not serve the problem: a text, or the context in which none is precise.
        reasons: list[tuple[str, str | PlanContext]] = []
        best = math.inf
        costs = _costs(
            self.problem, self.tolerance, contexts[0].threads, self.cold, settings, target
        )
        cores = [CoreModel.of(around) for around in contexts]
        for name, (around, core) in itertools.product(names, zip(contexts, cores, strict=True)):
            module = _MODULES[name]
            if only_for(around.numerics) not in (None, name):
                continue
            unfit = module.supports(self.problem, around.numerics)
            if unfit is not None:
                reasons.append((name, f": {unfit}"))
                continue
            busy = module.floor(self.problem, around.lanes, core) / around.threads
            if found and busy * FLOOR_MARGIN >= slack * best:
                continue
            if found and only_best and costs.least(name, around, core) >= best:
                continue
            costed = costs.of(name, around, core)
            own = costed
            if self.max_workspace is not None or self.like is not None:
                own = [each for each in costed if self._fits(each.candidate)]
            found += own
            best = min([best, *(r.total for r in own[:1])])
            if not own:
                too_large += [each.candidate for each in costed]
            if not costed:
                reasons.append((name, around))
        if not found and too_large:
            least = min(c.workspace(1) for c in too_large)
            raise ValueError(
                f"max_workspace must be at least {least} bytes for {self.problem}, "
                f"got {self.max_workspace}"
            )
        if not found:
            raise ValueError("; ".join(dict.fromkeys(map(self._refusal, reasons))))
        return sorted(found, key=_total)

    def _fits(self, candidate: Candidate) -> bool:
        # Compare the scratch of one thread, so that the team does not influence the choice.
        if self.like is not None:
            bits, packing = self.like
            if (bits_of_part(bits, self.problem), packing) != (candidate.bits, candidate.packing):
                return False
        return self.max_workspace is None or candidate.workspace(1) <= self.max_workspace

    def _refusal(self, refused: tuple[str, str | PlanContext]) -> str:
        """Say why an algorithm does not serve the problem."""
        name, why = refused
        reason = why if isinstance(why, str) else self._too_imprecise(name, why)
        return f'algorithm="{name}" cannot serve {self.problem}{reason}'

    def _too_imprecise(self, name: str, around: PlanContext) -> str:
        every = _MODULES[name].candidates(self.problem, replace(around, tolerance=math.inf))
        bounds = [c.error_bound for c in every]
        if not bounds:
            return f" on {around.isa}: it has no kernels for it"
        least = min(bounds)
        return f" with tolerance={self.tolerance}: its stated error is {least:.1e}"

    def team_for(self, candidate: Candidate, threads: int) -> int:
        """Cut the team down to the tasks and to the workspace."""
        threads = max(1, min(threads, candidate.tasks))
        if self.max_workspace is not None and candidate.scratch_bytes:
            left = self.max_workspace - candidate.shared_bytes
            threads = max(1, min(threads, left // candidate.scratch_bytes))
        return threads


def estimate_plan(request: Request, slack: float = 1.0) -> tuple[list[Ranked], list[Ranked]]:
    """Rank the candidates by the cost model.

    The ranking for one thread chooses the bits; the team's own ranking then chooses among
    candidates of those bits.

    Parameters
    ----------
    request : Request
        The request to plan.
    slack : float
        Algorithms up to this factor behind the best are ranked; a search needs more than the best.

    Returns
    -------
    single, teamed : list of Ranked
        All candidates, ranked for one thread; those of the chosen bits, ranked for the team.
    """
    single = request.ranked(1, slack=slack)
    return single, rank_team(request, single[0].candidate, single)


def rank_team(request: Request, chosen: Candidate, single: list[Ranked]) -> list[Ranked]:
    """Rank the candidates that have the bits of `chosen`, for the request's team."""
    contexts, bits = request.contexts(), chosen.bits
    threads = contexts[0].threads
    alike = [r for r in single if r.candidate.bits == bits]
    if threads == 1:
        return alike
    names = dict.fromkeys(r.candidate.algorithm for r in alike)
    try:
        same = [r for r in request.ranked(None, names) if r.candidate.bits == bits]
    except ValueError:  # the segments of a team may need more scratch than one thread's
        same = []
    if same:
        return same
    core = {around.numerics: CoreModel.of(around) for around in contexts}
    alone = (r.candidate for r in alike)
    ranked = [each for c in alone for each in rank([c], core[c.numerics], threads, request.cold)]
    return sorted(ranked, key=_total)
