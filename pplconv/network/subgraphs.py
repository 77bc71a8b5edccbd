"""Subgraphs of If, Loop, Scan and SequenceMap, and the values that they read from outside."""

from __future__ import annotations

import functools
from collections.abc import Iterator

from .onnx_later import ir, onnx
from .values import attribute_int, describe, is_constant

__all__ = [
    "all_nodes", "body_of", "check_flow", "deciding_inputs", "is_flow", "is_in_order",
    "may_have_graphs", "reads_of", "source_of", "subgraphs_of",
]  # fmt: skip

# Operators with subgraphs.
_CONTROL_FLOW = frozenset(("If", "Loop", "Scan", "SequenceMap"))


def is_flow(node: ir.Node) -> bool:
    """Tell whether a node is an If, a Loop, a Scan or a SequenceMap."""
    return not node.domain and node.op_type in _CONTROL_FLOW


def all_nodes(graph: ir.Graph | ir.Function) -> Iterator[ir.Node]:
    """Give the nodes of a graph and, behind each node, those of its subgraphs."""
    for node in graph:
        yield node
        if node.domain or may_have_graphs(node.op_type):
            for inner in subgraphs_of(node):
                yield from all_nodes(inner)


@functools.lru_cache(1024)
def may_have_graphs(operator: str) -> bool:
    """Tell whether an operator of ONNX's domain may have subgraphs: the checks refuse others."""
    try:
        schema = onnx.defs.get_schema(operator)
    except onnx.defs.SchemaError:
        return True
    kinds = {attribute.type for attribute in schema.attributes.values()}
    return not kinds.isdisjoint(
        (onnx.defs.OpSchema.AttrType.GRAPH, onnx.defs.OpSchema.AttrType.GRAPHS)
    )


def subgraphs_of(node: ir.Node) -> list[ir.Graph]:
    """List the subgraphs of a node."""
    graphs: list[ir.Graph] = []
    if not node.domain and not may_have_graphs(node.op_type):
        return graphs
    # The dict itself: views of a wrapper are slow.
    for attribute in node.attributes.data.values():
        if attribute.type == ir.AttributeType.GRAPH:
            graphs.append(attribute.as_graph())
        elif attribute.type == ir.AttributeType.GRAPHS:
            graphs.extend(attribute.as_graphs())
    return graphs


def check_flow(node: ir.Node) -> None:
    """Refuse a node whose subgraphs do not fit its operands and results.

    Raises
    ------
    ValueError
        If a subgraph is missing, or takes or gives another number of values.
    """
    if not is_flow(node):
        return
    names = ("then_branch", "else_branch") if node.op_type == "If" else ("body",)
    given, results = len(node.inputs), len(node.outputs)
    # A Loop may have no number of turns, and no condition.
    if None in node.inputs[2 if node.op_type == "Loop" else 0 :]:
        raise ValueError(f"model has an omitted operand at {describe(node)}")
    for name in names:
        attribute = node.attributes.get(name)
        if attribute is None or attribute.type != ir.AttributeType.GRAPH:
            raise ValueError(f"model has no {name} at {describe(node)}")
        graph = attribute.as_graph()
        takes, gives = len(graph.inputs), len(graph.outputs)
        if node.op_type == "If":
            fits = takes == 0 and gives == results and given == 1
        elif node.op_type == "Loop":
            # The number of turns and the condition; the condition of the next turn.
            fits = 2 <= given == takes and given - 2 <= results == gives - 1
        elif node.op_type == "SequenceMap":
            fits = 1 <= given == takes and results == gives
        else:
            scanned = attribute_int(node, "num_scan_inputs", 0)
            fits = 1 <= scanned <= given == takes and given - scanned <= results == gives
        if not fits:
            raise ValueError(
                f"model has a {name} with {takes} inputs and {gives} outputs at {describe(node)}, "
                f"which has {given} inputs and {results} outputs"
            )


def reads_of(node: ir.Node) -> list[ir.Value]:
    """List the values that a node and its subgraphs read, each once."""
    reads = [value for value in node.inputs if value is not None]
    for graph in subgraphs_of(node):
        reads += _captured(graph)
    return list(dict.fromkeys(reads))


def source_of(value: ir.Value) -> ir.Value:
    """Give the value that Identity nodes pass on."""
    while (maker := value.producer()) is not None and maker.op_type == "Identity":
        source = maker.inputs[0]
        assert source is not None
        value = source
    return value


def _captured(graph: ir.Graph) -> list[ir.Value]:
    """List the values that a subgraph reads from outside."""
    own: set[ir.Value] = {*graph.inputs, *graph.initializers.values()}
    used: list[ir.Value] = []
    for node in graph:
        own.update(node.outputs)
        used += reads_of(node)
    used.extend(graph.outputs)
    return list(dict.fromkeys(value for value in used if value not in own))


def is_in_order(graph: ir.Graph) -> bool:
    """Tell whether all nodes of a graph and its subgraphs follow the makers of their operands."""
    seen: set[ir.Node | None] = {None}
    for node in graph:
        inner = subgraphs_of(node)
        for value in reads_of(node) if inner else node.inputs:
            maker = value.producer() if value is not None else None
            if maker not in seen and maker is not None and maker.graph is graph:
                return False
        if not all(map(is_in_order, inner)):
            return False
        seen.add(node)
    return True


def deciding_inputs(value: ir.Value | None) -> set[ir.Value] | None:
    """Give the inputs of a graph that a condition follows from, besides shapes and constants.

    Parameters
    ----------
    value : ir.Value or None
        A condition.

    Returns
    -------
    set of Value or None
        None if it depends on results, or on inputs that are not one integer or truth value.
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
            # A program for each value of larger ones, token ids above all, would be one too many.
            counts = value.dtype is not None and (
                value.dtype.is_integer() or value.dtype == ir.DataType.BOOL
            )
            shape = value.shape
            one = shape is not None and shape.is_static() and set(shape.numpy()) <= {1}
            if not value.is_graph_input() or not counts or not one:
                return None
            found.add(value)
            continue
        if maker.domain or maker.op_type in _CONTROL_FLOW:
            return None
        if maker.op_type not in ("Shape", "Size"):
            waiting.extend(value for value in maker.inputs if value is not None)
    return found


def _apart(graph: ir.Graph) -> None:
    """Give each result of a subgraph a value of its own: programs write each into its array."""
    seen: set[ir.Value] = set()
    for number, value in enumerate(graph.outputs):
        if value in seen:
            node = ir.node("Identity", [value], name=f"{value.name}_again_{number}")
            node.outputs[0].name, node.outputs[0].type = f"{value.name}_again_{number}", value.type
            graph.append(node)
            graph.outputs[number] = node.outputs[0]
        seen.add(value)


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
    _apart(model.graph)
    return model, [value.name or "" for value in read]
