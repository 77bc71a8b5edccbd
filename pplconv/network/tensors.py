"""Weights as arrays: taken out of the protobuf, or mapped from files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from ..memory.mapping import map_file, release_all, unchanged
from .onnx_later import ir
from .subgraphs import all_nodes, subgraphs_of

__all__ = [
    "arrays_of", "check_files", "lift_constants", "map_tensors", "own_tensors", "release_files",
    "texts_as_tensors",
]  # fmt: skip

Array = npt.NDArray[Any]


def own_tensors(model: ir.Model) -> None:
    """Turn a model's initializers into arrays.

    A protobuf copies its bytes at each read, and its owner may change it.  Weights in files of
    their own stay there.

    Parameters
    ----------
    model : ir.Model
        Changed in place.
    """
    for value in _initializers(model):
        tensor = value.const_value
        if isinstance(tensor, ir.TensorProtoTensor) and tensor.dtype != ir.DataType.STRING:
            array = np.ascontiguousarray(tensor.numpy()).reshape(tuple(tensor.shape))
            value.const_value = ir.Tensor(array, dtype=tensor.dtype, name=tensor.name)


def texts_as_tensors(model: ir.Model) -> None:
    """Give Constants of texts a tensor, which passes of others read as they do those of numbers.

    Parameters
    ----------
    model : ir.Model
        Changed in place.
    """
    for node in all_nodes(model.graph):
        if node.op_type != "Constant" or node.domain:
            continue
        for name in ("value_string", "value_strings"):
            attribute = node.attributes.pop(name, None)
            if attribute is not None:
                texts = [attribute.value] if name == "value_string" else list(attribute.value)
                shape = ir.Shape(() if name == "value_string" else (len(texts),))
                content = [text.encode() for text in texts]
                tensor = ir.StringTensor(content, shape=shape, name=node.outputs[0].name)
                node.attributes["value"] = ir.AttrTensor("value", tensor)


def lift_constants(graph: ir.Graph) -> None:
    """Turn Constant nodes into initializers, also in subgraphs.

    Parameters
    ----------
    graph : ir.Graph
        Changed in place. A node stays if its result is an output of the graph, or if it has
        not just one attribute.
    """
    for node in all_nodes(graph):
        if node.op_type != "Constant" or node.domain or len(node.attributes) != 1:
            continue
        (attribute,) = node.attributes.data.values()
        output, within = node.outputs[0], node.graph
        if output.is_graph_output() or within is None:
            continue
        tensor = _tensor_of(attribute, str(output.name))
        value = ir.Value(
            name=output.name, shape=ir.Shape(tensor.shape), type=ir.TensorType(tensor.dtype),
            const_value=tensor,
        )  # fmt: skip
        within.register_initializer(value)
        output.replace_all_uses_with(value)
        within.remove(node, safe=True)


_NUMBERS = {
    "value_int": np.int64, "value_ints": np.int64,
    "value_float": np.float32, "value_floats": np.float32,
}  # fmt: skip


def _tensor_of(attribute: ir.Attr, name: str) -> ir.TensorProtocol:
    """Give the attribute of a Constant as a tensor."""
    if attribute.name == "value":
        tensor: ir.TensorProtocol = attribute.value
        return tensor
    if attribute.name in _NUMBERS:
        return ir.Tensor(np.array(attribute.value, _NUMBERS[attribute.name]), name=name)
    raise ValueError(f"model has a Constant {name!r} with {attribute.name}: not supported")


def map_tensors(model: ir.Model, folder: str) -> None:
    """Map the tensors in files beside the model as arrays: one mapping for each file.

    Parameters
    ----------
    model : ir.Model
        A checked model; changed in place.  Tensors of subgraphs, local functions and attributes
        are mapped, too.
    folder : str
        The model's own.
    """
    files: dict[str, npt.NDArray[np.uint8]] = {}

    def mapped(tensor: Any) -> Any:
        if not isinstance(tensor, ir.ExternalTensor):
            return tensor
        tensor.base_dir = folder
        # Other types are stored differently from arrays.
        if tensor.dtype.bitwidth % 8 or not tensor.size:
            return ir.Tensor(tensor.numpy().copy(), dtype=tensor.dtype, name=tensor.name)
        if tensor.path not in files:
            files[tensor.path] = map_file(tensor.path)
        dtype = np.dtype(tensor.dtype.numpy())
        array = np.frombuffer(files[tensor.path], dtype, tensor.size, tensor.offset or 0)
        array = array.reshape(tuple(tensor.shape.numpy()))
        return ir.Tensor(array, dtype=tensor.dtype, name=tensor.name)

    for value in _initializers(model):
        value.const_value = mapped(value.const_value)
    for owner in (model.graph, *model.functions.values()):
        for node in all_nodes(owner):
            _map_attributes(node.attributes, mapped)
    for function in model.functions.values():
        _map_attributes(function.attributes, mapped)


def _map_attributes(attributes: Any, mapped: Callable[[Any], Any]) -> None:
    for name, attribute in list(attributes.items()):
        if attribute.is_ref():
            continue
        if attribute.type == ir.AttributeType.TENSOR and attribute.value is not None:
            attributes[name] = ir.AttrTensor(name, mapped(attribute.value))
        elif attribute.type == ir.AttributeType.TENSORS:
            attributes[name] = ir.AttrTensors(name, [mapped(each) for each in attribute.value])


def arrays_of(model: ir.Model) -> Iterator[Array]:
    """Yield the arrays of a model's initializers, and the sources of scaled ones.

    Parameters
    ----------
    model : ir.Model
        A model.

    Yields
    ------
    ndarray
    """
    from .scaling import ScaledTensor

    for value in _initializers(model):
        tensor = value.const_value
        while isinstance(tensor, ScaledTensor):
            tensor = tensor.source
        if isinstance(tensor, ir.Tensor) and isinstance(tensor.raw, np.ndarray):
            yield tensor.raw


def release_files(model: ir.Model) -> None:
    """Release the pages of files that a model's weights were read from.

    Parameters
    ----------
    model : ir.Model
        A model; its content does not change.
    """
    release_all(arrays_of(model))


def check_files(model: ir.Model) -> None:
    """Refuse a model whose weights have changed in their files.

    Parameters
    ----------
    model : ir.Model
        A model.

    Raises
    ------
    RuntimeError
        If a file that weights lie in was written to.
    """
    for array in arrays_of(model):
        unchanged(array)


def _initializers(model: ir.Model) -> Iterator[ir.Value]:
    # The dicts themselves: views of their wrappers are slow.
    for owner in (model.graph, *model.functions.values()):
        for node in all_nodes(owner):
            for graph in subgraphs_of(node):
                yield from graph.initializers.data.values()
    yield from model.graph.initializers.data.values()
