"""Values that programs of loops do not hold: sequences, optionals and texts.

They pass between nodes that run in Python: a sequence as a list of arrays, an optional as None or
its element, texts as an array of ``str`` objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from .onnx_later import ir
from .storage import Array, Item
from .subgraphs import reads_of

__all__ = [
    "Item", "arrays_in", "as_item", "copied", "is_container", "is_in_python", "passes_in_python",
    "type_of",
]  # fmt: skip


def is_container(value: ir.Value) -> bool:
    """Tell whether a value is a sequence or an optional."""
    return isinstance(value.type, (ir.SequenceType, ir.OptionalType))


def is_in_python(value: ir.Value) -> bool:
    """Tell whether a value is a sequence, an optional or text."""
    return is_container(value) or value.dtype == ir.DataType.STRING


def passes_in_python(node: ir.Node) -> bool:
    """Tell whether a node, or a subgraph of it, reads such a value, or whether it gives one."""
    return any(map(is_in_python, (*reads_of(node), *node.outputs)))


def as_item(result: Any) -> Item:
    """Give a result of a function in Python as an item; texts become ``str`` objects."""
    if result is None or isinstance(result, list):
        return result
    array = np.asarray(result)
    return array.astype(object) if array.dtype.kind in "SU" else array


def copied(item: Item) -> Item:
    """Copy the arrays of an item."""
    if isinstance(item, list):
        return [np.array(array, order="C") for array in item]
    return item if item is None else np.array(item, order="C")


def arrays_in(items: Iterable[Item]) -> Iterator[Array]:
    """Yield the arrays of items."""
    for item in items:
        if isinstance(item, list):
            yield from item
        elif item is not None:
            yield item


def type_of(item: Item) -> ir.TypeProtocol:
    """Give the type of an item of a value without a type; elements of empty ones are float32."""
    first = (item[0] if item else None) if isinstance(item, list) else item
    dtype = ir.DataType.FLOAT if first is None else ir.DataType.from_numpy(first.dtype)
    element = ir.TensorType(dtype)
    if isinstance(item, list):
        return ir.SequenceType(element)
    return ir.OptionalType(element) if item is None else element
