"""Transposed convolutions: several convolutions, each of which gives some of the outputs."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..builder import Builder
from ..nodes import Graph, Node
from ..storage import Array, Value, channels_last
from .convolution import (
    Epilogue,
    emit_convolution,
    emit_rest,
    epilogue_of,
    explicit_pads,
    lies_in_pixels,
)
from .elementwise import NATIVE

# Fewer output channels than these leave much of a vector idle: then all places of a stride are
# channels of one product, and are put in their places afterwards.
FEW_CHANNELS = 16


def lower_conv_transpose(node: Node, builder: Builder, graph: Graph) -> None:
    """ConvTranspose: for each place of an output in its stride, a convolution with some taps.

    Output pixel o of a dimension with stride s, padding p and dilation 1 sums over taps k with
    (o + p - k) divisible by s; these are k = r, r + s, ... for r = (o + p) mod s, on input pixels
    that follow one another.
    """
    weight = spread(node, graph.constants[node.inputs[1]])  # (ic, oc / groups, kh, kw)
    groups = int(node.attributes.get("group", 1))
    stride = tuple(node.attributes.get("strides") or (1, 1))
    pads = explicit_pads(node)
    x = builder.pixels(builder.values[node.inputs[0]])
    name = node.outputs[0]
    shape, dtype = graph.shapes[name], graph.dtypes[name]
    ic, oc = weight.shape[0], weight.shape[1] * groups
    # As (oc, ic / groups, kh, kw), taps turned round.
    grouped = weight.reshape(groups, ic // groups, oc // groups, *weight.shape[2:])
    turned = grouped.transpose(0, 2, 1, 3, 4).reshape(oc, ic // groups, *weight.shape[2:])
    turned = turned[:, :, ::-1, ::-1]
    y = builder.target(name, shape, dtype, channels_last(4), lies_in_pixels)
    epilogue = epilogue_of(node, builder, graph)
    if epilogue.residual is not None:
        # It comes before the activation, which then has to wait.
        before, epilogue = Epilogue(epilogue.bias), replace(epilogue, bias=None)
    else:
        before = replace(epilogue, scale=None, offset=None, last=None)
        epilogue = replace(epilogue, bias=None, activation="", slope=None)
    filled = tuple(n * by for n, by in zip(x.shape[2:], stride, strict=True)) == shape[2:]
    if (
        weight.shape[2:] == stride and filled and not any(pads) and groups == 1
        and oc < FEW_CHANNELS
    ):  # fmt: skip
        _at_once(builder, node, x, weight, y, before, (graph.constants[node.inputs[1]], "at once"))
        emit_rest(builder, y, epilogue, True, [name])
        builder.deliver(name, y)
        return
    rows = phases(shape[2], x.shape[2], weight.shape[2], stride[0], pads[0])
    columns = phases(shape[3], x.shape[3], weight.shape[3], stride[1], pads[1])
    for down in rows:
        for across in columns:
            part = Value(
                (shape[0], oc, down.count, across.count), dtype,
                (y.strides[0], y.strides[1], y.strides[2] * stride[0], y.strides[3] * stride[1]),
                y.buffer, y.offset + down.first * y.strides[2] + across.first * y.strides[3],
            )  # fmt: skip
            kernel = np.ascontiguousarray(
                turned[:, :, down.taps(weight.shape[2]), across.taps(weight.shape[3])]
            )
            source = Value(
                (x.shape[0], ic, down.rows, across.rows), dtype, x.strides, x.buffer,
                x.offset + down.skip * x.strides[2] + across.skip * x.strides[3],
            )  # fmt: skip
            geometry = {
                "stride": (1, 1), "padding": (down.padding, across.padding),
                "dilation": (1, 1), "groups": groups,
            }  # fmt: skip
            # Other nodes may have the same weights, and another stride or dilation.
            key = (
                graph.constants[node.inputs[1]], weight.shape, stride,
                tuple(node.attributes.get("dilations") or ()), down.remainder, across.remainder,
            )  # fmt: skip
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
    ic, oc, kh, kw = weight.shape
    times = kh * kw
    matrix = np.ascontiguousarray(weight.transpose(2, 3, 1, 0)).reshape(times * oc, ic, 1, 1)
    joined = builder.new((n, times * oc, h, w), y.dtype, channels_last(4))

    def repeated(array: Array | None) -> Array | None:
        return None if array is None else np.tile(array.reshape(-1), times)

    geometry: dict[str, Any] = {
        "stride": (1, 1), "padding": ((0, 0), (0, 0)), "dilation": (1, 1), "groups": 1,
    }  # fmt: skip
    nodes = [node.outputs[0]]
    emit_convolution(
        builder, x, matrix, joined,
        replace(epilogue, bias=repeated(epilogue.bias), slope=repeated(epilogue.slope)),
        geometry, key, nodes,
    )  # fmt: skip
    e = y.dtype.itemsize
    shape = (n, h, kh, w, kw, oc)
    sn, sc, sh, sw = joined.strides
    source = joined.viewed(shape, (sn, sh, kw * oc * e, sw, oc * e, e))
    sn, sc, sh, sw = y.strides
    builder.copy(source, y.viewed(shape, (sn, kh * sh, sh, kw * sw, sw, sc)), nodes)


def spread(node: Node, weight: Array) -> Array:
    """Weights of a ConvTranspose with zeros between taps that are dilated.

    Behind them there are zeros as well, as far as an output of each place in the stride has a tap.
    """
    strides = node.attributes.get("strides") or (1, 1)
    dilations = node.attributes.get("dilations") or (1, 1)
    kernel = [(n - 1) * d + 1 for n, d in zip(weight.shape[2:], dilations, strict=True)]
    shape = [max(n, stride) for n, stride in zip(kernel, strides, strict=True)]
    if tuple(shape) == weight.shape[2:]:
        return weight
    whole = np.zeros((*weight.shape[:2], *shape), weight.dtype)
    whole[:, :, : kernel[0] : dilations[0], : kernel[1] : dilations[1]] = weight
    return whole


@dataclass(frozen=True)
class Phase:
    """Outputs of a transposed convolution with one place in the stride, in one dimension.

    Parameters
    ----------
    first, count : int
        The first of them, and how many there are; the stride lies between them.
    remainder, stride : int
        Their taps are `remainder`, `remainder` + `stride` and so on.
    skip, rows : int
        The first input they see, and how many.
    padding : (int, int)
        Zeros around these inputs.
    """

    first: int
    count: int
    remainder: int
    stride: int
    skip: int
    rows: int
    padding: tuple[int, int]

    def taps(self, kernel: int) -> slice:
        """Where their taps lie in a kernel that is turned round."""
        last = (kernel - 1 - self.remainder) // self.stride * self.stride + self.remainder
        return slice(kernel - 1 - last, kernel - self.remainder, self.stride)


def phases(outputs: int, inputs: int, kernel: int, stride: int, pad: int) -> list[Phase]:
    """Divide one dimension of a transposed convolution; see `lower_conv_transpose`."""
    found = []
    for remainder in range(stride):
        first = (remainder - pad) % stride
        if first >= outputs:
            continue
        count = -(-(outputs - first) // stride)
        taps = -(-(kernel - remainder) // stride)
        start = (first + pad) // stride - (taps - 1)  # the first input of the first output
        end = start + count - 1 + taps
        skip, stop = max(start, 0), min(end, inputs)
        found.append(Phase(
            first, count, remainder, stride, skip, stop - skip, (skip - start, end - stop),
        ))  # fmt: skip
    return found


def serves_conv_transpose(node: Node, graph: Graph) -> bool:
    """Whether `lower_conv_transpose` can compute a node."""
    if (
        node.inputs[1] not in graph.constants
        or len(graph.shapes[node.inputs[0]]) != 4
        or graph.dtypes[node.inputs[0]] not in NATIVE
    ):
        return False
    weight = spread(node, graph.constants[node.inputs[1]])
    stride = tuple(node.attributes.get("strides") or (1, 1))
    if len(node.inputs) > 3 and node.inputs[3]:
        return False
    pads, shape = explicit_pads(node), graph.shapes[node.outputs[0]]
    sides = [
        phases(shape[2 + d], graph.shapes[node.inputs[0]][2 + d], weight.shape[2 + d], stride[d],
               pads[d]) for d in range(2)
    ]  # fmt: skip
    return all(phase.rows > 0 for side in sides for phase in side) and math.prod(shape) > 0
