"""Shapes that are inferred without ONNX's inference, compared with it."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper

from pplconv.network.inferring import infer_outputs
from pplconv.network.opsets import OPSET

_F, _I, _B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
_H = TensorProto.FLOAT16
_IMAGES = (("n", 6, 9, 8), (6, 3, 3, 2))


def _ints(*numbers):
    return np.array(numbers, np.int64)


# Operator, operands (shape, type and shape, or a constant), attributes, and outputs if not one.
_CASES = [
    ("Relu", [("n", 3, "h")], {}),
    ("Softmax", [(2, 3)], {"axis": -1}),
    ("Clip", [("n", None)], {}),
    ("Not", [(_B, (2, "n"))], {}),
    ("Identity", [(_I, ())], {}),
    ("BatchNormalization", [("n", 3, 4, None), (3,), (3,), (3,), (3,)], {}),
    ("LayerNormalization", [("n", 3, 4), (4,)], {"axis": -1}),
    ("Add", [("n", 1, 3), ("n", 4, 1)], {}),
    ("Add", [("n", 1), (5, 3)], {}),
    ("Mul", [(), ("a", "b")], {}),
    ("Mul", [(0, 1), (1, 3)], {}),
    ("Sub", [(None, 3), (1, 3)], {}),
    ("Max", [(2, 1), (1, 3), ()], {}),
    ("Pow", [(2, 3), (_I, ())], {}),
    ("Less", [("n", 1), ("n", 2)], {}),
    ("Where", [(_B, (2, 1)), ("n", 1, 1), (1, 3)], {}),
    ("Cast", [("n", 2)], {"to": TensorProto.BOOL}),
    ("Conv", [*_IMAGES], {"group": 2, "strides": [2, 1], "pads": [0, 1, 2, 0]}),
    ("Conv", [("n", 3, "h", 8), (6, 3, 3, 2)], {"dilations": [1, 2], "kernel_shape": [3, 2]}),
    ("Conv", [(1, 3, None), (6, 3, 3)], {}),
    ("MaxPool", [("n", 6, 9, 8)], {"kernel_shape": [3, 3], "strides": [2, 2]}),
    ("AveragePool", [(1, "c", 9)], {"kernel_shape": [2], "pads": [1, 0]}),
    ("GlobalAveragePool", [("n", 3, "h", 5)], {}),
    ("MatMul", [("n", 2, 3), (3, 5)], {}),
    ("MatMul", [(2, 1, "m", 3), (7, 3, 5)], {}),
    ("Gemm", [(3, "m"), (5, 3)], {"transA": 1, "transB": 1}),
    ("Transpose", [("n", 2, 3)], {"perm": [2, 0, 1]}),
    ("Transpose", [("n", 2, 3)], {}),
    ("Concat", [("n", 2), ("n", 3)], {"axis": -1}),
    ("Reshape", [(2, 3, 4), _ints(0, -1)], {}),
    ("Reshape", [(), _ints(1, 1)], {}),
    ("Reshape", [(2, 0), _ints(0, 0)], {}),
    ("Flatten", [("n", 2, 3)], {"axis": 1}),
    ("Squeeze", [("n", 1, 3, 1), _ints(-1, 1)], {}),
    ("Unsqueeze", [("n", 3), _ints(-1, 0)], {}),
    ("Slice", [("n", 9, 4), _ints(1, -9), _ints(1 << 40, 2), _ints(1, -1), _ints(3, 1)], {}),
    ("Slice", [(9,), _ints(7), _ints(3)], {}),
    ("Slice", [(9,), _ints(-20), _ints(-1)], {}),
    ("Gather", [("n", 3, 4), (_I, (2, "k"))], {"axis": -2}),
    ("ReduceMean", [("n", 3, 4), _ints(-1, 1)], {}),
    ("ReduceSum", [("n", 3, 4), _ints(0)], {"keepdims": 0}),
    ("Expand", [(3, 1), _ints(2, 1, 4)], {}),
    ("Pad", [(3, 4), _ints(1, 0, -1, 2)], {}),
    ("Split", [("n", 5), _ints(2, 0, 3)], {"axis": 1}, 3),
    ("Shape", [("n", 3)], {}),
    ("Shape", [()], {"start": 0}),
    ("ConstantOfShape", [_ints(2, 0, 3)], {}),
    ("ConstantOfShape", [_ints()], {"value": helper.make_tensor("", _I, [1], [7])}),
]
_REFUSED = [
    ("Softmax", [(_I, (2, 3))], {}),
    ("Clip", [(2, 3), (_H, ())], {}),
    ("Conv", [(1, 3, 9, 9), (_H, (6, 3, 3, 3))], {}),
    ("LayerNormalization", [(2, 3), (_H, (3,))], {}),
    ("Pad", [(3,), _ints(1, 1), (_H, ())], {}),
    ("Gather", [(3,), ()], {}),
    ("Add", [(2, 3), (_I, (3,))], {}),
    ("Add", [(2, 3), (4,)], {}),
    ("Add", [("a", 3), ("b", 3)], {}),
    ("BatchNormalization", [(2, 3), (4,), (3,), (3,), (3,)], {}),
    ("Conv", [(1, 3, 2, 2), (6, 3, 3, 3)], {}),
    ("Conv", [(1, 3, 9, 9), (6, 3, 3, 3)], {"auto_pad": "SAME_UPPER"}),
    ("Conv", [(1, 3, 9, 9), (6, 3, 3, 3)], {"strides": [0, 1]}),
    ("MaxPool", [(1, 3, 9)], {"kernel_shape": [2], "ceil_mode": 1}),
    ("MatMul", [(2, 3), (4, 5)], {}),
    ("Gemm", [(2, 3), (4, 5)], {}),
    ("Concat", [(2, 3), (3, 3)], {"axis": 1}),
    ("Concat", [(2, 3), (2, 3)], {"axis": 2}),
    ("Reshape", [(2, 3), _ints(4, 2)], {}),
    ("Reshape", [(2, 3), _ints(-1, -1)], {}),
    ("Reshape", [(2, 3), _ints(-2, 3)], {}),
    ("Squeeze", [(2, 3), _ints(0)], {}),
    ("Unsqueeze", [(2, 3), _ints(0, 0)], {}),
    ("Slice", [(9,), _ints(8), _ints(0), _ints(0), _ints(-1)], {}),
    ("Slice", [(9,), _ints(0), _ints(1), _ints(3)], {}),
    ("Gather", [(2,), (_I, ())], {"axis": 5}),
    ("Expand", [(3,), _ints(-1)], {}),
    ("Pad", [(3,), _ints(-2, -2)], {}),
    ("Split", [(5,), _ints(2, 2)], {}, 2),
    ("ConstantOfShape", [_ints(-1)], {}),
    ("Cast", [(2,)], {"to": 77}),
    ("Relu", [], {}),
]


def _node(operator, operands, attributes, outputs=1):
    """Give the node with its operands, and the types and the data that ONNX's inference takes."""
    inputs, types, data = [], {}, {}
    for place, operand in enumerate(operands):
        name = f"x{place}"
        if isinstance(operand, np.ndarray):
            value = ir.Value(
                name=name, shape=ir.Shape(operand.shape), type=ir.TensorType(ir.DataType.INT64),
                const_value=ir.Tensor(operand, name=name),
            )  # fmt: skip
            data[name] = onnx.numpy_helper.from_array(operand, name)
            kind, shape = _I, operand.shape
        else:
            kind, shape = operand if operand and isinstance(operand[-1], tuple) else (_F, operand)
            value = ir.Value(
                name=name, shape=ir.Shape(shape), type=ir.TensorType(ir.DataType(kind))
            )
        types[name] = helper.make_tensor_type_proto(kind, shape)
        inputs.append(value)
    proto = helper.make_node(operator, list(types), [f"y{i}" for i in range(outputs)], **attributes)
    given = [ir.serde.deserialize_attribute(each) for each in proto.attribute]
    node = ir.Node("", operator, inputs, given, num_outputs=outputs)
    for place, value in enumerate(node.outputs):
        value.name = f"y{place}"
    return node, proto, types, data


@pytest.mark.parametrize("case", _CASES, ids=lambda case: case[0])
def test_agrees_with_onnx(case):
    node, proto, types, data = _node(*case)
    assert infer_outputs(node)
    schema = onnx.defs.get_schema(case[0], OPSET)
    found = onnx.shape_inference.infer_node_outputs(schema, proto, types, data)
    for value in node.outputs:
        wanted = found[value.name].tensor_type
        sizes = [d.dim_value if d.HasField("dim_value") else d.dim_param or None
                 for d in wanted.shape.dim]  # fmt: skip
        assert value.dtype == ir.DataType(wanted.elem_type)
        assert [d if isinstance(d, int) else d.value for d in value.shape] == sizes


@pytest.mark.parametrize("case", _REFUSED, ids=lambda case: case[0])
def test_leaves_the_rest_to_onnx(case):
    node, *_ = _node(*case)
    assert not infer_outputs(node)
    assert all(value.shape is None and value.type is None for value in node.outputs)


def test_known_shapes_stay():
    node, *_ = _node("Relu", [(2, 3)], {})
    node.outputs[0].shape = ir.Shape((6,))
    assert not infer_outputs(node)
    assert tuple(node.outputs[0].shape) == (6,)
