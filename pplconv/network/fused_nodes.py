"""The fused nodes: their meaning and construction.

``pplconv::Conv`` and ``pplconv::ConvTranspose`` take eight inputs, any after the second left out::

    X, W, B, residual, scale, offset, residual_after, slope

and compute ::

    activation(conv(X, W) + B + residual) * scale + offset + residual_after

``W``, ``B``, ``scale``, ``offset`` and ``slope`` are constants, the last four of shape (oc,); both
residuals have the shape of the output and are no constants.  Inputs that are left out at the end
are missing from the node: `inputs_of` gives all of them.  Arrays of weights may have any strides,
zero included, where one value is repeated.  Besides ONNX's attributes (``strides``, ``pads``,
``dilations``, ``group``, ``kernel_shape``, and ``output_padding`` of a ConvTranspose), which are
always there, they have ``activation``, a name of `ACTIVATIONS` or an empty one, and
``activation_parameters``: the bounds of ``clip``, infinite where there is none; the slope of
``leaky_relu``; slope and offset of ``hardsigmoid``; else nothing.  ``prelu`` takes its slopes, one
a channel, from the input ``slope``.

``pplconv::Linear`` takes X, W, B and residual, of shapes (..., K), (K, N), (N,) and that of the
output, of which the last two may be left out, with the same two attributes, but no ``prelu``.  It
computes ``activation(X @ W + B + residual)``.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

from ..activations import KINDS
from .onnx_later import ir
from .values import attribute_floats, attribute_string

__all__ = [
    "ACTIVATIONS",
    "DOMAIN",
    "FUSED_CONVOLUTIONS",
    "LINEAR",
    "Port",
    "activation_of",
    "build",
    "inputs_of",
    "with_changes",
]

DOMAIN = "pplconv"
FUSED_CONVOLUTIONS = ("Conv", "ConvTranspose")
LINEAR = "Linear"

ACTIVATIONS = ("relu", "hardsigmoid", *(name for name in KINDS if name != "none"))
"""Names of the attribute ``activation``, besides the empty one."""


class Port(IntEnum):
    """Positions of the inputs of a fused convolution."""

    X = 0
    W = 1
    B = 2
    RESIDUAL = 3
    SCALE = 4
    OFFSET = 5
    RESIDUAL_AFTER = 6
    SLOPE = 7


def inputs_of(node: ir.Node) -> list[ir.Value | None]:
    """Give the inputs of a fused node, omitted ones as None.

    Parameters
    ----------
    node : ir.Node
        A fused node.

    Returns
    -------
    list of ir.Value or None
        Eight of a convolution, in the order of `Port`; the first four of a Linear.
    """
    count = 4 if node.op_type == LINEAR else len(Port)
    return [*node.inputs, *[None] * count][:count]


def activation_of(node: ir.Node) -> tuple[str, tuple[float, ...]]:
    """Give the activation of a fused node.

    Parameters
    ----------
    node : ir.Node
        A fused node.

    Returns
    -------
    name : str
        A name of `ACTIVATIONS`, or an empty one.
    parameters : tuple of float
        See the module's text.
    """
    return (
        attribute_string(node, "activation", ""),
        attribute_floats(node, "activation_parameters", ()),
    )


def build(
    op: Any, operator: str, inputs: Sequence[ir.Value | None], attributes: Sequence[ir.Attr]
) -> Any:
    """Build a fused node.

    Parameters
    ----------
    op : builder
        The builder that a rule gets.
    operator : str
        One of `FUSED_CONVOLUTIONS`, or `LINEAR`.
    inputs : sequence of ir.Value or None
        All inputs, omitted ones as None.
    attributes : sequence of ir.Attr
        ONNX's attributes, and the two of the activation where there is one.

    Returns
    -------
    ir.Value
        Its output.
    """
    own = {attribute.name: attribute for attribute in attributes}
    own.setdefault("activation", ir.AttrString("activation", ""))
    own.setdefault("activation_parameters", ir.AttrFloat32s("activation_parameters", []))
    return op.op(operator, *inputs, _domain=DOMAIN, **own)


def with_changes(
    op: Any,
    node: ir.Node,
    changes: dict[int, ir.Value],
    activation: tuple[str, tuple[float, ...]] | None = None,
) -> Any:
    """Build a fused node like another.

    Parameters
    ----------
    op : builder
        The builder that a rule gets.
    node : ir.Node
        The fused node so far.
    changes : dict
        Changed inputs, by position.
    activation : tuple, optional
        Name and parameters of another activation.

    Returns
    -------
    ir.Value
        Its output.
    """
    inputs = inputs_of(node)
    for port, value in changes.items():
        inputs[port] = value
    attributes = dict(node.attributes.items())
    if activation is not None:
        name, parameters = activation
        attributes["activation"] = ir.AttrString("activation", name)
        attributes["activation_parameters"] = ir.AttrFloat32s(
            "activation_parameters", list(parameters)
        )
    return build(op, node.op_type, inputs, list(attributes.values()))
