"""Open and run models with sizes below zero and the like, each in a process that may end.

Not a test module: `test_negative_sizes` runs it as a script. Prints a line of JSON: for each case
the error, or how the process ended.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from pplconv.network.session import InferenceSession

Operand = Any
SHAPE = (1, 3, 7, 7)
# By name: the oldest opset, the operator, its operands behind x or all of them, its attributes.
CASES: dict[str, tuple[int, str, dict[str, Operand], dict[str, Any]]] = {
    "pad": (11, "Pad", {"x": None, "p": [0, 0, -10, 0, 0, 0, 0, 0]}, {}),
    "reflected pad": (11, "Pad", {"x": None, "p": [0, 0, -9, 0, 0, 0, 0, 0]}, {"mode": "reflect"}),
    "conv": (10, "Conv", {"x": None, "w": np.ones((3, 3, 9, 9), np.float32)}, {}),
    "transposed conv": (
        10, "ConvTranspose", {"x": None, "w": np.ones((3, 3, 1, 1), np.float32)},
        {"pads": [9, 9, 9, 9]},
    ),
    "pool": (10, "MaxPool", {"x": None}, {"kernel_shape": [9, 9]}),
    "average": (10, "AveragePool", {"x": None}, {"kernel_shape": [20, 20]}),
    "powers": (11, "LpPool", {"x": None}, {"kernel_shape": [20, 20]}),
    "scales": (13, "Resize", {"x": None, "": None, "s": np.float32([1, 1, -3, 1])}, {}),
    "expand": (10, "Expand", {"x": None, "s": [1, 3, -7, 7]}, {}),
    "reshape": (10, "Reshape", {"x": None, "s": [1, -3, -7, 7]}, {}),
    "tile": (10, "Tile", {"x": None, "s": [1, 1, -2, 1]}, {}),
    "filled": (10, "ConstantOfShape", {"s": [1, 3, -2, 1]}, {}),
    "crop": (18, "CenterCropPad", {"x": None, "s": [-5]}, {"axes": [2]}),
    "split": (13, "Split", {"x": None, "s": [-1, 4, 4]}, {"axis": 2}),
    "parts": (18, "Split", {"x": None}, {"axis": 1, "num_outputs": 2}),
    "axis": (
        17, "LayerNormalization", {"x": None, "w": np.ones(7, np.float32)}, {"axis": (1 << 63) - 1}
    ),
    "regions": (
        16, "RoiAlign", {"x": None, "r": np.zeros((1, 4), np.float32), "i": [0]},
        {"output_height": -3},
    ),
    "batches": (13, "GatherND", {"x": None, "i": np.zeros((1, 1), np.int64)}, {"batch_dims": -2}),
}  # fmt: skip


def made(name: str, opset: int, inside: bool) -> bytes:
    """A model of the operator and a Slice behind it, perhaps in a branch."""
    _, op, operands, attributes = CASES[name]
    # With results that nobody reads: inference goes through all of them.
    results = ["v", "v_1", "v_2"] if op in ("LayerNormalization", "Split") else ["v"]
    nodes = [
        helper.make_node(op, list(operands), results, "wrong", **attributes),
        helper.make_node("Slice", ["v", "start", "end", "axis"], ["y"]),
    ]
    known = {"start": [0], "end": [3], "axis": [2]}
    known |= {name: operand for name, operand in operands.items() if operand is not None}
    tensors = [
        numpy_helper.from_array(np.asarray(array, None if hasattr(array, "dtype") else np.int64), n)
        for n, array in known.items()
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)]
    if inside:
        branches = {}
        other = helper.make_node("Identity", ["x"], ["z"])
        for key, body, result in (("then_branch", nodes, "y"), ("else_branch", [other], "z")):
            output = helper.make_tensor_value_info(result, TensorProto.FLOAT, None)
            branches[key] = helper.make_graph(
                body, key, [], [output], tensors if result == "y" else []
            )
        nodes, tensors = [helper.make_node("If", ["c"], ["whole"], **branches)], []
        inputs.append(helper.make_tensor_value_info("c", TensorProto.BOOL, []))
    output = helper.make_tensor_value_info("whole" if inside else "y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "g", inputs, [output], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return bytes(model.SerializeToString())


def said(model: bytes, inside: bool) -> str:
    """The error of a model, in this process."""
    feed = {"x": np.ones(SHAPE, np.float32)} | ({"c": np.array(True)} if inside else {})
    try:
        InferenceSession(model, threads=1, fallback="silent").run(None, feed)
    except ValueError as error:
        return str(error)
    return "ran"


def apart(model: bytes, inside: bool) -> str:
    """The same in a process of its own."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.write(write, said(model, inside).encode())
        os._exit(0)
    os.close(write)
    with open(read) as end:
        told = end.read()
    status = os.waitpid(child, 0)[1]
    return told if status == 0 else f"ended with the status {status}"


def main() -> None:
    """Go through the cases of an opset."""
    opset = int(sys.argv[1])
    told = {
        f"{name}{' in a branch' * inside}": apart(made(name, opset, inside), inside)
        for name, (oldest, *_) in CASES.items() if opset >= oldest
        for inside in (False, True)
    }  # fmt: skip
    json.dump(told, sys.stdout)


if __name__ == "__main__":
    main()
