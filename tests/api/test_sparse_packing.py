"""Packed terms: sized by what is stored, refused where loops could not follow them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import pplconv
from pplconv import planner
from pplconv.ops.prepared import PackedWeights, Prepared
from pplconv.problem import ConvProblem
from pplconv.sparsity import Sparsity
from tests.api.blocks import to_layout
from tests.api.pruned import prune, sparsity_of

TEXT = "mb1ic24ih9oc37kh3ph1"


def prepared(weight: np.ndarray, block: int, sparsity: Sparsity | None = None) -> Prepared:
    """Plan the convolution of `TEXT` by pruned weights."""
    sparsity = sparsity or sparsity_of(weight, 1, block)
    problem = replace(ConvProblem.parse(TEXT), sparsity=sparsity)
    plan, fields = planner.make_plan(problem, algorithm="sparse", threads=1)
    return Prepared(problem, plan, fields, 1)


@pytest.fixture(params=[1, 4, 8, 16])
def case(request, rng):
    weight = rng.standard_normal((37, 24, 3, 3)).astype(np.float32)
    weight = prune(weight, 1, request.param, 0.3, 1)
    return weight, request.param


def test_packed_weights_of_elsewhere_are_taken(case):
    weight, block = case
    made = prepared(weight, block)
    copy = bytearray(PackedWeights(made, weight))
    PackedWeights(made, weight, copy)


def test_steps_and_places_that_lead_elsewhere_are_refused(case, rng):
    """Each number of the table, and steps, with others in their place."""
    weight, block = case
    made = prepared(weight, block)
    packed = np.frombuffer(bytes(PackedWeights(made, weight)), np.uint8)
    panels = 37 // block + 37 % block if made.plan.blocks["orientation"] == "pixels" else None
    assert panels is not None, "NCHW has vectors of pixels"
    blocks = -(-(24 * 9) // made.plan.blocks["k_block"])
    entries = 37 // block * (block // made.plan.blocks["panel"]) + 37 % block
    entries = entries * blocks + 1
    table_bytes = -(-16 * entries // 64) * 64
    terms = int(packed[: 16 * entries].view(np.int64)[2 * entries - 2])
    for _ in range(40):
        bad = packed.copy()
        if rng.random() < 0.5:
            numbers = bad[: 16 * entries].view(np.int64)
            numbers[rng.integers(len(numbers))] += rng.choice([-(1 << 40), -1, 1, 7, 1 << 33])
        else:
            steps = bad[table_bytes : table_bytes + 4 * terms].view(np.int32)
            wrong = rng.choice([-(1 << 28), -(1 << 31), 1 << 20, (1 << 31) - 1])
            steps[rng.integers(terms)] = wrong
        with pytest.raises(ValueError, match="not what the plan's loops can follow"):
            PackedWeights(made, weight, bytearray(bad))


def test_weights_that_are_denser_than_their_plan_are_refused(case):
    weight, block = case
    made = prepared(weight, block, Sparsity(block, 20))
    with pytest.raises(ValueError, match="more weights that are not zero than the plan is for"):
        PackedWeights(made, weight)


def test_memory_follows_density(rng):
    weight = rng.standard_normal((64, 128, 3, 3)).astype(np.float32)
    sizes = {}
    for density in (0.05, 0.1, 0.25, 0.5, 1.0):
        pruned = prune(weight, 1, 4, density, 0)
        conv = pplconv.Conv2d(pruned, padding=1, sparse=True, block=(1, 4))
        sizes[density] = conv.plan_for((1, 128, 14, 14)).packed_weight_bytes
        stored = np.count_nonzero(pruned)
        # Five bytes for four, the table of panels, and a thousandth of rounding up.
        assert stored * 5 <= sizes[density] <= (stored + weight.size / 1000) * 5 + 4096
    assert sizes[0.05] < sizes[0.1] < sizes[0.25] < sizes[0.5] < sizes[1.0]


@pytest.mark.parametrize("block", [1, 4, 16])
def test_a_million_columns(block, rng):
    """Steps reach across them, wherever the few weights are."""
    columns = 1_000_000
    weight = np.zeros((19, columns), np.float32)
    places = np.concatenate([[0, columns - 1], rng.integers(0, columns, 20)])
    weight[:, places] = rng.standard_normal((19, len(places)))
    weight[3] = 0
    x = rng.standard_normal((2, columns)).astype(np.float32)
    layer = pplconv.Linear(weight, sparse=True, block=(1, block))
    assert layer.plan_for(x.shape).algorithm == "sparse"
    expected = x.astype(np.float64) @ weight.T.astype(np.float64)
    np.testing.assert_allclose(layer(x), expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(layer(x)[:, 3], 0)


@pytest.mark.parametrize("threads", [2, 3, 5])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_teams_share_uneven_weights(threads, layout, rng):
    """All weights are in a few channels: parts weigh the same, and bits are those of one thread."""
    weight = np.zeros((96, 64, 1, 1), np.float32)
    weight[40:48] = rng.standard_normal((8, 64, 1, 1))
    weight[90] = rng.standard_normal((64, 1, 1))
    x = to_layout(rng.standard_normal((1, 64, 5, 7)).astype(np.float32), layout)
    settings = {"layout": layout, "sparse": True, "block": (1, 4)}
    alone = pplconv.Conv2d(weight, threads=1, **settings)(x)
    team = pplconv.Conv2d(weight, threads=threads, **settings)(x)
    assert alone.tobytes() == team.tobytes()
