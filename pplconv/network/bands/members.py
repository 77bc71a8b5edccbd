"""The steps of a network that can run band by band, with the rows that they read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ...planner import Plan
from ..fusion import Chain
from ..nodes import Graph, Node
from ..operators.convolution import explicit_pads
from ..operators.table import row_of
from .reach import SAME, Reach

__all__ = ["Member", "in_band", "member_of", "result_of"]

_CONVOLVED = ("Conv", "pplconv.Conv")
_POOLED = ("MaxPool", "AveragePool")
_RESIDUALS = (3, 6)


@dataclass(frozen=True)
class Member:
    """A step that may belong to a group.

    Parameters
    ----------
    item : Node or Chain
        The step.
    result : str
        Its only result, an image.
    reads : mapping of str to Reach
        Images that it reads by rows; it reads other operands whole.
    plan : Plan or None
        Of a convolution of the whole image: bands have its bits and its packed weights.
    joins : tuple of str
        Operands that are written straight into the result.
    """

    item: Node | Chain
    result: str
    reads: Mapping[str, Reach]
    plan: Plan | None = None
    joins: tuple[str, ...] = ()


def result_of(item: Node | Chain) -> str:
    """Name of the first result."""
    return item.result if isinstance(item, Chain) else item.outputs[0]


def member_of(item: Node | Chain, graph: Graph) -> Member | None:
    """Describe a step that can run band by band; None for any other one."""
    result = result_of(item)
    shape = graph.shapes[result]
    if len(shape) != 4 or shape[0] != 1 or 0 in shape or result in graph.constants:
        return None
    if isinstance(item, Chain):
        reads = _rows_of_chain(item, graph)
    elif len([name for name in item.outputs if name]) > 1 or not row_of(item.op).is_served(
        item, graph
    ):
        return None
    else:
        reads = _rows_of_node(item, graph)
    return None if not reads else Member(item, result, reads)


def _rows_of_chain(chain: Chain, graph: Graph) -> dict[str, Reach] | None:
    height = graph.shapes[chain.result][2]
    reads = {}
    for node in chain.nodes:
        shape = graph.shapes[node.outputs[0]]
        if len(shape) != 4 or shape[2] != height:
            return None
    for name in chain.inputs():
        shape = graph.shapes[name]
        if len(shape) < 2 or shape[-2] == 1:
            continue
        if len(shape) != 4 or shape[0] != 1 or name in graph.constants:
            return None
        reads[name] = SAME
    return reads


def _rows_of_node(node: Node, graph: Graph) -> dict[str, Reach] | None:
    if node.op == "Concat":
        if node.attributes["axis"] % 4 != 1 or any(n in graph.constants for n in node.inputs):
            return None
        return dict.fromkeys(node.inputs, SAME)
    if node.op not in (*_CONVOLVED, *_POOLED):
        return None
    kernel = node.attributes.get("kernel_shape")
    if node.op in _CONVOLVED:
        if node.inputs[1] not in graph.constants:
            return None
        kernel = graph.shapes[node.inputs[1]][2:]
    assert kernel is not None
    stride = (node.attributes.get("strides") or [1, 1])[0]
    dilation = (node.attributes.get("dilations") or [1, 1])[0]
    if dilation != 1:
        return None
    reads = {node.inputs[0]: Reach(int(stride), int(explicit_pads(node)[0]), int(kernel[0]))}
    if node.op == "pplconv.Conv":
        for name in (node.inputs[at] for at in _RESIDUALS if at < len(node.inputs)):
            if not name:
                continue
            if reads.get(name, SAME) != SAME or name in graph.constants:
                return None
            reads[name] = SAME
    return reads


def in_band(
    item: Node | Chain, graph: Graph, rows: Mapping[str, int], top: int, bottom: int
) -> tuple[Node | Chain, Graph]:
    """Give a step and its graph with fewer rows of images.

    Parameters
    ----------
    item : Node or Chain
        The step of whole images.
    graph : Graph
        Its graph; left as it is.
    rows : mapping of str to int
        Rows of the images that it reads and of its result.
    top, bottom : int
        Rows of padding.
    """
    nodes = item.nodes if isinstance(item, Chain) else [item]
    shapes = dict(graph.shapes)
    names = dict.fromkeys(rows, 0)
    result = result_of(item)
    for name in (*names, *(node.outputs[0] for node in nodes)):
        n, c, _, w = shapes[name]
        shapes[name] = (n, c, rows[name if name in rows else result], w)
    if isinstance(item, Node) and item.op in (*_CONVOLVED, *_POOLED):
        _, left, _, right = explicit_pads(item)
        attributes: dict[str, Any] = {**item.attributes, "pads": [top, left, bottom, right]}
        item = replace(item, attributes=attributes)
        nodes = [item]
    inner = Graph(nodes, shapes, graph.dtypes, graph.constants, graph.inputs, graph.outputs)
    return item, inner
