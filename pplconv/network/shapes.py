"""Shapes of a graph's values: claimed by the file, and inferred."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy.typing as npt
import onnx
import onnx_ir as ir

from .node_checks import check_node
from .python_values import is_container
from .resizing import infer_resize
from .size_names import keep_names
from .subgraphs import all_nodes, subgraphs_of
from .texts import printable
from .values import describe, static_shape

__all__ = [
    "check_static", "forget_shapes", "make_constant", "set_input_shapes", "unknown_outputs"
]  # fmt: skip


def forget_shapes(graph: ir.Graph, *, inputs: bool) -> None:
    """Drop the shapes that a file claims: some files are wrong.

    Parameters
    ----------
    graph : ir.Graph
        Changed in place.
    inputs : bool
        Whether to name each unknown size of inputs, too, so that no two count as equal.
    """
    for node in all_nodes(graph):
        for value in node.outputs:
            if value.const_value is None:
                value.shape = None
        for inner in subgraphs_of(node):
            # State may have another shape in each turn.
            for value in inner.inputs:
                value.shape = None
    if not inputs:
        return
    count = 0
    for value in graph.inputs:
        if value.shape is None:
            continue
        keep_names(value, count)
        sizes: list[int | str] = []
        for size in value.shape:
            # Some files write -1 for a free size.
            if isinstance(size, int) and size >= 0:
                sizes.append(size)
            else:
                sizes.append(f"size_{count}")
                count += 1
        value.shape = ir.Shape(sizes)


def set_input_shapes(graph: ir.Graph, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Give the inputs of a graph their shapes.

    Parameters
    ----------
    graph : ir.Graph
        Changed in place.
    shapes : mapping
        A shape for each input; those of inputs with a fixed shape may be left out. Those of
        sequences and optionals are not looked at.

    Raises
    ------
    ValueError
        If one is missing, unknown, or contradicts the model's declaration.
    """
    names = [value.name for value in graph.inputs]
    unknown = sorted(set(shapes) - set(names))
    if unknown:
        raise ValueError(f"shapes names {unknown[0]!r}, but the model's inputs are {names}")
    for value in graph.inputs:
        name = str(value.name)
        if is_container(value):
            continue
        if name not in shapes:
            if static_shape(value) is None:
                raise ValueError(f"shapes has none for the input {name!r}")
            continue
        shape = tuple(int(size) for size in shapes[name])
        if any(size < 0 for size in shape):
            raise ValueError(f"shapes has a negative size for {name!r}: {shape}")
        _check_shape("shapes", value, shape)
        value.shape = ir.Shape(shape)


def _check_shape(argument: str, value: ir.Value, shape: tuple[int, ...]) -> None:
    if value.shape is None:
        return
    declared = [size if isinstance(size, int) else str(size) for size in value.shape]
    fits = len(declared) == len(shape) and all(
        isinstance(want, str) or want == size for want, size in zip(declared, shape, strict=True)
    )
    if not fits:
        raise ValueError(f"{argument} has {shape} for {value.name!r}, expected {tuple(declared)}")


def make_constant(graph: ir.Graph, name: str, array: npt.NDArray[Any]) -> None:
    """Turn an input into a constant.

    Parameters
    ----------
    graph : ir.Graph
        Changed in place.
    name : str
        Name of one of its inputs.
    array : array
        The value, of the input's type.

    Raises
    ------
    ValueError
        If there is no such input, or it has another type or shape.
    """
    values = {str(value.name): value for value in graph.inputs}
    if name not in values:
        raise ValueError(f"constants names {name!r}, but the model's inputs are {list(values)}")
    value = values.pop(name)
    tensor = ir.Tensor(array.copy(), name=name)
    if tensor.dtype != value.dtype:
        raise ValueError(f"constants has {tensor.dtype} for {name!r}, expected {value.dtype}")
    _check_shape("constants", value, array.shape)
    graph.inputs.clear()
    graph.inputs.extend(values.values())
    value.shape = ir.Shape(array.shape)
    value.const_value = tensor
    graph.register_initializer(value)


def check_static(model: ir.Model) -> None:
    """Check that all shapes are known and fit together.

    Parameters
    ----------
    model : ir.Model
        A folded model whose inputs have fixed shapes, without nodes that choose sizes.

    Raises
    ------
    ValueError
        If shapes contradict one another; the message names the node.
    """
    for node in model.graph:
        if unknown_outputs(model, node):
            raise ValueError(f"model has a result of unknown shape at {describe(node)}")
        check_node(node)


def unknown_outputs(model: ir.Model, node: ir.Node) -> bool:
    """Tell whether data decide the shape of a result.

    Parameters
    ----------
    model : ir.Model
        A folded model whose inputs have fixed shapes.
    node : ir.Node
        One of its nodes, whose operands have known shapes.

    Raises
    ------
    ValueError
        If the operands contradict one another; the message names the node.
    """
    for value in node.outputs:
        if not value.name or (not value.uses() and not value.is_graph_output()):
            continue
        if static_shape(value) is None or value.dtype is None:
            reason = _contradiction(model, node)
            if reason is not None:
                raise ValueError(reason)
            return True
    return False


def _contradiction(model: ir.Model, node: ir.Node) -> str | None:
    """Explain why no shape can be inferred for a node whose operands are known."""
    domain = node.domain
    if domain and domain not in ("ai.onnx.ml", "ai.onnx.preview"):
        return f"model has an operator of unknown shape at {describe(node)}"
    try:
        schema = onnx.defs.get_schema(node.op_type, model.opset_imports[domain], domain)
        types = {}
        data = {}
        for value in node.inputs:
            if value is None or value.type is None:
                continue
            types[value.name] = ir.serde.serialize_type(value.type)
            if value.shape is not None:
                ir.serde.serialize_shape_into(types[value.name], value.shape)
            if value.const_value is not None and value.const_value.size <= 64:
                data[value.name] = ir.serde.serialize_tensor(value.const_value)
        onnx.shape_inference.infer_node_outputs(schema, ir.serde.serialize_node(node), types, data)
        if node.op_type == "Resize" and not domain:
            infer_resize(node)
    except MemoryError:
        raise
    except Exception as error:
        text = [*str(error).strip().splitlines(), ""][0]
        return f"model has shapes that contradict at {describe(node)}: {printable(text)}"
    return None
