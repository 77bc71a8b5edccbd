"""Every way to run a problem that the planner could propose, not only the one it chooses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from pplconv import config, machine, planner
from pplconv.algorithms import ALGORITHMS, Candidate, PlanContext
from pplconv.arguments.checks import make_problem
from pplconv.numerics import Numerics
from pplconv.planner import Plan, target
from pplconv.planner.describing import plan_of
from pplconv.planner.estimating import Ranked, Request
from pplconv.problem import ConvProblem
from tests.api.problems import Problem

_make_plan = planner.make_plan

# Caches so small that small problems are cut into blocks and segments as large ones are.
TINY = {"l1d_bytes": 2 << 10, "l2_bytes": 16 << 10, "l3_bytes": 0}


def shape_in_blocks(shape: tuple[int, ...], block: int) -> tuple[int, ...]:
    """Give the shape in NCHWc of an array of this shape in NCHW."""
    *batch, channels, height, width = shape
    return (*batch, -(-channels // block), height, width, block)


def conv_problem(problem: Problem, block: int = 0) -> ConvProblem:
    """Give the package's description; with `block`, in NCHWc. Bytes are multiplied by words."""
    shape = shape_in_blocks(problem.input_shape, block) if block else problem.input_shape
    if problem.batch is None:
        shape = (1, *shape)
    filters = (problem.out_channels, problem.in_channels // problem.groups, *problem.kernel)
    names = ("stride", "padding", "dilation", "groups", "layout")
    arguments = {name: problem.parameters[name] for name in names}
    if block:
        arguments["layout"] = "NCHWc"
    dtype = {"float16": "f16", "float32": "f32", "float64": "f64", "uint8": "u8"}[problem.dtype]
    if dtype != "u8":
        return make_problem(shape, filters, dtype, **arguments)
    made = make_problem(shape, filters, dtype, permitted=("s16",), **arguments)
    return replace(made, destination="s32")


def usable_isas(numerics: Numerics) -> tuple[str, ...]:
    """Give the instruction sets that a call could use here for some types, lowest first."""
    return target.here().isas(numerics.product, config.current().max_isa, numerics.kr)


def context_of(
    numerics: Numerics, threads: int, isa: str | None = None, **caches: int
) -> PlanContext:
    """Describe this machine to candidates, with other caches or a lower instruction set."""
    here = machine.current()
    isa = isa or usable_isas(numerics)[-1]
    lanes, found = target.here().tiles(numerics.product, isa, numerics.kr)
    by_pixels, by_channels = (
        target.here().sparse_tiles(op, numerics.product, isa)
        for op in ("sparse_pixels", "sparse_channels")
    )
    return PlanContext(
        replace(here, **caches), numerics, isa, found, lanes, threads,
        by_pixels=by_pixels, by_channels=by_channels,
    )  # fmt: skip


def every_candidate(problem: ConvProblem, around: PlanContext) -> Iterator[Candidate]:
    """Yield the candidates of all algorithms that can serve, however imprecise."""
    for module in ALGORITHMS.values():
        if module.supports(problem, around.numerics) is None:
            yield from module.candidates(problem, around)


def all_contexts(numerics: Numerics) -> list[PlanContext]:
    """Give teams, caches and instruction sets that lead to different candidates."""
    lower = [(1, isa, TINY) for isa in usable_isas(numerics)[:-1]]
    ways = [(1, None, {}), (1, None, TINY), (3, None, TINY), *lower]
    return [context_of(numerics, threads, isa, **caches) for threads, isa, caches in ways]


def describe(candidate: Candidate) -> dict[str, Any]:
    """Name a candidate by its algorithm, bits and blocks."""
    return {"algorithm": candidate.algorithm, "bits": candidate.bits, **candidate.blocks}


def force_plan(monkeypatch: Any, request: Request, candidate: Candidate, isa: str) -> Plan:
    """Make a candidate the plan of a request's problem; other problems are planned as usual.

    Gives the plan. Its team is as large as the request asks for, however small the problem, but has
    no more threads than the candidate has tasks.
    """
    plan, fields = plan_of(request, Ranked(0.0, candidate, {}), "estimate")
    threads = min(request.threads or 1, max(candidate.tasks, 1))
    forced = replace(plan, threads=threads, isa=isa), fields | {"threads": threads}

    def make(asked: ConvProblem, **settings: Any) -> tuple[Any, Any]:
        return forced if asked == request.problem else _make_plan(asked, **settings)

    monkeypatch.setattr(planner, "make_plan", make)
    return forced[0]
