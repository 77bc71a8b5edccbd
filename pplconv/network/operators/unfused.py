"""Fused nodes as ONNX's own operators, for nodes that our loops do not serve."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx.helper import make_node

from ...activations import CURVES, KINDS
from ..nodes import Node
from ..onnx_later import ir

_OWN = ("activation", "activation_parameters")
_PLAIN = {"relu": "Relu", "leaky_relu": "LeakyRelu", "hardsigmoid": "HardSigmoid"} | {
    name: KINDS[name].onnx for name in CURVES
}


def unfused(node: Node) -> list[onnx.NodeProto]:
    """Write a fused node in ONNX's operators.

    Parameters
    ----------
    node : Node
        Of the domain ``pplconv``.

    Returns
    -------
    list of NodeProto
        In order; they read the inputs of the node and write its output.
    """
    nodes: list[onnx.NodeProto] = []
    inputs = [*node.inputs, *[""] * 8][:8]

    def emit(operator: str, *names: str, **attributes: Any) -> str:
        result = f"{node.outputs[0]}/unfused_{len(nodes)}"
        nodes.append(make_node(operator, names, [result], **attributes))
        return result

    def channel(name: str) -> str:
        # One element for each channel, beside images.
        axes = emit("Constant", value=onnx.numpy_helper.from_array(np.array([1, 2])))
        return emit("Unsqueeze", name, axes)

    operator = node.op.removeprefix("pplconv.")
    if operator == "Linear":
        result = emit("MatMul", *inputs[:2])
        for added in filter(None, inputs[2:4]):
            result = emit("Add", result, added)
    else:
        assert node.source is not None
        plain = ir.to_proto(node.source)
        attributes = {
            a.name: onnx.helper.get_attribute_value(a)
            for a in plain.attribute
            if a.name not in _OWN
        }
        result = emit(operator, *inputs[: 3 if inputs[2] else 2], **attributes)
        if inputs[3]:
            result = emit("Add", result, inputs[3])
    result = _activated(node, result, inputs[7], emit, channel)
    for name, after in ((inputs[4], "Mul"), (inputs[5], "Add")):
        if name:
            result = emit(after, result, channel(name))
    if inputs[6]:
        result = emit("Add", result, inputs[6])
    nodes.append(make_node("Identity", [result], [node.outputs[0]]))
    return nodes


def _activated(node: Node, x: str, slope: str, emit: Any, channel: Any) -> str:
    name = node.attributes.get("activation", "")
    numbers = list(node.attributes.get("activation_parameters", []))
    result = x
    if name == "silu":
        result = emit("Mul", x, emit("Sigmoid", x))
    elif name == "prelu":
        result = emit("PRelu", x, channel(slope))
    elif name == "clip":
        result = x
        for number, operator in zip(numbers, ("Max", "Min"), strict=True):
            bound = emit("Constant", value_float=float(number))
            result = emit(operator, result, emit("CastLike", bound, x))
    elif name:
        names = {"leaky_relu": ("alpha",), "hardsigmoid": ("alpha", "beta")}.get(name, ())
        result = emit(_PLAIN[name], x, **dict(zip(names, numbers, strict=True)))
    return str(result)
