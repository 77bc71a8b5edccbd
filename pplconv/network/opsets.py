"""Models of older opsets brought to the one that the rules and operators are written for."""

from __future__ import annotations

import onnx
import onnx.version_converter
import onnx_ir as ir

from .resizing import OLD_ROUNDING
from .texts import printable

__all__ = ["OPSET", "PER_GROUP", "convert_opset"]

OPSET = 24
"""Opset of prepared models; the first with ``Swish``."""
PER_GROUP = "per_group"
"""Attribute of a GroupNormalization that has a scale for each group, as before opset 21."""

# What the converter reads of weights are shapes, scales, axes and the like.
_SMALL_BYTES = 4096
# The newest opset whose Upsample and Resize have no modes of coordinates.
_NO_COORDINATES = 10
# The converter knows no file formats before 3, and the fields of the newest do no harm.
_IR_VERSION = 10


def convert_opset(model: ir.Model) -> ir.Model:
    """Bring a model to `OPSET`.

    Parameters
    ----------
    model : ir.Model
        A checked model without local functions; not to be used any more.

    Returns
    -------
    ir.Model
        A model of `OPSET`, or `model` itself if it is of that opset or a newer one.  Large weights
        are shared.

    Raises
    ------
    ValueError
        If ONNX's converter cannot convert it.
    """
    version = model.opset_imports[""]
    if version >= OPSET:
        return model
    inputs = len(model.graph.inputs)
    # The converter takes such a node for one of today's.
    grouped = {
        node.outputs[0].name
        for node in model.graph.all_nodes()
        if node.op_type == "GroupNormalization" and not node.domain and version < 21
    }
    weights = {name: value.const_value for name, value in model.graph.initializers.items()}
    try:
        proto = _without_large_weights(model)
        converted = ir.from_proto(onnx.version_converter.convert_version(proto, OPSET))
    except MemoryError:
        raise
    except Exception as error:
        raise ValueError(
            f"model could not be converted from opset {version} to {OPSET}: {printable(error)}"
        ) from error
    graph = converted.graph
    if converted.opset_imports.get("") != OPSET:
        raise ValueError(f"model could not be converted from opset {version} to {OPSET}")
    if version <= _NO_COORDINATES:
        _place_pixels(graph)
    values = list(graph.inputs)
    # The list forgets its values when it is emptied, and not when a part is deleted.
    graph.inputs.clear()
    graph.inputs.extend(values[:inputs])
    for value in values[inputs:]:
        value.const_value = weights[value.name]
        graph.register_initializer(value)
    for node in graph.all_nodes() if grouped else ():
        if node.outputs[0].name in grouped:
            node.attributes[PER_GROUP] = ir.AttrInt64(PER_GROUP, 1)
    for name, value in graph.initializers.items():
        if weights.get(name) is not None:
            value.const_value = weights[name]
    return converted


def _place_pixels(graph: ir.Graph) -> None:
    """Say where the pixels of resized images lie, which the converter leaves to new defaults."""
    for node in graph.all_nodes():
        if node.op_type == "Resize" and not node.domain:
            node.attributes["coordinate_transformation_mode"] = ir.AttrString(
                "coordinate_transformation_mode", "asymmetric"
            )
            node.attributes[OLD_ROUNDING] = ir.AttrInt64(OLD_ROUNDING, 1)


def _without_large_weights(model: ir.Model) -> onnx.ModelProto:
    """Serialize a model with inputs in place of large weights."""
    graph = model.graph
    for name, value in list(graph.initializers.items()):
        tensor = value.const_value
        if tensor is None or tensor.nbytes <= _SMALL_BYTES:
            continue
        graph.initializers.pop(name)
        value.const_value = None
        value.shape = ir.Shape(tensor.shape)
        value.type = ir.TensorType(tensor.dtype)
        graph.inputs.append(value)
    model.ir_version = _IR_VERSION
    return ir.to_proto(model)
