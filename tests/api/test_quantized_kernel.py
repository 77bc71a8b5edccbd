"""Convolutions of integers through planner and loops: exact, whatever serves them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pplconv.numerics import numerics_of
from pplconv.problem import ConvProblem
from tests.api.blocks import to_layout
from tests.api.candidates import all_contexts, every_candidate, usable_isas
from tests.api.quantized_kernel_cases import RANGES, Case, draw
from tests.levels import allowed_isas

pytestmark = pytest.mark.narrow
SEEDS = range(40)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_values(seed: int, layout: str) -> None:
    case = draw(seed)
    kernel = case.kernel(layout)
    np.testing.assert_array_equal(case.run(kernel), case.expected())
    plan = kernel.plan_for(to_layout(case.x, layout).shape)
    assert plan.error_bound == 0.0
    assert plan.bits == "exact sum"


@pytest.mark.parametrize("cap", allowed_isas())
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_every_level_gives_the_same(cap: str, layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All kinds of products that are left under a cap."""
    monkeypatch.setenv("PPLCONV_MAX_ISA", cap)
    for seed in range(100, 108):
        case = draw(seed)
        np.testing.assert_array_equal(case.run(case.kernel(layout)), case.expected())


@pytest.mark.sampled(2)
@pytest.mark.parametrize("threads", [1, 2, 3, 7])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_every_team_gives_the_same(threads: int, layout: str) -> None:
    """Images large enough for a team to pay."""
    case = whole("u8", 3, 2, 256, "s8")
    rng = np.random.default_rng(threads)
    case.x = rng.integers(0, 256, (2, 256, 34, 35)).astype(np.uint8)
    case.weight = rng.integers(-128, 128, (96, 256, 3, 3)).astype(np.int8)
    case.numbers |= {
        "x_zero": 120, "offset": rng.integers(-100, 100, 96).astype(np.int32), "low": -128,
        "high": 127, "multiplier": (rng.random(96) * 1e-4).astype(np.float32), "y_zero": 0,
    }  # fmt: skip
    kernel = case.kernel(layout, threads=threads)
    np.testing.assert_array_equal(case.run(kernel), case.expected())
    assert kernel.plan_for(to_layout(case.x, layout).shape).threads == threads


def whole(x_dtype: str, fill: int, weight: int, k: int, out: str = "s32") -> Case:
    """Sums of the largest products: of `k` channels, with 3x3 taps and padding."""
    dtype = RANGES[x_dtype][2]
    numbers = {
        "x_dtype": x_dtype, "x_zero": 0, "offset": np.zeros(5, np.int32), "out_dtype": out,
        "multiplier": np.ones(5, np.float32), "low": -np.inf, "high": np.inf,
    }  # fmt: skip
    geometry = {"stride": (1, 1), "padding": ((1, 1), (1, 1)), "dilation": (1, 1), "groups": 1}
    return Case(
        np.full((1, k, 6, 7), fill, dtype),
        np.full((5, k, 3, 3), weight, np.int8),
        numbers,
        geometry,
    )


@pytest.mark.parametrize("cap", allowed_isas())
@pytest.mark.parametrize(
    ("kind", "fill", "weight"), [("u8", 255, -128), ("u8", 255, 127), ("s8", -128, -128)]
)
def test_no_sum_saturates(
    cap: str, kind: str, fill: int, weight: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PPLCONV_MAX_ISA", cap)
    case = whole(kind, fill, weight, 200)
    for layout in ("NCHW", "NHWC"):
        np.testing.assert_array_equal(case.run(case.kernel(layout)), case.expected())


def test_what_plans_say() -> None:
    case = whole("u8", 3, 2, 64, "s8")
    plan = case.kernel("NHWC").plan_for((1, 6, 7, 64))
    assert plan.numerics == numerics_of("u8", plan.compute, "s8")
    assert "u8 NHWC to s8" in str(plan)


def test_search_measures_and_changes_nothing() -> None:
    case = draw(3)
    searched = case.kernel("NHWC", search="measure", search_seconds=0.05)
    np.testing.assert_array_equal(case.run(searched), case.expected())
    assert searched.plan_for(to_layout(case.x, "NHWC").shape).seconds is not None


def test_wisdom_tells_kinds_of_product_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them have the same bits, and may have the same blocks."""
    monkeypatch.setenv("PPLCONV_WISDOM", str(tmp_path / "wisdom.json"))
    case = whole("u8", 3, 2, 64, "s8")
    shape = to_layout(case.x, "NHWC").shape
    found = case.kernel("NHWC", search="measure", search_seconds=0.1, threads=1).plan_for(shape)
    known = case.kernel("NHWC", threads=1).plan_for(shape)
    assert (found.search, known.search) == ("measure", "wisdom")
    assert (known.compute, known.blocks) == (found.compute, found.blocks)
    assert known.blocks["product"] == known.compute


@pytest.mark.parametrize("channels", [3, 4, 6, 64])
def test_packings_of_one_name_are_one(channels: int) -> None:
    """Weights packed for one plan serve every other plan that names the same format."""
    text = f"mb1ic{channels}ih12oc40kh3ph1"
    problem = replace(ConvProblem.parse(text, "u8", "NHWC"), permitted=("u8t", "u8", "s8", "s16"))
    sizes: dict[tuple[str, str], set[int]] = {}
    for numerics in problem.numerics:
        for around in all_contexts(numerics) if usable_isas(numerics) else ():
            for candidate in every_candidate(problem, around):
                name = candidate.packing, numerics.weights
                sizes.setdefault(name, set()).add(candidate.packed_weight_bytes)
    assert sizes
    assert {name: found for name, found in sizes.items() if len(found) > 1} == {}


def test_many_shapes_keep_their_plans_apart() -> None:
    case = draw(5)
    kernel = case.kernel("NCHW")
    rng = np.random.default_rng(0)
    for size in (*range(12, 32), 12):
        shape = (1, case.x.shape[1], size, size)
        case.x = rng.integers(0, 100, shape).astype(case.x.dtype)
        case.residual = None
        np.testing.assert_array_equal(case.run(kernel), case.expected())


def test_refusals() -> None:
    case = draw(1)
    kernel = case.kernel("NCHW")
    with pytest.raises(TypeError, match="input must be"):
        kernel(case.x.astype(np.int32))
    with pytest.raises(ValueError, match="NCHWc"):
        case.kernel("NCHWc")


def test_algorithms_without_narrow_products_say_so() -> None:
    case = whole("u8", 3, 2, 16)
    with pytest.raises(ValueError, match='algorithm="im2col" cannot serve'):
        case.kernel("NCHW", algorithm="im2col").plan_for(case.x.shape)


@pytest.mark.parametrize("algorithm", ["direct", "im2col"])
@pytest.mark.parametrize("seed", range(300, 312))
def test_each_algorithm(algorithm: str, seed: int) -> None:
    case = draw(seed)
    kernel = case.kernel("NHWC", algorithm=algorithm)
    np.testing.assert_array_equal(case.run(kernel), case.expected())
    assert kernel.plan_for(to_layout(case.x, "NHWC").shape).algorithm == algorithm


def test_empty_batches() -> None:
    case = draw(7)
    case.residual, case.x = None, case.x[:0]
    assert case.run(case.kernel("NHWC")).shape[0] == 0
