"""Shapes that contradict one another, where ONNX's own inference lets them pass."""

from __future__ import annotations

import math
from collections.abc import Sequence

import onnx_ir as ir

from .values import attribute_int, attribute_string, broadcasts_to, static_shape

__all__ = ["contradiction"]

# Matrices of weights that each direction has, in a row.
_GATES = {"GRU": 3, "LSTM": 4, "RNN": 1}
Shapes = Sequence[tuple[int, ...] | None]


def contradiction(node: ir.Node) -> str | None:
    """Say what is wrong with the shapes of a node.

    Parameters
    ----------
    node : ir.Node
        A node whose inputs and outputs have their shapes.

    Returns
    -------
    str or None
        None if nothing is known to be wrong.
    """
    if node.domain:
        return None
    shapes = [static_shape(value) for value in node.inputs]
    problem = None
    if node.op_type in ("Conv", "ConvTranspose"):
        problem = _of_convolution(node, shapes)
    elif node.op_type in ("QuantizeLinear", "DequantizeLinear"):
        problem = _of_scales(node, shapes)
    elif node.op_type in _GATES:
        problem = _of_sequence(node, shapes)
    elif node.op_type == "PRelu" and len(shapes) == 2 and None not in shapes:
        x, slope = shapes[0] or (), shapes[1] or ()
        if not broadcasts_to(x, slope):
            problem = f"the input has the shape {x}, the slope {slope}"
    elif node.op_type in ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose"):
        before, after = shapes[0], static_shape(node.outputs[0])
        if before is not None and after is not None and math.prod(before) != math.prod(after):
            problem = f"{before} cannot become {after}"
    if problem:
        return problem
    negative = [
        shape for value in node.outputs if (shape := static_shape(value)) and min(shape) < 0
    ]
    return f"the output would have the shape {negative[0]}" if negative else None


def _of_convolution(node: ir.Node, shapes: Shapes) -> str | None:
    if None in shapes[:2]:
        return None
    x, w = shapes[0] or (), shapes[1] or ()
    group = attribute_int(node, "group", 1)
    if len(x) != len(w) or len(x) < 3:
        return f"the input has the shape {x}, the weights have {w}"
    if group < 1 or x[1] % group or (node.op_type == "Conv" and w[0] % group):
        return f"{group} groups do not divide the channels of {x} and {w}"
    expected = x[1] // group if node.op_type == "Conv" else x[1]
    if w[1 if node.op_type == "Conv" else 0] != expected:
        return f"the input has the shape {x}, the weights have {w}, in {group} groups"
    channels = w[0] if node.op_type == "Conv" else w[1] * group
    if len(shapes) > 2 and node.inputs[2] is not None and shapes[2] != (channels,):
        return f"the bias has the shape {shapes[2]}, expected {(channels,)}"
    return None


def _of_sequence(node: ir.Node, shapes: Shapes) -> str | None:
    """Compare the operands of a recurrent node; those that are left out are None."""
    x, w, r, bias, lengths, hidden, cell, peepholes = [*shapes, *[None] * 8][:8]
    if x is None or w is None or r is None or len(x) != 3 or len(r) != 3:
        return f"the input has the shape {x}, the weights have {w} and {r}"
    direction = attribute_string(node, "direction", "forward")
    if direction not in ("forward", "reverse", "bidirectional"):
        return f"the direction is {direction!r}"
    directions = 2 if direction == "bidirectional" else 1
    turned = attribute_int(node, "layout", 0) != 0
    batch, width, gates = x[0 if turned else 1], r[2], _GATES[node.op_type]
    state = (batch, directions, width) if turned else (directions, batch, width)
    size = attribute_int(node, "hidden_size", width)
    if size != width:
        return f"hidden_size is {size}, the recurrent weights have the shape {r}"
    for what, shape, expected in (
        ("input weights", w, (directions, gates * width, x[2])),
        ("recurrent weights", r, (directions, gates * width, width)),
        ("bias", bias, (directions, 2 * gates * width)),
        ("lengths", lengths, (batch,)),
        ("initial state", hidden, state),
        ("initial cell", cell, state),
        ("peepholes", peepholes, (directions, 3 * width)),
    ):
        if shape is not None and shape != expected:
            return f"the {what} should have the shape {expected}, not {shape}"
    return None


def _of_scales(node: ir.Node, shapes: Shapes) -> str | None:
    """Compare the scales of a QuantizeLinear or DequantizeLinear with the axis that they count."""
    x, scale, zero = [*shapes, None][:3]
    if x is None or scale is None:
        return None
    if zero is not None and zero != scale and math.prod(zero) * math.prod(scale) != 1:
        return f"the scales have the shape {scale}, the zero points {zero}"
    if scale in ((), (1,)) or attribute_int(node, "block_size", 0):
        return None
    axis = attribute_int(node, "axis", 1)
    if len(scale) != 1 or not -len(x) <= axis < len(x) or x[axis] != scale[0]:
        return f"the scales have the shape {scale} for the axis {axis} of {x}"
    return None
