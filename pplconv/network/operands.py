"""Operands that onnxruntime interprets differently from NumPy and ONNX's inference."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from .values import constant, rank

__all__ = ["end_before_the_first", "reduce_once"]

# These ends mean "no end", in both directions.
_NO_END = (np.iinfo(np.int32).max, np.iinfo(np.int64).max)
_BEFORE_ALL = -(1 << 31)


def end_before_the_first(node: ir.Node) -> None:
    """Extend backward slices that end at the largest integer to the first element.

    onnxruntime does so; in NumPy and ONNX's inference such slices are empty.

    Parameters
    ----------
    node : ir.Node
        A Slice, whose ends and steps may be constants; changed in place.
    """
    ends = constant(node.inputs[2])
    steps = constant(node.inputs[4]) if len(node.inputs) > 4 else None
    if ends is None or steps is None or ends.shape != steps.shape:
        return
    open_ended = np.less(steps, 0) & np.isin(ends, _NO_END)
    if open_ended.any():
        _replace(node, 2, "ends", np.where(open_ended, _BEFORE_ALL, ends).astype(ends.dtype))


def reduce_once(node: ir.Node) -> None:
    """Remove repeated axes of a reduction.

    onnxruntime accepts repeated axes; NumPy and ONNX's reference refuse them.

    Parameters
    ----------
    node : ir.Node
        A reduction, whose axes may be constants; changed in place.
    """
    axes = constant(node.inputs[1]) if len(node.inputs) > 1 else None
    dimensions = rank(node.inputs[0])
    if axes is None or axes.ndim != 1:
        return
    # An axis out of range keeps its number, which the refusal names.
    places = {
        axis + dimensions if dimensions is not None and -dimensions <= axis < 0 else axis: axis
        for axis in reversed(axes.tolist())
    }
    if len(places) < axes.size:
        _replace(node, 1, "axes", np.array(list(places.values())[::-1], axes.dtype))


def _replace(node: ir.Node, place: int, word: str, array: npt.NDArray[Any]) -> None:
    """Replace an operand of a node by a constant of its own."""
    assert node.graph is not None
    tensor = ir.Tensor(array, name=f"{node.outputs[0].name}/{word}")
    value = ir.Value(
        name=tensor.name, shape=ir.Shape(array.shape), type=ir.TensorType(tensor.dtype),
        const_value=tensor,
    )  # fmt: skip
    node.graph.register_initializer(value)
    node.replace_input_with(place, value)
