"""Operators that change nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from ..values import broadcasts_to, constant, only_first_used, rank, static_shape
from .driver import OperatorRule, Rule, constant_at

__all__ = ["RULES"]


class Nothing(OperatorRule):
    """Identity, Dropout in inference, Cast to the same type, Concat of one, Pad by 0."""

    def __init__(self, operator: str) -> None:
        super().__init__("no-op", operator)

    def check(self, context: Any, x: ir.Value, y: ir.Value) -> bool:
        """See `Rule`."""
        node = y.producer()
        if not only_first_used(node):
            return False
        if self.operator == "Cast":
            return x.dtype is not None and node.attributes.get_int("to", 0) == x.dtype
        if self.operator == "Dropout":
            training = node.inputs[2] if len(node.inputs) > 2 else None
            flag = constant(training)
            return training is None or (flag is not None and not flag.any())
        if self.operator == "Pad":
            amounts = constant(node.inputs[1])
            return amounts is not None and not amounts.any()
        return len(node.inputs) == 1

    def may_fire(self, node: ir.Node) -> bool:
        """See `Rule`."""
        if self.operator == "Concat":
            return len(node.inputs) == 1
        return self.operator != "Pad" or constant_at(node, 1)

    def rewrite(self, op: Any, x: ir.Value, y: ir.Value) -> Any:
        """See `Rule`."""
        return x


class NeutralOperand(Rule):
    """``x + 0``, ``x - 0``, ``x * 1`` and ``x / 1``."""

    def __init__(self, operator: str, neutral: int, *, first: bool = False) -> None:
        super().__init__("no-op", operator)
        self.operator, self.neutral, self.first = operator, neutral, first

    def may_fire(self, node: ir.Node) -> bool:
        """See `Rule`."""
        place = 0 if self.first else 1
        array = constant(node.inputs[place]) if place < len(node.inputs) else None
        return array is not None and array.size > 0 and array.flat[0] == self.neutral

    def pattern(self, op: Any, x: Any, c: Any) -> Any:
        """See `Rule`."""
        return getattr(op, self.operator)(*((c, x) if self.first else (x, c)), _outputs=["y"])

    def check(self, context: Any, x: ir.Value, c: ir.Value, y: ir.Value) -> bool:
        """See `Rule`."""
        array, axes = constant(c), rank(x)
        if array is None or not array.size or array.dtype.kind not in "fiu":
            return False
        if not np.all(array == self.neutral):
            return False
        # A constant that is larger than x makes the result larger.
        if array.ndim == 0 or (array.size == 1 and axes is not None and array.ndim <= axes):
            return True
        shape = static_shape(x)
        return shape is not None and broadcasts_to(shape, array.shape)

    def rewrite(self, op: Any, x: ir.Value, c: ir.Value, y: ir.Value) -> Any:
        """See `Rule`."""
        return x


RULES: tuple[Rule, ...] = (
    *(Nothing(operator) for operator in ("Identity", "Dropout", "Cast", "Concat", "Pad")),
    *(
        NeutralOperand(operator, neutral, first=first)
        for operator, neutral, first in (
            ("Add", 0, False),
            ("Add", 0, True),
            ("Sub", 0, False),
            ("Mul", 1, False),
            ("Mul", 1, True),
            ("Div", 1, False),
        )
    ),
)
"""Rules of this module, in the order in which they are tried."""
