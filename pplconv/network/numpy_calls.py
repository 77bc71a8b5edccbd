"""`NumpyCall`: a node that NumPy computes, as a function of arrays that a file can hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any

from .._records import record
from .nodes import Node
from .numpy_operators.sequence_values import TAKERS
from .operators.table import row_of
from .operators.table_row import Python
from .refusals import check_arrays
from .storage import Array, Shape

__all__ = ["NumpyCall"]


@record(frozen=True)
class NumpyCall:
    """The function of a node that one of `numpy_operators` computes.

    Takes an array for each name that the node reads, once each, in their order; gives those of the
    names that it writes.

    Parameters
    ----------
    node : Node
        The node.
    shapes : sequence of tuple of int
        Of its results; empty if they depend on data.

    Raises
    ------
    ValueError
        If NumPy does not compute the operator.
    """

    node: Node
    shapes: Sequence[Shape]
    # What the calls need, found once.
    _compute: Any = field(init=False)
    _names: list[str] = field(init=False)
    _places: list[int | None] = field(init=False)

    def __post_init__(self) -> None:
        compute = row_of(self.node.op).python
        if isinstance(compute, Python):
            raise ValueError(f"NumPy does not compute {self.node.op!r}")
        names = list(dict.fromkeys(name for name in self.node.inputs if name))
        places = [names.index(name) if name else None for name in self.node.inputs]
        for name, value in (("_compute", compute), ("_names", names), ("_places", places)):
            object.__setattr__(self, name, value)

    def __call__(self, *arrays: Array) -> Sequence[Any]:
        """Compute the node.

        Raises
        ------
        ValueError
            If the operands do not fit.
        """
        operands = [None if place is None else arrays[place] for place in self._places]
        if self.node.op not in TAKERS:
            check_arrays(self._names, arrays)
        results = self._compute(self.node.attributes, operands, self.shapes)
        # Outputs that nobody wants have no name, or are missing.
        return [result for name, result in zip(self.node.outputs, results, strict=False) if name]
