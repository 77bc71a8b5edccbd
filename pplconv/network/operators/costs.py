"""Floating-point operations of nodes, from their shapes."""

from __future__ import annotations

import math

from ..nodes import Graph, Node

__all__ = ["convolution", "moved", "product", "recurrent", "transposed_convolution"]

# Cost of moving one element, in floating-point operations at a core's peak.
FLOPS_OF_AN_ELEMENT = 8


def moved(node: Node, graph: Graph) -> int:
    """A node that writes each element once: some operations for each element."""
    return FLOPS_OF_AN_ELEMENT * _written(node, graph)


def convolution(node: Node, graph: Graph) -> int:
    """A product with all weights of a group for each element of the output."""
    return 2 * _written(node, graph) * math.prod(graph.shapes[node.inputs[1]][1:])


def transposed_convolution(node: Node, graph: Graph) -> int:
    """A product with all weights of a group for each element of the input."""
    pixels = math.prod(graph.shapes[node.inputs[0]])
    return 2 * pixels * math.prod(graph.shapes[node.inputs[1]][1:])


def product(node: Node, graph: Graph) -> int:
    """A product of matrices."""
    columns = max(graph.shapes[node.outputs[0]][-1:], default=1)
    depth = math.prod(graph.shapes[node.inputs[1]][-2:]) // max(columns, 1)
    return 2 * _written(node, graph) * depth


def recurrent(node: Node, graph: Graph) -> int:
    """Products with both weight matrices, for each vector of each sequence."""
    times = math.prod(graph.shapes[node.inputs[0]][:2])
    return 2 * times * sum(math.prod(graph.shapes[name]) for name in node.inputs[1:3])


def _written(node: Node, graph: Graph) -> int:
    return sum(math.prod(graph.shapes[name]) for name in node.outputs if name)
