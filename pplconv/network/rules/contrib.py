"""`Pieces`: rules that take onnxruntime's own operators apart, into ONNX's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx_ir as ir

from ..quantized_values import MICROSOFT
from .driver import OperatorRule, Rule

__all__ = ["UNSERVED", "Unserved", "inputs_of", "pieces"]

UNSERVED = "pplconv.unserved"
"""Metadata of a node that no rule serves: why."""

Write = Callable[[Any, ir.Node], Any]


class Unserved(Exception):
    """What a node has that is not taken apart, for the message that refuses it."""


def inputs_of(node: ir.Node) -> list[ir.Value | None]:
    """Give the inputs of a node, omitted ones as None."""
    return [*node.inputs, *[None] * (16 - len(node.inputs))]


class Pieces(OperatorRule):
    """An operator of onnxruntime's domain.

    Parameters
    ----------
    operator : str
        Its name.
    write : callable
        Takes onnxscript's builder and the node; gives the values that replace its outputs, None for
        those that it does not compute. Raises `Unserved` if the node has to stay. Types and ranks
        of the inputs are often unknown yet, as ONNX infers nothing of these operators.
    outputs : int
        Outputs of the nodes.
    """

    def __init__(self, operator: str, write: Write, outputs: int) -> None:
        super().__init__(f"{operator} in pieces", operator, domain=MICROSOFT, outputs=outputs)
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
            values = list(made) if isinstance(made, (tuple, list)) else [made]
            values += [None] * (self.outputs - len(values))
            for value, old in zip(values, node.outputs, strict=False):
                if value is None and (old.uses() or old.is_graph_output()):
                    raise Unserved(f"the output {old.name!r}")
        except Unserved as reason:
            node.metadata_props[UNSERVED] = str(reason)
            return None
        return values[: self.outputs]


def pieces(operator: str, write: Write, most: int = 1) -> list[Rule]:
    """Give the rules for an operator with at most so many outputs."""
    return [Pieces(operator, write, outputs) for outputs in range(most, 0, -1)]
