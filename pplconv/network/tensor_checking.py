"""Finds the tensors of a parsed model, and compares their data with their shapes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from functools import partial

import onnx
import onnx_ir as ir

from .texts import printable

__all__ = ["check_tensor", "describe_node", "iterate_tensors", "subgraphs"]


def iterate_tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Yield all tensors of a model: initializers and attributes, also of subgraphs and functions.

    Parameters
    ----------
    model : onnx.ModelProto
        A model whose nesting is within `MAX_DEPTH`.

    Yields
    ------
    onnx.TensorProto
    """
    yield from _graph_tensors(model.graph)
    for function in model.functions:
        yield from _node_tensors(function.node)
        for attribute in function.attribute_proto:
            named = f"the local function {function.name!r}"
            yield from _attribute_tensors(attribute, partial(str, named))


def subgraphs(node: onnx.NodeProto) -> list[onnx.GraphProto]:
    """List the graphs among the attributes of a node.

    Parameters
    ----------
    node : onnx.NodeProto
        Any node.

    Returns
    -------
    list of onnx.GraphProto
    """
    found: list[onnx.GraphProto] = []
    for attribute in node.attribute:
        if attribute.HasField("g"):
            found.append(attribute.g)
        # Empty lists of a protobuf are slow to iterate.
        if attribute.graphs:
            found += attribute.graphs
    return found


def describe_node(node: onnx.NodeProto) -> str:
    """Name a node for a message.

    Parameters
    ----------
    node : onnx.NodeProto
        Any node.

    Returns
    -------
    str
        Its name, or that of its first output, and its operator.
    """
    return f"the node {node.name or next(iter(node.output), '')!r} ({printable(node.op_type)})"


def _graph_tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from graph.initializer
    yield from _node_tensors(graph.node)


def _node_tensors(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.TensorProto]:
    for node in nodes:
        for attribute in node.attribute:
            yield from _attribute_tensors(attribute, partial(describe_node, node))


def _attribute_tensors(
    attribute: onnx.AttributeProto, where: Callable[[], str]
) -> Iterator[onnx.TensorProto]:
    if attribute.HasField("sparse_tensor") or attribute.sparse_tensors:
        raise ValueError(f"model has a sparse tensor at {where()}: not supported")
    if attribute.HasField("t"):
        yield attribute.t
    if attribute.tensors:
        yield from attribute.tensors
    if attribute.HasField("g"):
        yield from _graph_tensors(attribute.g)
    if attribute.graphs:
        for graph in attribute.graphs:
            yield from _graph_tensors(graph)


def check_tensor(tensor: onnx.TensorProto) -> None:
    """Refuse a tensor whose data do not have its shape's length.

    Parameters
    ----------
    tensor : onnx.TensorProto
        Any tensor; `external_data` checks the length of external data.

    Raises
    ------
    ValueError
        If shape, type and data contradict one another.
    """
    name = f"the tensor {tensor.name!r}"
    if any(size < 0 for size in tensor.dims):
        raise ValueError(f"model has a negative size in {name}: {list(tensor.dims)}")
    count = math.prod(tensor.dims)
    if tensor.HasField("segment"):
        raise ValueError(f"model stores {name} in segments, which is not supported")
    try:
        dtype = ir.DataType(tensor.data_type)
    except ValueError:
        raise ValueError(f"model has the unknown type {tensor.data_type} in {name}") from None
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        return  # `external_data` compares it with its file
    if dtype == ir.DataType.STRING:
        found, expected = len(tensor.string_data), count
    elif dtype == ir.DataType.UNDEFINED:
        raise ValueError(f"model has no type in {name}")
    elif tensor.HasField("raw_data"):
        found, expected = len(tensor.raw_data), (count * dtype.bitwidth + 7) // 8
    else:
        found, expected = _typed_entries(tensor, dtype, count)
    if found != expected:
        raise ValueError(
            f"model declares the shape {list(tensor.dims)} for {name}, whose data has {found} "
            f"entries or bytes instead of {expected}"
        )


def _typed_entries(tensor: onnx.TensorProto, dtype: ir.DataType, count: int) -> tuple[int, int]:
    """Number of entries in a type's field, and the required number."""
    if dtype == ir.DataType.FLOAT:
        return len(tensor.float_data), count
    if dtype == ir.DataType.COMPLEX64:
        return len(tensor.float_data), 2 * count
    if dtype == ir.DataType.DOUBLE:
        return len(tensor.double_data), count
    if dtype == ir.DataType.COMPLEX128:
        return len(tensor.double_data), 2 * count
    if dtype == ir.DataType.INT64:
        return len(tensor.int64_data), count
    if dtype in (ir.DataType.UINT32, ir.DataType.UINT64):
        return len(tensor.uint64_data), count
    if dtype.bitwidth < 8:
        return len(tensor.int32_data), (count * dtype.bitwidth + 7) // 8
    return len(tensor.int32_data), count
