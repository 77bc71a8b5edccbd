"""Transposed convolutions against their definition: layouts, types, ways to divide them, teams."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import pplconv
from tests.api.blocks import from_layout, to_layout
from tests.api.buffers import guarded
from tests.api.transposed_reference import LAYOUTS, Case, draw
from tests.patience import PATIENCE

DTYPES = ("float32", "float64", "float16")
CASES = 25


@pytest.mark.sampled(4)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_random_cases(layout, dtype, rng):
    """The layer into a poisoned `out`, and the function with the same bits."""
    for _ in range(CASES):
        case = draw(rng, layout, dtype)
        x, added = case.input, case.added
        layer = case.layer(threads=int(rng.integers(1, 4)))
        plan = layer.plan_for(x.shape)
        again = pplconv.conv_transpose2d(
            x, case.weight, case.bias, residual=added, **case.parameters
        )
        y = guarded(layer, again.shape, dtype, x, added, also=[case.weight])
        case.check(y, plan)
        assert y.tobytes() == again.tobytes(), plan


def plain(rng, layout="NCHW", *, ic=5, oc=6, image=(7, 8), kernel=(3, 3), dtype="float32", **given):
    """Make a case without bias or anything else."""
    geometry = {
        "stride": (2, 2), "padding": ((0, 0), (0, 0)), "output_padding": (0, 0),
        "dilation": (1, 1), "groups": 1, **given,
    }  # fmt: skip
    x = rng.standard_normal((2, ic, *image)).astype(dtype)
    weight = rng.standard_normal((ic, oc // geometry["groups"], *kernel)).astype(dtype)
    return Case(x, weight, None, None, geometry, None, layout, 4)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("algorithm", ["direct", "im2col", "winograd"])
def test_named_algorithms(algorithm, layout, rng):
    """Each serves the parts; of 6x6 taps at stride 2 a phase has 3x3, which Winograd takes."""
    case = plain(rng, layout, ic=8, oc=8, image=(12, 13), kernel=(6, 6), padding=((2, 2), (2, 2)))
    layer = case.layer(algorithm=algorithm)
    plan = layer.plan_for(case.input.shape)
    assert {part.algorithm for part in plan.parts} == {algorithm}
    case.check(layer(case.input), plan)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_pytorch_example(layout):
    """A number for each input and a kernel of ones, as anybody would count it."""
    x = np.array([[[[1, 2], [3, 4]]]], np.float32)
    w = np.ones((1, 1, 3, 3), np.float32)
    y = pplconv.conv_transpose2d(to_layout(x, layout, 4), w, stride=2, layout=layout)
    expected = np.array([
        [1, 1, 3, 2, 2], [1, 1, 3, 2, 2], [4, 4, 10, 6, 6], [3, 3, 7, 4, 4], [3, 3, 7, 4, 4],
    ])  # fmt: skip
    assert np.array_equal(from_layout(y, layout, 1)[0, 0], expected)


def test_positional_arguments_are_in_the_order_of_torch(rng):
    x, w = rng.standard_normal((1, 4, 5, 5)), rng.standard_normal((4, 3, 3, 3))
    bias = rng.standard_normal(6)
    y = pplconv.conv_transpose2d(x, w, bias, 2, 1, 1, 2, 3)
    named = pplconv.conv_transpose2d(
        x, w, bias, stride=2, padding=1, output_padding=1, groups=2, dilation=3
    )
    assert y.shape == (1, 6, 14, 14) and y.tobytes() == named.tobytes()
    layer = pplconv.ConvTranspose2d(w, bias, 2, 1, 1, 2, 3)
    assert layer(x).tobytes() == y.tobytes()


@pytest.mark.parametrize("stride", [1, 2, 3])
def test_it_is_the_gradient_of_conv2d(stride, rng):
    """<conv(a), b> = <a, transposed(b)> for the same weights."""
    a = rng.standard_normal((1, 3, 11, 12))
    w = rng.standard_normal((5, 3, 3, 4))
    forward = pplconv.conv2d(a, w, stride=stride, padding=1)
    b = rng.standard_normal(forward.shape)
    back = pplconv.conv_transpose2d(b, w, stride=stride, padding=1, output_size=a.shape[2:])
    assert back.shape == a.shape
    np.testing.assert_allclose(np.vdot(forward, b), np.vdot(a, back), rtol=1e-12)


@pytest.mark.parametrize("word", ["valid", "same_upper", "same_lower"])
@pytest.mark.parametrize("kernel", [(1, 2), (2, 4), (3, 3), (5, 2)])
@pytest.mark.parametrize("stride", [(1, 1), (2, 2), (2, 3)])
def test_words_for_padding(word, kernel, stride, rng):
    x = rng.standard_normal((1, 3, 4, 5))
    w = rng.standard_normal((3, 2, *kernel))
    y = pplconv.conv_transpose2d(x, w, stride=stride, padding=word)
    whole = pplconv.conv_transpose2d(x, w, stride=stride)
    if word == "valid":
        assert y.tobytes() == whole.tobytes()
        return
    wanted = tuple(n * s for n, s in zip(x.shape[2:], stride, strict=True))
    assert y.shape[2:] == wanted
    begins = []
    for have, want in zip(whole.shape[2:], wanted, strict=True):
        small, large = max(have - want, 0) // 2, -(-max(have - want, 0) // 2)
        begins.append(small if word == "same_upper" else large)
    padded = np.zeros((1, 2, *(max(n) for n in zip(whole.shape[2:], wanted, strict=True))))
    padded[:, :, : whole.shape[2], : whole.shape[3]] = whole
    top, left = begins
    expected = padded[:, :, top : top + wanted[0], left : left + wanted[1]]
    np.testing.assert_allclose(y, expected, rtol=1e-12, atol=1e-12)


def test_output_size(rng):
    x, w = rng.standard_normal((2, 3, 5, 6)), rng.standard_normal((3, 4, 3, 3))
    layer = pplconv.ConvTranspose2d(w, stride=2, padding=1)
    for size in [(9, 11), (10, 11), (9, 12), (10, 12)]:
        y = layer(x, output_size=size)
        more = (size[0] - 9, size[1] - 11)
        expected = pplconv.conv_transpose2d(x, w, stride=2, padding=1, output_padding=more)
        assert y.shape[2:] == size and y.tobytes() == expected.tobytes()
        assert f"oh{size[0]}ow{size[1]}" in layer.plan_for(x.shape, size).problem


TEAMS = [
    {"ic": 64, "oc": 48, "image": (40, 41), "kernel": (2, 2)},
    {"ic": 96, "oc": 64, "image": (28, 28), "kernel": (4, 4), "padding": ((1, 1), (1, 1))},
    {"ic": 64, "oc": 64, "image": (30, 33), "kernel": (3, 3), "padding": ((1, 1), (1, 1)),
     "output_padding": (1, 1)},
    {"ic": 48, "oc": 2, "image": (90, 90), "kernel": (2, 2)},
    {"ic": 60, "oc": 48, "image": (29, 31), "kernel": (5, 4), "stride": (3, 2), "groups": 2},
    {"ic": 64, "oc": 64, "image": (31, 30), "kernel": (3, 3), "stride": (1, 1)},
]  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("number", range(len(TEAMS)))
def test_same_bits_for_any_team(number, layout, rng):
    case = replace(plain(rng, layout, **TEAMS[number]), block=16)
    case = replace(case, activation=("clip", -3.0, 5.0))
    results, teams = set(), []
    for threads in (1, 2, 3):
        layer = case.layer(threads=threads)
        results.add(layer(case.input).tobytes())
        teams.append(layer.plan_for(case.input.shape).threads)
    assert len(results) == 1
    assert teams[0] == 1 and max(teams) > 1, "no team ran"


@pytest.mark.parametrize("layout", LAYOUTS)
def test_special_values_stay_where_taps_lead(layout, rng):
    """Infinities and NaN of inputs and of weights; groups that do not fill blocks included."""
    special = np.array([np.nan, np.inf, -np.inf])
    for _ in range(25):
        case = draw(rng, layout, "float32")
        if case.activation == "silu" or case.residual is not None:
            continue
        for array in (case.x, case.weight):
            count = int(rng.integers(0, 3))
            array.reshape(-1)[rng.integers(array.size, size=count)] = rng.choice(special, count)
        for algorithm in ("auto", "im2col"):
            case.check(case.layer(algorithm=algorithm)(case.input))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_images_without_a_batch_and_no_images(layout, rng):
    case = plain(rng, layout, padding=((1, 0), (0, 1)))
    # Direct sums: another number of images may have another variant of Winograd.
    layer, x = case.layer(tolerance=0), case.input
    whole = layer(x)
    assert layer(x[0]).tobytes() == whole[0].tobytes()
    none = layer(x[:0])
    assert none.shape == (0, *whole.shape[1:])
    assert pplconv.conv_transpose2d(x[:0], case.weight, **case.parameters).shape == none.shape


@pytest.mark.parametrize("layout", LAYOUTS)
def test_workspace(layout, rng):
    """Less memory gives other ways of the same result, or a refusal that names the argument."""
    case = plain(rng, layout, ic=24, oc=24, image=(30, 30), kernel=(2, 2))
    residual = rng.standard_normal((2, 24, 60, 60)).astype("float32")
    case.residual = residual
    refused, ways = 0, set()
    for limit in (0, 1 << 12, 1 << 16, 1 << 17, 1 << 18, 1 << 19, 1 << 22):
        try:
            layer = case.layer(max_workspace=limit)
            plan = layer.plan_for(case.input.shape)
        except ValueError as error:
            refused += "max_workspace" in str(error)
            continue
        assert plan.scratch_bytes <= limit
        ways.add(plan.way)
        case.check(layer(case.input, case.added))
    assert refused and ways
    if layout == "NCHW":
        assert "phases, spared" in ways


def test_what_it_says_of_itself(rng):
    case = plain(rng, ic=6, oc=9, kernel=(3, 2), groups=3)
    layer = case.layer(threads=1)
    assert layer.in_channels == 6 and layer.out_channels == 9 and layer.kernel_size == (3, 2)
    assert layer.weight_shape == (6, 3, 3, 2) and layer.groups == 3
    assert layer.stride == (2, 2) and layer.output_padding == (0, 0) and layer.threads == 1
    text = repr(layer)
    assert text.startswith("ConvTranspose2d(") and "output_padding=(0, 0)" in text
    plan = layer.plan_for(case.x.shape)
    for part in (plan.way, plan.problem, str(plan.scratch_bytes), plan.parts[0].kernel):
        assert part in str(plan)
    assert hash(plan) == hash(layer.plan_for(case.x.shape))
    with pytest.raises(AttributeError):
        plan.way = "another"


@pytest.mark.parametrize("mode", ["thread", "process"])
def test_in_a_pool(mode, rng):
    case = plain(rng)
    layer = case.layer(input_shape=case.x.shape)
    with pplconv.InstancePool(lambda: layer, 1, 1, mode=mode) as pool:
        assert pool.submit(case.x).result(timeout=PATIENCE).tobytes() == layer(case.x).tobytes()


def test_a_block_of_code_decides_what_calls_leave_open(rng):
    case = plain(rng, ic=64, oc=64, image=(40, 40), kernel=(2, 2))
    layer = case.layer()
    with pplconv.runtime.team(1):
        assert layer.plan_for(case.x.shape).threads == 1
    with pplconv.runtime.team(2):
        assert layer.plan_for(case.x.shape).threads == 2


def test_searched_plans_compute_the_same(rng):
    case = plain(rng, ic=16, oc=16, kernel=(2, 2))
    layer = case.layer(search="measure", search_seconds=0.02, input_shape=case.x.shape)
    case.check(layer(case.x))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("stride", [(3, 1), (1, 3), (2, 2)], ids=str)
@pytest.mark.parametrize("channels", [(6, 1, 1), (1, 5, 1), (8, 8, 8)], ids=str)
def test_loops_that_take_images_without_gaps(channels, stride, dtype, rng):
    """One channel, and depthwise loops that convert float16, among the outputs of other phases."""
    ic, oc, groups = channels
    precisions = (None, "fp32") if dtype == "float16" else (None,)
    for kernel, precision in product(((1, 4), (3, 2)), precisions):
        case = plain(
            rng, "NHWC", ic=ic, oc=oc, groups=groups, kernel=kernel, dtype=dtype, stride=stride
        )
        layer = case.layer(precision=precision)
        y = guarded(layer, layer(case.input).shape, dtype, case.input)
        case.check(y, layer.plan_for(case.input.shape))
