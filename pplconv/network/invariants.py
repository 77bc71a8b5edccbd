"""Products that no turn of a Loop or a Scan changes are computed once, before it.

Decoders multiply the encoder's result by weights in each turn. Known as loop-invariant code motion.
State that all turns pass on as it is is read from outside first: some exporters make weights, and
the encoder's result, state of a Loop.
"""

from __future__ import annotations

import onnx_ir as ir

from .subgraphs import source_of, subgraphs_of
from .values import attribute_int

__all__ = ["hoist"]

_PRODUCTS = frozenset(("Conv", "Gemm", "MatMul"))
# Operators around products that take any numbers: without a turn nothing may be refused.
_PLAIN = _PRODUCTS | {
    *("Add", "Cast", "Div", "Flatten", "Identity", "Mul", "Neg", "Relu", "Reshape", "Sigmoid"),
    *("Softmax", "Squeeze", "Sub", "Tanh", "Transpose", "Unsqueeze"),
}


def hoist(graph: ir.Graph) -> None:
    """Move products of values from outside out of the bodies of a graph's loops.

    Parameters
    ----------
    graph : ir.Graph
        Changed in place, with its subgraphs.
    """
    for node in graph:
        for inner in subgraphs_of(node):
            hoist(inner)
        if not node.domain and node.op_type in ("Loop", "Scan"):
            _hoist_of(graph, node, node.attributes["body"].as_graph())


def _hoist_of(graph: ir.Graph, loop: ir.Node, body: ir.Graph) -> None:
    _read_from_outside(loop, body)
    found = _invariant(body)
    if not found:
        return
    taken = {value.name for node in graph for value in node.outputs}
    taken.update(value.name for value in (*graph.inputs, *graph.initializers.values()))
    names = {value.name for node in found for value in node.outputs}
    own = {
        value for node in found for value in node.inputs
        if value is not None and value.name in body.initializers
        and body.initializers[value.name] is value
    }  # fmt: skip
    if names & taken or {value.name for value in own} & taken:
        return
    for value in own:
        del body.initializers[value.name or ""]
        graph.register_initializer(value)
    for node in found:
        body.remove(node)
        graph.insert_before(loop, node)


def _read_from_outside(loop: ir.Node, body: ir.Graph) -> None:
    """Let the nodes of a body read the operands of a loop for state that no turn changes."""
    # A Loop has the number of turns and the condition before its states; a body gives the latter.
    first, given = (2, 1) if loop.op_type == "Loop" else (0, 0)
    scanned = attribute_int(loop, "num_scan_inputs", 0)
    for state in range(len(loop.inputs) - first - scanned):
        value, operand = body.inputs[first + state], loop.inputs[first + state]
        if operand is not None and source_of(body.outputs[given + state]) is value:
            body.outputs[given + state] = value
            for node, place in tuple(value.uses()):
                node.replace_input_with(place, operand)


def _invariant(body: ir.Graph) -> list[ir.Node]:
    """List the nodes to move, in an order in which they can run."""
    results = {value for node in body for value in node.outputs}
    changing = {*body.inputs, *results, *body.outputs}
    plain: dict[ir.Node, None] = {}
    # Nodes that a product needs, or that need one.
    wanted: set[ir.Node] = set()
    for node in body:
        if node.domain or node.op_type not in _PLAIN or {*node.outputs} & {*body.outputs}:
            continue
        if any(value in changing for value in node.inputs if value is not None):
            continue
        changing -= {*node.outputs}
        plain[node] = None
        makers = {value.producer() for value in node.inputs if value is not None}
        if node.op_type in _PRODUCTS or makers & wanted:
            wanted.add(node)
    for node in reversed(plain):
        if node in wanted:
            makers = {value.producer() for value in node.inputs if value is not None}
            wanted.update(maker for maker in makers if maker in plain)
    return [node for node in plain if node in wanted]
