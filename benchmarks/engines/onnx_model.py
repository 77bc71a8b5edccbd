"""A model of a single Conv, for the engines that read ONNX."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.engines.base import Array32
from benchmarks.problems import Problem


def conv_model(problem: Problem, w: Array32) -> bytes:
    """Serialise a model ``y = Conv(x, w)``: fixed shapes, opset 17, the weight a constant."""
    shapes = problem.input_shape, problem.output_shape
    return model_of("Conv", problem, *shapes, np.dtype(np.float32), {"w": w})


def model_of(
    operator: str, problem: Problem, x_shape: tuple[int, ...], y_shape: tuple[int, ...],
    dtype: np.dtype[Any], constants: Mapping[str, Any], domain: str = "", **attributes: Any,
) -> bytes:  # fmt: skip
    """Serialise a model of one convolution by `operator`: of ``x`` and constants, fixed shapes."""
    from onnx import helper, numpy_helper

    node = helper.make_node(
        operator,
        ["x", *constants],
        ["y"],
        domain=domain or None,
        kernel_shape=[problem.kh, problem.kw],
        strides=[problem.sh, problem.sw],
        pads=[problem.ph, problem.pw, problem.ph, problem.pw],
        dilations=[problem.dh, problem.dw],
        group=problem.groups,
        **attributes,
    )
    element = helper.np_dtype_to_tensor_dtype(dtype)
    graph = helper.make_graph(
        [node],
        "conv",
        [helper.make_tensor_value_info("x", element, x_shape)],
        [helper.make_tensor_value_info("y", element, y_shape)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    sets = [helper.make_opsetid("", 17), *([helper.make_opsetid(domain, 1)] if domain else [])]
    model = helper.make_model(graph, opset_imports=sets, ir_version=8)
    serialised: bytes = model.SerializeToString()
    return serialised
