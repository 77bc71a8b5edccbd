"""The operators that a session refuses to run, all in one error."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from .._literals import Fallback
from .fused_nodes import DOMAIN
from .nodes import Node, attributes_of
from .onnx_later import ir
from .operators.recurrent_gates import ACTIVATIONS, directions_of, unknown_activations
from .operators.table import ROWS, row_of
from .operators.table_row import Python
from .rules.contrib import UNSERVED
from .storage import Array
from .subgraphs import deciding_inputs, is_flow, subgraphs_of
from .texts import printable


def check_operators(graph: ir.Graph, fallback: Fallback, warned: set[str]) -> None:
    """Refuse a graph with operators that cannot run, and warn of those that run slowly.

    Parameters
    ----------
    graph : ir.Graph
        A prepared graph.
    fallback : {"warn", "error", "silent"}
        Whether ONNX's reference may run operators that pplconv does not know.
    warned : set of str
        Operators of which the caller was warned; receives others.

    Raises
    ------
    ValueError
        Naming each operator, how often it occurs, and its nodes.

    Warns
    -----
    RuntimeWarning
        Once a session for each operator, if `fallback` is ``"warn"``.
    """
    slow: dict[str, list[str]] = defaultdict(list)
    found: dict[str, list[str]] = defaultdict(list)
    helped = False
    for node in _nodes_of(graph):
        kind = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
        name = node.name or node.outputs[0].name or "?"
        if node.domain == DOMAIN or is_flow(node) or (node.domain and kind in ROWS):
            continue
        unserved = _unserved(node) if node.domain == "" else ""
        if unserved:
            found[f"{node.op_type} with {unserved}"].append(name)
            continue
        if node.domain == "" and not _in_reference(node.op_type):
            continue
        if node.domain == "":
            if fallback != "error":
                slow[node.op_type].append(name)
                continue
            helped = True
        if UNSERVED in node.metadata_props:
            kind += f" with {node.metadata_props[UNSERVED]}"
        found[kind].append(name)
    if found:
        # No option permits operators that the reference computes wrongly.
        hint = """; fallback="warn" runs ONNX's own operators in onnx.reference""" if helped else ""
        raise ValueError(f"model has operators that cannot run ({_listed(found)}){hint}")
    if fallback == "warn" and not slow.keys() <= warned:
        warned.update(slow)
        warnings.warn(
            f"model has operators that onnx.reference computes, in Python and slowly "
            f'({_listed(slow)}); fallback="silent" permits them, fallback="error" refuses them',
            RuntimeWarning,
            stacklevel=7,
        )


def _in_reference(op: str) -> bool:
    """Tell whether ONNX's reference computes all nodes of an operator."""
    row = row_of(op)
    loops = row.loops is not None or row.expression is not None or row.decomposition is not None
    return row.python is Python.REFERENCE and not loops


def _listed(nodes: Mapping[str, Sequence[str]]) -> str:
    return "; ".join(
        printable(f"{kind}, {len(names)} of them: {', '.join(names)}")
        for kind, names in sorted(nodes.items())
    )


def _nodes_of(graph: ir.Graph) -> Iterator[ir.Node]:
    """Yield the nodes of a graph and its subgraphs, without branches that may never be taken."""
    for node in graph:
        yield node
        # The program for known shapes has only one of these branches.
        chosen = is_flow(node) and node.op_type == "If"
        if not chosen or deciding_inputs(node.inputs[0]) is None:
            for inner in subgraphs_of(node):
                yield from _nodes_of(inner)


def _unserved(node: ir.Node) -> str:
    """Name the options of a recurrent node that nothing here computes."""
    if node.op_type not in ACTIVATIONS:
        return ""
    attributes = dict(attributes_of(node))
    if unknown_activations(node.op_type, attributes):
        return f"the activations {', '.join(attributes['activations'])}"
    return ""


def _ignored(op: str, attributes: Mapping[str, Any]) -> str:
    """Name what ONNX's reference silently ignores of a recurrent node."""
    usual = ACTIVATIONS[op] * directions_of(attributes)
    given = attributes.get("activations") or usual
    # An RNN names two activations by default; a single direction uses the first.
    if tuple(name.lower() for name in given)[: len(usual)] != usual:
        return f"the activations {', '.join(given)}"
    if "clip" in attributes:
        return "a clip"
    return "input_forget" if attributes.get("input_forget", 0) else ""


def check_arrays(names: Sequence[str], given: Sequence[Any]) -> None:
    """Refuse sequences and optionals where an operator takes arrays alone.

    Parameters
    ----------
    names : sequence of str
        Of the values.
    given : sequence of Item
        The values.

    Raises
    ------
    ValueError
        Naming the first of them that is no array.
    """
    for name, item in zip(names, given, strict=True):
        if not isinstance(item, np.ndarray):
            kind = "a sequence" if isinstance(item, list) else "an optional without an element"
            raise ValueError(f"{name!r} is {kind}, expected an array")


def check_operands(node: Node, operands: Sequence[Array]) -> None:
    """Refuse options and arrays that ONNX's reference misinterprets.

    Parameters
    ----------
    node : Node
        Any node.
    operands : sequence of ndarray
        Its operands, without omitted ones.

    Raises
    ------
    ValueError
        If a recurrent node has an option, or a sequence shorter than the array, that the reference
        ignores.
    """
    if node.op not in ACTIVATIONS:
        return
    ignored = _ignored(node.op, node.attributes)
    if ignored and operands[0].size:
        raise ValueError(f"{ignored}, where loops of this library do not serve the operands")
    if len(node.inputs) < 5 or not node.inputs[4]:
        return
    lengths = operands[sum(bool(name) for name in node.inputs[:4])]
    times = operands[0].shape[1 if node.attributes.get("layout", 0) else 0]
    if (lengths != times).any():
        raise ValueError(f"sequences of several lengths, {lengths.tolist()} of {times}")
