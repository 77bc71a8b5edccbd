"""``x + x * g`` as ``x * (g + 1)``, where the gate ``g`` is smaller than ``x``.

For squeeze-and-excitation with a shortcut: the sum of two images becomes a sum of two rows of
numbers, which the gate's convolution absorbs as an offset.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx_ir as ir

from ..values import FLOATS, broadcasts_to, static_shape
from .driver import Rule, maker_at

__all__ = ["RULES"]


class ShortcutAroundGate(Rule):
    """The sum of a value and its product with a gate."""

    def __init__(self, *, flipped: bool, first: bool) -> None:
        super().__init__("shortcut around a gate", "Add", above="Mul")
        self.flipped, self.first = flipped, first

    def may_fire(self, node: ir.Node) -> bool:
        """See `Rule`."""
        place = 0 if self.first else 1
        product = maker_at(node, place, "Mul")
        if product is None or len(node.inputs) != 2 or len(product.inputs) != 2:
            return False
        return product.inputs[1 if self.flipped else 0] is node.inputs[1 - place]

    def pattern(self, op: Any, x: Any, g: Any) -> Any:
        """See `Rule`."""
        product = op.Mul(g, x) if self.flipped else op.Mul(x, g)
        return op.Add(product, x) if self.first else op.Add(x, product)

    def check(self, context: Any, x: ir.Value, g: ir.Value) -> bool:
        """See `Rule`."""
        shape, gate = static_shape(x), static_shape(g)
        return (
            shape is not None
            and gate is not None
            and x.dtype in FLOATS
            and math.prod(gate) < math.prod(shape)
            and broadcasts_to(shape, gate)
        )

    def rewrite(self, op: Any, x: ir.Value, g: ir.Value) -> Any:
        """See `Rule`."""
        one = op.initializer(ir.tensor(np.ones((), x.dtype.numpy())), name=f"{g.name}_one")
        gate = op.Add(g, one)
        gate.type, gate.shape = g.type, g.shape
        return op.Mul(x, gate)


RULES: tuple[Rule, ...] = tuple(
    ShortcutAroundGate(flipped=flipped, first=first)
    for flipped in (False, True)
    for first in (False, True)
)
"""Rules of this module, in the order in which they are tried."""
