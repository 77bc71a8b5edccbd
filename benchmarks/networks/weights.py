"""Seeded random weights for a graph that has only their shapes, and a graph of one batch size.

The scales keep activations of the same size from layer to layer. A network whose values vanish or
explode would compute with zeros, denormals or infinities, as no trained network does.
"""

from __future__ import annotations

import copy
import zlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import onnx

Array32 = NDArray[np.float32]

SEED = 20261123
IR_VERSION = 8
"""Since 4, an initializer needs not be an input of the graph too."""

BRANCH = 0.35
"""Scale of a branch that is added to another: with more, sums grow from block to block."""

_BATCH_NORM = ("data", "scale", "shift", "mean", "variance")
_ADDITIONS = ("Sum", "Add")


def values(name: str, shape: Sequence[int], kind: str, gain: float = 1.0) -> Array32:
    """Draw the values of a tensor; the same in every run, whatever is drawn before it.

    Parameters
    ----------
    name : str
        Its name, which decides what is drawn.
    shape : sequence of int
    kind : str
        ``"weight"``: normal, of the scale that keeps the size of activations (`gain` is the
        variance times the number of inputs: 2 before a Relu). ``"shift"`` and ``"mean"``: near 0.
        ``"scale"`` and ``"variance"``: near `gain`.
    gain : float
    """
    rng = np.random.default_rng([SEED, zlib.crc32(name.encode())])
    if kind == "weight":
        inputs = int(np.prod(shape[1:]))
        drawn = rng.standard_normal(shape, np.float32)
        drawn *= np.float32((gain / inputs) ** 0.5)
        return drawn
    if kind in ("scale", "variance"):
        return (gain * rng.uniform(0.8, 1.2, shape)).astype(np.float32)
    return (0.1 * rng.standard_normal(shape)).astype(np.float32)


def with_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """Give a copy whose weights are random constants.

    Parameters
    ----------
    model : onnx.ModelProto
        One of onnx's own test data: each weight is a ``ConstantOfShape``.

    Returns
    -------
    onnx.ModelProto
        Its batch size may be changed by `at_shapes`: reshapes keep the first axis.
    """
    from onnx import helper, numpy_helper

    graph = model.graph
    known = {one.name: numpy_helper.to_array(one) for one in graph.initializer}
    made = {
        node.output[0]: [int(size) for size in known[node.input[0]]]
        for node in graph.node
        if node.op_type == "ConstantOfShape"
    }
    nodes = [node for node in graph.node if node.op_type != "ConstantOfShape"]
    constants = {name: _draw(name, shape, nodes) for name, shape in made.items()}
    used = {name for node in nodes for name in node.input}
    for name, array in known.items():
        if name in used:
            constants[name] = array
    for node in nodes:
        if node.op_type == "Reshape" and node.input[1] in known:
            # 0 copies the size of the input: the batch, whatever it is.
            target = known[node.input[1]].copy()
            target[0] = 0
            constants[node.input[1]] = target
        if node.op_type == "Softmax" and not node.attribute:
            # The default until opset 13; the default is another axis since.
            node.attribute.append(helper.make_attribute("axis", 1))
    inputs = [one for one in graph.input if one.name not in known]
    filled = helper.make_graph(
        nodes,
        graph.name,
        inputs,
        list(graph.output),
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    return helper.make_model(filled, opset_imports=model.opset_import, ir_version=IR_VERSION)


def _draw(name: str, shape: Sequence[int], nodes: Sequence[onnx.NodeProto]) -> Array32:
    """Draw a weight of the kind that its first reader needs."""
    for node in nodes:
        if name not in node.input:
            continue
        place = list(node.input).index(name)
        if node.op_type == "BatchNormalization":
            kind = _BATCH_NORM[place]
            branch = kind == "scale" and _reads(nodes, node.output[0], _ADDITIONS)
            return values(name, shape, kind, BRANCH if branch else 1.0)
        if node.op_type == "Unsqueeze":
            scales = _reads(nodes, node.output[0], ("Mul",))
            return values(name, shape, "scale" if scales else "shift")
        if node.op_type == "Gemm" and place == 1:
            return values(name, shape, "weight", gain_before(nodes, node.output[0]))
        if node.op_type == "Conv" and place == 1:
            return values(name, shape, "weight", 2.0)
        return values(name, shape, "shift")
    raise ValueError(f"nothing reads the weight {name}")


def gain_before(nodes: Sequence[onnx.NodeProto], name: str) -> float:
    """Give the gain of a product's weights: 2 if a Relu follows, which drops half the outputs."""
    return 2.0 if _reads(nodes, name, ("Relu",)) else 1.0


def _reads(nodes: Sequence[onnx.NodeProto], name: str, kinds: Sequence[str]) -> bool:
    return any(name in node.input and node.op_type in kinds for node in nodes)


def at_shapes(
    model: onnx.ModelProto, shapes: Mapping[str, Sequence[int]]
) -> onnx.ModelProto | None:
    """Set the shapes of a model's inputs, in place.

    Declared shapes of all other tensors belong to the old inputs. Outputs get the shapes that onnx
    infers, or keep theirs if it infers none; inner tensors lose their shapes.

    Returns
    -------
    onnx.ModelProto or None
        The same model; None if it has these shapes already.

    Raises
    ------
    ValueError
        If an input has no shape among `shapes`.
    """
    weights = {one.name for one in model.graph.initializer}
    inputs = [one for one in model.graph.input if one.name not in weights]
    if {one.name for one in inputs} != set(shapes):
        names = ", ".join(one.name for one in inputs)
        raise ValueError(f"the model's inputs are {names}, the shapes of {', '.join(shapes)}")
    from onnx import shape_inference

    changed = False
    for one in inputs:
        dims = one.type.tensor_type.shape.dim
        declared = [dim.dim_value if dim.HasField("dim_value") else -1 for dim in dims]
        if declared == list(shapes[one.name]):
            continue
        changed = True
        del dims[:]
        for size in shapes[one.name]:
            dims.add().dim_value = size
    if not changed:
        return None
    del model.graph.value_info[:]
    declared_outputs = list(copy.deepcopy(model.graph.output))
    for one in model.graph.output:
        one.type.tensor_type.ClearField("shape")
    inferred = shape_inference.infer_shapes(model, data_prop=True).graph.output
    for one, before, found in zip(model.graph.output, declared_outputs, inferred, strict=True):
        known = found.type.tensor_type.HasField("shape")
        one.CopyFrom(found if known else before)
    return model
