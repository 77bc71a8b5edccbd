"""Inputs, outputs and texts as a model's graph declares them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .interface import Declared, Interface, ModelMetadata, NodeArg
from .onnx_later import ir
from .operators.table import row_of
from .python_values import is_container
from .size_names import kept_names
from .subgraphs import deciding_inputs

__all__ = [
    "declared",
    "dtype_of",
    "interface_of",
    "metadata_of",
    "names_of",
    "shape_inputs",
    "told",
]

_TYPES = {
    "bool": "tensor(bool)", "float16": "tensor(float16)", "float32": "tensor(float)",
    "float64": "tensor(double)", "int8": "tensor(int8)", "int16": "tensor(int16)",
    "int32": "tensor(int32)", "int64": "tensor(int64)", "uint8": "tensor(uint8)",
    "uint16": "tensor(uint16)", "uint32": "tensor(uint32)", "uint64": "tensor(uint64)",
    "object": "tensor(string)",
}  # fmt: skip


def declared(value: ir.Value) -> Declared:
    """Read what the network declares of an input."""
    shape = None if value.shape is None else _named(value)
    optional, sequence = _nesting(value)
    return Declared(value.name or "", dtype_of(value), shape, optional, sequence)


def _named(value: ir.Value) -> tuple[Any, ...]:
    """Give the sizes of a value, with the file's names of open ones."""
    claimed, _ = kept_names(value)
    sizes = tuple(value.shape or ())
    claimed = claimed if len(claimed) == len(sizes) else [None] * len(sizes)
    return tuple(
        size if isinstance(size, int) else name for size, name in zip(sizes, claimed, strict=True)
    )


def _nesting(value: ir.Value) -> tuple[bool, bool]:
    """Tell whether a value is optional, and whether it is a sequence."""
    kind = value.type
    optional = isinstance(kind, ir.OptionalType)
    if isinstance(kind, ir.OptionalType):
        kind = kind.elem_type
    return optional, isinstance(kind, ir.SequenceType)


def dtype_of(value: ir.Value) -> np.dtype[Any]:
    """Type of the elements of an input."""
    return np.dtype(value.dtype.numpy() if value.dtype is not None else np.float32)


def told(value: ir.Value, numbered: Mapping[str, str]) -> NodeArg:
    """Describe an input or an output.

    Parameters
    ----------
    value : ir.Value
        As `prepare` leaves it.
    numbered : mapping of str to str
        From `names_of`.
    """
    claimed, _ = kept_names(value)
    shape: list[int | str | None] = []
    for axis, dimension in enumerate(value.shape or claimed):
        if isinstance(dimension, int):
            shape.append(dimension)
            continue
        known = numbered.get(getattr(dimension, "value", None) or "")
        shape.append(known or (claimed[axis] if axis < len(claimed) else None))
    kind = value.dtype.numpy().name if value.dtype is not None else "float32"
    text = _TYPES.get(kind, f"tensor({kind})")
    optional, sequence = _nesting(value)
    text = f"seq({text})" if sequence else text
    return NodeArg(value.name or "", shape, f"optional({text})" if optional else text)


def names_of(graph: ir.Graph) -> dict[str, str]:
    """Give the file's names of open sizes of inputs, by `prepare`'s numbered names."""
    numbered: dict[str, str] = {}
    for value in graph.inputs:
        numbered.update(kept_names(value)[1])
    return numbered


def metadata_of(model: ir.Model) -> ModelMetadata:
    """Read what a model says of itself."""
    return ModelMetadata(
        model.producer_name or "", model.graph.name or "", model.domain or "",
        model.doc_string or "", model.graph.doc_string or "", model.model_version or 0,
        dict(model.metadata_props),
    )  # fmt: skip


def shape_inputs(graph: ir.Graph) -> frozenset[str]:
    """Name the inputs that serve a node as shape, axes or the like, or that choose its branch."""
    shapes = {
        value.name or ""
        for value in graph.inputs
        for node, operand in value.uses()
        if operand in row_of(node.op_type).shapes
    }
    conditions = [node.inputs[0] for node in graph if node.op_type == "If" and not node.domain]
    deciding = [deciding_inputs(condition) or () for condition in conditions]
    return frozenset(shapes | {value.name or "" for values in deciding for value in values})


def interface_of(model: ir.Model) -> Interface:
    """Describe a prepared model for its callers."""
    graph = model.graph
    numbered = names_of(graph)
    return Interface(
        [told(value, numbered) for value in graph.inputs],
        [told(value, numbered) for value in graph.outputs],
        [declared(value) for value in graph.inputs],
        frozenset(value.name or "" for value in graph.outputs if is_container(value)),
        shape_inputs(graph), metadata_of(model), sum(1 for _ in graph),
    )  # fmt: skip
