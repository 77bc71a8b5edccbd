"""Pools of any number of dimensions, one at a time: maxima and sums are separable."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..._records import NamedTuple
from ..storage import Array, Shape
from .types import Attributes, Operands

__all__ = ["average_pool", "global_lp_pool", "global_max_pool", "lp_pool", "max_pool"]


class Window(NamedTuple):
    """The windows of one dimension.

    Parameters
    ----------
    inputs, outputs, kernel, stride, dilation, before, after : int
        Sizes, and padding at both ends.
    """

    inputs: int
    outputs: int
    kernel: int
    stride: int
    dilation: int
    before: int
    after: int

    def seen_by(self, tap: int) -> tuple[slice, slice]:
        """Give the outputs for which a tap lies inside the image, and its inputs."""
        shift = tap * self.dilation - self.before
        first = max(0, -(shift // self.stride))
        end = max(first, min(self.outputs, (self.inputs - 1 - shift) // self.stride + 1))
        start = first * self.stride + shift
        stop = start + max(0, end - first - 1) * self.stride + 1 if end > first else start
        return slice(first, end), slice(start, stop, self.stride)

    def taps_of(self, output: int) -> slice:
        """Give the inputs in an output's window."""
        start = output * self.stride - self.before
        first = max(0, -(start // self.dilation))
        stop = start + (self.kernel - 1) * self.dilation + 1
        return slice(start + first * self.dilation, min(self.inputs, max(0, stop)), self.dilation)

    def counts(self, padded: bool) -> Array:
        """Give the divisor of each output: its taps, without padding or with that of `pads`."""
        ends = np.arange(self.outputs) * self.stride - self.before
        limit = self.inputs + (self.after if padded else 0)
        taps = np.minimum(self.kernel, (limit - 1 - ends) // self.dilation + 1)
        below = 0 if padded else np.maximum(0, -(ends // self.dilation))
        return np.maximum(taps - below, 0)


def _windows(attributes: Attributes, sizes: Shape, outputs: Shape) -> list[Window]:
    """Read the attributes; ``auto_pad`` is explicit by now."""
    count = len(sizes)
    kernels = attributes["kernel_shape"]
    strides = attributes.get("strides") or [1] * count
    dilations = attributes.get("dilations") or [1] * count
    pads = attributes.get("pads") or [0] * 2 * count
    each = zip(sizes, outputs, kernels, strides, dilations, pads, pads[count:], strict=False)
    return [Window(*numbers) for numbers in each]


def _along(x: Array, axis: int, window: Window, join: Any, begin: Any) -> Array:
    """Reduce each window of one dimension, from an initial value."""
    x = np.moveaxis(x, axis, -1)
    y = np.full((*x.shape[:-1], window.outputs), begin, x.dtype)
    if window.outputs < window.kernel:
        for output in range(window.outputs):
            seen = x[..., window.taps_of(output)]
            y[..., output] = join.reduce(seen, -1, initial=begin)
    else:
        for tap in range(window.kernel):
            outputs, inputs = window.seen_by(tap)
            join(y[..., outputs], x[..., inputs], out=y[..., outputs])
    return np.moveaxis(y, -1, axis)


def _pooled(x: Array, windows: Sequence[Window], join: Any, begin: Any) -> Array:
    # Half precision has too few bits for sums.
    y = x.astype(np.float32) if x.dtype == np.float16 else x
    for axis, window in enumerate(windows, 2):
        y = _along(y, axis, window, join, begin)
    return y


def max_pool(attributes: Attributes, operands: Operands, shapes: Sequence[Shape]) -> list[Array]:
    """MaxPool; a window of padding alone gives the type's lowest number, as in onnxruntime."""
    x = _given(operands)
    windows = _windows(attributes, x.shape[2:], shapes[0][2:])
    # As in onnxruntime, which computes in float32.
    kind = np.dtype(np.float32) if x.dtype == np.float16 else x.dtype
    lowest = np.finfo(kind).min if kind.kind == "f" else np.iinfo(str(kind)).min
    y = _pooled(x, windows, np.maximum, -np.inf if kind.kind == "f" else lowest)
    for axis, window in enumerate(windows, 2):
        y = np.where(_beside(window.counts(False) == 0, axis, y.ndim), lowest, y)
    results = [y.astype(x.dtype)]
    if len(shapes) > 1:
        results.append(_places(x, windows, "F" if attributes.get("storage_order", 0) else "C"))
    return results


def _places(x: Array, windows: Sequence[Window], order: Any) -> Array:
    """Give the first index of each maximum in its image; -1 where there is none."""
    places = np.full((*x.shape[:2], *(window.outputs for window in windows)), -1, np.int64)
    sizes = x.shape[2:]
    image = int(np.prod(sizes))
    numbers = np.arange(image).reshape(sizes, order=order)
    for spot in np.ndindex(*places.shape[2:]):
        taken: Any = tuple(w.taps_of(o) for w, o in zip(windows, spot, strict=True))
        seen = x[(..., *taken)].reshape(*x.shape[:2], -1)
        if seen.shape[-1]:
            places[(..., *spot)] = numbers[taken].reshape(-1)[seen.argmax(-1)]
    first = np.arange(x.shape[0] * x.shape[1]).reshape(x.shape[:2]) * image
    first = first.reshape(*first.shape, *[1] * len(sizes))
    return np.where(places < 0, -1, places + first)


def average_pool(
    attributes: Attributes, operands: Operands, shapes: Sequence[Shape]
) -> list[Array]:
    """AveragePool; an empty window gives zero."""
    x = _given(operands)
    windows = _windows(attributes, x.shape[2:], shapes[0][2:])
    y = _pooled(x, windows, np.add, 0)
    for axis, window in enumerate(windows, 2):
        counts = np.maximum(window.counts(bool(attributes.get("count_include_pad", 0))), 1)
        y = y / _beside(counts, axis, y.ndim).astype(y.dtype)
    return [y.astype(x.dtype)]


def lp_pool(attributes: Attributes, operands: Operands, shapes: Sequence[Shape]) -> list[Array]:
    """LpPool: the p-norm of each window."""
    x = _given(operands)
    windows = _windows(attributes, x.shape[2:], shapes[0][2:])
    return [_length(x, attributes, lambda powers: _pooled(powers, windows, np.add, 0))]


def global_lp_pool(
    attributes: Attributes, operands: Operands, shapes: Sequence[Shape]
) -> list[Array]:
    """GlobalLpPool: the p-norm of each channel."""
    x = _given(operands)
    axes = tuple(range(2, x.ndim))
    return [_length(x, attributes, lambda powers: powers.sum(axes, keepdims=True))]


def global_max_pool(
    attributes: Attributes, operands: Operands, shapes: Sequence[Shape]
) -> list[Array]:
    """GlobalMaxPool over all dimensions after the channels; the reference takes two only."""
    x = _given(operands)
    return [x.max(tuple(range(2, x.ndim)), keepdims=True)]


def _length(x: Array, attributes: Attributes, add: Callable[[Array], Array]) -> Array:
    p = attributes.get("p", 2)
    wide = np.abs(x.astype(np.float32) if x.dtype == np.float16 else x)
    return np.asarray(add(wide**p) ** (1 / p)).astype(x.dtype)


def _given(operands: Operands) -> Array:
    assert operands[0] is not None
    return operands[0]


def _beside(row: Array, axis: int, rank: int) -> Array:
    return row.reshape([-1 if d == axis else 1 for d in range(rank)])
