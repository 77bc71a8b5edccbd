"""Every candidate for sparse weights through the loops, epilogue and all."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pplconv.planner.estimating import Request
from tests.api.candidates import all_contexts, conv_problem, describe, every_candidate, force_plan
from tests.api.problems import Problem
from tests.api.pruned import prune, sparsity_of
from tests.api.test_candidates import EPILOGUES, LAYOUTS, Case
from tests.api.test_candidates import SHAPES as DENSE
from tests.emulation import few

# Some shapes of dense weights, and others in the same order of numbers.
SHAPES = {
    name: DENSE[name]
    for name in (
        "3x3", "1x1", "stride", "stem", "dilation", "kernel beyond the image",
        "groups of a 1x1", "one channel",
    )
} | {
    "1x1 of many pixels": (1, 1, 37, 40, (13, 19), (1, 1), 1, 0, 1),
    "1x1 of one pixel": (2, 1, 40, 64, (1, 1), (1, 1), 1, 0, 1),
    "groups of blocks": (1, 2, 64, 96, (9, 8), (3, 3), 1, 1, 1),
}  # fmt: skip
DENSITIES = {"some": 0.3, "none": 0.0, "all": 1.1, "one in forty": 0.025}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", SHAPES)
def test_every_candidate(shape, layout, dtype, monkeypatch):
    block = LAYOUTS[layout]
    plain = Problem(dtype, "NCHW" if block else layout, *SHAPES[shape], seed=len(shape))
    dense = conv_problem(plain, block)
    (numerics,) = dense.numerics
    turn = list(SHAPES).index(shape) + list(LAYOUTS).index(layout)
    run = set()
    for index, (pattern, density) in enumerate(
        (pattern, density) for pattern in (1, 4, 8, 16) for density in DENSITIES.values()
    ):
        weight = prune(plain.arrays()["weight"], plain.groups, pattern, density, index)
        sparsity = sparsity_of(weight, plain.groups, pattern)
        problem = replace(dense, sparsity=sparsity)
        cases = [
            Case(own, block, own.arrays() | {"weight": weight})
            for own in (replace(plain, **options) for options in EPILOGUES.values())
        ]
        for case in cases:
            case.arguments |= {"sparse": True, "block": (1, pattern)}
        for around in all_contexts(numerics):
            request = Request(problem, "sparse", np.inf, around.threads)
            found = [c for c in every_candidate(problem, around) if c.algorithm == "sparse"]
            each = (n // plain.groups for n in (plain.in_channels, plain.out_channels))
            ragged = block and plain.groups > 1 and any(n % block for n in each)
            assert bool(found) != bool(ragged)
            # Each runs with one density of its pattern, and in other layouts with the others.
            for candidate in few(found[(turn + index) % len(DENSITIES) :: len(DENSITIES)], 3):
                plan = force_plan(monkeypatch, request, candidate, around.isa)
                for case in (cases[0], cases[1 + len(run) % 2]):
                    case.check(plan, describe(candidate))
                run.add(candidate)
        monkeypatch.undo()
