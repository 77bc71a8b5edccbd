"""A model of a single Conv, for the engines that read ONNX."""

from __future__ import annotations

from benchmarks.engines.base import Array32
from benchmarks.problems import Problem


def conv_model(problem: Problem, w: Array32) -> bytes:
    """Serialise a model ``y = Conv(x, w)``: fixed shapes, opset 17, the weight a constant."""
    from onnx import TensorProto, helper, numpy_helper

    node = helper.make_node(
        "Conv",
        ["x", "w"],
        ["y"],
        kernel_shape=[problem.kh, problem.kw],
        strides=[problem.sh, problem.sw],
        pads=[problem.ph, problem.pw, problem.ph, problem.pw],
        dilations=[problem.dh, problem.dw],
        group=problem.groups,
    )
    graph = helper.make_graph(
        [node],
        "conv",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, problem.input_shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, problem.output_shape)],
        [numpy_helper.from_array(w, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    serialised: bytes = model.SerializeToString()
    return serialised
