"""``x * sigmoid(x)``, known as SiLU and Swish."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from .driver import Rule

__all__ = ["RULES"]


class ToSwish(Rule):
    """The product of a value and its Sigmoid."""

    def __init__(self, *, first: bool) -> None:
        super().__init__("Sigmoid to Swish", "Mul", above="Sigmoid")
        self.first = first

    def pattern(self, op: Any, x: Any) -> Any:
        """See `Rule`."""
        gate = op.Sigmoid(x)
        return op.Mul(gate, x) if self.first else op.Mul(x, gate)

    def check(self, context: Any, x: ir.Value) -> bool:
        """See `Rule`."""
        # ONNX defines Swish for these types only.
        return x.dtype in (ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16)

    def rewrite(self, op: Any, x: ir.Value) -> Any:
        """See `Rule`."""
        return op.Swish(x, alpha=1.0)


RULES: tuple[Rule, ...] = (ToSwish(first=False), ToSwish(first=True))
"""Rules of this module, in the order in which they are tried."""
