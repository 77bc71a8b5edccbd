"""Attention as one step: two products of computed matrices, and the softmax between them.

The scores of a few queries at a time stay in L2, so that they take no room in the arena and no
bandwidth of memory. Exporters spell attention in many ways; here it is a MatMul, a Softmax of the
last axis, and a MatMul, with element-wise nodes and reshapes of the batch between them in any
number: scales, masks, caps, and quantizations. The step computes the same numbers as the nodes one
by one (`attention_step`).

Queries, keys and values that are float16 or bfloat16, and become float32 for this attention alone,
are converted by the step, and so is its result: conversions and views around the products are part
of the attention.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from .._records import record
from ..schedules.elementwise_loops import MOST_STREAMS
from .fusion import Chain, Written, written
from .nodes import Graph, Node
from .operators.table import row_of
from .operators.table_row import View
from .storage import Shape

__all__ = ["NARROW", "Attention", "Item", "is_view", "with_attention"]

# Types whose products take their operands as they are on every machine.
_TYPES = (np.dtype(np.float32), np.dtype(np.float64))
NARROW = {"float16": "f16", "bfloat16": "bf16"}
"""Types that are stored for float32, by the names of their conversions."""
# Nodes that convert.
_CONVERSIONS = ("pplconv.Reformat", "Cast")
# Packed keys and values pay off from so many queries on, or from one for so many keys.
_ENOUGH_QUERIES, _KEYS_PER_QUERY = 32, 4
# Arrays of the step besides the operands of programs; programs of a step.
_OWN, _MOST_PROGRAMS = 4, 8


@record(frozen=True)
class Program:
    """An element-wise program of the scores of a tile, in place.

    Parameters
    ----------
    read : str
        Name of the scores that it reads; quantized ones if that input has a pair.
    result : str
        Name of its result; if it is quantized, the next program reads it.
    written : Written
        Its instructions.
    """

    read: str
    result: str
    written: Written


@record(eq=False)
class Attention:
    """The nodes of one attention.

    Parameters
    ----------
    product : Node
        MatMul of queries and keys.
    parts, shares : list of Chain or Node
        Element-wise chains and reshapes between product and softmax, and behind the softmax.
    softmax, sums : Node
        Softmax, and MatMul by the values.
    programs : (list of Program, list of Program)
        The chains in front of the softmax and behind it as programs, each of the result of the one
        before.
    shapes : dict
        By operand of the programs: the shape that it is broadcast to.
    before : list of list of Node
        For operands that are narrower in memory: the conversion, and views behind it.
    behind : list of Node
        Views, and the conversion of the result, if it is narrower in memory.
    """

    product: Node
    parts: list[Chain | Node]
    softmax: Node
    shares: list[Chain | Node]
    sums: Node
    programs: tuple[list[Program], list[Program]]
    shapes: dict[str, Shape]
    before: list[list[Node]]
    behind: list[Node]

    @property
    def items(self) -> list[Node | Chain]:
        """What it consists of, in order."""
        products = [self.product, *self.parts, self.softmax, *self.shares, self.sums]
        return [*itertools.chain(*self.before), *products, *self.behind]


Item = Node | Chain | Attention


def with_attention(items: Sequence[Node | Chain], graph: Graph) -> list[Item]:
    """Join the nodes of attentions; each stands in the place of its last product.

    Parameters
    ----------
    items : sequence of Node or Chain
        The graph's nodes, in order.
    graph : Graph
        With all shapes.
    """
    maker: dict[str, Node | Chain] = {}
    for item in items:
        names = [item.result] if isinstance(item, Chain) else item.outputs
        maker.update((name, item) for name in names)
    found: dict[int, Attention] = {}
    joined: set[int] = set()
    for item in items:
        attention = _attention(item, maker, graph) if isinstance(item, Node) else None
        if attention is not None:
            found[id(item)] = attention
            joined |= {id(part) for part in attention.items}
    return [
        found.get(id(item), item) for item in items if id(item) in found or id(item) not in joined
    ]


def _attention(sums: Node, maker: dict[str, Node | Chain], graph: Graph) -> Attention | None:
    """Find the attention that ends with a product."""
    if sums.op != "MatMul":
        return None
    from_softmax = _path(sums.inputs[0], [sums], "Softmax", maker, graph)
    if from_softmax is None:
        return None
    softmax, *shares = from_softmax
    assert isinstance(softmax, Node)
    # Dimensions of heads behind the softmax are those of the result.
    rank = len(graph.shapes[softmax.outputs[0]])
    probabilities = graph.shapes[sums.inputs[0]]
    if (
        int(softmax.attributes.get("axis", -1)) % rank != rank - 1
        or graph.shapes[sums.outputs[0]][:-2] != probabilities[:-2]
        or min(rank, len(probabilities), len(graph.shapes[sums.inputs[1]])) < 2
    ):
        return None
    path = _path(softmax.inputs[0], [softmax], "MatMul", maker, graph)
    if path is None:
        return None
    product, *parts = path
    assert isinstance(product, Node)
    operands = [*product.inputs, sums.inputs[1]]
    names = [*operands, *product.outputs, sums.outputs[0]]
    dtype = graph.dtypes[sums.outputs[0]]
    scores = graph.shapes[product.outputs[0]]
    if (
        dtype not in _TYPES
        or any(graph.dtypes[name] != dtype for name in names)
        or any(len(graph.shapes[name]) < 2 or 0 in graph.shapes[name] for name in names)
        or scores[-2] < min(_ENOUGH_QUERIES, scores[-1] / _KEYS_PER_QUERY)
    ):
        return None
    shapes: dict[str, Shape] = {}
    programs = (
        _programs(product.outputs[0], parts, shapes, graph),
        _programs(softmax.outputs[0], shares, shapes, graph),
    )
    if programs[0] is None or programs[1] is None:
        return None
    every = [*programs[0], *programs[1]]
    streams = sum(
        len(program.written.code.scalars)
        + sum(pair is not None for *_, pair in program.written.inputs)
        + (program.written.stored is not None)
        for program in every
    )  # fmt: skip
    if (
        len(every) > _MOST_PROGRAMS
        or any(program.written.dtype != dtype for program in every)
        or _OWN + len(shapes) + streams > MOST_STREAMS
    ):
        return None
    conversions = [
        _converted(name, reader, maker, graph)
        for name, reader in zip(operands, (product, product, sums), strict=True)
    ]
    before = [path for path in conversions if path]
    return Attention(
        product, parts, softmax, shares, sums, (programs[0], programs[1]), shapes, before,
        _stored(sums, graph),
    )  # fmt: skip


def is_view(node: Node) -> bool:
    """Whether a node gives a view of its first input."""
    return node.op == "Transpose" or row_of(node.op).view is View.RESHAPED


def _is_narrow(name: str, graph: Graph) -> bool:
    return graph.dtypes[name].name in NARROW


def _converted(name: str, reader: Node, maker: dict[str, Node | Chain], graph: Graph) -> list[Node]:
    """Find the conversion of an operand, and the views behind it; empty if others read them."""
    path: list[Node] = []
    while isinstance(node := maker.get(name), Node) and _goes_only_to(name, [reader], graph):
        path.insert(0, node)
        if node.op in _CONVERSIONS:
            is_widened = _is_narrow(node.inputs[0], graph) and graph.dtypes[name] == np.float32
            return path if is_widened else []
        if not is_view(node):
            break
        name, reader = node.inputs[0], node
    return []


def _stored(sums: Node, graph: Graph) -> list[Node]:
    """Find the conversion of the result, and the views before it; empty if others read them."""
    path: list[Node] = []
    name = sums.outputs[0]
    while name not in graph.outputs and len(users := graph.users.get(name, [])) == 1:
        node = users[0]
        path.append(node)
        if node.op in _CONVERSIONS:
            is_narrowed = _is_narrow(node.outputs[0], graph) and graph.dtypes[name] == np.float32
            return path if is_narrowed else []
        if not is_view(node) or node.inputs[0] != name:
            break
        name = node.outputs[0]
    return []


def _goes_only_to(name: str, nodes: Sequence[Node], graph: Graph) -> bool:
    """Whether a value is read by these nodes alone."""
    return name not in graph.outputs and all(
        any(user is node for node in nodes) for user in graph.users.get(name, [])
    )


def _path(
    name: str, readers: Sequence[Node], first: str, maker: dict[str, Node | Chain], graph: Graph
) -> list[Node | Chain] | None:
    """Find the node of an operator that a value comes from, and the nodes between."""
    item = maker.get(name)
    if item is None or not _goes_only_to(name, readers, graph):
        return None
    if isinstance(item, Chain):
        shape = graph.shapes[name]
        for source in item.inputs():
            if graph.shapes[source] == shape:
                path = _path(source, item.nodes, first, maker, graph)
                if path is not None:
                    return [*path, item]
        return None
    if item.op == first:
        return [item]
    if row_of(item.op).view is not View.RESHAPED:
        return None
    # Only the dimensions before those of a head's scores change.
    shapes = graph.shapes[item.inputs[0]], graph.shapes[name]
    if min(map(len, shapes)) < 2 or shapes[0][-2:] != shapes[1][-2:]:
        return None
    path = _path(item.inputs[0], [item], first, maker, graph)
    return None if path is None else [*path, item]


def _programs(
    scores: str, parts: Sequence[Chain | Node], shapes: dict[str, Shape], graph: Graph
) -> list[Program] | None:
    """Write chains as programs, and put the shapes that operands are broadcast to into `shapes`.

    Reshapes change no number. A program ends where scores are quantized. None if an operand is
    broadcast to two shapes, or if programs do not hang together.
    """
    groups: list[list[Node]] = [[]]
    known = {scores: scores}
    for part in parts:
        if isinstance(part, Node):
            known[part.outputs[0]] = known[part.inputs[0]]
            continue
        whole = graph.shapes[part.result]
        for name in part.inputs():
            known_number = name in graph.constants and graph.constants[name].size == 1
            if name not in known and not known_number and shapes.setdefault(name, whole) != whole:
                return None
        for node in part.nodes:
            groups[-1].append(replace(node, inputs=[known.get(x, x) for x in node.inputs]))
            if node.op == "QuantizeLinear":
                groups.append([])
        known[part.result] = part.result
    found: list[Program] = []
    read = scores
    for group in groups:
        if group:
            program = Program(read, group[-1].outputs[0], written(Chain(group), graph))
            if not _is_of_scores(program, shapes, graph):
                return None
            found.append(program)
            read = program.result
    return None if found and found[-1].written.stored is not None else found


def _is_of_scores(program: Program, shapes: dict[str, Shape], graph: Graph) -> bool:
    """Whether a program reads scores and operands, and fits the loops."""
    names = [name for name, *_ in program.written.inputs]
    return (
        program.written.fits
        and names.count(program.read) == 1
        and all(name == program.read or name in shapes for name in names)
        and all(
            pair is None or (name == program.read and graph.dtypes[name].itemsize == 1)
            for name, _, pair in program.written.inputs
        )
    )
