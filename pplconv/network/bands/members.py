"""The steps of a network that can run band by band."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ..._records import record
from ...planner import Plan
from ..fusion import Chain, inputs_of
from ..nodes import Graph, Node
from ..operators.row_reach import SAME, Band, Reach
from ..operators.table import row_of

__all__ = ["Member", "graph_of", "member_of"]

# Each image has steps of its own.
MOST_IMAGES = 8
# Columns are cut where rows are so many times longer: then they are the smaller pieces.
WIDE = 2


@record(frozen=True)
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
    axis : int
        The axis that is cut: 2, or 3, where columns count as rows.
    images : int
        The batch: a band is of one image.
    each : tuple of str
        Other operands that have the batch, as factors of channels: a band reads those of its image.
    """

    item: Node | Chain
    result: str
    reads: Mapping[str, Reach]
    cut: Callable[[Band], Node | Chain]
    planned: bool = False
    apart: int = 1
    plans: Mapping[Any, Plan] | None = None
    joins: tuple[str, ...] = ()
    axis: int = 2
    images: int = 1
    each: tuple[str, ...] = ()


def member_of(item: Node | Chain, graph: Graph, axis: int) -> Member | None:
    """Describe a step that can run in bands of rows (2) or columns (3); None for any other one."""
    if isinstance(item, Chain):
        member = _of_chain(item, graph, axis)
    else:
        member = _of_node(item, graph, axis)
    if member is None or member.images == 1:
        return member
    if member.images > MOST_IMAGES or not _keeps_apart(item, member.images, graph):
        return None
    each = [
        name for name in inputs_of(item)
        if name not in member.reads and _has_batch(name, member.images, graph)
    ]  # fmt: skip
    return replace(member, each=tuple(each))


def _of_chain(item: Chain, graph: Graph, axis: int) -> Member | None:
    if not _is_image(item.result, graph) or not _is_cut(item.result, graph, axis):
        return None
    images = graph.shapes[item.result][0]
    reads = _rows_of_chain(item, graph, axis)
    return (
        Member(item, item.result, reads, lambda _: item, axis=axis, images=images)
        if reads
        else None
    )


def _of_node(item: Node, graph: Graph, axis: int) -> Member | None:
    row, results = row_of(item.op), [name for name in item.outputs if name]
    if row.rows is None or len(results) > 1 or not row.is_served(item, graph):
        return None
    if not all(_is_image(name, graph) for name in (item.inputs[0], *results)):
        return None
    if not _is_cut(results[0], graph, axis):
        return None
    images = graph.shapes[results[0]][0]
    rows = row.rows(item, graph, axis)
    if rows is None or any(graph.shapes[name][0] != images for name in rows.reads):
        return None
    joins = tuple(rows.reads) if rows.joins else ()
    cut = partial(rows.cut, item)
    return Member(
        item,
        results[0],
        rows.reads,
        cut,
        rows.planned,
        rows.apart,
        joins=joins,
        axis=axis,
        images=images,
    )


def _is_image(name: str, graph: Graph) -> bool:
    shape = graph.shapes[name]
    return len(shape) == 4 and 0 not in shape and name not in graph.constants


def _is_cut(name: str, graph: Graph, axis: int) -> bool:
    """Whether bands of this axis may be worth while: those of columns have gaps between rows."""
    _, _, height, width = graph.shapes[name]
    return width >= WIDE * height if axis == 3 else height > 1 or width == 1


def _has_batch(name: str, images: int, graph: Graph) -> bool:
    return name not in graph.constants and graph.shapes[name][:1] == (images,)


def _keeps_apart(item: Node | Chain, images: int, graph: Graph) -> bool:
    """Whether each image of the result depends on the same image of the operands alone."""
    batched = {name for name in inputs_of(item) if name and _has_batch(name, images, graph)}
    for node in item.nodes if isinstance(item, Chain) else [item]:
        # Others, as constants and what follows from them, are the same for all images.
        if not batched.isdisjoint(node.inputs):
            if not row_of(node.op).batches(node, graph, batched):
                return False
            batched.update(node.outputs)
    return True


def _rows_of_chain(chain: Chain, graph: Graph, axis: int) -> dict[str, Reach] | None:
    """Give the images with the rows of a chain's result; others are the same for each row."""
    height, from_end = graph.shapes[chain.result][axis], axis - 4
    for node in chain.nodes:
        shape = graph.shapes[node.outputs[0]]
        if len(shape) != 4 or shape[axis] != height:
            return None
    reads: dict[str, Reach] = {}
    for name in chain.inputs():
        shape = graph.shapes[name]
        if len(shape) < -from_end or shape[from_end] == 1:
            continue
        if not _is_image(name, graph) or shape[0] != graph.shapes[chain.result][0]:
            return None
        reads[name] = SAME
    return reads


def graph_of(
    item: Node | Chain,
    graph: Graph,
    heights: Mapping[str, int],
    axis: int,
    each: Sequence[str] = (),
) -> Graph:
    """Give the graph of a step of a band of one image.

    Parameters
    ----------
    item : Node or Chain
        The step.
    graph : Graph
        Of whole images; left as it is.
    heights : mapping of str to int
        Rows of the images that the step reads by rows, and of its result.
    axis : int
        The axis that is cut.
    each : sequence of str
        Other operands that have the batch.
    """
    nodes = item.nodes if isinstance(item, Chain) else [item]
    made = [name for node in nodes for name in node.outputs if name]
    shapes = dict(graph.shapes)
    # Values inside a chain are as high as its result.
    for name in {**heights, **dict.fromkeys(made)}:
        shape = [1, *shapes[name][1:]]
        shape[axis] = heights.get(name, heights[made[-1]])
        shapes[name] = tuple(shape)
    for name in each:
        shapes[name] = 1, *shapes[name][1:]
    return Graph(nodes, shapes, graph.dtypes, graph.constants, graph.inputs, graph.outputs)
