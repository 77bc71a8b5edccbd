"""How sparse weights are found to be, and which ``sparse=`` and ``block=`` are taken."""

from __future__ import annotations

import numpy as np
import pytest

import pplconv
from pplconv.memory.array_like import bfloat16_dtype
from pplconv.ops.sparse import sparse_weights
from pplconv.ops.sparse.sparse_weights import sparsity_of, stored_weights
from pplconv.sparsity import BLOCKS, Sparsity, checked_block
from tests.api.pruned import prune, stored

SHAPES = {
    "3x3": ((37, 11, 3, 3), 1),
    "groups": ((54, 5, 3, 1), 3),
    "many groups": ((600, 2, 1, 1), 200),
    "few channels": ((3, 200, 1, 1), 1),
    "more than a piece": ((70, 150, 5, 5), 1),
    "long rows": ((33, 9000, 1, 1), 1),
    "matrix": ((64, 130), 1),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("density", [0.0, 0.3, 1.1])
def test_weights_are_counted_in_blocks(shape, block, density, rng):
    sizes, groups = SHAPES[shape]
    weight = prune(rng.standard_normal(sizes), groups, block, density, 3)
    expected = {width: stored(weight, groups, width) for width in BLOCKS}
    assert stored_weights(weight, groups, BLOCKS) == expected
    turned = weight.T.copy().T  # lies the other way round
    assert stored_weights(turned, groups, BLOCKS) == expected


@pytest.mark.parametrize(
    "kind", ["float16", "float32", ">f4", ">f2", "float64", "int8", "bfloat16"]
)
def test_what_is_zero(kind):
    """Negative zeros are, NaN and the smallest numbers are not."""
    dtype = bfloat16_dtype() if kind == "bfloat16" else np.dtype(kind)
    if dtype is None:
        pytest.skip("no ml_dtypes")
    numbers = [0.0, -0.0, 1.0, -1.0]
    if kind != "int8":
        numbers += [np.nan, np.inf, -np.inf, -0.0]
    weight = np.array(numbers, np.float32).astype(dtype).reshape(1, -1, 1, 1)
    assert stored_weights(weight, 1, [1]) == {1: int(np.count_nonzero(numbers))}
    if kind in ("float16", "float32", "float64"):
        least = np.full((1, 5, 1, 1), np.finfo(dtype).smallest_subnormal, dtype)
        assert stored_weights(-least, 1, [1]) == {1: 5}


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("channels", [64, 71])
def test_the_widest_block_that_fits_is_chosen(block, channels, rng):
    weight = prune(rng.standard_normal((channels, 24, 3, 3)), 1, block, 0.3, 5)
    found = sparsity_of(weight, 1, "auto")
    assert found == Sparsity.of(block, stored(weight, 1, block), weight.size)
    assert sparsity_of(weight, 1, True) == found
    assert sparsity_of(weight, 1, False) is None


def test_blocks_may_store_a_few_zeros(rng):
    weight = prune(rng.standard_normal((64, 100, 1, 1)), 1, 8, 0.5, 5)
    there = np.argwhere(weight)
    few = there[rng.permutation(len(there))]
    for share, block in ((0.03, 8), (0.2, 1)):
        thinned = weight.copy()
        thinned[tuple(few[: int(share * len(few))].T)] = 0
        assert sparsity_of(thinned, 1, "auto").block == block


def test_blocks_do_not_cross_groups(rng):
    weight = prune(rng.standard_normal((48, 20, 1, 1)), 4, 4, 0.4, 5)  # 12 channels in each
    assert sparsity_of(weight, 4, "auto").block == 4
    few = prune(rng.standard_normal((12, 20, 1, 1)), 4, 4, 0.4, 5)  # 3
    assert sparsity_of(few, 4, "auto").block == 1


@pytest.mark.parametrize("size", [40, 700])
def test_dense_weights_are_not_of_interest(size, rng):
    """Their problems, plans and wisdom name no sparsity."""
    weight = rng.standard_normal((64, size, 3, 3)).astype(np.float32)
    flat = weight.reshape(-1)
    flat[rng.permutation(flat.size)[: int(0.09 * flat.size)]] = 0
    assert sparsity_of(weight, 1, "auto") is None
    assert sparsity_of(weight, 1, True).density > 900
    flat[rng.permutation(flat.size)[: int(0.06 * flat.size)]] = 0
    assert sparsity_of(weight, 1, "auto") is not None
    assert sparsity_of(np.ones((64, size, 3, 3)), 1, True) == Sparsity(16, 1000)


def test_zeros_of_whole_channels_are_found(rng):
    """Whatever the period of the zeros, those that are looked at first do not miss them."""
    for period in (2, 3, 4, 5, 8):
        weight = rng.standard_normal((256, 256, 3, 3)).astype(np.float32)
        weight[:, ::period] = 0
        assert sparsity_of(weight, 1, "auto").density <= 1000 - 1000 // period + 5
        weight = rng.standard_normal((256, 256, 3, 3)).astype(np.float32)
        weight[::period] = 0
        assert sparsity_of(weight, 1, "auto").density <= 1000 - 1000 // period + 5


def test_dense_weights_are_hardly_looked_at(monkeypatch, rng):
    looked = []
    differs = sparse_weights._differs_from_zero
    monkeypatch.setattr(
        sparse_weights, "_differs_from_zero", lambda w: looked.append(w.size) or differs(w)
    )
    weight = rng.standard_normal((512, 512, 3, 3)).astype(np.float32)
    assert sparsity_of(weight, 1, "auto") is None
    assert sum(looked) < weight.size // 50


def test_depthwise_stays_dense():
    weight = np.zeros((12, 1, 3, 3), np.float32)
    assert sparsity_of(weight, 12, "auto") is None
    with pytest.raises(ValueError, match=r"\bsparse\b.*depthwise"):
        pplconv.Conv2d(weight, groups=12, sparse=True)
    pplconv.Conv2d(weight, groups=12)
    assert sparsity_of(weight, 1, "auto") is not None  # one input channel alone


# Arguments ---------------------------------------------------------------------------------------


def conv(**arguments):
    return pplconv.Conv2d(np.ones((8, 4, 3, 3), np.float32), **arguments)


def linear(**arguments):
    return pplconv.Linear(np.ones((8, 4), np.float32), **arguments)


def quantized(**arguments):
    return pplconv.QConv2d(np.ones((8, 4, 3, 3), np.int8), out_dtype="int32", **arguments)


LAYERS = [conv, linear, quantized]


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize(
    ("arguments", "error", "name"),
    [
        ({"sparse": "never"}, ValueError, "sparse"),
        ({"sparse": None}, TypeError, "sparse"),
        ({"sparse": 1}, TypeError, "sparse"),
        ({"sparse": np.ones(30)}, TypeError, "sparse"),
        ({"block": 4}, TypeError, "block"),
        ({"block": "14"}, TypeError, "block"),
        ({"block": (4, 1)}, ValueError, "block"),
        ({"block": (1, 2)}, ValueError, "block"),
        ({"block": (1, 32)}, ValueError, "block"),
        ({"block": (1,)}, ValueError, "block"),
        ({"block": (1, 4.0)}, TypeError, "block"),
        ({"block": (True, 4)}, TypeError, "block"),
        ({"sparse": False, "block": (1, 4)}, ValueError, "block"),
    ],
)
def test_what_is_refused(layer, arguments, error, name):
    with pytest.raises(error, match=rf"\b{name}\b"):
        layer(**arguments)


@pytest.mark.parametrize("layer", [conv, quantized])
def test_an_algorithm_that_contradicts(layer):
    with pytest.raises(ValueError, match=r"algorithm.*sparse=True.*'direct'"):
        layer(sparse=True, algorithm="direct")
    with pytest.raises(ValueError, match=r'algorithm="sparse".*sparse=False'):
        layer(sparse=False, algorithm="sparse")
    with pytest.raises(ValueError, match="algorithm must be one of"):
        layer(algorithm="sparser")


def test_sparse_and_its_algorithm_are_the_same():
    for asked in (conv(sparse=True), conv(algorithm="sparse"), conv(sparse=np.True_)):
        assert (asked.sparse, asked.algorithm, asked.block) == (True, "sparse", None)
    both = conv(sparse=True, algorithm="sparse", block=[1, np.int64(8)])
    assert (both.sparse, both.algorithm, both.block) == (True, "sparse", (1, 8))
    assert (conv().sparse, conv().algorithm) == ("auto", "auto")
    assert linear(sparse=True, block=(1, 16)).block == (1, 16)
    assert linear(sparse=False).sparse is False


def test_a_block_says_how_weights_are_stored(rng):
    weight = prune(rng.standard_normal((64, 24, 1, 1)).astype(np.float32), 1, 8, 0.25, 5)
    for width in BLOCKS:
        for sparse in ("auto", True):
            layer = pplconv.Conv2d(weight, sparse=sparse, block=(1, width))
            plan = layer.plan_for((1, 24, 9, 9))
            assert plan.sparsity == Sparsity.of(width, stored(weight, 1, width), weight.size)
    assert pplconv.Conv2d(weight).plan_for((1, 24, 9, 9)).sparsity.block == 8
    dense = pplconv.Conv2d(np.ones((64, 24, 1, 1), np.float32), block=(1, 4))
    assert dense.plan_for((1, 24, 9, 9)).sparsity is None


def test_blocks_alone():
    assert checked_block((1, np.int32(4))) == (1, 4)
    for block in (None, {1, 4}, 4):
        with pytest.raises(TypeError, match="block"):
            checked_block(block)


def test_plans_of_dense_weights_are_what_they_were(rng):
    weight = rng.standard_normal((32, 16, 3, 3)).astype(np.float32)
    shape = (1, 16, 20, 20)
    plans = [
        pplconv.Conv2d(weight, padding=1, sparse=sparse).plan_for(shape)
        for sparse in ("auto", False)
    ]
    assert plans[0] == plans[1] and str(plans[0]) == str(plans[1])
    assert "sb" not in plans[0].problem and "sparsity" not in str(plans[0])
    matrix = weight[:, :, 0, 0]
    assert pplconv.Linear(matrix).plan_for((5, 16)) == pplconv.Linear(
        matrix, sparse=False
    ).plan_for((5, 16))
