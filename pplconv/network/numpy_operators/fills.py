"""Operators that make arrays of a shape or of numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..onnx_later import onnx
from ..storage import Array, Shape
from .types import Attributes, Operands

__all__ = ["arange", "constant", "constant_of_shape", "eye_like"]


def arange(attributes: Attributes, operands: Operands, shapes: Sequence[Shape]) -> list[Array]:
    """Range: ``start + i * delta``; onnxruntime adds up rounded sums."""
    start, limit, delta = (np.asarray(x).reshape(-1)[0] for x in operands)
    if delta == 0:
        raise ValueError("delta is 0")
    if start.dtype.kind in "iu":
        return [np.array(range(int(start), int(limit), int(delta)), start.dtype)]
    first, last, step = (float(x) for x in (start, limit, delta))
    steps = np.arange(max(0, math.ceil((last - first) / step)))
    return [(first + steps * step).astype(start.dtype)]


def constant(attributes: Attributes, operands: Operands, shapes: Sequence[Shape]) -> list[Array]:
    """Constant: the array, number or list that its attribute is."""
    (name, value), *more = attributes.items()
    dtype = _CONSTANTS.get(name)
    if more or dtype is None:
        raise ValueError(f"the attributes are {sorted(attributes)}, expected one of {_NAMES}")
    return [np.asarray(value, dtype if name != "value" else None)]


# By the attribute of a Constant: the type of its elements.
_CONSTANTS = {
    "value": np.generic, "value_float": np.float32, "value_floats": np.float32,
    "value_int": np.int64, "value_ints": np.int64, "value_string": np.object_,
    "value_strings": np.object_,
}  # fmt: skip
_NAMES = ", ".join(_CONSTANTS)


def constant_of_shape(
    attributes: Attributes, operands: Operands, shapes: Sequence[Shape]
) -> list[Array]:
    """ConstantOfShape: one value, zero of float32 by default."""
    (sizes,) = operands
    assert sizes is not None
    if (sizes < 0).any():
        raise ValueError(f"the shape is {sizes.tolist()}")
    value = attributes.get("value", np.zeros(1, np.float32))
    return [np.full(sizes.tolist(), value.reshape(-1)[0], value.dtype)]


def eye_like(attributes: Attributes, operands: Operands, shapes: Sequence[Shape]) -> list[Array]:
    """EyeLike: ones on a diagonal."""
    (x,) = operands
    assert x is not None
    kind = attributes.get("dtype")
    dtype = x.dtype if kind is None else onnx.helper.tensor_dtype_to_np_dtype(kind)
    rows, columns = x.shape
    return [np.eye(rows, columns, attributes.get("k", 0), dtype)]
