"""Pruning by magnitude: which weights stay, exactly how many, and what is refused."""

from __future__ import annotations

import doctest
import math
from pathlib import Path

import numpy as np
import pytest

import pplconv
from pplconv.memory.array_like import bfloat16_dtype
from pplconv.prune import magnitude
from pplconv.sparsity import BLOCKS

SHAPES = [(37, 5, 3, 3), (16, 30), (5, 7), (20, 3, 2), (64, 2, 3, 3, 2)]


def blocks_of(weight, groups, width):
    """Give whole blocks (groups, blocks, width, k), and the channels beyond them."""
    rows = weight.reshape(groups, weight.shape[0] // groups, -1)
    whole = rows.shape[1] // width
    return (
        rows[:, : whole * width].reshape(groups, whole, width, rows.shape[2]),
        rows[:, whole * width :],
    )


def rounded(density, count):
    return math.floor(density * count + 0.5)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("width", BLOCKS)
@pytest.mark.parametrize("density", [0, 0.1, 0.25, 0.5, 1 / 3, 1])
def test_the_largest_stay(shape, width, density, rng):
    weight = rng.standard_normal(shape).astype(np.float32)
    before = weight.copy()
    pruned = magnitude(weight, density, (1, width))
    np.testing.assert_array_equal(weight, before)
    assert pruned.shape == shape and pruned.dtype == weight.dtype
    kept = pruned != 0
    np.testing.assert_array_equal(pruned[kept], weight[kept])
    for own, all_of_them in zip(
        blocks_of(pruned, 1, width), blocks_of(weight, 1, width), strict=True
    ):
        if not own.size:
            continue
        axis = 2 if own.ndim == 4 else ()
        there = (own != 0).any(axis)
        assert ((own != 0).all(axis) == there).all(), "blocks stay as a whole"
        assert there.sum() == rounded(density, there.size)
        norms = np.square(all_of_them.astype(np.float64)).sum(axis)
        if there.any() and not there.all():
            assert norms[there].min() >= norms[~there].max()


def test_groups_have_blocks_of_their_own(rng):
    weight = rng.standard_normal((18, 4, 3, 3))  # 6 channels in each group
    pruned = magnitude(weight, 0.5, (1, 4), groups=3)
    whole, rest = blocks_of(pruned != 0, 3, 4)
    assert (whole.any(2) == whole.all(2)).all()
    assert whole.any(2).sum() == 3 * 36 // 2 and rest.sum() == 3 * 2 * 36 // 2
    pplconv.Conv2d(pruned, groups=3, block=(1, 4))


def test_equal_ones_stay_by_their_place():
    weight = np.ones((8, 6), np.float32)
    pruned = magnitude(weight, 0.5, (1, 4))
    expected = np.zeros((8, 6))
    expected[:4] = 1  # the first blocks in memory
    np.testing.assert_array_equal(pruned, expected)
    signs = np.where(np.arange(12) % 2, 1.0, -1.0).reshape(3, 4)
    np.testing.assert_array_equal(magnitude(signs, 0.5, (1, 1)).nonzero()[0], [0, 0, 0, 0, 1, 1])


def test_many_equal_ones_beside_larger():
    weight = np.ones((4, 1000))
    weight[1, 700], weight[3, 999] = 2, -3
    pruned = magnitude(weight, 0.5, (1, 1))
    assert np.count_nonzero(pruned) == 2000
    assert pruned[1, 700] == 2 and pruned[3, 999] == -3
    assert pruned[0].all() and np.count_nonzero(pruned[1]) == 999  # 998 of 1, and the 2


@pytest.mark.parametrize("scale", [1e-320, 1e-200, 1e200, 1e307])
def test_very_large_and_very_small_numbers(scale, rng):
    weight = rng.uniform(1, 2, (8, 12)) * scale
    expected = weight != 0
    smallest = np.argsort(weight.reshape(-1), kind="stable")[:48]
    expected.reshape(-1)[smallest] = False
    pruned = magnitude(weight, 0.5, (1, 1))
    assert (pruned != 0).sum() == 48
    if scale > 1e-300:  # else numbers that differ are equal
        np.testing.assert_array_equal(pruned != 0, expected)


def test_special_numbers_stay():
    weight = np.full((4, 4), 1e30, np.float32)
    weight[1, 2], weight[2, 3], weight[3, 0] = np.nan, -np.inf, np.inf
    pruned = magnitude(weight, 3 / 16, (1, 1))
    np.testing.assert_array_equal(np.isfinite(pruned), np.isfinite(weight))
    assert np.count_nonzero(pruned) == 3
    whole = magnitude(weight, 0.25, (1, 4))
    assert np.isfinite(whole).sum() == 15 and np.count_nonzero(whole) == 4


@pytest.mark.parametrize("kind", ["float16", "float64", ">f4", "bfloat16"])
def test_types(kind, rng):
    dtype = bfloat16_dtype() if kind == "bfloat16" else np.dtype(kind)
    if dtype is None:
        pytest.skip("no ml_dtypes")
    weight = rng.standard_normal((12, 20)).astype(np.float32).astype(dtype)
    pruned = magnitude(weight, 0.25)
    assert pruned.dtype == dtype.newbyteorder("=") and pruned.flags.c_contiguous
    assert np.count_nonzero(pruned.astype(np.float32)) == 60
    plain = magnitude(weight.astype(np.float64), 0.25)
    np.testing.assert_array_equal(pruned.astype(np.float64), plain)


def test_more_than_a_piece(rng):
    weight = rng.standard_normal((512, 700, 3, 3)).astype(np.float32)
    pruned = magnitude(weight[:, ::-1], 0.1, (1, 8))
    assert np.count_nonzero(pruned) == 8 * rounded(0.1, 64 * 6300)
    few = magnitude(weight[:16], 0.1, (1, 8))
    assert np.count_nonzero(few) == 8 * rounded(0.1, 2 * 6300)


@pytest.mark.parametrize(
    ("arguments", "error", "name"),
    [
        ((np.ones(5), 0.5), ValueError, "weight"),
        ((np.ones((0, 5)), 0.5), ValueError, "weight"),
        ((np.ones((4, 5), np.int8), 0.5), TypeError, "weight"),
        ((np.ones((4, 5), complex), 0.5), TypeError, "weight"),
        (("text", 0.5), TypeError, "weight"),
        ((np.ones((4, 5)), 1.5), ValueError, "density"),
        ((np.ones((4, 5)), -0.1), ValueError, "density"),
        ((np.ones((4, 5)), math.nan), ValueError, "density"),
        ((np.ones((4, 5)), "0.5"), TypeError, "density"),
        ((np.ones((4, 5)), True), TypeError, "density"),
        ((np.ones((4, 5)), None), TypeError, "density"),
        ((np.ones((4, 5)), 0.5, 4), TypeError, "block"),
        ((np.ones((4, 5)), 0.5, (4, 4)), ValueError, "block"),
        ((np.ones((4, 5)), 0.5, (1, 3)), ValueError, "block"),
        ((np.ones((4, 5)), 0.5, None), TypeError, "block"),
    ],
)
def test_what_is_refused(arguments, error, name):
    with pytest.raises(error, match=rf"\b{name}\b"):
        magnitude(*arguments)


@pytest.mark.parametrize("groups", [0, 3, 1.0])
def test_groups_that_do_not_fit(groups):
    with pytest.raises((TypeError, ValueError), match=r"\bgroups\b"):
        magnitude(np.ones((4, 5)), 0.5, groups=groups)


def test_examples():
    assert doctest.testmod(pplconv.prune).failed == 0


def test_page():
    pytest.importorskip("scipy")
    page = Path(__file__).resolve().parent.parent / "docs" / "sparse.md"
    found = doctest.testfile(str(page), module_relative=False)
    assert found.attempted > 8 and not found.failed
