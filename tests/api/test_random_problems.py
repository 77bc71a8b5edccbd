"""Random problems against the float64 reference: some thousands in each run."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pplconv
from pplconv.sparsity import BLOCKS
from tests.api.buffers import assert_all_calls_give, guarded
from tests.api.problems import Problem, problems, stated_by, stated_error
from tests.api.pruned import prune
from tests.reference import assert_convolution, conv2d_reference

DENSITIES = (0.0, 0.05, 0.25, 0.6, 1.1)


def check(problem: Problem) -> np.ndarray:
    """Run ``conv2d`` into a poisoned, guarded output and compare it with the reference."""
    arrays, arguments = problem.arrays(), {**problem.parameters, **problem.options}
    y = guarded(pplconv.conv2d, problem.output_shape, problem.dtype, **arrays, **arguments)
    stated = stated_error(arrays["weight"], problem.input_shape, **arguments)
    assert_convolution(y, **arrays, **problem.parameters, stated=stated)
    return y


@pytest.mark.sampled(1)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@given(data=st.data())
def test_whatever_the_planner_chooses(dtype, layout, data):
    check(data.draw(problems(dtypes=(dtype,), layouts=(layout,))))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("algorithm", ["im2col", "direct"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@given(data=st.data())
def test_an_algorithm_that_serves_all(layout, algorithm, data):
    check(data.draw(problems(layouts=(layout,), algorithms=(algorithm,))))


KINDS = {
    "pointwise": {"pointwise": True, "algorithms": ("auto", "pointwise", "im2col")},
    "depthwise and channel multipliers": {"kinds": ("depthwise",)},
    "groups of few channels": {"kinds": ("few",)},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@given(data=st.data())
def test_special_shapes(layout, kind, data):
    check(data.draw(problems(layouts=(layout,), **KINDS[kind])))


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@given(data=st.data())
def test_pruned_weights(layout, data):
    """Whether zeros are left out, and in which blocks, nothing but zeros is missing."""
    problem = data.draw(problems(layouts=(layout,)))
    pattern, density = data.draw(st.sampled_from(BLOCKS)), data.draw(st.sampled_from(DENSITIES))
    depthwise = problem.in_channels == problem.groups > 1
    sparse = data.draw(st.sampled_from(["auto", False] if depthwise else ["auto", True, True]))
    blocks = [None, *((1, width) for width in BLOCKS)]
    block = None if sparse is False else data.draw(st.sampled_from(blocks))
    arrays = problem.arrays()
    arrays["weight"] = prune(arrays["weight"], problem.groups, pattern, density, problem.seed)
    arguments = {**problem.parameters, **problem.options}
    conv = pplconv.Conv2d(arrays["weight"], arrays["bias"], **arguments, sparse=sparse, block=block)
    own = arrays["input"], arrays["residual"]
    y = guarded(conv, problem.output_shape, problem.dtype, *own, also=[arrays["weight"]])
    stated = stated_by(conv.plan_for(problem.input_shape))
    assert_convolution(y, **arrays, **problem.parameters, stated=stated)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@given(data=st.data())
def test_sums_of_small_integers_are_exact(dtype, data):
    """Every product and sum is a whole number below 2**24, so no order of sums may round.

    With ``tolerance=0``, that is, which leaves direct sums only.
    """
    problem = data.draw(
        problems(dtypes=(dtype,), algorithms=("auto", "im2col", "direct"), curved=False)
    )
    arrays = problem.arrays(integers=True)
    y = pplconv.conv2d(**arrays, **problem.parameters, **problem.options, tolerance=0)
    np.testing.assert_array_equal(y, conv2d_reference(**arrays, **problem.parameters))


@given(problem=problems())
def test_prepared_and_direct_calls_give_the_same_bits(problem):
    arrays = problem.arrays()
    direct = check(problem)
    arguments = {**problem.parameters, **problem.options}
    conv = pplconv.Conv2d(arrays["weight"], arrays["bias"], **arguments)
    prepared = pplconv.Conv2d(
        arrays["weight"], arrays["bias"], **arguments, input_shape=problem.input_shape
    )
    assert_all_calls_give(direct, conv, prepared, arrays["input"], arrays["residual"])
