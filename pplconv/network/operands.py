"""Operands that onnxruntime takes otherwise than NumPy and ONNX's inference do."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from .values import constant, rank

__all__ = ["end_before_the_first", "reduce_once"]

# They stand for an end that is left out, in both directions.
_NO_END = (np.iinfo(np.int32).max, np.iinfo(np.int64).max)
_BEFORE_ALL = -(1 << 31)


def end_before_the_first(node: ir.Node) -> None:
    """Have backward slices with the largest integer as their end go on to the first element.

    So it is in onnxruntime; NumPy and ONNX's inference give nothing.

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
    """Have a reduction name each axis once.

    So onnxruntime takes axes that are named twice; NumPy and ONNX's reference refuse them.

    Parameters
    ----------
    node : ir.Node
        A reduction, whose axes may be constants; changed in place.
    """
    axes = constant(node.inputs[1]) if len(node.inputs) > 1 else None
    dimensions = rank(node.inputs[0])
    if axes is None or axes.ndim != 1:
        return
    # An axis that is not there keeps its number, and is refused by it.
    places = {
        axis + dimensions if dimensions is not None and -dimensions <= axis < 0 else axis: axis
        for axis in reversed(axes.tolist())
    }
    if len(places) < axes.size:
        _replace(node, 1, "axes", np.array(list(places.values())[::-1], axes.dtype))


def _replace(node: ir.Node, place: int, word: str, array: npt.NDArray[Any]) -> None:
    """Give a node a constant of its own as one of its operands."""
    assert node.graph is not None
    tensor = ir.Tensor(array, name=f"{node.outputs[0].name}/{word}")
    value = ir.Value(
        name=tensor.name, shape=ir.Shape(array.shape), type=ir.TensorType(tensor.dtype),
        const_value=tensor,
    )  # fmt: skip
    node.graph.register_initializer(value)
    node.replace_input_with(place, value)
