"""Passes over whole models: what nobody reads, default attributes, local functions.

`onnx_ir.passes.common` imports all of its passes at once, and few models need one. Its passes ask
for the schema of each node; here each operator is asked for once.
"""

from __future__ import annotations

import functools

import onnx

from .._records import NamedTuple
from .onnx_later import ir
from .subgraphs import all_nodes, subgraphs_of

__all__ = ["add_defaults", "infer_shapes", "inline_functions", "remove_unused"]


class _Schema(NamedTuple):
    """What passes read of an operator.

    Parameters
    ----------
    optional : tuple of bool
        For each of the results, whether a node may have none; empty if all are needed.
    defaults : tuple of ir.Attr
        Attributes that a node has if it does not say otherwise.
    """

    optional: tuple[bool, ...] = ()
    defaults: tuple[ir.Attr, ...] = ()


@functools.lru_cache(1024)
def _schema(operator: str, domain: str, version: int) -> _Schema:
    try:
        schema = onnx.defs.get_schema(operator, version, domain)
    except onnx.defs.SchemaError:
        return _Schema()
    option = onnx.defs.OpSchema.FormalParameterOption
    options = [result.option for result in schema.outputs]
    optional = tuple(each == option.Optional for each in options)
    if option.Variadic in options or not any(optional):
        optional = ()
    defaults = tuple(
        ir.serde.deserialize_attribute(attribute.default_value)
        for attribute in schema.attributes.values()
        if not attribute.required
        and attribute.default_value
        and attribute.default_value.type != onnx.AttributeProto.UNDEFINED
    )
    return _Schema(optional, defaults)


def add_defaults(model: ir.Model) -> None:
    """Give nodes the attributes that they leave out, where ONNX has a default.

    Parameters
    ----------
    model : ir.Model
        Changed in place; its local functions are not looked at.
    """
    for node in all_nodes(model.graph):
        version = node.version or model.opset_imports.get(node.domain)
        if version is not None:
            for attribute in _schema(node.op_type, node.domain, version).defaults:
                node.attributes.setdefault(attribute.name, attribute)


def remove_unused(model: ir.Model) -> None:
    """Remove nodes, optional results and constants that nobody reads.

    Parameters
    ----------
    model : ir.Model
        Changed in place; its inputs and outputs stay.
    """
    _remove_unused(model.graph, model.opset_imports.get(""))
    constants = model.graph.initializers
    for value in list(constants.values()):
        if not (value.uses() or value.is_graph_output() or value.is_graph_input()):
            del constants[str(value.name)]


def _remove_unused(graph: ir.Graph, version: int | None) -> None:
    for node in reversed(graph):
        if not any(value.uses() or value.is_graph_output() for value in node.outputs):
            graph.remove(node, safe=True)
            continue
        count = len(node.inputs)
        while count and node.inputs[count - 1] is None:
            count -= 1
        if count < len(node.inputs):
            node.resize_inputs(count)
        if version is not None and not node.domain:
            _drop_results(node, _schema(node.op_type, "", version).optional)
        for inner in subgraphs_of(node):
            _remove_unused(inner, version)


def _drop_results(node: ir.Node, optional: tuple[bool, ...]) -> None:
    """Drop optional results that nobody reads."""
    if not optional:
        return
    if node.op_type == "BatchNormalization":
        training = node.attributes.get("training_mode")
        # In training, the number of results says what is computed.
        if training is not None and (
            training.type != ir.AttributeType.INT or training.is_ref() or training.as_int()
        ):
            return
        node.attributes.pop("training_mode", None)
    for value, may_miss in zip(node.outputs, optional, strict=False):
        if may_miss and not value.uses() and not value.is_graph_output():
            value.name = ""
    count = len(node.outputs)
    while count and not node.outputs[count - 1].name:
        count -= 1
    if count < len(node.outputs):
        node.resize_outputs(count)


def inline_functions(model: ir.Model) -> ir.Model:
    """Put the nodes of local functions in the place of their calls.

    Parameters
    ----------
    model : ir.Model
        May be changed.

    Returns
    -------
    ir.Model
        The model without local functions.
    """
    from onnx_ir.passes.common import InlinePass

    inlined: ir.Model = InlinePass()(model).model
    return inlined


def infer_shapes(model: ir.Model) -> None:
    """Infer shapes and types by ONNX.

    Parameters
    ----------
    model : ir.Model
        Changed in place.
    """
    from onnx_ir.passes.common import ShapeInferencePass

    ShapeInferencePass()(model)
