"""``Conv2d``: prepared once, readable, picklable, with plans that are kept within bounds."""

from __future__ import annotations

import dataclasses
import gc
import pickle
import re
import sys

import numpy as np
import pytest

import pplconv
from tests.api.buffers import draw, untouched
from tests.api.problems import stated_by
from tests.api.test_attributes import COPIES
from tests.reference import assert_convolution

PLAN_FIELDS = {
    "problem": str,
    "algorithm": str,
    "isa": str,
    "kernel": str,
    "bits": str,
    "threads": int,
    "scratch_bytes": int,
    "packed_weight_bytes": int,
    "packing": str,
}


def test_repr_shows_what_it_is(rng):
    conv = pplconv.Conv2d(
        draw(rng, 8, 3, 5, 7, dtype="float64"), stride=(2, 3), padding="same_lower", layout="NHWC"
    )
    text = repr(conv)
    assert text.startswith("Conv2d(") and "\n" not in text
    for part in ("float64", "(2, 3)", "same_lower", "NHWC"):
        assert part in text
    assert re.search(r"8\D{1,3}3\D{1,3}5\D{1,3}7", text), "the shape of the weights"


@pytest.mark.parametrize("way", COPIES)
def test_copies_compute_the_same_bits(way, rng):
    x, weight, bias = draw(rng, 2, 9, 10, 12), draw(rng, 15, 4, 3, 2), draw(rng, 15)
    parameters = {
        "stride": (2, 1), "padding": ((1, 2), (0, 1)), "dilation": (1, 2), "groups": 3,
        "activation": ("clip", -1, 1.5), "layout": "NHWC",
    }  # fmt: skip
    conv = pplconv.Conv2d(
        weight, bias, **parameters, algorithm="im2col", tolerance=1e-3, input_shape=x.shape,
        threads=2,
    )  # fmt: skip
    expected = conv(x)
    duplicate = COPIES[way](conv)
    assert repr(duplicate) == repr(conv)
    assert duplicate.plan_for(x.shape) == conv.plan_for(x.shape)
    assert duplicate(x).tobytes() == expected.tobytes()
    assert_convolution(expected, x, weight, bias, **parameters)


def test_the_function_looks_at_its_weights_in_each_call(rng):
    x, weight, bias = draw(rng, 1, 5, 8, 9), draw(rng, 6, 5, 3, 3), draw(rng, 6)
    first = pplconv.conv2d(x, weight, bias)
    assert pplconv.Conv2d(weight, bias)(x).tobytes() == first.tobytes()
    weight *= 2
    bias += 1
    after = pplconv.conv2d(x, weight, bias)
    assert_convolution(after, x, weight, bias)
    assert after.tobytes() != first.tobytes()


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_one_convolution_serves_many_shapes(layout, dtype, rng):
    weight, bias = draw(rng, 10, 4, 3, 3, dtype=dtype), draw(rng, 10, dtype=dtype)
    conv = pplconv.Conv2d(weight, bias, padding=1, layout=layout, input_shape=(1, 4, 4, 4))
    for _ in range(2):
        for n, h, w in [(1, 8, 8), (3, 5, 40), (None, 17, 3), (1, 64, 64), (0, 7, 7), (1, 1, 1)]:
            image = (4, h, w) if layout == "NCHW" else (h, w, 4)
            x = draw(rng, *(image if n is None else (n, *image)), dtype=dtype)
            with untouched(x):
                y = conv(x)
            stated = stated_by(conv.plan_for(x.shape))
            assert_convolution(y, x, weight, bias, padding=1, layout=layout, stated=stated)


# Plans -----------------------------------------------------------------------------------------


def test_plans_are_frozen_and_readable(rng):
    conv = pplconv.Conv2d(draw(rng, 64, 32, 3, 3), padding=1, threads=2)
    plan = conv.plan_for((1, 32, 28, 28))
    assert isinstance(plan, pplconv.Plan)
    for name, kind in PLAN_FIELDS.items():
        value = getattr(plan, name)
        assert isinstance(value, kind), name
        assert value or name == "scratch_bytes", f"{name} says nothing"
        assert str(value) in str(plan) or kind is int, name
        with pytest.raises((AttributeError, dataclasses.FrozenInstanceError)):
            setattr(plan, name, value)
    with pytest.raises((AttributeError, TypeError)):
        plan.another = 1
    with pytest.raises(TypeError):
        plan.cost["fma"] = 0.0
    assert "ic32" in plan.problem and "oc64" in plan.problem and "kh3" in plan.problem
    assert plan.algorithm in ("im2col", "direct", "winograd")
    assert plan.blocks["mr"] in range(1, 65) and plan.blocks["nr"] in range(1, 257)
    assert all(f"{name} {value}" in str(plan) for name, value in plan.blocks.items())
    with pytest.raises(TypeError):
        plan.blocks["mr"] = 1
    assert 1 <= plan.threads <= 2
    assert 0 < plan.error_bound <= 1e-5
    assert plan.packed_weight_bytes >= 64 * 32 * 9 * 4
    assert plan.cost and all(cycles >= 0 for cycles in plan.cost.values())
    assert sum(plan.cost.values()) > 0
    assert all(isinstance(text, str) for text in plan.runners_up)
    assert pickle.loads(pickle.dumps(plan)) == plan
    assert hash(pickle.loads(pickle.dumps(plan))) == hash(plan)


def test_plans_are_deterministic(rng):
    """Made again, by another object, after other plans: the same to the last field."""
    weight = draw(rng, 48, 24, 3, 3)
    shapes = [(1, 24, 14, 14), (2, 24, 30, 31), (1, 24, 5, 200)]
    first = [pplconv.Conv2d(weight, threads=2).plan_for(shape) for shape in shapes]
    other = pplconv.Conv2d(weight * 3, threads=2)
    for shape, plan in reversed(list(zip(shapes, first, strict=True))):
        again = other.plan_for(shape)
        assert again == plan
        assert dict(again.cost) == dict(plan.cost)
        assert again.runners_up == plan.runners_up
        assert other.plan_for(list(shape)) == plan


def test_plans_are_those_of_the_calls(rng):
    weight = draw(rng, 8, 4, 3, 3)
    conv = pplconv.Conv2d(weight, input_shape=(4, 12, 12))
    assert conv.plan_for((4, 12, 12)).problem == conv.plan_for((1, 4, 12, 12)).problem
    x = draw(rng, 4, 12, 12)
    assert conv(x).tobytes() == conv(x[np.newaxis]).tobytes()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("algorithm", ["im2col", "direct", "winograd"])
@pytest.mark.parametrize(("channels", "side"), [(64, 112), (256, 56), (512, 56)])
def test_scratch_is_far_below_the_im2col_matrix(channels, side, algorithm, layout, dtype):
    """A thread holds a tile that fits its cache, of a matrix of 29 MB and more.

    Winograd in stages has, besides, no more than V and M of all tiles.
    """
    conv = pplconv.Conv2d(
        np.ones((64, channels, 3, 3), dtype), padding=1, layout=layout, algorithm=algorithm,
        threads=1,
    )  # fmt: skip
    shape = (1, channels, side, side) if layout == "NCHW" else (1, side, side, channels)
    plan = conv.plan_for(shape)
    assert plan.algorithm == algorithm
    element = np.dtype(dtype).itemsize
    whole, shared = channels * 9 * side * side * element, 0
    if "tile_part" in plan.blocks:
        n = int(plan.blocks["n"])
        shared = (n + 2) ** 2 * (-(-side // n)) ** 2 * (channels + 64) * element
    assert 0 < plan.scratch_bytes < whole / 8 + shared


def test_scratch_grows_with_the_team_not_with_the_image():
    weight = np.ones((64, 64, 3, 3), np.float32)
    one, two = (
        [
            pplconv.Conv2d(weight, threads=threads).plan_for((1, 64, side, side)).scratch_bytes
            for side in (56, 112, 448)
        ]
        for threads in (1, 2)
    )
    assert one[2] <= 2 * one[1]
    assert all(b <= 2.5 * a for a, b in zip(one, two, strict=True))


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_pointwise_is_chosen_and_can_be_forced(layout):
    """Rows of seven pixels are shorter than most tiles; `pointwise` computes tiles of 49 pixels."""
    weight = np.ones((64, 64, 1, 1), np.float32)
    shape = (1, 64, 7, 7) if layout == "NCHW" else (1, 7, 7, 64)
    plans = {
        algorithm: pplconv.Conv2d(weight, layout=layout, algorithm=algorithm).plan_for(shape)
        for algorithm in ("auto", "pointwise", "im2col")
    }
    assert plans["auto"].algorithm == "pointwise"
    assert plans["pointwise"].algorithm == "pointwise"
    assert plans["im2col"].algorithm == "im2col"


def test_a_team_is_no_larger_than_the_work():
    """A handful of multiplications do not pay for a team."""
    conv = pplconv.Conv2d(np.ones((8, 8, 3, 3), np.float32), padding=1, threads=64)
    assert conv.plan_for((1, 8, 8, 8)).threads < 64


def test_the_batch_axis_and_the_layout_show_in_the_problem():
    weight = np.ones((8, 4, 3, 3), np.float32)
    assert "mb5" in pplconv.Conv2d(weight).plan_for((5, 4, 10, 20)).problem
    problem = pplconv.Conv2d(weight, layout="NHWC").plan_for((5, 10, 20, 4)).problem
    assert "ih10" in problem and "iw20" in problem and "ic4" in problem


# Bounds of the caches --------------------------------------------------------------------------


def blocks_left_by_second_round(work) -> int:
    """Count the small objects that a round leaves behind when the caches are full already."""
    counts = []
    for turn in range(3):
        work(turn)
        gc.collect()
        counts.append(sys.getallocatedblocks())
    return counts[2] - counts[1]


ROUND = 400  # shapes in a round; a kept plan takes about five blocks


@pytest.mark.parametrize("prepared", [True, False])
def test_a_bounded_number_of_plans_is_kept(prepared):
    weight = np.ones((1, 1, 1, 1), np.float32)
    conv = pplconv.Conv2d(weight, threads=1)

    def use_new_shapes(turn):
        for width in range(turn * ROUND + 1, (turn + 1) * ROUND + 1):
            if prepared:
                conv.plan_for((1, 1, 1, width))
            else:
                pplconv.conv2d(np.ones((1, 1, 1, width), np.float32), weight, threads=1)

    assert blocks_left_by_second_round(use_new_shapes) < ROUND


def test_show_config_prints(capsys):
    pplconv.show_config()
    text = capsys.readouterr().out
    assert pplconv.__version__ in text
    for word in ("CPU", "ISA", "cache", "core", "NUMA", "OpenMP", "kernel"):
        assert word.lower() in text.lower()
    isa = pplconv.Conv2d(np.ones((1, 1, 1, 1), np.float32)).plan_for((1, 1, 8, 8)).isa
    assert isa in text


# What is easily given in place of something else ------------------------------------------------


@pytest.mark.parametrize("form", [np.asarray, np.ndarray.tolist])
def test_an_input_in_place_of_its_shape_is_told_so_in_a_line(form, rng):
    conv, x = pplconv.Conv2d(draw(rng, 8, 3, 3, 3)), draw(rng, 1, 3, 40, 40)
    for call in (conv.plan_for, lambda x: pplconv.Conv2d(conv.weight, input_shape=x)):
        with pytest.raises(TypeError, match=r"^input_shape must be") as caught:
            call(form(x))
        assert len(str(caught.value)) < 300
    with pytest.raises(TypeError, match=r"an array of shape \(1, 3, 40, 40\): give its \.shape"):
        conv.plan_for(x)
    assert conv.plan_for(np.array(x.shape)) == conv.plan_for(x.shape)


@pytest.mark.parametrize("form", [np.array, lambda value: list(map(np.int32, value))])
def test_geometry_may_be_arrays_of_integers(form, rng):
    x, w = draw(rng, 1, 3, 12, 13), draw(rng, 4, 3, 3, 3)
    for given, plain in (
        ({"stride": form([2, 1])}, {"stride": (2, 1)}),
        ({"dilation": form([1, 2])}, {"dilation": (1, 2)}),
        ({"padding": form([2, 1])}, {"padding": (2, 1)}),
        ({"padding": np.array([[1, 0], [2, 1]])}, {"padding": ((1, 0), (2, 1))}),
        ({"stride": np.array(2), "padding": np.array(1)}, {"stride": 2, "padding": 1}),
    ):
        expected = pplconv.conv2d(x, w, **plain)
        assert pplconv.conv2d(x, w, **given).tobytes() == expected.tobytes()
        assert pplconv.Conv2d(w, **given)(x).tobytes() == expected.tobytes()


# Plans that `conv2d` keeps between calls: no call may get the plan of another ---------------------


F32 = np.float32
ONE_PIXEL = (np.zeros((1, 1, 1, 1), F32), np.zeros((1, 1, 1, 1), F32))


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ({"stride": 1}, {"stride": True}),
        ({"stride": (1, 1)}, {"stride": (1, True)}),
        ({"stride": 1}, {"stride": 1.0}),
        ({"padding": 0}, {"padding": False}),
        ({"padding": ((0, 0), (0, 0))}, {"padding": ((0, 0), (0, 0.0))}),
        ({"dilation": 1}, {"dilation": 1.0}),
        ({"groups": 1}, {"groups": True}),
        ({"groups": 1}, {"groups": 1.0}),
        ({"threads": 1}, {"threads": True}),
        ({"threads": 1}, {"threads": 1.0}),
        ({"activation": ("clip", 0, 1)}, {"activation": ("clip", 0, "1")}),
        ({"activation": ("clip", 0, 1)}, {"activation": ("clip", False, True)}),
        ({"activation": ("leaky_relu", 1)}, {"activation": ("leaky_relu", True)}),
        ({"activation": ("prelu", [1.0])}, {"activation": ("prelu", [True])}),
    ],
)
def test_a_kept_plan_is_no_way_around_the_checks(right, wrong):
    """Values that compare equal to good ones are refused before and after a good call."""
    (name,) = wrong
    for _ in range(2):
        with pytest.raises(TypeError, match=rf"\b{name}\b"):
            pplconv.conv2d(*ONE_PIXEL, **wrong)
        pplconv.conv2d(*ONE_PIXEL, **right)


def test_kept_plans_tell_apart_what_differs():
    """The same shapes again and again, one argument changed each time."""
    rng = np.random.default_rng(3)
    x32 = rng.standard_normal((1, 4, 9, 9)).astype(F32)
    w32 = rng.standard_normal((4, 4, 3, 3)).astype(F32)
    variations = [
        {},
        {"stride": 2},
        {"stride": (1, 2)},
        {"padding": 1},
        {"padding": (1, 0)},
        {"padding": ((1, 0), (0, 1))},
        {"padding": "same_upper", "stride": 2},
        {"padding": "same_lower", "stride": 2},
        {"dilation": 2},
        {"activation": "relu"},
        {"activation": ("clip", -1, 1)},
        {"activation": ("clip", -1, 0.5)},
        {"activation": ("leaky_relu", 0.5)},
        {"activation": ("leaky_relu", -0.5)},
        {"activation": ("prelu", np.array([0.5, -1, 2, 0]))},
        {"activation": ("prelu", np.array([0.5, -1, 2, 3]))},
        {"activation": ("prelu", [-2.0])},
        {"activation": "silu"},
        {"activation": "sigmoid"},
        {"activation": "hardswish"},
    ]
    for _ in range(2):
        for dtype in (F32, np.float64):
            x, w = x32.astype(dtype), w32.astype(dtype)
            for parameters in variations:
                assert_convolution(pplconv.conv2d(x, w, **parameters), x, w, **parameters)
                only = w[:, :2]
                y = pplconv.conv2d(x, only, groups=2, **parameters)
                assert_convolution(y, x, only, groups=2, **parameters)
        square = rng.standard_normal((1, 5, 5, 5)).astype(F32)
        w = rng.standard_normal((5, 5, 3, 3)).astype(F32)
        for layout in ("NCHW", "NHWC"):
            assert_convolution(pplconv.conv2d(square, w, layout=layout), square, w, layout=layout)
