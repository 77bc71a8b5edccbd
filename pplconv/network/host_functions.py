"""Functions of arrays for nodes that no loop serves: of `numpy_operators`, or ONNX's reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .lone_steps import Alone, in_loops
from .nodes import Node
from .numpy_calls import NumpyCall
from .operators.table import row_of
from .operators.table_row import Python
from .storage import Shape

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
        call = NumpyCall(node, shapes)
    return call if alone is None else in_loops(node, call, alone)
