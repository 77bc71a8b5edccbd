"""Each algorithm in each layout with each epilogue, chosen or forced, within what it states."""

from __future__ import annotations

import numpy as np
import pytest

import pplconv
from tests.api.blocks import in_blocks, lanes_of_no_channel, out_of_blocks
from tests.api.buffers import GuardedOutput
from tests.api.problems import Problem
from tests.api.test_blocked import blocked_arguments
from tests.reference import assert_within, conv2d_reference

EPILOGUES = {
    "none": {},
    "bias": {"with_bias": True},
    "relu": {"activation": "relu"},
    "residual": {"with_residual": True},
    "clip": {"with_bias": True, "with_residual": True, "activation": ("clip", -0.5, 0.75)},
    "leaky_relu": {"with_bias": True, "activation": ("leaky_relu", 0.1)},
    "prelu": {"with_residual": True, "activation": "prelu"},
    "hardswish": {"with_bias": True, "activation": "hardswish"},
    "silu": {"with_bias": True, "with_residual": True, "activation": "silu"},
    "sigmoid": {"activation": "sigmoid"},
}
LAYOUTS = {"NCHW": 0, "NHWC": 0, "NCHW8c": 8, "NCHW16c": 16}
# batch, groups, ic, oc, image, kernel, stride, padding, dilation: tails of tiles and of blocks,
# and work for a team of three.
PROBLEMS = {
    "depthwise": [
        (2, 51, 51, 51, (39, 37), (3, 3), 1, 1, 1),
        (1, 70, 70, 70, (41, 43), (5, 5), 2, ((1, 2), (2, 0)), 1),
    ],
    "pointwise": [
        (2, 1, 131, 77, (17, 19), (1, 1), 1, 0, 1),
        (1, 2, 128, 128, (23, 17), (1, 1), 1, 0, 1),
    ],
    "winograd": [
        (2, 1, 37, 45, (15, 21), (3, 3), 1, ((1, 0), (2, 1)), 1),
        (1, 2, 32, 64, (19, 18), (5, 5), 1, 2, 1),
        (1, 1, 21, 34, (17, 20), (7, 4), 1, ((3, 2), (0, 4)), 1),
    ],
    "direct": [
        (1, 1, 37, 45, (23, 21), (3, 2), (2, 1), ((1, 0), (2, 1)), (1, 2)),
        (2, 2, 32, 64, (11, 19), (3, 3), 1, 1, 1),
    ],
    "im2col": [
        (1, 1, 37, 45, (23, 21), (3, 2), (2, 1), ((1, 0), (2, 1)), (1, 2)),
        (2, 3, 33, 39, (11, 19), (3, 3), 1, 1, 1),
    ],
}
# In NHWC, for the loops of depthwise convolution: groups of 4, 8, 16 and 32 channels.
FEW_CHANNELS = [
    (2, 9, 36, 36, (31, 29), (3, 3), 1, 1, 1),
    (1, 5, 40, 40, (51, 48), (3, 3), 2, ((1, 0), (2, 1)), 1),
    (1, 4, 64, 64, (41, 39), (3, 3), (2, 1), 1, 1),
    (1, 3, 96, 96, (17, 19), (5, 5), 1, 2, 2),
    (1, 3, 48, 48, (52, 51), (3, 3), 2, 1, 1),
]


@pytest.mark.sampled(53)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("epilogue", EPILOGUES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("algorithm", PROBLEMS)
def test_within_the_stated_error(algorithm, layout, epilogue, dtype):
    """For one thread and for a team, which gives the same bits, into a poisoned output."""
    check_algorithm(algorithm, layout, epilogue, dtype, PROBLEMS[algorithm])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("epilogue", EPILOGUES)
def test_groups_of_few_channels(epilogue, dtype):
    check_algorithm("depthwise", "NHWC", epilogue, dtype, FEW_CHANNELS)


def check_algorithm(
    algorithm: str, layout: str, epilogue: str, dtype: str, shapes: list[tuple]
) -> None:
    """Assert the stated error, and equal bits of one thread and of three."""
    block = LAYOUTS[layout]
    for shape in shapes:
        problem = Problem(
            dtype, "NCHW" if block else layout, *shape, **EPILOGUES[epilogue], seed=len(epilogue)
        )
        arrays = problem.arrays()
        arguments = {**arrays, **problem.parameters, "algorithm": algorithm}
        output_shape = problem.output_shape
        if block:
            arguments = {**blocked_arguments(problem, arrays, block), "algorithm": algorithm}
            output_shape = in_blocks(np.empty(output_shape, np.int8), block).shape
        x, residual = arguments.pop("input"), arguments.pop("residual")
        results = []
        for threads in (1, 3):
            conv = pplconv.Conv2d(**arguments, threads=threads)
            plan = conv.plan_for(x.shape)
            assert (plan.algorithm, plan.threads) == (algorithm, threads)
            output = GuardedOutput(output_shape, dtype)
            conv(x, residual, out=output.array)
            output.assert_margins_intact()
            results.append(output.array)
        assert results[0].tobytes() == results[1].tobytes()
        assert_stated(results[0], plan.error_bound, problem, arrays, block)


def assert_stated(y, stated: float, problem: Problem, arrays, block: int) -> None:
    """Assert that an output is within its stated bound, relative to its largest magnitude.

    The bound is one of the sum; an activation stretches it and adds its own error.
    """
    channels, parameters = problem.out_channels, dict(problem.parameters)
    if block:
        assert np.count_nonzero(lanes_of_no_channel(y, channels)) == 0
        y = out_of_blocks(y, channels)
    activation = parameters.pop("activation")
    largest = np.abs(conv2d_reference(**arrays, **parameters)).max()
    expected = conv2d_reference(**arrays, **problem.parameters)
    if y.dtype == np.float64:
        stated *= 2  # the reference is a sum of the same type
    bound = np.full(expected.shape, stated * largest)
    assert_within(y, expected, bound, np.dtype(problem.dtype), activation, problem.layout)


# Which algorithm --------------------------------------------------------------------------------

# layout, groups, ic, oc, kernel, stride, image: families in which it should win somewhere.
WINS = {
    "depthwise": [("NCHW", 64, 64, 64, 3, 1, 56), ("NHWC", 64, 64, 64, 3, 2, 56)],
    "pointwise": [("NCHW", 1, 64, 64, 1, 1, 28), ("NHWC", 1, 64, 64, 1, 1, 28)],
    "winograd": [("NCHW", 1, 128, 128, 3, 1, 28), ("NHWC", 1, 128, 128, 3, 1, 28)],
    "direct": [
        ("NHWC", 1, 64, 64, 3, 2, 56),
        ("NHWC", 1, 256, 64, 5, 2, 28),
        ("NHWC", 1, 3, 64, 3, 1, 224),
    ],
    "im2col": [("NCHW", 1, 3, 8, 2, 1, 14), ("NCHW", 1, 3, 16, 2, 1, 28)],
}


@pytest.mark.parametrize("algorithm", WINS)
def test_each_algorithm_is_chosen_for_some_problem(algorithm):
    chosen = []
    for layout, groups, ic, oc, k, stride, side in WINS[algorithm]:
        weight = np.ones((oc, ic // groups, k, k), np.float32)
        conv = pplconv.Conv2d(weight, None, stride, k // 2, groups=groups, layout=layout)
        shape = (1, ic, side, side) if layout == "NCHW" else (1, side, side, ic)
        chosen.append(conv.plan_for(shape).algorithm)
    assert algorithm in chosen


@pytest.mark.parametrize(
    ("algorithm", "reason", "filters", "arguments"),
    [
        ("winograd", "stride 1", (8, 8, 3, 3), {"stride": 2}),
        ("winograd", "dilation", (8, 8, 3, 3), {"dilation": (1, 2)}),
        ("winograd", "two rows and two columns", (8, 8, 1, 7), {}),
        ("winograd", "two rows and two columns", (8, 8, 3, 1), {}),
        ("winograd", "tolerance=0", (8, 8, 3, 3), {"tolerance": 0}),
        ("winograd", "stated error", (8, 8, 3, 3), {"tolerance": 1e-9}),
        ("winograd", "blocks of 8", (8, 4, 3, 3), {"groups": 2, "layout": "NCHWc"}),
        ("direct", "blocks of 8", (8, 4, 3, 3), {"groups": 2, "layout": "NCHWc"}),
        ("pointwise", "blocks of 8", (8, 4, 1, 1), {"groups": 2, "layout": "NCHWc"}),
        ("depthwise", "NHWC", (8, 4, 3, 3), {"groups": 2}),
        ("depthwise", "NHWC", (8, 8, 3, 3), {}),
        ("depthwise", "NHWC", (8, 4, 3, 3), {"groups": 2, "layout": "NCHWc"}),
        ("depthwise", "one channel each", (6, 8, 1, 1), {"layout": "NHWC"}),
        ("depthwise", "one channel each", (4, 4, 3, 3), {"groups": 2, "layout": "NHWC"}),
        ("pointwise", "1x1", (8, 8, 3, 3), {}),
        ("pointwise", "stride 1", (8, 8, 1, 1), {"stride": 2}),
        ("pointwise", "no padding", (8, 8, 1, 1), {"padding": 1}),
    ],
)
def test_forcing_one_that_cannot_serve_says_why(algorithm, reason, filters, arguments):
    """The message names the algorithm, the problem and the reason; nothing is written."""
    shape = {"NCHWc": (1, 1, 9, 10, 8), "NHWC": (1, 9, 10, 8)}.get(
        arguments.get("layout"), (1, 8, 9, 10)
    )
    x, weight = np.ones(shape, np.float32), np.ones(filters, np.float32)
    calls = [
        lambda: pplconv.conv2d(x, weight, **arguments, algorithm=algorithm),
        lambda: pplconv.Conv2d(weight, **arguments, algorithm=algorithm)(x),
        lambda: pplconv.Conv2d(weight, **arguments, algorithm=algorithm, input_shape=shape),
        lambda: pplconv.Conv2d(weight, **arguments, algorithm=algorithm).plan_for(shape),
    ]
    for call in calls:
        with pytest.raises(
            ValueError, match=f'algorithm="{algorithm}" cannot serve mb1g'
        ) as caught:
            call()
        assert f'algorithm="{algorithm}" cannot serve' in str(caught.value)
        assert reason in str(caught.value)


def test_groups_that_begin_within_a_block():
    """Only im2col serves groups that begin within a block; the others say why they do not."""
    x, weight = np.ones((1, 2, 9, 9, 8), np.float32), np.ones((12, 6, 3, 3), np.float32)
    conv = pplconv.Conv2d(weight, groups=2, layout="NCHWc")
    assert conv.plan_for(x.shape).algorithm == "im2col"
    for algorithm in set(PROBLEMS) - {"im2col"}:
        with pytest.raises(ValueError, match=f'algorithm="{algorithm}" cannot serve'):
            pplconv.conv2d(x, weight, groups=2, layout="NCHWc", algorithm=algorithm)


@pytest.mark.parametrize("tolerance", [0, 1e-7, 1e-5, 1e-4, 1])
def test_a_plan_spends_no_more_than_it_may(tolerance):
    """Direct sums remain where nothing else is precise enough."""
    for ic in (16, 64, 512):
        conv = pplconv.Conv2d(np.ones((64, ic, 3, 3), np.float32), padding=1, tolerance=tolerance)
        plan = conv.plan_for((1, ic, 28, 28))
        assert plan.error_bound <= tolerance or plan.algorithm in ("direct", "im2col")
