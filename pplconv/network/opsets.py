"""Converts models of older opsets to the opset of the rules and operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import onnx
import onnx.version_converter

from .node_checks import check_node
from .onnx_later import ir
from .opset_changes import PER_GROUP, convert_in_place, put_in_place
from .resizing import OLD_ROUNDING
from .subgraphs import all_nodes
from .texts import printable

__all__ = ["OPSET", "convert_opset"]

OPSET = 24
"""Opset of prepared models; the first with ``Swish``."""

# The converter reads only small tensors: shapes, scales, axes and the like.
_SMALL_BYTES = 4096
# The newest opset whose Upsample and Resize have no coordinate modes.
_NO_COORDINATES = 10
# The newest opset whose Hardmax flattens all dimensions from its axis on.
_FLAT_HARDMAX = 12
# The newest opset whose Dropout masks are zero in inference, and the newest with numeric masks.
_NO_MASKS, _MASKS_OF_NUMBERS = 11, 9
# In front of domains that the converter must not know.
_ASIDE = "pplconv.aside."
# The converter knows no IR version before 3; fields of the newest version do no harm.
_IR_VERSION = 10


def convert_opset(model: ir.Model) -> ir.Model:
    """Bring a model to `OPSET`.

    Parameters
    ----------
    model : ir.Model
        A checked model without local functions; invalid afterwards.

    Returns
    -------
    ir.Model
        A model of `OPSET`, or `model` itself if it is of that opset or a newer one, or if its
        operators hardly changed.  Large weights are shared.

    Raises
    ------
    ValueError
        If ONNX's converter cannot convert it, or would end the process.
    """
    version = model.opset_imports[""]
    if version >= OPSET or convert_in_place(model, OPSET):
        return model
    inputs = len(model.graph.inputs)
    # The converter would take such a node for one of the newest opset.
    grouped = {
        node.outputs[0].name
        for node in all_nodes(model.graph)
        if node.op_type == "GroupNormalization" and not node.domain and version < 21
    }
    weights = {name: value.const_value for name, value in model.graph.initializers.items()}
    for node in all_nodes(model.graph):
        # The converter infers shapes, too, and ends the process where these contradict themselves.
        if node.op_type in ("GatherND", "LayerNormalization", "Split"):
            check_node(node)
    hidden = _hide_bounds(model)
    _rename_domains(model, lambda domain: _ASIDE + domain if domain.startswith("ai.") else domain)
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
    _rename_domains(converted, lambda domain: domain.removeprefix(_ASIDE))
    if version <= _NO_COORDINATES:
        _place_pixels(graph)
    for node in list(all_nodes(graph)) if version <= _FLAT_HARDMAX else ():
        if node.op_type == "Hardmax" and not node.domain:
            _flatten_hardmax(node)
        elif node.op_type == "Dropout" and not node.domain and version <= _NO_MASKS:
            _empty_mask(node, numbers=version <= _MASKS_OF_NUMBERS)
    _show_bounds(graph, hidden)
    values = list(graph.inputs)
    # Emptying the list releases its values; deleting a part does not.
    graph.inputs.clear()
    graph.inputs.extend(values[:inputs])
    for value in values[inputs:]:
        value.const_value = weights[value.name]
        graph.register_initializer(value)
    for node in all_nodes(graph) if grouped else ():
        if node.outputs[0].name in grouped:
            node.attributes[PER_GROUP] = ir.AttrInt64(PER_GROUP, 1)
    for name, value in graph.initializers.items():
        if weights.get(name) is not None:
            value.const_value = weights[name]
    return converted


def _rename_domains(model: ir.Model, rename: Callable[[str], str]) -> None:
    """Rename the domains of a model's nodes.

    The converter infers types for other domains of ONNX, too, and ends the process at a
    LabelEncoder whose operand has no known type. It leaves domains that it does not know alone.
    """
    for domain in list(model.opset_imports):
        model.opset_imports[rename(domain)] = model.opset_imports.pop(domain)
    for node in model.graph.all_nodes():
        node.domain = rename(node.domain)


def _hide_bounds(model: ir.Model) -> dict[str, tuple[str, ir.TensorProtocol]]:
    """Give each Slice inputs in place of constant bounds; give the constants by these names.

    The converter infers shapes, and ends the process at a Slice of a negative size with bounds
    that it knows. Such a size is refused later, by name, when we infer shapes.
    """
    hidden: dict[str, tuple[str, ir.TensorProtocol]] = {}
    for node in all_nodes(model.graph):
        if node.op_type != "Slice" or node.domain:
            continue
        for place, value in enumerate(node.inputs):
            if not place or value is None or value.const_value is None or value.is_graph_input():
                continue
            tensor = value.const_value
            name = f"{value.name}_bound_{len(hidden)}_of_{node.outputs[0].name}"
            hidden[name] = (value.name or "", tensor)
            bound = ir.val(name, tensor.dtype, ir.Shape(tensor.shape))
            model.graph.inputs.append(bound)
            node.replace_input_with(place, bound)
    return hidden


def _show_bounds(graph: ir.Graph, hidden: Mapping[str, tuple[str, ir.TensorProtocol]]) -> None:
    """Put back the constants that `_hide_bounds` hid."""
    for bound in [value for value in graph.inputs if value.name in hidden]:
        graph.inputs.remove(bound)
        name, tensor = hidden[bound.name or ""]
        known = graph.initializers.get(name)
        if known is not None:
            bound.replace_all_uses_with(known)
            continue
        # It lies in a subgraph.
        bound.const_value = tensor
        graph.register_initializer(bound)


def _place_pixels(graph: ir.Graph) -> None:
    """Write the old coordinate mode, which the converter would replace by the new default."""
    for node in all_nodes(graph):
        if node.op_type == "Resize" and not node.domain:
            node.attributes["coordinate_transformation_mode"] = ir.AttrString(
                "coordinate_transformation_mode", "asymmetric"
            )
            node.attributes[OLD_ROUNDING] = ir.AttrInt64(OLD_ROUNDING, 1)


def _flatten_hardmax(node: ir.Node) -> None:
    """Flatten the dimensions from the axis on; the converter does so for Softmax only."""
    x = node.inputs[0]
    axis = node.attributes.get_int("axis", 1)
    flat = ir.node("Flatten", [x], {"axis": axis})
    largest = ir.node("Hardmax", flat.outputs, {"axis": 1})
    shape = ir.node("Shape", [x])
    shaped = ir.node("Reshape", [*largest.outputs, *shape.outputs])
    _replace(node.outputs[0], [flat, largest, shape, shaped])
    assert node.graph is not None
    node.graph.remove(node, safe=True)


def _empty_mask(node: ir.Node, *, numbers: bool) -> None:
    """Replace an existing mask by zeros, of the input's type or of booleans."""
    if len(node.outputs) < 2 or not node.outputs[1].name:
        return
    x = node.inputs[0]
    shape = ir.node("Shape", [x])
    zero = ir.tensor(np.zeros(1, np.float32 if numbers else np.bool_))
    mask = ir.node("ConstantOfShape", shape.outputs, {"value": zero})
    cast = [ir.node("CastLike", [*mask.outputs, x])] if numbers else []
    _replace(node.outputs[1], [shape, mask, *cast])


def _replace(old: ir.Value, nodes: list[ir.Node]) -> None:
    """Make new nodes compute a value; their names follow from its."""
    name = f"{old.name}_of_its_opset"
    for inner in nodes:
        inner.name = inner.outputs[0].name = f"{name}_{inner.op_type}"
    put_in_place(old, nodes, name)


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
