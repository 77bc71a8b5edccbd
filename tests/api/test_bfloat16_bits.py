"""Every candidate of products of bfloat16: near enough, and with the bits that it says it has."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import pplconv
from pplconv.numerics import BRAIN_KINDS, default_permission, numerics_of
from pplconv.planner.estimating import Request
from tests.api.candidates import (
    all_contexts,
    conv_problem,
    describe,
    every_candidate,
    force_plan,
    usable_isas,
)
from tests.api.problems import Problem
from tests.emulation import few

pytestmark = pytest.mark.narrow
# batch, groups, ic, oc, image, kernel, stride, padding, dilation: channels that are whole steps of
# instructions, whole groups, and neither.
SHAPES = {
    "1x1 of many channels": (1, 1, 3000, 35, (4, 5), (1, 1), 1, 0, 1),
    "odd channels": (1, 1, 17, 33, (9, 10), (3, 3), 1, 0, 1),
    "even channels": (1, 1, 40, 33, (9, 10), (3, 3), 1, 1, 1),
    "whole steps": (1, 1, 64, 33, (9, 10), (3, 3), 1, 1, 1),
    "taps that touch make whole steps": (1, 1, 16, 20, (9, 10), (3, 2), 1, 0, 1),
    "dilation": (1, 1, 24, 18, (12, 13), (3, 3), 1, 1, (2, 2)),
    "groups": (2, 2, 36, 22, (7, 9), (3, 3), 2, 1, 1),
}


@pytest.mark.parametrize("kind", BRAIN_KINDS)
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("shape", SHAPES)
def test_every_candidate(
    shape: str, layout: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    numerics = numerics_of("f32", kind)
    if usable_isas(numerics)[-1:] in ((), ("portable",)):
        return  # another machine's instruction; here float32 serves it
    plain = Problem("float32", layout, *SHAPES[shape], seed=3)
    problem = replace(conv_problem(plain), permitted=BRAIN_KINDS)
    arrays = plain.arrays()
    wide = {name: rounded(arrays[name]).astype(np.float64) for name in ("input", "weight")}
    exact = pplconv.conv2d(wide["input"], wide["weight"], **plain.parameters)
    seen: dict[tuple[str, str], bytes] = {}
    for around in all_contexts(numerics):
        request = Request(problem, tolerance=np.inf, threads=around.threads)
        for candidate in few(list(every_candidate(problem, around)), 5):
            plan = force_plan(monkeypatch, request, candidate, around.isa)
            y = pplconv.Conv2d(
                arrays["weight"], **plain.parameters, precision="low_bf16", threads=around.threads,
                input_shape=arrays["input"].shape,
            )(arrays["input"])  # fmt: skip
            error = np.abs(y - exact).max() / np.abs(exact).max()
            assert error <= plan.error_bound, describe(candidate)
            # Levels round in their own ways.
            first = seen.setdefault((plan.isa, plan.bits), y.tobytes())
            assert y.tobytes() == first, describe(candidate)
    assert seen


@pytest.mark.parametrize("kind", BRAIN_KINDS)
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("shape", SHAPES)
def test_tiles_round_as_conversions_do(
    shape: str, layout: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slope of 1 changes no number, but it is computed in float32, between sum and rounding."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    numerics = numerics_of("bf16", kind)
    if usable_isas(numerics)[-1:] in ((), ("portable",)):
        return  # another machine's instruction; here float32 serves it
    plain = Problem("float32", layout, *SHAPES[shape], seed=3, with_bias=True, with_residual=True)
    problem = replace(conv_problem(plain), dtype="bf16", permitted=default_permission("bf16"))
    arrays = {name: x.astype(ml_dtypes.bfloat16) for name, x in plain.arrays().items()}
    x, w, bias, residual = (arrays[n] for n in ("input", "weight", "bias", "residual"))
    ran = 0
    for around in all_contexts(numerics):
        request = Request(problem, tolerance=np.inf, threads=around.threads)
        for candidate in few(list(every_candidate(problem, around)), 5):
            force_plan(monkeypatch, request, candidate, around.isa)

            def convolve(activation, added, threads=around.threads):
                layer = pplconv.Conv2d(
                    w, bias, **plain.parameters | {"activation": activation}, threads=threads
                )
                return layer(x, residual=residual if added else None)

            for added in (False, True):
                y = convolve(None, added)
                same = convolve(("leaky_relu", 1.0), added)
                assert y.tobytes() == same.tobytes(), describe(candidate)
                clipped = convolve(("clip", -0.5, 0.75), added).astype(np.float32)
                expected = np.clip(y.astype(np.float32), -0.5, 0.75)
                assert (clipped == expected).all(), describe(candidate)
            ran += 1
    assert ran


def rounded(array: np.ndarray) -> np.ndarray:
    """float32 rounded to bfloat16, ties to even."""
    bits = array.view(np.uint32).astype(np.uint64)
    bits = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16 << 16
    return bits.astype(np.uint32).view(np.float32)


@pytest.mark.parametrize("algorithm", ["auto", "direct", "im2col"])
def test_weights_that_become_infinite(algorithm: str) -> None:
    """On padding they are left out, as infinite weights are."""
    w = np.full((2, 3, 3, 3), 1e-3, np.float32)
    w[0, 0, 0, 0] = 3.4e38  # beyond bfloat16's largest number
    x = np.ones((1, 4, 4, 3), np.float32)
    arguments = {"padding": 1, "layout": "NHWC", "algorithm": algorithm}
    for y in (
        pplconv.Conv2d(w, precision="low_bf16", **arguments)(x),
        pplconv.conv2d(x, w, precision="low_bf16", **arguments),
    ):
        assert np.isfinite(y[0, 0]).all() and np.isfinite(y[0, :, 0]).all()
        assert (y[0, 1:, 1:, 0] > 1e38).all()
