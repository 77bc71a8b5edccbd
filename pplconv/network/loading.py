"""`load`: a model from a path, bytes or a protobuf, checked."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from google.protobuf.message import DecodeError

from ..memory.mapping import map_file, release
from .checking import check_model, is_foreign
from .large_weights import Lifted, lift_data, put_back
from .model_passes import inline_functions
from .names import have_unique_names, mend_names
from .quantized_values import MICROSOFT
from .sparse_tensors import expand_sparse
from .subgraphs import all_nodes, check_flow, is_in_order
from .tensors import map_tensors, own_tensors
from .texts import printable

__all__ = ["load"]


OUTSIDE = "pplconv: weights lie in other files"
"""Key of `model.meta` that such models have."""


def load(source: Any) -> ir.Model:
    """Read a model and check it.

    Parameters
    ----------
    source : str, path, bytes-like or onnx.ModelProto
        The model.  A file is mapped into memory, and so are files with weights beside it, which
        need the model as a path.  Nobody may write to these files while the model lives.

    Returns
    -------
    ir.Model
        The model with its nodes in order and local functions inlined.  Large weights lie in the
        file or the bytes that were given; it shares no memory with a protobuf.

    Raises
    ------
    TypeError
        If `source` is none of these.
    ValueError
        If it is not an ONNX model, contradicts itself, has an unsupported opset, or keeps weights
        in a forbidden place.
    FileNotFoundError, OSError
        If the file, or one with weights, cannot be read.
    """
    lifted, folder = _read(source)
    try:
        proto = expand_sparse(lifted.proto)
        _check_types(proto)
        outside = check_model(proto)
        if outside:
            from .external_data import check_external_data

            for tensor in outside:
                check_external_data(tensor, folder)
    except UnicodeDecodeError as error:
        raise ValueError(f"model has a name that is not UTF-8: {printable(error)}") from error
    try:
        # A caller's protobuf stays as it is.
        if proto is not source and not proto.functions:
            _constants_as_initializers(proto.graph)
        model = ir.from_proto(proto)
        put_back(model, lifted)
        for owner in (model.graph, *model.functions.values()):
            if "ai.onnx" in owner.opset_imports:
                owner.opset_imports[""] = owner.opset_imports.pop("ai.onnx")
        for function in model.functions.values():
            _take_opsets(function, model)
        if folder is not None and outside:
            map_tensors(model, folder)
            model.meta[OUTSIDE] = True
        if model.functions:
            model = inline_functions(model)
        _name_foreign(model)
        if not is_in_order(model.graph):
            model.graph.sort()
        own_tensors(model)
        if not have_unique_names(model.graph):
            mend_names(model)
    except MemoryError:
        raise
    except Exception as error:
        raise ValueError(f"model cannot be read: {_reason(error)}") from error
    for node in all_nodes(model.graph):
        check_flow(node)
    return model


def _take_opsets(function: ir.Function, model: ir.Model) -> None:
    """Let a local function import the model's opsets, if its operators are the same in them.

    Raises
    ------
    ValueError
        If one of them was defined anew between the two opsets.
    """
    for domain, version in model.opset_imports.items():
        own = function.opset_imports.get(domain, version)
        if own == version:
            continue
        for node in function.all_nodes():
            if node.domain in (domain, domain or "ai.onnx"):
                first = [_since(node.op_type, domain, each) for each in (own, version)]
                if first[0] != first[1]:
                    raise ValueError(
                        f"the local function {function.name!r} is of opset {own} of "
                        f"{domain or 'ai.onnx'!r}, the model of {version}, and {node.op_type} is "
                        "not the same in both"
                    )
        function.opset_imports[domain] = version


def _since(operator: str, domain: str, version: int) -> int:
    """Give the opset that defined an operator as it is in another; 0 if there is none."""
    try:
        return int(onnx.defs.get_schema(operator, version, domain).since_version)
    except onnx.defs.SchemaError:
        return 0


def _name_foreign(model: ir.Model) -> None:
    """Put onnxruntime's operators that lie in ONNX's domain into the domain of its others.

    A model need not import that domain, as in onnxruntime.
    """
    version = model.opset_imports[""]
    for node in all_nodes(model.graph):
        if is_foreign(node.op_type, node.domain, version):
            node.domain = MICROSOFT
        if node.domain == MICROSOFT:
            model.opset_imports.setdefault(MICROSOFT, 1)


def _read(source: Any) -> tuple[Lifted, str | None]:
    if isinstance(source, onnx.ModelProto):
        return Lifted(source, "", []), None
    folder: str | None = None
    if isinstance(source, (str, os.PathLike)):
        path = os.fsdecode(source)
        if os.path.isdir(path):
            raise IsADirectoryError(f"model is a folder, not a file: {_shown(path)}")
        try:
            content = map_file(path)
        except FileNotFoundError:
            raise FileNotFoundError(f"model does not exist: {_shown(path)}") from None
        folder = os.path.dirname(os.path.realpath(path))
    else:
        try:
            # Writable buffers are copied.
            whole = source if isinstance(source, bytes) else bytes(memoryview(source))
        except TypeError:
            raise TypeError(
                "model must be a path, bytes or an onnx.ModelProto, got "
                f"{type(source).__module__}.{type(source).__qualname__}"
            ) from None
        content = np.frombuffer(whole, np.uint8)
    try:
        lifted = lift_data(content)
    except DecodeError as error:
        raise ValueError(
            f"model is not an ONNX file, or not a whole one: {printable(error)}"
        ) from error
    release(content)
    return lifted, folder


def _shown(path: str) -> str:
    """Give a path as messages show it."""
    from pathlib import Path  # slow to import

    return printable(Path(path))


def _constants_as_initializers(graph: onnx.GraphProto) -> None:
    """Make initializers of Constant nodes: some files have more of these than of other nodes.

    `lift_constants` lifts the others later, node by node: constants of subgraphs, outputs of the
    graph, and values that the file describes elsewhere.
    """
    described = {value.name for value in (*graph.output, *graph.value_info)}
    described.update(annotation.tensor_name for annotation in graph.quantization_annotation)
    lifted = []
    for place, node in enumerate(graph.node):
        if node.op_type != "Constant" or node.domain or len(node.attribute) != 1:
            continue
        (name,), (attribute,) = node.output, node.attribute
        if attribute.name == "value" and attribute.HasField("t") and name not in described:
            tensor = graph.initializer.add()
            tensor.CopyFrom(attribute.t)
            tensor.name = name
            lifted.append(place)
    for place in reversed(lifted):
        del graph.node[place]


def _check_types(proto: onnx.ModelProto) -> None:
    """Refuse inputs and outputs of other types: these may be nested without end."""
    for values in (proto.graph.input, proto.graph.output):
        for value in values:
            kind = _element(value.type)
            if kind.WhichOneof("value") not in (None, "tensor_type"):
                raise ValueError(
                    f"model has the input or output {value.name!r}, which is neither a tensor, nor "
                    "a sequence of tensors, nor an optional of one: not supported"
                )
            said = value.type.WhichOneof("value")
            if said is not None and not kind.tensor_type.elem_type:
                raise ValueError(f"model has no type for its input or output {value.name!r}")
            if said not in (None, "tensor_type") and kind.tensor_type.elem_type not in _CONTAINED:
                raise ValueError(
                    "model has a sequence or an optional of a type that ONNX has not in it, at its "
                    f"input or output {value.name!r}"
                )
    for value in proto.graph.input:
        if value.type.WhichOneof("value") is None:
            raise ValueError(f"model has no type for its input {value.name!r}")


# Types of elements: those of ONNX's first versions, without bfloat16 and smaller types.
_CONTAINED = frozenset(range(onnx.TensorProto.FLOAT, onnx.TensorProto.BFLOAT16))


def _element(kind: onnx.TypeProto) -> onnx.TypeProto:
    """Give the type of the tensors of an optional, a sequence, or an optional sequence."""
    if kind.WhichOneof("value") == "optional_type":
        kind = kind.optional_type.elem_type
    return kind.sequence_type.elem_type if kind.WhichOneof("value") == "sequence_type" else kind


def _reason(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return printable(text[0]) if text else type(error).__name__
