"""Operators that no newer opset changes, or only in the place of attributes or in their axes.

ONNX's converter takes and gives a protobuf of the whole model. Nearly all models have no other
operator, and do not need it.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from .names import all_names, unused_name
from .onnx_later import ir
from .subgraphs import all_nodes
from .values import attribute_int, attribute_ints

__all__ = ["PER_GROUP", "UNCHANGED_SINCE", "convert_in_place", "put_in_place"]

PER_GROUP = "per_group"
"""Attribute of a GroupNormalization that has a scale for each group, as before opset 21."""

_SINCE = {
    6: (
        "Abs", "Cast", "Ceil", "Constant", "Conv", "ConvTranspose", "Elu", "Exp", "Floor",
        "GlobalAveragePool", "GlobalMaxPool", "HardSigmoid", "Identity", "InstanceNormalization",
        "LRN", "LeakyRelu", "Log", "MatMul", "Neg", "Not", "Reciprocal", "Relu", "Reshape",
        "Selu", "Shape", "Sigmoid", "Size", "Softplus", "Softsign", "Sqrt", "Tanh", "Tile",
        "Transpose",
    ),
    7: (
        "Add", "And", "AveragePool", "Concat", "Cos", "Div", "Equal", "Flatten", "GRU", "Gather",
        "Gemm", "Greater", "LSTM", "Less", "MaxPool", "Mul", "Or", "PRelu", "Pow", "RNN", "Sin",
        "Sub", "Xor",
    ),
    8: ("Expand", "Max", "Mean", "Min", "Sum"),
    9: ("BatchNormalization", "ConstantOfShape", "Erf", "NonZero", "Sign", "Where"),
    10: (
        "ConvInteger", "DequantizeLinear", "MatMulInteger", "Mod", "NonMaxSuppression",
        "QLinearConv", "QLinearMatMul", "QuantizeLinear", "Slice",
    ),
    11: (
        "ArgMax", "ArgMin", "Clip", "CumSum", "DepthToSpace", "DynamicQuantizeLinear",
        "GatherElements", "GatherND", "If", "Loop", "OneHot", "Pad", "Range", "Resize", "Round",
        "Scan", "ScatterElements", "ScatterND", "SpaceToDepth", "TopK",
    ),
    12: ("Celu", "Einsum", "GreaterOrEqual", "LessOrEqual"),
    13: ("Dropout", "LogSoftmax", "ReduceSum", "Softmax", "Squeeze", "Unsqueeze"),
    14: ("HardSwish", "Trilu"),
    16: ("RoiAlign",),
    17: ("LayerNormalization",),
    18: (
        "Mish", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax",
        "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSumSquare", "Split",
    ),
    20: ("Gelu", "GridSample"),
    21: ("GroupNormalization",),
}  # fmt: skip
UNCHANGED_SINCE = {operator: opset for opset, names in _SINCE.items() for operator in names}
"""The oldest opset in which a node means the same as in `opsets.OPSET`."""

# Attributes that became operands, from the second one on, in the opset of `UNCHANGED_SINCE`.
_MOVED = {
    "Slice": ("starts", "ends", "axes"),
    "Split": ("split",),
    **dict.fromkeys(
        (
            "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean",
            "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare", "Squeeze", "Unsqueeze",
        ),
        ("axes",),
    ),
}  # fmt: skip
# Operators that took all dimensions from their axis on for one.
_FLATTENING = frozenset(("LogSoftmax", "Softmax"))
# Outputs that an operator lost.
_ONE_OUTPUT = frozenset(("BatchNormalization",))


def convert_in_place(model: ir.Model, opset: int) -> bool:
    """Bring a model to a newer opset, if it has no operator but those of `UNCHANGED_SINCE`.

    Parameters
    ----------
    model : ir.Model
        A checked model without local functions and constant nodes; changed in place.
    opset : int
        `opsets.OPSET`.

    Returns
    -------
    bool
        False if ONNX's converter is needed; then the model is as it was.
    """
    version = model.opset_imports[""]
    older = []
    for node in all_nodes(model.graph):
        if node.domain:
            continue
        since = UNCHANGED_SINCE.get(node.op_type)
        if since is None or (node.op_type in _ONE_OUTPUT and len(node.outputs) > 1):
            return False
        if version < since:
            if node.op_type not in _MOVED and node.op_type not in _FLATTENING:
                return False
            older.append(node)
    if older:
        _convert(older, set(all_names(model.graph)))
    model.opset_imports[""] = opset
    return True


def _convert(nodes: Iterable[ir.Node], names: set[str | None]) -> None:
    for node in nodes:
        if node.op_type in _FLATTENING:
            if attribute_int(node, "axis", 1) != -1:
                _flatten(node, names)
            else:
                node.attributes["axis"] = ir.AttrInt64("axis", -1)
            continue
        moved = _MOVED[node.op_type]
        if any(name in node.attributes for name in moved):
            for place, name in enumerate(moved, 1):
                if name in node.attributes:
                    _move(node, name, place, names)
        elif node.op_type == "Split" and len(node.inputs) == 1:
            node.attributes["num_outputs"] = ir.AttrInt64("num_outputs", len(node.outputs))


def _move(node: ir.Node, name: str, place: int, names: set[str | None]) -> None:
    """Make an attribute an operand."""
    assert node.graph is not None
    unique = unused_name(f"{node.outputs[0].name}_{name}", names)
    tensor = ir.Tensor(np.array(attribute_ints(node, name, ()), np.int64), name=unique)
    del node.attributes[name]
    value = ir.Value(
        name=unique, shape=ir.Shape(tensor.shape), type=ir.TensorType(tensor.dtype),
        const_value=tensor,
    )  # fmt: skip
    node.graph.register_initializer(value)
    node.resize_inputs(max(place + 1, len(node.inputs)))
    node.replace_input_with(place, value)


def _flatten(node: ir.Node, names: set[str | None]) -> None:
    """Take the dimensions from the axis on for one, as the operator did."""
    x, old = node.inputs[0], node.outputs[0]
    flat = ir.node("Flatten", [x], {"axis": attribute_int(node, "axis", 1)})
    function = ir.node(node.op_type, flat.outputs, {"axis": -1})
    shape = ir.node("Shape", [x])
    shaped = ir.node("Reshape", [*function.outputs, *shape.outputs])
    nodes = [flat, function, shape, shaped]
    for inner in nodes:
        inner.name = inner.outputs[0].name = unused_name(f"{old.name}_{inner.op_type}", names)
    put_in_place(old, nodes, unused_name(f"{old.name}_of_its_opset", names))
    assert node.graph is not None
    node.graph.remove(node, safe=True)


def put_in_place(old: ir.Value, nodes: list[ir.Node], name: str) -> None:
    """Make new nodes compute a value.

    Parameters
    ----------
    old : ir.Value
        A result of a node, behind which the new nodes lie afterwards.
    nodes : list of ir.Node
        The last one's first output takes the name and the readers of `old`.
    name : str
        Of `old`, afterwards.
    """
    node = old.producer()
    assert node is not None and node.graph is not None
    new, kept = nodes[-1].outputs[0], old.name
    old.name = name
    new.name, new.type = kept, old.type
    ir.convenience.replace_all_uses_with(old, new, replace_graph_outputs=True)
    node.graph.insert_after(node, nodes)
