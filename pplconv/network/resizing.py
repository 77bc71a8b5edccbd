"""Resize: sizes, coordinates and weights, in single precision as onnxruntime computes them.

The standard does not define the precision of sizes and coordinates. At ties, and where a product is
nearly an integer, the precision decides which pixel is read, and how many pixels there are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .._records import record
from .onnx_later import ir
from .values import is_constant

__all__ = [
    "MOST_TAPS",
    "OLD_ROUNDING",
    "Axis",
    "Taps",
    "axes_of",
    "axes_resized",
    "coordinates",
    "infer_resize",
    "taps",
    "unchanged",
    "word",
]

Array = npt.NDArray[Any]
Sizes = list[int | None]

MOST_TAPS = 1 << 23
"""Limit of a resized axis: output pixels times inputs of each."""

_SINGLE = np.float32
_HALF = np.float32(0.5)
# Coordinates within this distance of the middle between two pixels are ties.
_TIE = np.float32(1e-6)
_TAPS = {"nearest": 1, "linear": 2, "cubic": 4}
OLD_ROUNDING = "rounds_as_before_opset_11"
"""Attribute that marks nodes of older opsets; files cannot contain it."""
# Permitted values of each attribute; the first is the default.
_WORDS = {
    "mode": (*_TAPS,),
    "coordinate_transformation_mode": (
        "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
        "tf_half_pixel_for_nn", "tf_crop_and_resize",
    ),
    "nearest_mode": ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"),
    "keep_aspect_ratio_policy": ("stretch", "not_larger", "not_smaller"),
}  # fmt: skip


@record(frozen=True)
class Axis:
    """One dimension of a Resize.

    Parameters
    ----------
    inputs, outputs : int
        Its sizes.
    scale : float32
        Scale for the coordinates.
    """

    inputs: int
    outputs: int
    scale: np.float32


@record(frozen=True)
class Taps:
    """Inputs and weights of the outputs along one dimension.

    Parameters
    ----------
    at : ndarray of int64
        Shape (outputs, taps): indices of inputs.
    weights : ndarray of float64
        Of the same shape: the factor of each.
    outside : ndarray of bool
        Shape (outputs,): whether the output lies outside the image that a region is cut from.
    """

    at: Array
    weights: Array
    outside: Array


def word(attributes: Mapping[str, Any], name: str) -> str:
    """Give an attribute that is a word, or its default."""
    # Some files leave the rounding of other modes empty.
    return str(attributes.get(name) or _WORDS[name][0])


def axes_of(attributes: Mapping[str, Any], rank: int) -> list[int]:
    """Give the dimensions that scales, sizes and regions apply to."""
    given = [int(axis) for axis in attributes.get("axes") or range(rank)]
    if any(not -rank <= axis < rank for axis in given):
        raise ValueError(f"axes {given} of a tensor of {rank} dimensions")
    axes = [axis % rank for axis in given]
    if len(set(axes)) != len(axes):
        raise ValueError(f"axes {given} are not distinct")
    return axes


def _scaled(size: int, scale: np.float32) -> int:
    # No axis is longer than float32 can hold.
    wide = float(size) * float(scale)
    return int(_SINGLE(size) * scale) if wide < 1 << 62 else int(wide)


def _by_scales(x: Sizes, axes: list[int], given: Array) -> tuple[Sizes, list[np.float32 | None]]:
    shape, scales = list(x), [_SINGLE(1)] * len(x)
    for axis, scale in zip(axes, given, strict=True):
        if not 0 < scale < np.inf:
            raise ValueError(f"the scale {scale} is not above zero and finite")
        size = x[axis]
        scales[axis] = scale
        shape[axis] = None if size is None else _scaled(size, scale)
    return shape, [*scales]


def _by_sizes(
    x: Sizes, axes: list[int], given: Array, policy: str
) -> tuple[Sizes, list[np.float32 | None]]:
    shape: Sizes = list(x)
    scales: list[np.float32 | None] = [_SINGLE(1)] * len(x)
    for axis, wanted in zip(axes, given, strict=True):
        size = x[axis]
        if wanted < 1 and (wanted < 0 or size != 0):
            raise ValueError(f"the size {wanted} is not above zero")
        if size == 0 and wanted:
            raise ValueError(f"nothing is resized to {wanted}")
        shape[axis] = int(wanted)
        if size is None:
            scales[axis] = None
        elif size:
            scales[axis] = _SINGLE(wanted) / _SINGLE(size)
    if policy == "stretch":
        return shape, scales
    found = [scale for scale in (scales[axis] for axis in axes) if scale is not None]
    if len(found) < len(axes):
        for axis in axes:
            shape[axis] = scales[axis] = None
        return shape, scales
    one = min(found) if policy == "not_larger" else max(found)
    for axis in axes:
        scales[axis] = one
        size = x[axis]
        assert size is not None
        # Halves are rounded up.
        shape[axis] = math.floor(float(_SINGLE(size) * one) + 0.5)
    return shape, scales


def _resized(
    x: Sizes, scales: Array | None, sizes: Array | None, attributes: Mapping[str, Any]
) -> tuple[Sizes, list[np.float32 | None]]:
    """Give the shape of the result and the scale of each axis; unknown ones are None.

    Raises
    ------
    ValueError
        If scales or sizes do not fit the shape or one another.
    """
    axes = axes_of(attributes, len(x))
    scales, sizes = (None if g is None or not g.size else g.reshape(-1) for g in (scales, sizes))
    if (scales is None) == (sizes is None):
        raise ValueError("it needs either scales or sizes")
    for name in _WORDS:
        if word(attributes, name) not in _WORDS[name]:
            raise ValueError(f"the {name} {attributes[name]!r} is unknown")
    policy, mode = word(attributes, "keep_aspect_ratio_policy"), word(attributes, "mode")
    given: Any = scales if sizes is None else sizes
    if len(given) != len(axes):
        raise ValueError(f"{len(given)} scales or sizes for {len(axes)} axes")
    if scales is not None:
        if policy != "stretch":
            raise ValueError(f"scales contradict keep_aspect_ratio_policy {policy!r}")
        shape, found = _by_scales(x, axes, scales.astype(_SINGLE))
    else:
        shape, found = _by_sizes(x, axes, given, policy)
    for old, new in zip(x, shape, strict=True):
        if new is not None and new != old and new * _TAPS[mode] > MOST_TAPS:
            raise ValueError(
                f"an axis of {new} pixels: at most {MOST_TAPS // _TAPS[mode]} are supported"
            )
    return shape, found


def axes_resized(
    x: Sequence[int],
    scales: Array | None,
    sizes: Array | None,
    attributes: Mapping[str, Any],
) -> list[Axis]:
    """Describe the resizing of each dimension.

    Parameters
    ----------
    x : sequence of int
        Shape of the input.
    scales, sizes : ndarray or None
        The node's operands; an empty one counts as omitted.
    attributes : mapping
        Of the node.

    Returns
    -------
    list of Axis

    Raises
    ------
    ValueError
        If they contradict one another, or an axis is longer than `MOST_TAPS` allows.
    """
    shape, factors = _resized([int(size) for size in x], scales, sizes, attributes)
    same = list(shape) == list(x)
    found = []
    for inputs, outputs, scale in zip(x, shape, factors, strict=True):
        assert outputs is not None and scale is not None
        # An axis of unchanged length is copied, even if its scale is not exactly 1.
        found.append(Axis(int(inputs), outputs, _SINGLE(1) if same else scale))
    return found


def infer_resize(node: ir.Node) -> ir.Shape | None:
    """Infer the shape of a Resize.

    ONNX's inference rounds products down in double precision, and onnxruntime in single precision.

    Parameters
    ----------
    node : ir.Node
        A Resize of opset 11 or newer.

    Returns
    -------
    ir.Shape or None
        None if scales and sizes, or the number of dimensions, are not known.

    Raises
    ------
    ValueError
        As `axes_resized`.
    """
    x, _, scales, sizes = [*node.inputs, None, None, None][:4]
    if x is None or x.shape is None:
        return None
    given = []
    for value in (scales, sizes):
        if value is not None and not is_constant(value):
            return None
        given.append(None if value is None else value.const_value.numpy())
    attributes = {name: attribute.value for name, attribute in node.attributes.items()}
    old: Sizes = [size if isinstance(size, int) else None for size in x.shape]
    shape, _ = _resized(old, given[0], given[1], attributes)
    before = node.outputs[0].shape
    if before is None or len(before) != len(shape):
        return ir.Shape(shape)
    return ir.Shape([was if now is None else now for was, now in zip(before, shape, strict=True)])


def coordinates(axis: Axis, mode: str, region: tuple[Any, Any]) -> Array:
    """Compute input coordinates of the outputs, each step rounded to single precision."""
    o = np.arange(axis.outputs, dtype=_SINGLE)
    inputs, outputs = _SINGLE(axis.inputs), _SINGLE(axis.outputs)
    one = _SINGLE(1)
    if mode == "half_pixel" or (mode == "pytorch_half_pixel" and axis.outputs > 1):
        return (o + _HALF) / axis.scale - _HALF
    if mode == "pytorch_half_pixel":
        return np.zeros(axis.outputs, _SINGLE)
    if mode == "half_pixel_symmetric":
        offset = inputs / _SINGLE(2) * (one - outputs / (axis.scale * inputs))
        return (float(offset) + (o.astype(np.float64) + 0.5) / float(axis.scale) - 0.5).astype(
            _SINGLE
        )
    if mode == "asymmetric":
        return o / axis.scale
    if mode == "tf_half_pixel_for_nn":
        return (o + _HALF) / axis.scale
    if mode == "align_corners":
        return o * (inputs - one) / (outputs - one) if axis.outputs > 1 else o
    begin, end = (_SINGLE(number) for number in region)
    if axis.outputs > 1:
        return begin * (inputs - one) + o * (end - begin) * (inputs - one) / (outputs - one)
    middle = 0.5 * float(begin + end) * float(inputs - one)
    return np.full(axis.outputs, middle, _SINGLE)


def _nearest(x: Array, attributes: Mapping[str, Any], scale: np.float32) -> Array:
    mode = word(attributes, "nearest_mode")
    if attributes.get(OLD_ROUNDING, 0):
        mode = "floor" if scale >= 1 else "ceil"
    if mode == "floor":
        return np.floor(x)
    if mode == "ceil":
        return np.ceil(x)
    low = np.floor(x)
    ahead = x - low - _HALF
    return low + (ahead >= _TIE if mode == "round_prefer_floor" else ahead > -_TIE)


def taps(axis: Axis, attributes: Mapping[str, Any], region: tuple[Any, Any] = (0, 1)) -> Taps:
    """Compute inputs and weights of each output along one dimension.

    Parameters
    ----------
    axis : Axis
        The dimension.
    attributes : mapping
        Of the node.
    region : (float, float), optional
        Beginning and end of ``tf_crop_and_resize``'s region, as fractions of the input.

    Returns
    -------
    Taps
    """
    where, mode = word(attributes, "coordinate_transformation_mode"), word(attributes, "mode")
    crops = where == "tf_crop_and_resize"
    if axis.outputs * _TAPS[mode] > MOST_TAPS:
        raise ValueError(f"Resize of an axis of {axis.outputs} pixels is not supported")
    if axis.scale == 1 and axis.outputs == axis.inputs and not crops:
        return unchanged(axis.outputs)
    x = coordinates(axis, where, region)
    last = axis.inputs - 1
    outside = (x < 0) | (x > last) if crops else np.zeros(axis.outputs, bool)
    if mode == "nearest":
        at = _nearest(x, attributes, axis.scale)[:, None]
        return Taps(np.clip(at, 0, last).astype(np.int64), np.ones(at.shape), outside)
    x = x.astype(np.float64)
    excluded = bool(attributes.get("exclude_outside", 0))
    if mode == "linear":
        x = x if excluded else np.clip(x, 0, last)
        at = np.floor(x)[:, None] + np.arange(2)
        weights = 1 - np.abs(x[:, None] - at)
        # Both taps are the last pixel, which may be infinite.
        weights[at[:, 1] > last] = 0.5
    else:
        at = np.floor(x)[:, None] + np.arange(-1, 3)
        weights = _cubic(np.abs(at - x[:, None]), attributes.get("cubic_coeff_a", -0.75))
    if excluded:
        weights = np.where((at < 0) | (at > last), 0.0, weights)
        weights = weights / weights.sum(1, keepdims=True)
    return Taps(np.clip(at, 0, last).astype(np.int64), weights, outside)


def unchanged(size: int) -> Taps:
    """Give the taps of a dimension that is copied."""
    at = np.arange(size)[:, None]
    return Taps(at, np.ones(at.shape), np.zeros(size, bool))


def _cubic(d: Array, a: float) -> Array:
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))
