"""The operators that a session refuses to run, all in one error."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import onnx_ir as ir

from .fused_nodes import DOMAIN
from .nodes import Node
from .operators.table import ROWS
from .rules.contrib import UNSERVED
from .storage import Array
from .texts import printable
from .values import attribute_int, attribute_string

# Activations of a recurrent operator's gates, for one direction. ONNX's reference silently ignores
# other activations, a bound and lengths.
ACTIVATIONS = {"GRU": ("sigmoid", "tanh"), "LSTM": ("sigmoid", "tanh", "tanh"), "RNN": ("tanh",)}
# Operators with subgraphs, which read values from outside.
CONTROL_FLOW = frozenset({"If", "Loop", "Scan"})


def check_operators(graph: ir.Graph, fallback: bool) -> None:
    """Refuse a graph with operators that cannot run.

    Parameters
    ----------
    graph : ir.Graph
        A prepared graph.
    fallback : bool
        Whether ONNX's reference may run operators without a row.

    Raises
    ------
    ValueError
        Naming each operator, how often it occurs, and its nodes.
    """
    found: dict[str, list[str]] = defaultdict(list)
    helped = False
    for node in graph:
        if node.domain == DOMAIN or _is_open_branch(node):
            continue
        unserved = _unserved(node) if node.domain == "" else ""
        if unserved:
            found[f"{node.op_type} with {unserved}"].append(node.name or "?")
            continue
        if node.domain == "" and node.op_type in ROWS:
            continue
        if node.domain == "" and node.op_type not in CONTROL_FLOW:
            if fallback:
                continue
            helped = True
        if node.domain == "" and node.op_type == "If":
            found["If with a condition that depends on data"].append(node.name or "?")
            continue
        kind = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
        if UNSERVED in node.metadata_props:
            kind += f" with {node.metadata_props[UNSERVED]}"
        found[kind].append(node.name or node.outputs[0].name or "?")
    if not found:
        return
    lines = [
        printable(f"{kind}, {len(names)} of them: {', '.join(names)}")
        for kind, names in sorted(found.items())
    ]
    # No option permits operators that the reference computes wrongly, or branches chosen by data.
    hint = "; fallback=True runs ONNX's own operators in onnx.reference" if helped else ""
    raise ValueError(f"model has operators that cannot run ({'; '.join(lines)}){hint}")


def _is_open_branch(node: ir.Node) -> bool:
    """Tell whether a node is an If whose condition is known once shapes are.

    The condition depends on shapes and constants only, or is an input, which a program treats as a
    constant.
    """
    if node.domain or node.op_type != "If":
        return False
    waiting = [value for value in node.inputs if value is not None]
    if any(value.is_graph_input() for value in waiting):
        return True
    seen = set()
    while waiting:
        value = waiting.pop()
        if value in seen or value.const_value is not None:
            continue
        seen.add(value)
        maker = value.producer()
        if maker is None or maker.domain or maker.op_type in CONTROL_FLOW:
            return False
        if maker.op_type not in ("Shape", "Size"):
            waiting.extend(value for value in maker.inputs if value is not None)
    return True


def _unserved(node: ir.Node) -> str:
    """Name the options of a recurrent node that neither our loops nor ONNX's reference support."""
    if node.op_type not in ACTIVATIONS:
        return ""
    both = attribute_string(node, "direction", "forward") == "bidirectional"
    usual = ACTIVATIONS[node.op_type] * (2 if both else 1)
    given = node.attributes.get_strings("activations", ()) or usual
    # An RNN names two activations by default; a single direction uses the first.
    if tuple(name.lower() for name in given)[: len(usual)] != usual:
        return f"the activations {', '.join(given)}"
    if "clip" in node.attributes:
        return "a clip"
    return "input_forget" if attribute_int(node, "input_forget", 0) else ""


def check_operands(node: Node, operands: Sequence[Array]) -> None:
    """Refuse arrays that ONNX's reference misinterprets.

    Parameters
    ----------
    node : Node
        Any node.
    operands : sequence of ndarray
        Its operands, without omitted ones.

    Raises
    ------
    ValueError
        If a sequence is shorter than the array, because the reference ignores its length.
    """
    if node.op not in ACTIVATIONS or len(node.inputs) < 5 or not node.inputs[4]:
        return
    lengths = operands[sum(bool(name) for name in node.inputs[:4])]
    times = operands[0].shape[1 if node.attributes.get("layout", 0) else 0]
    if (lengths != times).any():
        raise ValueError(f"sequences of several lengths, {lengths.tolist()} of {times}")
