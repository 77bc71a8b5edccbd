"""Planning by measurement: real candidates on real data (see ``racing.py`` for how)."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._records import record
from .._trial import Trial
from ..algorithms import Candidate
from ..memory.arrays import empty_aligned
from ..memory.dtypes import DTYPES
from ..numerics import TYPES, Numerics
from ..problem import Problem
from ..sparsity import Sparsity
from .estimating import Ranked, Request, rank_team
from .racing import Progress, Runs, Timed, choose, pruned, race
from .sparsity_gains import measured_gain

# How many packed weights are kept for other candidates with the same format.
PACKED_KEPT = 6


class Bench:
    """Data and trials of one problem.

    Parameters
    ----------
    problem : Problem
        The problem to compute.
    isas : mapping of Numerics to str
        Instruction set of the kernels, by the types that are computed with.
    epilogue : str
        Cost class of the epilogue.
    context : str
        ``"hot"``: runs follow one another on the same arrays; ``"cold"``: arrays and packed
        weights have left the caches before each run.
    """

    def __init__(
        self,
        problem: Problem,
        isas: Mapping[Numerics, str],
        epilogue: str,
        context: str = "hot",
    ) -> None:
        rng = np.random.default_rng(0)
        out = problem.destination or problem.dtype
        self.problem, self.isas, self.epilogue = problem, isas, epilogue
        self.cold = context == "cold"
        # Finite, of both signs, hardly ever zero: so no denormals, and no shared zero pages.
        self.x: NDArray[Any] = empty_aligned(problem.input_shape, DTYPES[problem.dtype])
        self.x[...] = _draw(rng, problem.dtype, problem.input_shape)
        self._weights: dict[str, NDArray[Any]] = {}
        self.y: NDArray[Any] = empty_aligned(problem.output_shape, DTYPES[out])
        self.y.fill(1)  # touch its pages before the first run is timed
        self._packed: OrderedDict[tuple[str, str], Trial] = OrderedDict()
        self.whole = True  # whether every run had its full team

    def weight(self, kind: str) -> NDArray[Any]:
        """Weights of a type, before packing."""
        if kind not in self._weights:
            rng = np.random.default_rng(1)
            drawn = _draw(rng, kind, self.problem.weight_shape)
            if self.problem.sparsity is not None:
                _prune(rng, drawn, self.problem.groups, self.problem.sparsity)
            self._weights[kind] = drawn
        return self._weights[kind]

    def prepare(self, candidate: Candidate, threads: int) -> Runs:
        """Prepare a candidate, and return the function that times its runs."""
        numerics = candidate.numerics
        packing = numerics.weights, candidate.packing
        kind = numerics.source if numerics.converts_weights else numerics.weights
        trial = Trial(
            candidate.fields(threads), self.isas[numerics], self.weight(kind), self.epilogue,
            self._packed.get(packing),
        )  # fmt: skip
        self._packed[packing] = trial
        self._packed.move_to_end(packing)
        if len(self._packed) > PACKED_KEPT:
            self._packed.popitem(last=False)
        return partial(self._seconds, trial)

    def _seconds(self, trial: Trial, runs: int) -> float:
        seconds = trial.seconds(self.x, self.y, runs, self.cold)
        self.whole &= trial.whole
        return seconds


def _draw(rng: np.random.Generator, kind: str, shape: tuple[int, ...]) -> NDArray[Any]:
    """Draw numbers of a type: integers of all sizes, others around zero."""
    dtype = DTYPES[kind]
    if not TYPES[kind].roundoff:
        largest = np.iinfo(dtype) if kind != "s16" else np.iinfo(np.int8)
        return rng.integers(largest.min, largest.max, shape, dtype, endpoint=True)
    drawn = rng.random(shape, np.float64 if kind == "f64" else np.float32)
    drawn -= 0.5
    if kind == "bf16":
        return np.ascontiguousarray((drawn.view(np.uint32) >> 16).astype(dtype))
    return drawn.astype(dtype)


def _prune(rng: np.random.Generator, weight: NDArray[Any], groups: int, sparsity: Sparsity) -> None:
    """Keep as many weights as this sparsity has, at random places; set the others to zero."""
    rows = weight.reshape(groups, weight.shape[0] // groups, -1)
    _, oc, k = rows.shape
    whole = oc // sparsity.block * sparsity.block
    for part, block in ((rows[:, :whole], sparsity.block), (rows[:, whole:], 1)):
        count = groups * (part.shape[1] // block) * k
        lost = np.zeros(count, bool)
        lost[int(sparsity.share * count) :] = True
        pattern = rng.permutation(lost).reshape(groups, part.shape[1] // block, k)
        part[np.repeat(pattern, block, axis=1)] = 0


@record(frozen=True)
class Found:
    """The result of a search.

    Parameters
    ----------
    best : Timed
        The choice.
    own : Timed
        What the estimate would have chosen. For a team, its method may differ from that of `best`,
        as methods are compared on one thread.
    timed : list of Timed
        All timed candidates that could be chosen for this team, fastest first.
    whole : bool
        Whether every run had the team that it was to be timed with.
    gain : float or None
        As of `measured_gain`, where both kinds of candidates have run.
    """

    best: Timed
    own: Timed
    timed: list[Timed]
    whole: bool = True
    gain: float | None = None


def search_plan(
    request: Request,
    single: list[Ranked],
    teamed: list[Ranked],
    effort: str,
    seconds: float,
    *,
    epilogue: str = "none",
    context: str = "hot",
    bits: str | None = None,
    progress: Progress | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> Found:
    """Measure candidates: the method, which decides the bits, on one thread; then team blocks.

    Parameters
    ----------
    request : Request
        The request to plan.
    single, teamed : list of Ranked
        The estimate: see `estimate_plan`.
    effort : str
        ``"measure"`` or ``"exhaustive"``.
    seconds : float
        Time to spend, preparations included; see `race` for what may exceed it.
    epilogue : str
        Cost class of the epilogue.
    context : str
        ``"hot"`` or ``"cold"``: where a run finds its arrays and weights (see `Bench`). Taking them
        out of the caches is part of the time that is spent.
    bits : str, optional
        Bits chosen before, for another team: only candidates with these bits can be chosen.
    progress : callable, optional
        Called with the share that is done and a text.
    clock : callable
        Returns the time in seconds.

    Returns
    -------
    Found
    """
    begin = clock()
    contexts = request.contexts()
    threads = contexts[0].threads
    isas = {around.numerics: around.isa for around in contexts}
    bench = Bench(request.problem, isas, epilogue, context)

    def left() -> float:
        return max(seconds - (clock() - begin), 0.02 * seconds)

    two = threads > 1 and bits is None
    gain = None
    if bits is None:
        timed = race(
            pruned(single, effort), lambda r: bench.prepare(r.candidate, 1),
            left() / 2 if two else left(), clock=clock,
            progress=_part(progress, 0.0, 0.5 if two else 1.0),
        )  # fmt: skip
        best, gain = choose(timed, single[0]), measured_gain(timed)
        if not two:
            own = next(t for t in timed if t.ranked is single[0])
            return Found(best, own, timed, bench.whole, gain)
        bits = best.ranked.candidate.bits
    chosen = next(r.candidate for r in single if r.candidate.bits == bits)
    divisions = pruned(rank_team(request, chosen, single), effort)
    # The estimate's own choice is timed for comparison, even if its bits rule it out.
    outsider = [] if teamed[0].candidate.bits == bits else [teamed[0]]
    timed = race(
        divisions + outsider,
        lambda r: bench.prepare(r.candidate, request.team_for(r.candidate, threads)),
        left(), keep=(0, len(divisions)) if outsider else (0,), clock=clock,
        progress=_part(progress, 0.5 if two else 0.0, 1.0),
    )  # fmt: skip
    fit = [t for t in timed if t.ranked.candidate.bits == bits]
    reference = outsider[0] if outsider else divisions[0]
    own = next(t for t in timed if t.ranked is reference)
    return Found(choose(fit, divisions[0]), own, fit, bench.whole, gain)


def _part(progress: Progress | None, begin: float, end: float) -> Progress | None:
    if progress is None:
        return None
    tell = progress
    return lambda share, text: tell(begin + share * (end - begin), text)
