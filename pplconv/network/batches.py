"""Batches run in parts, so that intermediate results stay in the caches.

A network that treats each image separately gives equal results for a batch and for its parts in
turn. The graph shows whether it does: the first dimension of every value that depends on an input
is the batch, and no operator mixes images.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from .fusion import Chain
from .nodes import Graph, Node
from .operators.table import row_of
from .operators.table_row import View

__all__ = ["batched_names", "for_images", "images_at_once"]


def batched_names(graph: Graph) -> frozenset[str]:
    """Name the values whose first dimension is the batch.

    Parameters
    ----------
    graph : Graph
        For one set of input shapes.

    Returns
    -------
    frozenset of str
        Empty if the batch has one image, or if an operator may mix images.
    """
    sizes = {graph.shapes[name][:1] for name in graph.inputs}
    if len(sizes) != 1:
        return frozenset()
    (first,) = sizes
    if not first or first[0] < 2:
        return frozenset()
    batched = set(graph.inputs)
    for node in graph.nodes:
        if batched.isdisjoint(node.inputs):
            continue
        outputs = [name for name in node.outputs if name]
        if not _keeps_apart(node, graph, batched):
            return frozenset()
        if any(graph.shapes[name][:1] != first for name in outputs):
            return frozenset()
        batched.update(outputs)
    return frozenset(batched) if batched.issuperset(graph.outputs) else frozenset()


def _keeps_apart(node: Node, graph: Graph, batched: set[str]) -> bool:
    """Whether each output image depends on the same image of the inputs alone."""
    row = row_of(node.op)
    # Element-wise operators are element-wise in Python, too.
    known = row.expression is not None or row.is_served(node, graph)
    return known and row.batches(node, graph, batched)


def for_images(graph: Graph, batched: frozenset[str], images: int) -> Graph:
    """Give the same graph for another batch.

    Parameters
    ----------
    graph : Graph
        Left as it is.
    batched : frozenset of str
        As `batched_names` gives it.
    images : int
        The batch.
    """
    shapes = {
        name: (images, *shape[1:]) if name in batched else shape
        for name, shape in graph.shapes.items()
    }
    return Graph(graph.nodes, shapes, graph.dtypes, graph.constants, graph.inputs, graph.outputs)


def images_at_once(
    graph: Graph, items: Sequence[Node | Chain], batched: frozenset[str], cache: int
) -> int:
    """Choose how many images run together, for the least traffic from memory.

    Intermediate results beyond the cache's size come from memory. Weights come from memory once for
    all images that run together, unless the cache has room for them, too.

    Parameters
    ----------
    graph : Graph
        For the whole batch.
    items : sequence of Node or Chain
        Its nodes, element-wise ones joined.
    batched : frozenset of str
        As `batched_names` gives it.
    cache : int
        Bytes of cache of one core: the same for any team, because the choice decides the bits.

    Returns
    -------
    int
        A divisor of the batch.
    """
    batch = graph.shapes[graph.inputs[0]][0]
    lives, moved = (size / batch for size in _activations(graph, items, batched))
    weights = sum(
        math.prod(graph.shapes[name]) * graph.dtypes[name].itemsize
        for name in {name for node in graph.nodes for name in node.inputs}
        if name in graph.constants
    )

    def traffic(images: int) -> float:
        beyond = max(1 - cache / (images * lives), 0.0) if lives else 0.0
        streamed = weights if weights + images * lives > 2 * cache else 0
        return streamed / images + beyond * moved

    divisors = [n for n in range(1, batch + 1) if batch % n == 0]
    return min(reversed(divisors), key=traffic)


def _activations(
    graph: Graph, items: Sequence[Node | Chain], batched: frozenset[str]
) -> tuple[int, int]:
    """Estimate the peak of live bytes, and the total of bytes read and written."""
    place: dict[str, str] = {}
    size: dict[str, int] = {}
    last: dict[str, int] = {}
    moved = 0
    begun: list[list[str]] = []
    for index, item in enumerate(items):
        if isinstance(item, Chain):
            reads, writes, is_view = item.inputs(), [item.result], False
        else:
            reads, writes, is_view = item.inputs, item.outputs, row_of(item.op).view is not View.NO
        reads, writes = ([name for name in names if name in batched] for names in (reads, writes))
        begun.append([])
        for name in reads:
            last[place.setdefault(name, name)] = index
        for name in writes:
            own = math.prod(graph.shapes[name]) * graph.dtypes[name].itemsize
            if is_view and reads:
                place[name] = place[reads[0]]
                continue
            place[name], size[name], last[name] = name, own, index
            begun[-1].append(name)
            moved += own
        if not is_view:
            moved += sum(math.prod(graph.shapes[n]) * graph.dtypes[n].itemsize for n in reads)
    alive: dict[str, int] = {}
    most = 0
    for index, names in enumerate(begun):
        for name in names:
            alive[name] = size[name]
        most = max(most, sum(alive.values()))
        for name in [name for name in alive if last[name] <= index]:
            del alive[name]
    return most, moved
