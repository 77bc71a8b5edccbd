"""Which activation of a fused node an operator is."""

from __future__ import annotations

import onnx_ir as ir

from ..values import FLOATS, constant
from .clamps import bounds

__all__ = ["found_activation"]


def found_activation(node: ir.Node) -> tuple[str, tuple[float, ...]] | None:
    """Give name and parameters of the activation that a node computes.

    Parameters
    ----------
    node : ir.Node
        A node of ONNX's operators.

    Returns
    -------
    tuple, or None
        None for what no fused node computes.  Slopes of ``prelu`` stay an input of the node.
    """
    name = node.op_type
    if node.inputs[0] is None or node.inputs[0].dtype not in FLOATS:
        return None
    if name in ("Relu", "HardSwish", "Sigmoid"):
        return name.lower(), ()
    if name == "Swish":
        return ("silu", ()) if node.attributes.get_float("alpha", 1.0) == 1 else None
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
