"""Products of integers with loops of their own: planned as in `QConv2d`."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ... import planner
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
from ..storage import Array, Shape, Step, Value, channels_last, constant_value, strides_of

NAMES = {
    np.dtype(np.uint8): "u8", np.dtype(np.int8): "s8", np.dtype(np.int16): "s16",
    np.dtype(np.int32): "s32", np.dtype(np.float32): "f32",
}  # fmt: skip
_PLAIN = Activation("none").epilogue


@dataclass(frozen=True)
class Product:
    """A convolution of integers.

    Parameters
    ----------
    weight : ndarray
        (oc, ic / groups, kh, kw), zero points subtracted.
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
    """

    weight: Array
    key: tuple[Any, ...]
    geometry: dict[str, Any]
    x_zero: int | Value
    store: Store
    kind: str
    types: str
    multiplier: Value | None = None


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
    problem = problem_of(builder, product, x.shape, x.dtype)
    plan, dense = builder.plan(problem, "auto", _PLAIN)
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
        (*product.key, problem.groups), f"{plan.packing} of {plan.numerics.weights}", prepared,
        product.weight,
    )  # fmt: skip
    store, x_zero = product.store, product.x_zero
    rescaling = Rescaling(
        prepared, product.weight, store.offset, None if isinstance(x_zero, Value) else x_zero,
        store.multiplier, store.zero, store.low, store.high, store.residual_scale,
        store.residual_zero, gate=store.gate, table=store.table,
    )  # fmt: skip
    offsets = _offsets(builder, rescaling, x_zero, nodes) if isinstance(x_zero, Value) else None
    flops = 2 * problem.k * problem.output_pixels * problem.oc * x.shape[0]
    builder.emit(Step(
        prepared,
        [read for read in (x, residual, offsets, product.multiplier) if read is not None], [y],
        {"x": x, "y": y, "residual": residual, "weights": weights, "rescaling": rescaling,
         "offsets": offsets, "multiplier": product.multiplier},
        product.kind, nodes, f"{product.types}, {plan.algorithm} {plan.kernel}, {problem}",
        flops=flops,
    ))  # fmt: skip


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
