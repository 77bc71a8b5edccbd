"""Layers with kernels of more than 5x5: the algorithm that was measured to be the fastest one."""

from __future__ import annotations

import pytest

from pplconv.planner import Plan, Request, plan_problem
from pplconv.problem import ConvProblem
from tests.planner.targets import TARGETS, recorded, target_of

LINES = [name for name in TARGETS if "avx512" in recorded(name).isas]


def plan_of(machine: str, text: str) -> Plan:
    """Plan a layer in NCHW for one thread of a machine."""
    problem = ConvProblem.parse(text, layout="NCHW")
    return plan_problem(Request(problem, threads=1, target=target_of(machine))).plan


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
    plan = plan_of(machine, text)
    assert plan.algorithm == "depthwise"


@pytest.mark.parametrize("machine", LINES)
@pytest.mark.parametrize(
    "text",
    [
        # Microseconds by im2col and in loops of its own on an AMD EPYC of family 25, model 17.
        "mb1g64ic64ih56oc64oh28kh2sh2",  # 55, 34
        "mb1g64ic64ih56oc64oh28kh4sh2ph1",  # 176, 53
        "mb1g192ic192ih56oc192oh28kh7sh2ph3",  # 1430, 286
        "mb1g64ic64ih56oc64oh28kh13sh2ph6",  # 1760, 239
        "mb1g64ic64ih56oc64oh19kh3sh3ph1",  # 133, 178: sorted one by one; turned 31
    ],
)
def test_strided_depthwise_planes(machine: str, text: str) -> None:
    plan = plan_of(machine, text)
    assert plan.algorithm == "depthwise"


@pytest.mark.parametrize("machine", LINES)
@pytest.mark.parametrize(
    ("text", "orientation"),
    [
        # Microseconds by vectors of pixels, and turned into pixels, on an AMD EPYC of family 25,
        # model 17.
        ("mb1g768ic768ih7oc768kh7ph3", "channels"),  # 120, 39
        ("mb1g384ic384ih14oc384kh7ph3", "channels"),  # 127, 79
        ("mb1g512ic512ih14oc512kh27ph13", "channels"),  # 1225, 590
        ("mb1g64ic64ih56oc64oh19kh3sh3ph1", "channels"),  # 178, 31
        ("mb1g64ic64ih224oc64oh56kh4sh4", "channels"),  # 1903, 670; im2col 2570
        ("mb1g240ic240ih14oc240kh3ph1", "pixels"),  # 11, 18
        ("mb1g960ic960ih7oc960kh3ph1", "pixels"),  # 15, 20
        ("mb1g60ic60ih112oc60oh56kh9sh2ph4", "pixels"),  # 479, 519
    ],
)
def test_planes_are_turned_into_pixels_where_that_pays(
    machine: str, text: str, orientation: str
) -> None:
    plan = plan_of(machine, text)
    assert (plan.algorithm, plan.blocks["orientation"]) == ("depthwise", orientation)


@pytest.mark.parametrize("machine", LINES)
def test_dense_planes_are_not_packed_a_few_pixels_at_a_time(machine: str) -> None:
    # 13.6 ms by im2col of 33 pixels, 10.6 by direct sums on an AMD EPYC 26-2.
    problem = ConvProblem.parse("mb1ic32ih96oc32kh11ph5", layout="NCHW")
    request = Request(problem, tolerance=0, threads=1, target=target_of(machine))
    assert plan_problem(request).plan.algorithm == "direct"


@pytest.mark.parametrize("machine", LINES)
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize(
    "text",
    [
        # Milliseconds by direct sums and by Winograd of subkernels on an AMD EPYC 26-2.
        "mb1ic32ih96oc32kh11ph5",  # 10.4, 4.0
        "mb1ic64ih56oc64kh9ph4",  # 9.0, 2.9
        "mb1ic64ih56oc64kh7ph3",  # 5.7, 2.8
        "mb1ic64ih56oc64kh5ph2",  # 2.9, 1.3
        "mb1ic64ih57oc64kh4ph2",  # 1.8, 0.6
        "mb1ic64ih56iw56oc64kh3kw5ph1pw2",  # 1.7, 0.6
    ],
)
def test_dense_kernels_are_cut_into_subkernels(machine: str, text: str, layout: str) -> None:
    problem = ConvProblem.parse(text, layout=layout)
    plan = plan_problem(Request(problem, threads=1, target=target_of(machine))).plan
    assert (plan.algorithm, plan.error_bound < 1e-5) == ("winograd", True)


@pytest.mark.parametrize("machine", LINES)
@pytest.mark.parametrize(
    "text",
    [
        # Microseconds by im2col and in loops of its own on an AMD EPYC 26-2.
        "mb1g128ic128ih56oc128kh7sh2ph3",  # 735, 212
        "mb1g60ic60ih112oc60kh9sh2ph4",  # 2088, 490
        "mb1g60ic60ih112oc60kh11sh2ph5",  # 6889, 623
        "mb1g64ic64ih56oc64kh31sh2ph15",  # 11720, 657
    ],
)
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_strided_depthwise_layers_run_in_their_own_loops(
    machine: str, text: str, layout: str
) -> None:
    problem = ConvProblem.parse(text, layout=layout)
    plan = plan_problem(Request(problem, threads=1, target=target_of(machine))).plan
    assert plan.algorithm == "depthwise"
