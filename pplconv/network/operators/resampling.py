"""Resize in Python, for any type and number of dimensions, and for regions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..antialiasing import filtered, is_smooth, wide_taps
from ..builder import Builder
from ..host_steps import host_step
from ..nodes import Graph, Node
from ..resizing import Axis, Taps, axes_of, taps, word
from ..storage import Array
from .window_steps import axes_of_resize


def serves_resize(node: Node, graph: Graph) -> bool:
    """Whether it is a Resize that needs no more than known scales, of a type that NumPy has."""
    if graph.dtypes[node.outputs[0]].isbuiltin != 1:
        return False
    if math.prod(graph.shapes[node.outputs[0]]) == 0:
        return False
    return axes_of_resize(node, graph) is not None


def lower_resize(node: Node, builder: Builder, graph: Graph) -> None:
    """Resize in Python: any type, dimensions and region."""
    axes = axes_of_resize(node, graph)
    assert axes is not None
    name = node.outputs[0]
    roi = [*node.inputs, ""][1]
    names = [node.inputs[0], *([roi] if roi else [])]

    def function(x: Array, region: Array = np.zeros(0)) -> list[Array]:  # noqa: B008
        return [_resize(x, axes, node.attributes, region)]

    y = builder.new(graph.shapes[name], graph.dtypes[name])
    reads = [builder.values[each] for each in names]
    builder.emit(host_step("Resize", function, reads, [y], [name]))
    builder.deliver(name, y)


def region_of(node: Node, graph: Graph) -> Array | None:
    """Give the region of a node, empty where it has none; None if it is computed."""
    name = [*node.inputs, ""][1]
    if not name or not _crops(node.attributes):
        return np.zeros(0)
    return graph.constants.get(name)


def _crops(attributes: Mapping[str, Any]) -> bool:
    return word(attributes, "coordinate_transformation_mode") == "tf_crop_and_resize"


def changed_axes(
    axes: Sequence[Axis], attributes: Mapping[str, Any], roi: Array, dtype: np.dtype[Any]
) -> dict[int, Taps]:
    """Give the taps of each axis that is not copied.

    Parameters
    ----------
    axes : sequence of Axis
        Resizing of each dimension.
    attributes : mapping
        Of the node.
    roi : ndarray
        The node's region for ``tf_crop_and_resize``; empty if it has none.
    dtype : numpy.dtype
        Of the array.
    """
    regions = _regions(attributes, len(axes), roi)
    smooth = is_smooth(attributes)
    found = {
        d: (wide_taps if smooth else taps)(axis, attributes, regions[d])
        for d, axis in enumerate(axes)
        # An antialiased axis that keeps its size is copied for any scale, as in onnxruntime.
        if _crops(attributes) or axis.inputs != axis.outputs or (axis.scale != 1 and not smooth)
    }
    changed = {d: each for d, each in found.items() if not _is_copied(each, axes[d])}
    if changed and word(attributes, "mode") == "linear" and not smooth and dtype.kind in "iu":
        # The order of summation decides which sums fall just below an integer.
        for d in range(len(axes) - (2 if len(axes) % 2 == 0 else 3), len(axes)):
            if d >= 0 and d not in changed:
                changed[d] = _pairs(axes[d].outputs)
    return dict(sorted(changed.items()))


def _is_copied(found: Taps, axis: Axis) -> bool:
    """Whether each output is the input at its own place."""
    if axis.inputs != axis.outputs or found.outside.any():
        return False
    own = found.at == np.arange(axis.outputs)[:, None]
    return bool(
        (np.where(own, found.weights, 0).sum(1) == 1).all() and (own | (found.weights == 0)).all()
    )


def _resize(x: Array, axes: Sequence[Axis], attributes: Mapping[str, Any], roi: Array) -> Array:
    """Resize an array of any type and number of dimensions.

    Parameters
    ----------
    x : ndarray
        The array.
    axes : sequence of Axis
        Resizing of each dimension.
    attributes : mapping
        Of the node.
    roi : ndarray
        The node's region for ``tf_crop_and_resize``.

    Returns
    -------
    ndarray
        Sums are made in single precision, and in double precision of such numbers; those of
        integers are rounded toward zero, as onnxruntime does.
    """
    changed = changed_axes(axes, attributes, roi, x.dtype)
    mode = word(attributes, "mode")
    smooth = is_smooth(attributes)
    if mode == "nearest":
        y = x
        for d, found in changed.items():
            y = y.take(found.at[:, 0], d)
    elif smooth:
        y = x
        for d, found in reversed(changed.items()):
            y = filtered(y, d, found)
    else:
        y = _weighted(x, [axis.outputs for axis in axes], changed)
    if any(found.outside.any() for found in changed.values()):
        y = y.copy()
        for d, found in changed.items():
            y[(slice(None),) * d + (found.outside,)] = attributes.get("extrapolation_value", 0.0)
    return y


def _weighted(x: Array, shape: list[int], changed: Mapping[int, Taps]) -> Array:
    work = np.dtype(np.float64) if x.dtype == np.float64 else np.dtype(np.float32)
    sums = np.zeros(shape, work)
    for chosen in itertools.product(*(range(t.at.shape[1]) for t in changed.values())):
        part = x.astype(work, copy=False)
        weight: Array = np.ones((), work)
        for (d, found), tap in reversed(list(zip(changed.items(), chosen, strict=True))):
            part = part.take(found.at[:, tap], d)
            own = found.weights[:, tap].astype(work)
            weight = weight * own.reshape(-1, *(1,) * (len(shape) - 1 - d))
        sums += weight * part
    return sums.astype(x.dtype)


def _pairs(size: int) -> Taps:
    """Give an unchanged axis two taps a pixel, as onnxruntime does beside a resized one."""
    at = np.arange(size)[:, None] + np.arange(2)
    weights = np.where(at[:, 1:] < size, (1.0, 0.0), 0.5)
    return Taps(np.minimum(at, size - 1), weights, np.zeros(size, bool))


def _regions(attributes: Mapping[str, Any], rank: int, roi: Array) -> list[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = [(0.0, 1.0)] * rank
    if roi.size:
        axes = axes_of(attributes, rank)
        flat = roi.reshape(2, -1)
        for axis, begin, end in zip(axes, *flat, strict=True):
            found[axis] = (begin, end)
    return found
