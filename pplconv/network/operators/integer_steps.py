"""Quantized operators: products of integers, conversions, sums and averages.

Operators without loops run in NumPy by `integers`, which states the contract of rounding in a few
lines. Loops for an operator replace its `emit`, and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from .. import integers
from ..builder import Builder
from ..host_steps import host_step
from ..integer_nodes import MULTIPLIER, RESIDUAL, ZERO
from ..nodes import Graph, Node
from ..storage import Array, Value, channels_last, constant_value, strides_of
from .convolution import explicit_pads, geometry_of, lies_in_pixels
from .elementwise_steps import Stream, emit_outputs, numbers_of
from .expressions import Code
from .integer_products import Product, emit_product, rows_as_images

SINGLE = np.dtype(np.float32)
# ONNX's types of quantized values, which NumPy converts.
STORED = tuple(np.dtype(kind) for kind in (np.uint8, np.int8, np.uint16, np.int16))
SUMS = np.dtype(np.int32)


def emit(
    node: Node,
    builder: Builder,
    graph: Graph,
    function: Callable[..., Array],
    kind: str,
    detail: str,
    flops: int = 0,
) -> None:
    """Add a step that computes a node's output from all its non-constant inputs."""
    reads = [name for name in node.inputs if name and name not in graph.constants]
    _emit_reading(reads, node, builder, graph, function, kind, detail, flops)


def _emit_reading(
    names: list[str],
    node: Node,
    builder: Builder,
    graph: Graph,
    function: Callable[..., Array],
    kind: str,
    detail: str,
    flops: int = 0,
) -> None:
    """Add a step that computes a node's output from some of its inputs, constant or not."""
    name = node.outputs[0]
    shape = graph.shapes[name]
    reads = [builder.values[n] for n in names]
    y = builder.target(name, shape, graph.dtypes[name], builder.order(name, len(shape)))
    step = host_step(kind, lambda *arrays: [function(*arrays)], reads, [y], [name])
    step.detail, step.flops = f"{detail}, in Python", flops
    builder.emit(step)
    builder.deliver(name, y)


# Conversions -----------------------------------------------------------------------------------


def _scales(node: Node, graph: Graph) -> tuple[Array, Array]:
    """Scale and zero point, shaped to broadcast with the input."""
    rank = len(graph.shapes[node.inputs[0]])
    scale = graph.constants[node.inputs[1]]
    zero = np.zeros((), np.int64)
    if len(node.inputs) > 2 and node.inputs[2]:
        zero = graph.constants[node.inputs[2]].astype(np.int64)
    if scale.size == 1:
        return scale.reshape(()), zero.reshape(())
    axis = node.attributes.get("axis", 1) % rank
    shape = [-1 if d == axis else 1 for d in range(rank)]
    return scale.reshape(shape), zero.reshape(shape) if zero.size > 1 else zero.reshape(())


def _serves_scales(node: Node, graph: Graph, numbers: str, stored: str) -> bool:
    scales = [name for name in node.inputs[1:] if name]
    return (
        graph.dtypes[numbers] == SINGLE
        and graph.dtypes[node.inputs[1]] == SINGLE
        and all(name in graph.constants and graph.constants[name].ndim < 2 for name in scales)
        and not node.attributes.get("block_size", 0)
        and graph.dtypes[stored] in (*STORED, SUMS)
        and math.prod(graph.shapes[numbers]) > 0
    )


def serves_quantize(node: Node, graph: Graph) -> bool:
    """Whether a QuantizeLinear has constant float32 scales and an integer type of NumPy."""
    precise = node.attributes.get("precision", 0) in (0, 1)
    return precise and _serves_scales(node, graph, node.inputs[0], node.outputs[0])


def serves_dequantize(node: Node, graph: Graph) -> bool:
    """Whether a DequantizeLinear has constant float32 scales and an integer type of NumPy."""
    return _serves_scales(node, graph, node.outputs[0], node.inputs[0])


def lower_quantize(node: Node, builder: Builder, graph: Graph) -> None:
    """QuantizeLinear: float32 to integers."""
    scale, zero = _scales(node, graph)
    dtype = graph.dtypes[node.outputs[0]]
    if dtype in integers.RANGES and (zero == zero.reshape(-1)[0]).all():
        code = Code()
        x, divisor = code.fresh(), code.fresh()
        result, pair = code.do("DIVIDE", x, divisor), numbers_of(1.0, int(zero.reshape(-1)[0]))
        inputs = [Stream(builder.values[node.inputs[0]], x)]
        inputs.append(Stream(constant_value(scale), divisor))
        _emit_program(node, builder, graph, code, inputs, result, pair, "Quantize")
        return
    _emit_reading(
        node.inputs[:1], node, builder, graph, lambda x: integers.quantize(x, scale, zero, dtype),
        "Quantize", f"float32 to {dtype}",
    )  # fmt: skip


def lower_dequantize(node: Node, builder: Builder, graph: Graph) -> None:
    """DequantizeLinear: integers to float32."""
    scale, zero = _scales(node, graph)
    dtype = graph.dtypes[node.inputs[0]]
    if dtype in integers.RANGES or (dtype == SUMS and not zero.any()):
        code = Code()
        x, center, factor = (code.fresh() for _ in range(3))
        result = code.do("MULTIPLY", code.do("SUBTRACT", x, center), factor)
        inputs = [Stream(builder.values[node.inputs[0]], x, numbers_of(1.0, 0))]
        inputs += [
            Stream(constant_value(array.astype(SINGLE)), number)
            for array, number in ((zero, center), (scale, factor))
        ]
        _emit_program(node, builder, graph, code, inputs, result, None, "Dequantize")
        return
    _emit_reading(
        node.inputs[:1], node, builder, graph, lambda x: integers.dequantize(x, scale, zero),
        "Dequantize", f"{dtype} to float32",
    )  # fmt: skip


def _emit_program(
    node: Node, builder: Builder, graph: Graph, code: Code, inputs: list[Stream], result: int,
    pair: Value | None, kind: str,
) -> None:  # fmt: skip
    """Convert by a scale for each index of an axis, in one pass."""
    name = node.outputs[0]
    shape = graph.shapes[name]
    y = builder.target(name, shape, graph.dtypes[name], builder.order(name, len(shape)))
    emit_outputs(builder, [Stream(y, result, pair)], code, inputs, kind, [name])
    builder.deliver(name, y)


# Products --------------------------------------------------------------------------------------


def store_of(node: Node, graph: Graph) -> integers.Store:
    """Read the operations after a product's sums."""
    own, multiplier = node.attributes, None
    if _input(node, MULTIPLIER) in graph.constants:
        multiplier = graph.constants[node.inputs[MULTIPLIER]].astype(np.float32)
    gate = own["slope"], own["middle"], own["shift"]
    return integers.Store(
        graph.dtypes[node.outputs[0]], graph.constants[node.inputs[2]], multiplier,
        own["y_zero"], own["low"], own["high"], own["residual_scale"], own["residual_zero"],
        gate if own["gate"] else None, own.get("table"),
    )  # fmt: skip


def _input(node: Node, port: int) -> str:
    """Name of an input of a product; empty where it is omitted."""
    return node.inputs[port] if len(node.inputs) > port else ""


def _zero(node: Node, builder: Builder) -> int | Value:
    """Zero point of a product's input, or where it is computed."""
    name = _input(node, ZERO)
    return builder.values[name] if name else int(node.attributes["x_zero"])


def _multiplier(node: Node, builder: Builder, graph: Graph) -> Value | None:
    """Give a product's computed multiplier, one for each channel; None if it is known."""
    name = _input(node, MULTIPLIER)
    if not name or name in graph.constants:
        return None
    value, channels = builder.values[name], graph.shapes[node.inputs[2]]
    if value.size == 1:
        repeated = builder.new(channels, value.dtype)
        builder.copy(value.viewed((1,), (value.dtype.itemsize,)), repeated, [node.outputs[0]])
        return repeated
    return builder.contiguous(value).viewed(channels, strides_of(channels, value.dtype.itemsize))


def types_of(node: Node, graph: Graph) -> str:
    """Say the types of a product, and what follows its sums, for people."""
    x, w, y = (graph.dtypes[name] for name in (*node.inputs[:2], node.outputs[0]))
    added = ", residual" if _input(node, RESIDUAL) else ""
    if _input(node, ZERO):
        added += ", computed zero point"
    gated = ", HardSwish" if node.attributes["gate"] else ""
    table = f", {node.attributes['function']} by a table" if "table" in node.attributes else ""
    return f"{x} x {w} to {y}{added}{gated}{table}"


def _last(x: Array) -> Array:
    """Images with their channels last."""
    return x.transpose(0, 2, 3, 1)


def _first(y: Array) -> Array:
    return y.transpose(0, 3, 1, 2)


def taps(node: Node, graph: Graph, x: Array, fill: int) -> list[Array]:
    """Give what each tap of a node's windows sees, with a number around the image."""
    own = node.attributes
    sizes = graph.shapes[node.outputs[0]][2:]
    return integers.windows(
        _last(x), own["kernel_shape"], own.get("strides") or (1, 1),
        own.get("dilations") or (1, 1), explicit_pads(node), fill, sizes,
    )  # fmt: skip


def serves_always(node: Node, graph: Graph) -> bool:
    """Whether the result is not empty: rules make only nodes that loops can compute."""
    return math.prod(graph.shapes[node.outputs[0]]) > 0


def lower_conv(node: Node, builder: Builder, graph: Graph) -> None:
    """``pplconv.QuantizedConv``."""
    name, origin = node.outputs[0], graph.constants.origin(node.inputs[1])
    product = Product(
        graph.constants[node.inputs[1]], (origin,), geometry_of(node), _zero(node, builder),
        store_of(node, graph), "QuantizedConv", types_of(node, graph),
        _multiplier(node, builder, graph),
    )  # fmt: skip
    x = builder.pixels(builder.values[node.inputs[0]])
    residual = _residual(node, builder, graph)
    y = builder.target(
        name, graph.shapes[name], graph.dtypes[name], channels_last(4), lies_in_pixels
    )
    emit_product(builder, product, x, residual, y, [name])
    builder.deliver(name, y)


def lower_linear(node: Node, builder: Builder, graph: Graph) -> None:
    """``pplconv.QuantizedLinear``: rows are the pixels of an image."""
    name, origin = node.outputs[0], graph.constants.origin(node.inputs[1])
    matrix, transposed = graph.constants[node.inputs[1]], node.attributes.get("transB", 0)
    weight = np.ascontiguousarray(matrix if transposed else matrix.T)
    geometry = {
        "stride": (1, 1), "padding": ((0, 0), (0, 0)), "dilation": (1, 1), "groups": 1
    }  # fmt: skip
    product = Product(
        weight.reshape(*weight.shape, 1, 1), (origin, "rows", transposed), geometry,
        _zero(node, builder), store_of(node, graph), "QuantizedLinear", types_of(node, graph),
        _multiplier(node, builder, graph),
    )  # fmt: skip
    n, k = weight.shape
    x = builder.contiguous(builder.values[node.inputs[0]])
    residual = _residual(node, builder, graph)
    if residual is not None:
        residual = rows_as_images(builder.contiguous(residual), n)
    y = builder.target(
        name, graph.shapes[name], graph.dtypes[name], None, lambda value: value.is_plain
    )
    emit_product(builder, product, rows_as_images(x, k), residual, rows_as_images(y, n), [name])
    builder.deliver(name, y)


def _residual(node: Node, builder: Builder, graph: Graph) -> Value | None:
    """Give the residual of a product in the type of its output."""
    name = _input(node, RESIDUAL)
    if not name:
        return None
    value = builder.values[name]
    if graph.dtypes[node.outputs[0]] != SINGLE:
        return value
    numbers = numbers_of(node.attributes["residual_scale"], node.attributes["residual_zero"])
    wide, code = builder.new(value.shape, SINGLE, value.order), Code()
    number = code.fresh()
    read = Stream(value, number, numbers)
    emit_outputs(builder, [Stream(wide, number)], code, [read], "Dequantize", [name])
    return wide


def lower_add(node: Node, builder: Builder, graph: Graph) -> None:
    """``pplconv.QuantizedAdd``: a program that computes in units of the output's scale."""
    own, name = node.attributes, node.outputs[0]
    code = Code()
    a, b = code.fresh(), code.fresh()
    total = code.do("ADD", a, b)
    if np.isfinite([own["low"], own["high"]]).any():
        total = code.do("CLIP", total, code.scalar(own["low"]), code.scalar(own["high"]))
    inputs = [
        Stream(
            builder.values[read], number, numbers_of(own[f"{which}_scale"], own[f"{which}_zero"])
        )
        for read, number, which in zip(node.inputs, (a, b), ("a", "b"), strict=True)
    ]
    y = builder.target(name, graph.shapes[name], graph.dtypes[name], inputs[0].value.order)
    stored = Stream(y, total, numbers_of(1.0, own["y_zero"]))
    emit_outputs(builder, [stored], code, inputs, "QuantizedAdd", [name])
    builder.deliver(name, y)
