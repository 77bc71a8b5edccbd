"""Models of nodes that are named by hand; most tests write theirs with `graphs.Graph`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper


def info(name: str, of: Any, shape: Sequence[Any] | None = None) -> onnx.ValueInfoProto:
    """Type and shape of a value: of an array, of (dtype, shape), or of a dtype; None: unknown."""
    if of is None:
        return helper.make_empty_tensor_value_info(name)
    if isinstance(of, (np.ndarray, np.generic)):
        of, shape = of.dtype, of.shape
    elif isinstance(of, tuple):
        of, shape = of
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(of)), shape)


def graph_of(
    nodes: Iterable[onnx.NodeProto],
    inputs: Mapping[str, Any],
    outputs: Mapping[str, Any],
    constants: Mapping[str, Any] | Iterable[onnx.TensorProto] = (),
) -> onnx.GraphProto:
    """A graph; for inputs and outputs see `info`, and constants are arrays or tensors."""
    if isinstance(constants, Mapping):
        arrays = {name: np.asarray(x) for name, x in constants.items()}
        constants = [numpy_helper.from_array(x, name) for name, x in arrays.items()]
    given, told = ([info(*item) for item in values.items()] for values in (inputs, outputs))
    return helper.make_graph(list(nodes), "test", given, told, list(constants))


def model_of(
    nodes: Iterable[onnx.NodeProto],
    inputs: Mapping[str, Any],
    constants: Mapping[str, Any] | Iterable[onnx.TensorProto] = (),
    outputs: Mapping[str, Any] | Sequence[str] = ("y",),
    *,
    opset: int = 21,
    **more: Any,
) -> onnx.ModelProto:
    """A model, as `graph_of` has it; outputs without types are of float32."""
    if not isinstance(outputs, Mapping):
        outputs = dict.fromkeys(outputs, np.float32)
    more = {"opset_imports": [helper.make_opsetid("", opset)], "ir_version": 10, **more}
    return helper.make_model(graph_of(nodes, inputs, outputs, constants), **more)
