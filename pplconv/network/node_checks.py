"""Contradictions of attributes and operands that ONNX's inference lets pass.

Each operator has a check that names the contradiction or gives None; unknown shapes contradict
nothing. Only nodes that pass have their shapes inferred (`folding`).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from .channel_checks import CHANNEL_CHECKS
from .onnx_later import ir
from .values import (
    Shapes,
    attribute_int,
    attribute_ints,
    axis_of,
    broadcasts_to,
    constant,
    describe,
    static_shape,
)
from .window_checks import WINDOW_CHECKS

__all__ = ["ContradictionError", "check_node", "check_sizes", "contradiction"]


class ContradictionError(ValueError):
    """A node whose attributes and operands contradict one another."""


def check_node(node: ir.Node) -> None:
    """Refuse a node that contradicts itself.

    Parameters
    ----------
    node : ir.Node
        Any node; checks use the known part of its operands and results.

    Raises
    ------
    ContradictionError
        Naming the node, and the attribute or the operand.
    """
    _refuse(node, contradiction(node))


def check_sizes(node: ir.Node) -> None:
    """Refuse a node with a result of a negative size, be other sizes known or not.

    Parameters
    ----------
    node : ir.Node
        A node whose results have their shapes.

    Raises
    ------
    ContradictionError
        Naming the node, and the shape.
    """
    for value in node.outputs:
        shape = value.shape
        if shape is not None and any(isinstance(size, int) and size < 0 for size in shape):
            _refuse(node, f"the output would have the shape {_sizes(shape)}")


def _sizes(shape: ir.Shape) -> str:
    """Write a shape with a question mark for each size that is not known."""
    sizes = [str(size) if isinstance(size, int) else "?" for size in shape]
    return f"({', '.join(sizes)}{',' * (len(sizes) == 1)})"


def _refuse(node: ir.Node, problem: str | None) -> None:
    if problem:
        raise ContradictionError(f"model has shapes that contradict at {describe(node)}: {problem}")


def contradiction(node: ir.Node) -> str | None:
    """Name the contradiction in the attributes and shapes of a node.

    Parameters
    ----------
    node : ir.Node
        Any node; checks use the known part of its operands and results.

    Returns
    -------
    str or None
        None if there is no known contradiction.
    """
    if node.domain:
        return None
    shapes = [static_shape(value) for value in node.inputs]
    check = _CHECKS.get(node.op_type)
    problem = None if check is None else check(node, [*shapes, *[None] * 9])
    if problem is None:
        problem = _of_vectors(node, shapes) or _of_flags(node)
    if problem is None:
        negative = [
            shape for value in node.outputs if (shape := static_shape(value)) and min(shape) < 0
        ]
        problem = f"the output would have the shape {negative[0]}" if negative else None
    return problem


# Boolean attributes.
_FLAGS = frozenset((
    "align_corners", "antialias", "ceil_mode", "count_include_pad", "exclude_outside", "exclusive",
    "fmod", "input_forget", "keepdims", "largest", "linear_before_reset", "noop_with_empty_axes",
    "periodic", "reverse", "saturate", "select_last_index", "sorted", "transA", "transB", "upper",
))  # fmt: skip


def _of_flags(node: ir.Node) -> str | None:
    # The dict itself: views of a wrapper are slow.
    for name in _FLAGS.intersection(node.attributes.data):
        number = attribute_int(node, name, 0)
        if number not in (0, 1):
            return f"{name} is {number}, expected 0 or 1"
    return None


# Operands that list sizes, axes, starts and the like.
_VECTORS = {
    "ConstantOfShape": (0,),
    "Expand": (1,), "Reshape": (1,), "Slice": (1, 2, 3, 4), "Split": (1,), "Squeeze": (1,),
    "Tile": (1,), "Unsqueeze": (1,), "ReduceL1": (1,), "ReduceL2": (1,), "ReduceLogSum": (1,),
    "ReduceLogSumExp": (1,), "ReduceMax": (1,), "ReduceMean": (1,), "ReduceMin": (1,),
    "ReduceProd": (1,), "ReduceSum": (1,), "ReduceSumSquare": (1,),
}  # fmt: skip


def _of_vectors(node: ir.Node, shapes: Shapes) -> str | None:
    for place in _VECTORS.get(node.op_type, ()):
        shape = shapes[place] if place < len(shapes) else None
        if shape == () and node.op_type == "Unsqueeze":
            continue  # onnxruntime takes a single axis there
        if shape is not None and len(shape) != 1:
            return f"the operand {node.inputs[place].name!r} has the shape {shape}, expected a list"
    return None


def _of_batches(node: ir.Node, shapes: Shapes) -> str | None:
    # ONNX's inference reads beside its shapes for a negative number.
    count = attribute_int(node, "batch_dims", 0)
    known = [len(shape) for shape in shapes[:2] if shape is not None]
    if count < 0 or count >= min(known, default=count + 1):
        return f"batch_dims is {count}, the operands have the shapes {shapes[0]} and {shapes[1]}"
    return None


def _of_axis(node: ir.Node, shapes: Shapes) -> str | None:
    return axis_of(node, shapes[0], {"LayerNormalization": -1, "Flatten": 1}.get(node.op_type, 0))[
        1
    ]


def _of_flatten(node: ir.Node, shapes: Shapes) -> str | None:
    x, axis = shapes[0], attribute_int(node, "axis", 1)
    if x is not None and not -len(x) <= axis <= len(x):
        return f"axis is {axis}, the input has the shape {x}"
    return _of_sizes(node, shapes)


def _of_one_hot(node: ir.Node, shapes: Shapes) -> str | None:
    x, axis = shapes[0], attribute_int(node, "axis", -1)
    if x is not None and not -len(x) - 1 <= axis <= len(x):
        return f"axis is {axis}, the indices have the shape {x}"
    return None


def _of_concat(node: ir.Node, shapes: Shapes) -> str | None:
    known = [shape for shape in shapes if shape is not None]
    for shape in known:
        axis, problem = axis_of(node, shape, 0)
        if problem:
            return problem
        first = known[0]
        if len(shape) != len(first) or any(
            a != b for i, (a, b) in enumerate(zip(shape, first, strict=True)) if i != axis
        ):
            return f"axis is {axis}, the operands have the shapes {first} and {shape}"
    return None


def _of_elements(node: ir.Node, shapes: Shapes) -> str | None:
    x, indices = shapes[:2]
    if x is not None and indices is not None and len(x) != len(indices):
        return f"the input has the shape {x}, the indices have {indices}"
    return _of_axis(node, shapes)


def _of_split(node: ir.Node, shapes: Shapes) -> str | None:
    x = shapes[0]
    axis, problem = axis_of(node, x, 0)
    if problem:
        return problem
    count = attribute_int(node, "num_outputs", 0)
    if "num_outputs" in node.attributes and count != len(node.outputs):
        return f"num_outputs is {count}, the node has {len(node.outputs)} outputs"
    sizes = constant(node.inputs[1]) if len(node.inputs) > 1 else None
    if sizes is None or sizes.ndim != 1:
        return None
    parts = sizes.tolist()
    if len(parts) != len(node.outputs):
        return f"split has {len(parts)} sizes, the node has {len(node.outputs)} outputs"
    if min(parts, default=0) < 0 or (x is not None and sum(parts) != x[axis]):
        return f"split has the sizes {parts} for the axis {axis} of {x}"
    return None


def _of_slice(node: ir.Node, shapes: Shapes) -> str | None:
    lists = [shape for shape in shapes[1:5] if shape is not None]
    if any(shape != lists[0] for shape in lists):
        return f"starts, ends, axes and steps have the shapes {lists}"
    return None


def _of_transpose(node: ir.Node, shapes: Shapes) -> str | None:
    x, order = shapes[0], attribute_ints(node, "perm", ())
    axes = len(order) if x is None else len(x)
    if order and sorted(order) != list(range(axes)):
        return f"perm is {list(order)}, the input has {axes} axes"
    return _of_sizes(node, shapes)


def _of_sizes(node: ir.Node, shapes: Shapes) -> str | None:
    before, after = shapes[0], static_shape(node.outputs[0])
    if before is not None and after is not None and math.prod(before) != math.prod(after):
        return f"{before} cannot become {after}"
    return None


def _of_blocks(node: ir.Node, shapes: Shapes) -> str | None:
    x, size = shapes[0], attribute_int(node, "blocksize", 0)
    if size < 1:
        return f"blocksize is {size}"
    if x is None:
        return None
    deep = node.op_type == "DepthToSpace"
    if len(x) != 4 or (x[1] % size**2 if deep else x[2] % size or x[3] % size):
        return f"blocksize is {size}, the input has the shape {x}"
    return None


def _of_pads(node: ir.Node, shapes: Shapes) -> str | None:
    x, pads = shapes[:2]
    axes = shapes[3] if len(node.inputs) > 3 and node.inputs[3] is not None else None
    if len(node.inputs) > 3 and node.inputs[3] is not None and axes is None:
        return None
    count = math.prod(axes) if axes is not None else None if x is None else len(x)
    if pads is not None and count is not None and pads not in ((2 * count,), (1, 2 * count)):
        return f"the pads have the shape {pads} for {count} axes"
    return None


def _of_bounds(node: ir.Node, shapes: Shapes) -> str | None:
    for name, shape in zip(("min", "max"), shapes[1:3], strict=True):
        if shape is not None and math.prod(shape) != 1:
            return f"{name} has the shape {shape}, expected one number"
    return None


def _of_cumulative(node: ir.Node, shapes: Shapes) -> str | None:
    x, at = shapes[:2]
    if at not in (None, (), (1,)):
        return f"axis has the shape {at}, expected one number"
    axis = constant(node.inputs[1])
    if x is None or axis is None or -len(x) <= int(axis.reshape(())) < len(x):
        return None
    return f"axis is {int(axis.reshape(()))}, the input has the shape {x}"


def _of_slope(node: ir.Node, shapes: Shapes) -> str | None:
    x, slope = shapes[:2]
    if x is not None and slope is not None and not broadcasts_to(x, slope):
        return f"the input has the shape {x}, the slope {slope}"
    return None


def _of_norm(node: ir.Node, shapes: Shapes) -> str | None:
    degree = attribute_int(node, "p", 2)
    return _of_axis(node, shapes) if degree in (1, 2) else f"p is {degree}, expected 1 or 2"


Check = Callable[[ir.Node, Shapes], "str | None"]
_CHECKS: dict[str, Check] = {
    **CHANNEL_CHECKS,
    **WINDOW_CHECKS,
    **dict.fromkeys(
        ("ArgMax", "ArgMin", "Gather", "Hardmax", "LogSoftmax", "Softmax", "TopK"), _of_axis
    ),
    **dict.fromkeys(("Reshape", "Squeeze", "Unsqueeze"), _of_sizes),
    "Clip": _of_bounds,
    "Concat": _of_concat,
    "CumSum": _of_cumulative,
    "DepthToSpace": _of_blocks,
    "Flatten": _of_flatten,
    "GatherElements": _of_elements,
    "GatherND": _of_batches,
    "ScatterElements": _of_elements,
    "LpNormalization": _of_norm,
    "OneHot": _of_one_hot,
    "PRelu": _of_slope,
    "Pad": _of_pads,
    "Slice": _of_slice,
    "SpaceToDepth": _of_blocks,
    "Split": _of_split,
    "Transpose": _of_transpose,
}
