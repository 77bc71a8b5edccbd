"""How many threads the program of a graph deserves."""

from __future__ import annotations

import math
from dataclasses import replace

from .. import planner
from .builder import Settings
from .nodes import Graph, Node

# What moving one element costs, in floating-point operations at the peak of a core.
FLOPS_OF_AN_ELEMENT = 8


def flops_of(node: Node, graph: Graph) -> int:
    """Estimate the floating-point operations of a node; an element that is moved counts as some."""
    shapes = graph.shapes
    written = sum(math.prod(shapes[name]) for name in node.outputs if name)
    kind = node.op.removeprefix("pplconv.")
    if kind in ("Conv", "ConvTranspose"):
        weight = shapes[node.inputs[1]]
        pixels = written if kind == "Conv" else math.prod(shapes[node.inputs[0]])
        return 2 * pixels * math.prod(weight[1:])
    if kind in ("Gemm", "Linear", "MatMul"):
        columns = max(shapes[node.outputs[0]][-1:], default=1)
        return 2 * written * (math.prod(shapes[node.inputs[1]][-2:]) // max(columns, 1))
    if kind in ("GRU", "LSTM"):
        times = math.prod(shapes[node.inputs[0]][:2])
        return 2 * times * sum(math.prod(shapes[name]) for name in node.inputs[1:3])
    return FLOPS_OF_AN_ELEMENT * written


def with_team(settings: Settings, graph: Graph) -> Settings:
    """Give the settings with the threads that pay: each step costs a wait for the others.

    Parameters
    ----------
    settings : Settings
        Its team is the largest.
    graph : Graph
        Whose nodes are about as many as the steps of its program.
    """
    wanted = planner.team_size(settings.threads)
    flops = sum(flops_of(node, graph) for node in graph.nodes)
    pays = planner.paying_team(flops / max(len(graph.nodes), 1), wanted)
    return settings if pays == wanted else replace(settings, threads=pays)
