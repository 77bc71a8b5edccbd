"""Layers whose weights are sparse: results, NaN and infinities, pickles, plans."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import pplconv
from pplconv.commands.bench_instances import Layers
from pplconv.memory.array_like import bfloat16_dtype
from pplconv.problem import ConvProblem
from tests.api.blocks import to_layout
from tests.api.buffers import draw
from tests.api.pruned import prune
from tests.reference import assert_convolution

# weight, groups, image, arguments
SHAPES = {
    "3x3": ((37, 21, 3, 3), 1, (13, 11), {"padding": 1}),
    "1x1": ((70, 33, 1, 1), 1, (7, 9), {}),
    "stride": ((23, 19, 3, 3), 1, (15, 14), {"stride": (2, 1), "padding": "same_upper"}),
    "dilation": ((18, 9, 3, 2), 1, (14, 17), {"dilation": (2, 3)}),
    "groups": ((48, 11, 3, 3), 2, (9, 8), {"padding": ((1, 0), (2, 1))}),
}


@pytest.fixture
def weight(rng):
    return prune(draw(rng, 64, 32, 3, 3), 1, 4, 0.25, 7)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("shape", SHAPES)
def test_results(shape, layout, dtype, rng):
    sizes, groups, image, arguments = SHAPES[shape]
    x = to_layout(draw(rng, 2, sizes[1] * groups, *image, dtype=dtype), layout)
    bias = draw(rng, sizes[0], dtype=dtype)
    for block in (1, 4, 16):
        weight = prune(draw(rng, *sizes, dtype=dtype), groups, block, 0.3, block)
        conv = pplconv.Conv2d(
            weight, bias, groups=groups, layout=layout, activation="relu", precision="fp32"
            if dtype == "float16" else None, sparse=True, **arguments,
        )  # fmt: skip
        assert conv.plan_for(x.shape).algorithm == "sparse"
        assert_convolution(
            conv(x), x, weight, bias, groups=groups, layout=layout, activation="relu", **arguments
        )
        once = conv(x[0])
        assert once.tobytes() == conv(x[:1]).tobytes()


def test_blocks_of_channels(rng, weight):
    x = draw(rng, 1, 32, 9, 10)
    conv = pplconv.Conv2d(weight, padding=1, sparse=True, layout="NCHWc")
    y = pplconv.from_blocked(conv(pplconv.to_blocked(x)), channels=64)
    assert_convolution(y, x, weight, padding=1)


def test_rows(rng):
    weight = prune(draw(rng, 70, 33), 1, 8, 0.2, 7)
    layer = pplconv.Linear(weight, draw(rng, 70), activation="silu", sparse=True)
    dense = pplconv.Linear(weight, layer.bias, activation="silu", sparse=False)
    x = draw(rng, 3, 5, 33)
    assert layer.plan_for(x.shape).algorithm == "sparse"
    assert layer.plan_for(x.shape).sparsity.block == 8
    np.testing.assert_allclose(layer(x), dense(x), rtol=1e-5, atol=1e-5)


def test_the_planner_chooses(rng):
    """With 5 % of the weights left the planner chooses `sparse`, with 89 % it does not."""
    x = (1, 128, 14, 14)
    dense = draw(rng, 128, 128, 1, 1)
    few = pplconv.prune.magnitude(dense, 0.05, (1, 16))
    most = pplconv.prune.magnitude(dense, 0.89, (1, 1))
    assert pplconv.Conv2d(few, threads=1).plan_for(x).algorithm == "sparse"
    assert pplconv.Conv2d(most, threads=1).plan_for(x).algorithm != "sparse"
    assert pplconv.Conv2d(most, threads=1).plan_for(x).sparsity is not None
    assert pplconv.Conv2d(few, sparse=False).plan_for(x).algorithm != "sparse"
    assert pplconv.Conv2d(few, algorithm="direct").plan_for(x).algorithm == "direct"


def test_bits_do_not_depend_on_the_team(rng, weight):
    x = draw(rng, 1, 32, 40, 40)
    results = {
        pplconv.Conv2d(weight, padding=1, sparse=True, threads=threads)(x).tobytes()
        for threads in (1, 2, 3)
    }
    assert len(results) == 1


def test_out_and_residual(rng, weight):
    x, residual = draw(rng, 2, 32, 9, 9), draw(rng, 2, 64, 9, 9)
    conv = pplconv.Conv2d(weight, padding=1, sparse=True)
    out = np.empty_like(residual)
    assert conv(x, residual, out) is out
    np.testing.assert_allclose(out, conv(x) + residual, rtol=1e-5, atol=1e-4)


def test_bfloat16(rng, weight):
    dtype = bfloat16_dtype()
    if dtype is None:
        pytest.skip("no ml_dtypes")
    x = draw(rng, 1, 32, 9, 9).astype(dtype)
    conv = pplconv.Conv2d(weight.astype(dtype), padding=1, precision="fp32", sparse=True)
    assert conv.plan_for(x.shape).algorithm == "sparse"
    dense = pplconv.Conv2d(weight.astype(dtype), padding=1, precision="fp32", sparse=False)
    np.testing.assert_allclose(
        conv(x).astype(np.float32), dense(x).astype(np.float32), rtol=2**-7, atol=1e-2
    )


# NaN and infinities ------------------------------------------------------------------------------


@pytest.mark.parametrize("special", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_zeros_are_no_part_of_the_model(special, layout, rng):
    """What they would be multiplied by does not count; with sparse=False it does."""
    weight = draw(rng, 48, 16, 3, 3)
    weight[:, 3] = 0
    weight[:, 4] = -0.0
    x = draw(rng, 1, 16, 8, 9)
    plain = x.copy()
    x[:, 3, 2:5, 4], x[:, 4] = special, special
    plain[:, 3:5] = 0
    x, plain = to_layout(x, layout), to_layout(plain, layout)
    conv = pplconv.Conv2d(weight, padding=1, layout=layout, sparse=True)
    assert_convolution(conv(x), plain, weight, padding=1, layout=layout)
    dense = pplconv.Conv2d(weight, padding=1, layout=layout, sparse=False)
    assert_convolution(dense(x), x, weight, padding=1, layout=layout)
    assert np.isnan(dense(x)).any()


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("stride", [1, 2])
def test_infinite_weights_leave_the_border_as_it_is(layout, stride, rng, weight):
    """Padding is no pixel, and zeros are none of the weights there, either."""
    weight[3, 5, 1, 2], weight[40, 2, 0, 0], weight[41] = np.inf, np.nan, 0
    weight[:, 7] = 0
    x = draw(rng, 2, 32, 9, 8)
    seen = x.copy()
    x[:, 7] = np.inf
    seen[:, 7] = 0
    x, seen = to_layout(x, layout), to_layout(seen, layout)
    for block in ((1, 1), (1, 4)):
        arguments = {"padding": ((1, 2), (1, 0)), "stride": stride, "layout": layout}
        conv = pplconv.Conv2d(weight, sparse=True, block=block, **arguments)
        assert conv.plan_for(x.shape).algorithm == "sparse"
        assert_convolution(conv(x), seen, weight, **arguments)


# Pickles, plans ----------------------------------------------------------------------------------


def test_pickles(rng, weight):
    x = draw(rng, 1, 32, 9, 9)
    for arguments in ({"sparse": True}, {"sparse": False}, {"block": (1, 1)}):
        conv = pplconv.Conv2d(weight, padding=1, **arguments)
        again = pickle.loads(pickle.dumps(conv))
        assert repr(again) == repr(conv)
        assert (again.sparse, again.block, again.algorithm) == (
            conv.sparse, conv.block, conv.algorithm,
        )  # fmt: skip
        assert again(x).tobytes() == conv(x).tobytes()
        flat = pplconv.Linear(weight[:, :, 0, 0], **arguments)
        copied = pickle.loads(pickle.dumps(flat))
        assert repr(copied) == repr(flat)
        assert copied.plan_for((5, 32)) == flat.plan_for((5, 32))


def test_a_quantized_layer_of_an_older_version(weight):
    q = np.rint(4 * weight).astype(np.int8)
    layer = pplconv.QConv2d(q, out_dtype="int32", sparse=False)
    again = pickle.loads(pickle.dumps(layer))
    assert repr(again) == repr(layer) and again.sparse is False
    function, arguments, state, *_ = layer.__reduce_ex__(2)
    for name in ("sparse", "block"):
        delattr(state["_arguments"], name)
    older = function(*arguments)
    older.__setstate__(state)
    assert (older.sparse, older.block) == ("auto", None)


def test_what_a_plan_says(weight):
    plan = pplconv.Conv2d(weight, padding=1, threads=1).plan_for((1, 32, 20, 20))
    assert plan.sparsity.block == 4 and 240 <= plan.sparsity.density <= 260
    assert f"sb4sd{plan.sparsity.density}" in plan.problem
    assert plan.predicted_gain > 0 and plan.measured_gain is None
    text = str(plan)
    assert (
        f"\nsparsity   {plan.sparsity.density / 10:.3g} % of the weights in blocks of 1x4" in text
    )
    assert f"predicted x{plan.predicted_gain:.2f}" in text
    again = pickle.loads(pickle.dumps(plan))
    assert again == plan and again.predicted_gain == plan.predicted_gain
    forced = pplconv.Conv2d(weight, padding=1, threads=1, sparse=True).plan_for((1, 32, 20, 20))
    assert forced.predicted_gain == pytest.approx(plan.predicted_gain)
    dense = pplconv.Conv2d(weight, padding=1, sparse=False).plan_for((1, 32, 20, 20))
    assert dense.sparsity is None and dense.predicted_gain is None
    assert "sparsity" not in str(dense)


def test_the_functions_stay_dense(rng, weight):
    """They would look at the weights in every call."""
    x = draw(rng, 1, 32, 9, 9)
    expected = pplconv.Conv2d(weight, padding=1, sparse=False)(x)
    assert pplconv.conv2d(x, weight, padding=1).tobytes() == expected.tobytes()
    with pytest.raises(ValueError, match='algorithm="sparse"'):
        pplconv.conv2d(x, weight, padding=1, algorithm="sparse")


def test_integers_of_a_sparse_layer(rng, weight):
    samples = rng.random((2, 32, 9, 9)).astype(np.float32)
    for sparse, expected in ((True, "auto"), ("auto", "auto"), (False, False)):
        made = pplconv.Conv2d(weight, sparse=sparse).quantize(samples)
        assert (made.sparse, made.block) == (expected, None)
        assert (made.plan_for((1, 32, 9, 9)).sparsity is None) is (sparse is False)
    assert pplconv.Conv2d(weight, block=(1, 4)).quantize(samples).block == (1, 4)


def test_layers_of_a_command_line():
    problem = ConvProblem.parse("mb1ic32ih9oc64kh1sb4sd250")
    model = Layers([(problem, 2)])
    assert model(np.ones(problem.input_shape, np.float32)).shape == problem.output_shape
    conv, _ = model._calls[0]
    assert conv.plan_for(problem.input_shape).problem == str(problem)
