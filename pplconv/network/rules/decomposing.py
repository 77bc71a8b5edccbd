"""Rewrites operators into others, by their rows (`operators.table`)."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from ..operators.table import ROWS
from ..operators.table_row import Decomposition
from .driver import Rule

__all__ = ["EARLY_RULES", "RULES"]


class Decompose(Rule):
    """A node whose first output alone is used."""

    def __init__(self, operator: str, decomposition: Decomposition) -> None:
        super().__init__(decomposition.name, operator)
        self.operator, self.write = operator, decomposition.write

    def pattern(self, op: Any, x: Any) -> Any:
        """See `Rule`."""
        return getattr(op, self.operator)(x, _allow_other_inputs=True, _outputs=["y"])

    def check(self, context: Any, x: ir.Value, y: ir.Value) -> bool:
        """See `Rule`."""
        others = y.producer().outputs[1:]
        return not any(value.uses() or value.is_graph_output() for value in others)

    def rewrite(self, op: Any, x: ir.Value, y: ir.Value) -> Any:
        """See `Rule`."""
        return self.write(op, y.producer())


def _rules(*, early: bool) -> tuple[Rule, ...]:
    return tuple(
        Decompose(operator, row.decomposition)
        for operator, row in ROWS.items()
        if row.decomposition is not None and row.decomposition.early is early
    )


EARLY_RULES = _rules(early=True)
"""Rules that are applied once, before all other rules."""

RULES = _rules(early=False)
"""All other rules, in the order of the table."""
