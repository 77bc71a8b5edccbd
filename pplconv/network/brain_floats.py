"""Networks of bfloat16, computed in float32 between inputs and outputs of bfloat16.

Each bfloat16 number is a float32 number. So results are at least as accurate as those of operators
that round to bfloat16 one by one. They are rounded at the outputs of the network, and at the
model's own Casts to bfloat16.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from .model_passes import infer_shapes
from .python_values import is_container
from .subgraphs import all_nodes, subgraphs_of

__all__ = ["compute_in_float32"]

_NARROW, _WIDE = ir.DataType.BFLOAT16, ir.DataType.FLOAT
# Attributes that name a type.
_TYPES = ("dtype", "output_dtype", "softmax_precision", "stash_type", "to")


def compute_in_float32(model: ir.Model) -> None:
    """Turn the bfloat16 values of a model into float32.

    Parameters
    ----------
    model : ir.Model
        Changed in place; inputs and outputs keep their types.
    """
    if not _has_bfloat16(model):
        return
    infer_shapes(model)
    results = [value for value in model.graph.outputs if value.dtype == _NARROW]
    casts = [
        node
        for node in all_nodes(model.graph)
        if node.op_type in ("Cast", "CastLike") and node.outputs[0].dtype == _NARROW
    ]
    for graph in model.graphs():
        for value in graph.initializers.values():
            _widen_constant(value)
    for node in all_nodes(model.graph):
        state = (value for graph in subgraphs_of(node) for value in graph.inputs)
        for value in (*node.outputs, *state):
            if value.dtype == _NARROW:
                # Inference finds the type of a sequence again.
                value.type = None if is_container(value) else ir.TensorType(_WIDE)
        for name, attribute in list(node.attributes.items()):
            if name in _TYPES and attribute.value == _NARROW:
                node.attributes[name] = ir.AttrInt64(name, _WIDE)
            elif attribute.type == ir.AttributeType.TENSOR and attribute.value.dtype == _NARROW:
                node.attributes[name] = ir.AttrTensor(name, _widened(attribute.value))
    for node in casts:
        _round(node)
    for value in list(model.graph.inputs):
        if value.dtype == _NARROW and value.name not in model.graph.initializers:
            _cast_behind(model.graph, value)
    for value in results:
        _cast_to_output(model.graph, value)


def _has_bfloat16(model: ir.Model) -> bool:
    # Every bfloat16 value is computed from one of these.
    values = list(model.graph.inputs)
    for graph in model.graphs():
        values += graph.initializers.values()
    return any(value.dtype == _NARROW for value in values) or any(
        (name in _TYPES and attribute.value == _NARROW)
        or (attribute.type == ir.AttributeType.TENSOR and attribute.value.dtype == _NARROW)
        for node in all_nodes(model.graph)
        for name, attribute in node.attributes.data.items()
    )


def _widened(tensor: ir.TensorProtocol) -> ir.Tensor:
    return ir.Tensor(tensor.numpy().astype(np.float32), name=tensor.name)


def _widen_constant(value: ir.Value) -> None:
    if value.const_value is not None and value.const_value.dtype == _NARROW:
        value.const_value = _widened(value.const_value)
        value.type = ir.TensorType(_WIDE)


def _cast(source: ir.Value, dtype: ir.DataType, name: str) -> ir.Node:
    node = ir.node("Cast", [source], attributes={"to": ir.AttrInt64("to", dtype)})
    node.outputs[0].name, node.outputs[0].type = name, ir.TensorType(dtype)
    return node


def _round(node: ir.Node) -> None:
    """Make a Cast round to bfloat16, and give its readers float32."""
    result = node.outputs[0]
    source = node.inputs[0]
    assert source is not None and node.graph is not None
    rounded = _cast(source, _NARROW, f"{result.name}_bfloat16")
    node.graph.insert_before(node, rounded)
    node.replace_input_with(0, rounded.outputs[0])


def _cast_behind(graph: ir.Graph, value: ir.Value) -> None:
    """Give all readers of an input its values as float32."""
    node = _cast(value, _WIDE, f"{value.name}_float32")
    uses = [use for use in value.uses() if use.node is not node]
    for user, index in uses:
        user.replace_input_with(index, node.outputs[0])
    if len(graph):
        graph.insert_before(graph[0], node)
    else:
        graph.append(node)


def _cast_to_output(graph: ir.Graph, value: ir.Value) -> None:
    """Round the outputs of the network."""
    if value.is_graph_input():
        return
    name, at = value.name, list(graph.outputs).index(value)
    value.name = f"{name}_float32"
    node = _cast(value, _NARROW, name or "")
    graph.append(node)
    graph.outputs[at] = node.outputs[0]
