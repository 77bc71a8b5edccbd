"""The fused nodes of integers: their meaning and construction.

``pplconv::QuantizedConv``, ``pplconv::QuantizedConvTranspose`` and ``pplconv::QuantizedLinear``
take six inputs; the last two are optional::

    X, W, offset, multiplier, residual, zero

and compute, with ``product`` a convolution or a product of matrices ::

    y = (product(X, W) + offset) * multiplier + (residual - residual_zero) * residual_scale
    y = y * min(max(y * slope + middle, 0), 1) + shift    (if gate is 1)
    y = min(max(y, low), high)

X is uint8 or int8. W is int8 or int16, its zero points subtracted, as ONNX's Conv has it, or (K, N)
of a Linear, (N, K) with ``transB``. ``offset`` is int32 and counts what ``x_zero`` adds to a sum;
padding is ``x_zero``. ``zero`` is a zero point of X that the network computes: then ``x_zero`` is
0, and the loops compute what the zero point adds. ``multiplier`` is one float64 a channel, which is
rounded to float32 when the loops are made; or it is computed, float32, one a channel or one for
all; of int32 outputs it is left out. The output is

=========  ========================================================================================
uint8      y rounded to the nearest integer, ties to even, plus ``y_zero``, saturated; all in units
int8       of the output's scale
float32    y
int32      the sum plus ``offset``
=========  ========================================================================================

``residual`` is uint8 or int8, as the output is if that is one of them. Besides ``x_zero``,
``y_zero``, ``residual_zero``, ``low``, ``high`` and ``residual_scale`` a convolution has ONNX's
attributes, padding in numbers. With a gate, for HardSwish, there is no residual; a transposed
convolution never has one, nor a computed ``zero``. Its W is that of ONNX's ConvTranspose.

``pplconv::QuantizedAdd`` takes A and B of one shape: ``(A - a_zero) * a_scale + (B - b_zero) *
b_scale``, clamped, rounded and stored likewise. ``pplconv::QuantizedAverage`` takes X: the sum of a
window of ``X - x_zero`` times ``multiplier``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .._records import NamedTuple
from .fused_nodes import DOMAIN
from .integers import RANGES
from .onnx_later import ir
from .quantized_values import Quantization, quantization_of
from .values import constant

__all__ = [
    "MULTIPLIER",
    "PRODUCTS",
    "QUANTIZED_ADD",
    "QUANTIZED_AVERAGE",
    "QUANTIZED_CONV",
    "QUANTIZED_CONV_TRANSPOSE",
    "QUANTIZED_LINEAR",
    "RESIDUAL",
    "STORING",
    "ZERO",
    "Sums",
    "build_product",
    "centered",
    "dequantized",
    "fits_units",
    "is_normal",
    "numbers",
    "offset_of",
    "offset_of_any_zero",
    "rows_of",
    "sums_of",
    "with_numbers",
]

QUANTIZED_CONV = "QuantizedConv"
QUANTIZED_CONV_TRANSPOSE = "QuantizedConvTranspose"
QUANTIZED_LINEAR = "QuantizedLinear"
QUANTIZED_ADD = "QuantizedAdd"
QUANTIZED_AVERAGE = "QuantizedAverage"
PRODUCTS = (QUANTIZED_CONV, QUANTIZED_LINEAR)
# Products whose store clamps, gates and quantizes; `PRODUCTS` add residuals, too.
STORING = (*PRODUCTS, QUANTIZED_CONV_TRANSPOSE)
# Ports of a product's multiplier, its residual, and a zero point that the network computes.
MULTIPLIER = 3
RESIDUAL = 4
ZERO = 5

Array = npt.NDArray[Any]
_INT32 = np.iinfo(np.int32)
_SINGLE = np.finfo(np.float32)
# Where results become integers, a bias may be rounded to a multiple of the product of scales: the
# error is smaller than the weights' own rounding error, unless a channel's largest weight is much
# smaller than int8 allows.
_LEAST_WEIGHT = 16
# Largest relative error of a bias where results stay numbers.
_NEAR = 1e-6
# For the bias of a channel without weights, whose unit is free.
_UNITS = 1 << 20


def is_normal(number: Any) -> bool:
    """Whether positive numbers are normal in float32: loops flush denormals to zero."""
    array = np.asarray(number, np.float64)
    return bool(((array >= _SINGLE.tiny) & (array <= _SINGLE.max)).all())


def dequantized(value: ir.Value | None) -> tuple[ir.Value, Quantization] | None:
    """Give the integers that a value is dequantized from, if they have one scale.

    Parameters
    ----------
    value : ir.Value or None
        An input of a node.

    Returns
    -------
    (ir.Value, Quantization) or None
        The integers, which are not constant, and their scale and zero point; else None.
    """
    node = None if value is None else value.producer()
    if node is None or node.op_type != "DequantizeLinear":
        return None
    found, integers = quantization_of(node), node.inputs[0]
    if found is None or found.axis is not None or found.dtype not in RANGES:
        return None
    if integers is None or constant(integers) is not None:
        return None
    return integers, found


class Sums(NamedTuple):
    """The constants of a product of integers.

    Parameters
    ----------
    weight : ir.Value or ndarray
        The model's own, if no zero point is subtracted.
    offset : ndarray of int32
        One for each channel.
    multiplier : ndarray of float64 or None
        One for each channel.
    added : ndarray of float64 or None
        A bias that is no multiple of the sums' units: to be added to the numbers.
    """

    weight: ir.Value | Array
    offset: Array
    multiplier: Array | None
    added: Array | None = None


def centered(weight: Array, zero: Array) -> Array:
    """Subtract zero points from weights: int8 where all results fit, else int16."""
    if not zero.any() and weight.dtype == np.int8:
        return weight
    moved = weight.astype(np.int16) - zero.astype(np.int16)
    fits = not moved.size or (moved.min() >= -128 and moved.max() <= 127)
    return moved.astype(np.int8) if fits else moved


def sums_of(
    x: Quantization,
    weight: ir.Value | None,
    axis: int,
    bias: Array | None = None,
    groups: int = 1,
    *,
    rounds: bool = False,
) -> Sums | None:
    """Describe the sums of products of quantized numbers and quantized weights.

    Parameters
    ----------
    x : Quantization
        Of the input.
    weight : ir.Value or None
        The float32 weights: a DequantizeLinear of a constant.
    axis : int
        Axis of the output channels.
    bias : ndarray of float64, optional
        Real numbers, one for each channel.
    groups : int
        Groups of input channels along the first axis, which is not `axis` then: each has as many
        output channels as that has.
    rounds : bool, optional
        Whether the bias may be rounded to the sums' units, as the results become integers: see
        `fits_units`.

    Returns
    -------
    Sums or None
        None if the weights are anything else, if their scales differ along another axis, or if the
        numbers do not suit the loops: sums beyond int32, factors beyond float32.
    """
    node = None if weight is None else weight.producer()
    w = quantization_of(node)
    if node is None or w is None or node.op_type != "DequantizeLinear" or w.dtype not in RANGES:
        return None
    integers, source = constant(node.inputs[0]), node.inputs[0]
    if integers is None or source is None or not integers.size or w.axis not in (None, axis):
        return None
    zero = w.zero.reshape([-1 if d == axis else 1 for d in range(integers.ndim)])
    centred = centered(integers, zero)
    rows = rows_of(centred, axis, groups)
    channels = len(rows)
    scales = np.broadcast_to(w.scale.astype(np.float64), integers.shape[axis : axis + 1])
    units = x.scale.astype(np.float64) * np.tile(scales, groups)
    biases = np.zeros(channels) if bias is None else bias
    if not np.isfinite(biases).all():
        return None
    # A channel without weights is only its bias, in a unit that holds it.
    empty = ~rows.any(1)
    units = np.where(empty, np.where(biases == 0, 1.0, np.abs(biases) / _UNITS), units)
    if not is_normal(units):
        return None
    fits = fits_units(biases, units, np.abs(rows.astype(np.int32)).max(1, initial=0), rounds)
    inner = np.where(fits, biases, 0)
    offset = offset_of(rows, np.rint(inner / units).astype(np.int64), x)
    if offset is None:
        return None
    kept = source if centred is integers else centred
    return Sums(kept, offset, units, None if fits.all() else biases - inner)


def fits_units(bias: Array, units: Array, largest: Array, rounds: bool) -> Array:
    """Whether numbers may be rounded to multiples of sums' units, for each channel.

    Parameters
    ----------
    bias, units : ndarray of float64
        The numbers and the units.
    largest : ndarray of int
        The largest magnitude of each channel's weights.
    rounds : bool
        Whether the results become integers; else only what stays the same in float32 fits.
    """
    whole = np.rint(bias / units)
    near = np.abs(whole * units - bias) <= _NEAR * np.abs(bias)
    fine = largest >= _LEAST_WEIGHT if rounds else False
    return np.asarray((near | fine) & (np.abs(whole) <= _INT32.max))


def rows_of(weight: Array, axis: int, groups: int = 1) -> Array:
    """Give the weights of each output channel as a row: see `sums_of`."""
    channels = weight.shape[axis]
    if groups == 1:
        return np.moveaxis(weight, axis, 0).reshape(channels, -1)
    grouped = weight.reshape(groups, -1, *weight.shape[1:])
    return np.moveaxis(grouped, axis + 1, 1).reshape(groups * channels, -1)


def offset_of(rows: Array, bias: Array, x: Quantization) -> Array | None:
    """Give the offset of sums of stored integers; None if a sum could exceed int32."""
    low, high = (bound - x.one_zero for bound in RANGES[x.dtype])
    up = np.maximum(rows, 0).sum(1, dtype=np.int64)
    down = np.minimum(rows, 0).sum(1, dtype=np.int64)
    most, least = up * high + down * low + bias, up * low + down * high + bias
    offset = bias - x.one_zero * (up + down)
    bounds = (most, least, offset)
    if any((b > _INT32.max).any() or (b < _INT32.min).any() for b in bounds):
        return None
    return np.asarray(offset.astype(np.int32))


def offset_of_any_zero(rows: Array) -> Array | None:
    """Give the offset of sums whose zero point is computed; None if a sum could exceed int32."""
    reach = np.abs(rows.astype(np.int64)).sum(1) * 255
    return np.zeros(len(rows), np.int32) if (reach <= _INT32.max).all() else None


def build_product(
    op: Any,
    operator: str,
    x: ir.Value,
    sums: Sums,
    name: str,
    x_zero: int | ir.Value,
    attributes: Sequence[ir.Attr] = (),
) -> Any:
    """Build a product of integers with float32 results, or int32 without a multiplier.

    Parameters
    ----------
    op : builder
        What a rule gets.
    operator : str
        One of `STORING`.
    x : ir.Value
        The input.
    sums : Sums
        The constants.
    name : str
        Of the result, for the constants' names.
    x_zero : int or ir.Value
        Zero point of the input, or the value that has it in each run.
    attributes : sequence of ir.Attr
        ONNX's own.
    """
    weight = sums.weight
    if not isinstance(weight, ir.Value):
        weight = op.initializer(ir.tensor(np.ascontiguousarray(weight)), name=f"{name}_weights")
    offset = op.initializer(ir.tensor(sums.offset), name=f"{name}_offset")
    multiplier = None
    if sums.multiplier is not None:
        tensor = ir.tensor(np.ascontiguousarray(sums.multiplier, np.float64))
        multiplier = op.initializer(tensor, name=f"{name}_multiplier")
    own = {attribute.name: attribute for attribute in attributes}
    zero = x_zero if isinstance(x_zero, ir.Value) else None
    own |= numbers(x_zero=0 if isinstance(x_zero, ir.Value) else x_zero, y_zero=0, residual_zero=0)
    own |= numbers(low=-np.inf, high=np.inf, residual_scale=1.0)
    own |= numbers(gate=0, slope=0.0, middle=0.0, shift=0.0)
    return op.op(operator, x, weight, offset, multiplier, None, zero, _domain=DOMAIN, **own)


def numbers(**given: float) -> dict[str, ir.Attr]:
    """Give attributes: whole numbers as integers, others as float32."""
    with np.errstate(over="ignore", under="ignore"):
        return {
            name: ir.AttrInt64(name, number)
            if isinstance(number, int)
            else ir.AttrFloat32(name, float(np.float32(number)))
            for name, number in given.items()
        }


def with_numbers(
    op: Any,
    node: ir.Node,
    changes: dict[int, ir.Value] | None = None,
    **given: float,
) -> Any:
    """Build a product like another.

    Parameters
    ----------
    op : builder
        What a rule gets.
    node : ir.Node
        The product so far.
    changes : dict, optional
        Inputs that differ, by their ports.
    **given : int or float
        Attributes that differ.
    """
    inputs = [*node.inputs, *[None] * 6][:6]
    for port, value in (changes or {}).items():
        inputs[port] = value
    own = {**dict(node.attributes.items()), **numbers(**given)}
    return op.op(node.op_type, *inputs, _domain=DOMAIN, **own)
