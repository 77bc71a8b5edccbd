"""If, Loop and Scan as functions of arrays, which run the networks of their subgraphs.

Subgraphs read values of the graph around them. As networks of their own they have these values as
further inputs, behind those that they declare.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import onnx_ir as ir

from .storage import Array
from .values import attribute_int, attribute_ints, is_constant

__all__ = [
    "Body", "Make", "body_of", "deciding_inputs", "function_of_flow", "is_flow", "reads_of",
    "subgraphs_of",
]  # fmt: skip

# Operators with subgraphs.
_CONTROL_FLOW = frozenset(("If", "Loop", "Scan"))


class Body(Protocol):
    """The network of a subgraph."""

    def compute(self, arrays: Sequence[Array]) -> list[Array]:
        """Compute the outputs, in the order of the subgraph."""


Make = Callable[[ir.Model, int], Body]
"""Makes the network of a subgraph. The inputs before the given number change in each turn, and
never decide shapes: a program would be made for each of their values."""


def is_flow(node: ir.Node) -> bool:
    """Tell whether a node is an If, a Loop or a Scan."""
    return not node.domain and node.op_type in _CONTROL_FLOW


def subgraphs_of(node: ir.Node) -> list[ir.Graph]:
    """List the subgraphs of a node."""
    graphs: list[ir.Graph] = []
    for attribute in node.attributes.values():
        if attribute.type == ir.AttributeType.GRAPH:
            graphs.append(attribute.as_graph())
        elif attribute.type == ir.AttributeType.GRAPHS:
            graphs.extend(attribute.as_graphs())
    return graphs


def reads_of(node: ir.Node) -> list[ir.Value]:
    """List the values that a node and its subgraphs read, each once."""
    reads = [value for value in node.inputs if value is not None]
    for graph in subgraphs_of(node):
        reads += _captured(graph)
    return list(dict.fromkeys(reads))


def _captured(graph: ir.Graph) -> list[ir.Value]:
    """List the values that a subgraph reads from outside."""
    own: set[ir.Value] = {*graph.inputs, *graph.initializers.values()}
    used: list[ir.Value] = []
    for node in graph:
        own.update(node.outputs)
        used += reads_of(node)
    used.extend(graph.outputs)
    return list(dict.fromkeys(value for value in used if value not in own))


def deciding_inputs(value: ir.Value | None) -> set[ir.Value] | None:
    """Give the inputs of a graph that a condition follows from, besides shapes and constants.

    Parameters
    ----------
    value : ir.Value or None
        A condition.

    Returns
    -------
    set of Value or None
        None if it depends on results, or on inputs that are not integers or truth values.
    """
    found: set[ir.Value] = set()
    seen: set[ir.Value] = set()
    waiting = [value] if value is not None else []
    while waiting:
        value = waiting.pop()
        if value in seen or is_constant(value):
            continue
        seen.add(value)
        maker = value.producer()
        if maker is None:
            counts = value.dtype is not None and (
                value.dtype.is_integer() or value.dtype == ir.DataType.BOOL
            )
            if not value.is_graph_input() or not counts:
                return None
            found.add(value)
            continue
        if maker.domain or maker.op_type in _CONTROL_FLOW:
            return None
        if maker.op_type not in ("Shape", "Size"):
            waiting.extend(value for value in maker.inputs if value is not None)
    return found


def body_of(graph: ir.Graph, around: ir.Model) -> tuple[ir.Model, list[str]]:
    """Make a model of a subgraph.

    Parameters
    ----------
    graph : ir.Graph
        The subgraph, which stays as it is.
    around : ir.Model
        The model that it is part of.

    Returns
    -------
    ir.Model
        Its inputs, then the values that it reads from outside; constants are its own.
    list of str
        The names of these values.
    """
    outer = _captured(graph)
    fixed = [value for value in outer if is_constant(value)]
    read = [value for value in outer if not is_constant(value)]
    view = ir.GraphView(
        [*graph.inputs, *read], list(graph.outputs), nodes=list(graph),
        initializers=[*graph.initializers.values(), *fixed],
        opset_imports=dict(around.opset_imports), name=graph.name,
    )  # fmt: skip
    model = ir.Model(view.clone(), ir_version=around.ir_version)
    return model, [value.name or "" for value in read]


def function_of_flow(node: ir.Node, model: ir.Model, make: Make) -> tuple[list[str], Any]:
    """Give the names of the values that an If, a Loop or a Scan reads, and its function.

    Parameters
    ----------
    node : ir.Node
        The node.
    model : ir.Model
        Its model, without which the node is not used.
    make : callable
        Makes networks of subgraphs.

    Returns
    -------
    names : list of str
        Empty where an operand is omitted.
    function : callable
        Takes an array for each of them, or None; gives the outputs.
    """
    own = [value.name or "" if value is not None else "" for value in node.inputs]
    if node.op_type == "If":
        return _branches(node, model, make, own)
    graph = node.attributes["body"].as_graph()
    body, outer = body_of(graph, model)
    changing = len(graph.inputs)
    inner = make(body, changing)
    count = len(node.inputs)

    def loop(*arrays: Array | None) -> list[Array]:
        given, around = arrays[:count], [array for array in arrays[count:] if array is not None]
        results = graph.outputs[count - 1 :]
        return _loop(lambda state: inner.compute([*state, *around]), given, results)

    def scan(*arrays: Array) -> list[Array]:
        given, around = arrays[:count], arrays[count:]
        results = graph.outputs
        return _scan(node, lambda state: inner.compute([*state, *around]), given, results)

    return [*own, *outer], loop if node.op_type == "Loop" else scan


def _branches(node: ir.Node, model: ir.Model, make: Make, own: list[str]) -> tuple[list[str], Any]:
    models = [
        body_of(node.attributes[name].as_graph(), model) for name in ("else_branch", "then_branch")
    ]
    outer = list(dict.fromkeys(name for _, names in models for name in names))
    made: dict[int, Body] = {}

    def choose(condition: Array, *arrays: Array) -> list[Array]:
        if condition.size != 1:
            raise ValueError(f"a condition of shape {condition.shape}")
        branch = int(bool(condition.reshape(())))
        body, names = models[branch]
        if branch not in made:
            made[branch] = make(body, 0)
        given = dict(zip(outer, arrays, strict=True))
        return made[branch].compute([given[name] for name in names])

    return [*own, *outer], choose


def _turns(most: Array | None) -> Iterator[int]:
    turn = 0
    while most is None or turn < int(most.reshape(())):
        yield turn
        turn += 1


def _loop(
    body: Callable[[list[Array]], list[Array]],
    given: Sequence[Array | None],
    scanned: Sequence[ir.Value],
) -> list[Array]:
    most, condition, *state = given
    carried = len(state)
    goes_on = condition is None or bool(condition.reshape(()))
    stacks: list[list[Array]] = [[] for _ in scanned]
    for turn in _turns(most):
        if not goes_on:
            break
        results = body([np.array(turn, np.int64), np.array(True), *state])  # type: ignore[list-item]
        goes_on, state = bool(results[0].reshape(())), list(results[1 : 1 + carried])
        for stack, result in zip(stacks, results[1 + carried :], strict=True):
            stack.append(result)
    return [*state, *map(_stacked, stacks, scanned)]  # type: ignore[list-item]


def _stacked(arrays: list[Array], value: ir.Value) -> Array:
    """Join the results of all turns; without a turn, unknown sizes count as zero."""
    if arrays:
        return np.stack(arrays)
    sizes = value.shape or ()
    shape = (0, *(size if isinstance(size, int) else 0 for size in sizes))
    return np.empty(shape, value.dtype.numpy() if value.dtype is not None else np.float32)


def _scan(
    node: ir.Node,
    body: Callable[[list[Array]], list[Array]],
    given: Sequence[Array],
    results: Sequence[ir.Value],
) -> list[Array]:
    inputs = attribute_int(node, "num_scan_inputs", 0)
    carried = len(given) - inputs
    scanned = results[carried:]
    scans = len(scanned)
    axes = attribute_ints(node, "scan_input_axes", (0,) * inputs)
    turned = attribute_ints(node, "scan_input_directions", (0,) * inputs)
    state = list(given[:carried])
    read = [
        np.flip(np.moveaxis(array, axis, 0), 0) if back else np.moveaxis(array, axis, 0)
        for array, axis, back in zip(given[carried:], axes, turned, strict=True)
    ]
    lengths = {len(array) for array in read}
    if len(lengths) != 1:
        raise ValueError(f"scanned operands of lengths {sorted(lengths)}")
    stacks: list[list[Array]] = [[] for _ in range(scans)]
    for turn in range(lengths.pop()):
        found = body([*state, *(np.ascontiguousarray(array[turn]) for array in read)])
        state = found[:carried]
        for stack, result in zip(stacks, found[carried:], strict=True):
            stack.append(result)
    axes = attribute_ints(node, "scan_output_axes", (0,) * scans)
    turned = attribute_ints(node, "scan_output_directions", (0,) * scans)
    written = []
    for stack, value, axis, back in zip(stacks, scanned, axes, turned, strict=True):
        whole = _stacked(stack[::-1] if back else stack, value)
        written.append(np.moveaxis(whole, 0, axis))
    return [*state, *written]
