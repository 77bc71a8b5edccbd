"""The steps of a network that can run band by band."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from ...planner import Plan
from ..fusion import Chain
from ..nodes import Graph, Node
from ..operators.row_reach import SAME, Band, Reach
from ..operators.table import row_of

__all__ = ["Member", "graph_of", "member_of"]


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
    cut : callable
        Gives the step for a band of its result.
    planned : bool
        Whether it is a convolution.
    apart : int
        Rows of the result from one row of a plan to its next one; bands begin at their multiples.
    plans : mapping or None
        Of convolutions of the whole image, by parts of the weights (`Builder.noting`): bands have
        their bits and their packed weights.
    joins : tuple of str
        Operands that are written straight into the result.
    """

    item: Node | Chain
    result: str
    reads: Mapping[str, Reach]
    cut: Callable[[Band], Node | Chain]
    planned: bool = False
    apart: int = 1
    plans: Mapping[Any, Plan] | None = None
    joins: tuple[str, ...] = ()


def member_of(item: Node | Chain, graph: Graph) -> Member | None:
    """Describe a step that can run band by band; None for any other one."""
    if isinstance(item, Chain):
        reads = _rows_of_chain(item, graph) if _is_image(item.result, graph) else None
        return Member(item, item.result, reads, lambda _: item) if reads else None
    row, results = row_of(item.op), [name for name in item.outputs if name]
    if row.rows is None or len(results) > 1 or not row.is_served(item, graph):
        return None
    if not all(_is_image(name, graph) for name in (item.inputs[0], *results)):
        return None
    rows = row.rows(item, graph)
    if rows is None:
        return None
    joins = tuple(rows.reads) if rows.joins else ()
    cut = partial(rows.cut, item)
    return Member(item, results[0], rows.reads, cut, rows.planned, rows.apart, joins=joins)


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


def graph_of(item: Node | Chain, graph: Graph, heights: Mapping[str, int]) -> Graph:
    """Give the graph of a step of a band.

    Parameters
    ----------
    item : Node or Chain
        The step.
    graph : Graph
        Of whole images; left as it is.
    heights : mapping of str to int
        Rows of the images that the step reads by rows, and of its result.
    """
    nodes = item.nodes if isinstance(item, Chain) else [item]
    made = [name for node in nodes for name in node.outputs if name]
    shapes = dict(graph.shapes)
    # Values inside a chain are as high as its result.
    for name in {**heights, **dict.fromkeys(made)}:
        n, c, _, w = shapes[name]
        shapes[name] = n, c, heights.get(name, heights[made[-1]]), w
    return Graph(nodes, shapes, graph.dtypes, graph.constants, graph.inputs, graph.outputs)
