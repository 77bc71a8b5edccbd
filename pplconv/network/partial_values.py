"""Nodes that are rewritten because something of their operands is known before they run.

A value may be another one (a result of Identity), a list of others (a sequence), or sizes, some of
them known (a result of Shape).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import onnx_ir as ir

from .._records import NamedTuple
from .graph_builder import GraphBuilder
from .onnx_answers import merged
from .values import attribute_int, constant, static_shape

__all__ = ["REWRITINGS", "Known", "Replacement"]

Sizes = tuple[Any, ...]
# Longer constants are no shapes.
_MOST_AXES = 10
# A SplitToSequence of more parts stays: a small file could ask for any number of results.
_MOST_PARTS = 64


class Replacement(NamedTuple):
    """What is put in the place of a node.

    Parameters
    ----------
    values : sequence of ir.Value
        In the place of its results.
    nodes : sequence of ir.Node
        New nodes.
    """

    values: Sequence[ir.Value]
    nodes: Sequence[ir.Node] = ()


class Known:
    """What is known of the values of a graph."""

    def __init__(self) -> None:
        self.same: dict[ir.Value, ir.Value] = {}
        self.sequences: dict[ir.Value, list[ir.Value]] = {}
        self._sizes: dict[ir.Value, Sizes] = {}

    def sizes(self, value: ir.Value | None) -> Sizes | None:
        """Give the sizes that a value lists; None if it is no such list."""
        if value is None:
            return None
        tensor = value.const_value
        if tensor is not None and tensor.dtype == ir.DataType.INT64 and tensor.size <= _MOST_AXES:
            array = tensor.numpy()
            return tuple(array.tolist()) if array.ndim == 1 else None
        return self._sizes.get(value)

    def note_sizes(self, node: ir.Node, sizes: Sizes | None) -> None:
        """Note the sizes that the result of a node lists."""
        if sizes is not None:
            self._sizes[node.outputs[0]] = sizes


Rewriting = Callable[[ir.Node, GraphBuilder, Known], "ir.Value | Sequence[ir.Value] | None"]
"""Builds what replaces a node; None if it stays. All that follows of its results is noted."""


def _operand(node: ir.Node, place: int) -> ir.Value | None:
    return node.inputs[place] if place < len(node.inputs) else None


def _list(op: GraphBuilder, numbers: Sequence[int]) -> Any:
    return op.Constant(value_ints=ir.AttrInt64s("value_ints", list(numbers)))


def _alike(sizes: Sizes, others: Sizes) -> bool:
    """Tell whether two shapes are the same, whatever their named sizes are."""
    unknown = any(not isinstance(size, int) and size.value is None for size in sizes)
    return not unknown and sizes == others


def _gathered(node: ir.Node, op: GraphBuilder, known: Known) -> Any:
    sizes, indices = known.sizes(_operand(node, 0)), constant(_operand(node, 1))
    if sizes is None or indices is None or indices.ndim != 1 or attribute_int(node, "axis", 0):
        return None
    found = tuple(sizes[index] for index in indices)
    known.note_sizes(node, found)
    return _list(op, found) if all(isinstance(size, int) for size in found) else None


def _moved(node: ir.Node, op: GraphBuilder, known: Known) -> Any:
    known.note_sizes(node, known.sizes(_operand(node, 0)))


def _expand(node: ir.Node, op: GraphBuilder, known: Known) -> Any:
    x, wanted = _operand(node, 0), known.sizes(_operand(node, 1))
    if x is None or x.shape is None or wanted is None or not _alike(x.shape.dims, wanted):
        return None
    return op.Identity(x)


def _reshape(node: ir.Node, op: GraphBuilder, known: Known) -> Any:
    return _expand(node, op, known) or _moved(node, op, known)


def _cast(node: ir.Node, op: GraphBuilder, known: Known) -> Any:
    x, dtype = _operand(node, 0), attribute_int(node, "to", 0)
    if x is None or not dtype:
        return None
    if x.dtype == dtype:
        return op.Identity(x)
    node.outputs[0].type = ir.TensorType(ir.DataType(dtype))
    return None


def _cast_like(node: ir.Node, op: GraphBuilder, known: Known) -> Any:
    x, like = node.inputs[:2]
    # A Cast has no place for its attributes.
    if node.attributes or like is None or like.dtype in (None, ir.DataType.UNDEFINED):
        return None
    return op.Identity(x) if x is not None and x.dtype == like.dtype else op.Cast(x, to=like.dtype)


def _shape(node: ir.Node, op: GraphBuilder, known: Known) -> Any:
    x = _operand(node, 0)
    if x is None or x.shape is None:
        return None
    end = attribute_int(node, "end", len(x.shape))
    sizes = x.shape.dims[attribute_int(node, "start", 0) : end]
    known.note_sizes(node, sizes)
    return _list(op, sizes) if all(isinstance(size, int) for size in sizes) else None


def _size(node: ir.Node, op: GraphBuilder, known: Known) -> Any:
    x = _operand(node, 0)
    if x is None or x.shape is None or not x.shape.is_static():
        return None
    return op.Constant(value_int=math.prod(x.shape.numpy()))


def _if(node: ir.Node, op: GraphBuilder, known: Known) -> Any:
    condition = constant(_operand(node, 0))
    if condition is None or condition.size != 1 or condition.dtype != bool or node.graph is None:
        return None
    branch = node.attributes.get("then_branch" if condition.item() else "else_branch")
    if branch is None or branch.type != ir.AttributeType.GRAPH:
        return None
    graph, around = branch.as_graph(), node.graph
    results, nodes = list(graph.outputs), list(graph)
    graph.outputs.clear()
    graph.remove(nodes)
    names = {own.name: value.name for own, value in zip(results, node.outputs, strict=False)}
    for inner in nodes:
        for value in inner.outputs:
            value.name = names.get(value.name, value.name)
        inner.name = f"{node.name}_{inner.name}"
    for name in list(graph.initializers):
        value = graph.initializers.pop(name)
        count = 0
        while value.name in around.initializers:
            count += 1
            value.name = f"{name}_{count}"
        around.register_initializer(value)
    return Replacement(results, nodes)


def _identity(node: ir.Node, op: GraphBuilder, known: Known) -> Any:
    x, y = _operand(node, 0), node.outputs[0]
    if x is None:
        return
    # Shapes that contradict are refused by whoever needs them.
    with suppress(ValueError):
        x.shape = merged(x.shape, y.shape)
    x.type = y.type if x.type is None else x.type
    known.same[y] = x


def _concat(node: ir.Node, op: GraphBuilder, known: Known) -> Any:
    if len(node.inputs) == 1:
        return op.Identity(node.inputs[0])
    if "axis" not in node.attributes:
        return None
    axis = attribute_int(node, "axis", 0)

    def is_empty(value: ir.Value | None) -> bool:
        shape = None if value is None else value.shape
        return shape is not None and -len(shape) <= axis < len(shape) and shape[axis] == 0

    values = [value for value in node.inputs if not is_empty(value)]
    if len(values) < len(node.inputs):
        return op.Concat(*values, axis=axis) if values else op.Identity(node.inputs[0])
    parts = [known.sizes(value) for value in values]
    if not axis and None not in parts:
        known.note_sizes(node, tuple(size for part in parts for size in part or ()))
    return None


def _dropout(node: ir.Node, op: GraphBuilder, known: Known) -> Any:
    x, ratio, training = [*node.inputs, None, None][:3]
    trains, share = constant(training), constant(ratio)
    off = trains is not None and trains.size == 1 and not trains.item()
    if training is not None and not off and (share is None or share.size != 1 or share.item()):
        return None
    y = op.Identity(x)
    if len(node.outputs) == 1:
        return y
    return y, op.ConstantOfShape(op.Shape(x), value=ir.tensor([True]))


def _sequence(node: ir.Node, op: GraphBuilder, known: Known) -> Any:
    if None not in node.inputs:
        known.sequences[node.outputs[0]] = [value for value in node.inputs if value is not None]


def _parts(node: ir.Node, op: GraphBuilder, known: Known) -> Any:
    x, split = _operand(node, 0), constant(_operand(node, 1))
    shape, axis = static_shape(x), attribute_int(node, "axis", 0)
    if split is None or split.ndim > 1 or shape is None or not -len(shape) <= axis < len(shape):
        return None
    sizes = split.reshape(-1).tolist()
    if not split.ndim:
        whole, size = shape[axis], sizes[0]
        if not 0 < size <= whole <= size * _MOST_PARTS:
            return None
        sizes = [min(size, whole - at) for at in range(0, whole, size)]
    if not 0 < len(sizes) <= _MOST_PARTS:
        return None
    found = op.Split(x, _list(op, sizes), axis=axis, _outputs=len(sizes))
    parts = [found] if len(sizes) == 1 else list(found)
    # As in onnxruntime: only one size for all parts may take the axis away.
    if not split.ndim and split == 1 and not attribute_int(node, "keepdims", 1):
        parts = [op.Squeeze(part, _list(op, [axis])) for part in parts]
    return op.SequenceConstruct(*parts)


def _element(node: ir.Node, op: GraphBuilder, known: Known) -> Any:
    elements, place = known.sequences.get(node.inputs[0]), constant(node.inputs[1])
    if elements is None or place is None or place.size != 1:
        return None
    if not -len(elements) <= place.item() < len(elements):
        return None
    return op.Identity(elements[place.item()])


def _joined(node: ir.Node, op: GraphBuilder, known: Known) -> Any:
    elements = known.sequences.get(node.inputs[0])
    if not elements or "axis" not in node.attributes:
        return None
    axis = attribute_int(node, "axis", 0)
    if attribute_int(node, "new_axis", 0):
        place = _list(op, [axis])
        elements = [op.Unsqueeze(value, place) for value in elements]
    return op.Concat(*elements, axis=axis)


REWRITINGS: dict[str, Rewriting] = {
    "Cast": _cast,
    "CastLike": _cast_like,
    "Concat": _concat,
    "ConcatFromSequence": _joined,
    "Dropout": _dropout,
    "Expand": _expand,
    "Gather": _gathered,
    "Identity": _identity,
    "If": _if,
    "Reshape": _reshape,
    "SequenceAt": _element,
    "SequenceConstruct": _sequence,
    "Shape": _shape,
    "Size": _size,
    "SplitToSequence": _parts,
    "Squeeze": _moved,
}
"""By operators of ONNX's domain."""
