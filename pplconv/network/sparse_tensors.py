"""Sparse tensors of a model's file, expanded to dense ones before anything else reads them.

Shapes, indices and the memory of all dense tensors are checked before any is made.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import onnx
import onnx_ir as ir

from .checking import MAX_DEPTH
from .storage import Array
from .tensor_checking import check_tensor, describe_node, subgraphs

__all__ = ["expand_sparse"]

_MOST_BYTES = 2 << 30
"""Of all dense tensors together: onnxruntime's limit of one."""


def expand_sparse(model: onnx.ModelProto) -> onnx.ModelProto:
    """Replace sparse initializers, and the sparse values of Constants, by dense tensors.

    Parameters
    ----------
    model : onnx.ModelProto
        A parsed model, left as it is.

    Returns
    -------
    onnx.ModelProto
        The model itself if it has no sparse tensors.

    Raises
    ------
    ValueError
        If a sparse tensor contradicts itself, names an element twice or outside of its shape, or if
        all of them together are too large.
    """
    if not any(_found(model)):
        return model
    dense = onnx.ModelProto()
    dense.CopyFrom(model)
    left = _MOST_BYTES
    for owner in _found(dense):
        if isinstance(owner, onnx.GraphProto):
            for sparse in owner.sparse_initializer:
                where = f"the sparse initializer {sparse.values.name!r}"
                left = _reserved(sparse, where, left)
                owner.initializer.append(_expanded(sparse, where))
            owner.ClearField("sparse_initializer")
            continue
        for attribute in owner.attribute:
            if attribute.name == "sparse_value" and attribute.HasField("sparse_tensor"):
                where = f"the attribute 'sparse_value' of {describe_node(owner)}"
                left = _reserved(attribute.sparse_tensor, where, left)
                whole = _expanded(attribute.sparse_tensor, where)
                attribute.CopyFrom(onnx.helper.make_attribute("value", whole))
    return dense


def _found(model: onnx.ModelProto) -> Iterator[onnx.GraphProto | onnx.NodeProto]:
    """Yield the graphs with sparse initializers, and the Constants with sparse values."""
    yield from _of_graph(model.graph, 0)
    for function in model.functions:
        for node in function.node:
            yield from _of_node(node, 0)


def _of_graph(graph: onnx.GraphProto, depth: int) -> Iterator[onnx.GraphProto | onnx.NodeProto]:
    if graph.sparse_initializer:
        yield graph
    for node in graph.node:
        yield from _of_node(node, depth)


def _of_node(node: onnx.NodeProto, depth: int) -> Iterator[onnx.GraphProto | onnx.NodeProto]:
    if node.op_type == "Constant" and any(a.HasField("sparse_tensor") for a in node.attribute):
        yield node
    if depth < MAX_DEPTH:  # deeper models are refused later
        for graph in subgraphs(node):
            yield from _of_graph(graph, depth + 1)


def _reserved(sparse: onnx.SparseTensorProto, where: str, left: int) -> int:
    """Check all of a sparse tensor but its indices' numbers; give the bytes that are left."""
    values, indices = sparse.values, sparse.indices
    for part, tensor in (("values", values), ("indices", indices)):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            raise ValueError(f"model keeps the {part} of {where} in another file: not supported")
        check_tensor(tensor)
    dims = list(sparse.dims)
    if any(size < 0 for size in dims):
        raise ValueError(f"model has a negative size in {where}: {dims}")
    if len(values.dims) != 1:
        raise ValueError(f"model has values of the shape {list(values.dims)} in {where}")
    count = values.dims[0]
    if list(indices.dims) not in ([count], [count, len(dims)]):
        raise ValueError(
            f"model has indices of the shape {list(indices.dims)} in {where}, expected [{count}] "
            f"or [{count}, {len(dims)}]"
        )
    if indices.data_type != onnx.TensorProto.INT64:
        raise ValueError(f"model has indices of {where} that are not int64")
    dtype = ir.DataType(values.data_type)
    width = 64 if dtype == ir.DataType.STRING else dtype.bitwidth
    size: int = math.prod(dims) * width // 8
    if size > left:
        raise ValueError(
            f"model has {where} of the shape {dims}, {size} bytes as a dense tensor: all of them "
            f"may take {_MOST_BYTES}"
        )
    return left - size


def _expanded(sparse: onnx.SparseTensorProto, where: str) -> onnx.TensorProto:
    """Make the dense tensor of a checked one."""
    dims = tuple(sparse.dims)
    values = ir.from_proto(sparse.values)
    places = _places(ir.from_proto(sparse.indices).numpy(), dims, where)
    name = sparse.values.name
    if values.dtype == ir.DataType.STRING:
        texts = [b""] * math.prod(dims)
        for place, text in zip(places.tolist(), sparse.values.string_data, strict=True):
            texts[place] = text
        return onnx.helper.make_tensor(name, onnx.TensorProto.STRING, dims, texts)
    array = values.numpy()
    whole = np.zeros(math.prod(dims), array.dtype)
    whole[places] = array
    return ir.to_proto(ir.Tensor(whole.reshape(dims), dtype=values.dtype, name=name))


def _places(indices: Array, dims: tuple[int, ...], where: str) -> Array:
    """Give the place of each element in the flat dense tensor."""
    sizes = np.array(dims if indices.ndim == 2 else [math.prod(dims)], np.int64)
    rows = indices.reshape(len(indices), len(sizes))
    outside = ((rows < 0) | (rows >= sizes)).any(axis=1)
    if outside.any():
        index = rows[outside][0].tolist()
        raise ValueError(f"model has the index {index} in {where}, outside of {list(dims)}")
    steps = np.array([math.prod(sizes[axis + 1 :].tolist()) for axis in range(len(sizes))])
    places: Array = (rows * steps.astype(np.int64)).sum(axis=1)
    if len(np.unique(places)) < len(places):
        raise ValueError(f"model has an index twice in {where}")
    return places
