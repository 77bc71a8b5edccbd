"""`Pieces`: rules that take onnxruntime's own operators apart, into ONNX's."""

from __future__ import annotations

from ..onnx_later import ir
from ..operators.table_row import Decompose as Write
from ..quantized_values import MICROSOFT
from .decomposing import Decompose, Unserved
from .driver import Rule

__all__ = ["UNSERVED", "Unserved", "inputs_of", "pieces"]

UNSERVED = "pplconv.unserved"
"""Metadata of a node that no rule serves: why."""


def inputs_of(node: ir.Node) -> list[ir.Value | None]:
    """Give the inputs of a node, omitted ones as None."""
    return [*node.inputs, *[None] * (16 - len(node.inputs))]


class Pieces(Decompose):
    """An operator of onnxruntime's domain.

    Types and ranks of the inputs are often unknown yet, as ONNX infers nothing of these operators.
    """

    def __init__(self, operator: str, write: Write, outputs: int) -> None:
        name = f"{operator} in pieces"
        super().__init__(name, operator, write, domain=MICROSOFT, outputs=outputs)

    def leave(self, node: ir.Node, reason: str) -> None:
        """See `Decompose`: for the message that refuses the node."""
        node.metadata_props[UNSERVED] = reason


def pieces(operator: str, write: Write, most: int = 1) -> list[Rule]:
    """Give the rules for an operator with at most so many outputs."""
    return [Pieces(operator, write, outputs) for outputs in range(most, 0, -1)]
