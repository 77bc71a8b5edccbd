"""Operators in terms of others: functions of a `GraphBuilder` and a node, for rows of `table`.

They give the value that replaces the node's output, or None if the node stays. Shapes and types of
the new values are inferred afterwards.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..channel_affine import batch_normalization, finite
from ..onnx_later import ir
from ..opset_changes import PER_GROUP
from ..values import (
    FLOATS,
    HALVES,
    attribute_int,
    attribute_ints,
    attribute_string,
    constant,
    is_constant,
    rank,
    static_shape,
)

__all__ = [
    "Numbers", "batch_norm", "cast_like", "depth_to_space", "global_lp_pool", "group_norm",
    "in_pairs", "instance_norm", "local_response_norm", "lp_normalization", "lp_pool",
    "mean_variance",
    "reduction_of_programs", "rms_norm", "space_to_depth",
]  # fmt: skip


class Numbers:
    """Makes constants for the nodes that replace a node.

    Parameters
    ----------
    op : object
        For the new nodes.
    node : ir.Node
        The node.
    dtype : ir.DataType, optional
        The computed type, if it is known.
    """

    def __init__(self, op: Any, node: ir.Node, dtype: ir.DataType | None = None) -> None:
        self._op, self._name, self._dtype = op, node.outputs[0].name or "y", dtype
        self._count = 0

    def _made(self, array: Any) -> Any:
        self._count += 1
        return self._op.initializer(ir.Tensor(array), name=f"{self._name}_piece_{self._count}")

    def integer(self, number: int) -> Any:
        """One integer, without dimensions."""
        return self._made(np.array(number, np.int64))

    def integers(self, *numbers: int) -> Any:
        """A row of integers."""
        return self._made(np.array(numbers, np.int64))

    def number(self, number: float) -> Any:
        """One number of the computed type."""
        return self.array(np.array(number))

    def like(self, number: float, value: Any) -> Any:
        """One number of the type of a value, which need not be known yet."""
        return self._op.CastLike(self._made(np.array(number, np.float32)), value)

    def of_channels(self, value: Any, axes: int) -> Any:
        """Numbers of channels, which broadcast with arrays of so many axes."""
        shape = (-1, *(1,) * (axes - 2))
        known = constant(value)
        if known is not None:
            return self.array(known.reshape(shape))
        return self._op.Reshape(value, self.integers(*shape))

    def array(self, array: Any) -> Any:
        """Numbers of the computed type."""
        assert self._dtype is not None
        return self._made(array.astype(self._dtype.numpy()))


def cast_like(op: Any, node: ir.Node) -> Any:
    """CastLike: a Cast, once the type is known."""
    x, like = node.inputs
    if like.dtype is None:
        return None
    return op.Cast(
        x, to=int(like.dtype), saturate=attribute_int(node, "saturate", 1),
        round_mode=attribute_string(node, "round_mode", "up"),
    )  # fmt: skip


def _computed(x: ir.Value) -> ir.DataType | None:
    """Type for the squares of a value, if known: half precision would overflow."""
    return ir.DataType.FLOAT if x.dtype in HALVES else x.dtype


def group_norm(op: Any, node: ir.Node) -> Any:
    """GroupNormalization: means of channels, then means of those over each group.

    Images keep their layout, and everything around the means is one pass over memory.
    """
    x, scale, offset = node.inputs
    epsilon = node.attributes.get_float("epsilon", 1e-5)
    groups = attribute_int(node, "num_groups", 0)
    inner = _computed(x)
    if groups < 1 or inner is None:
        return None
    numbers = Numbers(op, node, inner)
    if inner != node.inputs[0].dtype:
        x, scale, offset = (op.Cast(value, to=inner) for value in (x, scale, offset))
    # Spatial axes of images whose rank is not known yet: dimensions from the third one on.
    pixels = op.Range(numbers.integer(2), op.Size(op.Shape(x)), numbers.integer(1))

    means = op.ReduceMean(x, pixels, keepdims=1, noop_with_empty_axes=1)
    parted = op.Reshape(means, numbers.integers(0, groups, -1))

    def of_channels(of_groups: Any) -> Any:
        return op.Reshape(op.Expand(of_groups, op.Shape(parted)), op.Shape(means))

    def mean(each: Any) -> Any:
        parts = op.Reshape(each, numbers.integers(0, groups, -1))
        return of_channels(op.ReduceMean(parts, numbers.integers(-1), keepdims=1))

    def beside(weights: Any) -> Any:
        if attribute_int(node, PER_GROUP, 0):
            return of_channels(op.Reshape(weights, numbers.integers(1, groups, 1)))
        ones = op.Expand(numbers.integers(1), op.Shape(pixels))
        return op.Reshape(weights, op.Concat(numbers.integers(-1), ones, axis=0))

    centred = op.Sub(x, mean(means))
    squares = op.Mul(centred, centred)
    variance = mean(op.ReduceMean(squares, pixels, keepdims=1, noop_with_empty_axes=1))
    root = op.Sqrt(op.Add(variance, numbers.number(epsilon)))
    factor = op.Div(beside(scale), root)
    result = op.Add(op.Mul(centred, factor), beside(offset))
    return _as_before(op, result, node)


def _as_before(op: Any, result: Any, node: ir.Node) -> Any:
    """Give a result in the type of a node's input."""
    (x, *_) = node.inputs
    return result if x.dtype not in HALVES else op.Cast(result, to=x.dtype)


def mean_variance(op: Any, node: ir.Node) -> Any:
    """MeanVarianceNormalization: ``(x - mean) / (deviation + 1e-9)``."""
    (x,) = node.inputs
    inner = _computed(x)
    if inner is None:
        return None
    numbers = Numbers(op, node, inner)
    if inner != x.dtype:
        x = op.Cast(x, to=inner)
    axes = numbers.integers(*attribute_ints(node, "axes", (0, 2, 3)))
    centred = op.Sub(x, op.ReduceMean(x, axes, keepdims=1))
    root = op.Sqrt(op.ReduceMean(op.Mul(centred, centred), axes, keepdims=1))
    return _as_before(op, op.Div(centred, op.Add(root, numbers.number(1e-9))), node)


def rms_norm(op: Any, node: ir.Node) -> Any:
    """RMSNormalization: by the root of the mean square of the last axes, times a scale."""
    x, scale = node.inputs
    axes, inner = rank(x), _computed(x)
    axis = attribute_int(node, "axis", -1)
    if axes is None or inner not in FLOATS:
        return None
    numbers = Numbers(op, node, inner)
    wide = op.Cast(x, to=inner) if inner != x.dtype else x
    last = numbers.integers(*range(axis % axes, axes))
    squares = op.ReduceMean(op.Mul(wide, wide), last, keepdims=1)
    epsilon = numbers.number(node.attributes.get_float("epsilon", 1e-5))
    normal = op.Div(wide, op.Sqrt(op.Add(squares, epsilon)))
    return op.Mul(_as_before(op, normal, node), scale)


def instance_norm(op: Any, node: ir.Node) -> Any:
    """InstanceNormalization: LayerNormalization of each channel's pixels, a scale, an offset."""
    x, scale, offset = node.inputs
    axes = rank(x)
    if axes is None or axes < 3 or x.dtype not in FLOATS:
        return None
    if not scale.dtype == offset.dtype == x.dtype or not rank(scale) == rank(offset) == 1:
        return None
    numbers = Numbers(op, node, x.dtype)
    small = node.attributes.get_float("epsilon", 1e-5)
    normal = op.LayerNormalization(x, numbers.number(1), axis=2, epsilon=small, stash_type=1)
    product = op.Mul(normal, numbers.of_channels(scale, axes))
    return op.Add(product, numbers.of_channels(offset, axes))


def batch_norm(op: Any, node: ir.Node) -> Any:
    """BatchNormalization in inference: a product and a sum, where its numbers are known."""
    (x, *_) = node.inputs
    axes, affine = rank(x), batch_normalization(node)
    if axes is None or axes < 2 or x.dtype not in FLOATS:
        return None
    numbers = Numbers(op, node, x.dtype)
    if affine is None:
        return _computed_batch_norm(op, node, numbers, axes)
    shape = (affine.scale.size, *(1,) * (axes - 2))
    with np.errstate(all="ignore"):
        scale, offset = (part.astype(x.dtype.numpy()).reshape(shape) for part in affine)
    if not finite(scale, offset):
        return None
    product = op.Mul(x, numbers.array(scale))
    product.type, product.shape = x.type, x.shape
    return op.Add(product, numbers.array(offset))


def _computed_batch_norm(op: Any, node: ir.Node, numbers: Numbers, axes: int) -> Any:
    """BatchNormalization by computed numbers: one element-wise pass."""
    x, *parts = node.inputs
    if attribute_int(node, "training_mode", 0) or any(rank(part) != 1 for part in parts):
        return None
    if any(part.dtype not in FLOATS for part in parts) or all(map(is_constant, parts)):
        return None

    def of(part: ir.Value) -> Any:
        same = part if part.dtype == x.dtype else op.Cast(part, to=int(x.dtype))
        return numbers.of_channels(same, axes)

    scale, offset, mean, variance = map(of, parts)
    small = numbers.number(node.attributes.get_float("epsilon", 1e-5))
    factor = op.Div(scale, op.Sqrt(op.Add(variance, small)))
    return op.Add(op.Mul(op.Sub(x, mean), factor), offset)


def in_pairs(op: Any, node: ir.Node) -> Any:
    """Sum, Mean, Min and Max of one operand, or of more than two, by operators of two."""
    inputs, mean = node.inputs, node.op_type == "Mean"
    if node.op_type in ("Min", "Max") and len(inputs) == 2:
        return None
    if mean and (inputs[0].dtype is None or not inputs[0].dtype.is_floating_point()):
        return None
    step = "Add" if node.op_type in ("Sum", "Mean") else node.op_type
    total: Any = inputs[0]
    for index, value in enumerate(inputs[1:], 2):
        left = total
        total = getattr(op, step)(left, value)
        if index < len(inputs) or mean:
            total.type, total.shape = inputs[0].type, _broadcast(left, value)
    if mean and len(inputs) > 1:
        total = op.Mul(total, Numbers(op, node, inputs[0].dtype).number(1 / len(inputs)))
    return total


def _broadcast(left: ir.Value, right: ir.Value) -> ir.Shape | None:
    first, second = static_shape(left), static_shape(right)
    if first is None or second is None:
        return None
    return ir.Shape(np.broadcast_shapes(first, second))


def local_response_norm(op: Any, node: ir.Node) -> Any:
    """LRN: channels become pixels of a column, whose squares an AveragePool averages.

    Krizhevsky, Sutskever and Hinton, "ImageNet Classification with Deep Convolutional Neural
    Networks" (2012), section 3.3.
    """
    (x,) = node.inputs
    shape, inner = static_shape(x), _computed(x)
    if shape is None or not math.prod(shape) or inner not in FLOATS:
        return None
    numbers = Numbers(op, node, inner)
    if inner != x.dtype:
        x = op.Cast(x, to=inner)
    n, channels, *pixels = shape
    size = attribute_int(node, "size", 1)
    column = numbers.integers(n, 1, channels, math.prod(pixels))
    means = op.AveragePool(
        op.Reshape(op.Mul(x, x), column), kernel_shape=[size, 1], strides=[1, 1],
        pads=[(size - 1) // 2, 0, size // 2, 0], count_include_pad=1,
    )  # fmt: skip
    alpha, beta, bias = (
        numbers.number(node.attributes.get_float(name, default))
        for name, default in (("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0))
    )
    base = op.Add(op.Mul(op.Reshape(means, numbers.integers(*shape)), alpha), bias)
    return _as_before(op, op.Div(x, op.Pow(base, beta)), node)


def _power(op: Any, numbers: Numbers, x: Any, exponent: float) -> Any:
    """Write ``abs(x) ** exponent`` for norms; a number that is not negative needs no abs."""
    if exponent == 2:
        return op.Mul(x, x)
    magnitude = op.Abs(x)
    return magnitude if exponent == 1 else op.Pow(magnitude, numbers.number(exponent))


def _root(op: Any, numbers: Numbers, x: Any, exponent: float) -> Any:
    if exponent == 2:
        return op.Sqrt(x)
    return x if exponent == 1 else op.Pow(x, numbers.number(1 / exponent))


def lp_pool(op: Any, node: ir.Node) -> Any:
    """LpPool: AveragePool of powers, times the number of places, and the root of that."""
    (x,) = node.inputs
    kernel, inner = attribute_ints(node, "kernel_shape", ()), _computed(x)
    p = attribute_int(node, "p", 2)
    if p < 1 or inner not in FLOATS or not kernel:
        return None
    # The divisors of windows that are cut off would differ.
    pads = _whole_windows(node, kernel)
    if pads is None:
        return None
    windows = {
        name: value for name, value in node.attributes.items() if name not in ("p", "ceil_mode")
    }
    windows["pads"] = ir.AttrInt64s("pads", pads)
    # Pow of float16 would overflow.
    numbers = Numbers(op, node, inner)
    if inner != x.dtype:
        x = op.Cast(x, to=inner)
    means = op.AveragePool(_power(op, numbers, x, p), count_include_pad=1, **windows)
    sums = op.Mul(means, numbers.number(math.prod(kernel)))
    return _as_before(op, _root(op, numbers, sums, p), node)


def _whole_windows(node: ir.Node, kernel: tuple[int, ...]) -> list[int] | None:
    """Give pads that no window of a pool reaches beyond; None while shapes are unknown."""
    x, y = static_shape(node.inputs[0]), static_shape(node.outputs[0])
    if x is None or y is None or attribute_string(node, "auto_pad", "NOTSET") != "NOTSET":
        return None
    axes = len(kernel)
    strides = attribute_ints(node, "strides", ()) or (1,) * axes
    dilations = attribute_ints(node, "dilations", ()) or (1,) * axes
    pads = list(attribute_ints(node, "pads", ()) or (0,) * 2 * axes)
    for d in range(axes):
        end = (y[2 + d] - 1) * strides[d] + (kernel[d] - 1) * dilations[d] + 1
        pads[axes + d] = max(pads[axes + d], end - x[2 + d] - pads[d])
    return pads


def lp_normalization(op: Any, node: ir.Node) -> Any:
    """LpNormalization: by a sum of absolute values, or by the root of one of squares."""
    (x,) = node.inputs
    inner, p = _computed(x), attribute_int(node, "p", 2)
    if inner not in FLOATS or p not in (1, 2):
        return None
    numbers = Numbers(op, node, inner)
    if inner != x.dtype:
        x = op.Cast(x, to=inner)
    axis = numbers.integers(attribute_int(node, "axis", -1))
    if p == 1:
        length = op.ReduceSum(op.Abs(x), axis, keepdims=1)
    else:
        length = op.ReduceL2(x, axis, keepdims=1)
    # Zeros stay zeros.
    zero = numbers.number(0)
    nothing = op.Equal(length, zero)
    return _as_before(op, op.Where(nothing, zero, op.Div(x, length)), node)


def global_lp_pool(op: Any, node: ir.Node) -> Any:
    """GlobalLpPool: the root of a sum of powers over all pixels."""
    (x,) = node.inputs
    axes, inner, p = rank(x), _computed(x), attribute_int(node, "p", 2)
    if axes is None or axes < 3 or inner not in FLOATS or p < 1:
        return None
    numbers = Numbers(op, node, inner)
    if inner != x.dtype:
        x = op.Cast(x, to=inner)
    pixels = numbers.integers(*range(2, axes))
    sums = op.ReduceSum(_power(op, numbers, x, p), pixels, keepdims=1)
    return _as_before(op, _root(op, numbers, sums, p), node)


def reduction_of_programs(op: Any, node: ir.Node) -> Any:
    """ReduceL1, ReduceLogSum and ReduceLogSumExp: other reductions between element-wise steps."""
    x, *more = node.inputs
    axes = constant(more[0]) if more else None
    listed = more and (axes is None or not axes.size)
    if x.dtype not in (ir.DataType.FLOAT, ir.DataType.DOUBLE):
        return None
    if listed and attribute_int(node, "noop_with_empty_axes", 0):
        return None

    def reduced(operator: str, value: Any, keep: int) -> Any:
        return getattr(op, operator)(value, *more, keepdims=keep)

    keep = attribute_int(node, "keepdims", 1)
    if node.op_type == "ReduceL1":
        return reduced("ReduceSum", op.Abs(x), keep)
    if node.op_type == "ReduceLogSum":
        return op.Log(reduced("ReduceSum", x, keep))
    numbers = Numbers(op, node, x.dtype)
    limits = np.finfo(x.dtype.numpy())
    # Infinity less infinity would be NaN.
    ends = [numbers.number(float(limit)) for limit in (limits.min, limits.max)]
    base, added = (op.Clip(reduced("ReduceMax", x, kept), *ends) for kept in (1, keep))
    return op.Add(op.Log(reduced("ReduceSum", op.Exp(op.Sub(x, base)), keep)), added)


def depth_to_space(op: Any, node: ir.Node) -> Any:
    """DepthToSpace of integers: Reshape, Transpose, Reshape; loops copy floating point at once."""
    (x,) = node.inputs
    shape, size = static_shape(x), attribute_int(node, "blocksize", 1)
    if shape is None or x.dtype is None or x.dtype in FLOATS:
        return None
    n, channels, h, w = shape
    numbers = Numbers(op, node, x.dtype)
    if attribute_string(node, "mode", "DCR") == "DCR":
        parts, order = (n, size, size, channels // size**2, h, w), (0, 3, 4, 1, 5, 2)
    else:
        parts, order = (n, channels // size**2, size, size, h, w), (0, 1, 4, 2, 5, 3)
    blocks = op.Transpose(op.Reshape(x, numbers.integers(*parts), allowzero=1), perm=order)
    whole = numbers.integers(n, channels // size**2, h * size, w * size)
    return op.Reshape(blocks, whole, allowzero=1)


def space_to_depth(op: Any, node: ir.Node) -> Any:
    """SpaceToDepth of integers: Reshape, Transpose, Reshape."""
    (x,) = node.inputs
    shape, size = static_shape(x), attribute_int(node, "blocksize", 1)
    if shape is None or x.dtype is None or x.dtype in FLOATS:
        return None
    n, channels, h, w = shape
    numbers = Numbers(op, node, x.dtype)
    if attribute_string(node, "mode", "DCR") == "DCR":
        order = (0, 3, 5, 1, 2, 4)
    else:
        order = (0, 1, 3, 5, 2, 4)
    parts = numbers.integers(n, channels, h // size, size, w // size, size)
    blocks = op.Transpose(op.Reshape(x, parts, allowzero=1), perm=order)
    whole = numbers.integers(n, channels * size**2, h // size, w // size)
    return op.Reshape(blocks, whole, allowzero=1)
