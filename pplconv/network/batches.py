"""Batches run in parts: what lies between steps then stays in the caches.

A network that computes each image by itself gives the same for a batch and for its parts one after
the other. The graph says whether it does: the first dimension of every value that follows from an
input is the batch's, and no operator looks across it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from .fusion import Chain
from .nodes import Graph, Node
from .operators import OPERATORS
from .operators.expressions import EXPRESSIONS
from .operators.movement import RESHAPED, VIEWS, pad_begins, slices
from .operators.rows import KINDS, axes_of
from .rules.integer_nodes import RESIDUAL

__all__ = ["batched_names", "for_images", "images_at_once"]

# Nodes that compute images of their first input; what they add at the end is images, too.
IMAGES = {
    "AveragePool", "Conv", "ConvTranspose", "DepthToSpace", "MaxPool", "Resize", "SpaceToDepth",
    "pplconv.Conv", "pplconv.ConvTranspose",
}  # fmt: skip


def batched_names(graph: Graph) -> frozenset[str]:
    """Name the values whose first dimension is the batch.

    Parameters
    ----------
    graph : Graph
        For one set of input shapes.

    Returns
    -------
    frozenset of str
        Empty where the batch is of one image, or the network may look from one image at another.
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
    """Whether each image of the outputs follows from the same image of the inputs alone."""
    shapes = graph.shapes
    if node.op in EXPRESSIONS:
        rank = len(shapes[node.outputs[0]])
        return all(
            len(shapes[name]) == rank
            if name in batched
            else len(shapes[name]) < rank or shapes[name][:1] == (1,)
            for name in node.inputs
            if name
        )
    rule = _RULES.get(node.op)
    served = node.op in OPERATORS and OPERATORS[node.op].serves(node, graph)
    return served and rule is not None and rule(node, graph, batched)


# Ports of what nodes add to images.
_ADDED: dict[str, tuple[int, ...]] = {
    "pplconv.Conv": (3, 6),
    "pplconv.ConvTranspose": (3, 6),
    "pplconv.QuantizedAdd": (0, 1),
    "pplconv.QuantizedConv": (RESIDUAL,),
    "pplconv.QuantizedLinear": (RESIDUAL,),
}

Rule = Callable[[Node, Graph, set[str]], bool]


def _images(node: Node, graph: Graph, batched: set[str]) -> bool:
    # Weights are constants; what a fused node adds has the batch, constant or not.
    added = _ADDED.get(node.op, ())
    return all(
        name in batched
        for i, name in enumerate(node.inputs)
        if name and (i in added or name not in graph.constants)
    )


def _axis(default: int) -> Rule:
    def rule(node: Node, graph: Graph, batched: set[str]) -> bool:
        rank = len(graph.shapes[node.inputs[0]])
        return int(node.attributes.get("axis", default)) % rank != 0 and (
            _images(node, graph, batched)
        )

    return rule


def _first_alone(node: Node, graph: Graph, batched: set[str]) -> bool:
    return batched.isdisjoint(node.inputs[1:])


def _linear(node: Node, graph: Graph, batched: set[str]) -> bool:
    # A residual is as large as the product.
    parts = {node.inputs[0], *filter(None, node.inputs[3:])}
    return parts <= batched and batched.isdisjoint(node.inputs[1:3])


def _concat(node: Node, graph: Graph, batched: set[str]) -> bool:
    # A constant has a part for each image of the whole batch.
    return _axis(0)(node, graph, batched) and batched.issuperset(filter(None, node.inputs))


def _layer_norm(node: Node, graph: Graph, batched: set[str]) -> bool:
    # Scale and offset lie along the last dimensions.
    return _axis(-1)(node, graph, batched) and _first_alone(node, graph, batched)


def _reduction(node: Node, graph: Graph, batched: set[str]) -> bool:
    axes = axes_of(node, graph)
    return axes is not None and 0 not in axes


def _product(node: Node, graph: Graph, batched: set[str]) -> bool:
    a, b = (graph.shapes[name] for name in node.inputs[:2])
    if node.inputs[0] in batched and node.inputs[1] in batched:
        return len(a) == len(b) > 2
    if node.inputs[0] in batched:
        return len(a) > max(len(b), 2) or (len(a) == 2 and len(b) == 2)
    return len(b) > max(len(a), 2)


def _gemm(node: Node, graph: Graph, batched: set[str]) -> bool:
    added = graph.shapes[node.inputs[2]] if len(node.inputs) > 2 and node.inputs[2] else ()
    return (
        _first_alone(node, graph, batched)
        and not node.attributes.get("transA", 0)
        and (len(added) < 2 or added[0] == 1)
    )


def _reshape(node: Node, graph: Graph, batched: set[str]) -> bool:
    # The elements of an image stay together: their number is the same on both sides.
    return True


def _transpose(node: Node, graph: Graph, batched: set[str]) -> bool:
    order = node.attributes.get("perm")
    return order is not None and order[0] == 0


def _slice(node: Node, graph: Graph, batched: set[str]) -> bool:
    taken = slices(node, graph)
    return taken is not None and taken[0] == (0, 1)


def _pad(node: Node, graph: Graph, batched: set[str]) -> bool:
    return pad_begins(node, graph)[0] == 0


def _expand(node: Node, graph: Graph, batched: set[str]) -> bool:
    return len(graph.shapes[node.inputs[0]]) == len(graph.shapes[node.outputs[0]])


def _scales(node: Node, graph: Graph, batched: set[str]) -> bool:
    # A scale for each image would have to be cut as the batch is.
    several = math.prod(graph.shapes[node.inputs[1]]) > 1
    return _first_alone(node, graph, batched) and (not several or _axis(1)(node, graph, batched))


_RULES: dict[str, Rule] = {
    **dict.fromkeys(IMAGES, _images),
    **dict.fromkeys(KINDS, _reduction),
    **dict.fromkeys(RESHAPED, _reshape),
    "Concat": _concat,
    "Expand": _expand,
    "Gather": _axis(0),
    "Gemm": _gemm,
    "LayerNormalization": _layer_norm,
    "LogSoftmax": _axis(-1),
    "MatMul": _product,
    "Pad": _pad,
    "Slice": _slice,
    "Softmax": _axis(-1),
    "Split": _axis(0),
    "Transpose": _transpose,
    "DequantizeLinear": _scales,
    "QuantizeLinear": _scales,
    "pplconv.Linear": _linear,
    "pplconv.QuantizedAdd": _images,
    "pplconv.QuantizedAverage": _images,
    "pplconv.QuantizedConv": _images,
    "pplconv.QuantizedLinear": _images,
    "pplconv.Reformat": _images,
}


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
    """Choose how many images run together: those with the least traffic from memory.

    What lives between steps comes from memory as far as it is more than the cache holds; weights do
    once for all images that run together, unless the cache holds them beside the rest.

    Parameters
    ----------
    graph : Graph
        For the whole batch.
    items : sequence of Node or Chain
        Its nodes, element-wise ones joined.
    batched : frozenset of str
        As `batched_names` gives it.
    cache : int
        Bytes that a core can count on, the same for any team, as the choice decides the bits.

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
    """Estimate the bytes that live at once at most, and those that are read and written in all."""
    place: dict[str, str] = {}
    size: dict[str, int] = {}
    last: dict[str, int] = {}
    moved = 0
    begun: list[list[str]] = []
    for index, item in enumerate(items):
        if isinstance(item, Chain):
            reads, writes, is_view = item.inputs(), [item.result], False
        else:
            reads, writes, is_view = item.inputs, item.outputs, item.op in VIEWS
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
