"""Products of computed integers as products of floating point that hold every sum exactly.

Bytes less their zero points are at most 255 in magnitude. float32 holds sums of up to 258 of their
products, and float64 those of any array; so no order of additions changes them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..onnx_later import ir
from ..values import BYTES, constant, rank, static_shape
from .decompositions import Numbers

__all__ = ["conv_integer", "matmul_integer", "qlinear_matmul", "rest_of"]

_LARGEST = 255 * 255
# Products whose sum float32 holds, and those whose sum int32 holds.
_IN_SINGLE, _IN_INT32 = ((1 << bits) // _LARGEST for bits in (24, 31))


class _Writer:
    """Writes the nodes that replace a product, with the shapes of their values."""

    def __init__(self, op: Any, node: ir.Node, terms: int, *, rounded: bool) -> None:
        self.op, self.terms, self.rounded = op, terms, rounded
        exact = terms <= _IN_SINGLE and not rounded
        self.dtype = ir.DataType.FLOAT if exact else ir.DataType.DOUBLE
        self.numbers = Numbers(op, node, self.dtype)

    def shaped(self, value: Any, shape: Any, dtype: ir.DataType | None = None) -> Any:
        """Note the shape and the type of a new value."""
        value.shape, value.type = ir.Shape(shape), ir.TensorType(dtype or self.dtype)
        return value

    def centered(self, x: ir.Value, zero: ir.Value | None, *axes: int) -> Any:
        """Give integers less their zero point, which has axes of ones added to it."""
        shape = static_shape(x)
        wide = self.shaped(self.op.Cast(x, to=self.dtype), shape)
        known = constant(zero)
        if zero is None or (known is not None and not known.any()):
            return wide
        beside = static_shape(zero)
        number = self.shaped(self.op.Cast(zero, to=self.dtype), beside)
        if beside is not None and math.prod(beside) == 1:
            number = self.shaped(self.op.Reshape(number, self.numbers.integers()), ())
        elif axes:
            number = self.op.Reshape(number, self.numbers.integers(*axes))
            self.shaped(number, [math.prod(beside or ()) if n < 0 else n for n in axes])
        return self.shaped(self.op.Sub(wide, number), shape)

    def sums(self, product: Any, shape: Any) -> Any:
        """Give sums as int32, modulo 2**32."""
        found = self.shaped(product, shape)
        if self.rounded:
            found = self.shaped(self.op.Round(found), shape)
        if self.terms > _IN_INT32:
            wide = self.op.Cast(found, to=ir.DataType.INT64)
            found = self.shaped(wide, shape, ir.DataType.INT64)
        return self.op.Cast(found, to=ir.DataType.INT32)


def _operands(node: ir.Node) -> tuple[ir.Value | None, ...]:
    return (*node.inputs, None, None)[:4]


def _of_bytes(*values: ir.Value | None) -> bool:
    return all(value is not None and value.dtype in BYTES for value in values)


def _is_known(value: ir.Value | None) -> bool:
    return value is None or constant(value) is not None


def _numbers_of(value: ir.Value | None) -> int | None:
    """Count the zero points that a value has; None if that is not known yet."""
    if value is None:
        return 1
    shape = static_shape(value)
    return None if shape is None else math.prod(shape)


def conv_integer(op: Any, node: ir.Node, *, rounded: bool = False) -> Any:
    """ConvInteger whose weights, or their zero points, are computed: an exact Conv."""
    x, w, x_zero, w_zero = _operands(node)
    if not rounded and _is_known(w) and _is_known(w_zero):
        return None
    if x is None or w is None or not _of_bytes(x, w):
        return None
    kernel, result = static_shape(w), static_shape(node.outputs[0])
    known = None not in (static_shape(x), kernel, result, *map(_numbers_of, (x_zero, w_zero)))
    if not known or kernel is None or _numbers_of(x_zero) != 1:
        return None
    write = _Writer(op, node, math.prod(kernel[1:]), rounded=rounded)
    images = write.centered(x, x_zero)
    weights = write.centered(w, w_zero, -1, *[1] * (len(kernel) - 1))
    product = op.Conv(images, weights, **dict(node.attributes.items()))
    return write.sums(product, result)


def matmul_integer(op: Any, node: ir.Node, *, rounded: bool = False) -> Any:
    """MatMulInteger of two computed matrices, or with computed zero points: an exact MatMul."""
    a, b, a_zero, b_zero = _operands(node)
    if not rounded and _is_known(b) and _is_known(b_zero) and rank(b) == 2 and rank(a) != 1:
        return None
    if a is None or b is None or not _of_bytes(a, b):
        return None
    shapes = [static_shape(value) for value in (a, b, node.outputs[0])]
    if None in (*shapes, *map(_numbers_of, (a_zero, b_zero))):
        return None
    write = _Writer(op, node, (shapes[0] or (1,))[-1], rounded=rounded)
    product = op.MatMul(write.centered(a, a_zero), write.centered(b, b_zero))
    return write.sums(product, shapes[2])


def qlinear_matmul(op: Any, node: ir.Node) -> Any:
    """QLinearMatMul of two computed matrices: exact sums, scaled and quantized."""
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = node.inputs
    assert a is not None and b is not None
    y = node.outputs[0]
    shapes = [static_shape(value) for value in (a, b, y, a_zero, b_zero)]
    scales = [constant(scale) for scale in (a_scale, b_scale, y_scale)]
    if None in shapes or any(scale is None for scale in scales) or not _of_bytes(a, b):
        return None
    write = _Writer(op, node, (shapes[0] or (1,))[-1], rounded=False)
    product = op.MatMul(write.centered(a, a_zero), write.centered(b, b_zero))
    sums = write.shaped(product, shapes[2])
    single = write.shaped(op.Cast(sums, to=ir.DataType.FLOAT), shapes[2], ir.DataType.FLOAT)
    wide = (np.asarray(scale).astype(np.float64) for scale in scales)
    of_a, of_b, of_y = (s.reshape(()) if s.size == 1 else s for s in wide)
    name = f"{y.name}_multiplier"
    number = op.initializer(ir.tensor((of_a * of_b / of_y).astype(np.float32)), name=name)
    scaled = write.shaped(op.Mul(single, number), shapes[2], ir.DataType.FLOAT)
    one = op.initializer(ir.tensor(np.ones((), np.float32)), name=f"{y.name}_unit")
    return op.QuantizeLinear(scaled, one, y_zero)


def rest_of(op: Any, node: ir.Node) -> Any:
    """ConvInteger and MatMulInteger by known weights that no loops of integers take.

    Loops may transform known weights: their sums are near integers, and are rounded.
    """
    write = conv_integer if node.op_type == "ConvInteger" else matmul_integer
    return write(op, node, rounded=True)
