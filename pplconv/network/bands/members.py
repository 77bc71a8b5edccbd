"""The steps of a network that can run band by band."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...planner import Plan
from ..fusion import Chain, inputs_of
from ..nodes import Graph, Node
from ..operators.row_reach import SAME, Band, Reach
from ..operators.table import row_of

__all__ = ["Item", "Member", "in_band", "member_of"]

Item = Node | Chain


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
        Images that it reads by rows, that of its windows first; it reads other operands whole.
    planned : bool
        Whether it is a convolution.
    plan : Plan or None
        Of the convolution of the whole image: bands have its bits and its packed weights.
    joins : tuple of str
        Operands that are written straight into the result.
    """

    item: Item
    result: str
    reads: Mapping[str, Reach]
    planned: bool = False
    plan: Plan | None = None
    joins: tuple[str, ...] = ()


def member_of(item: Item, graph: Graph) -> Member | None:
    """Describe a step that can run band by band; None for any other one."""
    if isinstance(item, Chain):
        reads = _rows_of_chain(item, graph) if _is_image(item.result, graph) else None
        return Member(item, item.result, reads) if reads else None
    row, results = row_of(item.op), [name for name in item.outputs if name]
    if row.rows is None or len(results) > 1 or not row.is_served(item, graph):
        return None
    if not all(_is_image(name, graph) for name in (item.inputs[0], *results)):
        return None
    rows = row.rows(item, graph)
    if rows is None:
        return None
    planned = row.planned or ("kernel_shape" in item.attributes and len(inputs_of(item)) > 1)
    joins = tuple(rows.reads) if rows.joins else ()
    return Member(item, results[0], rows.reads, planned, joins=joins)


def _is_image(name: str, graph: Graph) -> bool:
    shape = graph.shapes[name]
    return len(shape) == 4 and shape[0] == 1 and 0 not in shape and name not in graph.constants


def _rows_of_chain(chain: Chain, graph: Graph) -> dict[str, Reach] | None:
    """Give the images of the height of a chain's result; others are the same for each row."""
    height = graph.shapes[chain.result][2]
    for node in chain.nodes:
        shape = graph.shapes[node.outputs[0]]
        if len(shape) != 4 or shape[2] != height:
            return None
    reads: dict[str, Reach] = {}
    for name in chain.inputs():
        shape = graph.shapes[name]
        if len(shape) < 2 or shape[-2] == 1:
            continue
        if not _is_image(name, graph):
            return None
        reads[name] = SAME
    return reads


def in_band(item: Item, graph: Graph, heights: Mapping[str, int], band: Band) -> tuple[Item, Graph]:
    """Give a step and its graph with fewer rows of images.

    Parameters
    ----------
    item : Node or Chain
        The step of whole images.
    graph : Graph
        Its graph; left as it is.
    heights : mapping of str to int
        Rows of the images that it reads by rows, and of its result.
    band : Band
        Rows of its result.
    """
    nodes = item.nodes if isinstance(item, Chain) else [item]
    shapes = dict(graph.shapes)
    for name in (*heights, *(name for node in nodes for name in node.outputs if name)):
        n, c, _, w = shapes[name]
        shapes[name] = n, c, heights.get(name, band.end - band.begin), w
    if isinstance(item, Node):
        rule = row_of(item.op).rows
        rows = rule(item, graph) if rule is not None else None
        assert rows is not None, "members have such a rule"
        item = rows.cut(item, band)
        nodes = [item]
    inner = Graph(nodes, shapes, graph.dtypes, graph.constants, graph.inputs, graph.outputs)
    return item, inner
