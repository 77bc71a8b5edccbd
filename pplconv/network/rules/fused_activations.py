"""Maps operators to activations of fused nodes."""

from __future__ import annotations

import onnx_ir as ir

from ...activations import CURVES, KINDS
from ..values import FLOATS, constant
from .clamps import bounds

__all__ = ["OPERATORS", "found_activation"]

_CURVES = {KINDS[name].onnx: name for name in CURVES}

OPERATORS = ("Relu", "Clip", "LeakyRelu", "PRelu", "HardSigmoid", *_CURVES)
"""Operators that may be the activation of a fused node."""


def found_activation(node: ir.Node) -> tuple[str, tuple[float, ...]] | None:
    """Give name and parameters of a node's activation.

    Parameters
    ----------
    node : ir.Node
        A node of ONNX's operators.

    Returns
    -------
    tuple, or None
        None if no fused node has it.  Slopes of ``prelu`` stay an input of the node.
    """
    name = node.op_type
    if node.inputs[0] is None or node.inputs[0].dtype not in FLOATS:
        return None
    if name == "Relu":
        return "relu", ()
    if name in _CURVES:
        wanted = KINDS[_CURVES[name]].onnx_attributes
        plain = all(
            key not in node.attributes or _value(node.attributes[key]) == value
            for key, value in wanted.items()
        )
        return (_CURVES[name], ()) if plain else None
    if name == "LeakyRelu":
        return "leaky_relu", (float(node.attributes.get_float("alpha", 0.01)),)
    if name == "HardSigmoid":
        slope = float(node.attributes.get_float("alpha", 0.2))
        return "hardsigmoid", (slope, float(node.attributes.get_float("beta", 0.5)))
    if name == "Clip":
        limits = bounds(node)
        return None if limits is None else ("clip", limits)
    if name == "PRelu":
        return None if constant(node.inputs[1]) is None else ("prelu", ())
    return None


def _value(attribute: ir.Attr) -> float | str:
    """Give the value of an attribute that is a number or a text."""
    text = attribute.type == ir.AttributeType.STRING
    return str(attribute.as_string()) if text else float(attribute.as_float())
