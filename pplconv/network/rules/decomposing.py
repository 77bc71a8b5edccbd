"""Rewrites operators into others, by their rows (`operators.table`)."""

from __future__ import annotations

from typing import Any

from ..onnx_later import ir
from ..operators.table import ROWS
from ..operators.table_row import Decompose as Write
from .driver import OperatorRule, Rule

__all__ = ["EARLY_RULES", "RULES", "Decompose", "Unserved"]


class Unserved(Exception):
    """What a node has that is not rewritten."""


class Decompose(OperatorRule):
    """A node that is replaced as a whole.

    Parameters
    ----------
    name, operator, domain, outputs
        See `OperatorRule`.
    write : callable
        Takes a `GraphBuilder` and the node; gives the values that replace the node's first
        outputs, or None, if the node stays; it may raise `Unserved` instead.
    """

    def __init__(
        self, name: str, operator: str, write: Write, *, domain: str = "", outputs: int = 1
    ) -> None:
        super().__init__(name, operator, domain=domain, outputs=outputs)
        self.write = write

    def check(self, context: Any, x: ir.Value, y: ir.Value, **_: ir.Value) -> bool:
        """See `Rule`."""
        return True

    def rewrite(self, op: Any, x: ir.Value, y: ir.Value, **_: ir.Value) -> Any:
        """See `Rule`."""
        node = y.producer()
        assert node is not None
        try:
            made = self.write(op, node)
            if made is None:
                return None
            values = list(made) if isinstance(made, (tuple, list)) else [made]
            values += [None] * (self.outputs - len(values))
            for value, old in zip(values, node.outputs, strict=False):
                if value is None and (old.uses() or old.is_graph_output()):
                    raise Unserved(f"the output {old.name!r}")
        except Unserved as reason:
            self.leave(node, str(reason))
            return None
        return values[: self.outputs]

    def leave(self, node: ir.Node, reason: str) -> None:
        """Note why a node stays."""


def _rules(*, early: bool) -> tuple[Rule, ...]:
    return tuple(
        Decompose(row.decomposition.name, operator, row.decomposition.write, outputs=outputs)
        for operator, row in ROWS.items()
        if row.decomposition is not None and row.decomposition.early is early
        for outputs in range(row.decomposition.outputs, 0, -1)
    )


EARLY_RULES = _rules(early=True)
"""Rules that are applied once, before all other rules."""

RULES = _rules(early=False)
"""All other rules, in the order of the table."""
