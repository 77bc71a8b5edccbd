"""Families of operators: constructors that fill in a kind's common fields of rows.

A family sets the fields that all its operators share. Fields that are easily forgotten, because
nothing fails without them, are required arguments: batches, formats, layouts, moves and shapes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..._lazy import functions_later
from ..nodes import Graph, Node
from ..numpy_operators.types import Compute
from . import batch_rules, costs, movement, row_rules, row_steps
from .elementwise_steps import LOADED
from .expressions import Write
from .table_row import (
    Batches,
    Decompose,
    Decomposition,
    Flops,
    Format,
    Layout,
    Loops,
    Lower,
    Moves,
    Python,
    Row,
    Serves,
    View,
    always,
)

if TYPE_CHECKING:
    from . import decompositions, integer_steps, recurrent
else:
    decompositions = functions_later(__package__, "decompositions")
    integer_steps = functions_later(__package__, "integer_steps")
    recurrent = functions_later(__package__, "recurrent")

__all__ = [
    "along_rows", "arithmetic", "blocks", "convolved", "decomposed", "images", "in_pairs",
    "in_python", "indexed", "integers", "looped", "ours", "product", "program", "recurrence",
    "reduced_otherwise", "reduction", "reshaped", "strided",
]  # fmt: skip


def _row(said: Mapping[str, Any], **usual: Any) -> Row:
    """Make a row from the operator's own fields, and the family's defaults for the others."""
    return Row(**{**usual, **said})


def in_python(
    python: Compute | Python = Python.REFERENCE, *, shapes: tuple[int, ...], **said: Any
) -> Row:
    """An operator without loops: images may have any layout, and nothing is only moved."""
    return _row(
        said, python=python, shapes=shapes, loops=None, expression=None, of_integers=False,
        decomposition=None, batches=batch_rules.mixed, format=Format.SINGLE, arrays=None,
        rows=None, layout=Layout.PYTHON, view=View.NO, moves=Moves.NOTHING, moves_if=always,
        flops=costs.moved, planned=False, widens=False,
    )  # fmt: skip


def decomposed(name: str, write: Decompose, *, early: bool, outputs: int = 1, **said: Any) -> Row:
    """An operator that is decomposed into others, where a decomposition exists."""
    rewrite = Decomposition(name, early, write, outputs)
    return in_python(shapes=(), decomposition=rewrite, **said)


def program(write: Write, **said: Any) -> Row:
    """An element-wise operator: instructions for floating point, else ONNX's reference."""
    return in_python(
        shapes=(), expression=write, batches=batch_rules.broadcast, format=Format.FOLLOWS, **said
    )


def arithmetic(write: Write, **said: Any) -> Row:
    """An element-wise operator whose instructions compute integers as well."""
    return program(write, of_integers=True, **said)


def in_pairs(op: str, write: Write, **said: Any) -> Row:
    """An element-wise operator of any number of operands."""
    decomposition = Decomposition(f"{op} of many operands", False, decompositions.in_pairs)
    return program(write, decomposition=decomposition, **said)


def looped(
    loops: Loops,
    *,
    batches: Batches,
    format: Format,
    layout: Layout,
    moves: Moves,
    shapes: tuple[int, ...],
    **said: Any,
) -> Row:
    """An operator of loops, else of ONNX's reference: without defaults."""
    return _row(
        said, loops=loops, batches=batches, format=format, layout=layout, moves=moves,
        shapes=shapes, expression=None, of_integers=False, python=Python.REFERENCE,
        decomposition=None, arrays=None, rows=None, view=View.NO, moves_if=always,
        flops=costs.moved, planned=False, widens=False,
    )  # fmt: skip


def reshaped(*shapes: int, layout: Layout = Layout.PLANES, **said: Any) -> Row:
    """Another shape of the same elements in the same order."""
    return looped(
        Loops(movement.lower_view, always), batches=batch_rules.reshaped, format=Format.FOLLOWS,
        layout=layout, moves=Moves.FIRST, shapes=shapes, view=View.RESHAPED, **said,
    )  # fmt: skip


def strided(
    loops: Loops, *, batches: Batches, layout: Layout, moves: Moves, shapes: tuple[int, ...],
    **said: Any,
) -> Row:  # fmt: skip
    """Elements of the input with other strides."""
    return looped(
        loops, batches=batches, format=Format.FOLLOWS, layout=layout, moves=moves, shapes=shapes,
        view=View.STRIDED, **said,
    )  # fmt: skip


def images(loops: Loops, *, format: Format, moves: Moves, **said: Any) -> Row:
    """An operator on each pixel separately."""
    said = {"layout": Layout.PIXELS, "shapes": (), "batches": batch_rules.images(), **said}
    return looped(loops, format=format, moves=moves, **said)


def convolved(loops: Loops, *added: int, layout: Layout, flops: Flops, **said: Any) -> Row:
    """A convolution with a plan; `added` are further inputs that are images."""
    said = {"rows": row_rules.windows(*added), **said}
    return looped(
        loops, batches=batch_rules.convolution(*added), format=Format.LEADS, layout=layout,
        moves=Moves.NOTHING, shapes=(), flops=flops, planned=True, **said,
    )  # fmt: skip


def product(loops: Loops, *, batches: Batches) -> Row:
    """A product of matrices with a plan."""
    return looped(
        loops, batches=batches, format=Format.LEADS, layout=Layout.PIXELS, moves=Moves.NOTHING,
        shapes=(), flops=costs.product, planned=True,
    )  # fmt: skip


def recurrence() -> Row:
    """LSTM, GRU and RNN, whose products have plans; the batch is not their first dimension."""
    return looped(
        Loops(recurrent.lower_recurrent, recurrent.serves_recurrent), batches=batch_rules.mixed,
        format=Format.SINGLE, layout=Layout.PIXELS, moves=Moves.NOTHING, shapes=(),
        flops=costs.recurrent, planned=True,
    )  # fmt: skip


def along_rows(lower: Lower, serves: Serves, batches: Batches, **said: Any) -> Row:
    """Softmax and normalization along rows."""
    return looped(
        Loops(lower, serves), batches=batches, format=Format.FOLLOWS, layout=Layout.PIXELS,
        moves=Moves.NOTHING, shapes=(), widens=True, **said,
    )  # fmt: skip


def reduction(
    kind: str, finish: str | None = None, *, shapes: tuple[int, ...] = (1,), **said: Any
) -> Row:
    """A reduction over some dimensions.

    Sums may overflow float16 before they are divided, so only comparisons use that format.
    """
    return looped(
        Loops(row_steps.reduction(kind, finish), row_steps.serves_reduction),
        batches=batch_rules.reduction,
        format=Format.FOLLOWS if kind in ("MAX", "MIN") else Format.SUMS, layout=Layout.ANY,
        moves=Moves.NOTHING, shapes=shapes, **said,
    )  # fmt: skip


def indexed(lower: Lower, serves: Serves, python: Compute, *, shapes: tuple[int, ...] = ()) -> Row:
    """An operator that reads or gives indices: operands may lie in any way."""
    return looped(
        Loops(lower, serves), batches=batch_rules.mixed, format=Format.SINGLE,
        layout=Layout.PYTHON, moves=Moves.NOTHING, shapes=shapes, python=python,
    )  # fmt: skip


def reduced_otherwise(op: str, python: Compute) -> Row:
    """A reduction of floating point by another one between element-wise steps, else in NumPy."""
    decomposition = Decomposition(
        f"{op} as another reduction", False, decompositions.reduction_of_programs
    )
    return in_python(python, shapes=(1,), decomposition=decomposition)


def integers(
    lower: Lower, serves: Serves = integer_steps.serves_always, *, batches: Batches, **said: Any
) -> Row:
    """Products of integers, and conversions from and to them."""
    said = {"layout": Layout.PIXELS, **said}
    return looped(
        Loops(lower, serves), batches=batches, format=Format.SINGLE, moves=Moves.NOTHING,
        shapes=(), **said,
    )  # fmt: skip


def ours(lower: Lower, serves: Serves = integer_steps.serves_always, **said: Any) -> Row:
    """A node of our own, made only where loops serve it."""
    return integers(lower, serves, python=Python.NOBODY, **said)


def blocks(op: str, lower: Lower, write: Decompose) -> Row:
    """Channels moved to pixels of a block, or back: one copy for floating point."""
    return images(
        Loops(lower, _plain_type), format=Format.SINGLE, moves=Moves.NOTHING, layout=Layout.ANY,
        decomposition=Decomposition(f"{op} of integers to Reshape, Transpose", False, write),
    )  # fmt: skip


def _plain_type(node: Node, graph: Graph) -> bool:
    return graph.dtypes[node.outputs[0]] in LOADED
