"""DynamicQuantizeLinear: integers, with a scale and a zero point from the least and largest number.

Two reductions find these numbers, a program of one element computes scale and zero point, and
another one the integers. Results are those of onnxruntime: each step is rounded to float32, and
halves to even.
"""

from __future__ import annotations

import math

import numpy as np

from ...ops.strided_copies import shared_columns
from ..builder import Builder
from ..nodes import Graph, Node
from ..storage import Array, Value, constant_value
from .elementwise_steps import SINGLE, Stream, emit_outputs, numbers_of
from .expressions import Code
from .row_steps import emit_reduction

__all__ = ["lower_dynamic", "serves_dynamic"]

BYTE = np.dtype(np.uint8)
_KIND = "DynamicQuantize"
# Times a normal number of float32 this is more than 1.
_HUGE = 3e38


def serves_dynamic(node: Node, graph: Graph) -> bool:
    """Whether a DynamicQuantizeLinear reads float32."""
    return graph.dtypes[node.inputs[0]] == SINGLE


def lower_dynamic(node: Node, builder: Builder, graph: Graph) -> None:
    """DynamicQuantizeLinear: integers, their scale and their zero point."""
    shape = graph.shapes[node.inputs[0]]
    if not math.prod(shape):
        # As if all numbers were zero.
        results: list[Array] = [np.empty(shape, BYTE), np.ones((), SINGLE), np.zeros((), BYTE)]
        for name, array in zip(node.outputs, results, strict=True):
            if name:
                builder.deliver(name, constant_value(array))
        return
    name = node.outputs[0]
    x = builder.values[node.inputs[0]]
    x = builder.contiguous(x, x.order)
    least, most = (_extreme(builder, kind, x, name) for kind in ("MIN", "MAX"))
    scale, zero, byte = _parameters(builder, least, most, name)
    y = builder.target(name, shape, BYTE, x.order)
    code = Code()
    number, divisor, moved = code.fresh(), code.fresh(), code.fresh()
    rounded = code.do("ROUND", code.do("DIVIDE", number, divisor))
    stored = Stream(y, code.do("ADD", rounded, moved), numbers_of(1.0, 0))
    inputs = [Stream(x, number), Stream(scale, divisor), Stream(zero, moved)]
    emit_outputs(builder, [stored], code, inputs, _KIND, [name])
    for result, value in zip(node.outputs, (y, _single(scale), _single(byte)), strict=False):
        if result:
            builder.deliver(result, value)


def _single(value: Value) -> Value:
    """View an array of one element without dimensions."""
    return value.viewed((), ())


def _extreme(builder: Builder, kind: str, x: Value, name: str) -> Value:
    """Give the least or the largest number: of rows first, which a team shares, then of these."""
    value, columns = x, shared_columns(x.size, SINGLE.itemsize)
    while True:
        rows = value.size // columns
        result = builder.new((rows,), SINGLE)
        walk = [rows], [columns * SINGLE.itemsize], columns, SINGLE.itemsize
        emit_reduction(builder, kind, value, result, walk, _KIND, [name])
        if rows == 1:
            return result
        value, columns = result, rows


def _parameters(
    builder: Builder, least: Value, most: Value, name: str
) -> tuple[Value, Value, Value]:
    """Give scale and zero point, float32, and the zero point as a byte."""
    code = Code()
    low, high = code.fresh(), code.fresh()
    nothing, one, top = code.scalar(0.0), code.scalar(1.0), code.scalar(255.0)
    lowest = code.do("MINIMUM", low, nothing)
    unit = code.do("DIVIDE", code.do("SUBTRACT", code.do("MAXIMUM", high, nothing), lowest), top)
    # 1 in place of 0, which is the scale of zeros alone.
    known = code.do("CLIP", code.do("MULTIPLY", unit, code.scalar(_HUGE)), nothing, one)
    scale = code.do("ADD", unit, code.do("SUBTRACT", one, known))
    offset = code.do("SUBTRACT", nothing, code.do("DIVIDE", lowest, scale))
    zero = code.do("ROUND", code.do("CLIP", offset, nothing, top))
    values = builder.new((1,), SINGLE), builder.new((1,), SINGLE), builder.new((1,), BYTE)
    outputs = [
        Stream(values[0], scale), Stream(values[1], zero),
        Stream(values[2], zero, numbers_of(1.0, 0)),
    ]  # fmt: skip
    emit_outputs(builder, outputs, code, [Stream(least, low), Stream(most, high)], _KIND, [name])
    return values
