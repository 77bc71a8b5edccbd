"""Affine maps of channels, and their merging into the weights of a convolution.

Sums are computed in float64, and rounded once to the type of the weights.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._records import NamedTuple
from ..memory.mapping import blocks, release
from .onnx_later import ir
from .values import (
    FLOATS,
    all_finite,
    attribute_int,
    constant,
    is_constant,
    only_first_used,
    wide,
)

__all__ = [
    "FORMS",
    "Affine",
    "Scaled",
    "Weights",
    "affine_of",
    "after",
    "batch_normalization",
    "before",
    "finite",
    "rebuilt",
    "weights_of",
]

Numbers = npt.NDArray[np.float64]

FORMS = (
    ("Mul", False),
    ("Mul", True),
    ("Add", False),
    ("Add", True),
    ("Sub", False),
    ("Sub", True),
    ("Div", False),
)
"""Operators that are affine maps, and whether the constant is their first operand."""


class Affine(NamedTuple):
    """``x * scale + offset``, one pair a channel."""

    scale: Numbers
    offset: Numbers


class Weights(NamedTuple):
    """The constants of a convolution; the weights are read only when needed."""

    tensor: ir.TensorProtocol
    bias: npt.NDArray[np.generic] | None
    group: int
    transposed: bool

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the weights."""
        return tuple(self.tensor.shape.numpy())

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the weights."""
        found: np.dtype[Any] = np.dtype(self.tensor.dtype.numpy())
        return found

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.tensor.shape)

    @property
    def channels(self) -> int:
        """Channels of the output."""
        return int(self.shape[1] * self.group if self.transposed else self.shape[0])

    @property
    def input_channels(self) -> int:
        """Channels of the input."""
        return int(self.shape[0] if self.transposed else self.shape[1] * self.group)


class Scaled(NamedTuple):
    """Weights and bias after an affine map was merged into them."""

    tensor: ir.TensorProtocol
    bias: npt.NDArray[Any]


def weights_of(node: ir.Node) -> Weights | None:
    """Give the constants of a Conv or ConvTranspose, or None if they are not constant.

    Parameters
    ----------
    node : ir.Node
        A node of ONNX's operators.

    Returns
    -------
    Weights or None
    """
    w = node.inputs[1]
    bias_value = node.inputs[2] if len(node.inputs) > 2 else None
    bias = constant(bias_value)
    if w is None or not is_constant(w) or w.dtype not in FLOATS:
        return None
    tensor = w.const_value
    if tensor is None or len(tensor.shape) < 3 or (bias_value is not None and bias is None):
        return None
    group = attribute_int(node, "group", 1)
    transposed = node.op_type == "ConvTranspose"
    weights = Weights(tensor, bias, group, transposed)
    if group < 1 or weights.shape[0] % group:
        return None
    if bias is not None and bias.shape != (weights.channels,):
        return None
    return weights


def affine_of(operator: str, c: Numbers, *, first: bool) -> Affine | None:
    """Give the affine map of an operator with one constant operand.

    Parameters
    ----------
    operator : str
        ``Add``, ``Sub``, ``Mul`` or ``Div``.
    c : array
        The constant, one number a channel.
    first : bool
        Whether the constant is the first operand.

    Returns
    -------
    Affine or None
        None if the operator is not affine in the other operand.
    """
    one, zero = np.ones_like(c), np.zeros_like(c)
    if operator == "Add":
        return Affine(one, c)
    if operator == "Mul":
        return Affine(c, zero)
    if operator == "Sub":
        return Affine(-one, c) if first else Affine(one, -c)
    if operator == "Div" and not first and np.all(c != 0):
        return Affine(1 / c, zero)
    return None


def batch_normalization(node: ir.Node) -> Affine | None:
    """Give the affine map of a BatchNormalization in inference.

    Parameters
    ----------
    node : ir.Node
        A node of that operator.

    Returns
    -------
    Affine or None
        None in training, or if an operand is not constant.
    """
    if attribute_int(node, "training_mode", 0):
        return None
    if not only_first_used(node):
        return None
    arrays = [constant(value) for value in node.inputs[1:5]]
    if len(arrays) != 4 or any(array is None or array.ndim != 1 for array in arrays):
        return None
    gamma, beta, mean, variance = (wide(np.asarray(a)) for a in arrays)
    if len({gamma.size, beta.size, mean.size, variance.size}) != 1:
        return None
    epsilon = float(node.attributes.get_float("epsilon", 1e-5))
    with np.errstate(invalid="ignore", divide="ignore"):
        scale = gamma / np.sqrt(variance + epsilon)
    offset = beta - mean * scale
    return Affine(scale, offset) if finite(scale, offset) else None


def finite(*arrays: npt.NDArray[Any]) -> bool:
    """Tell whether all numbers are finite.

    Parameters
    ----------
    *arrays : array
        Numbers.

    Returns
    -------
    bool
    """
    return all(all_finite(array) for array in arrays)


def _rounded(array: Numbers, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    with np.errstate(all="ignore"):
        return np.ascontiguousarray(array).astype(dtype)


def after(weights: Weights, affine: Affine) -> Scaled | None:
    """Give weights and bias of a convolution with an affine map of its output.

    Parameters
    ----------
    weights : Weights
        Constants of the convolution alone.
    affine : Affine
        The map, of the output's channels.

    Returns
    -------
    Scaled or None
        None where the type of the weights cannot hold them.
    """
    # A row of a ConvTranspose has all channels of its group, one of a Conv is one.
    factors = affine.scale.reshape(weights.group if weights.transposed else weights.channels, -1)
    bias = 0.0 if weights.bias is None else wide(weights.bias)
    new = _rounded(affine.offset + bias * affine.scale, weights.dtype)
    return _if_finite(weights, factors, new)


def before(weights: Weights, affine: Affine) -> Scaled | None:
    """Give weights and bias of a convolution with an affine map of its unpadded input.

    Parameters
    ----------
    weights : Weights
        Constants of the convolution alone.
    affine : Affine
        The map, of the input's channels.

    Returns
    -------
    Scaled or None
        None where the type of the weights cannot hold them.
    """
    bias = np.zeros(weights.channels)
    if weights.bias is not None:
        bias = wide(weights.bias)
    if weights.transposed:
        factors = affine.scale.reshape(-1, 1)
    else:
        factors = affine.scale.reshape(weights.group, -1)
        bias = bias + (_sums(weights, affine.offset) if np.any(affine.offset) else 0.0)
    return _if_finite(weights, factors, _rounded(bias, weights.dtype))


def _sums(weights: Weights, offset: Numbers) -> Numbers:
    """Sums over the weights of each output channel, times a number for each input channel."""
    array = weights.tensor.numpy()
    numbers = offset.reshape(weights.group, -1, *(1,) * (array.ndim - 2))
    outer = weights.channels // weights.group
    sums = np.empty(weights.channels)
    for rows in blocks(array):
        groups = np.arange(rows.start, rows.stop) // outer
        products = wide(array[rows]) * numbers[groups]
        sums[rows] = products.sum(axis=tuple(range(1, array.ndim)))
        release(array[rows])
    return sums


def _if_finite(weights: Weights, factors: Numbers, bias: npt.NDArray[Any]) -> Scaled | None:
    from .scaling import scaled, stays_finite

    if not finite(bias) or not stays_finite(weights.tensor, factors):
        return None
    return Scaled(scaled(weights.tensor, factors), bias)


def rebuilt(op: Any, node: ir.Node, x: ir.Value, new: Scaled) -> Any:
    """Build a convolution like another, with other weights.

    Parameters
    ----------
    op : builder
        The builder that a rule gets.
    node : ir.Node
        The convolution so far.
    x : ir.Value
        Its input.
    new : Scaled
        Weights and bias.

    Returns
    -------
    ir.Value
        Its output.
    """
    w = node.inputs[1]
    stem = w.name if w is not None else node.name
    if w is None or w.const_value is not new.tensor:
        w = op.initializer(new.tensor, name=f"{stem}_scaled")
    bias = op.initializer(ir.Tensor(new.bias), name=f"{stem}_bias")
    return op.op(node.op_type, x, w, bias, **node.attributes)
