"""Plans transposed convolutions: the cheapest way, and the plans of its pieces.

The way decides the order of sums, so it is chosen by its cost on one thread.
"""

from __future__ import annotations

import math
from dataclasses import field, replace
from typing import Any

import numpy as np

from ... import planner
from ..._records import record
from ...memory.dtypes import DTYPES
from ...problem import ConvProblem
from ..placing import with_blocks, with_places
from ..prepared import Prepared
from .tap_runs import first_taps, has_many_phases
from .transposed_problem import TransposedProblem
from .transposed_report import TransposedPlan
from .transposed_ways import Lying, Piece, Way, by_taps, ways

__all__ = ["Decomposed", "decompose"]

# Bytes of results before they are copied, up to which images are computed together.
TOGETHER = 1 << 20
# Bytes that a copy moves in a cycle, and overhead of a step in cycles.
COPIED_BYTES = 4.0
HOST_BYTES = 1.0
STEP_CYCLES = 500.0


@record(frozen=True)
class _Pixels:
    """Images in the form of `placing`."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[Any]


def _is_dense(problem: ConvProblem, lying: Lying, channels: int) -> bool:
    memory = problem.memory(lying.strides[4], channels, *lying.shape[2:4])
    return all(
        n == 1 or own == dense
        for n, own, dense in zip(lying.shape, lying.strides, memory[:4], strict=False)
    )


def _placed(fields: dict[str, Any], piece: Piece) -> dict[str, Any] | None:
    """Give a plan's fields for the arrays of a piece; None if its loops cannot walk them."""
    p = piece.problem
    if _is_dense(p, piece.x, p.ic) and _is_dense(p, piece.y, p.oc):
        return fields
    dtype = DTYPES[p.dtype]
    if p.layout == "NCHWc":
        x, y = (_Pixels(lying.shape, lying.strides, dtype) for lying in (piece.x, piece.y))
        return with_blocks(fields, x, y)
    x, y = (
        _Pixels(
            (lying.shape[0], lying.shape[4], *lying.shape[2:4]),
            (lying.strides[0], lying.strides[4], *lying.strides[2:4]),
            dtype,
        )
        for lying in (piece.x, piece.y)
    )
    return with_places(fields, x, y)


@record
class _Planner:
    """Plans of one transposed convolution.

    Parameters
    ----------
    settings : dict
        Arguments of `planner.make_plan`.
    finite : bool
        Whether all weights are finite. Some algorithms multiply padding, which gives NaN otherwise.
    """

    settings: dict[str, Any]
    finite: bool
    made: dict[Any, tuple[Any, dict[str, Any]]] = field(default_factory=dict)

    def algorithms(self) -> tuple[str, ...]:
        """Algorithms to try in turn, until the loops can walk the arrays."""
        return planner.asked_in_turn(self.settings["algorithm"], self.finite)

    def make(self, problem: ConvProblem, left: int | None, **changes: Any) -> Any:
        """Plan one convolution, with `left` bytes of scratch."""
        key = problem, left, tuple(changes.items())
        if key not in self.made:
            settings = {**self.settings, **changes, "max_workspace": left}
            self.made[key] = planner.make_plan(problem, **settings)
        return self.made[key]

    def alone(self, piece: Piece, left: int | None) -> tuple[str, Any] | None:
        """Plan a piece for one thread; give the requested algorithm and the plan."""
        for algorithm in self.algorithms():
            plan, fields = self.make(
                piece.problem, left, algorithm=algorithm, threads=1, search="estimate"
            )
            if _placed(fields, piece) is not None:
                return algorithm, plan
        return None

    def teamed(self, piece: Piece, left: int | None) -> tuple[Any, dict[str, Any]]:
        """Plan the piece for the team, with the bits of the plan for one thread."""
        found = self.alone(piece, left)
        assert found is not None, "a way that cannot be taken was refused before"
        algorithm, single = found
        measured = self.settings.get("search", "estimate") != "estimate"
        for name in dict.fromkeys((algorithm, single.algorithm)):
            plan, fields = self.make(piece.problem, left, algorithm=name)
            placed = _placed(fields, piece)
            if placed is not None and (measured or plan.bits == single.bits):
                return plan, placed
        plan, fields = self.make(
            piece.problem, left, algorithm=algorithm, threads=1, search="estimate"
        )
        placed = _placed(fields, piece)
        assert placed is not None
        return plan, placed

    def cost(self, way: Way, left: int | None) -> float | None:
        """Cycles of a way on one thread; None if it is impossible."""
        total = 0.0
        for piece in way.pieces:
            found = self.alone(piece, left)
            if found is None:
                return None
            total += sum(found[1].cost.values()) + STEP_CYCLES
        for copy in way.copies:
            rate = HOST_BYTES if copy.fields() is None else COPIED_BYTES
            size = math.prod(copy.outer.shape) * copy.element
            total += size / rate + STEP_CYCLES
        return total


@record
class Decomposed:
    """A planned transposed convolution: pieces with their plans, without weights.

    Parameters
    ----------
    asked, problem : TransposedProblem
        The requested problem, and the computed one: the same, or the same in NCHW.
    way : Way
        For `images` images.
    images, rounds : int
        Images that are computed together, and number of repetitions.
    prepared : list of Prepared
        One for each piece.
    plan : TransposedPlan
        For people.
    most : int
        Threads that may compute at once over all calls.
    most_scratch : int or None
        Limit of the whole team's scratch in bytes, if there is one.
    """

    asked: TransposedProblem
    problem: TransposedProblem
    way: Way
    images: int
    rounds: int
    prepared: list[Prepared]
    plan: TransposedPlan
    most: int
    most_scratch: int | None


def decompose(
    problem: TransposedProblem, settings: dict[str, Any], *, finite: bool = True
) -> Decomposed:
    """Choose the cheapest way, and plan its pieces.

    Parameters
    ----------
    problem : TransposedProblem
        The problem.
    settings : dict
        Arguments of `planner.make_plan`.
    finite : bool
        Whether all weights are finite.

    Raises
    ------
    ValueError
        If nothing can serve the problem as asked; the message says why.
    """
    asked = problem
    if not finite and _ragged(problem):
        # No algorithm there leaves padding out of a sum, and infinite weights give NaN on padding.
        problem = replace(problem, layout="NCHW", block=0)
    if has_many_phases(*problem.axes) and _shares_blocks(problem):
        problem = replace(problem, layout="NCHW", block=0)
    plans = _Planner({"algorithm": "auto", **settings}, finite)
    limit = settings.get("max_workspace")
    best: tuple[float, Way, int] | None = None
    refusals: list[str] = []
    for way, images in _candidates(problem, limit):
        if way.name == "phases, spared" and (best is not None or limit is None):
            continue
        # A residual needs the same amount again.
        if limit is not None and 2 * way.arena > limit:
            continue
        left = None if limit is None else limit - 2 * way.arena
        try:
            cycles = plans.cost(way, left)
        except ValueError as error:
            refusals.append(str(error))
            continue
        if cycles is None:
            continue
        cycles *= max(problem.batch, 1) / images
        if best is None or cycles < best[0]:
            best = cycles, way, images
    if best is None:
        if refusals and limit is None:
            raise ValueError(refusals[0])
        # A refusal may name the memory left beside the arena, not the requested limit.
        other = next((text for text in refusals if not text.startswith("max_workspace")), None)
        raise ValueError(other or f"max_workspace must be larger for {problem}, got {limit}")
    _, way, images = best
    left = None if limit is None else limit - 2 * way.arena
    prepared, parts = [], []
    most = planner.share(settings.get("threads"))
    made: dict[Any, Prepared] = {}
    for piece in way.pieces:
        plan, fields = plans.teamed(piece, left)
        key = piece.problem, piece.x.strides, piece.y.strides
        if key not in made:
            made[key] = Prepared(piece.problem, plan, fields, most)
        prepared.append(made[key])
        parts.append(plan)
    plan = TransposedPlan.of(problem, way.name, way.arena, parts)
    return Decomposed(
        asked, problem, way, images, max(problem.batch, 1) // images, prepared, plan, most, left
    )


def _ragged(p: TransposedProblem) -> bool:
    """Whether groups end inside a block of channels."""
    channels = (p.ic // p.groups, p.oc // p.groups)
    return p.layout == "NCHWc" and p.groups > 1 and any(n % p.block for n in channels)


def _shares_blocks(p: TransposedProblem) -> bool:
    """Whether a block of output channels spans several groups, or is not full."""
    return p.layout == "NCHWc" and bool(p.oc // p.groups % p.block)


def _candidates(problem: TransposedProblem, limit: int | None) -> list[tuple[Way, int]]:
    """The ways, and the number of images each computes at a time."""
    batch = max(problem.batch, 1)
    budget = TOGETHER if limit is None else min(TOGETHER, limit // 4)

    def together(way: Way) -> int:
        """Number of images whose arena is small enough."""
        one = way.arena // batch
        counts = (n for n in range(1, batch + 1) if batch % n == 0 and n * one <= budget)
        return max(counts, default=1) if way.arena else batch

    if has_many_phases(*problem.axes):
        most = _most_taps(problem, limit)
        images = together(by_taps(problem, batch, most))
        return [(by_taps(problem, images, most), images)]
    found = [(way, together(way)) for way in ways(problem, batch)]
    again = {n: {way.name: way for way in ways(problem, n)} for _, n in found if n != batch}
    return [(way if n == batch else again[n][way.name], n) for way, n in found]


def _most_taps(problem: TransposedProblem, limit: int | None) -> tuple[int, int] | None:
    """Largest number of first taps in a run, so that an image leaves half of the scratch."""
    most = None
    down, across = (first_taps(axis)[0] for axis in problem.axes)
    while limit is not None and 4 * by_taps(problem, 1, most).arena > limit:
        if (down, across) == (1, 1):
            break
        # Products of one row keep their size, and are fewer than products of one column.
        down, across = (-(-down // 2), across) if down > 1 else (1, -(-across // 2))
        most = down, across
    return most
