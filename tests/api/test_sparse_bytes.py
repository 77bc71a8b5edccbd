"""Sparse weights of integers: every candidate gives the exact sums, and those of dense loops."""

from __future__ import annotations

import numpy as np
import pytest

from pplconv.numerics import numerics_of
from pplconv.planner.estimating import Request
from tests.api.blocks import to_layout
from tests.api.candidates import all_contexts, describe, every_candidate, force_plan, usable_isas
from tests.api.pruned import prune, sparsity_of
from tests.api.quantized_kernel_cases import RANGES, Case
from tests.api.test_winograd_bytes import DESTINATIONS, numbers_of
from tests.emulation import few
from tests.levels import allowed_isas

pytestmark = pytest.mark.narrow

# groups, ic, oc, image, kernel, padding, stride
SHAPES = {
    "1x1": (1, 37, 70, (7, 9), (1, 1), ((0, 0), (0, 0)), 1),
    "1x1 of many pixels": (1, 19, 24, (13, 19), (1, 1), ((0, 0), (0, 0)), 1),
    "3x3": (1, 21, 35, (13, 11), (3, 3), ((1, 1), (1, 1)), 1),
    "borders": (2, 10, 54, (6, 5), (3, 5), ((0, 2), (3, 1)), 1),
    "stride": (1, 9, 23, (15, 14), (3, 3), ((1, 1), (1, 1)), 2),
}


def drawn(rng, shape: str, x_dtype: str, out: str, block: int, density: float) -> Case:
    """Draw a convolution whose weights are pruned in blocks."""
    groups, ic, oc, image, kernel, padding, stride = SHAPES[shape]
    low, high, dtype = RANGES[x_dtype]
    weight = rng.integers(-128, 128, (oc * groups, ic, *kernel)).astype(np.int8)
    geometry = {
        "stride": (stride, stride), "padding": padding, "dilation": (1, 1), "groups": groups,
    }  # fmt: skip
    return Case(
        rng.integers(low, high + 1, (2, ic * groups, *image)).astype(dtype),
        prune(weight, groups, block, density, int(rng.integers(1 << 30))),
        numbers_of(rng, x_dtype, int(rng.integers(low, high + 1)), oc * groups, out),
        geometry,
    )


@pytest.mark.sampled(3)
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("product", ["u8", "s8", "s16"])
@pytest.mark.parametrize("shape", SHAPES)
def test_every_candidate(shape, product, layout, rng, monkeypatch):
    """Of each kind of product, with tiny caches, teams, lower levels, and any zero point."""
    run = 0
    for index, block in enumerate((1, 4, 8, 16)):
        for x_dtype in ("u8", "s8"):
            if (x_dtype, product) == ("u8", "s8"):
                x_dtype = "s8"
            out = DESTINATIONS[(index + len(x_dtype + product)) % len(DESTINATIONS)]
            density = (0.3, 0.0, 1.0, 0.05)[int(rng.integers(4))]
            case = drawn(rng, shape, x_dtype, out, block, density)
            numerics = numerics_of(x_dtype, product, out)
            if not usable_isas(numerics):
                pytest.fail("every machine has portable kernels")
            sparsity = sparsity_of(case.weight, case.geometry["groups"], block)
            problem = case.problem(layout, permitted=(product,), sparsity=sparsity)
            expected = case.expected()
            for around in all_contexts(numerics):
                request = Request(problem, "sparse", 0.0, around.threads)
                found = [c for c in every_candidate(problem, around) if c.algorithm == "sparse"]
                assert found
                for candidate in few(found, 3):
                    plan = force_plan(monkeypatch, request, candidate, around.isa)
                    monkeypatch.setattr(
                        "pplconv.ops.quantized.quantized_run.product_permission",
                        lambda *_: (product,),
                    )
                    sparse = {"algorithm": "sparse", "sparse": True, "block": (1, block)}
                    kernel = case.kernel(layout, **sparse, threads=around.threads)
                    assert plan.bits == "exact sum"
                    got = case.run(kernel)
                    np.testing.assert_array_equal(got, expected, str(describe(candidate)))
                    run += 1
    assert run


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("cap", allowed_isas())
def test_exact_at_every_level(cap, layout, rng, monkeypatch):
    """What the planner chooses, and dense loops, give one result."""
    monkeypatch.setenv("PPLCONV_MAX_ISA", cap)
    for shape in SHAPES:
        case = drawn(rng, shape, "u8", "u8", 4, 0.25)
        kernel = case.kernel(layout, algorithm="sparse", sparse=True, block=(1, 4))
        assert kernel.plan_for(to_layout(case.x, layout).shape).algorithm == "sparse"
        np.testing.assert_array_equal(case.run(kernel), case.expected())
        np.testing.assert_array_equal(case.run(case.kernel(layout)), case.expected())
