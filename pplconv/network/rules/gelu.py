"""Gelu from the pieces that exporters write before opset 20."""

from __future__ import annotations

import math
from itertools import permutations
from typing import Any

import onnx_ir as ir

from ..._records import NamedTuple
from ..values import FLOATS, close, rank, scalar
from .driver import Rule

__all__ = ["RULES"]


class _Operand(NamedTuple):
    """A value and the constant that it is added to or multiplied by."""

    value: ir.Value
    number: float


class ToGelu(Rule):
    """``x * (1 + Erf(x / sqrt(2))) * 0.5``, its three factors in any order."""

    def __init__(self) -> None:
        super().__init__("Erf to Gelu", "Mul", above="Mul")

    def pattern(self, op: Any, a: Any, b: Any) -> Any:
        """See `Rule`."""
        return op.Mul(a, b)

    def check(self, context: Any, a: ir.Value, b: ir.Value) -> bool:
        """See `Rule`."""
        return self._argument(a, b) is not None

    def rewrite(self, op: Any, a: ir.Value, b: ir.Value) -> Any:
        """See `Rule`."""
        return op.Gelu(self._argument(a, b), approximate="none")

    @staticmethod
    def _argument(a: ir.Value, b: ir.Value) -> ir.Value | None:
        """Give x if the product of both is its Gelu."""
        for other, product in ((a, b), (b, a)):
            node = _made_by(product, "Mul")
            if node is None:
                continue
            for x, curve, half in permutations((other, *node.inputs)):
                if x is None or not close(scalar(half, rank(x) or 0), 0.5, x.dtype):
                    continue
                total = _with_number(curve, "Add")
                one = None if total is None else total.number
                if total is not None and close(one, 1.0, x.dtype) and _is_error(total.value, x):
                    return x
        return None


class HalvedToGelu(Rule):
    """``x * (Erf(x / sqrt(2)) * 0.5 + 0.5)``."""

    def __init__(self, *, first: bool) -> None:
        super().__init__("Erf to Gelu", "Mul", above="Add")
        self.first = first

    def pattern(self, op: Any, x: Any, gate: Any) -> Any:
        """See `Rule`."""
        return op.Mul(gate, x) if self.first else op.Mul(x, gate)

    def check(self, context: Any, x: ir.Value, gate: ir.Value) -> bool:
        """See `Rule`."""
        total = _with_number(gate, "Add")
        if total is None or not close(total.number, 0.5, x.dtype):
            return False
        halved = _with_number(total.value, "Mul")
        return (
            halved is not None and close(halved.number, 0.5, x.dtype) and _is_error(halved.value, x)
        )

    def rewrite(self, op: Any, x: ir.Value, gate: ir.Value) -> Any:
        """See `Rule`."""
        return op.Gelu(x, approximate="none")


def _is_error(value: ir.Value, x: ir.Value) -> bool:
    """Tell whether a value is ``Erf(x / sqrt(2))``."""
    node = _made_by(value, "Erf")
    if node is None or x.dtype not in FLOATS:
        return False
    for operator, number in (("Div", math.sqrt(2.0)), ("Mul", math.sqrt(0.5))):
        scaled = _with_number(node.inputs[0], operator)
        if scaled is not None and scaled.value is x:
            return close(scaled.number, number, x.dtype)
    return False


def _made_by(value: ir.Value | None, operator: str) -> ir.Node | None:
    """Give a value's producer, if it has this operator and the value has one reader."""
    node = None if value is None else value.producer()
    if value is None or node is None or node.domain != "" or node.op_type != operator:
        return None
    return node if len(value.uses()) == 1 and not value.is_graph_output() else None


def _with_number(value: ir.Value | None, operator: str) -> _Operand | None:
    """Split a node's operands into a value and a number, the second operand of a quotient."""
    node = _made_by(value, operator)
    if node is None:
        return None
    for at in (1,) if operator == "Div" else (1, 0):
        other = node.inputs[1 - at]
        number = None if other is None else scalar(node.inputs[at], rank(other) or 0)
        if other is not None and number is not None:
            return _Operand(other, number)
    return None


RULES: tuple[Rule, ...] = (ToGelu(), HalvedToGelu(first=False), HalvedToGelu(first=True))
"""Rules of this module, in the order in which they are tried."""
