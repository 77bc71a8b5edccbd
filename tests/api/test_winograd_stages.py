"""Winograd in stages: V and M of many tiles in scratch that the team shares, with the same bits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import pplconv
from pplconv.algorithms.winograd import Winograd
from pplconv.planner.describing import plan_of
from pplconv.planner.estimating import Ranked, Request
from pplconv.schedules import compile_plan
from tests.api.candidates import (
    TINY,
    context_of,
    conv_problem,
    describe,
    every_candidate,
    force_plan,
    shape_in_blocks,
)
from tests.api.problems import Problem
from tests.api.test_candidates import LAYOUTS, Case
from tests.emulation import few

# batch, groups, ic, oc, image, kernel, stride, padding, dilation; weights beyond TINY's L2
SHAPES = {
    "3x3": (2, 1, 40, 70, (19, 23), (3, 3), 1, 1, 1),
    "5x5": (1, 1, 33, 50, (14, 11), (5, 5), 1, (2, 1), 1),
    "few tiles": (1, 1, 130, 67, (7, 6), (3, 3), 1, 1, 1),
    "groups": (3, 2, 96, 96, (9, 10), (3, 3), 1, 1, 1),
    "subkernels": (1, 1, 20, 33, (14, 11), (7, 4), 1, (3, 2), 1),
}
TEAMS = (1, 2, 3, 5)


def stages_of(problem, threads: int, **caches: int) -> list[Winograd]:
    around = context_of(problem.numerics[0], threads, **(TINY | caches))
    return [c for c in every_candidate(problem, around) if getattr(c, "staged", False)]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", SHAPES)
def test_every_team_gives_the_bits_of_blocks(shape, layout, dtype, monkeypatch):
    """Bits are those of tasks that keep V and M in L2, with an epilogue and poisoned outputs."""
    block = LAYOUTS[layout]
    plain = Problem(
        dtype, "NCHW" if block else layout, *SHAPES[shape], seed=5, with_bias=True,
        with_residual=True, activation=("leaky_relu", 0.25),
    )  # fmt: skip
    problem = conv_problem(plain, block)
    arrays = plain.arrays()
    arrays["input"].reshape(-1)[7] = np.inf  # spoils tiles, which are repaired
    case, run = Case(plain, block, arrays), 0
    around = context_of(problem.numerics[0], 1, **TINY)
    whole = {}  # a candidate of each variant that is not staged
    for candidate in every_candidate(problem, around):
        if candidate.algorithm == "winograd" and not candidate.staged:
            whole.setdefault(candidate.bits, candidate)
    for threads in TEAMS:
        staged = few(stages_of(problem, threads, l3_bytes=threads << 14), 2)
        for candidate in (*(few(whole.values(), 2) if threads == 1 else ()), *staged):
            request = Request(problem, tolerance=np.inf, threads=threads)
            plan = force_plan(monkeypatch, request, candidate, around.isa)
            case.check(plan, describe(candidate))  # equal bits by what decides them, too
            run += candidate.staged
    assert run or not whole  # groups that begin within blocks are not for Winograd


def test_stages_cut_tiles_and_channels():
    """The candidates of a large problem have several rounds, and parts of both kinds."""
    plain = Problem("float32", "NHWC", *SHAPES["few tiles"])
    assert any(c.ic_part < c.ic for c in stages_of(conv_problem(plain), 5))
    plain = Problem("float32", "NHWC", *SHAPES["3x3"])
    found = stages_of(conv_problem(plain), 3)
    assert any(c.rounds > 1 for c in found)
    assert any(1 < c.tile_part < c.tile_block for c in found)
    assert any(c.ic_segment < c.ic for c in found)
    assert all(c.shared_bytes > 0 and c.workspace(3) == c.shared_bytes + 3 * c.scratch_bytes
               for c in found)  # fmt: skip


def test_weights_that_l2_holds_need_no_stages():
    plain = Problem("float32", "NHWC", *SHAPES["3x3"])
    assert not stages_of(conv_problem(plain), 2, l2_bytes=64 << 20)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_the_planner_keeps_to_the_workspace(layout):
    """Shared scratch counts; what a call may use decides between stages and blocks."""
    plain = Problem("float32", layout, 1, 1, 512, 512, (28, 28), (3, 3), 1, 1, 1)
    problem = conv_problem(plain)
    request = Request(problem, algorithm="winograd", threads=2)
    staged = [r.candidate for r in request.ranked(2) if r.candidate.staged]
    assert staged
    least = min(c.workspace(1) for c in staged)
    for most in (least - 1, least, 2 * least):
        capped = replace(request, max_workspace=most)
        found = [r.candidate for r in capped.ranked(2)]
        assert all(c.workspace(1) <= most for c in found)
        assert any(c.staged for c in found) == (most >= least)
        for candidate in found[:8]:
            plan, fields = plan_of(capped, Ranked(0.0, candidate, {}), "estimate")
            assert plan.scratch_bytes <= most
            assert (
                plan.scratch_bytes
                == fields["shared_bytes"] + plan.threads * fields["scratch_bytes"]
            )
    x, w = (np.ones(s, np.float32) for s in (problem.input_shape, problem.weight_shape))
    y = pplconv.conv2d(x, w, padding=1, layout=layout, max_workspace=least - 1)
    assert y.shape == problem.output_shape


def test_plans_that_do_not_fit_are_refused():
    plain = Problem("float32", "NCHW", *SHAPES["3x3"])
    problem = conv_problem(plain, 8)
    assert problem.input_shape == shape_in_blocks(plain.input_shape, 8)
    around = context_of(problem.numerics[0], 3, **TINY)
    candidate = next(c for c in stages_of(problem, 3) if c.rounds > 1)
    fields = candidate.fields(3)
    compile_plan(fields, around.isa)
    for wrong, complaint in (
        ({"tile_part": 0}, "parts are at least 1"),
        ({"ic_part": 12}, "whole vectors and blocks"),
        ({"oc_part": 12}, "whole vectors and blocks"),
        ({"tasks": fields["tasks"] + 1}, "not those of the parts"),
        ({"shared_bytes": fields["shared_bytes"] - 64}, None),
        ({"shared_bytes": 64}, "positions of the scratch overlap"),
        ({"shared_bytes": 65}, "whole lines"),
        ({"v_row": 64}, "shorter than what goes into them"),
        ({"m_row": 64}, "shorter than what goes into them"),
        ({"staged": 0}, "overlap"),
    ):
        if complaint is None:  # rounded up to whole pages
            compile_plan(fields | wrong, around.isa)
            continue
        with pytest.raises(ValueError, match=complaint):
            compile_plan(fields | wrong, around.isa)
