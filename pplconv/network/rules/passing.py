"""Activations pass what only moves the elements of a fused node, and become its own.

Transformers with convolutions write images as rows of pixels: a Reshape and a Transpose stand
between a depthwise convolution and its activation.
"""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from ..fused_nodes import DOMAIN, FUSED_CONVOLUTIONS, LINEAR, Port, activation_of, inputs_of
from .driver import Rule
from .fused_activations import OPERATORS, found_activation

__all__ = ["RULES"]

_MOVES = ("Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze")


class BeforeMove(Rule):
    """An activation of moved elements of a fused node that has none."""

    def __init__(self, move: str, activation: str) -> None:
        super().__init__("activation before what moves", activation, above=move)
        self.move, self.activation = move, activation

    def pattern(self, op: Any, x: Any) -> Any:
        """See `Rule`."""
        moved = getattr(op, self.move)(x, _allow_other_inputs=True, _outputs=["moved"])
        return getattr(op, self.activation)(moved, _allow_other_inputs=True, _outputs=["z"])

    def check(self, context: Any, x: ir.Value, moved: ir.Value, z: ir.Value) -> bool:
        """See `Rule`."""
        found = found_activation(z.producer())
        return found is not None and found[0] != "prelu" and _takes_activation(x)

    def rewrite(self, op: Any, x: ir.Value, moved: ir.Value, z: ir.Value) -> Any:
        """See `Rule`."""
        node, move = z.producer(), moved.producer()
        active = op.op(self.activation, x, *node.inputs[1:], **dict(node.attributes.items()))
        active.type, active.shape = x.type, x.shape
        return op.op(self.move, active, *move.inputs[1:], **dict(move.attributes.items()))


def _takes_activation(value: ir.Value) -> bool:
    """Whether it comes from a fused node without an activation, through nothing but moves."""
    while len(value.uses()) == 1 and not value.is_graph_output():
        node = value.producer()
        if node is None:
            return False
        if node.domain == DOMAIN and node.op_type in (*FUSED_CONVOLUTIONS, LINEAR):
            return not activation_of(node)[0] and not any(inputs_of(node)[Port.SCALE :])
        if node.domain or node.op_type not in _MOVES or node.inputs[0] is None:
            return False
        value = node.inputs[0]
    return False


RULES: tuple[Rule, ...] = tuple(
    BeforeMove(move, activation) for move in _MOVES for activation in OPERATORS
)
"""Rules of this module, in the order in which they are tried."""
