"""Joins element-wise nodes into chains that run as one pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .._kernels import MOST_REGISTERS
from .._records import record
from ..schedules.elementwise_loops import MOST_CODE, MOST_STREAMS
from .nodes import Graph, Node, as_type
from .operators.elementwise_steps import (
    BRAIN,
    COMPUTED,
    INTEGERS,
    NATIVE,
    SINGLE,
    STORED,
    TRUTH,
    computed,
    numbers_of,
)
from .operators.expressions import Code, assign
from .operators.table import EXPRESSIONS, OF_INTEGERS
from .storage import Value

MOST_NODES = 16
# These are element-wise, too, if all elements have one scale: loops convert integers as they read
# or write them. So are Casts of integers, whose scale is 1.
CONVERSIONS = ("QuantizeLinear", "DequantizeLinear")


@record(eq=False)
class Chain:
    """Element-wise nodes that run as one pass.

    Parameters
    ----------
    nodes : list of Node
        In an order in which they can run; the last one gives the result. They compute numbers of
        one type, which is float32 for bfloat16; beside them, there are truths. A Cast of what the
        chain reads, or of its result, is done as the program loads or stores.
    """

    nodes: list[Node]

    @property
    def result(self) -> str:
        """Name of the result."""
        return self.nodes[-1].outputs[0]

    @property
    def kind(self) -> str:
        """Kind of step, for people."""
        return "+".join(node.op.replace("izeLinear", "ize") for node in self.nodes)

    def inputs(self) -> list[str]:
        """Names of the chain's inputs, each once."""
        made = {node.outputs[0] for node in self.nodes}
        names = (name for node in self.nodes for name in arrays_of(node) if name not in made)
        return list(dict.fromkeys(names))


def inputs_of(item: Node | Chain) -> list[str]:
    """Names of the values that a node or a chain reads."""
    return item.inputs() if isinstance(item, Chain) else [name for name in item.inputs if name]


def arrays_of(node: Node) -> list[str]:
    """Names of an element-wise node's operands."""
    if node.op in CONVERSIONS:
        return node.inputs[:1]
    return [name for name in node.inputs if name]


@record(frozen=True)
class Written:
    """A chain as instructions.

    Parameters
    ----------
    code : Code
        Its instructions, and the constants of one element that they read.
    inputs : list of (str, int, Value or None)
        Names of the arrays that it reads, with their numbers in the code, and scale and zero point
        of integers.
    result : int
        Number of the result in the code.
    dtype : dtype
        Type that it computes in.
    stored : Value or None
        Scale and zero point of an integer result.
    """

    code: Code
    inputs: list[tuple[str, int, Value | None]]
    result: int
    dtype: np.dtype[Any]
    stored: Value | None = None

    @property
    def fits(self) -> bool:
        """Whether the loops take a program of this size."""
        numbers = [number for _, number, _ in self.inputs] + list(self.code.scalars.values())
        pairs = sum(pair is not None for *_, pair in self.inputs) + (self.stored is not None)
        return (
            len(self.code.lines) <= MOST_CODE
            and len(numbers) + pairs < MOST_STREAMS
            and assign(self.code.lines, numbers, [self.result], MOST_REGISTERS) is not None
        )


def computed_in(chain: Chain, graph: Graph) -> np.dtype[Any]:
    """Give the type that a chain computes in."""
    return _computed(chain.nodes, graph) or SINGLE


def written(chain: Chain, graph: Graph) -> Written:
    """Write a chain as instructions."""
    dtype = computed_in(chain, graph)
    code = Code(dtype)
    numbers: dict[str, int] = {}
    inputs: list[tuple[str, int, Value | None]] = []
    made = {node.outputs[0] for node in chain.nodes}
    read = [
        name for node in chain.nodes if not _reads_integers(node, graph)
        for name in arrays_of(node) if name not in made
    ]  # fmt: skip
    for name in dict.fromkeys(read):
        known = graph.constants.get(name)
        if known is not None and known.size == 1 and computed(known.dtype) in (dtype, TRUTH):
            numbers[name] = code.scalar(as_type(known, dtype).reshape(-1)[0].item())
        else:
            numbers[name] = code.fresh()
            inputs.append((name, numbers[name], None))
    result, stored = -1, None
    for node in chain.nodes:
        if node.op == "Cast" and _converts(node, graph):
            result = numbers[node.inputs[0]]
        elif _reads_integers(node, graph):
            result = code.fresh()
            inputs.append((node.inputs[0], result, _numbers(node, graph)))
        elif node.op == "QuantizeLinear":
            result, stored = numbers[node.inputs[0]], _numbers(node, graph)
        else:
            operands = [numbers[name] if name else -1 for name in node.inputs]
            known_inputs = [graph.constants.get(name) for name in node.inputs]
            result = EXPRESSIONS[node.op](code, operands, node.attributes, known_inputs)
        numbers[node.outputs[0]] = result
    return Written(code, inputs, result, dtype, stored)


def _numbers(node: Node, graph: Graph) -> Value:
    """Scale and zero point of quantized integers."""
    zero = node.inputs[2] if len(node.inputs) > 2 else ""
    return numbers_of(
        float(graph.constants[node.inputs[1]].reshape(())),
        int(graph.constants[zero].reshape(())) if zero else 0,
    )


def _reads_integers(node: Node, graph: Graph) -> bool:
    return node.op == "DequantizeLinear"


def _converts(node: Node, graph: Graph) -> bool:
    """Whether a Cast is one of numbers."""
    return TRUTH not in (graph.dtypes[node.inputs[0]], graph.dtypes[node.outputs[0]])


def _is_conversion(node: Node, graph: Graph) -> bool:
    """Whether loops convert the integers of a node: by one constant scale for all elements."""
    if node.op not in CONVERSIONS:
        return False
    quantizes = node.op == "QuantizeLinear"
    names = node.inputs[0], node.outputs[0]
    numbers, integers = names if quantizes else names[::-1]
    kinds = [kind for kind in INTEGERS if kind.itemsize == 1 or not quantizes]
    scales = [name for name in node.inputs[1:] if name]
    return (
        all(graph.dtypes[name] == SINGLE for name in (numbers, *scales[:1]))
        and graph.dtypes[integers] in kinds
        and all(name in graph.constants and graph.constants[name].size == 1 for name in scales)
        and not node.attributes.get("block_size", 0)
        and node.attributes.get("precision", 0) in (0, 1)
        and node.inputs[0] not in graph.constants
    )


def is_elementwise(node: Node, graph: Graph) -> bool:
    """Whether our kernels compute a node element by element."""
    if node.op in CONVERSIONS:
        return _is_conversion(node, graph)
    if node.op not in EXPRESSIONS:
        return False
    return _computed([node], graph) is not None and written(Chain([node]), graph).fits


def _computed(nodes: Sequence[Node], graph: Graph) -> np.dtype[Any] | None:
    """Give the type that a program of element-wise nodes computes in; None if there is none."""
    found: set[np.dtype[Any]] = set()
    made = {node.outputs[0] for node in nodes}
    for node in nodes:
        if node.op in CONVERSIONS:
            found.add(SINGLE)
        elif node.op == "Cast":
            found |= _cast_types(node, nodes, made, graph)
        else:
            names = [*filter(None, node.inputs), node.outputs[0]]
            types = {computed(graph.dtypes[name]) for name in names} - {TRUTH}
            if not (types <= {*NATIVE} or node.op in OF_INTEGERS):
                return None
            found |= types
    if len(found) > 1 or not found <= COMPUTED.keys():
        return None
    return next(iter(found), SINGLE)


def _cast_types(
    node: Node, nodes: Sequence[Node], made: set[str], graph: Graph
) -> set[np.dtype[Any]]:
    """Give the types that a Cast's numbers have in a program's registers."""
    source, result = graph.dtypes[node.inputs[0]], graph.dtypes[node.outputs[0]]
    if BRAIN in (source, result):
        # The model rounds here; inside of a chain nothing is rounded.
        return {BRAIN}
    # Types that the program converts on their way to registers, and from them.
    loaded = source in STORED and node.inputs[0] not in made
    stored = result in STORED and node is nodes[-1]
    if result in COMPUTED and loaded:
        return {result}
    if source in COMPUTED and stored:
        return {source}
    # Bytes are the same numbers in every type.
    kept = {source} - COMPUTED.keys() if loaded else set()
    kept |= {result} - COMPUTED.keys() if stored else set()
    return {source, result} - kept - {TRUTH}


def chains(graph: Graph) -> tuple[list[Node | Chain], Graph]:
    """Join element-wise nodes: a node goes with its users if they all go together.

    A value with other readers, or of another shape, ends a chain; but bytes are dequantized by each
    chain that reads their numbers.

    Parameters
    ----------
    graph : Graph
        In an order in which it can run.

    Returns
    -------
    list
        Nodes and chains in an order in which they can run.
    Graph
        The graph, with a DequantizeLinear for each such chain.
    """
    items = _joined(graph)
    apart = _apart(items, graph)
    return (items, graph) if apart is graph else (_joined(apart), apart)


def _apart(items: Sequence[Node | Chain], graph: Graph) -> Graph:
    """Give each chain that reads dequantized bytes a DequantizeLinear of its own."""
    chain_of = {id(node): item for item in items if isinstance(item, Chain) for node in item.nodes}
    copies: dict[int, list[Node]] = {}
    names: dict[tuple[int, str], str] = {}
    for item in items:
        node = item.nodes[0] if isinstance(item, Chain) and len(item.nodes) == 1 else None
        if node is None or node.op != "DequantizeLinear" or node.outputs[0] in graph.outputs:
            continue
        name = node.outputs[0]
        users = graph.users.get(name, [])
        readers = {id(chain_of.get(id(user))): chain_of.get(id(user)) for user in users}
        if graph.dtypes[node.inputs[0]].itemsize > 1 or not all(
            chain is not None and graph.shapes[chain.result] == graph.shapes[name]
            for chain in readers.values()
        ):
            continue
        for number, reader in enumerate([*readers][1:]):
            own = f"{name} {number}"
            while own in graph.shapes:
                own += "'"
            copies.setdefault(id(node), []).append(replace(node, outputs=[own]))
            graph.shapes[own], graph.dtypes[own] = graph.shapes[name], graph.dtypes[name]
            names |= {(id(u), name): own for u in users if id(chain_of.get(id(u))) == reader}
    if not copies:
        return graph
    nodes: list[Node] = []
    for node in graph.nodes:
        read = [names.get((id(node), name), name) for name in node.inputs]
        nodes += [node if read == node.inputs else replace(node, inputs=read)]
        nodes += copies.get(id(node), [])
    return Graph(nodes, graph.shapes, graph.dtypes, graph.constants, graph.inputs, graph.outputs)


def _joined(graph: Graph) -> list[Node | Chain]:
    chain_of: dict[int, Chain] = {}
    found: list[Node | Chain] = []
    for node in reversed(graph.nodes):
        if not is_elementwise(node, graph):
            found.append(node)
            continue
        name = node.outputs[0]
        users = graph.users.get(name, [])
        joined = {id(chain_of.get(id(user))) for user in users}
        chain = chain_of.get(id(users[0])) if users else None
        if (
            chain is not None
            and len(joined) == 1
            and name not in graph.outputs
            and graph.shapes[name] == graph.shapes[chain.result]
            and graph.dtypes[name] in (TRUTH, BRAIN, *COMPUTED)
            and len(chain.nodes) < MOST_NODES
            and _computed([node, *chain.nodes], graph) is not None
            and written(Chain([node, *chain.nodes]), graph).fits
        ):
            chain.nodes.insert(0, node)
        else:
            chain = Chain([node])
            found.append(chain)
        chain_of[id(node)] = chain
    return found[::-1]
