"""Products of one-hot rows and a known matrix as a Gather of the matrix's rows.

JAX's models look embeddings up so: ``Cast(Equal(indices, [0, 1, ...])) @ W``. ONNX has OneHot for
the left side. An index that no column stands for gives a row of zeros.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from ..values import FLOATS, all_finite, attribute_int, constant, static_shape
from .decomposing import Decompose
from .driver import Rule, constant_at, made_by, maker_at

__all__ = ["RULES"]

_INTEGERS = (ir.DataType.INT32, ir.DataType.INT64)
# The Gather reads a copy of the matrix.
_MOST_BYTES = 64 << 20


class OneHotProduct(Decompose):
    """A MatMul whose left operand has one 1 in each row, and zeros."""

    def __init__(self) -> None:
        super().__init__("one-hot product", "MatMul", _gathered)

    def may_fire(self, node: ir.Node) -> bool:
        """See `Rule`."""
        made = maker_at(node, 0, "Cast") or maker_at(node, 0, "OneHot")
        return made is not None and constant_at(node, 1)


def _gathered(op: Any, node: ir.Node) -> Any:
    """Write the product as a Gather; see `Decompose`."""
    matrix, shape = constant(node.inputs[1]), static_shape(node.inputs[0])
    hot, dtype = node.inputs[0].producer(), node.inputs[0].dtype
    if matrix is None or matrix.ndim != 2 or dtype not in FLOATS or not all_finite(matrix):
        return None
    if shape is None or len(shape) < 2 or not len(matrix) or shape[-1] != len(matrix):
        return None
    if matrix.nbytes > _MOST_BYTES:
        return None
    found = _of_one_hot(hot) if hot.op_type == "OneHot" else _of_comparison(hot, shape)
    if found is None:
        return None
    indices, first = found
    kind, name, count = indices.dtype, node.outputs[0].name, len(matrix)

    def numbers(array: Any, what: str) -> Any:
        return op.initializer(ir.Tensor(array), name=f"{name}_{what}")

    target = numbers(np.array(shape[:-1], np.int64), "shape")
    own = op.Reshape(indices, target, allowzero=1)
    zero, size = (numbers(np.array(each, kind.numpy()), "bound") for each in (0, count))
    if first < 0:
        own = op.Where(op.Less(own, zero), op.Add(own, size), own)
    known = op.And(op.GreaterOrEqual(own, zero), op.Less(own, size))
    # The last row is that of all other indices.
    rows = numbers(np.concatenate([matrix, np.zeros_like(matrix[:1])]), "rows")
    return op.Gather(rows, op.Where(known, own, size), axis=0)


def _of_one_hot(node: ir.Node) -> tuple[ir.Value, int] | None:
    """Give the indices of a OneHot along the last axis, and the least that it knows."""
    indices, values = node.inputs[0], constant(node.inputs[2])
    shape = static_shape(node.outputs[0])
    if indices is None or indices.dtype not in _INTEGERS or values is None or shape is None:
        return None
    if values.tolist() != [0, 1] or attribute_int(node, "axis", -1) not in (-1, len(shape) - 1):
        return None
    return indices, -shape[-1]


def _of_comparison(cast: ir.Node, shape: tuple[int, ...]) -> tuple[ir.Value, int] | None:
    """Give the indices that are compared with 0, 1, ... along the last axis, and 0."""
    equal = maker_at(cast, 0, "Equal")
    if equal is None:
        return None
    for indices, other in (tuple(equal.inputs), tuple(equal.inputs)[::-1]):
        numbers = constant(other)
        wide = made_by(indices, "Expand")
        if wide is not None:
            indices = wide.inputs[0]
        if numbers is None or indices is None or indices.dtype not in _INTEGERS:
            continue
        own = static_shape(indices)
        alone = own is not None and own == (*shape[:-1], 1)
        counted = (
            numbers.ndim > 0
            and numbers.shape[-1] == shape[-1]
            and bool((numbers == np.arange(shape[-1])).all())
        )
        if alone and counted:
            return indices, 0
    return None


RULES: tuple[Rule, ...] = (OneHotProduct(),)
"""Rules of this module."""
