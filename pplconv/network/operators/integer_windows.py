"""Pools and Resize of quantized images: bytes, or loops of float32, which holds them exactly."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from ...schedules.row_loops import Rows
from .. import integers
from ..builder import Builder
from ..nodes import Graph, Node
from ..storage import Array, Step, Value, channels_last
from . import window_steps
from .convolution import explicit_pads, lies_in_pixels
from .elementwise_steps import INTEGERS, SINGLE, Stream, emit_outputs, numbers_of
from .expressions import Code
from .integer_steps import emit, taps
from .table_row import Lower

BYTES = tuple(integers.RANGES)
# float32 holds all integers up to this.
_EXACT = 1 << 24
# Columns of a task that adds up bytes: whole cache lines.
_LEAST_COLUMNS = 64


def _among_numbers(
    node: Node, builder: Builder, graph: Graph, lower: Lower, zero: int, factor: float, y_zero: int
) -> None:
    """Compute a node on integers less a zero point, and store its result times a factor."""
    (source, *rest), (result,) = node.inputs, node.outputs
    x, wide, found = builder.values[source], f"{source}\0numbers", f"{result}\0numbers"
    code = Code()
    number = code.fresh()
    values = builder.new(x.shape, SINGLE, channels_last(4))
    read = Stream(x, number, numbers_of(1.0, zero))
    emit_outputs(builder, [Stream(values, number)], code, [read], "Dequantize", [source])
    builder.values[wide] = values
    inner = replace(
        graph,
        shapes={**graph.shapes, wide: x.shape, found: graph.shapes[result]},
        dtypes={**graph.dtypes, wide: SINGLE, found: SINGLE},
        users={},
    )
    lower(replace(node, inputs=[wide, *rest], outputs=[found]), builder, inner)
    _store(node, builder, graph, Stream(builder.values[found], 0), factor, y_zero)


def _store(
    node: Node, builder: Builder, graph: Graph, sums: Stream, factor: float, y_zero: int
) -> None:
    """Store numbers times a factor as bytes."""
    (result,) = node.outputs
    y = builder.target(
        result, graph.shapes[result], graph.dtypes[result], channels_last(4), lies_in_pixels
    )
    code = Code()
    number = code.fresh()
    scaled = number if factor == 1 else code.do("MULTIPLY", number, code.scalar(factor))
    stored = Stream(y, scaled, numbers_of(1.0, y_zero))
    emit_outputs(builder, [stored], code, [sums._replace(register=number)],
                 "Quantize", [result])  # fmt: skip
    builder.deliver(result, y)


def _sums(node: Node, builder: Builder) -> Value:
    """Add up the pixels of each channel, in int32."""
    x = builder.contiguous(builder.values[node.inputs[0]], channels_last(4))
    n, c, h, w = x.shape
    sums = builder.new((n, c, 1, 1), np.dtype(np.int32), channels_last(4))
    segment = c
    if n == 1 and builder.settings.threads != 1:
        segment = max(_LEAST_COLUMNS, c // 4 // _LEAST_COLUMNS * _LEAST_COLUMNS)
    fields: dict[str, Any] = {
        "op": "sum_bytes", "dtype": INTEGERS[x.dtype], "kind": 0, "scale": False, "offset": False,
        "dims": [n], "src": [h * w * c], "dst": [c * sums.dtype.itemsize], "rows": h * w,
        "columns": c, "src_rs": c, "dst_rs": 0, "segment": segment,
    }  # fmt: skip
    builder.emit(Step(
        Rows(fields, builder.isa), [x], [sums], {"arrays": [sums, x]}, "QuantizedAverage",
        [node.outputs[0]], f"sums of {h * w} of {c}",
    ))  # fmt: skip
    return sums


def serves_pool(node: Node, graph: Graph) -> bool:
    """Whether it is a MaxPool of quantized images that gives no indices."""
    return (
        node.op == "MaxPool"
        and graph.dtypes[node.inputs[0]] in BYTES
        and window_steps.serves_pool(node, _of_numbers(node, graph))
    )


def serves_resize(node: Node, graph: Graph) -> bool:
    """Whether it is a Resize of quantized images that repeats or leaves out pixels."""
    return (
        graph.dtypes[node.inputs[0]] in BYTES
        and node.attributes.get("mode", "nearest") == "nearest"
        and window_steps.serves_resize(node, _of_numbers(node, graph))
    )


def lower_resize(node: Node, builder: Builder, graph: Graph) -> None:
    """Resize to the nearest pixel, whose bytes are copied."""
    window_steps.lower_resize(node, builder, graph)


def _is_seen(node: Node, graph: Graph) -> bool:
    """Whether loops of pools compute the windows: padding adds nothing to numbers less zero."""
    return window_steps.serves_pool(replace(node, op="AveragePool"), _of_numbers(node, graph))


def _of_numbers(node: Node, graph: Graph) -> Graph:
    """The graph as if a node read and wrote float32."""
    names = node.inputs[0], node.outputs[0]
    return replace(graph, dtypes={**graph.dtypes, **dict.fromkeys(names, SINGLE)}, users={})


def lower_average(node: Node, builder: Builder, graph: Graph) -> None:
    """``pplconv.QuantizedAverage``: an exact sum of pixels, times a number."""
    own: dict[str, Any] = node.attributes
    zero, kernel, factor = own["x_zero"], own["kernel_shape"], np.float32(own["multiplier"])
    count = math.prod(kernel)
    whole = list(graph.shapes[node.inputs[0]][2:]) == list(kernel) and not any(explicit_pads(node))
    if whole and count * 255 < _EXACT:
        sums = Stream(_sums(node, builder), 0, numbers_of(1.0, zero * count))
        _store(node, builder, graph, sums, float(factor), own["y_zero"])
        return
    if count * 255 < _EXACT and _is_seen(node, graph):
        summed = replace(node, op="AveragePool", attributes={**own, window_steps.SUMS: 1})
        _among_numbers(
            summed, builder, graph, window_steps.lower_pool, zero, float(factor), own["y_zero"]
        )
        return
    dtype = graph.dtypes[node.outputs[0]]
    store = integers.Store(dtype, np.int32(-zero * count), factor, own["y_zero"])

    def function(x: Array) -> Array:
        sums = integers.average(taps(node, graph, x, zero))
        return np.asarray(store(sums).transpose(0, 3, 1, 2))

    detail = f"{'x'.join(map(str, kernel))} of {graph.dtypes[node.inputs[0]]} to {dtype}"
    emit(node, builder, graph, function, "QuantizedAverage", detail)
