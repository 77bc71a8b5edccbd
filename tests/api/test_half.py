"""Arrays of float16: what they may be mixed with, what comes out, and how it is rounded.

Here they are computed in float32, as everywhere but on CPUs with arithmetic for half precision,
which `test_half_arithmetic` is about.
"""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

import pplconv
import pplconv.planner
from pplconv import wisdom
from pplconv.algorithms.error_bounds import direct_error_bound
from pplconv.numerics import numerics_of
from pplconv.problem import ConvProblem
from tests.api.blocks import from_layout, in_blocks, lanes_of_no_channel, to_layout
from tests.api.buffers import guarded
from tests.levels import allowed_isas
from tests.reference import assert_convolution, conv2d_reference

F16 = np.float16
SHAPES = {
    "3x3": ((2, 21, 13, 11), (35, 21, 3, 3), {"padding": 1}),
    "1x1": ((1, 70, 9, 7), (33, 70, 1, 1), {}),
    "stride": ((1, 9, 17, 15), (18, 9, 5, 3), {"stride": (2, 3), "padding": (2, 1)}),
    "groups": ((2, 24, 8, 9), (36, 8, 3, 3), {"padding": 1, "groups": 3}),
    "depthwise": ((1, 37, 14, 12), (37, 1, 3, 3), {"padding": 1, "groups": 37, "stride": 2}),
    "dilation": ((1, 5, 12, 14), (6, 5, 3, 3), {"dilation": 2, "padding": 2}),
}


@pytest.fixture(autouse=True)
def without_half_arithmetic(monkeypatch):
    """Leave out the instruction set that has it, if this CPU does."""
    if "fp16" in allowed_isas():
        monkeypatch.setenv("PPLCONV_MAX_ISA", "neon")


def draw(rng, *shape, dtype=F16):
    return rng.standard_normal(shape).astype(dtype)


@pytest.fixture
def small(rng):
    """Operands of a small convolution."""
    return {"input": draw(rng, 2, 8, 9, 7), "weight": draw(rng, 16, 8, 3, 3)}


@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "NCHWc"])
@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("threads", [1, 3])
def test_against_float64(name, layout, threads, rng):
    """Bias, residual and an activation are part of what is rounded once."""
    shape, filters, parameters = SHAPES[name]
    x, w, b = draw(rng, *shape), draw(rng, *filters), draw(rng, filters[0])
    right = conv2d_reference(x, w, b, **parameters)
    residual = draw(rng, *right.shape)
    for activation in (None, "relu", ("prelu", rng.uniform(-1, 1, filters[0])), "silu"):
        arrays = {"input": to_layout(x, layout, 16), "residual": to_layout(residual, layout, 16)}
        conv = pplconv.Conv2d(
            w, b, **parameters, layout=layout, activation=activation, threads=threads
        )
        y = guarded(conv, arrays["residual"].shape, F16, **arrays, also=[w, b])
        again = pplconv.conv2d(
            **arrays, weight=w, bias=b, **parameters, layout=layout, activation=activation
        )
        assert again.dtype == F16 and again.tobytes() == y.tobytes()
        if layout == "NCHWc":
            assert not lanes_of_no_channel(y, filters[0]).view(np.uint16).any()
        y = from_layout(y, layout, filters[0])
        assert_convolution(y, x, w, b, residual=residual, activation=activation, **parameters)


def test_sums_are_longer_than_half_precision_could_make_them():
    """4096 ones: a sum in half precision would end at 2048."""
    x, w = np.ones((1, 4096, 2, 2), F16), np.ones((3, 4096, 1, 1), F16)
    np.testing.assert_array_equal(pplconv.conv2d(x, w), np.full((1, 3, 2, 2), 4096, F16))


@pytest.mark.parametrize("algorithm", ["im2col", "direct", "depthwise", "winograd"])
def test_subnormal_results_are_rounded_and_not_flushed(algorithm):
    """Half's subnormal numbers are normal in float32; only float32's own are flushed to zero."""
    least = 2.0**-24
    x = np.zeros((1, 1, 6, 6), F16)
    x[0, 0, ::2] = F16(5 * least)
    x[0, 0, 1::2] = F16(2.0**-14)
    w = np.zeros((1, 1, 3, 3), F16)
    w[0, 0, 1, 1] = 0.5
    y = pplconv.conv2d(x, w, padding=1, algorithm=algorithm, tolerance=1)
    if algorithm != "winograd":
        np.testing.assert_array_equal(y[0, 0, ::2], np.full((3, 6), 2 * least, F16))
    assert np.all(np.abs(y.astype(float)[0, 0, ::2] - 2.5 * least) <= 0.5 * least)
    np.testing.assert_array_equal(y[0, 0, 1::2], np.full((3, 6), 2.0**-15, F16))


def test_what_is_beyond_the_largest_half_is_infinite():
    x = np.array([300, -300, 255.875, 255.9], F16).reshape(1, 1, 1, 4)
    w = np.array([256], F16).reshape(1, 1, 1, 1)
    y = pplconv.conv2d(x, w)
    with np.errstate(over="ignore"):
        right = (x.astype(np.float32) * 256).astype(F16)
    np.testing.assert_array_equal(y, right)
    assert np.isposinf(y.flat[0]) and np.isneginf(y.flat[1]) and y.flat[2] == 65504
    # What comes back within the range before the rounding is finite.
    np.testing.assert_array_equal(pplconv.conv2d(x, w, activation="relu6").ravel(), [6, 0, 6, 6])
    residual = np.full((1, 1, 1, 4), -20000, F16)
    y = pplconv.conv2d(x, w, residual=residual)
    assert np.isfinite(y.flat[0]) and y.flat[0] == F16(76800 - 20000)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_special_values_pass_through(value, rng):
    x = draw(rng, 1, 4, 5, 5)
    x[0, 2, 2, 2] = value
    w = np.abs(draw(rng, 8, 4, 3, 3)) + F16(0.5)
    y = pplconv.conv2d(x, w, padding=1)
    expected = conv2d_reference(x, w, padding=1)
    np.testing.assert_array_equal(np.isnan(y), np.isnan(expected))
    np.testing.assert_array_equal(np.isinf(y), np.isinf(expected))


@pytest.mark.parametrize("form", ["swapped", "strided", "offset"])
def test_arrays_that_lie_otherwise(form, small):
    right = pplconv.conv2d(**small)
    x = small["input"]
    if form == "swapped":
        x = x.astype(x.dtype.newbyteorder())
    elif form == "strided":
        x = np.repeat(x, 2, axis=-1)[..., ::2]
    else:
        memory = np.zeros(x.nbytes + 1, np.uint8)
        x = np.ndarray(x.shape, F16, memory, 1)
        x[...] = small["input"]
    assert pplconv.conv2d(x, small["weight"]).tobytes() == right.tobytes()


def test_other_types_are_refused_and_the_message_says_which_are_not(small):
    with pytest.raises(TypeError, match="float16, bfloat16, float32 or float64, got dtype int"):
        pplconv.conv2d(small["input"].astype(np.int16), small["weight"])


@pytest.mark.parametrize("precision", [None, "fp32", "fp16"])
@pytest.mark.parametrize("dtype", [F16, np.float32])
def test_precision(precision, dtype, small):
    """Where nothing computes in half precision, all of them give the same."""
    arrays = {name: a.astype(dtype) for name, a in small.items()}
    y = pplconv.conv2d(**arrays, precision=precision)
    assert y.dtype == dtype
    assert_convolution(y, **arrays)
    conv = pplconv.Conv2d(arrays["weight"], precision=precision)
    assert conv(arrays["input"]).tobytes() == y.tobytes()
    assert conv.plan_for((2, 8, 9, 7)).compute == "f32"
    again = pickle.loads(pickle.dumps(conv))
    assert again(arrays["input"]).tobytes() == y.tobytes()


@pytest.mark.parametrize(
    ("precision", "error"), [("half", ValueError), ("f16", ValueError), (16, TypeError)]
)
def test_no_such_precision(precision, error, small):
    with pytest.raises(error, match=f"precision must be .*got {precision!r}"):
        pplconv.conv2d(**small, precision=precision)
    with pytest.raises(error, match=f"precision must be .*got {precision!r}"):
        pplconv.Conv2d(small["weight"], precision=precision)


def test_double_has_no_other_precision(small):
    arrays = {name: a.astype(np.float64) for name, a in small.items()}
    with pytest.raises(ValueError, match="precision must be None for float64 arrays, got 'fp32'"):
        pplconv.conv2d(**arrays, precision="fp32")


def test_the_plan_says_what_is_stored_and_what_is_computed(small):
    plan = pplconv.Conv2d(small["weight"]).plan_for((2, 8, 9, 7))
    assert (plan.dtype, plan.compute) == ("f16", "f32")
    assert "_f32_" in plan.kernel
    assert "f16 NCHW, computed in f32" in str(plan)
    assert plan.error_bound == direct_error_bound(72, numerics_of("f16", "f32"))
    assert 2.0**-11 < plan.error_bound < 2.0**-11 + 2e-6


@pytest.mark.parametrize("tolerance", [1e-5, 1e-3, 1.0])
def test_winograd_only_where_it_is_asked_for(tolerance, rng):
    """No tolerance makes the planner choose it; by name, a tolerance is that of float32."""
    w, shape = draw(rng, 256, 256, 3, 3), (1, 256, 56, 56)
    plan = pplconv.Conv2d(w, padding=1, tolerance=tolerance).plan_for(shape)
    assert plan.algorithm != "winograd"
    plan = pplconv.Conv2d(w, padding=1, algorithm="winograd", tolerance=tolerance).plan_for(shape)
    assert plan.algorithm == "winograd"
    assert plan.error_bound > 2.0**-11
    single = pplconv.Conv2d(w.astype("f4"), padding=1, algorithm="winograd", tolerance=tolerance)
    assert single.plan_for(shape).bits == plan.bits


def test_wisdom_is_kept_apart(small, tmp_path, monkeypatch):
    """What was found for float16 says nothing of float32."""
    monkeypatch.setenv("PPLCONV_WISDOM", str(tmp_path / "wisdom.json"))
    shape, team = (2, 8, 9, 7), {"threads": 1}
    conv = pplconv.Conv2d(small["weight"], search="exhaustive", search_seconds=0.2, **team)
    assert conv.plan_for(shape).search == "exhaustive"
    assert pplconv.Conv2d(small["weight"], **team).plan_for(shape).search == "wisdom"
    single = pplconv.Conv2d(small["weight"].astype(np.float32), **team)
    assert single.plan_for(shape).search == "estimate"
    wisdom.export(tmp_path / "exported.json")
    assert '"f16f32"' in (tmp_path / "exported.json").read_text()


def test_a_problem_knows_both_types():
    problem = ConvProblem.parse("mb1ic8ih9oc16kh3", dtype="f16")
    (numerics,) = problem.numerics
    assert (problem.dtype, problem.permitted, numerics.name) == ("f16", ("f32",), "f16f32")
    assert (numerics.source_bytes, numerics.operand_bytes, numerics.converts) == (2, 4, True)
    single = ConvProblem.parse("mb1ic8ih9oc16kh3")
    (numerics,) = single.numerics
    assert (numerics.name, numerics.converts, numerics.source_bytes) == ("f32", False, 4)
    assert str(problem) == str(single)


@pytest.mark.parametrize("block", [1, 3, 8, 16, 64])
@pytest.mark.parametrize("channels", [1, 5, 64, 70])
def test_blocks_and_back(block, channels, rng):
    """Every bit is kept, but for NaNs, which become quiet."""
    x = rng.integers(0, 1 << 16, (2, channels, 9, 13), np.uint16)
    x |= np.where((x & 0x7C00 == 0x7C00) & (x & 0x3FF != 0), 0x200, 0).astype(np.uint16)
    blocked = pplconv.to_blocked(x.view(F16), block)
    assert blocked.dtype == F16
    np.testing.assert_array_equal(blocked.view(np.uint16), in_blocks(x, block))
    planes = pplconv.from_blocked(blocked, channels)
    np.testing.assert_array_equal(planes.view(np.uint16), x)


def test_a_block_is_a_vector_of_what_is_computed_in(rng):
    x = draw(rng, 1, 40, 3, 3)
    assert pplconv.to_blocked(x).shape == pplconv.to_blocked(x.astype(np.float32)).shape


def test_the_caller_keeps_its_floating_point_state(small):
    """Flushing ends with the call: float32's own subnormal numbers are there again."""
    pplconv.conv2d(**small)
    tiny = np.float32(np.finfo(np.float32).tiny)
    assert np.float32(tiny / np.float32(4)) > 0


def test_no_kernel_that_computes_in_half_precision():
    problem = replace(ConvProblem.parse("mb1ic5ih9oc21kh3"), dtype="f16", permitted=("f16",))
    with pytest.raises(ValueError, match="no kernels here compute arrays of f16 in f16"):
        pplconv.planner.make_plan(problem)
