"""ConvTranspose in networks: what no tap leads to stays as it was."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import pplconv


def model_of(weight, bias, shape, **attributes):
    node = helper.make_node("ConvTranspose", ["x", "w", "b"], ["y"], **attributes)
    graph = helper.make_graph(
        [node], "one", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(weight, "w"), numpy_helper.from_array(bias, "b")],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


@pytest.mark.parametrize(
    "kernel, attributes",
    [
        ((3, 3), {"dilations": [2, 2]}),
        ((2, 3), {"dilations": [2, 3], "strides": [2, 2]}),
        ((2, 2), {"strides": [3, 4]}),
        ((1, 1), {"strides": [2, 2], "output_padding": [1, 1]}),
        ((3, 2), {"strides": [2, 2], "pads": [2, 1, 0, 1]}),
    ],
    ids=str,
)
def test_an_infinite_input_reaches_what_its_taps_lead_to(kernel, attributes, rng):
    weight = rng.standard_normal((4, 5, *kernel)).astype(np.float32)
    bias = rng.standard_normal(5).astype(np.float32)
    x = rng.standard_normal((1, 4, 5, 6)).astype(np.float32)
    x[0, 1, 2, 3] = np.inf
    session = pplconv.InferenceSession(model_of(weight, bias, x.shape, **attributes))
    (y,) = session.run(None, {"x": x})
    assert "Conv" in str(session.plan_for({"x": x.shape})), "loops of ours"
    # One image of ones and zeros tells where the taps of that input lead.
    one = (~np.isfinite(x)).astype(np.float32)
    (seen,) = session.run(None, {"x": one})
    reached = seen != bias.reshape(1, -1, 1, 1)
    assert reached.any() and not reached.all()
    np.testing.assert_array_equal(np.isfinite(y), ~reached)
