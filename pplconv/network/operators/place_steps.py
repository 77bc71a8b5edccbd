"""MaxPool with the places of its maxima, of sequences, images and volumes; and windows of padding.

Other pools see neither: their loops (`window_steps`) are faster.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...memory.dtypes import NAMES
from ...ops.strided_copies import TASK_BYTES
from ...schedules.window_loops import PoolPlaces
from ..builder import Builder
from ..nodes import Graph, Node
from ..storage import Shape, Step, Value, channels_last, strides_of
from .convolution import explicit_pads
from .elementwise_steps import SINGLE, Stream, emit_outputs, numbers_of
from .expressions import Code
from .integer_windows import BYTES

__all__ = ["lower_places", "serves_places"]

_COMPUTED = (SINGLE, np.dtype(np.float64))
_PLACE = np.dtype(np.int64)
_AXES = 3


def serves_places(node: Node, graph: Graph) -> bool:
    """Whether it is a MaxPool of one, two or three axes, of a type that loops compare."""
    shape = graph.shapes[node.inputs[0]]
    return (
        node.op == "MaxPool"
        and 2 < len(shape) <= 2 + _AXES
        and graph.dtypes[node.inputs[0]] in (*_COMPUTED, *BYTES)
        and math.prod(shape) > 0
        and math.prod(graph.shapes[node.outputs[0]]) > 0
    )


def lower_places(node: Node, builder: Builder, graph: Graph) -> None:
    """MaxPool: bytes are compared as numbers, which float32 holds exactly."""
    x, name = builder.values[node.inputs[0]], node.outputs[0]
    shape, dtype = graph.shapes[name], graph.dtypes[name]
    order = channels_last(len(shape))
    own = dtype if dtype in _COMPUTED else SINGLE
    if x.dtype == own:
        x = builder.contiguous(x, order)
    else:
        x = _converted(builder, x, builder.new(x.shape, own, order), None, node.inputs[0])
    found = node.outputs[1] if len(node.outputs) > 1 else ""
    places = _target(builder, found, shape, _PLACE)
    y = _target(builder, name if own == dtype else "", shape, own)
    builder.emit(_step(node, builder, x, y, places))
    if own != dtype:
        stored = _target(builder, name, shape, dtype)
        y = _converted(builder, y, stored, numbers_of(1.0, 0), name)
    builder.deliver(name, y)
    if found:
        builder.deliver(found, places)


def _target(builder: Builder, name: str, shape: Shape, dtype: np.dtype[Any]) -> Value:
    """Give a place without gaps, channels last."""
    order = channels_last(len(shape))
    tight = strides_of(shape, dtype.itemsize, order)
    return builder.target(name, shape, dtype, order, lambda value: value.lies_as(tight))


def _converted(
    builder: Builder, x: Value, y: Value, numbers: Value | None, name: str
) -> Value:  # fmt: skip
    """Convert bytes to numbers, or numbers to bytes."""
    code = Code()
    number = code.fresh()
    emit_outputs(builder, [Stream(y, number, numbers)], code, [Stream(x, number)], "Cast", [name])
    return y


def _axes(numbers: Sequence[int], filled: int) -> Shape:
    """Give the numbers of three axes; missing axes come first."""
    return (*(filled,) * (_AXES - len(numbers)), *(int(number) for number in numbers))


def _strides(value: Value) -> Shape:
    """Bytes from one image to the next, and along three axes."""
    return (value.strides[0], *_axes(value.strides[2:], 0))


def _step(node: Node, builder: Builder, x: Value, y: Value, places: Value) -> Step:
    own: dict[str, Any] = node.attributes
    batch, channels, *sizes = x.shape
    ones = [1] * len(sizes)
    order = tuple(range(len(sizes)))
    if own.get("storage_order", 0):
        order = order[::-1]
    image = math.prod(sizes)
    fields = {
        "dtype": NAMES[x.dtype], "batch": batch, "channels": channels,
        "size": _axes(sizes, 1), "out": _axes(y.shape[2:], 1),
        "kernel": _axes(own["kernel_shape"], 1), "stride": _axes(own.get("strides") or ones, 1),
        "dilation": _axes(own.get("dilations") or ones, 1),
        "pads": _axes(explicit_pads(node, len(sizes))[: len(sizes)], 0),
        "x": _strides(x), "y": _strides(y), "places": _strides(places),
        "steps": (channels * image, image, *_axes(strides_of(sizes, 1, order), 0)),
        "row_segment": max(1, TASK_BYTES // (y.shape[-1] * channels * _PLACE.itemsize)),
    }  # fmt: skip
    return Step(
        PoolPlaces(fields, builder.isa), [x], [y, places], {"arrays": [y, places, x]}, node.op,
        [name for name in node.outputs if name],
        f"{tuple(own['kernel_shape'])} of {x.shape}, with places",
    )  # fmt: skip
