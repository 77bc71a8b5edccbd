"""Cuts a model where sizes or branches depend on data.

The part in front of the cut is compiled at once. The nodes at the cut run in Python: they choose a
size or a branch, or read or give sequences, optionals or texts. Light nodes that follow them run in
Python, too, for any sizes; in the body of a loop, whose sizes repeat, they are compiled. The part
behind the cut begins with heavy nodes: convolutions, products and the like. It is a network of its
own, which is compiled for the sizes that it receives.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import onnx_ir as ir

from .._records import record
from .lone_steps import runs_alone
from .operators.table import row_of
from .operators.table_row import Layout
from .python_values import is_in_python, passes_in_python
from .shapes import unknown_outputs
from .subgraphs import is_flow, reads_of, subgraphs_of
from .values import is_constant

__all__ = ["Cut", "cut", "is_light", "sizes_in_loops"]


@record(frozen=True)
class Cut:
    """The parts of a model.

    Parameters
    ----------
    first : ir.Model or None
        Everything that does not depend on the nodes at the cut; None if that is nothing. It has all
        inputs of the model that are numbers.
    model : ir.Model
        The whole model, which has these nodes.
    nodes : sequence of ir.Node
        The nodes at the cut, in their order.
    rest : ir.Model or None
        What follows them; its inputs are values of the other parts.
    """

    first: ir.Model | None
    model: ir.Model
    nodes: Sequence[ir.Node]
    rest: ir.Model | None


def cut(model: ir.Model, *, repeats: bool = False) -> Cut | None:
    """Cut a model in front of the first nodes that choose sizes or branches.

    Parameters
    ----------
    model : ir.Model
        A folded model whose inputs have fixed shapes; left as it is.
    repeats : bool
        Whether the model is the body of a loop: sizes are those of the turn before, mostly, so that
        all that follows a cut is compiled.

    Returns
    -------
    Cut or None
        None if no node does, and all inputs and outputs are arrays of numbers.

    Raises
    ------
    ValueError
        If the shapes at a node contradict one another; the message names it.
    """
    early: list[ir.Node] = []
    at: list[ir.Node] = []
    behind: list[ir.Node] = []
    late: set[ir.Value] = set()
    # Those of nodes at the cut.
    known: set[ir.Value] = set()
    for node in model.graph:
        reads = [value for value in reads_of(node) if value in late]
        if reads:
            # Sequences and texts pass from one node in Python to the next.
            follows = passes_in_python(node) and not is_flow(node)
            follows = follows or (is_light(node) and not repeats)
            (at if follows and known.issuperset(reads) else behind).append(node)
        elif is_flow(node) or passes_in_python(node):
            at.append(node)
        elif unknown_outputs(model, node):
            # Loops compute it once its sizes are constants, behind the cut.
            (at if _suits_numpy(node) or not early else behind).append(node)
        else:
            early.append(node)
            continue
        late.update(node.outputs)
        if at and at[-1] is node:
            known.update(node.outputs)
    inputs, outputs = list(model.graph.inputs), model.graph.outputs
    if not late and not any(map(is_in_python, (*inputs, *outputs))):
        return None
    few = _suits_numpy if repeats else _runs_by_itself
    if at and all(map(few, behind)):
        at, behind = [node for node in model.graph if node in {*at, *behind}], []
    wanted = {value for node in (*at, *behind) for value in reads_of(node)} | set(outputs)
    inputs = [value for value in inputs if not is_in_python(value)]
    first = _part(model, inputs, early, wanted) if early else None
    if not behind:
        return Cut(first, model, at, None)
    own = {value for node in behind for value in node.outputs}
    read = dict.fromkeys(value for node in behind for value in reads_of(node))
    inputs = [value for value in read if value not in own and not is_constant(value)]
    rest = _part(model, inputs, behind, set(outputs))
    for value, new in zip(inputs, rest.graph.inputs, strict=True):
        if value in late:
            # Its shape is that of one run, or none.
            new.shape = None
    return Cut(first, model, at, rest)


def sizes_in_loops(graph: ir.Graph) -> frozenset[str]:
    """Name the inputs of a part that become constants: they decide shapes of nodes in loops.

    Other nodes whose shapes depend on data run in Python, without a program for each value.
    """
    return frozenset(
        value.name or ""
        for value in graph.inputs
        for node, operand in value.uses()
        if operand in row_of(node.op_type).shapes and not _suits_numpy(node)
    )


def is_light(node: ir.Node) -> bool:
    """Tell whether Python runs a node behind a cut, for any sizes: an If if both branches do."""
    if not node.domain and node.op_type == "If":
        return all(is_light(inner) for graph in subgraphs_of(node) for inner in graph)
    return _suits_numpy(node)


def _runs_by_itself(node: ir.Node) -> bool:
    """Tell whether a node behind a cut takes any sizes: in Python, or as a program of one node."""
    return is_light(node) or runs_alone(node)


def _suits_numpy(node: ir.Node) -> bool:
    """Tell whether NumPy is fast enough for a node behind a cut, which is small there.

    To compile such nodes for each number of detections takes longer than to run them.
    """
    row = row_of(node.op_type)
    return not (
        node.domain or is_flow(node) or row.planned or row.layout in (Layout.PIXELS, Layout.PRICED)
    )


def _part(
    model: ir.Model, inputs: list[ir.Value], nodes: Sequence[ir.Node], wanted: Iterable[ir.Value]
) -> ir.Model:
    """Copy some nodes as a model, with the wanted values among their results as outputs."""
    made = [value for node in nodes for value in node.outputs]
    wanted = set(wanted)
    fixed = dict.fromkeys(value for node in nodes for value in reads_of(node) if is_constant(value))
    view = ir.GraphView(
        inputs, [value for value in made if value in wanted], nodes=nodes,
        initializers=list(fixed), opset_imports=dict(model.opset_imports), name=model.graph.name,
    )  # fmt: skip
    return ir.Model(view.clone(), ir_version=model.ir_version)
