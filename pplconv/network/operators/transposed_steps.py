"""Transposed convolutions as several convolutions, each for a part of the outputs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from ...ops.transposed.phases import Axis, joined_parts, merged, phase_parts, phases
from ...ops.transposed.tap_runs import TapRun, covers, has_many_phases, run_parts, tap_runs
from ..builder import Builder
from ..nodes import Graph, Node
from ..scaling import ScaledTensor
from ..storage import Array, Value, channels_last, constant_value, strides_of
from .convolution import PLAIN, emit_convolution, explicit_pads, lies_in_pixels, weight_of
from .elementwise_steps import NATIVE
from .epilogue import Epilogue, emit_rest, epilogue_of

# Fewer output channels leave much of a vector idle. Then all positions within a stride are channels
# of one product, which copies distribute afterwards.
FEW_CHANNELS = 16


def lower_conv_transpose(node: Node, builder: Builder, graph: Graph) -> None:
    """ConvTranspose: a convolution for each phase (`ops.transposed.phases`), or one for all."""
    origin = weight_of(node, builder, graph)
    # (ic, oc / groups, kh, kw)
    weight = origin.numpy() if isinstance(origin, ScaledTensor) else origin
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
        # The residual comes before the activation, which then moves to a later pass.
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
    if has_many_phases(down, across):
        _by_taps(builder, x, weight, y, before, (down, across), groups, origin, name)
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
                # No tap: the epilogue of zeros.
                _nothing(builder, part, before, origin, name)
                continue
            kernel = _kernel(builder, weight, partial(_phase, groups, rows.taps, columns.taps))
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
            key: tuple[Any, ...] = (origin, rows.taps, columns.taps)
            emit_convolution(builder, source, kernel, part, before, geometry, key, [name])
    emit_rest(builder, y, epilogue, True, [name])
    builder.deliver(name, y)


def _nothing(builder: Builder, y: Value, epilogue: Epilogue, origin: Any, name: str) -> None:
    """Outputs that no tap reaches: the epilogue of zeros."""
    n, oc, h, w = y.shape
    zeros = constant_value(np.zeros((n, 1, h, w), y.dtype))
    kernel: Any = np.zeros((oc, 1, 1, 1), y.dtype)
    if isinstance(origin, Value):
        # Nothing known would keep them packed.
        kernel = constant_value(kernel)
    emit_convolution(builder, zeros, kernel, y, epilogue, PLAIN, (origin, "nothing", oc), [name])


def _phase(groups: int, down: range, across: range, weight: Array) -> Array:
    return phase_parts(weight, groups, down, across)


def _kernel(
    builder: Builder, weight: Array | Value, parts: Callable[[Array], Array]
) -> Array | Value:
    """Give a part of the weights as (oc, ic / groups, kh, kw); `parts` makes its view."""
    if not isinstance(weight, Value):
        return merged(parts(weight))
    weight = builder.contiguous(weight)
    # No element of it is read.
    model = np.empty(weight.shape, weight.dtype)
    view = parts(model)
    offset = view.__array_interface__["data"][0] - model.__array_interface__["data"][0]
    part = builder.contiguous(weight.viewed(view.shape, view.strides, offset))
    shape = (math.prod(view.shape[:-3]), *view.shape[-3:])
    return part.viewed(shape, strides_of(shape, part.dtype.itemsize))


def _repeated(
    builder: Builder, array: Array | Value | None, groups: int, times: int
) -> Array | Value | None:
    """Repeat the numbers of each group of channels so many times, one group after the other."""
    if array is None:
        return None
    if not isinstance(array, Value):
        by_group = array.reshape(groups, 1, -1)
        return np.repeat(by_group, times, axis=1).reshape(-1)
    own, e = array.size // groups, array.dtype.itemsize
    array = builder.contiguous(array)
    whole = builder.contiguous(array.viewed((groups, times, own), (own * e, 0, e)))
    return whole.viewed((groups * times * own,), (e,))


def _runs(groups: int, down: TapRun, across: TapRun, weight: Array) -> Array:
    return run_parts(weight, groups, down, across)


def _each_repeated(builder: Builder, epilogue: Epilogue, groups: int, times: int) -> Epilogue:
    """Repeat what an epilogue has for each channel."""
    slope = epilogue.slope
    return replace(
        epilogue,
        bias=_repeated(builder, epilogue.bias, groups, times),
        slope=None if slope is None else np.repeat(slope.reshape(groups, 1, -1), times, 1).ravel(),
    )


def _by_taps(
    builder: Builder,
    x: Value,
    weight: Array | Value,
    y: Value,
    epilogue: Epilogue,
    dimensions: tuple[Axis, Axis],
    groups: int,
    origin: Any,
    name: str,
) -> None:
    """Products by runs of taps (`ops.transposed.tap_runs`), and copies of them to their places."""
    downs, acrosses = (tap_runs(axis) for axis in dimensions)
    if not all(map(covers, dimensions, (downs, acrosses))):
        _nothing(builder, y, epilogue, origin, name)
    n, own, e = x.shape[0], weight.shape[1], y.dtype.itemsize
    for down, across in product(downs, acrosses):
        kernel = _kernel(builder, weight, partial(_runs, groups, down, across))
        times = down.count * across.count
        after = _each_repeated(builder, epilogue, groups, times)
        shape = (n, kernel.shape[0], down.computed, across.computed)
        joined = builder.new(shape, y.dtype, channels_last(4))
        geometry = {
            **PLAIN, "padding": (down.padding, across.padding),
            "dilation": (down.dilation, across.dilation), "groups": groups,
        }  # fmt: skip
        # Other nodes may have the same weights, and another stride or dilation.
        key = (origin, *((run.first, run.count, run.taps.tobytes()) for run in (down, across)))
        emit_convolution(builder, x, kernel, joined, after, geometry, key, [name])
        sn, _, sh, sw = joined.strides
        line, place = across.count * own * e, own * e
        tn, tc, th, tw = y.strides
        for rows, columns in product(down.spans, across.spans):
            sizes = (n, groups, rows.count, rows.places, columns.count, columns.places, own)
            begin = rows.first * sh + rows.place * line + columns.first * sw + columns.place * place
            source = Value(
                sizes, y.dtype, (sn, down.count * line, sh, line, sw, place, e), joined.buffer,
                joined.offset + begin,
            )  # fmt: skip
            to = Value(
                sizes, y.dtype,
                (
                    tn, own * tc, th * down.axis.stride, th * down.axis.dilation,
                    tw * across.axis.stride, tw * across.axis.dilation, tc,
                ),
                y.buffer, y.offset + rows.output * th + columns.output * tw,
            )  # fmt: skip
            builder.copy(source, to, [name])


def _at_once(
    builder: Builder,
    node: Node,
    x: Value,
    weight: Array | Value,
    y: Value,
    epilogue: Epilogue,
    key: tuple[Any, ...],
) -> None:
    """One product with channels (kh, kw, oc), and a copy of each to its position."""
    n, _, h, w = x.shape
    oc, kh, kw = weight.shape[1:]
    times = kh * kw
    matrix = _kernel(builder, weight, lambda array: joined_parts(array, 1, (kh, kw)))
    joined = builder.new((n, times * oc, h, w), y.dtype, channels_last(4))
    nodes = [node.outputs[0]]
    after = _each_repeated(builder, epilogue, 1, times)
    emit_convolution(builder, x, matrix, joined, after, PLAIN, key, nodes)
    e = y.dtype.itemsize
    shape = (n, h, kh, w, kw, oc)
    sn, sc, sh, sw = joined.strides
    source = joined.viewed(shape, (sn, sh, kw * oc * e, sw, oc * e, e))
    sn, sc, sh, sw = y.strides
    builder.copy(source, y.viewed(shape, (sn, kh * sh, sh, kw * sw, sw, sc)), nodes)


def axes(node: Node, graph: Graph) -> tuple[Axis, Axis]:
    """Height and width of a node whose shapes are known."""
    inputs, outputs = graph.shapes[node.inputs[0]], graph.shapes[node.outputs[0]]
    kernel, pads = graph.shapes[node.inputs[1]][2:], explicit_pads(node)
    stride = node.attributes.get("strides") or (1, 1)
    dilation = node.attributes.get("dilations") or (1, 1)
    down, across = (
        Axis(outputs[2 + d], inputs[2 + d], kernel[d], stride[d], dilation[d], pads[d])
        for d in range(2)
    )
    return down, across


def serves_conv_transpose(node: Node, graph: Graph) -> bool:
    """Whether `lower_conv_transpose` can compute a node."""
    if len(graph.shapes[node.inputs[0]]) != 4 or graph.dtypes[node.inputs[0]] not in NATIVE:
        return False
    return all(math.prod(graph.shapes[name]) > 0 for name in (*node.inputs[:2], node.outputs[0]))
