"""Operators that no newer opset changes, or only in the place of an attribute.

ONNX's converter takes and gives a protobuf of the whole model. Most models have no operator that
it would change, and need no conversion.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import onnx_ir as ir

from .values import attribute_int, attribute_ints

__all__ = ["UNCHANGED_SINCE", "convert_in_place"]

_SINCE = {
    6: (
        "Abs", "Cast", "Ceil", "Conv", "ConvTranspose", "Elu", "Exp", "Floor", "GlobalAveragePool",
        "GlobalMaxPool", "HardSigmoid", "Identity", "InstanceNormalization", "LRN", "LeakyRelu",
        "Log", "MatMul", "Neg", "Not", "Reciprocal", "Relu", "Reshape", "Selu", "Shape", "Sigmoid",
        "Size", "Softplus", "Softsign", "Sqrt", "Tanh", "Tile", "Transpose",
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
        "GatherElements", "GatherND", "OneHot", "Pad", "Range", "Round", "ScatterElements",
        "ScatterND", "SpaceToDepth", "TopK",
    ),
    12: ("Celu", "Einsum", "GreaterOrEqual", "LessOrEqual"),
    13: ("Dropout", "LogSoftmax", "ReduceSum", "Resize", "Softmax", "Squeeze", "Unsqueeze"),
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

# Attributes that became an operand, the second one, in the opset of `UNCHANGED_SINCE`.
_MOVED = {
    "Split": "split",
    **dict.fromkeys(
        (
            "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean",
            "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare", "Squeeze", "Unsqueeze",
        ),
        "axes",
    ),
}  # fmt: skip
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
    for node in model.graph:
        if node.domain:
            continue
        since = UNCHANGED_SINCE.get(node.op_type)
        if since is None or (node.op_type in _ONE_OUTPUT and len(node.outputs) > 1):
            return False
        if version < since:
            if not _is_convertible(node):
                return False
            older.append(node)
    _convert(older)
    model.opset_imports[""] = opset
    return True


def _is_convertible(node: ir.Node) -> bool:
    if node.op_type in ("LogSoftmax", "Softmax"):
        # Of other axes all later ones were meant, too.
        return attribute_int(node, "axis", 1) == -1
    return node.op_type in _MOVED and node.graph is not None


def _convert(nodes: Iterable[ir.Node]) -> None:
    for node in nodes:
        name = _MOVED.get(node.op_type)
        if name is None:
            continue
        if name in node.attributes:
            _move(node, name)
        elif node.op_type == "Split" and len(node.inputs) == 1:
            node.attributes["num_outputs"] = ir.AttrInt64("num_outputs", len(node.outputs))


def _move(node: ir.Node, name: str) -> None:
    """Make an attribute the second operand."""
    assert node.graph is not None
    initializers = node.graph.initializers
    own = unique = f"{node.outputs[0].name}_{name}"
    count = 0
    while unique in initializers:
        count += 1
        unique = f"{own}_{count}"
    tensor = ir.Tensor(np.array(attribute_ints(node, name, ()), np.int64), name=unique)
    del node.attributes[name]
    value = ir.Value(
        name=unique, shape=ir.Shape(tensor.shape), type=ir.TensorType(tensor.dtype),
        const_value=tensor,
    )  # fmt: skip
    node.graph.register_initializer(value)
    node.resize_inputs(2)
    node.replace_input_with(1, value)
