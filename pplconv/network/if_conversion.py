"""If-conversion: both branches of an If are computed, and a Where selects, where that is cheap.

An If with a computed condition cuts a network, and each branch is a program of its own. A few
element-wise operators on a few numbers cost less than that.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import onnx_ir as ir

from .names import all_names, unused_name
from .operators.table import row_of
from .operators.table_row import View
from .python_values import is_container
from .storage import Shape
from .subgraphs import reads_of, subgraphs_of
from .tensors import lift_constants
from .values import FLOATS, static_shape

__all__ = ["convert_branches"]

_MOST_ELEMENTS = 256
_MOST_NODES = 16
_TYPES = FLOATS | {ir.DataType.BOOL, ir.DataType.INT32, ir.DataType.INT64}
# Operators that refuse integers: the condition may keep these from them.
_REFUSING = frozenset(("Div", "Mod", "Pow"))
# Operands of these do not broadcast with one another.
_ONE_SIDED = frozenset(("Clip", "PRelu"))


def convert_branches(model: ir.Model) -> bool:
    """Replace each If whose branches cost little by the nodes of both, and Where.

    Parameters
    ----------
    model : ir.Model
        A folded model whose inputs have fixed shapes; changed in place. Subgraphs are left alone.

    Returns
    -------
    bool
        Whether there was one. Shapes of what follows are not inferred then.
    """
    names: set[str | None] = set()
    for node in list(model.graph):
        if not node.domain and node.op_type == "If" and _is_cheap(node) and _results_fit(node):
            names = names or set(all_names(model.graph))
            _convert(model.graph, node, names)
    if names:
        lift_constants(model.graph)
    return bool(names)


def _branches(node: ir.Node) -> tuple[ir.Graph, ir.Graph]:
    return node.attributes["then_branch"].as_graph(), node.attributes["else_branch"].as_graph()


def _is_cheap(node: ir.Node) -> bool:
    """Tell whether both branches are a few operators on few numbers, which run always."""
    condition = node.inputs[0]
    shape = static_shape(condition)
    if shape is None or math.prod(shape) != 1 or condition.dtype != ir.DataType.BOOL:
        return False
    if is_container(condition):
        return False
    branches = _branches(node)
    nodes = [inner for branch in branches for inner in branch]
    if len(nodes) > _MOST_NODES or not all(map(_runs_always, nodes)):
        return False
    return all(map(_is_small, (value for branch in branches for value in _values(branch))))


def _values(graph: ir.Graph) -> Iterator[ir.Value]:
    for node in graph:
        yield from (value for value in node.inputs if value is not None)
        yield from node.outputs
    yield from graph.outputs


def _is_small(value: ir.Value) -> bool:
    shape = static_shape(value)
    if shape is None or is_container(value):
        return False
    return math.prod(shape) <= _MOST_ELEMENTS and value.dtype in _TYPES


def _runs_always(node: ir.Node) -> bool:
    """Tell whether a node is element-wise, or changes a shape, and refuses no operands."""
    if node.domain or len(node.outputs) != 1:
        return False
    if node.op_type == "Constant":
        return True
    row = row_of(node.op_type)
    if node.op_type in _REFUSING:
        return node.outputs[0].dtype in FLOATS
    return row.expression is not None or row.view is View.RESHAPED


def _results_fit(node: ir.Node) -> bool:
    """Tell whether the results of both branches have one type and shape, as far as that matters.

    A shape may have further axes of one element, if the results of the nodes that read it, or of
    nodes that follow them, are the same with them.
    """
    unlike: dict[ir.Value, tuple[Shape, Shape]] = {}
    then_branch, else_branch = _branches(node)
    for value, *pair in zip(node.outputs, then_branch.outputs, else_branch.outputs, strict=True):
        one, other = map(static_shape, pair)
        if one is None or other is None or pair[0].dtype != pair[1].dtype:
            return False
        if one != other:
            if _without_axes(one) != _without_axes(other):
                return False
            unlike[value] = one, other
    for reader in node.graph or () if unlike else ():
        if not unlike.keys() & set(reads_of(reader)):
            continue
        shapes = _shapes_of(reader, unlike)
        if shapes is None:
            return False
        if shapes[0] != shapes[1]:
            unlike[reader.outputs[0]] = shapes
    return not any(value.is_graph_output() for value in unlike)


def _without_axes(shape: Shape) -> Shape:
    """Give a shape without the axes of one element before all others."""
    first = next((axis for axis, size in enumerate(shape) if size != 1), len(shape))
    return shape[first:]


def _shapes_of(
    node: ir.Node, unlike: dict[ir.Value, tuple[Shape, Shape]]
) -> tuple[Shape, Shape] | None:
    """Give the shapes of an element-wise node's result for either branch; None if unknown."""
    plain = not node.domain and node.op_type not in _ONE_SIDED and not subgraphs_of(node)
    if not plain or row_of(node.op_type).expression is None or len(node.outputs) != 1:
        return None
    shapes: tuple[list[Shape], list[Shape]] = ([], [])
    for value in node.inputs:
        known = static_shape(value)
        pair = unlike.get(value) if value is not None else None
        if known is None and pair is None:
            return None
        for place, side in enumerate(shapes):
            side.append(pair[place] if pair is not None else known or ())
    try:
        return np.broadcast_shapes(*shapes[0]), np.broadcast_shapes(*shapes[1])
    except ValueError:
        return None


def _convert(graph: ir.Graph, node: ir.Node, names: set[str | None]) -> None:
    """Replace an If by the nodes of its branches, and a Where for each result."""
    condition = node.inputs[0]
    assert condition is not None
    made: list[ir.Node] = []

    def add(operator: str, inputs: list[ir.Value], shape: Shape, dtype: ir.DataType) -> ir.Value:
        result = ir.Value(shape=ir.Shape(shape), type=ir.TensorType(dtype))
        result.name = unused_name(f"{node.outputs[0].name}_{operator}", names)
        made.append(ir.node(operator, inputs, outputs=[result], name=result.name))
        return result

    if static_shape(condition):
        axes = ir.Value(const_value=ir.tensor(np.empty(0, np.int64)))
        axes.name, axes.shape = unused_name(f"{condition.name}_axes", names), ir.Shape((0,))
        graph.register_initializer(axes)
        condition = add("Reshape", [condition, axes], (), ir.DataType.BOOL)
    results: list[list[ir.Value]] = []
    for branch in _branches(node):
        results.append(list(branch.outputs))
        for value in list(branch.initializers.values()):
            del branch.initializers[value.name or ""]
            value.name = unused_name(f"{value.name}_chosen", names)
            graph.register_initializer(value)
        branch.outputs.clear()
        for inner in list(branch):
            branch.remove(inner)
            for value in inner.outputs:
                value.name = unused_name(f"{value.name}_chosen", names)
            made.append(inner)
    for old, one, other in zip(node.outputs, *results, strict=True):
        if not old.uses() and not old.is_graph_output():
            continue
        shape = np.broadcast_shapes(static_shape(one) or (), static_shape(other) or ())
        assert one.dtype is not None
        new = add("Where", [condition, one, other], shape, one.dtype)
        old.replace_all_uses_with(new, replace_graph_outputs=True)
        new.name, old.name = old.name, new.name
    graph.insert_before(node, made)
    graph.remove(node, safe=True)
