"""Transposed convolutions: several convolutions, each of which gives some of the outputs."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from ...api.phases import Axis, joined_kernel, phase_kernel, phases
from ..builder import Builder
from ..nodes import Graph, Node
from ..storage import Array, Value, channels_last, constant_value
from .convolution import emit_convolution, explicit_pads, lies_in_pixels
from .elementwise import NATIVE
from .epilogue import Epilogue, emit_rest, epilogue_of

# Fewer output channels than these leave much of a vector idle: then all places of a stride are
# channels of one product, and are put in their places afterwards.
FEW_CHANNELS = 16
PLAIN: dict[str, Any] = {
    "stride": (1, 1), "padding": ((0, 0), (0, 0)), "dilation": (1, 1), "groups": 1,
}  # fmt: skip


def lower_conv_transpose(node: Node, builder: Builder, graph: Graph) -> None:
    """ConvTranspose: a convolution for each phase (`pplconv.api.phases`), or one for all."""
    origin = graph.constants.origin(node.inputs[1])
    weight = graph.constants.weights(node.inputs[1])  # (ic, oc / groups, kh, kw)
    groups = int(node.attributes.get("group", 1))
    stride = tuple(node.attributes.get("strides") or (1, 1))
    pads = explicit_pads(node)
    x = builder.pixels(builder.values[node.inputs[0]])
    name = node.outputs[0]
    shape, dtype = graph.shapes[name], graph.dtypes[name]
    ic, oc = weight.shape[0], weight.shape[1] * groups
    y = builder.target(name, shape, dtype, channels_last(4), lies_in_pixels)
    epilogue = epilogue_of(node, builder, graph)
    if epilogue.residual is not None:
        # It comes before the activation, which then has to wait.
        before, epilogue = Epilogue(epilogue.bias), replace(epilogue, bias=None)
    else:
        before = replace(epilogue, scale=None, offset=None, last=None)
        epilogue = replace(epilogue, bias=None, activation="", slope=None)
    down, across = axes(node, graph)
    filled = all(axis.outputs == axis.inputs * axis.stride for axis in (down, across))
    if (
        weight.shape[2:] == stride and filled and not any(pads) and groups == 1
        and oc < FEW_CHANNELS and (down.dilation, across.dilation) == (1, 1)
    ):  # fmt: skip
        _at_once(builder, node, x, weight, y, before, (origin, "at once"))
        emit_rest(builder, y, epilogue, True, [name])
        builder.deliver(name, y)
        return
    for rows in phases(down):
        for columns in phases(across):
            part = Value(
                (shape[0], oc, rows.count, columns.count), dtype,
                (y.strides[0], y.strides[1], y.strides[2] * stride[0], y.strides[3] * stride[1]),
                y.buffer, y.offset + rows.first * y.strides[2] + columns.first * y.strides[3],
            )  # fmt: skip
            if rows.is_empty or columns.is_empty:
                # No tap: what the epilogue makes of zeros.
                nothing = constant_value(np.zeros((shape[0], 1, rows.count, columns.count), dtype))
                kernel = np.zeros((oc, 1, 1, 1), dtype)
                key: tuple[Any, ...] = (origin, "nothing", oc)
                emit_convolution(builder, nothing, kernel, part, before, PLAIN, key, [name])
                continue
            kernel = phase_kernel(weight, groups, rows.taps, columns.taps)
            seen = (rows.seen, columns.seen)
            source = Value(
                (x.shape[0], ic, *(s.stop - s.start for s in seen)), dtype, x.strides, x.buffer,
                x.offset + seen[0].start * x.strides[2] + seen[1].start * x.strides[3],
            )  # fmt: skip
            geometry = {
                **PLAIN, "padding": (rows.padding, columns.padding),
                "dilation": (rows.dilation, columns.dilation), "groups": groups,
            }  # fmt: skip
            # Other nodes may have the same weights, and another stride or dilation.
            key = (origin, rows.taps, columns.taps)
            emit_convolution(builder, source, kernel, part, before, geometry, key, [name])
    emit_rest(builder, y, epilogue, True, [name])
    builder.deliver(name, y)


def _at_once(
    builder: Builder,
    node: Node,
    x: Value,
    weight: Array,
    y: Value,
    epilogue: Epilogue,
    key: tuple[Any, ...],
) -> None:
    """One product whose channels are (kh, kw, oc), and a copy of each to its place."""
    n, _, h, w = x.shape
    oc, kh, kw = weight.shape[1:]
    times = kh * kw
    matrix = joined_kernel(weight, 1, (kh, kw))
    joined = builder.new((n, times * oc, h, w), y.dtype, channels_last(4))

    def repeated(array: Array | None) -> Array | None:
        return None if array is None else np.tile(array.reshape(-1), times)

    nodes = [node.outputs[0]]
    emit_convolution(
        builder, x, matrix, joined,
        replace(epilogue, bias=repeated(epilogue.bias), slope=repeated(epilogue.slope)),
        PLAIN, key, nodes,
    )  # fmt: skip
    e = y.dtype.itemsize
    shape = (n, h, kh, w, kw, oc)
    sn, sc, sh, sw = joined.strides
    source = joined.viewed(shape, (sn, sh, kw * oc * e, sw, oc * e, e))
    sn, sc, sh, sw = y.strides
    builder.copy(source, y.viewed(shape, (sn, kh * sh, sh, kw * sw, sw, sc)), nodes)


def axes(node: Node, graph: Graph) -> tuple[Axis, Axis]:
    """Height and width of a node whose shapes are known."""
    inputs, outputs = graph.shapes[node.inputs[0]], graph.shapes[node.outputs[0]]
    kernel, pads = graph.constants[node.inputs[1]].shape[2:], explicit_pads(node)
    stride = node.attributes.get("strides") or (1, 1)
    dilation = node.attributes.get("dilations") or (1, 1)
    down, across = (
        Axis(outputs[2 + d], inputs[2 + d], kernel[d], stride[d], dilation[d], pads[d])
        for d in range(2)
    )
    return down, across


def serves_conv_transpose(node: Node, graph: Graph) -> bool:
    """Whether `lower_conv_transpose` can compute a node."""
    if (
        node.inputs[1] not in graph.constants
        or len(graph.shapes[node.inputs[0]]) != 4
        or graph.dtypes[node.inputs[0]] not in NATIVE
    ):
        return False
    if len(node.inputs) > 3 and node.inputs[3]:
        return False
    shapes = graph.shapes[node.inputs[0]], graph.shapes[node.outputs[0]]
    return all(math.prod(shape) > 0 for shape in shapes)
