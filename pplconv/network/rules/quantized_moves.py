"""Moves DequantizeLinear after moves of elements, and removes pairs without effect.

The moves then handle integers, a quarter of the bytes. Values do not change: each element is
dequantized separately, and the integers have the same order as the numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from ..integer_nodes import dequantized
from ..operators.table import ROWS
from ..operators.table_row import Moves
from ..quantized_values import Quantization, quantization_of
from ..values import is_constant, only_first_used
from .driver import OperatorRule, Rule
from .integer_fusing import stored_as

__all__ = ["RULES"]


class Behind(OperatorRule):
    """A DequantizeLinear before an operator that moves elements."""

    def __init__(self, operator: str) -> None:
        super().__init__("DequantizeLinear behind what moves", operator, above="DequantizeLinear")

    def check(self, context: Any, x: ir.Value, y: ir.Value) -> bool:
        """See `Rule`."""
        node = y.producer()
        if dequantized(x) is None or y.dtype != ir.DataType.FLOAT or y.shape is None:
            return False
        if not only_first_used(node):
            return False
        return ROWS[self.operator].moves_if(node)

    def rewrite(self, op: Any, x: ir.Value, y: ir.Value) -> Any:
        """See `Rule`."""
        found, node, old = dequantized(x), y.producer(), x.producer()
        assert found is not None and old is not None
        integers, quantization = found
        rest = list(node.inputs[1:])
        if self.operator == "Pad":
            # The padding value must dequantize to zero.
            zero = np.asarray(quantization.one_zero, quantization.dtype)
            padding = op.initializer(ir.tensor(zero), name=f"{y.name}_zero")
            rest = [*rest, None, None, None][:3]
            rest[1] = padding
        moved = op.op(self.operator, integers, *rest, **dict(node.attributes.items()))
        moved.type, moved.shape = ir.TensorType(integers.dtype), y.shape
        return op.DequantizeLinear(moved, *old.inputs[1:], **dict(old.attributes.items()))


class BehindConcat(Rule):
    """A Concat of values with the same quantization."""

    def __init__(self) -> None:
        super().__init__("DequantizeLinear behind what moves", "Concat", above="DequantizeLinear")

    def pattern(self, op: Any, x: Any) -> Any:
        """See `Rule`."""
        return op.Concat(x, _allow_other_inputs=True, _outputs=["y"])

    def check(self, context: Any, x: ir.Value, y: ir.Value) -> bool:
        """See `Rule`."""
        found = _all_dequantized(y.producer())
        return found is not None and all(found[0][1].is_same(other) for _, other in found)

    def rewrite(self, op: Any, x: ir.Value, y: ir.Value) -> Any:
        """See `Rule`."""
        node, old = y.producer(), x.producer()
        found = _all_dequantized(node)
        assert found is not None and old is not None
        joined = op.Concat(*(integers for integers, _ in found), **dict(node.attributes.items()))
        joined.type, joined.shape = ir.TensorType(found[0][0].dtype), y.shape
        return op.DequantizeLinear(joined, *old.inputs[1:], **dict(old.attributes.items()))


class BeforeConcat(Rule):
    """A QuantizeLinear of joined dequantized values: each is converted separately."""

    def __init__(self) -> None:
        super().__init__("QuantizeLinear before Concat", "QuantizeLinear", above="Concat")

    def pattern(self, op: Any, x: Any) -> Any:
        """See `Rule`."""
        joined = op.Concat(x, _allow_other_inputs=True, _outputs=["y"])
        return op.QuantizeLinear(joined, _allow_other_inputs=True, _outputs=["z"])

    def check(self, context: Any, x: ir.Value, y: ir.Value, z: ir.Value) -> bool:
        """See `Rule`."""
        return stored_as(z) is not None and _all_dequantized(y.producer()) is not None

    def rewrite(self, op: Any, x: ir.Value, y: ir.Value, z: ir.Value) -> Any:
        """See `Rule`."""
        node = z.producer()
        parts = []
        for value in y.producer().inputs:
            part = op.QuantizeLinear(value, *node.inputs[1:], **dict(node.attributes.items()))
            part.type, part.shape = ir.TensorType(z.dtype), value.shape
            parts.append(part)
        return op.Concat(*parts, **dict(y.producer().attributes.items()))


def _all_dequantized(node: ir.Node) -> list[tuple[ir.Value, Quantization]] | None:
    found = [pair for value in node.inputs if (pair := dequantized(value)) is not None]
    return found if found and len(found) == len(node.inputs) else None


class Pair(Rule):
    """A QuantizeLinear of values dequantized with the same scale and zero point."""

    def __init__(self) -> None:
        super().__init__(
            "pair of DequantizeLinear and QuantizeLinear", "QuantizeLinear",
            above="DequantizeLinear",
        )  # fmt: skip

    def pattern(self, op: Any, x: Any) -> Any:
        """See `Rule`."""
        return op.QuantizeLinear(x, _allow_other_inputs=True, _outputs=["z"])

    def check(self, context: Any, x: ir.Value, z: ir.Value) -> bool:
        """See `Rule`."""
        found, stored = dequantized(x), stored_as(z)
        return found is not None and found[1].is_same(stored)

    def rewrite(self, op: Any, x: ir.Value, z: ir.Value) -> Any:
        """See `Rule`."""
        found = dequantized(x)
        assert found is not None
        return found[0]


class Shared(Rule):
    """A QuantizeLinear or DequantizeLinear that repeats another one."""

    def __init__(self, operator: str) -> None:
        super().__init__(f"{operator} twice", operator)
        self.operator = operator

    def pattern(self, op: Any, x: Any) -> Any:
        """See `Rule`."""
        return getattr(op, self.operator)(x, _allow_other_inputs=True, _outputs=["z"])

    def check(self, context: Any, x: ir.Value, z: ir.Value) -> bool:
        """See `Rule`."""
        return not is_constant(x) and self._other(x, z) is not None

    def rewrite(self, op: Any, x: ir.Value, z: ir.Value) -> Any:
        """See `Rule`."""
        return self._other(x, z)

    def _other(self, x: ir.Value, z: ir.Value) -> ir.Value | None:
        """Give the output of the first such node, if it comes before this one."""
        own, node = quantization_of(z.producer()), z.producer()
        alike = [user for user, _ in x.uses() if user.op_type == self.operator and not user.domain]
        if own is None or node is None or node.graph is None or len(alike) < 2:
            return None
        same = {id(user) for user in alike if own.is_same(quantization_of(user))}
        first = next(other for other in node.graph if id(other) in same)
        output: ir.Value = first.outputs[0]
        return output if first is not node else None


RULES: tuple[Rule, ...] = (
    Shared("QuantizeLinear"),
    Shared("DequantizeLinear"),
    Pair(),
    *(Behind(operator) for operator, row in ROWS.items() if row.moves is Moves.FIRST),
    BehindConcat(),
    BeforeConcat(),
)
"""Rules of this module, in the order in which they are tried."""
