"""Element-wise operators behind cuts and of integers, and casts: one call of NumPy each."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._lazy import functions_later
from ..onnx_later import ir, onnx
from ..storage import Array, Shape
from .types import Attributes, Compute, Operands

if TYPE_CHECKING:
    from . import text_values
else:
    text_values = functions_later(__package__, "text_values")

__all__ = [
    "bit_shift", "cast", "clip", "computed", "divide", "hardmax", "joined", "modulo", "relu",
    "shrink", "sigmoid",
]  # fmt: skip


def computed(function: Callable[..., Array]) -> Compute:
    """An operator that NumPy has as a function of all operands."""
    return lambda attributes, operands, shapes: [function(*operands)]


def joined(function: Callable[..., Array]) -> Compute:
    """An operator of one operand or more, from left to right."""
    return lambda attributes, operands, shapes: [functools.reduce(function, operands)]  # type: ignore[arg-type]


def divide(attributes: Attributes, operands: Operands, shapes: Sequence[Shape]) -> list[Array]:
    """Div: quotients of integers are rounded toward zero, as in C and in onnxruntime."""
    x, y = operands
    assert x is not None and y is not None
    if x.dtype.kind not in "iu":
        return [np.asarray(np.divide(x, y))]
    quotient = np.asarray(x // y)
    exact = (quotient * y == x) | (y == 0) | ((x < 0) == (y < 0))
    return [quotient + (~exact).astype(quotient.dtype)]


def modulo(attributes: Attributes, operands: Operands, shapes: Sequence[Shape]) -> list[Array]:
    """Mod: the sign is the dividend's with `fmod`, else the divisor's."""
    x, y = operands
    assert x is not None and y is not None
    return [(np.fmod if attributes.get("fmod", 0) else np.mod)(x, y)]


def relu(attributes: Attributes, operands: Operands, shapes: Sequence[Shape]) -> list[Array]:
    """Relu."""
    (x,) = operands
    assert x is not None
    return [np.maximum(x, x.dtype.type(0))]


def sigmoid(attributes: Attributes, operands: Operands, shapes: Sequence[Shape]) -> list[Array]:
    """Sigmoid, of half precision in float."""
    (x,) = operands
    assert x is not None
    wide = x.astype(np.float32) if x.dtype.itemsize == 2 else x
    return [(1 / (1 + np.exp(-wide))).astype(x.dtype, copy=False)]


def clip(attributes: Attributes, operands: Operands, shapes: Sequence[Shape]) -> list[Array]:
    """Clip: the upper bound decides if the bounds cross; NaN stays."""
    x, low, high = [*operands, None, None][:3]
    assert x is not None
    if low is not None:
        x = np.maximum(x, low.reshape(()))
    return [x if high is None else np.minimum(x, high.reshape(()))]


def bit_shift(attributes: Attributes, operands: Operands, shapes: Sequence[Shape]) -> list[Array]:
    """BitShift."""
    x, by = operands
    assert x is not None and by is not None
    return [(np.left_shift if attributes["direction"] == "LEFT" else np.right_shift)(x, by)]


def shrink(attributes: Attributes, operands: Operands, shapes: Sequence[Shape]) -> list[Array]:
    """Shrink of integers: sums are rounded toward zero."""
    (x,) = operands
    assert x is not None
    bound, bias = attributes.get("lambd", 0.5), attributes.get("bias", 0.0)
    y = np.where(x < -bound, x + bias, np.where(x > bound, x - bias, 0))
    return [y.astype(x.dtype)]


def hardmax(attributes: Attributes, operands: Operands, shapes: Sequence[Shape]) -> list[Array]:
    """Hardmax: one at the first maximum along an axis."""
    (x,) = operands
    assert x is not None
    axis = attributes.get("axis", -1)
    y = np.zeros_like(x)
    np.put_along_axis(y, x.argmax(axis, keepdims=True), 1, axis)
    return [y]


@functools.cache
def _plain_types() -> dict[int, np.dtype[Any]]:
    """NumPy's own types, by ONNX's numbers."""
    return {
        int(to): np.dtype(to.numpy())
        for to in ir.DataType
        if to not in (ir.DataType.UNDEFINED, ir.DataType.STRING) and to.numpy().isbuiltin == 1
    }


def cast(attributes: Attributes, operands: Operands, shapes: Sequence[Shape]) -> list[Array]:
    """Cast: floats are truncated, integers wrap; floats of eight bits saturate if so asked."""
    (x,) = operands
    assert x is not None
    code, saturates = attributes["to"], bool(attributes.get("saturate", 1))
    # Numbers of NumPy's own types first: reading ONNX's enumeration takes longer than they do.
    plain = _plain_types().get(code)
    if plain is not None and not x.dtype.hasobject:
        return [x.astype(plain)]
    to = ir.DataType(code)
    if to == ir.DataType.STRING:
        return [text_values.to_texts(x)]
    if x.dtype.hasobject:
        return [text_values.from_texts(x, np.dtype(to.numpy()))]
    if to == ir.DataType.FLOAT8E8M0:
        mode = attributes.get("round_mode", "up")
        return [onnx.numpy_helper.to_float8e8m0(x.astype(np.float32), saturates, mode)]
    if to.is_floating_point() and to.bitwidth == 8 and saturates:
        import ml_dtypes

        most = float(ml_dtypes.finfo(to.numpy()).max)
        # NaN stays.
        x = np.clip(x.astype(np.float32), -most, most)
    return [x.astype(to.numpy())]
