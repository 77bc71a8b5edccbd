"""ONNX's answers: shapes of results, and constants that only its reference computes."""

from __future__ import annotations

from typing import Any

import onnx
import onnx_ir as ir

__all__ = ["compute_by_reference", "infer_by_onnx", "merged"]

# Operands of few elements, which may be shapes, are shown to the inference.
_MOST_ELEMENTS = 20


def infer_by_onnx(node: ir.Node, version: int) -> None:
    """Give the results of a node the shapes and types that ONNX infers.

    Parameters
    ----------
    node : ir.Node
        Changed in place; it stays as it is where ONNX does not know, or refuses the node.
    version : int
        Opset of the node's domain.
    """
    operands = [value for value in node.inputs if value is not None]
    if any(value.type is None for value in operands):
        return
    try:
        types = {str(value.name): _type_of(value) for value in operands}
        data = {
            str(value.name): ir.serde.serialize_tensor(value.const_value)
            for value in operands
            if value.const_value is not None and value.const_value.size <= _MOST_ELEMENTS
        }
        schema = onnx.defs.get_schema(node.op_type, version, node.domain)
        found = onnx.shape_inference.infer_node_outputs(
            schema, ir.serde.serialize_node(node), types, data
        )
        for value in node.outputs:
            inferred = found.get(value.name or "")
            if inferred is not None:
                shape = ir.serde.deserialize_type_proto_for_shape(inferred)
                value.shape = merged(value.shape, shape)
                value.type = ir.serde.deserialize_type_proto_for_type(inferred)
    except Exception:
        # What is wrong with the node is said by those who need a shape.
        return


def _type_of(value: ir.Value) -> onnx.TypeProto:
    assert value.type is not None
    proto = ir.serde.serialize_type(value.type)
    if value.shape is not None:
        ir.serde.serialize_shape_into(proto, value.shape)
    return proto


def merged(shape: ir.Shape | None, other: ir.Shape | None) -> ir.Shape | None:
    """Give what two shapes of one value say together; the first one counts more.

    Parameters
    ----------
    shape, other : ir.Shape or None
        None where nothing is known.

    Returns
    -------
    ir.Shape or None

    Raises
    ------
    ValueError
        If they have different numbers of axes.
    """
    if shape is None or other is None:
        return other if shape is None else shape

    def size(first: Any, second: Any) -> Any:
        if isinstance(first, int):
            return first
        return second if isinstance(second, int) or first.value is None else first

    return ir.Shape([size(*pair) for pair in zip(shape, other, strict=True)])


def compute_by_reference(node: ir.Node, version: int) -> Any:
    """Compute a node of constants by ONNX's reference.

    Parameters
    ----------
    node : ir.Node
        All of its operands are constants.
    version : int
        Opset of the node's domain.

    Returns
    -------
    array or tuple or None
        None if the reference cannot.
    """
    # Imported here: it takes as long to import as a small network takes to compile.
    from onnx.reference.ops import load_op

    try:
        operator: Any = load_op(node.domain, node.op_type, version)
        operands = [
            None if value is None or value.const_value is None else value.const_value.numpy()
            for value in node.inputs
        ]
        attributes = {
            name: ir.serde.serialize_tensor(attribute.value)
            if attribute.type == ir.AttributeType.TENSOR
            else attribute.value
            for name, attribute in node.attributes.items()
        }
        return operator.eval(*operands, **attributes)
    except Exception:
        return None
