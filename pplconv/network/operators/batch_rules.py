"""Whether a node computes each image of a batch from the same image alone.

A rule takes a node, its graph, and the names of the values whose first dimension is the batch. The
node reads at least one of them, and the first dimension of each result has the batch's size.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ..nodes import Graph, Node
from ..resizing import word
from .movement import pad_begins, slices
from .row_steps import axes_of

__all__ = [
    "along", "broadcast", "concatenation", "convolution", "expansion", "gemm", "images",
    "layer_norm", "mixed", "padding", "pools", "product", "reduction", "reshaped", "resized",
    "scales", "slicing", "transposition", "with_residual",
]  # fmt: skip

Rule = Callable[[Node, Graph, set[str]], bool]


def mixed(node: Node, graph: Graph, batched: set[str]) -> bool:
    """Never: the operator is unknown, or it mixes images."""
    return False


def broadcast(node: Node, graph: Graph, batched: set[str]) -> bool:
    """Element-wise operators: operands without the batch are the same for all images."""
    shapes = graph.shapes
    rank = len(shapes[node.outputs[0]])
    return all(
        len(shapes[name]) == rank
        if name in batched
        else len(shapes[name]) < rank or shapes[name][:1] == (1,)
        for name in node.inputs
        if name
    )


def images(*added: int) -> Rule:
    """Images of the first input, weights being constants.

    Parameters
    ----------
    *added : int
        Further inputs that are images, which the node adds: even constant ones have the batch.
    """

    def rule(node: Node, graph: Graph, batched: set[str]) -> bool:
        return all(
            name in batched
            for i, name in enumerate(node.inputs)
            if name and (i in added or name not in graph.constants)
        )

    return rule


def pools(node: Node, graph: Graph, batched: set[str]) -> bool:
    """Pools without places, which count the elements of earlier images."""
    return len([name for name in node.outputs if name]) == 1 and images()(node, graph, batched)


def resized(node: Node, graph: Graph, batched: set[str]) -> bool:
    """Resize that has the same sizes and regions for each image, whatever the batch."""
    own = node.attributes
    whole = own.get("coordinate_transformation_mode") != "tf_crop_and_resize"
    alike = word(own, "keep_aspect_ratio_policy") == "stretch"
    each = (whole and alike) or 0 not in (own.get("axes") or [0])
    return each and images()(node, graph, batched)


def convolution(*added: int) -> Rule:
    """Images of the first input by known weights: computed ones may vary with the batch."""
    inner = images(*added)

    def rule(node: Node, graph: Graph, batched: set[str]) -> bool:
        weights = filter(None, node.inputs[1:3])
        return all(name in graph.constants for name in weights) and inner(node, graph, batched)

    return rule


def along(default: int) -> Rule:
    """Operators along one axis, which must not be the first; its default is given."""
    inner = images()

    def rule(node: Node, graph: Graph, batched: set[str]) -> bool:
        rank = len(graph.shapes[node.inputs[0]])
        axis = int(node.attributes.get("axis", default)) % rank
        return axis != 0 and inner(node, graph, batched)

    return rule


def _first_alone(node: Node, batched: set[str]) -> bool:
    return batched.isdisjoint(node.inputs[1:])


def with_residual(node: Node, graph: Graph, batched: set[str]) -> bool:
    """A product with known weights; a residual is as large as the product."""
    parts = {node.inputs[0], *filter(None, node.inputs[3:])}
    return parts <= batched and batched.isdisjoint(node.inputs[1:3])


def concatenation(node: Node, graph: Graph, batched: set[str]) -> bool:
    """Concat without constants: a constant has the whole batch, and is never cut."""
    return along(0)(node, graph, batched) and batched.issuperset(filter(None, node.inputs))


def layer_norm(node: Node, graph: Graph, batched: set[str]) -> bool:
    """LayerNormalization: its scale and offset cover the last dimensions."""
    return along(-1)(node, graph, batched) and _first_alone(node, batched)


def reduction(node: Node, graph: Graph, batched: set[str]) -> bool:
    """Reductions over other dimensions than the first."""
    axes = axes_of(node, graph)
    return axes is not None and 0 not in axes


def product(node: Node, graph: Graph, batched: set[str]) -> bool:
    """MatMul: the batch is the rows of a matrix, or a leading dimension of both."""
    a, b = (graph.shapes[name] for name in node.inputs[:2])
    if node.inputs[0] in batched and node.inputs[1] in batched:
        return len(a) == len(b) > 2
    if node.inputs[0] in batched:
        return len(a) > max(len(b), 2) or (len(a) == 2 and len(b) == 2)
    return len(b) > max(len(a), 2)


def gemm(node: Node, graph: Graph, batched: set[str]) -> bool:
    """Gemm: the batch is the rows of the first matrix."""
    added = graph.shapes[node.inputs[2]] if len(node.inputs) > 2 and node.inputs[2] else ()
    return (
        _first_alone(node, batched)
        and not node.attributes.get("transA", 0)
        and (len(added) < 2 or added[0] == 1)
    )


def reshaped(node: Node, graph: Graph, batched: set[str]) -> bool:
    """Reshapes: each image keeps its number of elements."""
    return True


def transposition(node: Node, graph: Graph, batched: set[str]) -> bool:
    """Transpose that leaves the first dimension where it is."""
    order = node.attributes.get("perm")
    return order is not None and order[0] == 0


def slicing(node: Node, graph: Graph, batched: set[str]) -> bool:
    """Slice that takes all images."""
    taken = slices(node, graph)
    return taken is not None and taken[0] == (0, 1)


def padding(node: Node, graph: Graph, batched: set[str]) -> bool:
    """Pad that adds no images."""
    return pad_begins(node, graph)[0] == 0


def expansion(node: Node, graph: Graph, batched: set[str]) -> bool:
    """Expand that adds no dimension before the batch."""
    return len(graph.shapes[node.inputs[0]]) == len(graph.shapes[node.outputs[0]])


def scales(node: Node, graph: Graph, batched: set[str]) -> bool:
    """Conversions; a scale for each image would have to be cut as the batch is."""
    several = math.prod(graph.shapes[node.inputs[1]]) > 1
    return _first_alone(node, batched) and (not several or along(1)(node, graph, batched))
