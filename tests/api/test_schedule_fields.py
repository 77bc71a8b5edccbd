"""Loops take all that a candidate says of its blocks and memory, each number by its name."""

from __future__ import annotations

from typing import Any

import pytest

from candidates import context_of, conv_problem, every_candidate
from pplconv.schedules import SCHEDULES, Schedule, compile_plan
from problems import Problem

# Convolutions that the loops of a name compute, among others perhaps.
SHAPES = {
    "depthwise": (1, 21, 21, 42, (9, 11), (3, 3), 1, 1, 1),
    "direct": (2, 1, 21, 35, (13, 11), (3, 3), 1, 1, 1),
    "gemm": (2, 1, 37, 50, (7, 9), (1, 1), 1, 0, 1),
    "winograd": (2, 1, 21, 35, (13, 11), (3, 3), 1, 1, 1),
}


def fields_for(loops: str, layout: str = "NHWC") -> tuple[dict[str, Any], str, list[str]]:
    """Give all fields of a candidate, its ISA, and the names of its own fields."""
    problem = conv_problem(Problem("float32", layout, *SHAPES[loops], seed=7))
    around = context_of(problem.numerics[0], 1)
    candidate = next(c for c in every_candidate(problem, around) if c.loops == loops)
    return candidate.fields(1), around.isa, list(candidate.own_fields())


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("loops", SHAPES)
def test_a_number_that_lacks_is_named(loops, layout):
    fields, isa, own = fields_for(loops, layout)
    compile_plan(fields, isa)
    assert len(own) >= 8
    for name in own:
        others = {other: value for other, value in fields.items() if other != name}
        with pytest.raises((LookupError, ValueError), match=rf"'{name}'"):
            compile_plan(others, isa)


@pytest.mark.parametrize("loops", SHAPES)
def test_a_count_is_smaller_than_a_size(loops):
    fields, isa, own = fields_for(loops)
    sizes = SCHEDULES[loops].sizes
    assert {"tasks", "scratch_bytes", "packed_weight_bytes"} < sizes < set(fields) | Schedule.sizes
    for name in [*own, "batch", "threads", "tasks"]:
        if isinstance(fields[name], int):
            least = 1 << 47 if name in sizes else 1 << 31
            with pytest.raises(MemoryError, match=rf"^{name} is beyond what the loops can address"):
                compile_plan(fields | {name: least}, isa)
            with pytest.raises(ValueError, match=rf"^{name} is negative"):
                compile_plan(fields | {name: -1}, isa)


@pytest.mark.parametrize("loops", ["depthwise", "direct", "winograd"])
def test_a_place_in_the_scratch_may_be_far_and_is_whole_elements(loops):
    fields, isa, own = fields_for(loops)
    places = sorted((SCHEDULES[loops].sizes - Schedule.sizes | {"slab_offset"}).intersection(own))
    assert len(places) >= 2
    for name in places:
        with pytest.raises(ValueError, match="offsets are whole elements"):
            compile_plan(fields | {name: (1 << 31) + 2}, isa)
