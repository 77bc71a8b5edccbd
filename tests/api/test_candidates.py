"""Every candidate of small awkward problems through the loops, epilogue and all.

The planner shows users its best candidates only; a search runs any of them. Each must be right,
write its output and nothing else, and give the bits of all others that claim the same bits.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import pplconv
from pplconv.algorithms import ALGORITHMS
from pplconv.planner.estimating import Request
from tests.api.blocks import in_blocks, lanes_of_no_channel, out_of_blocks
from tests.api.buffers import GuardedOutput
from tests.api.candidates import all_contexts, conv_problem, describe, every_candidate, force_plan
from tests.api.problems import Problem, stated_by
from tests.api.pruned import prune, sparsity_of
from tests.api.test_blocked import blocked_arguments
from tests.emulation import few
from tests.reference import assert_convolution

# batch, groups, ic, oc, image, kernel, stride, padding, dilation
SHAPES = {
    "3x3": (2, 1, 21, 35, (13, 11), (3, 3), 1, 1, 1),
    "3x3 of many channels": (1, 1, 70, 67, (9, 10), (3, 3), 1, ((0, 2), (1, 0)), 1),
    "5x5": (1, 1, 18, 20, (12, 9), (5, 5), 1, (2, 1), 1),
    "2x2": (2, 1, 18, 21, (7, 9), (2, 2), 1, (1, 0), 1),
    "subkernels": (1, 1, 9, 20, (12, 11), (7, 4), 1, (3, 2), 1),
    "one pixel of a 3x3": (3, 1, 17, 33, (3, 3), (3, 3), 1, 0, 1),
    "1x1": (3, 1, 37, 70, (7, 9), (1, 1), 1, 0, 1),
    "stride": (1, 1, 19, 23, (15, 14), (3, 3), 2, 1, 1),
    "stem": (1, 1, 3, 32, (23, 21), (7, 7), (2, 3), 3, 1),
    "dilation": (1, 1, 9, 18, (14, 17), (3, 2), 1, (2, 0), (2, 3)),
    "kernel beyond the image": (2, 1, 5, 6, (2, 3), (5, 7), 1, (4, 3), 1),
    "groups": (2, 3, 15, 21, (10, 12), (3, 3), 1, 1, 1),
    "groups of blocks": (1, 2, 64, 32, (9, 8), (3, 3), 1, 1, 1),
    "many groups": (1, 8, 32, 40, (8, 11), (3, 3), 2, 1, 1),
    "groups of a 1x1": (2, 3, 66, 39, (5, 7), (1, 1), 1, 0, 1),
    "depthwise": (2, 37, 37, 37, (12, 13), (3, 3), 1, 1, 1),
    "depthwise of small planes": (2, 50, 50, 50, (7, 6), (7, 7), 1, 3, 1),
    "depthwise at strides": (1, 33, 33, 33, (17, 14), (4, 3), (3, 2), ((2, 0), (1, 3)), 1),
    "depthwise, dilated": (3, 17, 17, 17, (9, 12), (3, 5), (1, 2), (2, 4), (2, 3)),
    "depthwise of pixels that share few sets": (2, 64, 64, 64, (11, 9), (7, 5), (1, 2), (3, 2), 1),
    "depthwise with a multiplier": (1, 11, 11, 33, (11, 9), (5, 5), 2, 2, 1),
    "groups that share a vector": (2, 5, 20, 20, (9, 11), (3, 3), 2, 1, 1),
    "groups of a vector or two": (1, 3, 48, 48, (8, 9), (3, 3), 1, 1, 1),
    "groups, dilated": (1, 9, 72, 72, (11, 9), (3, 2), (1, 2), (2, 0), (2, 1)),
    "one channel": (1, 1, 1, 1, (10, 9), (3, 3), 1, 1, 1),
}
# Images of few channels whose rows fill vectors.
ROWS = {
    "3x3": (2, 1, 3, 35, (7, 70), (3, 3), 1, 1, 1),
    "5x5 of one channel": (1, 1, 1, 20, (9, 67), (5, 5), 1, 2, 1),
    "stride down, dilation, groups": (1, 2, 16, 22, (13, 40), (3, 4), (2, 1), ((1, 0), (2, 3)),
                                      (1, 2)),
    "rows beyond the image": (1, 1, 2, 9, (2, 33), (4, 2), 1, ((5, 4), (3, 36)), 1),
}  # fmt: skip
EPILOGUES = {
    "none": {},
    "bias and residual": {"with_bias": True, "with_residual": True, "activation": ("clip", -1, 2)},
    "curve": {"with_bias": True, "activation": "prelu"},
}
# What the loops compute in, whatever else this CPU could.
PRECISIONS = {"float16": "fp32", "float32": "fp32", "float64": None}
LAYOUTS = {"NCHW": 0, "NHWC": 0, "NCHW8c": 8, "NCHW12c": 12, "NCHW16c": 16, "NCHW24c": 24}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", SHAPES)
def test_every_candidate(shape, layout, dtype, monkeypatch):
    block = LAYOUTS[layout]
    plain = Problem(dtype, "NCHW" if block else layout, *SHAPES[shape], seed=len(shape))
    problem = conv_problem(plain, block)
    epilogues = [Case(replace(plain, **options), block) for options in EPILOGUES.values()]
    (numerics,) = problem.numerics
    serving = {name for name, m in ALGORITHMS.items() if m.supports(problem, numerics) is None}
    run = set()
    for around in all_contexts(numerics):
        request = Request(problem, tolerance=np.inf, threads=around.threads)
        found = list(every_candidate(problem, around))
        # The machine decides how many blocks there are, but not which algorithms can serve.
        assert {candidate.algorithm for candidate in found} == serving, around.isa
        for candidate in few(found, 5):
            plan = force_plan(monkeypatch, request, candidate, around.isa)
            # The curve follows where a clip comes with the store: one of the two will do.
            for case in (epilogues[0], epilogues[1 + len(run) % 2]):
                case.check(plan, describe(candidate))
            run.add(candidate)
    assert run


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", ROWS)
def test_every_candidate_on_planes(shape, dtype, monkeypatch):
    """Each adds up what im2col does, in the same order."""
    plain = Problem(dtype, "NCHW", *ROWS[shape], seed=len(shape))
    problem = conv_problem(plain)
    cases = [Case(replace(plain, **options), 0) for options in EPILOGUES.values()]
    (numerics,) = problem.numerics
    for around in all_contexts(numerics):
        request = Request(problem, tolerance=np.inf, threads=around.threads)
        found = list(every_candidate(problem, around))
        on_planes = [candidate for candidate in found if candidate.loops == "planes"]
        assert on_planes or around.lanes * 2 > problem.ow
        order = {candidate.bits for candidate in found if candidate.algorithm == "im2col"}
        for candidate in on_planes:
            assert {candidate.bits} == order
            plan = force_plan(monkeypatch, request, candidate, around.isa)
            for case in cases:
                case.check(plan, describe(candidate))


class Case:
    """One problem with its numbers and what is expected of it."""

    def __init__(
        self, problem: Problem, block: int, arrays: dict[str, np.ndarray] | None = None
    ) -> None:
        self.problem, self.block = problem, block
        self.arrays = problem.arrays() if arrays is None else arrays
        self.arguments = {**self.arrays, **problem.parameters}
        shape = problem.output_shape
        if block:
            self.arguments = blocked_arguments(problem, self.arrays, block)
            shape = in_blocks(np.empty(shape, np.int8), block).shape
        self.x, self.residual = (self.arguments.pop(name) for name in ("input", "residual"))
        self.output = GuardedOutput(shape, problem.dtype)
        self.right: dict[tuple[str, bool], bytes] = {}  # results by what decides their bits

    def check(self, plan: pplconv.Plan, candidate: object) -> None:
        """Compute into a poisoned output, and compare."""
        self.output.array.fill(np.nan)
        conv = pplconv.Conv2d(**self.arguments, precision=PRECISIONS[self.problem.dtype])
        y = conv(self.x, self.residual, out=self.output.array)
        self.output.assert_margins_intact()
        channels = self.problem.out_channels
        if self.block:
            assert np.count_nonzero(lanes_of_no_channel(y, channels)) == 0, candidate
            y = out_of_blocks(y, channels)
        # Portable C rounds products and sums apart; the others fuse them.
        bits = plan.bits, plan.isa == "portable"
        if bits in self.right:
            assert y.tobytes() == self.right[bits], f"{plan.isa} {candidate}: other bits"
            return
        try:
            stated = stated_by(plan)
            assert_convolution(y, **self.arrays, **self.problem.parameters, stated=stated)
        except AssertionError as error:
            raise AssertionError(f"{candidate}: {error}") from None
        self.right[bits] = y.tobytes()


# Sparse weights -----------------------------------------------------------------------------------


# Some shapes of dense weights, and others in the same order of numbers.
SPARSE_SHAPES = {
    name: SHAPES[name]
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
@pytest.mark.parametrize("shape", SPARSE_SHAPES)
def test_every_candidate_of_sparse_weights(shape, layout, dtype, monkeypatch):
    block = LAYOUTS[layout]
    plain = Problem(dtype, "NCHW" if block else layout, *SPARSE_SHAPES[shape], seed=len(shape))
    dense = conv_problem(plain, block)
    (numerics,) = dense.numerics
    turn = list(SPARSE_SHAPES).index(shape) + list(LAYOUTS).index(layout)
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
