"""Rewrites operators into others, by their rows (`operators.table`)."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from ..operators.table import ROWS
from ..operators.table_row import Decomposition
from ..values import only_first_used
from .driver import OperatorRule, Rule

__all__ = ["EARLY_RULES", "RULES"]


class Decompose(OperatorRule):
    """A node whose first output alone is used."""

    def __init__(self, operator: str, decomposition: Decomposition) -> None:
        super().__init__(decomposition.name, operator)
        self.write = decomposition.write

    def check(self, context: Any, x: ir.Value, y: ir.Value) -> bool:
        """See `Rule`."""
        return only_first_used(y.producer())

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
