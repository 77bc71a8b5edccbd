"""Slices backwards to the very beginning."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from .values import constant

__all__ = ["end_before_the_first"]

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
    if not open_ended.any():
        return
    assert node.graph is not None
    tensor = ir.Tensor(np.where(open_ended, _BEFORE_ALL, ends).astype(ends.dtype))
    tensor.name = f"{node.outputs[0].name}/ends"
    value = ir.Value(
        name=tensor.name, shape=ir.Shape(ends.shape), type=ir.TensorType(tensor.dtype),
        const_value=tensor,
    )  # fmt: skip
    node.graph.register_initializer(value)
    node.replace_input_with(2, value)
