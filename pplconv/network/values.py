"""Known facts of a graph's values: constants, shapes, channels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..memory.mapping import blocks
from .onnx_later import ir
from .texts import printable

__all__ = [
    "BYTES",
    "FLOATS",
    "HALVES",
    "INTEGERS",
    "Shapes",
    "all_finite",
    "attribute_floats",
    "attribute_int",
    "attribute_ints",
    "attribute_string",
    "axis_of",
    "broadcasts_to",
    "close",
    "constant",
    "describe",
    "elements_of",
    "is_constant",
    "only_first_used",
    "per_channel",
    "rank",
    "scalar",
    "static_shape",
    "wide",
]

# Numbers of `ir.DataType`, which needs no import here.
FLOATS = frozenset((1, 10, 11))
"""Types in which convolutions and products are computed: float32, float16 and float64."""
HALVES = frozenset((10, 16))
"""float16 and bfloat16."""
BYTES = frozenset((2, 3))
"""uint8 and int8."""
INTEGERS = BYTES | {6}
"""The same and int32."""

Array = npt.NDArray[np.generic]
Shapes = Sequence["tuple[int, ...] | None"]
"""Shapes of operands by position; None if omitted or unknown."""


def is_constant(value: ir.Value | None) -> bool:
    """Tell whether a value is the same in every run.

    Parameters
    ----------
    value : ir.Value or None
        An input of a node; None where it is left out.

    Returns
    -------
    bool
    """
    return value is not None and value.const_value is not None and not value.is_graph_input()


def only_first_used(node: ir.Node) -> bool:
    """Tell whether nobody reads any output of a node but the first.

    Parameters
    ----------
    node : ir.Node
        Any node.

    Returns
    -------
    bool
    """
    return not any(value.uses() or value.is_graph_output() for value in node.outputs[1:])


def constant(value: ir.Value | None) -> Array | None:
    """Give the array of a constant.

    Parameters
    ----------
    value : ir.Value or None
        An input of a node.

    Returns
    -------
    array or None
        None if the value is left out or differs between runs.
    """
    if value is None or value.const_value is None or value.is_graph_input():
        return None
    return elements_of(value.const_value)


def elements_of(tensor: ir.TensorProtocol) -> Array:
    """Give the array of a tensor; texts are ``str`` objects, as in arrays of callers.

    Parameters
    ----------
    tensor : ir.TensorProtocol
        Any tensor.

    Raises
    ------
    ValueError
        If a text is not UTF-8.
    """
    array: Array = tensor.numpy()
    if tensor.dtype != ir.DataType.STRING:
        return array
    texts = np.empty(array.shape, object)
    for place, text in np.ndenumerate(array):
        texts[place] = text.decode() if isinstance(text, bytes) else str(text)
    return texts


def rank(value: ir.Value | None) -> int | None:
    """Give the number of axes of a value, or None if it is unknown.

    Parameters
    ----------
    value : ir.Value or None
        An input of a node.

    Returns
    -------
    int or None
    """
    return None if value is None or value.shape is None else len(value.shape)


def static_shape(value: ir.Value | None) -> tuple[int, ...] | None:
    """Give the shape of a value, or None if any size is unknown.

    Parameters
    ----------
    value : ir.Value or None
        An input of a node.

    Returns
    -------
    tuple of int or None
    """
    shape = None if value is None else value.shape
    if shape is None:
        return None
    sizes: tuple[Any, ...] = shape.dims
    for size in sizes:
        if not isinstance(size, int):
            return None
    return sizes


def scalar(value: ir.Value | None, beside: int | None = None) -> float | None:
    """Give the number in a constant of one element.

    Parameters
    ----------
    value : ir.Value or None
        An input of a node.
    beside : int, optional
        Rank of the array that it is broadcast with, which it must not raise. By default only
        constants of 0 or 1 axes are accepted.

    Returns
    -------
    float or None
        None for anything else.
    """
    array = constant(value)
    if array is None or array.size != 1 or array.ndim > (1 if beside is None else beside):
        return None
    if array.dtype.kind not in "fiu":
        return None
    return float(array.reshape(())[()])


def close(value: float | None, wanted: float, dtype: ir.DataType | None) -> bool:
    """Tell whether a number equals the wanted one rounded to its type.

    A single-precision number in a double-precision graph does not equal it: a rule that accepted
    it would change results.

    Parameters
    ----------
    value : float or None
        A number, or None, which equals nothing.
    wanted : float
        Number to compare with.
    dtype : ir.DataType or None
        Type that the number was stored in.

    Returns
    -------
    bool
    """
    tolerance = {ir.DataType.FLOAT16: 1e-3, ir.DataType.DOUBLE: 1e-12}.get(dtype, 1e-6)
    return value is not None and math.isclose(value, wanted, rel_tol=tolerance)


def per_channel(
    value: ir.Value | None, channels: int, axes: int, axis: int = 1
) -> npt.NDArray[np.float64] | None:
    """Give a constant as one number a channel.

    Parameters
    ----------
    value : ir.Value or None
        An input of a node, broadcast with an array of `axes` axes by NumPy's rules.
    channels : int
        Size of that array's `axis`.
    axes : int
        Rank of that array.
    axis : int, optional
        Axis of the channels; negative axes count from the end.

    Returns
    -------
    array or None
        Shape (channels,); None if the value is no constant, differs along another axis, or would
        make the result larger than that array.
    """
    array = constant(value)
    if array is None or array.ndim > axes or array.dtype.kind != "f":
        return None
    shape = (1,) * (axes - array.ndim) + array.shape
    axis %= axes
    if any(size != 1 for index, size in enumerate(shape) if index != axis):
        return None
    if shape[axis] not in (1, channels):
        return None
    return np.broadcast_to(wide(array.reshape(-1)), (channels,))


def wide(array: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Convert numbers to double precision, without warnings for NaN.

    Parameters
    ----------
    array : array
        Numbers of any type.

    Returns
    -------
    array
        The same in float64.
    """
    with np.errstate(invalid="ignore"):
        return array.astype(np.float64)


def all_finite(array: npt.NDArray[Any]) -> bool:
    """Tell whether all numbers of an array are finite, without another array of its size.

    Parameters
    ----------
    array : array
        Numbers.

    Returns
    -------
    bool
    """
    rows = np.atleast_1d(array)
    return all(bool(np.isfinite(rows[part]).all()) for part in blocks(rows))


def broadcasts_to(shape: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Tell whether broadcasting with another shape leaves a shape unchanged.

    Parameters
    ----------
    shape : tuple of int
        The shape to keep.
    other : tuple of int
        The other shape.

    Returns
    -------
    bool
    """
    if len(other) > len(shape):
        return False
    tail = shape[len(shape) - len(other) :]
    return all(size in (1, own) for own, size in zip(tail, other, strict=True))


def attribute_int(node: ir.Node, name: str, default: int) -> int:
    """Give an attribute, or its default.

    Parameters
    ----------
    node : ir.Node
        The node.
    name : str
        Its name.
    default : int
        Value of an absent attribute.

    Returns
    -------
    int
    """
    return int(node.attributes.get_int(name, default))


def attribute_ints(node: ir.Node, name: str, default: Sequence[int]) -> tuple[int, ...]:
    """Give an attribute, or its default; see `attribute_int`."""
    return tuple(node.attributes.get_ints(name, list(default)))


def attribute_floats(node: ir.Node, name: str, default: Sequence[float]) -> tuple[float, ...]:
    """Give an attribute, or its default; see `attribute_int`."""
    return tuple(node.attributes.get_floats(name, list(default)))


def attribute_string(node: ir.Node, name: str, default: str) -> str:
    """Give an attribute, or its default; see `attribute_int`."""
    return str(node.attributes.get_string(name, default))


def axis_of(node: ir.Node, shape: tuple[int, ...] | None, default: int) -> tuple[int, str | None]:
    """Give the attribute ``axis``, and its error.

    Parameters
    ----------
    node : ir.Node
        The node.
    shape : tuple of int or None
        Shape of the array with the axes, if known.
    default : int
        Value of an absent attribute.

    Returns
    -------
    axis : int
        Counted from the front, if the shape is known.
    problem : str or None
        None if the axis exists, or the shape is unknown.
    """
    axis = attribute_int(node, "axis", default)
    if shape is None:
        return axis, None
    if not -len(shape) <= axis < len(shape):
        return 0, f"axis is {axis}, the input has the shape {shape}"
    return axis % len(shape), None


def describe(node: ir.Node) -> str:
    """Name a node for a message.

    Parameters
    ----------
    node : ir.Node
        Any node.

    Returns
    -------
    str
        Its name, or that of its first output, and its operator.
    """
    operator = f"{node.domain}::{node.op_type}" if node.domain else node.op_type
    return f"the node {node.name or node.outputs[0].name!r} ({printable(operator)})"
