"""Which element-wise nodes run as one pass."""

from __future__ import annotations

from dataclasses import dataclass

from .._kernels import MOST_REGISTERS
from ..schedules.elementwise import MOST_CODE, MOST_STREAMS
from .nodes import Graph, Node
from .operators.elementwise import NATIVE
from .operators.expressions import EXPRESSIONS, Code, assign

MOST_NODES = 16


@dataclass(eq=False)
class Chain:
    """Element-wise nodes that run as one pass.

    Parameters
    ----------
    nodes : list of Node
        In an order in which they can run; the last one gives the result.
    """

    nodes: list[Node]

    @property
    def result(self) -> str:
        """Name of the result."""
        return self.nodes[-1].outputs[0]

    def inputs(self) -> list[str]:
        """Names of what comes from outside, each once."""
        made = {node.outputs[0] for node in self.nodes}
        names = (name for node in self.nodes for name in node.inputs if name and name not in made)
        return list(dict.fromkeys(names))


@dataclass(frozen=True)
class Written:
    """A chain as instructions.

    Parameters
    ----------
    code : Code
        Its lines, and the constants of one element that it reads.
    inputs : list of (str, int)
        Names of the arrays that it reads, with the numbers that stand for them.
    result : int
        Number of the result.
    """

    code: Code
    inputs: list[tuple[str, int]]
    result: int

    @property
    def fits(self) -> bool:
        """Whether the loops take a program of this size."""
        numbers = [number for _, number in self.inputs] + list(self.code.scalars.values())
        return (
            len(self.code.lines) <= MOST_CODE
            and len(numbers) < MOST_STREAMS
            and assign(self.code.lines, numbers, [self.result], MOST_REGISTERS) is not None
        )


def written(chain: Chain, graph: Graph) -> Written:
    """Write a chain as instructions."""
    code = Code()
    numbers: dict[str, int] = {}
    inputs: list[tuple[str, int]] = []
    for name in chain.inputs():
        known = graph.constants.get(name)
        if known is not None and known.size == 1:
            numbers[name] = code.scalar(float(known.reshape(-1)[0]))
        else:
            numbers[name] = code.fresh()
            inputs.append((name, numbers[name]))
    result = -1
    for node in chain.nodes:
        operands = [numbers[name] if name else -1 for name in node.inputs]
        known_inputs = [graph.constants.get(name) for name in node.inputs]
        result = EXPRESSIONS[node.op](code, operands, node.attributes, known_inputs)
        numbers[node.outputs[0]] = result
    return Written(code, inputs, result)


def is_elementwise(node: Node, graph: Graph) -> bool:
    """Whether our kernels compute a node element by element."""
    return (
        node.op in EXPRESSIONS
        and graph.dtypes[node.outputs[0]] in NATIVE
        and all(graph.dtypes[name] == graph.dtypes[node.outputs[0]] for name in node.inputs if name)
        and written(Chain([node]), graph).fits
    )


def chains(graph: Graph) -> list[Node | Chain]:
    """Join element-wise nodes: a node goes with its users if they all go together.

    Values that something else reads, or that have another shape, are results of their own.

    Parameters
    ----------
    graph : Graph
        In an order in which it can run.

    Returns
    -------
    list
        Nodes and chains in an order in which they can run.
    """
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
            and graph.dtypes[name] == graph.dtypes[chain.result]
            and len(chain.nodes) < MOST_NODES
            and written(Chain([node, *chain.nodes]), graph).fits
        ):
            chain.nodes.insert(0, node)
        else:
            chain = Chain([node])
            found.append(chain)
        chain_of[id(node)] = chain
    return found[::-1]
