"""Convolution on channels in blocks: the reference's numbers, and zero where there is no channel.

Lanes of the input beyond the last channel meet zero weights, those of the residual meet nothing:
both are filled with numbers that would show.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pplconv
from tests.api.blocks import in_blocks, lanes_of_no_channel, out_of_blocks
from tests.api.buffers import assert_all_calls_give, guarded, untouched
from tests.api.problems import Problem, problems, stated_error
from tests.reference import assert_convolution, conv2d_reference

BLOCKS = st.one_of(st.sampled_from([4, 8, 16]), st.integers(1, 64))


def nchw_problems(**arguments: Any) -> st.SearchStrategy[Problem]:
    """Give problems in NCHW that make sense in blocks.

    An image of as many rows as channels, without a batch, is refused there: it could be NCHW.
    """
    found = problems(layouts=("NCHW",), **arguments)
    return found.filter(lambda p: p.batch is not None or p.image[0] != p.in_channels)


def of_channels(x: np.ndarray, block: int, channels: int, filling: float) -> np.ndarray:
    """Give NCHW in blocks, lanes of no channel filled."""
    blocked = in_blocks(x, block)
    lanes_of_no_channel(blocked, channels)[...] = filling
    return blocked


def blocked_arguments(problem: Problem, arrays: dict[str, Any], block: int) -> dict[str, Any]:
    """Give the call of an NCHW problem on channels in blocks."""
    arguments = {**problem.parameters, **problem.options, **arrays, "layout": "NCHWc"}
    arguments["input"] = of_channels(arrays["input"], block, problem.in_channels, 3.0)
    if arrays["residual"] is not None:
        arguments["residual"] = of_channels(arrays["residual"], block, problem.out_channels, np.nan)
    return arguments


def assert_blocked(problem: Problem, y: np.ndarray, arrays: dict[str, Any], block: int) -> None:
    """Compare with the reference in NCHW; lanes of no channel are zero."""
    channels = problem.out_channels
    assert y.shape == in_blocks(np.empty(problem.output_shape, np.int8), block).shape
    arguments = {**problem.parameters, **problem.options, "layout": "NCHWc"}
    shape = in_blocks(np.empty(problem.input_shape, np.int8), block).shape
    stated = stated_error(arrays["weight"], shape, **arguments)
    nchw = out_of_blocks(y, channels)
    assert_convolution(nchw, **arrays, **problem.parameters, stated=stated)
    rest = lanes_of_no_channel(y, channels)
    assert np.count_nonzero(rest) == 0


def check(problem: Problem, block: int) -> np.ndarray:
    """Run ``conv2d`` on blocks into a poisoned, guarded output and compare."""
    arrays = problem.arrays()
    arguments = blocked_arguments(problem, arrays, block)
    shape = in_blocks(np.empty(problem.output_shape, np.int8), block).shape
    y = guarded(pplconv.conv2d, shape, problem.dtype, **arguments)
    assert_blocked(problem, y, arrays, block)
    return y


# Any groups: also those that begin within a block, channel multipliers among them.
KINDS = {
    "one group of float32": {"dtypes": ("float32",), "kinds": ("one",)},
    "one group of float64": {"dtypes": ("float64",), "kinds": ("one",)},
    "pointwise": {"pointwise": True, "kinds": ("one",)},
    "depthwise": {"kinds": ("depthwise",)},
    "any groups": {},
    "any groups by im2col": {"algorithms": ("im2col",)},
}


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_random_problems(kind, data):
    check(data.draw(nchw_problems(**KINDS[kind])), data.draw(BLOCKS))


@given(data=st.data())
def test_groups_of_whole_blocks(data):
    block = data.draw(st.sampled_from([1, 2, 3, 4, 5, 7, 8, 16, 32]))
    check(data.draw(nchw_problems(kinds=("some",), block=block, most=64)), block)


@pytest.mark.parametrize("block", [5, 8, 16])
@pytest.mark.parametrize("groups", [1, 3])
def test_im2col_never_reads_lanes_of_no_channel(groups, block):
    shape = (2, groups, 21, 27, (9, 8), (3, 3), 1, 1, 1)
    problem = Problem("float32", "NCHW", *shape, options={"algorithm": "im2col"})
    arrays = problem.arrays()
    arguments = blocked_arguments(problem, arrays, block)
    lanes_of_no_channel(arguments["input"], problem.in_channels)[...] = np.nan
    assert_blocked(problem, pplconv.conv2d(**arguments), arrays, block)


@given(data=st.data())
def test_sums_of_small_integers_are_exact(data):
    problem = data.draw(nchw_problems(kinds=("one",), curved=False))
    block = data.draw(BLOCKS)
    arrays = problem.arrays(integers=True)
    y = pplconv.conv2d(**blocked_arguments(problem, arrays, block), tolerance=0)
    expected = conv2d_reference(**arrays, **problem.parameters)
    np.testing.assert_array_equal(y, in_blocks(expected, block))


@given(data=st.data())
def test_prepared_and_direct_calls_give_the_same_bits(data):
    problem, block = data.draw(nchw_problems(kinds=("one",))), data.draw(BLOCKS)
    direct = check(problem, block)
    arguments = blocked_arguments(problem, problem.arrays(), block)
    x, residual = arguments.pop("input"), arguments.pop("residual")
    conv = pplconv.Conv2d(**arguments)
    prepared = pplconv.Conv2d(**arguments, input_shape=x.shape)
    assert_all_calls_give(direct, conv, prepared, x, residual)
    assert conv.plan_for(x.shape).layout == f"NCHW{block}c"


# batch, groups, ic, oc, image, kernel, stride, padding, dilation
SHAPES = [
    (1, 1, 64, 64, (14, 14), (3, 3), 1, 1, 1),
    (1, 1, 3, 32, (65, 49), (7, 7), 2, 3, 1),
    (3, 1, 33, 70, (17, 31), (1, 1), 1, 0, 1),
    (1, 1, 300, 17, (9, 9), (3, 3), 1, 1, 1),
    (2, 3, 48, 96, (16, 16), (3, 3), 1, "same_upper", 1),
    (1, 40, 40, 40, (30, 31), (3, 3), 1, 1, 1),
    (2, 6, 24, 36, (23, 18), (3, 3), 1, 1, 1),
    (2, 33, 33, 33, (21, 20), (5, 5), 2, 2, 1),
    (None, 1, 16, 128, (1, 1), (1, 1), 1, 0, 1),
]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("block", [8, 16])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: "mb{}g{}ic{}oc{}".format(*s[:4]))
def test_same_bits_for_any_team(dtype, block, shape):
    results = []
    for threads in (1, 2, 3, 5):
        problem = Problem(
            dtype, "NCHW", *shape, activation=("clip", 0.25, 2), with_bias=True,
            with_residual=True, options={"threads": threads},
        )  # fmt: skip
        results.append(check(problem, block))
    assert all(y.tobytes() == results[0].tobytes() for y in results[1:])


def test_layers_that_follow_one_another(rng):
    """From NCHW and back: each layer reads the tails that the layer before it wrote."""

    def draw(*shape):
        return rng.standard_normal(shape).astype(np.float32)

    x, first, second = draw(2, 3, 20, 21), draw(20, 3, 3, 3), draw(7, 20, 1, 1)
    # Winograd may serve one layout alone, and would differ by more than the sums.
    one = {"padding": 1, "activation": "relu", "algorithm": "im2col"}
    y = pplconv.conv2d(pplconv.to_blocked(x), first, layout="NCHWc", **one)
    z = pplconv.from_blocked(pplconv.conv2d(y, second, layout="NCHWc"), 7)
    between = pplconv.conv2d(x, first, **one)
    assert_convolution(z, between, second)


@pytest.fixture
def call(rng):
    """Give a call in which C = 20 and oc = 40 leave lanes of blocks of 16 free."""
    return {
        "input": in_blocks(rng.standard_normal((2, 20, 9, 10)).astype(np.float32), 16),
        "weight": rng.standard_normal((40, 20, 3, 3)).astype(np.float32),
        "layout": "NCHWc",
    }


@pytest.mark.parametrize("name", ["residual", "out"])
@pytest.mark.parametrize(
    "shape",
    [
        (2, 40, 7, 8),  # not in blocks
        (2, 3, 7, 8, 8),  # in other blocks
        (2, 2, 7, 8, 16),  # too few
        (3, 7, 8, 16),  # without the batch
        (2, 3, 9, 10, 16),  # of the input's size
    ],
)
def test_residual_and_out_of_another_shape_are_refused(call, name, shape):
    wrong = np.full(shape, 42, np.float32)
    with untouched(wrong), pytest.raises(ValueError, match=rf"\b{name}\b") as caught:
        pplconv.conv2d(**call, **{name: wrong})
    assert str(shape) in str(caught.value)
    assert "(2, 3, 7, 8, 16)" in str(caught.value)


def test_one_image_without_the_batch(call):
    x = call.pop("input")
    batched = pplconv.conv2d(x, **call)
    conv = pplconv.Conv2d(**call, input_shape=x.shape[1:])
    for i in range(2):
        out = np.full(batched.shape[1:], np.nan, np.float32)
        assert conv(x[i], out=out) is out
        assert out.tobytes() == batched[i].tobytes()
        assert pplconv.conv2d(x[i], **call).tobytes() == batched[i].tobytes()


def test_an_empty_batch(call):
    y = pplconv.conv2d(**{**call, "input": call["input"][:0]})
    assert y.shape == (0, 3, 7, 8, 16)


def test_arrays_that_do_not_lie_plain(call):
    x = call.pop("input")
    plain = pplconv.conv2d(x, **call)
    for form in (np.asfortranarray(x), x.astype(">f4"), np.repeat(x, 2, -1)[..., ::2]):
        assert pplconv.conv2d(form, **call).tobytes() == plain.tobytes()
