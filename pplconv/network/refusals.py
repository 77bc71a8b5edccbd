"""What a session refuses to run, said all at once."""

from __future__ import annotations

from collections import defaultdict

import onnx_ir as ir

from .operators import OPERATORS
from .operators.expressions import EXPRESSIONS

# Operators that no loop of ours computes, or not for all types and attributes: ONNX's reference
# does, in Python. Most of them stand where shapes are computed, and are gone when shapes are known.
IN_PYTHON = frozenset({
    "And", "ArgMax", "ArgMin", "BatchNormalization", "Cast", "CastLike", "Constant",
    "ConstantOfShape", "CumSum", "DepthToSpace", "Dropout", "Einsum", "Elu", "Equal", "EyeLike",
    "GRU", "GatherElements", "GatherND", "Greater", "GreaterOrEqual", "GroupNormalization",
    "InstanceNormalization", "IsInf", "IsNaN", "LSTM", "Less", "LessOrEqual", "LpNormalization",
    "Mod", "NonMaxSuppression", "NonZero", "Not", "OneHot", "Or", "RNN", "Range", "ReduceL1",
    "ReduceLogSum", "ReduceLogSumExp", "ReduceProd", "ScatterElements", "ScatterND", "Selu",
    "Shape", "Sign", "Size", "Softplus", "Softsign", "SpaceToDepth", "Tile", "TopK", "Trilu",
    "Where", "Xor",
})  # fmt: skip
# They have graphs inside, which see values outside.
CONTROL_FLOW = frozenset({"If", "Loop", "Scan"})


def check_operators(graph: ir.Graph, fallback: bool) -> None:
    """Refuse a graph with operators that cannot run.

    Parameters
    ----------
    graph : ir.Graph
        A prepared graph.
    fallback : bool
        Whether ONNX's reference may run what is not listed here.

    Raises
    ------
    ValueError
        Naming each operator, how often it occurs, and its nodes.
    """
    found: dict[str, list[str]] = defaultdict(list)
    for node in graph:
        if node.domain == "" and (
            node.op_type in OPERATORS or node.op_type in EXPRESSIONS or node.op_type in IN_PYTHON
        ):
            continue
        if fallback and node.domain == "" and node.op_type not in CONTROL_FLOW:
            continue
        kind = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
        found[kind].append(node.name or node.outputs[0].name or "?")
    if not found:
        return
    lines = [
        f"{kind}, {len(names)} of them: {', '.join(names)}" for kind, names in sorted(found.items())
    ]
    hint = "" if fallback else "; fallback=True runs ONNX's own operators in onnx.reference"
    raise ValueError(f"model has operators that cannot run ({'; '.join(lines)}){hint}")
