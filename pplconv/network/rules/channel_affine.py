"""Affine maps of channels, and the weights of a convolution with one taken in.

The sums are made in float64, and rounded once to the type of the weights.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from ..values import (
    FLOATS,
    attribute_int,
    constant,
    wide,
)

__all__ = [
    "Affine",
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


class Affine(NamedTuple):
    """``x * scale + offset``, one pair a channel."""

    scale: Numbers
    offset: Numbers


class Weights(NamedTuple):
    """The constants of a convolution."""

    w: npt.NDArray[np.generic]
    bias: npt.NDArray[np.generic] | None
    group: int
    transposed: bool

    @property
    def channels(self) -> int:
        """Channels of the output."""
        return int(self.w.shape[1] * self.group if self.transposed else self.w.shape[0])

    @property
    def input_channels(self) -> int:
        """Channels of the input."""
        return int(self.w.shape[0] if self.transposed else self.w.shape[1] * self.group)


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
    w = constant(node.inputs[1])
    bias_value = node.inputs[2] if len(node.inputs) > 2 else None
    bias = constant(bias_value)
    if w is None or w.ndim < 3 or (bias_value is not None and bias is None):
        return None
    if node.inputs[1] is None or node.inputs[1].dtype not in FLOATS:
        return None
    group = attribute_int(node, "group", 1)
    transposed = node.op_type == "ConvTranspose"
    if group < 1 or w.shape[0] % group:
        return None
    weights = Weights(w, bias, group, transposed)
    if bias is not None and bias.shape != (weights.channels,):
        return None
    return weights


def affine_of(operator: str, c: Numbers, *, first: bool) -> Affine | None:
    """Give what an operator with one constant operand does to the other.

    Parameters
    ----------
    operator : str
        ``Add``, ``Sub``, ``Mul`` or ``Div``.
    c : array
        The constant, a number a channel.
    first : bool
        Whether the constant is the first operand.

    Returns
    -------
    Affine or None
        None where it is not affine.
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
    """Give what a BatchNormalization does to each channel, in inference.

    Parameters
    ----------
    node : ir.Node
        A node of that operator.

    Returns
    -------
    Affine or None
        None in training, or where its constants are not constant.
    """
    if attribute_int(node, "training_mode", 0):
        return None
    if any(value.uses() or value.is_graph_output() for value in node.outputs[1:]):
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
    return all(bool(np.isfinite(array).all()) for array in arrays)


def _rounded(array: Numbers, like: npt.NDArray[np.generic]) -> npt.NDArray[Any]:
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(array).astype(like.dtype)


def after(weights: Weights, affine: Affine) -> tuple[npt.NDArray[Any], npt.NDArray[Any]] | None:
    """Give weights and bias of a convolution with an affine map of its output.

    Parameters
    ----------
    weights : Weights
        Those of the convolution alone.
    affine : Affine
        The map, of the output's channels.

    Returns
    -------
    tuple of arrays, or None
        None where the type of the weights cannot hold them.
    """
    w, group = wide(weights.w), weights.group
    tail = (1,) * (w.ndim - 2)
    if weights.transposed:
        parts = w.reshape(group, w.shape[0] // group, w.shape[1], *w.shape[2:])
        scaled = parts * affine.scale.reshape(group, 1, w.shape[1], *tail)
        scaled = scaled.reshape(w.shape)
    else:
        scaled = w * affine.scale.reshape(-1, 1, *tail)
    bias = 0.0 if weights.bias is None else wide(weights.bias)
    new = _rounded(scaled, weights.w), _rounded(affine.offset + bias * affine.scale, weights.w)
    return new if finite(*new) else None


def before(weights: Weights, affine: Affine) -> tuple[npt.NDArray[Any], npt.NDArray[Any]] | None:
    """Give weights and bias of a convolution with an affine map of its unpadded input.

    Parameters
    ----------
    weights : Weights
        Those of the convolution alone.
    affine : Affine
        The map, of the input's channels.

    Returns
    -------
    tuple of arrays, or None
        None where the type of the weights cannot hold them.
    """
    w, group = wide(weights.w), weights.group
    tail = (1,) * (w.ndim - 2)
    bias = np.zeros(weights.channels)
    if weights.bias is not None:
        bias = wide(weights.bias)
    if weights.transposed:
        scaled = w * affine.scale.reshape(-1, 1, *tail)
    else:
        outer = weights.channels // group
        parts = w.reshape(group, outer, w.shape[1], *w.shape[2:])
        shape = (group, 1, w.shape[1], *tail)
        scaled = (parts * affine.scale.reshape(shape)).reshape(w.shape)
        axes = tuple(range(2, parts.ndim))
        bias = bias + (parts * affine.offset.reshape(shape)).sum(axis=axes).reshape(-1)
    new = _rounded(scaled, weights.w), _rounded(bias, weights.w)
    return new if finite(*new) else None


def rebuilt(
    op: Any, node: ir.Node, x: ir.Value, new: tuple[npt.NDArray[Any], npt.NDArray[Any]]
) -> Any:
    """Build a convolution like another, with other weights.

    Parameters
    ----------
    op : builder
        What onnxscript gives to a rule.
    node : ir.Node
        The convolution so far.
    x : ir.Value
        Its input.
    new : tuple of arrays
        Weights and bias.

    Returns
    -------
    ir.Value
        Its output.
    """
    stem = node.inputs[1].name if node.inputs[1] is not None else node.name
    w = op.initializer(ir.tensor(new[0]), name=f"{stem}_scaled")
    bias = op.initializer(ir.tensor(new[1]), name=f"{stem}_bias")
    return op.op(node.op_type, x, w, bias, **node.attributes)
