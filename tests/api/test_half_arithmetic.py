"""CPUs that compute in half precision: chains of halves, added in float32.

Arrays are of float16, or of float32 with ``precision="fp16"``.
"""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest

import pplconv
from pplconv.algorithms.error_bounds import direct_error_bound
from pplconv.numerics import numerics_of
from pplconv.planner.describing import plan_of
from pplconv.planner.estimating import Ranked, Request
from pplconv.planner.searching import Trial
from tests.api.blocks import from_layout, in_blocks, out_of_blocks, to_layout
from tests.api.buffers import GuardedOutput
from tests.api.candidates import all_contexts, conv_problem, describe, every_candidate
from tests.api.problems import Problem
from tests.api.test_half import F16, SHAPES, draw
from tests.emulation import few
from tests.reference import conv2d_reference

NUMERICS = {F16: numerics_of("f16", "f16"), np.float32: numerics_of("f32", "f16")}
every_type = pytest.mark.parametrize("dtype", NUMERICS, ids=lambda dtype: dtype.__name__)
pytestmark = pytest.mark.needs_isa("fp16")


def convolve(x, w, b, layout, **options):
    """Convolve (N, C, H, W) in another layout; the result is in NCHW."""
    y = pplconv.conv2d(to_layout(x, layout), w, b, layout=layout, **options)
    return from_layout(y, layout, len(w))


def assert_stated(y, right, stated, what=""):
    """Fail unless the error is what a plan states, relative to the largest output."""
    assert np.isfinite(y).all(), what
    error = np.abs(y.astype(np.float64) - right).max() / np.abs(right).max()
    assert error <= stated, f"{what}: {error}, stated {stated}"


@every_type
@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "NCHWc"])
@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("threads", [1, 3])
def test_against_float64(name, layout, threads, dtype, rng):
    shape, filters, parameters = SHAPES[name]
    options = {"threads": threads, "precision": "fp16", **parameters}
    x, w = draw(rng, *shape, dtype=dtype), draw(rng, *filters, dtype=dtype)
    stated = direct_error_bound(int(np.prod(filters[1:])), NUMERICS[dtype])
    right = conv2d_reference(x, w, None, **parameters)
    y = convolve(x, w, None, layout, **options)
    assert y.dtype == dtype
    assert_stated(y, right, stated)
    # The epilogue is of halves too: the sum is rounded before the bias is added, and after.
    b, more = draw(rng, filters[0], dtype=dtype), 3 * 2.0**-11
    right = np.maximum(conv2d_reference(x, w, b, **parameters), 0)
    y = convolve(x, w, b, layout, activation="relu", **options)
    assert_stated(y, right, stated + more * (1 + np.abs(b).max() / np.abs(right).max()))


@every_type
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("name", SHAPES)
def test_a_residual_is_added_before_the_activation(name, layout, dtype, rng):
    shape, filters, parameters = SHAPES[name]
    x, w = draw(rng, *shape, dtype=dtype), draw(rng, *filters, dtype=dtype)
    plain = conv2d_reference(x, w, None, **parameters)
    more = draw(rng, *plain.shape, dtype=dtype)
    stated = direct_error_bound(int(np.prod(filters[1:])), NUMERICS[dtype])
    for activation, function in (
        (None, lambda y: y),
        ("relu6", lambda y: np.clip(y, 0, 6)),
        ("silu", lambda y: y / (1 + np.exp(-y))),
    ):
        right = function(plain + more)
        options = {"activation": activation, "precision": "fp16", **parameters}
        y = convolve(x, w, None, layout, residual=to_layout(more, layout), **options)
        # Each operand and epilogue step may add half a unit in the last place of the largest.
        largest = np.abs(plain).max() + np.abs(more).max()
        allowed = stated * np.abs(plain).max() + 8 * 2.0**-11 * largest
        assert np.abs(y - right).max() <= allowed


@every_type
def test_the_plan_says_so(dtype, rng):
    x, w = draw(rng, 1, 16, 9, 7), draw(rng, 24, 16, 3, 3, dtype=dtype)
    plan = pplconv.Conv2d(w, precision="fp16").plan_for(x.shape)
    assert (plan.dtype, plan.compute, plan.isa) == (NUMERICS[dtype].source, "f16", "fp16")
    assert "_f16_" in plan.kernel and plan.kernel.endswith("_fp16")
    assert plan.error_bound == direct_error_bound(144, NUMERICS[dtype])


def test_float32_is_computed_in_half_precision_only_where_asked_for(rng):
    w = draw(rng, 24, 16, 3, 3, dtype=np.float32)
    for precision in (None, "fp32"):
        plan = pplconv.Conv2d(w, precision=precision).plan_for((1, 16, 9, 7))
        assert (plan.dtype, plan.compute) == ("f32", "f32")
    half = pplconv.Conv2d(draw(rng, 24, 16, 3, 3)).plan_for((1, 16, 9, 7))
    assert (half.dtype, half.compute) == ("f16", "f16")


def test_float32_that_half_precision_does_not_hold_is_infinite():
    x, w = np.full((1, 16, 9, 7), 1e6, np.float32), np.ones((24, 16, 3, 3), np.float32)
    assert pplconv.Conv2d(w, precision="fp16").plan_for(x.shape).compute == "f16"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        y = pplconv.conv2d(x, w, np.full(24, -1.0, np.float32), precision="fp16")
        assert np.isposinf(y).all()
        y = pplconv.conv2d(x / x, w, np.full(24, -1e6, np.float32), precision="fp16")
        assert np.isneginf(y).all()


@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ((24, 16, 3, 3), {"precision": "fp32"}),
        ((24, 16, 3, 3), {"algorithm": "winograd"}),
        ((16, 1, 9, 9), {"groups": 16, "padding": 4, "algorithm": "depthwise"}),
    ],
    ids=["asked for", "winograd", "depthwise of 81 taps"],
)
def test_what_is_computed_in_float32(shape, options, rng):
    x, w = draw(rng, 1, 16, 9, 7), draw(rng, *shape)
    conv = pplconv.Conv2d(w, **options)
    plan = conv.plan_for(x.shape)
    assert plan.compute == "f32" and plan.error_bound < 1e-3
    options.pop("precision", None)
    options.pop("algorithm", None)
    right = conv2d_reference(x, w, None, **options)
    assert_stated(conv(x), right, plan.error_bound)


@pytest.mark.parametrize("algorithm", ["pointwise", "im2col", "direct"])
def test_sums_may_be_long(algorithm):
    """Ones add up beyond 2048, where a sum of halves would end: a chain has 64 of them."""
    count = 2048 + 64 + 7
    x, w = np.ones((1, count, 3, 3), F16), np.ones((5, count, 1, 1), F16)
    y = pplconv.conv2d(x, w, algorithm=algorithm)
    np.testing.assert_array_equal(y, np.full((1, 5, 3, 3), count, np.float32).astype(F16))


@every_type
@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "NCHW8c", "NCHW24c"])
@pytest.mark.parametrize("shape", ["3x3", "1x1", "stride", "groups", "depthwise"])
def test_every_candidate(shape, layout, dtype, rng):
    """All write their output and nothing else, and give the bits of others of that name."""
    sizes = {
        "3x3": (2, 1, 21, 35, (13, 11), (3, 3), 1, 1, 1),
        "1x1": (3, 1, 137, 70, (7, 9), (1, 1), 1, 0, 1),
        "stride": (1, 1, 19, 23, (15, 14), (3, 3), 2, 1, 1),
        "groups": (2, 3, 15, 21, (10, 12), (3, 3), 1, 1, 1),
        "depthwise": (2, 11, 11, 22, (10, 19), (3, 3), 1, 1, 1),
    }[shape]
    block = int(layout[4:-1]) if layout.endswith("c") else 0
    plain = Problem(dtype.__name__, "NCHW" if block else layout, *sizes, seed=len(shape))
    problem = replace(conv_problem(plain, block), permitted=("f16",))
    x, w = (plain.arrays()[name] for name in ("input", "weight"))
    right = conv2d_reference(x, w, None, **plain.parameters)
    if block:
        x = in_blocks(x, block)
    results = {}
    for around in all_contexts(problem.numerics[0]):
        assert around.isa == "fp16"
        request = Request(problem, threads=around.threads)
        for candidate in few(every_candidate(problem, around), 12):
            plan, fields = plan_of(request, Ranked(0, candidate, {}), "estimate")
            output = GuardedOutput(problem.output_shape, dtype.__name__)
            output.array.fill(np.nan)
            Trial(fields, "fp16", w).seconds(x, output.array)
            output.assert_margins_intact()
            y = output.array
            y = out_of_blocks(y, plain.out_channels) if block else y
            assert_stated(y, right, plan.error_bound, describe(candidate))
            same = results.setdefault(plan.bits, y.tobytes())
            assert y.tobytes() == same, f"{describe(candidate)}: other bits"
    assert results


def test_slopes_have_the_width_that_their_plan_was_made_for(monkeypatch, rng):
    """A plan that is kept stays as it is when the instruction set is capped otherwise."""
    x, w = draw(rng, 1, 16, 9, 7), draw(rng, 24, 16, 3, 3)
    options = {"activation": ("prelu", rng.uniform(-1, 1, 24))}
    expected = pplconv.conv2d(x, w, **options)
    monkeypatch.setenv("PPLCONV_MAX_ISA", "neon")
    assert np.array_equal(pplconv.conv2d(x, w, **options), expected)


def test_a_cap_that_comes_later_changes_what_is_computed_in(monkeypatch, rng):
    """Only of later plans."""
    x, w, b = draw(rng, 1, 16, 9, 7), draw(rng, 24, 16, 3, 3), draw(rng, 24)
    conv = pplconv.Conv2d(w, b, activation=("prelu", rng.uniform(-1, 1, 24)))
    before = conv(x)
    assert conv.plan_for(x.shape).compute == "f16"
    monkeypatch.setenv("PPLCONV_MAX_ISA", "neon")
    assert np.array_equal(conv(x), before)
    wide = np.concatenate([x, x])
    assert conv.plan_for(wide.shape).compute == "f32"
    np.testing.assert_allclose(conv(wide)[:1], before, atol=0.05)
