"""Products of integers with loops of their own: planned as in `QConv2d`."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from ... import planner
from ..._records import record
from ...arguments import checks
from ...arguments.activation import Activation
from ...ops.placing import with_places
from ...ops.prepared import Prepared
from ...ops.quantized.pairs import product_permission
from ...ops.quantized.rescaling import Rescaling
from ...problem import ConvProblem
from ...schedules.zero_point_loops import ZeroPoint
from ..builder import Builder
from ..integers import Store
from ..kept_weights import packing_of
from ..storage import Array, Shape, Step, Value, channels_last, constant_value, strides_of

NAMES = {
    np.dtype(np.uint8): "u8", np.dtype(np.int8): "s8", np.dtype(np.int16): "s16",
    np.dtype(np.int32): "s32", np.dtype(np.float32): "f32",
}  # fmt: skip
_PLAIN = Activation("none").epilogue
_BYTE = np.iinfo(np.int8)
# To add the share of a zero point to a sum in L1.
SUM_CYCLES = 0.8


@record(frozen=True)
class Product:
    """A convolution of integers.

    Parameters
    ----------
    weight : ndarray
        (oc, ic / groups, kh, kw), less its zero points, except `weight_zeros`.
    key : tuple
        Identity of the weights: the object behind their constant, and the form of it.
    geometry : dict
        As of `operators.convolution.emit_convolution`.
    x_zero : int or Value
        Zero point of inputs, or where an earlier step writes it.
    store : Store
        Operations after the sums.
    kind : str
        Kind of step, for people.
    types : str
        Types of its arrays, for people.
    multiplier : Value, optional
        Where an earlier step writes the multiplier of the store, one for each channel.
    weight_zeros : ndarray of int32, optional
        Zero points that the weights keep, one for each channel: see `in_bytes`.
    """

    weight: Array
    key: tuple[Any, ...]
    geometry: dict[str, Any]
    x_zero: int | Value
    store: Store
    kind: str
    types: str
    multiplier: Value | None = None
    weight_zeros: Array | None = None


def problem_of(builder: Builder, product: Product, x: Shape, dtype: np.dtype[Any]) -> ConvProblem:
    """Describe a convolution of NHWC images of integers to the planner."""
    n, ic, h, w = x
    name = NAMES[dtype]
    groups = product.geometry["groups"]
    permitted = product_permission(name, product.weight, groups)
    problem = checks.make_problem(
        (n, h, w, ic), product.weight.shape, name, **product.geometry, layout="NHWC",
        permitted=permitted, sparsity=builder.sparsity(product.key, product.weight, groups),
    )  # fmt: skip
    return replace(problem, destination=NAMES[product.store.dtype])


def in_bytes(product: Product) -> Product | None:
    """Give the same product by weights of 8 bits, which keep zero points; None if it has them.

    Weights of 8 bits may need more once their zero points are subtracted. Then the loops multiply
    words, which takes twice as long where the CPU has instructions for bytes. But
    ``sum(x * (w - zero))`` is ``sum(x * w) - zero * sum(x)``.
    """
    weight = product.weight
    if weight.dtype == np.int8 or product.geometry["groups"] != 1 or not weight.size:
        return None
    rows = weight.reshape(len(weight), -1)
    least, most = rows.min(1).astype(np.int32), rows.max(1).astype(np.int32)
    if (most - least > _BYTE.max - _BYTE.min).any():
        return None
    # The zero point next to 0 with which a channel fits.
    zeros = np.clip(0, _BYTE.min - least, _BYTE.max - most)
    moved = (weight + zeros.astype(np.int16).reshape(-1, 1, 1, 1)).astype(np.int8)
    types = product.types.replace("x int16", "x int8 with zero points", 1)
    key = (*product.key, "bytes")
    return replace(product, weight=moved, key=key, types=types, weight_zeros=zeros)


def window_sums_of(product: Product) -> Product:
    """Describe the sums of the inputs of a product's windows: all weights are one."""
    weight = np.ones((1, *product.weight.shape[1:]), np.int8)
    store = Store(np.dtype(np.int32), np.zeros(1, np.int32), None, 0, -np.inf, np.inf, 0.0, 0)
    return Product(
        weight, (*product.key, "ones"), product.geometry, product.x_zero, store, "WindowSums",
        f"sums of {weight.size} inputs",
    )  # fmt: skip


def _faster(builder: Builder, product: Product, x: Value) -> Product:
    """Give the product, by weights that keep zero points where that is estimated to be faster."""
    narrow = in_bytes(product)
    if narrow is None:
        return product
    words, taken, ones = (
        builder.least_cycles(problem_of(builder, one, x.shape, x.dtype))
        for one in (product, narrow, window_sums_of(product))
    )
    problem = problem_of(builder, product, x.shape, x.dtype)
    sums = problem.output_pixels * x.shape[0] * problem.oc
    return narrow if taken + ones + SUM_CYCLES * sums < words else product


def emit_product(
    builder: Builder, product: Product, x: Value, residual: Value | None, y: Value, nodes: list[str]
) -> None:
    """Add the step of one convolution of integers.

    Parameters
    ----------
    builder : Builder
        Gets the step.
    product : Product
        The convolution.
    x, y : Value
        Images in NHWC.
    residual : Value or None
        Of the type of `y`.
    nodes : list of str
        Names of its nodes.
    """
    order = channels_last(4)
    if residual is not None and not residual.lies_as(y.strides):
        residual = builder.contiguous(residual, order)
        if not residual.lies_as(y.strides):
            whole = builder.new(y.shape, y.dtype, order)
            emit_product(builder, product, x, residual, whole, nodes)
            builder.copy(whole, y, nodes)
            return
    if y.lies_as(strides_of(y.shape, y.dtype.itemsize, order)):
        product = _faster(builder, product, x)
    problem = problem_of(builder, product, x.shape, x.dtype)
    plan, dense = builder.plan(problem, "auto", _PLAIN, product.key)
    fields = with_places(dense, x, y)
    if fields is None:
        tight = Value(x.shape, x.dtype, strides_of(x.shape, x.dtype.itemsize, order), x.buffer)
        if with_places(dense, tight, y) is not None:
            copied = builder.new(x.shape, x.dtype, order)
            builder.copy(x, copied, nodes)
            emit_product(builder, product, copied, residual, y, nodes)
            return
        whole = builder.new(y.shape, y.dtype, order)
        emit_product(builder, product, x, residual, whole, nodes)
        builder.copy(whole, y, nodes)
        return
    prepared = Prepared(problem, plan, fields, planner.share(builder.settings.threads))
    weights = builder.packed_once(
        (*product.key, problem.groups), packing_of(plan), prepared,
        product.weight,
    )  # fmt: skip
    store, x_zero = product.store, product.x_zero
    rescaling = Rescaling(
        prepared, product.weight, store.offset, None if isinstance(x_zero, Value) else x_zero,
        store.multiplier, store.zero, store.low, store.high, store.residual_scale,
        store.residual_zero, gate=store.gate, table=store.table, weight_zeros=product.weight_zeros,
    )  # fmt: skip
    window_sums = None
    if product.weight_zeros is not None:
        window_sums = _window_sums(builder, product, x, (y.shape[0], 1, *y.shape[2:]), nodes)
    offsets = _offsets(builder, rescaling, x_zero, nodes) if isinstance(x_zero, Value) else None
    flops = 2 * problem.k * problem.output_pixels * problem.oc * x.shape[0]
    builder.emit(Step(
        prepared,
        [read for read in (x, residual, offsets, product.multiplier, window_sums)
         if read is not None], [y],
        {"x": x, "y": y, "residual": residual, "weights": weights, "rescaling": rescaling,
         "offsets": offsets, "multiplier": product.multiplier, "window_sums": window_sums},
        product.kind, nodes, f"{product.types}, {plan.algorithm} {plan.kernel}, {problem}",
        flops=flops,
    ))  # fmt: skip


def _window_sums(
    builder: Builder, product: Product, x: Value, shape: Shape, nodes: list[str]
) -> Value:
    """Compute the sums of a product's windows, once for all products of an input."""
    zero = product.x_zero
    around = (id(zero.buffer), zero.offset, zero.advance) if isinstance(zero, Value) else zero
    windows = product.weight.shape[2:], str(sorted(product.geometry.items()))
    key = id(x.buffer), x.offset, x.advance, x.shape, x.strides, x.dtype, windows, around
    if key not in builder.relaid:
        sums = builder.new(shape, np.dtype(np.int32), channels_last(4))
        emit_product(builder, window_sums_of(product), x, None, sums, nodes)
        builder.relaid[key] = x, sums
    return builder.relaid[key][1]


def _offsets(builder: Builder, rescaling: Rescaling, zero: Value, nodes: list[str]) -> Value:
    """Compute what a computed zero point adds to sums."""
    assert rescaling.computed is not None
    base, slope = map(constant_value, rescaling.computed)
    offsets = builder.new(base.shape, base.dtype)
    builder.emit(Step(
        ZeroPoint(base.size, zero.dtype == np.int8), [zero], [offsets],
        {"arrays": [offsets, zero, base, slope]}, "ZeroPoint", nodes, f"{base.size} offsets",
    ))  # fmt: skip
    return offsets


def rows_as_images(value: Value, channels: int) -> Value:
    """View the rows of a product as the pixels of one image; the value has no gaps."""
    rows = math.prod(value.shape) // channels
    shape = (1, channels, 1, rows)
    return value.viewed(shape, strides_of(shape, value.dtype.itemsize, channels_last(4)))
