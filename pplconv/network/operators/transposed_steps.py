"""Transposed convolutions as several convolutions, each for a part of the outputs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ... import planner
from ...ops.transposed.phases import merged
from ..builder import Builder
from ..nodes import Graph, Node
from ..storage import Array, Value, channels_last, constant_value, strides_of
from .convolution import PLAIN, emit_convolution, lies_in_pixels, problem_of, weight_of
from .elementwise_steps import BRAIN, NATIVE
from .epilogue import Epilogue, emit_rest, epilogue_of
from .transposed_parts import Transposed, repeated


def lower_conv_transpose(node: Node, builder: Builder, graph: Graph) -> None:
    """ConvTranspose: a convolution for each phase (`ops.transposed.phases`), or one for all."""
    origin = weight_of(node, builder, graph)
    # (ic, oc / groups, kh, kw)
    weight = origin if isinstance(origin, (np.ndarray, Value)) else origin.numpy()
    x = builder.pixels(builder.values[node.inputs[0]])
    name = node.outputs[0]
    shape, dtype = graph.shapes[name], builder.stored(name, graph.dtypes[name])
    y = builder.target(name, shape, dtype, channels_last(4), lies_in_pixels)
    epilogue = epilogue_of(node, builder, graph)
    if epilogue.residual is not None:
        # The residual comes before the activation, which then moves to a later pass.
        before, epilogue = Epilogue(epilogue.bias), replace(epilogue, bias=None)
    else:
        before = replace(epilogue, scale=None, offset=None, last=None)
        epilogue = replace(epilogue, bias=None, activation="", slope=None)
    parts, cover = Transposed.of(node, graph).parts()
    if not cover:
        _nothing(builder, y, before, origin, name)
    for part in parts:
        place = part.of_output(builder, y)
        if part.is_empty:
            _nothing(builder, place, before, origin, name)
            continue
        kernel = _kernel(builder, weight, part.weight)
        after = _each_repeated(builder, before, part.whole.groups, part.times)
        # Other nodes may have the same weights, and another stride or dilation.
        key = (origin, *part.key)
        emit_convolution(
            builder, part.of_input(x), kernel, place, after, part.geometry, key, [name]
        )
        part.distribute(builder, place, y, [name])
    emit_rest(builder, y, epilogue, True, [name])
    builder.deliver(name, y)


def _nothing(builder: Builder, y: Value, epilogue: Epilogue, origin: Any, name: str) -> None:
    """Outputs that no tap reaches: the epilogue of zeros."""
    n, oc, h, w = y.shape
    dtype = np.dtype(np.float32) if y.dtype == BRAIN else y.dtype
    zeros = constant_value(np.zeros((n, 1, h, w), dtype))
    kernel: Any = np.zeros((oc, 1, 1, 1), dtype)
    if isinstance(origin, Value):
        # Nothing known would keep them packed.
        kernel = constant_value(kernel)
    key = origin, "nothing", oc
    # Any plan has the same bits, and only some bands may have such outputs.
    with builder.following(None):
        emit_convolution(builder, zeros, kernel, y, epilogue, PLAIN, key, [name])


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
    if array is None or times == 1:
        return array
    if not isinstance(array, Value):
        return repeated(array, groups, times)
    own, e = array.size // groups, array.dtype.itemsize
    array = builder.contiguous(array)
    whole = builder.contiguous(array.viewed((groups, times, own), (own * e, 0, e)))
    return whole.viewed((groups * times * own,), (e,))


def _each_repeated(builder: Builder, epilogue: Epilogue, groups: int, times: int) -> Epilogue:
    """Repeat what an epilogue has for each channel."""
    slope = epilogue.slope
    return replace(
        epilogue,
        bias=_repeated(builder, epilogue.bias, groups, times),
        slope=None if slope is None else repeated(slope, groups, times),
    )


def prices_of_types(
    node: Node, builder: Builder, graph: Graph, narrow: np.dtype[Any]
) -> tuple[float, float, float]:
    """Estimate the cycles of its convolutions: see `TypePrices`."""
    single, origin = graph.dtypes[node.inputs[0]], weight_of(node, builder, graph)
    weight = origin if isinstance(origin, (np.ndarray, Value)) else origin.numpy()
    found = [0.0, 0.0, 0.0]
    for part in Transposed.of(node, graph).parts()[0]:
        if part.is_empty:
            continue
        kernel = _kernel(builder, weight, part.weight)
        assert not isinstance(kernel, Value)
        sparsity = builder.sparsity((origin, *part.key), kernel, part.whole.groups)
        for i, (dtype, result) in enumerate(((single, single), (narrow, single), (single, narrow))):
            problem = problem_of(
                builder, part.input_shape, part.kernel, dtype, part.geometry, "NHWC", sparsity,
                result=result,
            )  # fmt: skip
            found[i] += builder.least_cycles(problem)
        # What is copied is read and written once more.
        found[2] += 2 * planner.narrowing_cycles(part.copied, 0.0)
    return found[0], found[1], found[2]


def serves_conv_transpose(node: Node, graph: Graph) -> bool:
    """Whether `lower_conv_transpose` can compute a node."""
    if len(graph.shapes[node.inputs[0]]) != 4 or graph.dtypes[node.inputs[0]] not in NATIVE:
        return False
    return all(math.prod(graph.shapes[name]) > 0 for name in (*node.inputs[:2], node.outputs[0]))
