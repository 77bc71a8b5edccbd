"""Depthwise convolution of bytes through the loops: exact for any layout, team and cap."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import pplconv
from pplconv.algorithms import PlanContext, depthwise_bytes
from pplconv.numerics import numerics_of
from pplconv.ops.quantized.quantized_run import QuantizedKernel
from pplconv.planner.target import here
from pplconv.problem import ConvProblem
from pplconv.schedules import compile_plan
from tests.api.blocks import from_layout, to_layout
from tests.emulation import few
from tests.levels import allowed_isas
from tests.quantized_reference import integer_sums

TYPES = {"u8": np.uint8, "s8": np.int8}
# Kernel and stride: those with loops of their own, and one without.
KERNELS = ((3, 1), (3, 2), (5, 1), (5, 2), (4, 1))

pytestmark = pytest.mark.narrow


@pytest.mark.sampled(13)
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("dtype", sorted(TYPES))
@pytest.mark.parametrize(("size", "stride"), KERNELS)
@pytest.mark.parametrize("isa", allowed_isas())
def test_exact(monkeypatch, rng, isa, layout, dtype, size, stride):
    """Channels that end inside units, multipliers, wide weights, teams; padding is the zero."""
    monkeypatch.setenv("PPLCONV_MAX_ISA", isa)
    info = np.iinfo(TYPES[dtype])
    cases = itertools.product((2, 33, 70, 130), (1, 3), (1, 3), (127, 255))
    for channels, multiplier, threads, largest in few(cases, 4):
        shape = (int(rng.integers(1, 3)), channels, *(int(v) for v in rng.integers(size, 30, 2)))
        x = rng.integers(info.min, info.max + 1, shape).astype(TYPES[dtype])
        w = rng.integers(-largest, largest + 1, (channels * multiplier, 1, size, size))
        w = w.astype(np.int8 if largest < 128 else np.int16)
        x_zero = int(rng.integers(info.min, info.max + 1))
        offset = rng.integers(-9999, 9999, len(w)).astype(np.int32)
        geometry = {"stride": stride, "padding": size // 2, "groups": channels}
        kernel = QuantizedKernel(
            w, dtype, x_zero, offset, "s32", **geometry, layout=layout, threads=threads,
            algorithm="depthwise",
        )  # fmt: skip
        given = to_layout(x, layout)
        got = from_layout(kernel(given), layout)
        expected = integer_sums(x, w, x_zero, **geometry) + offset[:, np.newaxis, np.newaxis]
        np.testing.assert_array_equal(got, expected, err_msg=f"{shape} {multiplier} {threads}")
        assert "depthwise_bytes" in kernel.plan_for(given.shape).kernel


def fields_of(layout):
    """Fields of a candidate that the loops take, and the instruction set."""
    target = here()
    problem = ConvProblem(
        1, 70, 70, 9, 11, 140, 9, 11, 3, 3, (1, 1), (1, 1), ((1, 1), (1, 1)), "u8", layout,
        permitted=("u8d",),
    )  # fmt: skip
    isa = target.isas("u8d")[-1]
    lanes, tiles = target.tiles("u8d", isa)
    around = PlanContext(target.machine, numerics_of("u8", "u8d"), isa, tiles, lanes, 1)
    (candidate,) = depthwise_bytes.candidates(problem, around)
    return candidate.fields(1), isa


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize(
    "change",
    [
        {"unit": 3},
        {"unit_bytes": 16},
        {"channel_chunk": 0},
        {"row_chunk": 1000},
        {"channel_chunk": 1},
        {"channel_segment": 7},
        {"row_segment": 2},
        {"out_offset": 2},
        {"packed_weight_bytes": 64},
        {"scratch_bytes": 0},
        {"tasks": 2},
    ],
    ids=str,
)
def test_plans_that_do_not_fit_are_refused(layout, change):
    """Whatever a plan says, nothing is read or written outside of arrays and scratch."""
    fields, isa = fields_of(layout)
    compile_plan(fields, isa)
    with pytest.raises(ValueError, match=r"\w"):
        compile_plan(fields | change, isa)


@pytest.mark.parametrize("dtype", sorted(TYPES))
def test_one_channel_is_refused_with_the_reason(dtype):
    """Its products are those of other convolutions, which depthwise loops do not have."""
    x, w = np.ones((1, 1, 9, 9), TYPES[dtype]), np.ones((1, 1, 3, 3), np.int8)
    reason = r'algorithm="depthwise" cannot serve .*: with bytes it needs two groups or more$'
    with pytest.raises(ValueError, match=reason):
        pplconv.conv2d_integer(x, w, algorithm="depthwise")
    with pytest.raises(ValueError, match=reason):
        pplconv.conv2d_integer(x, w, w_zero_point=np.int8(-128), algorithm="depthwise")
    with pytest.raises(ValueError, match=r"groups that see one channel each$"):
        pplconv.conv2d_integer(x.repeat(4, axis=1), w.repeat(4, axis=1), algorithm="depthwise")
    assert pplconv.conv2d_integer(x, w).shape == (1, 1, 7, 7)
