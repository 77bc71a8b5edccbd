"""Loops take all that a candidate says of its blocks and memory, each number by its name."""

from __future__ import annotations

import pytest

from candidates import context_of, conv_problem, every_candidate
from pplconv.schedules import compile_plan
from problems import Problem

# Convolutions that the loops of a name compute, among others perhaps.
SHAPES = {
    "depthwise": (1, 21, 21, 42, (9, 11), (3, 3), 1, 1, 1),
    "gemm": (2, 1, 37, 50, (7, 9), (1, 1), 1, 0, 1),
    "winograd": (2, 1, 21, 35, (13, 11), (3, 3), 1, 1, 1),
}


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("loops", SHAPES)
def test_a_number_that_lacks_is_named(loops, layout):
    problem = conv_problem(Problem("float32", layout, *SHAPES[loops], seed=7))
    around = context_of(problem.numerics[0], 1)
    candidate = next(c for c in every_candidate(problem, around) if c.loops == loops)
    fields = candidate.fields(1)
    compile_plan(fields, around.isa)
    assert len(candidate.own_fields()) >= 8
    for name in candidate.own_fields():
        others = {other: value for other, value in fields.items() if other != name}
        with pytest.raises((LookupError, ValueError), match=rf"'{name}'"):
            compile_plan(others, around.isa)
