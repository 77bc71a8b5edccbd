"""Checks of operands with one number for each channel, column or gate."""

from __future__ import annotations

import math
from collections.abc import Callable

from .onnx_later import ir
from .values import Shapes, attribute_int, attribute_string, axis_of, broadcasts_to, rank

__all__ = ["CHANNEL_CHECKS"]

# Weight matrices of each direction, stacked.
_GATES = {"GRU": 3, "LSTM": 4, "RNN": 1}


def _of_channels(node: ir.Node, shapes: Shapes) -> str | None:
    """BatchNormalization and InstanceNormalization: as many numbers as x has channels."""
    x = shapes[0]
    given = [(value, shape) for value, shape in zip(node.inputs, shapes, strict=False)][1:]
    known = [shape for _, shape in given if shape is not None]
    if x is None and not known:
        return None
    channels = known[0] if x is None or len(x) < 2 else (x[1],)
    for value, shape in given:
        if shape is not None and (shape != channels or len(shape) != 1):
            name = value.name if value is not None else ""
            return f"the operand {name!r} has the shape {shape}, the input has {x}"
    return None


def _of_groups(node: ir.Node, shapes: Shapes) -> str | None:
    x, groups = shapes[0], attribute_int(node, "num_groups", 1)
    if groups < 1 or (x is not None and (len(x) < 2 or x[1] % groups)):
        return f"num_groups is {groups}, the input has the shape {x}"
    for what, shape in zip(("scale", "bias"), shapes[1:3], strict=True):
        if x is not None and shape is not None and math.prod(shape) not in (1, groups, x[1]):
            return f"the {what} has the shape {shape}, the input has {x}"
    return None


def _of_layer(node: ir.Node, shapes: Shapes) -> str | None:
    x, axes = shapes[0], rank(node.inputs[0])
    # ONNX's inference reads beside the shape for such an axis, be sizes known or not.
    if axes is not None and not -axes <= (axis := attribute_int(node, "axis", -1)) < axes:
        return f"axis is {axis}, the input has {axes} axes"
    axis, problem = axis_of(node, x, -1)
    if problem or x is None:
        return problem
    for what, shape in zip(("scale", "bias"), shapes[1:3], strict=True):
        if shape is not None and not broadcasts_to(x, shape):
            return f"the {what} has the shape {shape} for the axes from {axis} of {x}"
    return None


def _of_sequence(node: ir.Node, shapes: Shapes) -> str | None:
    """Compare the operands of a recurrent node; None: left out, or not known yet."""
    x, w, r, bias, lengths, hidden, cell, peepholes = shapes[:8]
    direction = attribute_string(node, "direction", "forward")
    if direction not in ("forward", "reverse", "bidirectional"):
        return f"direction is {direction!r}"
    layout = attribute_int(node, "layout", 0)
    if layout not in (0, 1):
        return f"layout is {layout}, expected 0 or 1"
    if any(shape is not None and len(shape) != 3 for shape in (x, w, r)):
        return f"the input has the shape {x}, the weights have {w} and {r}"
    directions = 2 if direction == "bidirectional" else 1
    if r is None:
        return None
    width, gates = r[2], _GATES[node.op_type]
    size = attribute_int(node, "hidden_size", width)
    if size != width:
        return f"hidden_size is {size}, the recurrent weights have the shape {r}"
    checks = [
        ("recurrent weights", r, (directions, gates * width, width)),
        ("bias", bias, (directions, 2 * gates * width)),
        ("peepholes", peepholes, (directions, 3 * width)),
    ]
    if x is not None:
        batch = x[0 if layout else 1]
        state = (batch, directions, width) if layout else (directions, batch, width)
        checks += [
            ("input weights", w, (directions, gates * width, x[2])),
            ("lengths", lengths, (batch,)),
            ("initial state", hidden, state),
            ("initial cell", cell, state),
        ]
    for what, shape, expected in checks:
        if shape is not None and shape != expected:
            return f"the {what} should have the shape {expected}, not {shape}"
    return None


def _of_scales(node: ir.Node, shapes: Shapes) -> str | None:
    """Compare the scales of a QuantizeLinear or DequantizeLinear with the axis that they count."""
    x, scale, zero = shapes[:3]
    if scale is None:
        return None
    if zero is not None and zero != scale and math.prod(zero) * math.prod(scale) != 1:
        return f"the scales have the shape {scale}, the zero points {zero}"
    block = attribute_int(node, "block_size", 0)
    if block < 0:
        return f"block_size is {block}"
    if x is None or scale in ((), (1,)):
        return None
    axis, problem = axis_of(node, x, 1)
    if problem:
        return problem
    if block:
        expected = tuple(-(-n // block) if i == axis else n for i, n in enumerate(x))
    else:
        expected = (x[axis],)
    if scale != expected:
        return f"the scales have the shape {scale} for the axis {axis} of {x}"
    return None


def _of_gemm(node: ir.Node, shapes: Shapes) -> str | None:
    a, b, c = shapes[:3]
    for name, shape in (("first", a), ("second", b)):
        if shape is not None and len(shape) != 2:
            return f"the {name} operand has the shape {shape}, expected a matrix"
    turned = [attribute_int(node, name, 0) != 0 for name in ("transA", "transB")]
    if a is not None and b is not None and a[0 if turned[0] else 1] != b[1 if turned[1] else 0]:
        return f"transA and transB are {[int(n) for n in turned]}, the shapes {a} and {b}"
    columns = None if b is None else b[0 if turned[1] else 1]
    rows = None if a is None else a[1 if turned[0] else 0]
    if c is not None and columns is not None:
        tail = (rows if rows is not None else c[0] if len(c) == 2 else 1, columns)
        if not broadcasts_to(tail, c):
            return f"the third operand has the shape {c}, the product has {columns} columns"
    return None


def _of_products(node: ir.Node, shapes: Shapes) -> str | None:
    """MatMul of floating point or of integers, whose second operand may have scales by column."""
    second, single, columns = {
        "MatMul": (1, (), ()),
        "MatMulInteger": (1, (2,), (3,)),
        "QLinearMatMul": (3, (1, 2, 6, 7), (4, 5)),
    }[node.op_type]
    a, b = shapes[0], shapes[second]
    if a is not None and b is not None and a and b and a[-1] != b[0 if len(b) == 1 else -2]:
        return f"the operands have the shapes {a} and {b}"
    for place in single:
        shape = shapes[place]
        if shape not in (None, (), (1,)):
            name = node.inputs[place].name
            return f"the operand {name!r} has the shape {shape}, expected one number"
    for place in columns:
        shape = shapes[place]
        # Batches of matrices have scales of their own.
        if b is None or shape is None or len(shape) >= max(len(b), 2):
            continue
        if math.prod(shape) not in (1, b[-1]):
            name = node.inputs[place].name
            return f"the operand {name!r} has the shape {shape}, the matrix has {b}"
    return None


CHANNEL_CHECKS: dict[str, Callable[[ir.Node, Shapes], str | None]] = {
    **dict.fromkeys(("BatchNormalization", "InstanceNormalization"), _of_channels),
    **dict.fromkeys(("DequantizeLinear", "QuantizeLinear"), _of_scales),
    **dict.fromkeys(("MatMul", "MatMulInteger", "QLinearMatMul"), _of_products),
    **dict.fromkeys(_GATES, _of_sequence),
    "Gemm": _of_gemm,
    "GroupNormalization": _of_groups,
    "LayerNormalization": _of_layer,
    "RMSNormalization": _of_layer,
}
"""By operator: the check of operands that depend on the channels of others."""
