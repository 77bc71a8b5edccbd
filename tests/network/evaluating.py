"""Graphs with fused nodes, computed by onnxruntime: each fused node written in ONNX's operators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from pplconv.network.fused_nodes import DOMAIN, LINEAR, Port, activation_of, inputs_of
from tests.network.running import by_onnxruntime, referred

Arrays = Mapping[str, np.ndarray]


def evaluate(model: ir.Model, feed: Arrays) -> list[np.ndarray]:
    """Outputs of a model, whose fused nodes are expanded first."""
    return run(expanded(model), feed)


def run(model: ir.Model, feed: Arrays) -> list[np.ndarray]:
    """Outputs of a model of ONNX's operators, by onnxruntime without its own rewriting.

    In double precision, for which onnxruntime has few operators, by ONNX's evaluator.
    """
    if any(array.dtype == np.float64 for array in feed.values()):
        return referred(ir.to_proto(model), feed)
    model.ir_version = min(model.ir_version, 10)
    return by_onnxruntime(ir.to_proto(model), feed)


def expanded(model: ir.Model) -> ir.Model:
    """A copy without fused nodes."""
    model = model.clone()
    graph = model.graph
    names = iter(range(1 << 30))

    def constant(array: Any, like: ir.Value) -> ir.Value:
        dtype = np.float32 if like.dtype is None else like.dtype.numpy()
        tensor = ir.tensor(np.asarray(array, dtype=dtype))
        value = ir.Value(name=f"expanded_{next(names)}", const_value=tensor)
        value.shape, value.type = ir.Shape(tensor.shape), ir.TensorType(tensor.dtype)
        graph.register_initializer(value)
        return value

    for node in list(graph):
        if node.domain != DOMAIN and node.op_type != "Swish":
            continue
        y = node.outputs[0]
        nodes: list[ir.Node] = []

        def emit(operator: str, *inputs: ir.Value | None, out=nodes, like=y, **kw: Any) -> ir.Value:
            made = ir.node(operator, list(inputs), attributes=kw)
            made.outputs[0].name = f"expanded_{next(names)}"
            made.outputs[0].type = like.type
            out.append(made)
            return made.outputs[0]

        result = _expand(node, y, emit, constant)
        name = y.name
        y.name = f"expanded_{next(names)}"
        result.name, result.shape = name, y.shape
        ir.convenience.replace_all_uses_with(y, result, replace_graph_outputs=True)
        graph.insert_after(node, nodes)
        graph.remove(node, safe=True)
    model.opset_imports.pop(DOMAIN, None)
    return model


def _expand(node: ir.Node, y: ir.Value, emit: Any, constant: Any) -> ir.Value:
    if node.op_type == "Swish":
        x = node.inputs[0]
        alpha = node.attributes.get_float("alpha", 1.0)
        inner = x if alpha == 1 else emit("Mul", x, constant(alpha, x))
        return emit("Mul", x, emit("Sigmoid", inner))
    inputs = inputs_of(node)
    if node.op_type == LINEAR:
        assert len(node.inputs) <= 4
        result = emit("MatMul", inputs[0], inputs[1])
        if inputs[2] is not None:
            result = emit("Add", result, inputs[2])
        if inputs[3] is not None:
            assert inputs[3].shape == y.shape
            result = emit("Add", result, inputs[3])
        return _activated(node, result, None, y, emit, constant)
    attributes = {
        name: attribute
        for name, attribute in node.attributes.items()
        if name not in ("activation", "activation_parameters")
    }
    assert {"strides", "pads", "dilations", "group", "kernel_shape"} <= attributes.keys()
    result = emit(node.op_type, *inputs[:3], **attributes)
    channels = y.shape[1]
    if inputs[Port.RESIDUAL] is not None:
        assert inputs[Port.RESIDUAL].shape == y.shape
        result = emit("Add", result, inputs[Port.RESIDUAL])
    result = _activated(node, result, inputs[Port.SLOPE], y, emit, constant)
    for port, operator in ((Port.SCALE, "Mul"), (Port.OFFSET, "Add")):
        value = inputs[port]
        if value is not None:
            array = value.const_value.numpy()
            assert array.shape == (channels,) and value.dtype == y.dtype
            result = emit(operator, result, constant(array.reshape(-1, 1, 1), y))
    if inputs[Port.RESIDUAL_AFTER] is not None:
        assert inputs[Port.RESIDUAL_AFTER].shape == y.shape
        result = emit("Add", result, inputs[Port.RESIDUAL_AFTER])
    return result


def _activated(
    node: ir.Node, x: ir.Value, slope: ir.Value | None, y: ir.Value, emit: Any, constant: Any
) -> ir.Value:
    name, numbers = activation_of(node)
    assert (slope is not None) == (name == "prelu")
    if name == "":
        return x
    if name == "silu":
        return emit("Mul", x, emit("Sigmoid", x))
    if name == "clip":
        low, high = (None if np.isinf(n) else constant(n, y) for n in numbers)
        return emit("Clip", x, low, high)
    if name == "prelu":
        array = slope.const_value.numpy()
        assert array.shape == (y.shape[1],)
        return emit("PRelu", x, constant(array.reshape(-1, 1, 1), y))
    if name == "leaky_relu":
        return emit("LeakyRelu", x, alpha=numbers[0])
    if name == "hardsigmoid":
        return emit("HardSigmoid", x, alpha=numbers[0], beta=numbers[1])
    return emit({"relu": "Relu", "hardswish": "HardSwish"}.get(name, name.capitalize()), x)
