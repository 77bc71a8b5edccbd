"""Types of the operators in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..storage import Array, Shape

__all__ = ["Attributes", "Compute", "Operands"]

Attributes = Mapping[str, Any]
"""By name: numbers, texts, lists of them."""
Operands = Sequence[Array | None]
"""Arrays; None for omitted operands."""
Compute = Callable[[Attributes, Operands, Sequence[Shape]], Sequence[Array]]
"""Takes attributes, operands and the shapes of the results; gives the results, in their order.

There may be more results than a node has outputs. Functions of operators whose shapes depend on
data ignore the shapes.
"""
