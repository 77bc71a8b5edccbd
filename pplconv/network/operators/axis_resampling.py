"""Resize of any axes, types and regions, in loops: one axis after the other.

Images of floating point, resized by height and width, have a step of their own (`window_steps`).
Here an array is a row of items for each index of the axes before the resized one; an item is what
lies behind it. Integers follow onnxruntime, to the last bit where it decides one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...memory.dtypes import NAMES
from ...ops.strided_copies import TASK_BYTES
from ...schedules.window_loops import Resample
from ..antialiasing import FRACTION_BITS, every_tap_counts, is_smooth, rounded
from ..builder import Builder
from ..nodes import Graph, Node
from ..resizing import Taps, unchanged, word
from ..storage import Array, Shape, Step, Value, channels_last, constant_value, strides_of
from .elementwise_steps import BRAIN, SINGLE, STORED, Stream, emit_outputs
from .expressions import Code
from .resampling import changed_axes, region_of
from .window_steps import LONG_SUM, axes_of_resize

__all__ = ["lower_resize", "serves_resize"]

_DOUBLE = np.dtype(np.float64)
# Half precision is resampled as float32, or its bits are copied.
_FLOATS = (SINGLE, _DOUBLE)
# Integers that programs load and store.
_INTEGERS = tuple(dtype for dtype in STORED if dtype.kind in "iu")
# Products that one program adds up: it has no more streams than loops take.
_TOGETHER = 6
# Taps of integers of 32 bits that are added up in onnxruntime's order.
_IN_ORDER = 64


def serves_resize(node: Node, graph: Graph) -> bool:
    """Whether scales and region are known, and loops have numbers of the type."""
    shapes = [graph.shapes[name] for name in (node.inputs[0], node.outputs[0])]
    dtype = graph.dtypes[node.outputs[0]]
    nearest = word(node.attributes, "mode") == "nearest"
    moved = nearest and (dtype.kind in "biuf" or dtype == BRAIN)
    return (
        all(map(math.prod, shapes))
        and (moved or dtype in (*_FLOATS, *_INTEGERS))
        and axes_of_resize(node, graph) is not None
        and region_of(node, graph) is not None
    )


def lower_resize(node: Node, builder: Builder, graph: Graph) -> None:
    """Resize: each axis that changes is a weighted sum, or a copy, of its indices."""
    axes, region = axes_of_resize(node, graph), region_of(node, graph)
    assert axes is not None and region is not None
    name = node.outputs[0]
    shape, dtype = graph.shapes[name], graph.dtypes[name]
    changed = changed_axes(axes, node.attributes, region, dtype)
    # Channels stay beside one another where no weight is for them.
    order = tuple(range(len(shape))) if 1 in changed else channels_last(len(shape))
    tight = strides_of(shape, dtype.itemsize, order)
    y = builder.target(name, shape, dtype, order, lambda value: value.lies_as(tight))
    x = builder.contiguous(builder.values[node.inputs[0]], order)
    walk = _Walk(builder, order, name)
    mode, smooth = word(node.attributes, "mode"), is_smooth(node.attributes)
    if not changed:
        builder.copy(x, y, [name])
    elif mode == "nearest" or dtype in _FLOATS:
        if smooth:
            changed = {d: every_tap_counts(found) for d, found in changed.items()}
        walk.resample(x, y, _fewest_first(changed, x.shape))
    elif mode == "linear" and not smooth:
        _Sum(walk, x, changed).write(y)
    else:
        _rounded_sums(walk, x, y, changed, smooth)
    _fill_outside(builder, y, changed, node.attributes.get("extrapolation_value", 0.0), name)
    builder.deliver(name, y)


class _Walk:
    """Adds steps that resample one axis of arrays without gaps, their dimensions in one order."""

    def __init__(self, builder: Builder, order: Shape, name: str) -> None:
        self.builder, self.order, self.name = builder, order, name

    def new(self, shape: Shape, dtype: np.dtype[Any]) -> Value:
        """Make an array."""
        return self.builder.new(shape, dtype, self.order)

    def resample(self, x: Value, y: Value, changed: Mapping[int, Taps]) -> None:
        """Resample axes in turn; long sums are made in double precision."""
        for left, (d, found) in zip(range(len(changed) - 1, -1, -1), changed.items(), strict=True):
            if found.at.shape[1] <= LONG_SUM or x.dtype == _DOUBLE:
                x = self.along(x, d, found, None if left else y)
                continue
            wide = self.along(self.converted(x, _DOUBLE), d, found)
            x = self.converted(wide, x.dtype, None if left else y)

    def converted(self, x: Value, dtype: np.dtype[Any], y: Value | None = None) -> Value:
        """Convert an array."""
        if y is None:
            y = self.new(x.shape, dtype)
        code = Code(_DOUBLE)
        number = code.fresh()
        self.compute(y, code, number, [Stream(x, number)], _DOUBLE)
        return y

    def along(self, x: Value, d: int, found: Taps, y: Value | None = None) -> Value:
        """Resample one axis; one tap each copies bits."""
        outputs, count = found.at.shape
        shape = (*x.shape[:d], outputs, *x.shape[d + 1 :])
        if y is None:
            y = self.new(shape, x.dtype)
        place, e = self.order.index(d), x.dtype.itemsize
        rows = math.prod(shape[i] for i in self.order[:place])
        item = math.prod(shape[i] for i in self.order[place + 1 :])
        copied = count == 1
        lines = unchanged(rows)
        fields = {
            "dtype": "u8" if copied else NAMES[x.dtype], "batch": 1,
            "channels": item * (e if copied else 1), "ih": rows, "iw": x.shape[d],
            "x": (0, x.shape[d] * item * e, item * e), "y": (0, outputs * item * e, item * e),
            "rows": lines.at, "weights_y": lines.weights, "columns": found.at,
            "weights_x": found.weights, "row_segment": max(1, TASK_BYTES // (outputs * item * e)),
        }  # fmt: skip
        self.builder.emit(Step(
            Resample(fields, self.builder.isa), [x], [y], {"arrays": [y, x]}, "Resize",
            [self.name], f"axis {d} of {x.shape}: {x.shape[d]} to {outputs}, {count} taps",
        ))  # fmt: skip
        return y

    def compute(
        self, y: Value, code: Code, result: int, inputs: Sequence[Stream], dtype: np.dtype[Any]
    ) -> None:
        """Add an element-wise program."""
        emit_outputs(self.builder, [Stream(y, result)], code, inputs, "Resize", [self.name], dtype)


def _fewest_first(changed: Mapping[int, Taps], shape: Shape) -> dict[int, Taps]:
    """Order axes so that arrays stay small."""
    return dict(sorted(changed.items(), key=lambda item: len(item[1].at) / shape[item[0]]))


class _Sum:
    """The linear sum of integers, in onnxruntime's order of additions, rounded toward zero.

    Each tap is a copy of the array, and has a weight for each output of each axis.
    """

    def __init__(self, walk: _Walk, x: Value, changed: Mapping[int, Taps]) -> None:
        self.walk, self.changed = walk, changed
        self.dtype = _DOUBLE if x.dtype.itemsize == _DOUBLE.itemsize else SINGLE
        self.copies: dict[tuple[int, ...], Value] = {(): x}

    def copy(self, taps: tuple[int, ...]) -> Value:
        """Give the array whose elements are those of one tap of each axis."""
        if taps not in self.copies:
            d, found = list(self.changed.items())[len(taps) - 1]
            one = replace(found, at=found.at[:, taps[-1:]], weights=np.ones((len(found.at), 1)))
            self.copies[taps] = self.walk.along(self.copy(taps[:-1]), d, one)
        return self.copies[taps]

    def weights(self, d: int, tap: int) -> Value:
        """Give the weights of a tap along an axis."""
        own = self.changed[d].weights[:, tap].astype(self.dtype)
        return constant_value(own.reshape(-1, *[1] * (len(self.walk.order) - 1 - d)))

    def write(self, y: Value) -> None:
        """Add the steps."""
        chosen = list(itertools.product(*(range(t.at.shape[1]) for t in self.changed.values())))
        total: Value | None = None
        for first in range(0, len(chosen), _TOGETHER):
            part = chosen[first : first + _TOGETHER]
            last = first + _TOGETHER >= len(chosen)
            result = y if last else self.walk.new(y.shape, self.dtype)
            self._add(total, part, result)
            total = result

    def _add(self, total: Value | None, part: list[tuple[int, ...]], result: Value) -> None:
        code = Code(self.dtype)
        streams: list[Stream] = []
        weights: dict[tuple[int, int], int] = {}

        def read(value: Value) -> int:
            streams.append(Stream(value, code.fresh()))
            return streams[-1].register

        found = None if total is None else read(total)
        for taps in part:
            weight: int | None = None
            for key in reversed(list(zip(self.changed, taps, strict=True))):
                if key not in weights:
                    weights[key] = read(self.weights(*key))
                own = weights[key]
                weight = own if weight is None else code.do("MULTIPLY", weight, own)
            assert weight is not None
            product = code.do("MULTIPLY", weight, read(self.copy(taps)))
            found = product if found is None else code.do("ADD", found, product)
        assert found is not None
        self.walk.compute(result, code, found, streams, self.dtype)


def _rounded_sums(
    walk: _Walk, x: Value, y: Value, changed: Mapping[int, Taps], smooth: bool
) -> None:
    """Compute integers in double precision, which holds the sums.

    With `antialias` each axis is rounded, as in onnxruntime, which has weights of so many bits for
    bytes, and adds integers of 32 bits in single precision. Without it, onnxruntime has no cubic
    sums of integers: the last one is rounded, halves to even, as in ONNX's reference.
    """
    kind = x.dtype
    bytewise = smooth and kind.itemsize == 1
    axes = list(changed.items())[:: -1 if smooth else 1]
    in_order = (
        smooth
        and kind.itemsize == SINGLE.itemsize
        and all(found.at.shape[1] <= _IN_ORDER for _, found in axes)
    )
    dtype = SINGLE if in_order else _DOUBLE
    wide = walk.converted(x, dtype)
    for left, (d, found) in zip(range(len(axes) - 1, -1, -1), axes, strict=True):
        if bytewise:
            found = replace(found, weights=rounded(found.weights * (1 << FRACTION_BITS)))
        if in_order:
            sums = walk.new((*wide.shape[:d], len(found.at), *wide.shape[d + 1 :]), dtype)
            _Sum(walk, wide, {d: found}).write(sums)
            wide = sums
        else:
            wide = walk.along(wide, d, found)
        if left and not smooth:
            continue
        code = Code(dtype)
        number = code.fresh()
        if bytewise:
            raised = code.do("ADD", number, code.scalar(1 << (FRACTION_BITS - 1)))
            whole = code.do("FLOOR", code.do("MULTIPLY", raised, code.scalar(0.5**FRACTION_BITS)))
        elif smooth:
            size = code.do("FLOOR", code.do("ADD", code.do("ABSOLUTE", number), code.scalar(0.5)))
            below = code.do("LESS", number, code.scalar(0))
            whole = code.do("WHERE", below, code.do("NEGATE", size), size)
        else:
            whole = code.do("ROUND", number)
        kept = code.do("CLIP", whole, *map(code.scalar, _bounds(kind, dtype)))
        result = walk.new(wide.shape, dtype) if left else y
        walk.compute(result, code, kept, [Stream(wide, number)], dtype)
        wide = result


def _bounds(kind: np.dtype[Any], dtype: np.dtype[Any]) -> tuple[float, float]:
    """Give the least and the largest integer of a type that are numbers of another one."""
    bounds = np.iinfo(kind)
    high = dtype.type(bounds.max)
    if int(high) > bounds.max:
        high = np.nextafter(high, dtype.type(0))
    return float(bounds.min), float(high)


def _fill_outside(
    builder: Builder, y: Value, changed: Mapping[int, Taps], number: float, name: str
) -> None:
    """Write a number where outputs lie outside the image that a region is cut from."""
    with np.errstate(all="ignore"):
        filled = constant_value(np.array(number).astype(y.dtype))
    for d, found in changed.items():
        for begin, end in _runs(found.outside):
            shape = (*y.shape[:d], end - begin, *y.shape[d + 1 :])
            place = y.viewed(shape, y.strides, begin * y.strides[d])
            builder.copy(filled.viewed(shape, (0,) * len(shape)), place, [name])


def _runs(outside: Array) -> list[tuple[int, int]]:
    """Give the ranges of true elements."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], outside, [False])).astype(np.int8)))
    pairs = edges.reshape(-1, 2).tolist()
    return [(begin, end) for begin, end in pairs]
