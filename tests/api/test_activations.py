"""Activations that follow the store: every kind in every loop, and whose slopes they are."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import pplconv
from tests.api.blocks import from_layout, to_layout
from tests.api.buffers import draw, guarded, untouched
from tests.api.problems import CURVES, Problem
from tests.reference import assert_convolution

# batch, groups, ic, oc, image, kernel, stride, padding: tails of tiles, of panels and of blocks
# in each orientation, images too small for vectors of pixels, sums in several blocks.
SHAPES = [
    (1, 1, 40, 70, (14, 14), (1, 1), 1, 0),
    (2, 1, 600, 33, (7, 7), (3, 3), 1, 1),
    (2, 3, 9, 21, (5, 37), (3, 2), (1, 2), (1, 0)),
    (2, 1, 512, 100, (7, 7), (1, 1), 1, 0),
    (3, 1, 130, 129, (1, 1), (1, 1), 1, 0),
    (None, 6, 6, 12, (9, 8), (3, 3), 1, 1),
]


@pytest.mark.sampled(83)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("activation", CURVES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: "mb{}g{}ic{}oc{}".format(*s[:4]))
def test_against_float64(shape, activation, layout, dtype):
    for residual in (False, True):
        problem = Problem(
            dtype, layout, *shape, activation=activation, with_bias=True, with_residual=residual
        )
        given = {**problem.arrays(), **problem.parameters}
        y = guarded(pplconv.conv2d, problem.output_shape, dtype, **given)
        assert_convolution(y, **given)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("algorithm", ["pointwise", "im2col"])
@pytest.mark.parametrize("activation", CURVES, ids=str)
def test_every_algorithm(activation, algorithm, layout):
    problem = Problem("float32", layout, *SHAPES[0], activation=activation, with_bias=True)
    arrays = problem.arrays()
    y = pplconv.conv2d(**arrays, **problem.parameters, algorithm=algorithm)
    assert_convolution(y, **arrays, **problem.parameters)


@pytest.mark.parametrize("activation", ["relu", "silu", ("prelu", np.ones(16))], ids=str)
def test_plans_do_not_depend_on_the_activation(activation, rng):
    weight, shape = draw(rng, 16, 8, 3, 3), (1, 8, 20, 20)
    plan = pplconv.Conv2d(weight, activation=activation).plan_for(shape)
    assert plan == pplconv.Conv2d(weight).plan_for(shape)


def test_slopes_are_taken_at_each_call(rng):
    """The plan is kept, the slopes are not; nor is the array that they came in."""
    x, weight, slope = draw(rng, 1, 6, 9, 9), draw(rng, 20, 6, 3, 3), draw(rng, 20)
    for _ in range(3):
        with untouched(slope):
            y = pplconv.conv2d(x, weight, activation=("prelu", slope))
        assert_convolution(y, x, weight, activation=("prelu", slope))
        slope *= -0.5
    with pytest.raises(ValueError, match=r"activation.*\(20,\).*\(19,\)"):
        pplconv.conv2d(x, weight, activation=("prelu", slope[1:]))


def test_the_word_alone_is_refused_even_after_a_good_call(rng):
    x, weight = draw(rng, 1, 2, 4, 4), draw(rng, 3, 2, 1, 1)
    for _ in range(2):
        for wrong in ("prelu", ("prelu",), ["prelu"]):
            with pytest.raises(ValueError, match="activation"):
                pplconv.conv2d(x, weight, activation=wrong)
        pplconv.conv2d(x, weight, activation=("prelu", [1, 2, 3]))


@pytest.mark.parametrize("shared", [False, True])
def test_slopes_of_a_prepared_convolution_are_those_of_construction(shared, rng):
    x, weight, slope = draw(rng, 2, 6, 9, 9), draw(rng, 20, 6, 3, 3), draw(rng, 1 if shared else 20)
    conv = pplconv.Conv2d(weight, activation=("prelu", slope))
    expected = conv(x)
    assert_convolution(expected, x, weight, activation=("prelu", slope))
    slope += 1
    assert conv(x).tobytes() == expected.tobytes()
    duplicate = pickle.loads(pickle.dumps(conv))
    assert duplicate(x).tobytes() == expected.tobytes()
    assert repr(duplicate) == repr(conv)
    assert "\n" not in repr(conv)


@pytest.mark.parametrize(
    "slope",
    [0.25, np.float32(0.25), np.array(0.25), [0.25], np.full(5, 0.25), [0.25] * 5, (0.25,) * 5,
     np.full(10, 0.25)[::2], np.full(5, 0.25, ">f8"), np.full(5, 0.25, "float16")],
    ids=lambda slope: f"{type(slope).__name__} {np.asarray(slope).dtype}",
)  # fmt: skip
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_forms_of_slopes(slope, dtype, rng):
    """Any array_like of one slope or of one a channel, cast to the type of the input."""
    x, weight = draw(rng, 1, 3, 6, 7, dtype=dtype), draw(rng, 5, 3, 3, 3, dtype=dtype)
    expected = pplconv.conv2d(x, weight, activation=("leaky_relu", 0.25))
    got = pplconv.conv2d(x, weight, activation=("prelu", slope))
    assert got.tobytes() == expected.tobytes()
    assert pplconv.Conv2d(weight, activation=["prelu", slope])(x).tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize(("activation", "above", "below"), [("silu", np.inf, 0), ("sigmoid", 1, 0)])
def test_limits(activation, above, below, layout, dtype):
    """NaN passes through, infinities give the limits."""
    values = np.array([np.nan, np.inf, -np.inf, 0], dtype)
    x = np.tile(values, 9)
    x = to_layout(x.reshape(1, 1, 1, -1), layout)
    y = pplconv.conv2d(x, np.ones((17, 1, 1, 1), dtype), activation=activation, layout=layout)
    y = from_layout(y, layout)
    zero = 0.5 if activation == "sigmoid" else 0
    expected = np.broadcast_to(np.tile([np.nan, above, below, zero], 9), (1, 17, 1, 36))
    np.testing.assert_array_equal(y, expected)
