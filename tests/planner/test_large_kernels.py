"""Layers with kernels of more than 5x5: the algorithm that was measured to be the fastest one."""

from __future__ import annotations

import pytest

from pplconv.planner import Request, plan_problem
from pplconv.problem import ConvProblem
from tests.planner.targets import TARGETS, recorded, target_of

LINES = [name for name in TARGETS if "avx512" in recorded(name).isas]


@pytest.mark.parametrize("machine", LINES)
@pytest.mark.parametrize(
    "text",
    [
        # Microseconds by im2col and in loops of its own on an AMD EPYC 26-2.
        "mb1g128ic128ih56oc128kh7ph3",  # 887, 494
        "mb1g128ic128ih56oc128kh9ph4",  # 1270, 690
        "mb1g64ic64ih56oc64kh11ph5",  # 846, 468
        "mb1g96ic96ih112oc96kh7ph3",  # 2100, 990
    ],
)
def test_depthwise_planes_are_not_packed(machine: str, text: str) -> None:
    problem = ConvProblem.parse(text, layout="NCHW")
    plan = plan_problem(Request(problem, threads=1, target=target_of(machine))).plan
    assert plan.algorithm == "depthwise"
