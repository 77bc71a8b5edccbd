"""Prices of problems: those of the plans, though fewer candidates are asked for them."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from pplconv.algorithms import CoreModel, im2col, pointwise
from pplconv.planner import Request
from pplconv.planner.pricing import least_cycles_of
from pplconv.problem import ConvProblem
from tests.planner.golden_plans import LAYERS
from tests.planner.targets import TARGETS, target_of

pytestmark = pytest.mark.unemulated("plans for recorded machines, wherever it runs")

TYPES = (("f32", "NCHW"), ("f32", "NHWC"), ("f64", "NCHW"), ("f16", "NHWC"), ("u8", "NHWC"))


@pytest.mark.parametrize("machine", TARGETS)
@pytest.mark.parametrize(("dtype", "layout"), TYPES)
def test_a_price_is_that_of_the_plan(machine, dtype, layout):
    target = target_of(machine)
    for sizes in LAYERS[::2]:
        problem = ConvProblem.parse(sizes, dtype, layout)
        for cold in (False, True):
            request = Request(problem, threads=1, target=target, cold=cold)
            # What a plan is chosen from.
            assert least_cycles_of(request) == request.ranked(1)[0].total


@pytest.mark.parametrize("machine", TARGETS)
@pytest.mark.parametrize(("layout", "batch"), [("NCHW", 1), ("NCHW", 3), ("NHWC", 3)])
def test_no_candidate_of_im2col_is_below_its_bound(machine, layout, batch):
    least, bounds = [], []
    for sizes in LAYERS:
        problem = replace(ConvProblem.parse(sizes, "f32", layout), batch=batch)
        if not problem.is_pointwise:
            continue
        request = Request(problem, threads=1, target=target_of(machine))
        around, ranked = request.context(), request.ranked(1, slack=math.inf)
        core = CoreModel.of(around)
        costs = [r.cost for r in ranked if r.candidate.algorithm == pointwise.NAME]
        bounds.append(im2col.floor_beside(problem, around, core, costs))
        assert bounds[-1] >= im2col.floor(problem, around.lanes, core)
        least.append(min(r.total for r in ranked if r.candidate.algorithm == im2col.NAME))
    assert all(bound <= total for bound, total in zip(bounds, least, strict=True))
    # It would be of no use far below.
    assert (
        sum(bound > 0.8 * total for bound, total in zip(bounds, least, strict=True))
        > len(least) / 3
    )
