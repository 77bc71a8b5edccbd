"""onnxruntime's own operators that compute with integers and give numbers, in ONNX's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from ..operators.decompositions import Numbers
from ..values import constant
from .contrib import Unserved, inputs_of, pieces
from .driver import Rule

__all__ = ["RULES", "scaled_product"]

_LAST, _FIRST = [0, 2, 3, 1], [0, 3, 1, 2]


def scaled_product(op: Any, a: Sequence[Any], b: Sequence[Any], bias: Any) -> Any:
    """Multiply integers, and give numbers.

    Parameters
    ----------
    op : object
        For the new nodes.
    a, b : sequence
        Integers, their scale, and their zero point or None.
    bias : ir.Value or None
        Added to the numbers.
    """
    zeros = [a[2], b[2]]
    while zeros and zeros[-1] is None:
        zeros.pop()
    sums = op.CastLike(op.MatMulInteger(a[0], b[0], *zeros), a[1])
    y = op.Mul(sums, op.Mul(a[1], b[1]))
    return y if bias is None else op.Add(y, bias)


def _product(op: Any, node: ir.Node) -> Any:
    """MatMulIntegerToFloat: a product of integers, scaled."""
    a, b, a_scale, b_scale, a_zero, b_zero, bias, *_ = inputs_of(node)
    return scaled_product(op, (a, a_scale, a_zero), (b, b_scale, b_zero), bias)


def _dynamic_product(op: Any, node: ir.Node) -> Any:
    """DynamicQuantizeMatMul: the product of a matrix that is quantized in each run."""
    a, b, scale, zero, bias, *_ = inputs_of(node)
    return scaled_product(op, op.DynamicQuantizeLinear(a, _outputs=3), (b, scale, zero), bias)


def _channels_last_pool(op: Any, node: ir.Node) -> Any:
    """NhwcMaxPool: MaxPool of images whose channels are last."""
    y = op.MaxPool(op.Transpose(node.inputs[0], perm=_FIRST), **dict(node.attributes.items()))
    return op.Transpose(y, perm=_LAST)


def _recurrence(op: Any, node: ir.Node) -> Any:
    """DynamicQuantizeLSTM: an LSTM of the numbers that its weights stand for.

    onnxruntime quantizes inputs and states at each time, which makes its results less exact.
    """
    x, w, r, bias, lengths, h, c, peepholes, *scales = inputs_of(node)
    numbers = Numbers(op, node, ir.DataType.FLOAT)
    weights = []
    for name, value, scale, zero in (("W", w, *scales[:2]), ("R", r, *scales[2:4])):
        arrays = [constant(part) for part in (value, scale, zero)]
        if None in [array if array is None else 0 for array in arrays]:
            raise Unserved(f"{name}, its scale or its zero point not constant")
        integers, scale_array, zero_array = arrays
        assert integers is not None and scale_array is not None and zero_array is not None
        # One for each direction, or also for each gate's channel, the last axis of the weights.
        spread = [a.reshape(a.shape[0], 1, -1) for a in (scale_array, zero_array)]
        wide = integers.astype(np.float32) - spread[1].astype(np.float32)
        weights.append(numbers.array(np.swapaxes(wide * spread[0].astype(np.float32), 1, 2)))
    inputs = [x, *weights, bias, lengths, h, c, peepholes]
    while inputs[-1] is None:
        inputs.pop()
    count = len(node.outputs)
    made = op.LSTM(*inputs, **dict(node.attributes.items()), _outputs=count)
    return made if count == 1 else list(made)


RULES: tuple[Rule, ...] = (
    *pieces("DynamicQuantizeLSTM", _recurrence, 3),
    *pieces("DynamicQuantizeMatMul", _dynamic_product),
    *pieces("MatMulIntegerToFloat", _product),
    *pieces("NhwcMaxPool", _channels_last_pool),
)
"""Rules of this module; each is alone with its operator."""
