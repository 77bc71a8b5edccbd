"""Functions of arrays for nodes that no loop serves: of `numpy_operators`, or ONNX's reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .lone_steps import Alone, in_loops
from .nodes import Node
from .numpy_operators.sequence_values import TAKERS
from .numpy_operators.types import Compute
from .operators.table import row_of
from .operators.table_row import Python
from .refusals import check_arrays
from .storage import Array, Shape

__all__ = ["function_of"]


def function_of(
    node: Node, shapes: Sequence[Shape], alone: Alone | None = None
) -> Callable[..., Sequence[Any]]:
    """Give the function that computes a node in Python.

    Parameters
    ----------
    node : Node
        A node that no loop serves.
    shapes : sequence of tuple of int
        Of its results; empty if they depend on data.
    alone : Alone, optional
        For nodes at a cut, which loops may serve once they see the operands.

    Returns
    -------
    callable
        Takes an array for each name that the node reads, once each, in their order; gives those of
        the names that it writes.

    Raises
    ------
    ValueError
        If ONNX's reference cannot run the node.
    """
    python = row_of(node.op).python
    assert python is not Python.NOBODY, f"{node.op} was made where no loop serves it"
    if isinstance(python, Python):
        # Imported here: ONNX's reference takes as long to import as all else.
        from .reference_functions import reference_function

        call = reference_function(node)
    else:
        call = _in_numpy(python, node, shapes)
    return call if alone is None else in_loops(node, call, alone)


def _in_numpy(compute: Compute, node: Node, shapes: Sequence[Shape]) -> Callable[..., Any]:
    names = list(dict.fromkeys(name for name in node.inputs if name))
    places = [names.index(name) if name else None for name in node.inputs]
    attributes, takes_arrays = node.attributes, node.op not in TAKERS

    def call(*arrays: Array) -> Sequence[Any]:
        operands = [None if place is None else arrays[place] for place in places]
        if takes_arrays:
            check_arrays(names, arrays)
        results = compute(attributes, operands, shapes)
        # Outputs that nobody wants have no name, or are missing.
        return [result for name, result in zip(node.outputs, results, strict=False) if name]

    return call
