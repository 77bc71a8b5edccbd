"""Models of nodes that are named by hand; most tests write theirs with `graphs.Graph`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper


def _known(of: Any) -> tuple[Any, Any]:
    """Dtype and shape of an array, of such a pair, or of a dtype alone."""
    if isinstance(of, (np.ndarray, np.generic)):
        return of.dtype, of.shape
    return of if isinstance(of, tuple) else (of, None)


def info(name: str, of: Any) -> onnx.ValueInfoProto:
    """A value like an array, of a (dtype, shape), of a dtype, or (None) of any type."""
    if of is None:
        return helper.make_empty_tensor_value_info(name)
    dtype, shape = _known(of)
    return helper.make_tensor_value_info(
        name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape
    )


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
    outputs: Mapping[str, Any] | Iterable[str] = ("y",),
    *,
    opset: int = 21,
    **more: Any,
) -> onnx.ModelProto:
    """A model, as `graph_of` has it; outputs that have no type are of the first input's."""
    if not isinstance(outputs, Mapping):
        dtype, _ = _known(next(iter(inputs.values()), np.float32))
        outputs = dict.fromkeys(outputs, dtype)
    more = {"opset_imports": [helper.make_opsetid("", opset)], "ir_version": 10, **more}
    return helper.make_model(graph_of(nodes, inputs, outputs, constants), **more)
