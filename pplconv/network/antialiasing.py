"""Resize with antialiasing: the filter covers all inputs of an output pixel.

Each step is rounded to single precision, as onnxruntime computes it. ONNX's reference differs from
it in several ``coordinate_transformation_mode`` values, and for images narrower than the filter.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .resizing import MOST_TAPS, Axis, Taps, coordinates, word
from .storage import Array

__all__ = ["FRACTION_BITS", "every_tap_counts", "filtered", "is_smooth", "rounded", "wide_taps"]

_SINGLE = np.float32
_HALF = np.float32(0.5)
# How far a filter reaches to either side.
_REACH = {"linear": 1, "cubic": 2}
# Outputs are computed one by one if taps exceed outputs by this factor.
_FEW = 64
# Fractional bits of the weights of eight-bit integers.
FRACTION_BITS = 22


def is_smooth(attributes: Mapping[str, Any]) -> bool:
    """Whether a Resize filters: repeated pixels are not filtered."""
    return word(attributes, "mode") != "nearest" and bool(attributes.get("antialias", 0))


def wide_taps(axis: Axis, attributes: Mapping[str, Any], region: tuple[Any, Any]) -> Taps:
    """Compute inputs and weights of each output along one dimension.

    Parameters
    ----------
    axis : Axis
        The dimension.
    attributes : mapping
        Of the node; its mode is linear or cubic.
    region : (float, float)
        Beginning and end of ``tf_crop_and_resize``'s region, as fractions of the input.

    Returns
    -------
    Taps
        Inputs beyond the border are the border's, or left out with ``exclude_outside``.

    Raises
    ------
    ValueError
        If the filter is too wide for so many outputs.
    """
    mode, where = word(attributes, "mode"), word(attributes, "coordinate_transformation_mode")
    step = _SINGLE(1) / axis.scale
    stretch = max(step, _SINGLE(1))
    reach = _SINGLE(_REACH[mode]) * stretch
    width = 2 * int(np.ceil(reach)) + 1
    if axis.outputs * width > MOST_TAPS:
        raise ValueError(
            f"Resize of {axis.inputs} pixels to {axis.outputs} with antialias is not supported"
        )
    x = coordinates(axis, where, region)
    center = _HALF + x
    first = np.floor(center - reach + _HALF)[:, None]
    at = first + np.arange(width, dtype=_SINGLE)
    distance = np.abs((at - center[:, None] + _HALF) * (_SINGLE(1) / stretch))
    if mode == "linear":
        weights = np.maximum(_SINGLE(1) - distance, _SINGLE(0))
    else:
        weights = _cubic(distance, _SINGLE(attributes.get("cubic_coeff_a", -0.75)))
    weights[at >= np.floor(center + reach + _HALF)[:, None]] = 0
    last = axis.inputs - 1
    if attributes.get("exclude_outside", 0):
        weights[(at < 0) | (at > last)] = 0
    # A cumulative sum rounds after each addition, as onnxruntime does.
    total = np.cumsum(weights, 1)[:, -1:]
    at, weights = _clipped(at, weights, last)
    weights = weights * (_SINGLE(1) / np.where(total == 0, _SINGLE(1), total))
    outside = (x < 0) | (x > last) if where == "tf_crop_and_resize" else np.zeros(len(x), bool)
    return Taps(at, weights.astype(np.float64), outside)


def every_tap_counts(found: Taps) -> Taps:
    """Give taps without weights of zero, which would make NaN of an infinite input.

    Each such tap takes half of the weight of another one, the largest first, and reads the same
    input.
    """
    order = np.argsort(-np.abs(found.weights), axis=1, kind="stable")
    at, weights = (np.take_along_axis(each, order, 1) for each in (found.at, found.weights))
    columns = np.arange(at.shape[1])
    counted = np.maximum((weights != 0).sum(1, keepdims=True), 1)
    while (counted < at.shape[1]).any():
        row, empty = np.nonzero((columns >= counted) & (columns < 2 * counted))
        other = empty - counted[row, 0]
        weights[row, other] /= 2
        weights[row, empty], at[row, empty] = weights[row, other], at[row, other]
        counted = np.minimum(2 * counted, at.shape[1])
    back = np.argsort(order, axis=1, kind="stable")
    at, weights = (np.take_along_axis(each, back, 1) for each in (at, weights))
    return Taps(at, weights, found.outside)


def _cubic(d: Array, a: np.float32) -> Array:
    """Give the weights of a cubic filter; the order of steps is onnxruntime's."""
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = (((d - 5) * d + 8) * d - 4) * a
    return np.where(d < 1, near, np.where(d < 2, far, _SINGLE(0)))


def _clipped(at: Array, weights: Array, last: int) -> tuple[Array, Array]:
    """Add the weights of inputs beyond the border to the border's input."""
    inside = np.clip(at, 0, last).astype(np.int64)
    first = inside[:, :1]
    columns = np.minimum(first + np.arange(at.shape[1]), last)
    folded = np.zeros_like(weights)
    rows, beyond = np.arange(len(at))[:, None], at != inside
    # From left to right, the inputs beyond the border last: the order decides the rounding.
    for part in (np.where(beyond, 0, weights), np.where(beyond, weights, 0)):
        np.add.at(folded, (rows, inside - first), part)
    return columns, folded


def filtered(x: Array, axis: int, taps: Taps) -> Array:
    """Filter one dimension of an array.

    Parameters
    ----------
    x : ndarray
        The array.
    axis : int
        Dimension to filter.
    taps : Taps
        Inputs and weights of its outputs.

    Returns
    -------
    ndarray
        Of the same type; integers are rounded, halves of eight-bit ones upward.
    """
    bytewise = x.dtype.kind in "iu" and x.dtype.itemsize == 1
    single = x.dtype in (np.float16, np.float32, np.int32)
    work = np.dtype(np.int64 if bytewise else np.float32 if single else np.float64)
    weights = (rounded(taps.weights * (1 << FRACTION_BITS)) if bytewise else taps.weights).astype(
        work
    )
    sums = np.zeros((*x.shape[:axis], len(taps.at), *x.shape[axis + 1 :]), work)
    before: list[Any] = [slice(None)] * axis
    if len(weights) * _FEW < weights.shape[1]:
        for output, (at, weight) in enumerate(zip(taps.at, weights, strict=True)):
            seen = np.flatnonzero(weight)
            part = np.moveaxis(x.take(at[seen], axis), axis, -1).astype(work, copy=False)
            sums[(*before, output)] = part @ weight[seen]
    else:
        for tap in np.flatnonzero(weights.any(0)):
            weight = weights[:, tap].reshape(-1, *(1,) * (x.ndim - 1 - axis))
            # Zero times infinity would be NaN; onnxruntime has no tap there.
            part = x.take(taps.at[:, tap], axis).astype(work, copy=False)
            sums += np.where(weight == 0, 0, weight * part)
    if bytewise:
        sums = (sums + (1 << (FRACTION_BITS - 1))) >> FRACTION_BITS
    elif x.dtype.kind in "iu":
        sums = rounded(sums)
    if x.dtype.kind in "iu":
        bounds = np.iinfo(x.dtype)
        sums = np.clip(sums, bounds.min, bounds.max)
    return sums.astype(x.dtype)


def rounded(x: Array) -> Array:
    """Round to integers, halves away from zero."""
    return np.asarray(np.trunc(x + np.copysign(0.5, x)))
