"""`Row`: the facts of an operator that the network's passes use.

No field has a default: if a row lacks a field, `table` cannot be imported.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

from ..._records import NamedTuple, record
from ..builder import Builder
from ..nodes import Graph, Node
from ..numpy_operators.types import Compute
from ..onnx_later import ir
from .expressions import Write
from .row_reach import RowRule

__all__ = [
    "Batches", "Decompose", "Decomposition", "Flops", "Format", "Layout", "Loops", "Lower",
    "Moves", "Python", "Row", "Serves", "View", "always", "either",
]  # fmt: skip

Lower = Callable[[Node, Builder, Graph], None]
Serves = Callable[[Node, Graph], bool]
Batches = Callable[[Node, Graph, set[str]], bool]
Flops = Callable[[Node, Graph], int]
Decompose = Callable[[Any, "ir.Node"], Any]


class Loops(NamedTuple):
    """The lowering of an operator to steps, and the condition for a node.

    Parameters
    ----------
    lower : callable
        Adds the steps of a node, or makes its results views of its inputs.
    serves : callable
        Whether it can lower a node.
    """

    lower: Lower
    serves: Serves


def either(first: Loops, second: Loops) -> Loops:
    """Combine two kinds of loops: the first kind is preferred where both serve a node."""

    def lower(node: Node, builder: Builder, graph: Graph) -> None:
        (first if first.serves(node, graph) else second).lower(node, builder, graph)

    return Loops(lower, lambda node, graph: first.serves(node, graph) or second.serves(node, graph))


class Python(Enum):
    """The Python fallback of an operator without loops and without a function in NumPy."""

    NOBODY = "a node of pplconv, which is made where loops serve it"
    REFERENCE = "ONNX's reference"


class Format(Enum):
    """How half precision spreads over a network."""

    LEADS = "loops compute in half precision: where weights are known, they begin it"
    FOLLOWS = "loops load and store float16: taken where most of the inputs are there in it"
    SUMS = "loops add up in float32: results are float32, of inputs of float32 or bfloat16"
    SINGLE = "float32, as loops of float16 are missing, or sums would overflow"


class Layout(Enum):
    """The layout of images that loops require, and the layout of results."""

    PRICED = "pixels or planes, each at a price: the planner's cost model"
    FREE = "pixels or planes, as the inputs do"
    KEPT = "as the first input does"
    PLANES = "planes: elements are in the order of ONNX"
    ANY = "results lie as the input does, or as their readers want"
    PIXELS = "pixels: channels beside one another"
    PYTHON = "inputs may lie in any way, results are planes, as those of steps in Python"


class View(Enum):
    """Whether results are views of the first input, without a copy."""

    NO = "results are computed or copied"
    STRIDED = "elements of the input with other strides"
    RESHAPED = "all elements of the input in the same order"


class Moves(Enum):
    """The operands that an operator only moves: it changes no element, and adds only zeros.

    Results may stay quantized, with the same scale and zero point.
    """

    NOTHING = "it computes"
    FIRST = "the first operand; all other ones say where to"
    ALL = "all operands"


class Decomposition(NamedTuple):
    """A rewrite of an operator into others, before compilation.

    Parameters
    ----------
    name : str
        Name of the rule in reports.
    early : bool
        Whether it is applied once before all other rules, else among those that simplify.
    write : callable
        Takes a `GraphBuilder` and the node; gives the value that replaces its first output, or
        those of its first outputs, or None if the node stays. All other outputs are unused.
    outputs : int
        Most outputs that it replaces.
    """

    name: str
    early: bool
    write: Decompose
    outputs: int = 1


@record(frozen=True, kw_only=True, eq=False)
class Row:
    """The facts of an operator that the network's passes use.

    Parameters
    ----------
    loops : Loops or None
        Its lowering; None if it is an expression, or only Python computes it.
    expression : callable or None
        Writes it as instructions of the element-wise engine, if it is element-wise.
    of_integers : bool
        Whether these instructions compute integers as well.
    python : Compute or Python
        Fallback for nodes that no loop serves: a function of `numpy_operators`, where ONNX's
        reference errs, is slow or missing, or a member of `Python`.
    decomposition : Decomposition or None
        Its rewrite into other operators, if there is one.
    batches : callable
        Whether a node computes each image of a batch from the same image alone: see `batching`.
    format : Format
        How half precision spreads over it.
    arrays : int or None
        Number of leading inputs that are stored in the node's format; later inputs keep the
        model's type. None: all.
    rows : callable or None
        How a node can be cut into bands of rows: see `row_rules`. None: it needs whole images.
    layout : Layout
        Layout of images.
    view : View
        Whether its results are views.
    moves : Moves
        Operands that it only moves.
    moves_if : callable
        Whether a node only moves them; not asked if `moves` is NOTHING.
    shapes : tuple of int
        Operands that decide shapes of results: inputs of a network that are read there become
        constants before it is compiled.
    flops : callable
        Estimates the floating-point operations of a node.
    planned : bool
        Whether a node needs a plan, whose search takes time.
    widens : bool
        Whether loops give float32 for arrays of bfloat16, too.
    """

    loops: Loops | None
    expression: Write | None
    of_integers: bool
    python: Compute | Python
    decomposition: Decomposition | None
    batches: Batches
    format: Format
    arrays: int | None
    rows: RowRule | None
    layout: Layout
    view: View
    moves: Moves
    moves_if: Callable[[ir.Node], bool]
    shapes: tuple[int, ...]
    flops: Flops
    planned: bool
    widens: bool

    def is_served(self, node: Node, graph: Graph) -> bool:
        """Whether loops compute a node, outside element-wise chains."""
        return self.loops is not None and self.loops.serves(node, graph)


def always(*_: Any) -> bool:
    """True for every node."""
    return True
