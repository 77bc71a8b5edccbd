"""Models in another type of floating point."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

# Inputs that are of a type of their own, whatever the arrays are of.
APART = {"Resize": slice(1, None), "Upsample": slice(1, None)}


def retyped(model: onnx.ModelProto, before: Any, after: Any) -> onnx.ModelProto:
    """The same network with all weights, inputs and outputs of one type in another one."""
    old, new = (ir.DataType.from_numpy(np.dtype(dtype)) for dtype in (before, after))
    made = ir.from_proto(model)
    graph = made.graph
    apart = {
        value.name for node in graph for value in node.inputs[APART.get(node.op_type, slice(0, 0))]
        if value is not None
    }  # fmt: skip

    def converted(tensor: Any) -> ir.Tensor:
        with np.errstate(over="ignore"):
            return ir.Tensor(tensor.numpy().astype(after), name=tensor.name)

    for name, value in graph.initializers.items():
        if value.const_value.dtype == old and name not in apart:
            value.const_value = converted(value.const_value)
            value.type = ir.TensorType(new)
    for node in graph:
        for name, attribute in list(node.attributes.items()):
            of_tensor = attribute.type == ir.AttributeType.TENSOR
            if of_tensor and attribute.value.dtype == old and node.outputs[0].name not in apart:
                node.attributes[name] = ir.AttrTensor(name, converted(attribute.value))
            if node.op_type == "Cast" and name == "to" and attribute.value == old:
                node.attributes[name] = ir.AttrInt64(name, int(new))
        for value in node.outputs:
            if value.dtype == old:
                value.type = value.shape = None
    for value in (*graph.inputs, *graph.outputs):
        if value.dtype in (old, None):
            value.type = ir.TensorType(new)
    return ir.to_proto(made)
