"""MaxPool and Resize of quantized images: both choose among the integers that are there."""

from __future__ import annotations

import math

import numpy as np

from ..builder import Builder
from ..nodes import Graph, Node
from ..storage import Array
from .quantized import STORED, emit, taps
from .windows import resize_taps


def serves_pool(node: Node, graph: Graph) -> bool:
    """Whether it is a MaxPool of quantized images that gives no indices."""
    return (
        node.op == "MaxPool"
        and len(graph.shapes[node.inputs[0]]) == 4
        and graph.dtypes[node.inputs[0]] in STORED
        and len([name for name in node.outputs if name]) == 1
        and math.prod(graph.shapes[node.outputs[0]]) > 0
    )


def lower_pool(node: Node, builder: Builder, graph: Graph) -> None:
    """MaxPool: padding is less than all that is there."""
    least = np.iinfo(graph.dtypes[node.inputs[0]]).min

    def function(x: Array) -> Array:
        found = np.maximum.reduce(taps(node, graph, x, least))
        return np.asarray(found.transpose(0, 3, 1, 2))

    kernel = "x".join(map(str, node.attributes["kernel_shape"]))
    emit(node, builder, graph, function, "MaxPool", f"{kernel} of {graph.dtypes[node.inputs[0]]}")


def serves_resize(node: Node, graph: Graph) -> bool:
    """Whether it is a Resize of quantized images that repeats or leaves out pixels."""
    return (
        graph.dtypes[node.inputs[0]] in STORED
        and node.attributes.get("mode", "nearest") == "nearest"
        and resize_taps(node, graph) is not None
    )


def lower_resize(node: Node, builder: Builder, graph: Graph) -> None:
    """Resize to the nearest pixel."""
    found = resize_taps(node, graph)
    assert found is not None
    rows, columns = (at[:, 0] for at, _ in found)

    def function(x: Array) -> Array:
        return x[:, :, rows[:, None], columns]

    sizes = "x".join(map(str, graph.shapes[node.outputs[0]][2:]))
    emit(node, builder, graph, function, "Resize", f"to {sizes} of {graph.dtypes[node.inputs[0]]}")
