"""What the network's passes know of an operator: one `Row` of `table` each.

A field has no default: a row that leaves one out cannot be made, and `table` cannot be imported.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

import onnx_ir as ir

from ..builder import Builder
from ..nodes import Graph, Node
from ..numpy_operators.types import Compute
from .expressions import Write

__all__ = [
    "Batches", "Decompose", "Decomposition", "Flops", "Format", "Layout", "Loops", "Lower",
    "Moves", "Python", "Row", "Serves", "View", "always", "either",
]  # fmt: skip

Lower = Callable[[Node, Builder, Graph], None]
Serves = Callable[[Node, Graph], bool]
Batches = Callable[[Node, Graph, set[str]], bool]
Flops = Callable[[Node, Graph], int]
Decompose = Callable[[Any, ir.Node], Any]


class Loops(NamedTuple):
    """How an operator becomes steps of a program, and which of its nodes do.

    Parameters
    ----------
    lower : callable
        Adds the steps of a node, or has its results be views of its inputs.
    serves : callable
        Whether it can.
    """

    lower: Lower
    serves: Serves


def either(first: Loops, second: Loops) -> Loops:
    """Give loops of two kinds as one: the first are taken where both serve a node."""

    def lower(node: Node, builder: Builder, graph: Graph) -> None:
        (first if first.serves(node, graph) else second).lower(node, builder, graph)

    return Loops(lower, lambda node, graph: first.serves(node, graph) or second.serves(node, graph))


class Python(Enum):
    """Who computes a node in Python that no loop serves, where it is not a function of NumPy."""

    NOBODY = "a node of pplconv, which is made where loops serve it"
    REFERENCE = "ONNX's reference"


class Format(Enum):
    """How half precision spreads over a network."""

    LEADS = "loops compute in half precision: where weights are known, they begin it"
    FOLLOWS = "loops load and store float16: taken where most of the inputs are there in it"
    SINGLE = "float32, as loops of float16 are missing, or sums would overflow"


class Layout(Enum):
    """How images have to lie for loops, and how they lie in the results."""

    PRICED = "pixels or planes, each at a price: the planner's cost model"
    FREE = "pixels or planes, as the inputs do"
    KEPT = "as the first input does"
    PLANES = "planes: elements are in the order of ONNX"
    ANY = "results lie as the input does, or as their readers want"
    PIXELS = "pixels: channels beside one another"
    PYTHON = "inputs may lie in any way, results are planes"


class View(Enum):
    """Whether results are views of the first input, for which nothing is copied."""

    NO = "results are computed or copied"
    STRIDED = "elements of the input with other strides"
    RESHAPED = "all elements of the input in the same order"


class Moves(Enum):
    """Which operands an operator only moves, and neither changes nor adds to, zeros excepted.

    Their results may stay quantized, with the same scale and zero point.
    """

    NOTHING = "it computes"
    FIRST = "the first operand; all other ones say where to"
    ALL = "all operands"


class Decomposition(NamedTuple):
    """How an operator is written in terms of other ones, before there is a program.

    Parameters
    ----------
    name : str
        What the rule is counted under.
    early : bool
        Whether it is applied once before all other rules, else among those that simplify.
    write : callable
        Takes onnxscript's builder and the node; gives the value that replaces its first output,
        all others being unused, or None where the node stays as it is.
    """

    name: str
    early: bool
    write: Decompose


@dataclass(frozen=True, kw_only=True, eq=False)
class Row:
    """What the network's passes know of an operator.

    Parameters
    ----------
    loops : Loops or None
        How it becomes steps; None if it is an expression, or only Python computes it.
    expression : callable or None
        Writes it as instructions of the element-wise engine, if it is element-wise.
    python : Compute or Python
        Who computes the nodes that no loop serves: a function of `numpy_operators`, where ONNX's
        reference errs, is slow or missing, or one of `Python`.
    decomposition : Decomposition or None
        How it is written in terms of other operators, if it may be.
    batches : callable
        Whether a node computes each image of a batch from the same image alone: see `batching`.
    format : Format
        How half precision spreads over it.
    arrays : int or None
        How many inputs are stored in the node's format; those that follow are numbers of their
        own, in the type that the model has them in. None: all.
    layout : Layout
        How images have to lie.
    view : View
        Whether its results are views.
    moves : Moves
        Which operands it only moves.
    moves_if : callable
        Whether a node does so; asked unless `moves` is NOTHING.
    shapes : tuple of int
        Operands that shapes of results follow from: inputs of a network that are read there are
        known before it is compiled.
    flops : callable
        Estimates the floating-point operations of a node.
    planned : bool
        Whether a node asks for a plan, whose search takes time.
    """

    loops: Loops | None
    expression: Write | None
    python: Compute | Python
    decomposition: Decomposition | None
    batches: Batches
    format: Format
    arrays: int | None
    layout: Layout
    view: View
    moves: Moves
    moves_if: Callable[[ir.Node], bool]
    shapes: tuple[int, ...]
    flops: Flops
    planned: bool

    def is_served(self, node: Node, graph: Graph) -> bool:
        """Whether loops compute a node, chains of element-wise operators aside."""
        return self.loops is not None and self.loops.serves(node, graph)


def always(*_: Any) -> bool:
    """Say yes, whatever the node."""
    return True
